//! RWKV: the time-mixing layer of versions 5 and 6.

use super::*;

/// A version of RWKV's time-mixing layer.
///
/// ```
/// use funcify::nn::{Rwkv, RwkvVersion};
///
/// let version = RwkvVersion::Six { mix_rank: 4, decay_rank: 2 };
/// let layer = Rwkv { version, ..Rwkv::new(8, 2) }.layer()?;
/// let low_rank = layer.parameters.iter().find(|parameter| parameter.name == "time_decay_w1");
/// assert_eq!(low_rank.unwrap().shape, [8, 2]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RwkvVersion {
    /// RWKV-5 (Eagle), whose decays and mixing weights are parameters.
    Five,
    /// RWKV-6 (Finch), whose decays and mixing weights depend on the input through low-rank projections.
    Six {
        /// The rank of each of the five projections to mixing weights.
        mix_rank: usize,
        /// The rank of the projection to decays.
        decay_rank: usize,
    },
}

/// The time-mixing layer of RWKV (Peng et al. 2024, Eagle and Finch): linear attention with one memory matrix per head.
/// The input of each step is first interpolated with the input of the previous step (token shift).
///
/// Receptance r, key k, value v and gate (and, in version 6, decay) are each computed from a separate mixture of the
/// input x and the input of the previous step. Each head computes the output `o = r (S + diag(u) kᵀ v)`, with the bonus
/// u (`time_faaaa`), and the next memory `S' = diag(w) S + kᵀ v`. The decays of the rows of S are `w =
/// exp(-exp(time_decay))` in version 5, and `w = exp(-exp(time_decay + tanh(d W₁) W₂))` in version 6, where d is the
/// mixture for the decay. The output of each head is normalised to mean 0 and variance 1 (`ln_x`), scaled, shifted, and
/// multiplied by `silu` of the gate; an output projection then combines the heads. The states are `shift [B,
/// features]`, which holds the input before the first step, and `memory [B, heads, features / heads, features /
/// heads]`.
///
/// Parameters have the names of the authors' code, without axes of size 1: `receptance.weight`, `key.weight`,
/// `value.weight`, `gate.weight`, `output.weight`, `time_faaaa [heads, features / heads]`, `ln_x.weight`, `ln_x.bias`.
/// Version 5 also has the weights of x in the mixtures, `time_mix_k`, `time_mix_v`, `time_mix_r` and `time_mix_g`; and
/// `time_decay [heads, features / heads]`. Version 6 also has the weights of the previous input, `time_maa_x`,
/// `time_maa_w`, `time_maa_k`, `time_maa_v`, `time_maa_r` and `time_maa_g`; and `time_maa_w1 [features, 5 mix_rank]`,
/// `time_maa_w2 [5, mix_rank, features]`, `time_decay [features]`, `time_decay_w1 [features, decay_rank]`,
/// `time_decay_w2 [decay_rank, features]`.
///
/// ```
/// use funcify::nn::{Rwkv, RwkvVersion};
///
/// let layer = Rwkv { version: RwkvVersion::Five, ..Rwkv::new(8, 2) }.layer()?;
/// let states: Vec<String> = layer.states.iter().map(ToString::to_string).collect();
/// assert_eq!(states, ["f32[B,8]", "f32[B,2,4,4]"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rwkv {
    /// The version of RWKV.
    pub version: RwkvVersion,
    /// The number of input and output features.
    pub features: usize,
    /// The number of heads.
    pub heads: usize,
    /// The epsilon added to the variance when a head's output is normalised.
    pub epsilon: f64,
    /// `true` if sequences are `[B,T,F]`, `false` if they are `[T,B,F]`.
    pub batch_first: bool,
    /// The float type of all inputs and outputs.
    pub dtype: DType,
}

/// The mixed inputs of the key, value, receptance and gate projections, and the decays.
struct Mixed {
    k: Value,
    v: Value,
    r: Value,
    g: Value,
    /// The decays, of shape `[T,B,heads,size]`, or `[heads,size]` if they are the same for all steps.
    decay: Value,
}

impl Rwkv {
    /// Creates an RWKV-6 layer with the authors' ranks (32 for the mixing weights, 64 for the decays), for f32
    /// sequences of shape `[B,T,F]`.
    pub fn new(features: usize, heads: usize) -> Self {
        let version = RwkvVersion::Six { mix_rank: 32, decay_rank: 64 };
        Rwkv { version, features, heads, epsilon: 64e-5, batch_first: true, dtype: DType::F32 }
    }

    /// Builds the graph of the layer, and lists its states and parameters. Returns an error if a size is 0, if `heads`
    /// does not divide `features`, or if the dtype is not a float type.
    #[track_caller]
    pub fn layer(&self) -> Result<Layer> {
        let (name, site) = ("rwkv", Site::caller());
        let (mix_rank, decay_rank) = match self.version {
            RwkvVersion::Five => (1, 1),
            RwkvVersion::Six { mix_rank, decay_rank } => (mix_rank, decay_rank),
        };
        let sizes = [("features", self.features), ("heads", self.heads)];
        check_at_least_one(name, site, &[sizes, [("mix_rank", mix_rank), ("decay_rank", decay_rank)]].concat())?;
        check_divided_by_heads(name, site, self.heads, &[("features", self.features)])?;
        layer(name, self.dtype, self.batch_first, |inputs| self.outputs(inputs))
    }

