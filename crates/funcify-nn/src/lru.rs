//! LRU: a diagonal linear recurrence with complex states.

use std::f64::consts::TAU;

use super::state_space::{scan_in_parallel, scan_in_steps};
use super::*;

/// The linear recurrent unit (Orvieto et al. 2023, Resurrecting Recurrent Neural Networks for Long Sequences).
///
/// From the input u, each step computes the complex state x and the output y by `x' = λ x + exp(gamma_log) (B u)` and
/// `y = Re(C x) + D u`, where `λ = exp(-exp(nu_log) + i exp(theta_log))` has a magnitude below 1 for any parameter
/// values. The state is stored as two tensors of shape `[B, states]`: its real and imaginary parts. The parameters are
/// those of the paper's appendix: `nu_log [N]`, `theta_log [N]`, `gamma_log [N]`, `B_re [N,H]`, `B_im [N,H]`, `C_re
/// [H,N]`, `C_im [H,N]`, `D [H]`, where N is `states` and H is `features`. The initial values of λ are distributed
/// evenly over a ring.
///
/// ```
/// use funcify::nn::Lru;
///
/// let layer = Lru { ring: (0.5, 0.9), ..Lru::new(8, 16) }.layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,16]", "f32[B,16]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lru {
    /// The number H of input and output features.
    pub features: usize,
    /// The number N of complex states.
    pub states: usize,
    /// The smallest and largest initial magnitudes of λ.
    pub ring: (f64, f64),
    /// The largest initial phase of λ.
    pub max_phase: f64,
    /// `true` to run an associative scan of logarithmic depth, `false` to run step by step, which needs less memory.
    pub associative: bool,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl Lru {
    /// Creates a layer that runs an associative scan over f32 sequences of shape `[B,T,F]`. The initial magnitudes of
    /// λ are between 0.9 and 0.999.
    pub fn new(features: usize, states: usize) -> Self {
        let (ring, max_phase) = ((0.9, 0.999), TAU);
        Lru { features, states, ring, max_phase, associative: true, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0 or the dtype
    /// is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        check_at_least_one("lru", Site::caller(), &[("features", self.features), ("states", self.states)])?;
        layer("lru", self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    /// Returns the initial magnitude of λ for a state. The squares of the magnitudes are evenly spaced.
    fn magnitude(&self, state: usize) -> f64 {
        let (low, high) = (self.ring.0.powi(2), self.ring.1.powi(2));
        (low + (high - low) * (state as f64 + 0.5) / self.states as f64).sqrt()
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (h, n) = (self.features, self.states);
        let us = inputs.sequence(h);
        let state = || [Dim::from("B"), Dim::from(n)];
        let init = (inputs.state("state_re", state()), inputs.state("state_im", state()));
        let of_states = |number: &dyn Fn(usize) -> f64| Init::from_fn(&[n], |index| number(index[0]));
        let nu = inputs.parameter("nu_log", &[n], of_states(&|state| (-self.magnitude(state).ln()).ln())).exp();
        // Compute the phases from the fractional parts of multiples of the golden ratio. These fractional parts are
        // evenly distributed, and uncorrelated with the magnitudes.
        let phase = |state: usize| ((state + 1) as f64 * 0.618_033_988_749_895).fract() * self.max_phase;
        let theta = inputs.parameter("theta_log", &[n], of_states(&|state| phase(state).ln())).exp();
        let gamma = of_states(&|state| (1.0 - self.magnitude(state).powi(2)).sqrt().ln());
        let gamma = inputs.parameter("gamma_log", &[n], gamma).exp();
        let normal = Init::Normal((2.0 * h as f64).recip().sqrt());
        let [b_re, b_im] = ["B_re", "B_im"].map(|name| inputs.parameter(name, &[n, h], normal.clone()));
        let [c_re, c_im] =
            ["C_re", "C_im"].map(|name| inputs.parameter(name, &[h, n], Init::Normal((n as f64).recip().sqrt())));
        let d = inputs.parameter("D", &[h], Init::Normal(1.0));

        let decay = (-nu).exp();
        let rate = (decay * theta.cos(), decay * theta.sin());
        let driven = (linear(us, b_re) * gamma, linear(us, b_im) * gamma);
        let (last, states) =
            if self.associative { scan_in_parallel(rate, init, driven) } else { scan_in_steps(rate, init, driven) };
        let ys = linear(states.0, c_re) - linear(states.1, c_im) + d * us;
        (ys, vec![last.0, last.1])
    }
}
