//! Provides sequence layers with parameters from a `VarBuilder`: recurrent networks, linear recurrences, state space
//! models and linear attention.
//!
//! These are the layers of [`funcify_nn`]. Their parameters have the names and shapes that PyTorch, candle_nn or the
//! original implementation uses, so that existing weight files can be loaded. A layer processes a whole sequence as a
//! single node of Candle's graph.
//!
//! ```
//! use candle_core::{DType, Device, Module, Tensor};
//! use candle_nn::{VarBuilder, VarMap};
//! use funcify_candle::nn::{Lstm, RecurrentConfig};
//!
//! # fn main() -> candle_core::Result<()> {
//! let vars = VarMap::new();
//! let vb = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
//! let config = RecurrentConfig { layers: 2, bidirectional: true, ..RecurrentConfig::default() };
//! let lstm = Lstm::new(3, 8, config, vb.pp("lstm"))?;
//! let xs = Tensor::randn(0f32, 1.0, (4, 100, 3), &Device::Cpu)?;
//! let ys = lstm.forward(&xs)?; // from states of zeros
//! assert_eq!(ys.dims(), [4, 100, 16]);
//! assert_eq!(lstm.parameters().len(), 2 * 2 * 4); // of two layers, in two directions
//! let gradients = ys.sqr()?.mean_all()?.backward()?;
//! assert!(vars.all_vars().iter().all(|var| gradients.get(var).is_some()));
//! # Ok(())
//! # }
//! ```

use std::ops::Deref;
use std::sync::Arc;

use candle_core::{DType, Module, Result, Tensor, Var};
use candle_nn::{Init, VarBuilder};
use funcify_core::{Dim, Graph, Storage, TensorType};
use funcify_nn::{Cell, Recurrent, XlstmCell};

use crate::autodiff::node::place;
use crate::device::Candle;
use crate::differentiable::Differentiable;
use crate::errors;

/// A funcify layer with its parameters. Clones share the parameters.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify::nn::SelectiveScan;
/// use funcify_candle::nn::Layer;
///
/// let weights = VarMap::new();
/// let vb = VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu);
/// let layer = Layer::new(&SelectiveScan::new(8).layer()?, vb)?;
/// let xs = Tensor::randn(0f32, 1.0, (2, 5, 8), &Device::Cpu)?;
/// let (ys, states) = layer.seq(&xs)?;
/// assert_eq!((ys.dims(), states[0].dims()), ([2, 5, 8].as_slice(), [2, 8, 16].as_slice()));
/// let (_next, _states) = layer.seq_init(&xs, &states)?; // the same sequence, continued
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Layer {
    function: Arc<Differentiable>,
    states: Vec<TensorType>,
    parameters: Vec<Tensor>,
    /// The index of the batch axis in sequences.
    batch: usize,
    dtype: DType,
    candle: Candle,
}

impl Layer {
    /// Creates a layer whose parameters are looked up by name in a `VarBuilder`. If the `VarBuilder` wraps a `VarMap`,
    /// missing parameters are initialised; if it wraps a weight file, a missing parameter is an error.
    ///
    /// The dtype of the layer is that of the `VarBuilder`.
    #[track_caller]
    pub fn new(layer: &funcify_nn::Layer, vb: VarBuilder<'_>) -> Result<Self> {
        let candle = Candle::new(vb.device().clone());
        let parameters = layer.parameters.iter().map(|parameter| self::parameter(parameter, &vb));
        let parameters = parameters.collect::<Result<Vec<_>>>()?;
        let function = Differentiable::compile(&layer.graph, &candle).map_err(errors::into_candle)?;
        let dims = layer.graph.input_type(0).shape.dims();
        let Some(batch) = dims.iter().position(|dim| *dim == Dim::from("B")) else {
            let found = layer.graph.input_type(0).to_string();
            let fix = "name the batch axis `B`, as funcify's layers do";
            return Err(errors::into_candle(place(layer.graph.name()).mismatch(
                "the sequence",
                "an axis `B`",
                found,
                fix,
            )));
        };
        let (function, states, dtype) = (Arc::new(function), layer.states.clone(), vb.dtype());
        Ok(Layer { function, states, parameters, batch, dtype, candle })
    }

