//! RWKV-4: the time-mixing layer with two running sums per feature.

use super::*;

/// The time-mixing layer of RWKV-4 (Peng et al. 2023, RWKV: Reinventing RNNs for the Transformer Era): a running mean
/// of values, weighted by exponentials of keys. The weights decay with every step.
///
/// Receptance r, key k and value v are each projected from a separate mixture of the input x and the input of the
/// previous step. With `w = exp(time_decay)`, the memory consists of the sums `num' = exp(-w) num + exp(k) v` and `den'
/// = exp(-w) den + exp(k)`. Each step outputs the projection of `sigmoid(r) (num + exp(time_first + k) v) / (den +
/// exp(time_first + k))`. The stored sums are scaled by `exp(-max)`, so that no exponential overflows. The states are
/// `shift [B, features]`, which holds the input before the first step, and `num`, `den` and `max`, of shape `[B,
/// inner]`. All states are zero at the beginning of a sequence.
///
/// The parameters have the names and shapes that they have in `transformers`: `time_decay [inner]`, `time_first
/// [inner]`, `time_mix_key [1, 1, features]` (the weight of x in the mixture for the key), `time_mix_value`,
/// `time_mix_receptance`; `key.weight [inner, features]`, `value.weight`, `receptance.weight`, `output.weight
/// [features, inner]`.
///
/// ```
/// use funcify::nn::Rwkv4;
///
/// let layer = Rwkv4::new(8).layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,8]", "f32[B,8]", "f32[B,8]", "f32[B,8]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rwkv4 {
    /// The number of input and output features.
    pub features: usize,
    /// The number of features of the memory.
    pub inner: usize,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl Rwkv4 {
    /// Creates a layer for f32 sequences of shape `[B,T,F]`, with `inner` equal to `features`.
    pub fn new(features: usize) -> Self {
        Rwkv4 { features, inner: features, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0 or the dtype
    /// is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        check_at_least_one("rwkv4", Site::caller(), &[("features", self.features), ("inner", self.inner)])?;
        layer("rwkv4", self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (features, inner) = (self.features, self.inner);
        let xs = inputs.sequence(features);
        let shift = inputs.state("shift", [Dim::from("B"), features.into()]);
        let init = ["num", "den", "max"].map(|name| inputs.state(name, [Dim::from("B"), inner.into()]));
        // Initially, the decay times of the features range from below one step to about 150 steps.
        let place = move |index: &[usize]| index[0] as f64 / inner.max(2) as f64;
        let decays = Init::from_fn(&[inner], move |index| -5.0 + 8.0 * place(index).powf(0.7));
        let decay = -inputs.parameter("time_decay", &[inner], decays).exp();
        let first = inputs.parameter("time_first", &[inner], Init::Constant(1.0));

        let rows = concat(&[shift.unsqueeze(0), xs], 0);
        let before = rows.slice(0, Dim::from(0)..xs.dim(0));
        let projected = |name: &str| {
            let share = inputs.parameter(&format!("time_mix_{name}"), &[1, 1, features], Init::Constant(0.5));
            let share = share.squeeze(0).squeeze(0);
            linear(xs * share + before * (1.0 - share), inputs.linear_weight(name, features, inner))
        };
        let [k, v, r] = ["key", "value", "receptance"].map(projected);
        let (last, means) = scan(init, (k, v), |[num, den, max], (k, v)| {
            // Add a term to both sums, and scale them by `exp(-next)`, where `next` is the new maximum, so that no
            // exponential exceeds 1.
            let added = |max: Value, key: Value| {
                let next = max.maximum(key);
                let (kept, new) = ((max - next).exp(), (key - next).exp());
                (kept * num + new * v, kept * den + new, next)
            };
            let (given, weight, _) = added(max, first + k);
            let (num, den, max) = added(max + decay, k);
            ([num, den, max], given / weight)
        });
        let ys = linear(r.sigmoid() * means, inputs.linear_weight("output", inner, features));
        (ys, [vec![rows.index(0, -1)], last.to_vec()].concat())
    }
}
