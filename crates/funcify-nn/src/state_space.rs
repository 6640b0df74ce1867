//! S5: a diagonal linear state space model.

use std::f64::consts::PI;

use funcify_core::ops::associative::associative_scan;

use super::*;

/// The real and imaginary parts of a complex tensor.
pub(super) type Complex = (Value, Value);

/// A diagonal state space layer, S5 (Smith, Warrington and Linderman 2023).
///
/// The complex state x represents `states` conjugate pairs. For the input u, the recurrence is `x' = Λ̄ x + B̄ u`, and
/// the output is `y = 2 Re(C x) + D u`. Λ̄ and B̄ are Λ and B, discretised by a zero-order hold with step sizes
/// `exp(log_step)`. The state is stored as two tensors of shape `[B, states]`: its real and imaginary parts. Parameters
/// have the names and shapes of the authors' code: `Lambda_re [P]`, `Lambda_im [P]`, `B [P,H,2]`, `C [H,P,2]`, `D [H]`,
/// `log_step [P,1]`, where P is `states` and H is `features`. The initial value of Λ for state n is `-1/2 + iπn`
/// (S4D-Lin, Gu et al. 2022).
///
/// ```
/// use funcify::nn::S5;
///
/// let layer = S5 { associative: false, ..S5::new(8, 16) }.layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,16]", "f32[B,16]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct S5 {
    /// The number H of input and output features.
    pub features: usize,
    /// The number P of complex states.
    pub states: usize,
    /// `true` to run an associative scan of logarithmic depth, `false` to run step by step, which needs less memory.
    pub associative: bool,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl S5 {
    /// Creates a layer that runs an associative scan over f32 sequences of shape `[B,T,F]`.
    pub fn new(features: usize, states: usize) -> Self {
        S5 { features, states, associative: true, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0 or the dtype
    /// is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        check_at_least_one("s5", Site::caller(), &[("features", self.features), ("states", self.states)])?;
        layer("s5", self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (h, p) = (self.features, self.states);
        let us = inputs.sequence(h);
        let state = || [Dim::from("B"), Dim::from(p)];
        let init = (inputs.state("state_re", state()), inputs.state("state_im", state()));
        let lambda = (
            inputs.parameter("Lambda_re", &[p], Init::Constant(-0.5)),
            inputs.parameter("Lambda_im", &[p], Init::from_fn(&[p], |index| PI * index[0] as f64)),
        );
        let part = |value: Value| (value.index(2, 0), value.index(2, 1));
        let b = part(inputs.parameter("B", &[p, h, 2], Init::Normal((2.0 * h as f64).recip().sqrt())));
        let c = part(inputs.parameter("C", &[h, p, 2], Init::Normal((2.0 * p as f64).recip().sqrt())));
        let d = inputs.parameter("D", &[h], Init::Normal(1.0));
        let steps = Init::logspaced(1e-3, 1e-1, p);
        let log_step = Init::from_fn(&[p, 1], |index| steps(index[0]).ln());
        let step = inputs.parameter("log_step", &[p, 1], log_step).squeeze(1).exp();

        // Discretise Λ and B with a zero-order hold.
        let decay = (lambda.0 * step).exp();
        let angle = lambda.1 * step;
        let rate: Complex = (decay * angle.cos(), decay * angle.sin());
        let gain = divide((rate.0 - 1.0, rate.1), lambda);
        let column = |value: Value| value.unsqueeze(1);
        let b = multiply((column(gain.0), column(gain.1)), b);
        let driven: Complex = (linear(us, b.0), linear(us, b.1));

        let (last, states) =
            if self.associative { scan_in_parallel(rate, init, driven) } else { scan_in_steps(rate, init, driven) };
        let ys = (linear(states.0, c.0) - linear(states.1, c.1)) * 2.0 + d * us;
        (ys, vec![last.0, last.1])
    }
}

/// Runs the recurrence `x' = rate x + driven` step by step. Returns the last state, and the state after each step.
pub(super) fn scan_in_steps(rate: Complex, init: Complex, driven: Complex) -> (Complex, Complex) {
    scan(init, driven, |x, u| {
        let moved = multiply(rate, x);
        let next = (moved.0 + u.0, moved.1 + u.1);
        (next, next)
    })
}

/// Runs the recurrence of [`scan_in_steps`] as an associative scan. Row 0 of the scan is the initial state. Returns the
/// last state, and the state after each step.
pub(super) fn scan_in_parallel(rate: Complex, init: Complex, driven: Complex) -> (Complex, Complex) {
    let rows = |init: Value, driven: Value| concat(&[init.unsqueeze(0), driven], 0);
    let steps = (rows(init.0, driven.0), rows(init.1, driven.1));
    let rates = (rate.0.broadcast_to(steps.0.shape()), rate.1.broadcast_to(steps.1.shape()));
    let (_, states) = associative_scan((rates, steps), |(a1, b1), (a2, b2)| {
        let moved = multiply(a2, b1);
        (multiply(a2, a1), (moved.0 + b2.0, moved.1 + b2.1))
    });
    let last = |states: Value| states.index(0, -1);
    ((last(states.0), last(states.1)), (states.0.slice(0, 1..), states.1.slice(0, 1..)))
}

fn multiply(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn divide(a: Complex, b: Complex) -> Complex {
    let norm = b.0 * b.0 + b.1 * b.1;
    let conjugate = multiply(a, (b.0, -b.1));
    (conjugate.0 / norm, conjugate.1 / norm)
}
