//! The models in Burn. Their recurrent mixers are funcify's layers; everything else is built from Burn's modules.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::{
    Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig, LstmState, RmsNorm, RmsNormConfig,
};
use burn::tensor::activation::{gelu_approximate, relu, sigmoid, silu, softmax};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use funcify::HostTensor;
use funcify::nn::{Cell, Recurrent};
use funcify_burn::AnyTensor;
use funcify_burn::nn::{DeltaNet, Griffin, Gru, Lstm, Mamba, Mamba2, ReluRnn, Rnn, Rwkv4, XlstmLarge};

use crate::golden::{Golden, Tensors};
use crate::{
    FEATURES, LAYERS, ROTATED, VOCABULARY, attention_mask, gated_delta_net as delta_options, mamba, mamba2,
    recurrent_gemma, rotations, rwkv, xlstm,
};

/// The path of a parameter in a module. It determines the parameter's name and layout in PyTorch.
#[derive(Default)]
struct Path {
    names: Vec<String>,
    container: String,
}

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        let name = match name {
            _ if container.starts_with("Enum:") => "",
            "gamma" => "weight",
            "beta" => "bias",
            other => other,
        };
        self.names.push(name.to_string());
        self.container = container.to_string();
    }

    fn leave(&mut self) {
        self.names.pop();
    }

    /// Returns the parameter's name in PyTorch, without the names of enum variants in Burn's modules.
    fn name(&self) -> String {
        self.names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(".")
    }

    fn is_transposed(&self, rank: usize) -> bool {
        self.container == "Struct:Linear" && rank == 2
    }
}

/// A mapper that loads the weights of a file into the parameters of a module.
struct WeightLoader<'a> {
    path: Path,
    weights: &'a Tensors,
    loaded: usize,
}

impl ModuleMapper for WeightLoader<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.name();
        let weight = self.weights.get(&name).unwrap_or_else(|| panic!("the file has no `{name}`"));
        self.loaded += 1;
        param.map(|tensor| {
            let weight: Tensor<D> = tensor_of(weight, &tensor.device());
            let weight = if self.path.is_transposed(D) { weight.transpose() } else { weight };
            assert_eq!(weight.dims(), tensor.dims(), "{name}");
            weight.detach().require_grad()
        })
    }

    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.leave();
    }
}

/// A visitor that collects the gradients of a module's parameters, keyed by PyTorch's parameter names.
struct GradientCollector<'a> {
    path: Path,
    gradients: &'a Gradients,
    found: &'a mut Tensors,
}

impl ModuleVisitor for GradientCollector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.path.name();
        let gradient = param.val().grad(self.gradients).unwrap_or_else(|| panic!("no gradient of `{name}`"));
        let gradient = if self.path.is_transposed(D) { gradient.transpose() } else { gradient };
        self.found.insert(format!("grad.{name}"), host(gradient));
    }

    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.leave();
    }
}

fn tensor_of<const D: usize>(tensor: &HostTensor, device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(tensor.as_slice::<f32>().unwrap().to_vec(), tensor.shape().to_vec()), device)
}

fn host<const D: usize>(tensor: Tensor<D>) -> HostTensor {
    AnyTensor::from(tensor).into_host().unwrap()
}

fn load<M: Module>(module: M, weights: &Tensors) -> M {
    let mut mapper = WeightLoader { path: Path::default(), weights, loaded: 0 };
    let module = module.map(&mut mapper);
    assert_eq!(mapper.loaded, weights.len(), "weights without a parameter");
    module
}

/// Returns the outputs, and the gradients of the loss with respect to the module's parameters, keyed by name.
fn results<M: Module>(module: &M, outputs: Vec<(&str, HostTensor)>, gradients: &Gradients) -> Tensors {
    let mut found: Tensors = outputs.into_iter().map(|(name, output)| (name.to_string(), output)).collect();
    module.visit(&mut GradientCollector { path: Path::default(), gradients, found: &mut found });
    found
}

