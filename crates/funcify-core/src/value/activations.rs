//! Elementwise functions that are compositions of ops, in forms that neither overflow nor cancel.

use super::*;

impl Value {
    /// min(max(x, low), high), elementwise: within the bounds, which may be numbers or values. NaN stays NaN.
    #[track_caller]
    pub fn clamp(self, low: impl Into<Operand>, high: impl Into<Operand>) -> Value {
        self.maximum(low).minimum(high)
    }

    /// The larger of x and 0. Its derivative at 0 is 0, as in JAX, where that of [`maximum`](Value::maximum) is a half.
    #[track_caller]
    pub fn relu(self) -> Value {
        select(self.le(0), 0, self)
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
        // Each choice is the whole function, not one side of a kink, so that derivatives of every order are right at 0.
        let is_positive = self.gt(0.0);
        select(is_positive, self, 0.0) + select(is_positive, -self, self).exp().log1p()
    }

    /// log(sigmoid(x)), without overflow.
    #[track_caller]
    pub fn log_sigmoid(self) -> Value {
        -(-self).softplus()
    }

    /// log(exp(x) + exp(y)), elementwise, without overflow; NaN if either is NaN.
    #[track_caller]
    pub fn logaddexp(self, right: impl Into<Operand>) -> Value {
        let (x, y) = Operand::pair("logaddexp", self.into(), right.into());
        let is_larger = x.gt(y);
        let larger = select(is_larger, x, y);
        // Infinity minus infinity would be NaN.
        let is_infinite = x.eq(y) & !larger.is_finite();
        let difference = select(is_infinite, 0.0, select(is_larger, y - x, x - y));
        larger + difference.exp().log1p()
    }

    /// sqrt(x * x + y * y), without overflow of the squares; NaN if either is NaN. Its derivatives at (0, 0) are 0.
    #[track_caller]
    pub fn hypot(self, right: Value) -> Value {
        // The length cancels, so derivatives need not know where it comes from.
        let length = magnitude(self, right);
        let sum = (self / length).square() + (right / length).square();
        let is_zero = sum.eq(0.0);
        select(is_zero, 0.0, length * select(is_zero, 1.0, sum).sqrt())
    }
}

/// The larger of |x| and |y|, without derivatives: what the two are divided by, so that the sum of their squares neither
/// overflows nor vanishes. 1 where one is not finite; where both are tiny, a number whose reciprocal is finite.
pub(crate) fn magnitude(x: Value, y: Value) -> Value {
    let least = match x.dtype() {
        DType::F16 => 2f64.powi(-14),
        DType::F64 => 2f64.powi(-900),
        _ => 2f64.powi(-100),
    };
    let larger = x.abs().maximum(y.abs()).stop_gradient();
    select(larger.is_finite(), larger.maximum(least), 1.0)
}