    fn outputs(&self, inputs: &Inputs<'_>) -> (Value, Vec<Value>) {
        let (features, heads) = (self.features, self.heads);
        let size = features / heads;
        let xs = inputs.sequence(features);
        let shift = inputs.state("shift", [Dim::from("B"), features.into()]);
        let memory = inputs.state("memory", [Dim::from("B"), heads.into(), size.into(), size.into()]);
        let steps = xs.dim(0);
        let rows = concat(&[shift.unsqueeze(0), xs], 0);
        let before = rows.slice(0, Dim::from(0)..steps.clone());
        let last_shift = rows.index(0, -1);
        let mixed = match self.version {
            RwkvVersion::Five => self.mix_by_parameters(inputs, xs, before),
            RwkvVersion::Six { mix_rank, decay_rank } => self.mix_by_input(inputs, xs, before, mix_rank, decay_rank),
        };
        let by_head = |x: Value| x.reshape([xs.dim(0), xs.dim(1), heads.into(), size.into()]);
        let projected = |name: &str, x: Value| linear(x, inputs.linear_weight(name, features, features));
        let r = by_head(projected("receptance", mixed.r));
        let k = by_head(projected("key", mixed.k));
        let v = by_head(projected("value", mixed.v));
        let gate = projected("gate", mixed.g).silu();
        let bonus = inputs.parameter("time_faaaa", &[heads, size], Init::Uniform(1.0)).unsqueeze(2);
        let decays = if mixed.decay.rank() == 2 { mixed.decay.broadcast_to(r.shape()) } else { mixed.decay };

        let (last, os) = scan(memory, (r, k, v, decays), |s, (r, k, v, w)| {
            let written = k.unsqueeze(3) * v.unsqueeze(2);
            let o = (r.unsqueeze(3) * (s + bonus * written)).sum(2);
            (w.unsqueeze(3) * s + written, o)
        });
        let centred = os - os.mean(3).unsqueeze(3);
        let normal = centred * (centred.square().mean(3).unsqueeze(3) + self.epsilon).rsqrt();
        let scale = inputs.parameter("ln_x.weight", &[features], Init::Constant(1.0));
        let ys = normal.reshape(xs.shape()) * scale + inputs.parameter("ln_x.bias", &[features], Init::Constant(0.0));
        let ys = projected("output", ys * gate);
        (ys, vec![last_shift, last])
    }

    /// Declares the parameter `time_decay`. Its initial values give decay times of about 3 to 400 steps.
    fn decay(&self, inputs: &Inputs<'_>, shape: &[usize]) -> Value {
        let size = self.features / self.heads;
        let last = |index: &[usize]| *index.last().expect("the shape of decays ends with the features");
        let place = move |index: &[usize]| (last(index) % size) as f64 / size.max(2) as f64;
        inputs.parameter("time_decay", shape, Init::from_fn(shape, move |index| -6.0 + 5.0 * place(index)))
    }

    fn mix_by_parameters(&self, inputs: &Inputs<'_>, xs: Value, before: Value) -> Mixed {
        let mix = |name: &str| {
            let share = inputs.parameter(&format!("time_mix_{name}"), &[self.features], Init::Constant(0.5));
            xs * share + before * (1.0 - share)
        };
        let [k, v, r, g] = ["k", "v", "r", "g"].map(mix);
        let decay = (-self.decay(inputs, &[self.heads, self.features / self.heads]).exp()).exp();
        Mixed { k, v, r, g, decay }
    }

    fn mix_by_input(&self, inputs: &Inputs<'_>, xs: Value, before: Value, mix_rank: usize, decay_rank: usize) -> Mixed {
        let features = self.features;
        let change = before - xs;
        let share = |name: &str| inputs.parameter(&format!("time_maa_{name}"), &[features], Init::Constant(0.5));
        let small = || Init::Uniform(1e-2);
        let narrow = inputs.parameter("time_maa_w1", &[features, 5 * mix_rank], small());
        let wide = inputs.parameter("time_maa_w2", &[5, mix_rank, features], small());
        let narrow = (xs + change * share("x")).dot_general(narrow, &[(2, 0)], &[]).tanh();
        let mix = |(number, name): (usize, &str)| {
            let part = narrow.slice(2, (number * mix_rank) as i64..((number + 1) * mix_rank) as i64);
            let more = part.dot_general(wide.index(0, number as i64), &[(2, 0)], &[]);
            xs + change * (share(name) + more)
        };
        let [w, k, v, r, g] = [(0, "w"), (1, "k"), (2, "v"), (3, "r"), (4, "g")].map(mix);
        let narrow = inputs.parameter("time_decay_w1", &[features, decay_rank], small());
        let wide = inputs.parameter("time_decay_w2", &[decay_rank, features], small());
        let more = w.dot_general(narrow, &[(2, 0)], &[]).tanh().dot_general(wide, &[(2, 0)], &[]);
        let decay = (-(self.decay(inputs, &[features]) + more).exp()).exp();
        let size = features / self.heads;
        let decay = decay.reshape([xs.dim(0), xs.dim(1), self.heads.into(), size.into()]);
        Mixed { k, v, r, g, decay }
    }
}