/// Computes the outputs and gradients of a `transformers` model, for the tokens in the golden file.
pub(crate) fn model(name: &str, golden: &Golden) -> Tensors {
    let device = &Device::flex().autodiff();
    match name {
        "mamba" => {
            let mixer = || Mamba::new(&mamba(), device).unwrap();
            run(Mixed::new(mixer, None, device), golden, |model, tokens| {
                model.forward(tokens, |mixer, xs| mixer.forward(xs, None).unwrap().0)
            })
        }
        "mamba2" => {
            let mixer = || Mamba2::new(&mamba2(), device).unwrap();
            run(Mixed::new(mixer, Some(head(device)), device), golden, |model, tokens| {
                model.forward(tokens, |mixer, xs| mixer.forward(xs, None).unwrap().0)
            })
        }
        "recurrent_gemma" => run(Gemma::new(device), golden, Gemma::forward),
        "xlstm" => run(Xlstm::new(device), golden, Xlstm::forward),
        "rwkv" => run(Rwkv::new(device), golden, Rwkv::forward),
        other => panic!("there is no model `{other}`"),
    }
}

fn run<M: Module>(module: M, golden: &Golden, forward: impl Fn(&M, Tensor<2, Int>) -> Tensor<3>) -> Tensors {
    let device = Device::flex().autodiff();
    let module = load(module, &golden.weights);
    let tokens = golden.input("tokens");
    let ids: Vec<i64> = tokens.to_f64_vec().into_iter().map(|id| id as i64).collect();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(ids, tokens.shape().to_vec()), &device);
    let logits = forward(&module, tokens);
    let gradients = (logits.clone() * tensor_of(golden.input("ct"), &device)).sum().backward();
    results(&module, vec![("logits", host(logits))], &gradients)
}

/// Computes the outputs and gradients of a `torch.nn` layer, for the sequence and the states in the golden file.
pub(crate) fn layer(options: &Recurrent, golden: &Golden) -> Tensors {
    let device = &Device::flex().autodiff();
    let given = |name: &str| tensor_of::<3>(golden.input(name), device).require_grad();
    let (xs, h) = (given("xs"), given("h"));
    let weighted = |output: &Tensor<3>, name: &str| (output.clone() * tensor_of(golden.input(name), device)).sum();
    macro_rules! with_one_state {
        ($layer:ident) => {{
            let layer = load($layer::new(options, device).unwrap(), &golden.weights);
            let (ys, last) = layer.forward(xs.clone(), Some(h.clone())).unwrap();
            let gradients = (weighted(&ys, "ct.ys") + weighted(&last, "ct.last_h")).backward();
            (results(&layer, vec![("ys", host(ys)), ("last_h", host(last))], &gradients), gradients)
        }};
    }
    let (mut found, gradients) = match options.cell {
        Cell::Rnn => with_one_state!(Rnn),
        Cell::ReluRnn => with_one_state!(ReluRnn),
        Cell::Gru => with_one_state!(Gru),
        Cell::Lstm => {
            let layer = load(Lstm::new(options, device).unwrap(), &golden.weights);
            let c = given("c");
            let (ys, last) = layer.forward(xs.clone(), Some(LstmState::new(c.clone(), h.clone()))).unwrap();
            let (last_h, last_c) = (last.hidden, last.cell);
            let loss = weighted(&ys, "ct.ys") + weighted(&last_h, "ct.last_h") + weighted(&last_c, "ct.last_c");
            let gradients = loss.backward();
            let outputs = vec![("ys", host(ys)), ("last_h", host(last_h)), ("last_c", host(last_c))];
            let mut found = results(&layer, outputs, &gradients);
            found.insert("grad.c".to_string(), host(c.grad(&gradients).unwrap()));
            (found, gradients)
        }
    };
    for (name, input) in [("grad.xs", xs), ("grad.h", h)] {
        found.insert(name.to_string(), host(input.grad(&gradients).unwrap()));
    }
    found
}

/// Computes the outputs and gradients of OLMo Hybrid's gated delta net, for the sequence in the golden file.
pub(crate) fn gated_delta_net(golden: &Golden) -> Tensors {
    let device = &Device::flex().autodiff();
    let layer = load(DeltaNet::new(&delta_options(), device).unwrap(), &golden.weights);
    let xs = tensor_of::<3>(golden.input("xs"), device).require_grad();
    let (ys, _) = layer.forward(xs.clone(), None).unwrap();
    let gradients = (ys.clone() * tensor_of(golden.input("ct.ys"), device)).sum().backward();
    let mut found = results(&layer, vec![("ys", host(ys))], &gradients);
    found.insert("grad.xs".to_string(), host(xs.grad(&gradients).unwrap()));
    found
}

fn embedding(device: &Device) -> Embedding {
    EmbeddingConfig::new(VOCABULARY, FEATURES).init(device)
}

