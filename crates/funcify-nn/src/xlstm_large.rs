//! The layer of xLSTM 7B: an mLSTM with its projections.

use super::xlstm::matrix_memory;
use super::*;

/// The mLSTM layer of xLSTM 7B, also called xLSTM large (Beck et al. 2025).
///
/// The layer differs from the mLSTM of [`Xlstm`](super::Xlstm) as follows: q, not k, is divided by `√(key / heads)`;
/// the preactivations x of the input and forget gates are soft-capped as `cap tanh(x / cap)`; 1e-6 is added to the
/// denominator of h; the output of each head is normalised to mean 0 and variance 1, and scaled, before the output gate
/// is applied; and an output projection follows. The states are `memory [B, heads, key / heads, value / heads]`, `n [B,
/// heads, key / heads]`, `m [B, heads]`.
///
/// Parameters have the names and shapes of the authors' code and of `transformers`: `q.weight [key, features]`,
/// `k.weight`, `v.weight [value, features]`, `ogate_preact.weight`, `igate_preact.weight [heads, features]`,
/// `igate_preact.bias`, `fgate_preact.weight`, `fgate_preact.bias`, `multihead_norm.weight [value]`, `out_proj.weight
/// [features, value]`.
///
/// ```
/// use funcify::nn::XlstmLarge;
///
/// let layer = XlstmLarge::new(8, 2).layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,2,2,4]", "f32[B,2,2]", "f32[B,2]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct XlstmLarge {
    /// The number of input and output features.
    pub features: usize,
    /// The number of heads.
    pub heads: usize,
    /// The total number of key features of all heads.
    pub key: usize,
    /// The total number of value features of all heads.
    pub value: usize,
    /// The soft cap on the preactivations of the input and forget gates.
    pub cap: f64,
    /// The epsilon added to the variance when a head's output is normalised.
    pub epsilon: f64,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl XlstmLarge {
    /// Creates a layer for f32 sequences of shape `[B,T,F]` with the authors' options: `key` is `features / 2`,
    /// `value` is `features`, and the gate preactivations are capped at 15.
    pub fn new(features: usize, heads: usize) -> Self {
        let (key, value, cap, epsilon) = (features / 2, features, 15.0, 1e-6);
        XlstmLarge { features, heads, key, value, cap, epsilon, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0, if `heads`
    /// does not divide `key` and `value`, or if the dtype is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let (name, site) = ("xlstm_large", Site::caller());
        let sizes = [self.features, self.heads, self.key, self.value];
        check_keys_and_values(name, site, sizes, &[])?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (features, heads) = (self.features, self.heads);
        let (key, value) = (self.key / heads, self.value / heads);
        let xs = inputs.sequence(features);
        let state = |name: &str, sizes: &[usize]| {
            let dims = std::iter::once(Dim::from("B")).chain(sizes.iter().map(|size| Dim::from(*size)));
            inputs.state(name, dims.collect::<Vec<Dim>>())
        };
        let init = (state("memory", &[heads, key, value]), state("n", &[heads, key]), state("m", &[heads]));
        let projected = |name: &str, size: usize| linear(xs, inputs.linear_weight(name, features, heads * size));
        let by_head = |x: Value, size: usize| x.reshape([xs.dim(0), xs.dim(1), heads.into(), size.into()]);
        let q = by_head(projected("q", key), key) * (key as f64).sqrt().recip();
        let k = by_head(projected("k", key), key);
        let v = by_head(projected("v", value), value);
        let output_gate = projected("ogate_preact", value).sigmoid();
        // Initially, the gates do not depend on the input: the input gates are nearly closed, and the forget gates are
        // nearly open.
        let gate = |name: &str, bias: Init| {
            let weight = inputs.parameter(&format!("{name}.weight"), &[heads, features], Init::Constant(0.0));
            let x = linear(xs, weight) + inputs.parameter(&format!("{name}.bias"), &[heads], bias);
            (x / self.cap).tanh() * self.cap
        };
        let i = gate("igate_preact", Init::Constant(-10.0));
        let spread = move |index: &[usize]| 3.0 + 3.0 * index[0] as f64 / (heads.max(2) - 1) as f64;
        let f = gate("fgate_preact", Init::from_fn(&[heads], spread));

        let (last, hs) = matrix_memory(init, ((q, k, v), (i, f)), Some(1e-6));
        let centred = hs - hs.mean(3).unsqueeze(3);
        let normal = centred * (centred.square().mean(3).unsqueeze(3) + self.epsilon).rsqrt();
        let scale = inputs.parameter("multihead_norm.weight", &[self.value], Init::Constant(1.0));
        let ys = normal.reshape(output_gate.shape()) * scale * output_gate;
        (linear(ys, inputs.linear_weight("out_proj", self.value, features)), vec![last.0, last.1, last.2])
    }
}
