//! Elementwise functions that are compositions of ops, in forms that neither overflow nor cancel.

use super::{Operand, Value, select};

impl Value {
    /// min(max(x, low), high), elementwise: within the bounds, which may be numbers or values. NaN stays NaN.
    #[track_caller]
    pub fn clamp(self, low: impl Into<Operand>, high: impl Into<Operand>) -> Value {
        self.maximum(low).minimum(high)
    }

    /// The larger of x and 0.
    #[track_caller]
    pub fn relu(self) -> Value {
        self.maximum(0)
    }

    /// x times the probability that a normal variable is below x: x * (1 + erf(x / sqrt(2))) / 2.
    #[track_caller]
    pub fn gelu(self) -> Value {
        0.5 * self * (1.0 + (self * std::f64::consts::FRAC_1_SQRT_2).erf())
    }

    /// x * sigmoid(x), also called swish; NaN at -inf.
    #[track_caller]
    pub fn silu(self) -> Value {
        self * self.sigmoid()
    }

    /// log(1 + exp(x)), without overflow.
    #[track_caller]
    pub fn softplus(self) -> Value {
        self.relu() + (-self.abs()).exp().log1p()
    }

    /// sqrt(x * x + y * y), without overflow of the squares; NaN if either is NaN.
    #[track_caller]
    pub fn hypot(self, right: Value) -> Value {
        let (x, y) = (self.abs(), right.abs());
        let (large, small) = (x.maximum(y), x.minimum(y));
        // Equal ones may both be zero or infinite.
        let ratio = select(large.eq(small), 1.0, small / large);
        large * (1.0 + ratio.square()).sqrt()
    }
}
