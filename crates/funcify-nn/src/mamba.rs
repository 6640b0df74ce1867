//! Mamba: the selective scan, with its projections and short convolution.

use super::*;

/// The mixer of Mamba (Gu and Dao 2023), built around [`SelectiveScan`].
///
/// The input u is projected: `[x, z] = u W_inᵀ`. Then x passes through a causal depthwise convolution, `silu` and the
/// selective scan. The result is multiplied by `silu(z)` and projected by `W_out`. The states are `ssm [B, inner,
/// states]`, and `conv [B, width - 1, inner]`, the convolution inputs that precede the first step. Parameters have the
/// names and shapes of the authors' code and of `transformers`: `in_proj.weight [2 inner, features]`, `conv1d.weight
/// [inner, 1, width]`, `conv1d.bias`, `x_proj.weight [rank + 2 states, inner]`, `dt_proj.weight [inner, rank]`,
/// `dt_proj.bias`, `A_log [inner, states]`, `D [inner]`, `out_proj.weight [features, inner]`.
///
/// ```
/// use funcify::nn::Mamba;
///
/// let layer = Mamba::new(8).layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,16,16]", "f32[B,3,16]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mamba {
    /// The number of input and output features.
    pub features: usize,
    /// The number of features of the convolution and of the scan.
    pub inner: usize,
    /// The number of states per feature.
    pub states: usize,
    /// The rank of the projection that computes the step sizes.
    pub rank: usize,
    /// The width of the convolution kernel, in steps.
    pub width: usize,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

impl Mamba {
    /// Creates a layer for f32 sequences of shape `[B,T,F]` with the authors' sizes: `inner` is `2 * features`,
    /// `states` is 16, `rank` is `features / 16` (rounded up), and `width` is 4.
    pub fn new(features: usize) -> Self {
        let (inner, rank, dtype) = (2 * features, features.div_ceil(16), DType::F32);
        Mamba { features, inner, states: 16, rank, width: 4, batch_first: true, dtype }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0 or the dtype
    /// is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let sizes = [("features", self.features), ("inner", self.inner), ("states", self.states)];
        let others = [("rank", self.rank), ("width", self.width)];
        check_at_least_one("mamba", Site::caller(), &[sizes.as_slice(), &others].concat())?;
        layer("mamba", self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (features, inner, width) = (self.features, self.inner, self.width);
        let us = inputs.sequence(features);
        let init = inputs.state("ssm", [Dim::from("B"), inner.into(), self.states.into()]);
        let before = inputs.rows_before("conv", width, inner);
        let projected = linear(us, inputs.linear_weight("in_proj", features, 2 * inner));
        let part = |start: usize| projected.slice(2, start as i64..(start + inner) as i64);
        let (convolved, last_before) =
            short_convolution(part(0), before, inputs.short_kernel("conv1d", inner, width), width);
        let bias = Init::Uniform((width as f64).recip().sqrt());
        let xs = (convolved + inputs.parameter("conv1d.bias", &[inner], bias)).silu();
        let (states, rank) = (self.states, self.rank);
        let scan = SelectiveScan { features: inner, states, rank, batch_first: false, dtype: self.dtype };
        let (ys, last) = scan.run(inputs, xs, init);
        let ys = linear(ys * part(inner).silu(), inputs.linear_weight("out_proj", inner, features));
        (ys, vec![last, last_before.move_axis(0, 1)])
    }
}