    /// Returns the graph of the layer, which can be [applied](funcify_core::Graph::apply) in another graph. Its
    /// inputs are the sequence, the states and the parameters.
    pub fn graph(&self) -> &Graph {
        self.function.graph()
    }

    /// Returns the parameters, in the order of the graph's inputs.
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// Returns zero states for `batch` sequences.
    pub fn zero_state(&self, batch: usize) -> Result<Vec<Tensor>> {
        let size = |dim: &Dim| match dim.constant() {
            Some(size) => usize::try_from(size).expect("a checked graph has no negative sizes"),
            None => batch,
        };
        let zeros = |ty: &TensorType| {
            let sizes: Vec<usize> = ty.shape.dims().iter().map(size).collect();
            Tensor::zeros(sizes, self.dtype, self.candle.device())
        };
        self.states.iter().map(zeros).collect()
    }

    /// Runs the layer over a sequence, starting from zero states. Returns the output sequence and the states after
    /// the last step.
    #[track_caller]
    pub fn seq(&self, xs: &Tensor) -> Result<(Tensor, Vec<Tensor>)> {
        let states = self.zero_state(xs.dim(self.batch)?)?;
        self.seq_init(xs, &states)
    }

    /// Runs the layer over a sequence, starting from the given states. Returns the output sequence and the states
    /// after the last step.
    #[track_caller]
    pub fn seq_init(&self, xs: &Tensor, states: &[Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
        if states.len() != self.states.len() {
            let fix = "pass the states of `zero_state` or of an earlier call";
            let error =
                place(self.function.graph().name()).mismatch("the states", self.states.len(), states.len(), fix);
            return Err(errors::into_candle(error));
        }
        let arguments = [std::slice::from_ref(xs), states, &self.parameters].concat();
        let mut results = self.function.call(&arguments)?.into_iter();
        match results.next() {
            Some(ys) => Ok((ys, results.collect())),
            None => crate::errors::bail!("the layer returned no sequence"),
        }
    }
}

impl Module for Layer {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        Ok(self.seq(xs)?.0)
    }
}

/// Looks up a parameter of a layer by name in a `VarBuilder`. If the `VarBuilder` creates missing parameters, it
/// initialises them as the layer specifies.
///
/// ```
/// use candle_core::{DType, Device};
/// use candle_nn::{VarBuilder, VarMap};
/// use funcify::nn::{Cell, Recurrent};
/// use funcify_candle::nn::{dtype, parameter};
///
/// let weights = VarMap::new();
/// let vb = VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu);
/// let layer = Recurrent { dtype: dtype(&vb)?, ..Recurrent::new(Cell::Gru, 4, 8) }.layer()?;
/// let parameters = layer.parameters.iter().map(|it| parameter(it, &vb)).collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(parameters[0].dims(), layer.parameters[0].shape.as_slice());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of the `VarBuilder`, for example if a file lacks the parameter.
pub fn parameter(parameter: &funcify_nn::Parameter, vb: &VarBuilder<'_>) -> Result<Tensor> {
    use funcify_nn::Init as Of;
    let name = parameter.name.as_str();
    let init = match &parameter.init {
        Of::Uniform(bound) => Init::Uniform { lo: -bound, up: *bound },
        Of::Normal(stdev) => Init::Randn { mean: 0.0, stdev: *stdev },
        Of::Constant(value) => Init::Const(*value),
        Of::Values(_) => Init::Const(0.0),
    };
    let is_new = !vb.contains_tensor(name);
    let tensor = vb.get_with_hints(parameter.shape.as_slice(), name, init)?;
    if is_new
        && tensor.is_variable()
        && let Of::Values(values) = &parameter.init
        && let Storage::F64(elements) = values.storage()
    {
        let values = Tensor::from_slice(elements, parameter.shape.as_slice(), tensor.device())?;
        Var::from_tensor(&tensor)?.set(&values.to_dtype(tensor.dtype())?)?;
    }
    Ok(tensor)
}

