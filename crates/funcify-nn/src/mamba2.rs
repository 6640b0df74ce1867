//! Mamba-2: a selective state space model with heads (state space duality).

use funcify_core::{einsum, full, select, tri_mask};

use super::*;

/// The mixer of Mamba-2 (Dao and Gu 2024, Transformers are SSMs): a selective state space layer with one step size
/// per head.
///
/// The input u is projected: `[z, xBC, dt] = u W_inᵀ`. A causal depthwise convolution of `xBC` followed by `silu`
/// yields `[x, B, C]`. With `Δ = softplus(dt + dt_bias)` and `A = -exp(A_log)`, each head computes `h' = exp(Δ A) h + Δ
/// x Bᵀ` and `y = h C + D x`. The heads of a group share B and C. Then `y silu(z)` is RMS-normalised per group, scaled,
/// and projected by `W_out`. The number of inner features is `inner = heads * head`. The states are `ssm [B, heads,
/// head, states]`, and `conv [B, width - 1, inner + 2 groups states]`, the convolution inputs that precede the first
/// step. Parameters have the names and shapes of the authors' code: `in_proj.weight`, `conv1d.weight [.., 1, width]`,
/// `conv1d.bias`, `dt_bias [heads]`, `A_log [heads]`, `D [heads]`, `norm.weight`, `out_proj.weight`.
///
/// If `chunk` is set, the loop runs over chunks of `chunk` steps, and computes each chunk with matrix products (section
/// 6 of the paper). Sequences then have the shape `[B, chunk * T, F]`. The results differ from those of a step-by-step
/// loop only by rounding, because sums are reassociated.
///
/// ```
/// use funcify::nn::Mamba2;
///
/// let layer = Mamba2 { states: 32, ..Mamba2::new(8) }.layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,1,16,32]", "f32[B,3,80]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mamba2 {
    /// The number of input and output features.
    pub features: usize,
    /// The number of heads.
    pub heads: usize,
    /// The number of features per head.
    pub head: usize,
    /// The number of states per feature.
    pub states: usize,
    /// The number of groups. The heads of a group share B and C.
    pub groups: usize,
    /// The width of the convolution kernel, in steps.
    pub width: usize,
    /// The number of steps per chunk, or `None` to compute step by step.
    pub chunk: Option<usize>,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

/// The inputs of a step or of a chunk of steps: `x [.., G,R,P]`, `(b, c)` of shape `[.., G,N]`, and `Δ [.., G,R]`,
/// where G is the number of groups, R the number of heads per group, P the number of features per head, and N the
/// number of states per feature.
type StepInputs = (Value, (Value, Value), Value);

