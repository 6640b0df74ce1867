//! The parts that linear recurrent layers share: the recurrence `h' = a h + b`, computed step by step or by an
//! associative scan, and the short causal convolution before the recurrence.

use funcify_core::ops::associative::associative_scan;

use super::*;

/// Runs the elementwise recurrence `h' = a h + b` from the state `init`, with one row of `a` and of `b` per step.
/// Returns the last state, and the state after each step.
pub(super) fn affine_scan(init: Value, a: Value, b: Value, associative: bool) -> (Value, Value) {
    if !associative {
        return scan(init, (a, b), |h, (a, b)| {
            let next = a * h + b;
            (next, next)
        });
    }
    // Row 0 holds the initial state. The factor in row 0 does not affect any state.
    let before = |first: Value, rows: Value| concat(&[first.unsqueeze(0), rows], 0);
    let rows = (before(init.ones_like(), a), before(init, b));
    let (_, states) = associative_scan(rows, |(a1, b1), (a2, b2)| (a2 * a1, a2 * b1 + b2));
    (states.index(0, -1), states.slice(0, 1..))
}

/// Computes a depthwise causal convolution of `xs [T,B,F]` with a kernel of shape `[width,F]`, whose last row applies
/// to the current step. `before` holds the `width - 1` rows that precede `xs`. Returns the outputs and the last
/// `width - 1` input rows. The call for the next chunk takes these rows as `before`.
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
    /// Declares a state of shape `[B, width - 1, features]`: the convolution inputs that precede the first step.
    /// Returns the state in the layout `[width - 1, B, features]`.
    pub(super) fn rows_before(&self, name: &str, width: usize, features: usize) -> Value {
        let dims = [Dim::from("B"), (width - 1).into(), features.into()];
        self.state(name, dims).move_axis(1, 0)
    }

    /// Declares the kernel of a short convolution in PyTorch's depthwise layout `[features, 1, width]`. Returns the
    /// kernel in the layout `[width, features]`.
    pub(super) fn short_kernel(&self, name: &str, features: usize, width: usize) -> Value {
        let init = Init::Uniform((width as f64).recip().sqrt());
        self.parameter(&format!("{name}.weight"), &[features, 1, width], init).squeeze(1).t()
    }

    /// Declares the weight and the bias of a linear layer, and applies the layer to `x`.
    pub(super) fn affine(&self, x: Value, name: &str, from: usize, to: usize) -> Value {
        let weight = self.linear_weight(name, from, to);
        let bias = self.parameter(&format!("{name}.bias"), &[to], Init::Uniform((from as f64).recip().sqrt()));
        super::linear(x, weight) + bias
    }
}
