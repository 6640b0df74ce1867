//! The recurrent block of Griffin and RecurrentGemma: the RG-LRU with its input and output projections.

use super::rg_lru::{GateNames, gates};
use super::*;

/// The recurrent block of Griffin (De et al. 2024) as implemented in RecurrentGemma (Botev et al. 2024).
///
/// The block applies `linear_x` to its input, then a short causal convolution and the recurrence of
/// [`RgLru`](super::RgLru). It multiplies the result by `gelu(linear_y(input))`, using the `tanh` approximation of
/// `gelu`, and applies `linear_out`. The first step of a sequence ignores the state `h`, and does not scale the input
/// of the recurrence by `sqrt(1 - a²)`. The states are `h [B, inner]`; `conv [B, width - 1, inner]`, the convolution
/// inputs that precede the first step; and `started [B]`, which is 0 before the first step of a sequence and 1 after
/// it.
///
/// The parameters have the names and shapes that they have in `transformers`: `linear_x.weight [inner, features]`,
/// `linear_x.bias`, `linear_y.weight`, `linear_y.bias`, `linear_out.weight [features, inner]`, `linear_out.bias`,
/// `conv_1d.weight [inner, 1, width]`, `conv_1d.bias`, `rg_lru.recurrent_param [inner]`, `rg_lru.recurrent_gate_weight
/// [heads, inner / heads, inner / heads]`, `rg_lru.recurrent_gate_bias [heads, inner / heads]`,
/// `rg_lru.input_gate_weight`, `rg_lru.input_gate_bias`. The gradient of `sqrt(1 - a²)` is exact here, whereas
/// `transformers` clips it where `1 - a²` is below 2.5e-7.
///
/// ```
/// use funcify::nn::Griffin;
///
/// let layer = Griffin::new(8, 2).layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,8]", "f32[B,3,8]", "f32[B]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Griffin {
    /// The number of input and output features.
    pub features: usize,
    /// The number of features of the recurrence.
    pub inner: usize,
    /// The number of heads. The gates do not mix features of different heads.
    pub heads: usize,
    /// The width of the convolution kernel, in steps.
    pub width: usize,
    /// `true` to run an associative scan of logarithmic depth, `false` to run step by step, which needs less memory.
    pub associative: bool,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl Griffin {
    /// Creates a layer that runs an associative scan over f32 sequences of shape `[B,T,F]`, with `inner` equal to
    /// `features` and a convolution of width 4.
    pub fn new(features: usize, heads: usize) -> Self {
        let (inner, width, dtype) = (features, 4, DType::F32);
        Griffin { features, inner, heads, width, associative: true, batch_first: true, dtype }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0, if `heads`
    /// does not divide `inner`, or if the dtype is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let (name, site) = ("griffin", Site::caller());
        let sizes = [("features", self.features), ("inner", self.inner), ("heads", self.heads), ("width", self.width)];
        check_at_least_one(name, site, &sizes)?;
        check_divided_by_heads(name, site, self.heads, &[("inner", self.inner)])?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (features, inner, width) = (self.features, self.inner, self.width);
        let us = inputs.sequence(features);
        let h = inputs.state("h", [Dim::from("B"), inner.into()]);
        let before = inputs.rows_before("conv", width, inner);
        let started = inputs.state("started", [Dim::from("B")]);
        let xs = inputs.affine(us, "linear_x", features, inner);
        let gate = gelu_by_tanh(inputs.affine(us, "linear_y", features, inner));
        let (xs, last_before) = short_convolution(xs, before, inputs.short_kernel("conv_1d", inner, width), width);
        let xs = xs + inputs.parameter("conv_1d.bias", &[inner], Init::Constant(0.0));

        let names = GateNames {
            rate: "rg_lru.recurrent_param",
            recurrent: ["rg_lru.recurrent_gate_weight", "rg_lru.recurrent_gate_bias"],
            input: ["rg_lru.input_gate_weight", "rg_lru.input_gate_bias"],
        };
        let (log_a, input) = gates(inputs, xs, inner, self.heads, &names);
        // Row `t` of `rows` is 1 if the sequence started before step `t`, and 0 otherwise. The last row is the final
        // value of `started`.
        let steps = xs.dim(0);
        let rows = concat(&[started.unsqueeze(0), xs.index(2, 0).ones_like()], 0);
        let going_on = rows.slice(0, Dim::from(0)..steps).unsqueeze(2);
        let factor = going_on * (-(log_a * 2.0).expm1()).sqrt() + (1.0 - going_on);
        let (last, hs) = affine_scan(h, going_on * log_a.exp(), factor * (input * xs), self.associative);
        let ys = inputs.affine(hs * gate, "linear_out", inner, features);
        (ys, vec![last, last_before.move_axis(0, 1), rows.index(0, -1)])
    }
}

/// Computes the `tanh` approximation of `gelu` (Hendrycks and Gimpel 2016), with `(1 + tanh(z)) / 2` written as
/// `sigmoid(2 z)`.
fn gelu_by_tanh(x: Value) -> Value {
    let twice = (8.0 / std::f64::consts::PI).sqrt();
    x * ((x + x.square() * x * 0.044715) * twice).sigmoid()
}
