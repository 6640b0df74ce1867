//! Shared parts of linear recurrent layers: the recurrence `h' = a h + b` in steps or as an associative scan, and the
//! short causal convolution before it.

use funcify_core::ops::associative::associative_scan;

use super::*;

/// Computes the last state and all states of `h' = a h + b`, element by element, over rows of `a` and `b`.
pub(super) fn affine_scan(init: Value, a: Value, b: Value, associative: bool) -> (Value, Value) {
    if !associative {
        return scan(init, (a, b), |h, (a, b)| {
            let next = a * h + b;
            (next, next)
        });
    }
    // Row 0 is the state before the first step, whose factor is not used.
    let before = |first: Value, rows: Value| concat(&[first.unsqueeze(0), rows], 0);
    let rows = (before(init.ones_like(), a), before(init, b));
    let (_, states) = associative_scan(rows, |(a1, b1), (a2, b2)| (a2 * a1, a2 * b1 + b2));
    (states.index(0, -1), states.slice(0, 1..))
}

/// Computes a depthwise causal convolution over `[T,B,F]` with a kernel of `[width,F]`, whose last row applies to the
/// step itself. `before` are the `width - 1` rows before the first step; the last `width - 1` rows are returned as
/// well.
pub(super) fn short_convolution(xs: Value, before: Value, kernel: Value, width: usize) -> (Value, Value) {
    let rows = concat(&[before, xs], 0);
    let steps = xs.dim(0);
    let tap = |offset: usize| {
        let from = Dim::from(offset);
        rows.slice(0, from.clone()..steps.clone() + from) * kernel.index(0, offset as i64)
    };
    let sum = (1..width).fold(tap(0), |sum, offset| sum + tap(offset));
    (sum, rows.slice(0, steps.clone()..steps + (width - 1)))
}

impl Inputs<'_> {
    /// Declares the rows before the first step of a short convolution, a state `[B, width - 1, features]`, and
    /// returns them as `[width - 1, B, features]`.
    pub(super) fn rows_before(&self, name: &str, width: usize, features: usize) -> Value {
        let dims = [Dim::from("B"), (width - 1).into(), features.into()];
        self.state(name, dims).move_axis(1, 0)
    }

    /// Declares the kernel of a short convolution in the layout of PyTorch's depthwise one, `[features, 1, width]`,
    /// and returns it as `[width, features]`.
    pub(super) fn short_kernel(&self, name: &str, features: usize, width: usize) -> Value {
        let init = Init::Uniform((width as f64).recip().sqrt());
        self.parameter(&format!("{name}.weight"), &[features, 1, width], init).squeeze(1).t()
    }

    /// Applies a linear map with a bias.
    pub(super) fn affine(&self, x: Value, name: &str, from: usize, to: usize) -> Value {
        let weight = self.linear_weight(name, from, to);
        let bias = self.parameter(&format!("{name}.bias"), &[to], Init::Uniform((from as f64).recip().sqrt()));
        super::linear(x, weight) + bias
    }
}