/// Returns the dtype of a `VarBuilder` as a funcify dtype, for [layers](funcify_nn) that use its parameters.
///
/// ```
/// use candle_core::{DType, Device};
/// use candle_nn::VarBuilder;
/// use funcify_candle::nn::dtype;
///
/// assert_eq!(dtype(&VarBuilder::zeros(DType::BF16, &Device::Cpu))?, funcify::DType::BF16);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the dtype is not f16, bf16, f32 or f64.
pub fn dtype(vb: &VarBuilder<'_>) -> Result<funcify_core::DType> {
    match vb.dtype() {
        DType::F16 => Ok(funcify_core::DType::F16),
        DType::BF16 => Ok(funcify_core::DType::BF16),
        DType::F32 => Ok(funcify_core::DType::F32),
        DType::F64 => Ok(funcify_core::DType::F64),
        other => crate::errors::bail!("no layers of {other:?}: create the `VarBuilder` with f16, bf16, f32 or f64"),
    }
}

/// Options of a recurrent layer.
///
/// ```
/// use candle_core::{DType, Device, Module, Tensor};
/// use candle_nn::VarBuilder;
/// use funcify_candle::nn::{Gru, RecurrentConfig};
///
/// let config = RecurrentConfig { layers: 2, batch_first: false, ..RecurrentConfig::default() };
/// let gru = Gru::new(3, 8, config, VarBuilder::zeros(DType::F32, &Device::Cpu))?;
/// let xs = Tensor::zeros((100, 4, 3), DType::F32, &Device::Cpu)?; // 100 steps of a batch of 4
/// assert_eq!(gru.forward(&xs)?.dims(), [100, 4, 8]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecurrentConfig {
    /// The number of stacked layers.
    pub layers: usize,
    /// `true` if each layer also runs over the reversed sequence. The outputs of both directions are concatenated.
    pub bidirectional: bool,
    /// `true` if the layers have biases.
    pub bias: bool,
    /// `true` if sequences are `[batch, steps, features]`, `false` if they are `[steps, batch, features]`.
    pub batch_first: bool,
}

impl Default for RecurrentConfig {
    fn default() -> Self {
        RecurrentConfig { layers: 1, bidirectional: false, bias: true, batch_first: true }
    }
}

macro_rules! layers {
    ($(
        $(#[$doc:meta])* $name:ident ($($argument:ident: $ty:ty),*) => |$dtype:ident| $layer:expr, $example:literal;
    )*) => {$(
        $(#[$doc])*
        ///
        /// ```
        /// use candle_core::{DType, Device, Module, Tensor};
        /// use candle_nn::{VarBuilder, VarMap};
        #[doc = concat!("use funcify_candle::nn::", stringify!($name), ";")]
        ///
        /// # fn main() -> candle_core::Result<()> {
        /// let weights = VarMap::new();
        /// let vb = VarBuilder::from_varmap(&weights, DType::F32, &Device::Cpu);
        #[doc = concat!("let layer = ", stringify!($name), "::new(", $example, ", vb)?;")]
        /// let xs = Tensor::zeros((2, 5, 8), DType::F32, &Device::Cpu)?;
        /// assert_eq!(layer.forward(&xs)?.dims(), [2, 5, 8]);
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone)]
        pub struct $name(Layer);

        impl $name {
            /// Creates a layer whose parameters are looked up by name in `vb`. The layer's dtype is that of `vb`.
            #[track_caller]
            pub fn new($($argument: $ty,)* vb: VarBuilder<'_>) -> Result<Self> {
                let $dtype = dtype(&vb)?;
                Layer::new(&$layer.layer().map_err(errors::into_candle)?, vb).map($name)
            }
        }

        impl Deref for $name {
            type Target = Layer;

            fn deref(&self) -> &Layer {
                &self.0
            }
        }

        impl Module for $name {
            fn forward(&self, xs: &Tensor) -> Result<Tensor> {
                self.0.forward(xs)
            }
        }
    )*};
}

