//! RG-LRU: the real-gated linear recurrent unit of Griffin, with the short convolution that precedes it.

use super::*;

/// The RG-LRU of Griffin and RecurrentGemma (De et al. 2024): a short causal convolution, followed by a gated linear
/// recurrence of real numbers.
///
/// Let u be the convolution of the input x. Each head computes the gates `r = sigmoid(u W_a + b)` and `i = sigmoid(u
/// W_x + c)`. Then `a = exp(-8 r softplus(a_param))`, and the output is the new state `h' = a h + sqrt(1 - a²) (i u)`.
/// The states are `h [B, features]`, and `conv [B, width - 1, features]`, the convolution inputs that precede the first
/// step. Parameters have the names and shapes of the authors' code: `conv_1d.w [width, features]`, `conv_1d.b`,
/// `rg_lru.a_param [features]`, `rg_lru.a_gate.w [heads, features / heads, features / heads]`, `rg_lru.a_gate.b [heads,
/// features / heads]`, `rg_lru.input_gate.w`, `rg_lru.input_gate.b`. Unlike the authors' code, this layer also applies
/// the factor `sqrt(1 - a²)` at the first position of a document.
///
/// ```
/// use funcify::nn::RgLru;
///
/// let layer = RgLru::new(8, 2).layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,8]", "f32[B,3,8]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RgLru {
    /// The number of features of the input, the state and the output.
    pub features: usize,
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

impl RgLru {
    /// Creates a layer that has a convolution of width 4 and runs an associative scan over f32 sequences of shape
    /// `[B,T,F]`.
    pub fn new(features: usize, heads: usize) -> Self {
        RgLru { features, heads, width: 4, associative: true, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0, if `heads`
    /// does not divide `features`, or if the dtype is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let (name, site) = ("rg_lru", Site::caller());
        check_at_least_one(name, site, &[("features", self.features), ("heads", self.heads), ("width", self.width)])?;
        check_divided_by_heads(name, site, self.heads, &[("features", self.features)])?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (features, width) = (self.features, self.width);
        let xs = inputs.sequence(features);
        let h = inputs.state("h", [Dim::from("B"), features.into()]);
        let before = inputs.rows_before("conv", width, features);
        let kernel = inputs.parameter("conv_1d.w", &[width, features], Init::Normal((width as f64).recip().sqrt()));
        let (us, last_before) = short_convolution(xs, before, kernel, width);
        let us = us + inputs.parameter("conv_1d.b", &[features], Init::Constant(0.0));

        let names = GateNames {
            rate: "rg_lru.a_param",
            recurrent: ["rg_lru.a_gate.w", "rg_lru.a_gate.b"],
            input: ["rg_lru.input_gate.w", "rg_lru.input_gate.b"],
        };
        let (log_a, input) = gates(inputs, us, features, self.heads, &names);
        let added = (-(log_a * 2.0).expm1()).sqrt() * input * us;
        let (last, hs) = affine_scan(h, log_a.exp(), added, self.associative);
        (hs, vec![last, last_before.move_axis(0, 1)])
    }
}

/// The names of the recurrence's parameters. `RgLru` and `Griffin` use different names.
pub(super) struct GateNames {
    pub(super) rate: &'static str,
    /// The names of the weight and the bias of the recurrent gate.
    pub(super) recurrent: [&'static str; 2],
    /// The names of the weight and the bias of the input gate.
    pub(super) input: [&'static str; 2],
}

/// Declares the parameters of the recurrence. Returns `log a` and the input gate for each step of `us [T,B,features]`.
pub(super) fn gates(
    inputs: &Inputs<'_>,
    us: Value,
    features: usize,
    heads: usize,
    names: &GateNames,
) -> (Value, Value) {
    // For a recurrent gate of 1, the initial values of `a²` are evenly spaced between 0.9² and 0.999².
    let squared = move |feature: usize| 0.81 + (0.998_001 - 0.81) * (feature as f64 + 0.5) / features as f64;
    let rates = Init::from_fn(&[features], move |index| ((-0.5 / 8.0 * squared(index[0]).ln()).exp_m1()).ln());
    let rate = inputs.parameter(names.rate, &[features], rates).softplus() * -8.0;
    let size = features / heads;
    let us_by_head = us.reshape([us.dim(0), us.dim(1), heads.into(), size.into()]);
    let gate = |[weight, bias]: [&str; 2]| {
        let init = Init::Normal((size as f64).recip().sqrt());
        let weight = inputs.parameter(weight, &[heads, size, size], init);
        let bias = inputs.parameter(bias, &[heads, size], Init::Constant(0.0));
        let product = us_by_head.dot_general(weight, &[(3, 1)], &[(2, 0)]).transpose([1, 2, 0, 3]);
        (product + bias).sigmoid().reshape(us.shape())
    };
    (gate(names.recurrent) * rate, gate(names.input))
}