impl Mamba2 {
    /// Creates a layer that runs step by step over f32 sequences of shape `[B,T,F]`. Each head has 64 features, or `2 *
    /// features` if that is less. The number of inner features is `2 * features`, rounded up to a multiple of the head
    /// size. The layer has 128 states per feature, one group, and a convolution kernel of width 4.
    pub fn new(features: usize) -> Self {
        let head = (2 * features).min(64);
        let heads = if head == 0 { 0 } else { (2 * features).div_ceil(head) };
        let (states, groups, width, chunk) = (128, 1, 4, None);
        Mamba2 { features, heads, head, states, groups, width, chunk, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0, if `groups`
    /// does not divide `heads`, or if the dtype is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let (name, site) = ("mamba2", Site::caller());
        let sizes = [("features", self.features), ("heads", self.heads), ("head", self.head), ("states", self.states)];
        let others = [("groups", self.groups), ("width", self.width), ("chunk", self.chunk.unwrap_or(1))];
        check_at_least_one(name, site, &[sizes.as_slice(), &others].concat())?;
        check_divided_by_heads(name, site, self.groups, &[("heads", self.heads)])?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (groups, states, inner) = (self.groups, self.states, self.heads * self.head);
        let (by_group, mixed) = (self.heads / groups, inner + 2 * groups * states);
        let steps = Dim::from("T") * Dim::from(self.chunk.unwrap_or(1));
        let us = inputs.sequence_of(self.features, steps.clone());
        let init = inputs.state("ssm", [Dim::from("B"), self.heads.into(), self.head.into(), states.into()]);
        let before = inputs.rows_before("conv", self.width, mixed);
        let projected = linear(us, inputs.linear_weight("in_proj", self.features, inner + mixed + self.heads));
        let part = |value: Value, start: usize, count: usize| value.slice(2, start as i64..(start + count) as i64);
        let kernel = inputs.short_kernel("conv1d", mixed, self.width);
        let (convolved, last_before) = short_convolution(part(projected, inner, mixed), before, kernel, self.width);
        let bias = Init::Uniform((self.width as f64).recip().sqrt());
        let convolved = (convolved + inputs.parameter("conv1d.bias", &[mixed], bias)).silu();
        // Choose step sizes between 0.001 and 0.1 for an input of 0, and initialise the bias to their inverse softplus.
        let sizes = Init::logspaced(1e-3, 1e-1, self.heads);
        let dt_bias = Init::from_fn(&[self.heads], |index| sizes(index[0]).exp_m1().ln());
        let delta = part(projected, inner + mixed, self.heads) + inputs.parameter("dt_bias", &[self.heads], dt_bias);
        // The initial decay rates are evenly spaced between 1 and 16.
        let decay = |head: usize| 1.0 + 15.0 * (head as f64 + 0.5) / self.heads as f64;
        let a_log = Init::from_fn(&[self.heads], |index| decay(index[0]).ln());
        let a = -inputs.parameter("A_log", &[self.heads], a_log).exp().reshape([groups, by_group]);
        let d = inputs.parameter("D", &[self.heads], Init::Constant(1.0)).reshape([groups, by_group, 1]);

        let split = |value: Value, sizes: &[usize]| {
            let dims = [steps.clone(), Dim::from("B")].into_iter().chain(sizes.iter().map(|size| Dim::from(*size)));
            value.reshape(dims.collect::<Vec<Dim>>())
        };
        let x = split(part(convolved, 0, inner), &[groups, by_group, self.head]);
        let b = split(part(convolved, inner, groups * states), &[groups, states]);
        let c = split(part(convolved, inner + groups * states, groups * states), &[groups, states]);
        let delta = split(delta.softplus(), &[groups, by_group]);
        let grouped = [Dim::from("B"), groups.into(), by_group.into(), self.head.into(), states.into()];
        let init = init.reshape(grouped);
        let rows = (x, (b, c), delta);
        let (last, ys) = match self.chunk {
            None => scan(init, rows, |h, row| step(a, h, row)),
            Some(size) => {
                let in_chunks = |value: Value| {
                    let rest = value.shape().dims()[1..].to_vec();
                    value.reshape([vec![Dim::from("T"), Dim::from(size)], rest].concat())
                };
                let (x, (b, c), delta) = rows;
                let chunks = (in_chunks(x), (in_chunks(b), in_chunks(c)), in_chunks(delta));
                let (last, ys) = scan(init, chunks, |h, rows| chunk(a, size, h, rows));
                (last, ys.reshape(x.shape()))
            }
        };
        let ys = (ys + d * x).reshape([steps.clone(), Dim::from("B"), inner.into()]);
        let gated = split(ys * part(projected, 0, inner).silu(), &[groups, inner / groups]);
        let norm = (gated.square().mean(3).unsqueeze(3) + 1e-5).rsqrt();
        let scale = inputs.parameter("norm.weight", &[inner], Init::Constant(1.0));
        let ys = (gated * norm).reshape(ys.shape()) * scale;
        let last = last.reshape([Dim::from("B"), self.heads.into(), self.head.into(), states.into()]);
        (linear(ys, inputs.linear_weight("out_proj", inner, self.features)), vec![last, last_before.move_axis(0, 1)])
    }
}

/// Computes the state `[B,G,R,P,N]` after one step, and the output of the step.
fn step(a: Value, h: Value, (x, (b, c), delta): StepInputs) -> (Value, Value) {
    let to_states = |of_group: Value| of_group.unsqueeze(2).unsqueeze(2);
    let decay = (delta * a).exp().unsqueeze(3).unsqueeze(4);
    let next = decay * h + (delta.unsqueeze(3) * x).unsqueeze(4) * to_states(b);
    (next, (next * to_states(c)).sum(4))
}

/// Computes the state after a chunk of Q steps, and the outputs `[Q,B,..]` of the chunk. The contribution of each step
/// to the later steps of the chunk is weighted by a matrix of decays. The contribution of `h`, the state before the
/// chunk, is added separately.
fn chunk(a: Value, size: usize, h: Value, (x, (b, c), delta): StepInputs) -> (Value, Value) {
    // The log of the total decay from the start of the chunk to the end of each step.
    let logs = (delta * a).cumsum(0, false);
    let scores = einsum("ibgn,jbgn->ijbg", &[c, b]);
    let between = logs.unsqueeze(1) - logs.unsqueeze(0);
    let earlier = tri_mask(size, size, 0).reshape([size, size, 1, 1, 1]).broadcast_to(between.shape());
    // If step j is later than step i, the decay from j to i is 0. Mask the exponent as well, because `exp` could
    // overflow.
    let none = full(between.shape(), between.dtype(), 0.0);
    let decays = select(earlier, select(earlier, between, none).exp(), none);
    let given = delta.unsqueeze(4) * x;
    let inside = einsum("ijbg,ijbgr,jbgrp->ibgrp", &[scores, decays, given]);
    let from_state = einsum("ibgn,bgrpn->ibgrp", &[c, h]) * logs.exp().unsqueeze(4);
    let whole = logs.index(0, -1);
    let to_end = (whole.unsqueeze(0) - logs).exp().unsqueeze(4) * given;
    let next = whole.exp().unsqueeze(3).unsqueeze(4) * h + einsum("jbgrp,jbgn->bgrpn", &[to_end, b]);
    (next, inside + from_state)
}
