//! The selective scan: the core of Mamba.

use super::*;

/// A state space layer whose step size, input map and output map depend on the input: the core of Mamba (Gu and Dao
/// 2023).
///
/// For the input u, let `[dt, b, c] = u W_xᵀ`, `Δ = softplus(dt W_dtᵀ + bias)` and `A = -exp(A_log)`. Each feature
/// computes `h' = exp(Δ A) h + Δ b u` for its `states` states, and the output `y = c·h + D u`. The state has shape `[B,
/// features, states]`. Parameters have the names and shapes of the authors' code: `x_proj.weight [rank + 2 states,
/// features]`, `dt_proj.weight [features, rank]`, `dt_proj.bias`, `A_log [features, states]`, `D [features]`. Each step
/// computes its own `exp(Δ A)`, so the layer never stores these factors for all steps.
///
/// ```
/// use funcify::nn::SelectiveScan;
///
/// let layer = SelectiveScan { states: 4, ..SelectiveScan::new(8) }.layer()?;
/// assert_eq!(layer.states[0].to_string(), "f32[B,8,4]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SelectiveScan {
    /// The number of input and output features.
    pub features: usize,
    /// The number of states per feature.
    pub states: usize,
    /// The rank of the projection that computes the step sizes.
    pub rank: usize,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl SelectiveScan {
    /// Creates a layer for f32 sequences of shape `[B,T,F]` with Mamba's sizes: 16 states and a rank of `features / 16`
    /// (rounded up).
    pub fn new(features: usize) -> Self {
        SelectiveScan { features, states: 16, rank: features.div_ceil(16), batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0 or the dtype
    /// is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let options = [("features", self.features), ("states", self.states), ("rank", self.rank)];
        check_at_least_one("selective_scan", Site::caller(), &options)?;
        layer("selective_scan", self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let us = inputs.sequence(self.features);
        let init = inputs.state("state", [Dim::from("B"), self.features.into(), self.states.into()]);
        let (ys, last) = self.run(inputs, us, init);
        (ys, vec![last])
    }

    /// Declares the parameters and runs the scan over `us [T,B,F]`. Returns the outputs and the last state.
    pub(super) fn run(&self, inputs: &Inputs<'_>, us: Value, init: Value) -> (Value, Value) {
        let (features, states, rank) = (self.features, self.states, self.rank);
        let x_proj = inputs.linear_weight("x_proj", features, rank + 2 * states);
        let dt_proj = inputs.linear_weight("dt_proj", rank, features);
        // Choose step sizes between 0.001 and 0.1 for an input of 0, and initialise the bias to their inverse softplus.
        let steps = Init::logspaced(1e-3, 1e-1, features);
        let bias = Init::from_fn(&[features], |index| steps(index[0]).exp_m1().ln());
        let bias = inputs.parameter("dt_proj.bias", &[features], bias);
        let a_log = Init::from_fn(&[features, states], |index| ((index[1] + 1) as f64).ln());
        let a = -inputs.parameter("A_log", &[features, states], a_log).exp();
        let d = inputs.parameter("D", &[features], Init::Constant(1.0));

        let projected = linear(us, x_proj);
        let part = |start: usize, count: usize| projected.slice(2, start as i64..(start + count) as i64);
        let delta = (linear(part(0, rank), dt_proj) + bias).softplus();
        let rows = (us, delta, part(rank, states), part(rank + states, states));
        let (last, ys) = scan(init, rows, |h, (u, delta, b, c)| {
            let decay = (delta.unsqueeze(2) * a).exp();
            let h = decay * h + (delta * u).unsqueeze(2) * b.unsqueeze(1);
            (h, (h * c.unsqueeze(1)).sum(2))
        });
        (ys + d * us, last)
    }
}
