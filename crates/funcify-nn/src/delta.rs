//! DeltaNet and gated DeltaNet: linear attention that overwrites the value stored for a key.

use super::*;

/// DeltaNet (Yang et al. 2024, Parallelizing Linear Transformers with the Delta Rule over Sequence Length) or, if
/// `gated` is set, gated DeltaNet (Yang, Kautz and Hatamizadeh 2024).
///
/// Queries q, keys k and values v are linear projections of the input x, followed by short causal convolutions and
/// `silu`. Queries and keys are normalised to unit length in each head. Each head computes a scalar `β = sigmoid(x
/// W_bᵀ)` (doubled if `negative` is set), the next memory `S' = α S + k β (v - α Sᵀ k)ᵀ`, and the output `o = S'ᵀ q /
/// √(key / heads)`. If `gated` is set, α is `exp(-exp(A_log) softplus(x W_aᵀ + dt_bias))`; otherwise it is 1. The
/// output of each head is RMS-normalised, scaled and, if `gated` is set, gated by `silu(x W_gᵀ)`; an output projection
/// then combines the heads.
///
/// The states are `memory [B, heads, key / heads, value / heads]`, and the convolution inputs that precede the first
/// step: `conv_q`, `conv_k` and `conv_v`, of shape `[B, width - 1, ..]`. Parameters have the names and shapes of the
/// authors' code (flash-linear-attention) and of OLMo Hybrid's weight files: `q_proj.weight`, `k_proj.weight`,
/// `v_proj.weight`, `q_conv1d.weight [key, 1, width]`, `k_conv1d.weight`, `v_conv1d.weight`, `b_proj.weight [heads,
/// features]`, `o_norm.weight [value / heads]`, `o_proj.weight`. A gated layer also has `a_proj.weight`, `A_log
/// [heads]`, `dt_bias [heads]` and `g_proj.weight`.
///
/// ```
/// use funcify::nn::DeltaNet;
///
/// let layer = DeltaNet { gated: true, ..DeltaNet::new(8, 2) }.layer()?;
/// assert_eq!(layer.states[0].to_string(), "f32[B,2,4,4]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeltaNet {
    /// The number of input and output features.
    pub features: usize,
    /// The number of heads.
    pub heads: usize,
    /// The total number of key features of all heads.
    pub key: usize,
    /// The total number of value features of all heads.
    pub value: usize,
    /// The width of the convolution kernels, in steps.
    pub width: usize,
    /// `true` if the memory decays and the outputs are gated.
    pub gated: bool,
    /// `true` to let β range from 0 to 2, which allows negative eigenvalues in the state transition (Grazzi et al.
    /// 2024, Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues).
    pub negative: bool,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl DeltaNet {
    /// Creates an ungated layer for f32 sequences of shape `[B,T,F]`. The keys and values have as many features as the
    /// input, the convolution kernels have width 4, and β is between 0 and 1.
    pub fn new(features: usize, heads: usize) -> Self {
        let (key, value, width, dtype) = (features, features, 4, DType::F32);
        DeltaNet { features, heads, key, value, width, gated: false, negative: false, batch_first: true, dtype }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0, if `heads`
    /// does not divide `key` and `value`, or if the dtype is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let (name, site) = (if self.gated { "gated_delta_net" } else { "delta_net" }, Site::caller());
        let sizes = [self.features, self.heads, self.key, self.value];
        check_keys_and_values(name, site, sizes, &[("width", self.width)])?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (features, heads) = (self.features, self.heads);
        let (key, value) = (self.key / heads, self.value / heads);
        let xs = inputs.sequence(features);
        let memory = inputs.state("memory", [Dim::from("B"), heads.into(), key.into(), value.into()]);
        let befores = [("conv_q", self.key), ("conv_k", self.key), ("conv_v", self.value)]
            .map(|(name, size)| inputs.rows_before(name, self.width, size));
        let mut lasts = Vec::new();
        let mut convolved = |name: &str, before: Value, size: usize| {
            let projected = linear(xs, inputs.linear_weight(&format!("{name}_proj"), features, self.features_of(size)));
            let kernel = inputs.short_kernel(&format!("{name}_conv1d"), self.features_of(size), self.width);
            let (rows, last) = short_convolution(projected, before, kernel, self.width);
            lasts.push(last.move_axis(0, 1));
            rows.silu().reshape([xs.dim(0), xs.dim(1), heads.into(), size.into()])
        };
        let unit = |x: Value| x * (x.square().sum(3).unsqueeze(3) + 1e-6).rsqrt();
        let q = unit(convolved("q", befores[0], key)) * (key as f64).sqrt().recip();
        let k = unit(convolved("k", befores[1], key));
        let v = convolved("v", befores[2], value);
        let beta = linear(xs, inputs.linear_weight("b_proj", features, heads)).sigmoid();
        let beta = if self.negative { beta * 2.0 } else { beta };

        // The memory `s` has one row per key feature.
        let write = |s: Value, (k, v, beta): (Value, Value, Value)| {
            let known = (k.unsqueeze(3) * s).sum(2);
            s + k.unsqueeze(3) * (beta.unsqueeze(2) * (v - known)).unsqueeze(2)
        };
        let read = |s: Value, q: Value| (q.unsqueeze(3) * s).sum(2);
        let (last, os) = if self.gated {
            let decays = Init::from_fn(&[heads], |index| (1.0 + 15.0 * (index[0] as f64 + 0.5) / heads as f64).ln());
            let rate = inputs.parameter("A_log", &[heads], decays).exp();
            let sizes = Init::logspaced(1e-3, 1e-1, heads);
            let bias = Init::from_fn(&[heads], |index| sizes(index[0]).exp_m1().ln());
            let delta = linear(xs, inputs.linear_weight("a_proj", features, heads))
                + inputs.parameter("dt_bias", &[heads], bias);
            let alpha = (-(rate * delta.softplus())).exp();
            scan(memory, (q, (k, v, beta), alpha), |s, (q, row, alpha)| {
                let s = write(alpha.unsqueeze(2).unsqueeze(3) * s, row);
                (s, read(s, q))
            })
        } else {
            scan(memory, (q, (k, v, beta)), |s, (q, row)| {
                let s = write(s, row);
                (s, read(s, q))
            })
        };
        let norm = (os.square().mean(3).unsqueeze(3) + 1e-5).rsqrt();
        let scale = inputs.parameter("o_norm.weight", &[value], Init::Constant(1.0));
        let mut ys = (os * norm * scale).reshape([xs.dim(0), xs.dim(1), self.value.into()]);
        if self.gated {
            ys = ys * linear(xs, inputs.linear_weight("g_proj", features, self.value)).silu();
        }
        let ys = linear(ys, inputs.linear_weight("o_proj", self.value, features));
        (ys, [vec![last], lasts].concat())
    }

    /// Returns the total number of features of all heads, given the number per head.
    fn features_of(&self, head: usize) -> usize {
        head * self.heads
    }
}