fn rms_norm(epsilon: f64, device: &Device) -> RmsNorm {
    RmsNormConfig::new(FEATURES).with_epsilon(epsilon).init(device)
}

fn layer_norm(device: &Device) -> LayerNorm {
    LayerNormConfig::new(FEATURES).with_epsilon(1e-5).init(device)
}

fn linear(from: usize, to: usize, bias: bool, device: &Device) -> Linear {
    LinearConfig::new(from, to).with_bias(bias).init(device)
}

fn head(device: &Device) -> Linear {
    linear(FEATURES, VOCABULARY, false, device)
}

/// Computes logits with the embedding matrix as the output head (tied weights).
fn tied_head(embedding: &Embedding, h: Tensor<3>) -> Tensor<3> {
    h.matmul(embedding.weight.val().transpose().unsqueeze())
}

fn cap_logits(logits: Tensor<3>) -> Tensor<3> {
    (logits / 30.0).tanh() * 30.0
}

/// A Mamba or Mamba-2 model: residual blocks, each with a norm and a mixer. If there is no separate head, the embedding
/// serves as the head.
#[derive(Module, Debug)]
struct Mixed<M: Module> {
    backbone: MixedBackbone<M>,
    lm_head: Option<Linear>,
}

#[derive(Module, Debug)]
struct MixedBackbone<M: Module> {
    embeddings: Embedding,
    layers: Vec<MixedBlock<M>>,
    norm_f: RmsNorm,
}

#[derive(Module, Debug)]
struct MixedBlock<M: Module> {
    norm: RmsNorm,
    mixer: M,
}

impl<M: Module> Mixed<M> {
    fn new(mixer: impl Fn() -> M, lm_head: Option<Linear>, device: &Device) -> Self {
        let layers = (0..LAYERS).map(|_| MixedBlock { norm: rms_norm(1e-5, device), mixer: mixer() }).collect();
        let backbone = MixedBackbone { embeddings: embedding(device), layers, norm_f: rms_norm(1e-5, device) };
        Mixed { backbone, lm_head }
    }

    fn forward(&self, tokens: Tensor<2, Int>, mix: impl Fn(&M, Tensor<3>) -> Tensor<3>) -> Tensor<3> {
        let MixedBackbone { embeddings, layers, norm_f } = &self.backbone;
        let h = embeddings.forward(tokens);
        let h = layers.iter().fold(h, |h, block| h.clone() + mix(&block.mixer, block.norm.forward(h)));
        let h = norm_f.forward(h);
        match &self.lm_head {
            Some(head) => head.forward(h),
            None => tied_head(embeddings, h),
        }
    }
}

/// RecurrentGemma with two recurrent blocks and one local attention block.
#[derive(Module, Debug)]
struct Gemma {
    model: GemmaModel,
}

#[derive(Module, Debug)]
struct GemmaModel {
    embed_tokens: Embedding,
    layers: Vec<GemmaBlock>,
    final_norm: GemmaNorm,
}

#[derive(Module, Debug)]
struct GemmaBlock {
    temporal_pre_norm: GemmaNorm,
    temporal_block: TemporalBlock,
    channel_pre_norm: GemmaNorm,
    mlp_block: GemmaMlp,
}

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has three of them")]
enum TemporalBlock {
    Recurrent(Griffin),
    Attention(LocalAttention),
}

/// Local attention with two query heads, which share one key-value head.
#[derive(Module, Debug)]
struct LocalAttention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
}

impl LocalAttention {
    fn new(device: &Device) -> Self {
        let one_head = || linear(FEATURES, FEATURES / 2, false, device);
        let q_proj = linear(FEATURES, FEATURES, false, device);
        let o_proj = linear(FEATURES, FEATURES, true, device);
        LocalAttention { q_proj, k_proj: one_head(), v_proj: one_head(), o_proj }
    }

