//! Elementwise functions composed from ops, in forms that avoid overflow and cancellation.

use super::*;

impl Value {
    /// Computes `min(max(x, low), high)` elementwise. Each bound can be a number or a [`Value`]. NaN propagates.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").clamp(0.0, 1.0))?;
    /// assert_eq!(evaluate(&graph, &[[-1f32, 0.5, 2.0].into()])?, [[0f32, 0.5, 1.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp(self, low: impl Into<Operand>, high: impl Into<Operand>) -> Value {
        self.maximum(low).minimum(high)
    }

    /// Computes the larger of x and 0. Its derivative at 0 is 0, as in JAX, whereas the derivative of
    /// [`maximum`](Value::maximum) is 1/2.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").relu())?;
    /// assert_eq!(evaluate(&graph, &[[-1f32, 2.0].into()])?, [[0f32, 2.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn relu(self) -> Value {
        select(self.le(0), 0, self)
    }

    /// Computes the exact GELU, x times the standard normal cumulative distribution function at x: x * (1 + erf(x /
    /// sqrt(2))) / 2.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").gelu())?;
    /// assert_eq!(evaluate(&graph, &[[0f32, 100.0].into()])?, [[0f32, 100.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn gelu(self) -> Value {
        0.5 * self * (1.0 + (self * std::f64::consts::FRAC_1_SQRT_2).erf())
    }

    /// Computes x * sigmoid(x), also called swish. Returns NaN at -inf.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").silu())?;
    /// assert_eq!(evaluate(&graph, &[[0f32, 100.0].into()])?, [[0f32, 100.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn silu(self) -> Value {
        self * self.sigmoid()
    }

    /// Computes log(1 + exp(x)) without overflow.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").softplus())?;
    /// assert_eq!(evaluate(&graph, &[[-1000f32, 1000.0].into()])?, [[0f32, 1000.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn softplus(self) -> Value {
        // Both cases of the formula equal log(1 + exp(x)) for every x, so derivatives of every order are correct at 0.
        let is_positive = self.gt(0.0);
        select(is_positive, self, 0.0) + select(is_positive, -self, self).exp().log1p()
    }

    /// Computes log(sigmoid(x)) without overflow.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").log_sigmoid())?;
    /// assert_eq!(evaluate(&graph, &[[-1000f32, 1000.0].into()])?, [[-1000f32, 0.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn log_sigmoid(self) -> Value {
        -(-self).softplus()
    }

    /// Computes log(exp(x) + exp(y)) elementwise without overflow, where y is `right`. Returns NaN where x or y is NaN.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2]").logaddexp(0.0))?;
    /// assert_eq!(evaluate(&graph, &[[-1000f32, 1000.0].into()])?, [[0f32, 1000.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp(self, right: impl Into<Operand>) -> Value {
        let (x, y) = Operand::pair("logaddexp", self.into(), right.into());
        let is_larger = x.gt(y);
        let larger = select(is_larger, x, y);
        // Use 0 as the difference of two equal infinities, because infinity minus infinity would be NaN.
        let is_infinite = x.eq(y) & !larger.is_finite();
        let difference = select(is_infinite, 0.0, select(is_larger, y - x, x - y));
        larger + difference.exp().log1p()
    }

    /// Computes sqrt(x * x + y * y) elementwise without overflow of the squares, where y is `right`. Returns NaN where
    /// x or y is NaN. The derivatives at (0, 0) are 0.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[]").hypot(g.input("y", "f32[]")))?;
    /// assert_eq!(evaluate(&graph, &[3e30f32.into(), 4e30f32.into()])?, [5e30f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn hypot(self, right: Value) -> Value {
        // The factor `length` cancels out, so derivatives can treat it as a constant.
        let length = magnitude(self, right);
        let sum = (self / length).square() + (right / length).square();
        let is_zero = sum.eq(0.0);
        select(is_zero, 0.0, length * select(is_zero, 1.0, sum).sqrt())
    }
}

/// Returns the larger of |x| and |y|, with its gradient stopped. If x and y are divided by this number, the sum of the
/// squares neither overflows nor underflows. Returns 1 where x or y is not finite. Otherwise, the result is at least a
/// small constant with a finite reciprocal.
pub(crate) fn magnitude(x: Value, y: Value) -> Value {
    let least = match x.dtype() {
        DType::F16 => 2f64.powi(-14),
        DType::F64 => 2f64.powi(-900),
        _ => 2f64.powi(-100),
    };
    let larger = x.abs().maximum(y.abs()).stop_gradient();
    select(larger.is_finite(), larger.maximum(least), 1.0)
}
