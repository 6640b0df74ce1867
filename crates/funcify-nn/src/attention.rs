//! Gated linear attention.

use super::*;

/// Gated linear attention (Yang et al. 2024): a linear attention layer with one memory matrix per head. The rows of
/// each matrix decay by gates that depend on the input.
///
/// Each head computes the next memory `S' = diag(α) S + kᵀ v` and the output `o = q S' / √(key / heads)`. The query q,
/// the key k and the value v are linear projections of the input x, and `α = sigmoid(x W₀ᵀ W₁ᵀ + b)^(1/16)` contains
/// one gate per row of S. The output of each head is RMS-normalised and gated by `silu(x W_gᵀ)`; an output projection
/// then combines the heads. The state has shape `[B, heads, key / heads, value / heads]`. Parameters have the names and
/// shapes of the authors' code: `q_proj.weight`, `k_proj.weight`, `v_proj.weight`, `g_proj.weight`, `gk_proj.0.weight
/// [rank, features]`, `gk_proj.1.weight`, `gk_proj.1.bias`, `g_norm_swish_gate.weight [value / heads]`,
/// `o_proj.weight`.
///
/// ```
/// use funcify::nn::GatedLinearAttention;
///
/// let layer = GatedLinearAttention::new(8, 2).layer()?;
/// assert_eq!(layer.states[0].to_string(), "f32[B,2,2,4]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GatedLinearAttention {
    /// The number of input and output features.
    pub features: usize,
    /// The number of heads.
    pub heads: usize,
    /// The total number of key features of all heads.
    pub key: usize,
    /// The total number of value features of all heads.
    pub value: usize,
    /// The rank of the projection that computes the gates.
    pub rank: usize,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl GatedLinearAttention {
    /// Creates a layer for f32 sequences of shape `[B,T,F]` with the authors' sizes: `key` is `features / 2`, `value`
    /// is `features`, and the rank is 16.
    pub fn new(features: usize, heads: usize) -> Self {
        let (key, value) = (features / 2, features);
        GatedLinearAttention { features, heads, key, value, rank: 16, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0, if `heads`
    /// does not divide `key` and `value`, or if the dtype is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let (name, site) = ("gated_linear_attention", Site::caller());
        let sizes = [self.features, self.heads, self.key, self.value];
        check_keys_and_values(name, site, sizes, &[("rank", self.rank)])?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (features, heads) = (self.features, self.heads);
        let (key, value) = (self.key / heads, self.value / heads);
        let xs = inputs.sequence(features);
        let init = inputs.state("state", [Dim::from("B"), heads.into(), key.into(), value.into()]);
        let [q, k] = ["q_proj", "k_proj"].map(|name| linear(xs, inputs.linear_weight(name, features, self.key)));
        let [v, g] = ["v_proj", "g_proj"].map(|name| linear(xs, inputs.linear_weight(name, features, self.value)));
        let narrow = linear(xs, inputs.linear_weight("gk_proj.0", features, self.rank));
        let wide = linear(narrow, inputs.linear_weight("gk_proj.1", self.rank, self.key));
        let bias = inputs.parameter("gk_proj.1.bias", &[self.key], Init::Constant(0.0));
        let gate = (-((-(wide + bias)).softplus()) / 16.0).exp();

        let by_head = |x: Value, size: usize| {
            let shape = x.shape();
            x.reshape([shape[0].clone(), shape[1].clone(), Dim::from(heads), Dim::from(size)])
        };
        let rows = (by_head(q, key), by_head(k, key), by_head(v, value), by_head(gate, key));
        let (last, os) = scan(init, rows, |s, (q, k, v, gate)| {
            let s = gate.unsqueeze(3) * s + k.unsqueeze(3) * v.unsqueeze(2);
            (s, (q.unsqueeze(3) * s).sum(2))
        });
        let os = os * (key as f64).sqrt().recip();
        let norm = (os.square().mean(3).unsqueeze(3) + 1e-5).rsqrt();
        let scale = inputs.parameter("g_norm_swish_gate.weight", &[value], Init::Constant(1.0));
        let ys = (os * norm * scale).reshape(g.shape()) * g.silu();
        let ys = linear(ys, inputs.linear_weight("o_proj", self.value, features));
        (ys, vec![last])
    }
}