    fn forward(&self, xs: Tensor<3>) -> Tensor<3> {
        let ([batch, steps, _], device, size) = (xs.dims(), xs.device(), FEATURES / 2);
        let by_head =
            |map: &Linear, heads| map.forward(xs.clone()).reshape([batch, steps, heads, size]).swap_dims(1, 2);
        let row = |numbers: Vec<f32>, columns: usize| {
            Tensor::<2>::from_data(TensorData::new(numbers, [steps, columns]), &device).unsqueeze::<4>()
        };
        let [cos, sin] = rotations(steps).map(|numbers| row(numbers, ROTATED / 2));
        let rotated = |x: Tensor<4>| {
            let part = |start: usize, count: usize| x.clone().narrow(3, start, count);
            let (a, b) = (part(0, ROTATED / 2), part(ROTATED / 2, ROTATED / 2));
            let first = a.clone() * cos.clone() - b.clone() * sin.clone();
            let second = b * cos.clone() + a * sin.clone();
            Tensor::cat(vec![first, second, part(ROTATED, size - ROTATED)], 3)
        };
        let (q, k) = (rotated(by_head(&self.q_proj, 2)), rotated(by_head(&self.k_proj, 1)));
        let scores = q.matmul(k.swap_dims(2, 3)) / (size as f64).sqrt() + row(attention_mask(steps), steps);
        let ys = softmax(scores, 3).matmul(by_head(&self.v_proj, 1));
        self.o_proj.forward(ys.swap_dims(1, 2).reshape([batch, steps, FEATURES]))
    }
}

#[derive(Module, Debug)]
struct GemmaMlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

/// A norm whose stored weight is its scale minus 1.
#[derive(Module, Debug)]
struct GemmaNorm {
    weight: Param<Tensor<1>>,
}

impl GemmaNorm {
    fn new(device: &Device) -> Self {
        GemmaNorm { weight: Param::from_tensor(Tensor::zeros([FEATURES], device)) }
    }

    fn forward(&self, xs: Tensor<3>) -> Tensor<3> {
        let norm = (xs.clone().square().mean_dim(2) + 1e-6).sqrt();
        xs / norm * (self.weight.val() + 1.0).unsqueeze()
    }
}

impl Gemma {
    fn new(device: &Device) -> Self {
        let block = |index| GemmaBlock {
            temporal_pre_norm: GemmaNorm::new(device),
            temporal_block: match index {
                LAYERS => TemporalBlock::Attention(LocalAttention::new(device)),
                _ => TemporalBlock::Recurrent(Griffin::new(&recurrent_gemma(), device).unwrap()),
            },
            channel_pre_norm: GemmaNorm::new(device),
            mlp_block: GemmaMlp {
                gate_proj: linear(FEATURES, 24, true, device),
                up_proj: linear(FEATURES, 24, true, device),
                down_proj: linear(24, FEATURES, true, device),
            },
        };
        let layers = (0..LAYERS + 1).map(block).collect();
        Gemma { model: GemmaModel { embed_tokens: embedding(device), layers, final_norm: GemmaNorm::new(device) } }
    }

    fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let GemmaModel { embed_tokens, layers, final_norm } = &self.model;
        let mut h = embed_tokens.forward(tokens) * (FEATURES as f64).sqrt();
        for GemmaBlock { temporal_pre_norm, temporal_block, channel_pre_norm, mlp_block: mlp } in layers {
            let xs = temporal_pre_norm.forward(h.clone());
            h = h + match temporal_block {
                TemporalBlock::Recurrent(griffin) => griffin.forward(xs, None).unwrap().0,
                TemporalBlock::Attention(attention) => attention.forward(xs),
            };
            let xs = channel_pre_norm.forward(h.clone());
            let inside = gelu_approximate(mlp.gate_proj.forward(xs.clone())) * mlp.up_proj.forward(xs);
            h = h + mlp.down_proj.forward(inside);
        }
        cap_logits(tied_head(embed_tokens, final_norm.forward(h)))
    }
}

#[derive(Module, Debug)]
struct Xlstm {
    backbone: XlstmBackbone,
    lm_head: Linear,
}

#[derive(Module, Debug)]
struct XlstmBackbone {
    embeddings: Embedding,
    blocks: Vec<XlstmBlock>,
    out_norm: RmsNorm,
}

#[derive(Module, Debug)]
struct XlstmBlock {
    norm_mlstm: RmsNorm,
    mlstm_layer: XlstmLarge,
    norm_ffn: RmsNorm,
    ffn: XlstmFeedForward,
}

#[derive(Module, Debug)]
struct XlstmFeedForward {
    proj_up_gate: Linear,
    proj_up: Linear,
    proj_down: Linear,
}