layers! {
    /// An Elman network. Its state is `h [layers * directions, batch, hidden]`.
    Rnn(input: usize, hidden: usize, config: RecurrentConfig) =>
        |dtype| recurrent(Cell::Rnn, input, hidden, config, dtype), "8, 8, Default::default()";
    /// An Elman network with ReLU activations, as in PyTorch's `RNN` with `nonlinearity="relu"`. Its state is `h
    /// [layers * directions, batch, hidden]`.
    ReluRnn(input: usize, hidden: usize, config: RecurrentConfig) =>
        |dtype| recurrent(Cell::ReluRnn, input, hidden, config, dtype), "8, 8, Default::default()";
    /// A GRU, as in PyTorch. Its state is `h [layers * directions, batch, hidden]`.
    Gru(input: usize, hidden: usize, config: RecurrentConfig) =>
        |dtype| recurrent(Cell::Gru, input, hidden, config, dtype), "8, 8, Default::default()";
    /// An LSTM. Its states are `h` and `c`, each `[layers * directions, batch, hidden]`.
    Lstm(input: usize, hidden: usize, config: RecurrentConfig) =>
        |dtype| recurrent(Cell::Lstm, input, hidden, config, dtype), "8, 8, Default::default()";
    /// A diagonal state space layer ([`funcify_nn::S5`]). Its states are the real and imaginary parts of the
    /// hidden state, each `[batch, states]`.
    S5(config: funcify_nn::S5) => |dtype| funcify_nn::S5 { dtype, ..config }, "funcify::nn::S5::new(8, 16)";
    /// The core of Mamba ([`funcify_nn::SelectiveScan`]). Its state is `[batch, features, states]`.
    SelectiveScan(config: funcify_nn::SelectiveScan) => |dtype| funcify_nn::SelectiveScan { dtype, ..config },
        "funcify::nn::SelectiveScan::new(8)";
    /// Gated linear attention ([`funcify_nn::GatedLinearAttention`]). Its state is
    /// `[batch, heads, key / heads, value / heads]`.
    GatedLinearAttention(config: funcify_nn::GatedLinearAttention) =>
        |dtype| funcify_nn::GatedLinearAttention { dtype, ..config }, "funcify::nn::GatedLinearAttention::new(8, 2)";
    /// A minGRU or minLSTM layer ([`funcify_nn::Minimal`]). Its state is `h [batch, hidden]`.
    Minimal(config: funcify_nn::Minimal) => |dtype| funcify_nn::Minimal { dtype, ..config },
        "funcify::nn::Minimal::new(funcify::nn::MinimalCell::Gru, 8, 8)";
    /// A linear recurrent unit ([`funcify_nn::Lru`]). Its states are the real and imaginary parts of the
    /// hidden state, each `[batch, states]`.
    Lru(config: funcify_nn::Lru) => |dtype| funcify_nn::Lru { dtype, ..config }, "funcify::nn::Lru::new(8, 16)";
    /// The convolution and the recurrence of Griffin ([`funcify_nn::RgLru`]). Its states are `h [batch, features]` and
    /// `conv [batch, width - 1, features]`.
    RgLru(config: funcify_nn::RgLru) => |dtype| funcify_nn::RgLru { dtype, ..config }, "funcify::nn::RgLru::new(8, 2)";
    /// The recurrent block of RecurrentGemma ([`funcify_nn::Griffin`]). Its states are `h [batch, inner]`,
    /// `conv [batch, width - 1, inner]` and `started [batch]`.
    Griffin(config: funcify_nn::Griffin) => |dtype| funcify_nn::Griffin { dtype, ..config },
        "funcify::nn::Griffin::new(8, 2)";
    /// The mixer of Mamba ([`funcify_nn::Mamba`]). Its states are `ssm [batch, inner, states]` and
    /// `conv [batch, width - 1, inner]`.
    Mamba(config: funcify_nn::Mamba) => |dtype| funcify_nn::Mamba { dtype, ..config }, "funcify::nn::Mamba::new(8)";
    /// The mixer of Mamba-2 ([`funcify_nn::Mamba2`]). Its states are `ssm [batch, heads, head, states]` and `conv
    /// [batch, width - 1, inner + 2 * groups * states]`.
    Mamba2(config: funcify_nn::Mamba2) => |dtype| funcify_nn::Mamba2 { dtype, ..config }, "funcify::nn::Mamba2::new(8)";
    /// A DeltaNet or gated DeltaNet layer ([`funcify_nn::DeltaNet`]). Its states are `memory [batch, heads, key /
    /// heads, value / heads]`, `conv_q` and `conv_k`, each `[batch, width - 1, key]`, and `conv_v [batch, width - 1,
    /// value]`.
    DeltaNet(config: funcify_nn::DeltaNet) => |dtype| funcify_nn::DeltaNet { dtype, ..config },
        "funcify::nn::DeltaNet::new(8, 2)";
    /// The time-mixing layer of RWKV-4 ([`funcify_nn::Rwkv4`]). Its states are `shift [batch, features]`, and `num`,
    /// `den` and `max`, each `[batch, inner]`.
    Rwkv4(config: funcify_nn::Rwkv4) => |dtype| funcify_nn::Rwkv4 { dtype, ..config }, "funcify::nn::Rwkv4::new(8)";
    /// The time-mixing layer of RWKV-5 and RWKV-6 ([`funcify_nn::Rwkv`]). Its states are `shift [batch, features]`
    /// and `memory [batch, heads, features / heads, features / heads]`.
    Rwkv(config: funcify_nn::Rwkv) => |dtype| funcify_nn::Rwkv { dtype, ..config }, "funcify::nn::Rwkv::new(8, 2)";
    /// The sLSTM of xLSTM ([`funcify_nn::Xlstm`]). The `cell` of the configuration is ignored. The states are `h`, `c`,
    /// `n` and `m`, each `[batch, hidden]`.
    Slstm(config: funcify_nn::Xlstm) =>
        |dtype| funcify_nn::Xlstm { cell: XlstmCell::Slstm, dtype, ..config },
        "funcify::nn::Xlstm::new(funcify::nn::XlstmCell::Slstm, 8, 8)";
    /// The mLSTM of xLSTM ([`funcify_nn::Xlstm`]). The `cell` of the configuration is ignored. The states are `memory
    /// [batch, heads, hidden / heads, hidden / heads]`, `n [batch, heads, hidden / heads]` and `m [batch, heads]`.
    Mlstm(config: funcify_nn::Xlstm) =>
        |dtype| funcify_nn::Xlstm { cell: XlstmCell::Mlstm, dtype, ..config },
        "funcify::nn::Xlstm::new(funcify::nn::XlstmCell::Mlstm, 8, 8)";
    /// The layer of xLSTM 7B ([`funcify_nn::XlstmLarge`]). Its states are
    /// `memory [batch, heads, key / heads, value / heads]`, `n [batch, heads, key / heads]` and `m [batch, heads]`.
    XlstmLarge(config: funcify_nn::XlstmLarge) => |dtype| funcify_nn::XlstmLarge { dtype, ..config },
        "funcify::nn::XlstmLarge::new(8, 2)";
}

fn recurrent(
    cell: Cell,
    input: usize,
    hidden: usize,
    config: RecurrentConfig,
    dtype: funcify_core::DType,
) -> Recurrent {
    let RecurrentConfig { layers, bidirectional, bias, batch_first } = config;
    Recurrent { cell, input, hidden, layers, bidirectional, bias, batch_first, dtype }
}