impl Xlstm {
    fn new(device: &Device) -> Self {
        let block = |_| XlstmBlock {
            norm_mlstm: rms_norm(1e-6, device),
            mlstm_layer: XlstmLarge::new(&xlstm(), device).unwrap(),
            norm_ffn: rms_norm(1e-6, device),
            ffn: XlstmFeedForward {
                proj_up_gate: linear(FEATURES, 48, false, device),
                proj_up: linear(FEATURES, 48, false, device),
                proj_down: linear(48, FEATURES, false, device),
            },
        };
        let blocks = (0..LAYERS).map(block).collect();
        let backbone = XlstmBackbone { embeddings: embedding(device), blocks, out_norm: rms_norm(1e-6, device) };
        Xlstm { backbone, lm_head: head(device) }
    }

    fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let XlstmBackbone { embeddings, blocks, out_norm } = &self.backbone;
        let mut h = embeddings.forward(tokens);
        for XlstmBlock { norm_mlstm, mlstm_layer, norm_ffn, ffn } in blocks {
            h = h.clone() + mlstm_layer.forward(norm_mlstm.forward(h), None).unwrap().0;
            let xs = norm_ffn.forward(h.clone());
            h = h + ffn.proj_down.forward(silu(ffn.proj_up_gate.forward(xs.clone())) * ffn.proj_up.forward(xs));
        }
        cap_logits(self.lm_head.forward(out_norm.forward(h)))
    }
}

#[derive(Module, Debug)]
struct Rwkv {
    rwkv: RwkvModel,
    head: Linear,
}

#[derive(Module, Debug)]
struct RwkvModel {
    embeddings: Embedding,
    blocks: Vec<RwkvBlock>,
    ln_out: LayerNorm,
}

#[derive(Module, Debug)]
struct RwkvBlock {
    pre_ln: Option<LayerNorm>,
    ln1: LayerNorm,
    attention: Rwkv4,
    ln2: LayerNorm,
    feed_forward: ChannelMix,
}

/// The channel mixing of RWKV-4, which mixes each step's input with that of the previous step.
#[derive(Module, Debug)]
struct ChannelMix {
    time_mix_key: Param<Tensor<3>>,
    time_mix_receptance: Param<Tensor<3>>,
    key: Linear,
    receptance: Linear,
    value: Linear,
}

impl ChannelMix {
    fn new(device: &Device) -> Self {
        let share = || Param::from_tensor(Tensor::zeros([1, 1, FEATURES], device));
        ChannelMix {
            time_mix_key: share(),
            time_mix_receptance: share(),
            key: linear(FEATURES, 40, false, device),
            receptance: linear(FEATURES, FEATURES, false, device),
            value: linear(40, FEATURES, false, device),
        }
    }

    fn forward(&self, xs: Tensor<3>) -> Tensor<3> {
        let [batch, steps, features] = xs.dims();
        let first = Tensor::zeros([batch, 1, features], &xs.device());
        let before = Tensor::cat(vec![first, xs.clone().narrow(1, 0, steps - 1)], 1);
        let mixed = |share: &Param<Tensor<3>>| xs.clone() * share.val() + before.clone() * (share.val().neg() + 1.0);
        let key = relu(self.key.forward(mixed(&self.time_mix_key))).square();
        sigmoid(self.receptance.forward(mixed(&self.time_mix_receptance))) * self.value.forward(key)
    }
}

impl Rwkv {
    fn new(device: &Device) -> Self {
        let block = |index| RwkvBlock {
            pre_ln: (index == 0).then(|| layer_norm(device)),
            ln1: layer_norm(device),
            attention: Rwkv4::new(&rwkv(), device).unwrap(),
            ln2: layer_norm(device),
            feed_forward: ChannelMix::new(device),
        };
        let blocks = (0..LAYERS).map(block).collect();
        Rwkv {
            rwkv: RwkvModel { embeddings: embedding(device), blocks, ln_out: layer_norm(device) },
            head: head(device),
        }
    }

    fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let RwkvModel { embeddings, blocks, ln_out } = &self.rwkv;
        let mut h = embeddings.forward(tokens);
        for RwkvBlock { pre_ln, ln1, attention, ln2, feed_forward } in blocks {
            h = pre_ln.as_ref().map_or(h.clone(), |norm| norm.forward(h));
            h = h.clone() + attention.forward(ln1.forward(h), None).unwrap().0;
            h = h.clone() + feed_forward.forward(ln2.forward(h));
        }
        self.head.forward(ln_out.forward(h))
    }
}
