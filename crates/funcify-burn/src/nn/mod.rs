//! Provides the layers of [`funcify_nn`] as Burn modules.
//!
//! The parameters of each layer are trained, saved, loaded and moved like those of any other Burn module. The `forward`
//! method of a layer is one op of Burn's autodiff. Parameters have the same names and shapes as in [`funcify_nn`],
//! which follows PyTorch or the authors' code.
//!
//! ```
//! # #[cfg(feature = "flex")] {
//! use burn::tensor::{Device, Distribution, Tensor};
//! use funcify::nn::{Cell, Recurrent};
//! use funcify_burn::nn::Lstm;
//!
//! let device = Device::flex().autodiff();
//! let options = Recurrent { layers: 2, bidirectional: true, ..Recurrent::new(Cell::Lstm, 3, 8) };
//! let lstm = Lstm::new(&options, &device)?;
//! let xs = Tensor::<3>::random([4, 100, 3], Distribution::Default, &device);
//! let (ys, state) = lstm.forward(xs, None)?;
//! assert_eq!(ys.dims(), [4, 100, 16]);
//! assert_eq!(state.hidden.dims(), [4, 4, 8]);
//! let gradients = ys.sum().backward();
//! # }
//! # Ok::<(), funcify::Error>(())
//! ```

mod parameters;

use std::sync::Arc;

use burn::module::{Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor};
use burn::nn::LstmState;
use burn::tensor::{Device, Tensor};
use funcify_core::error::{Place, Result, Site};
use funcify_core::{DType, TensorType};
use funcify_nn::{Cell, XlstmCell};

use self::parameters::Parameters;
use crate::device::Burn;
use crate::plugin::{AnyTensor, Differentiable, Tensors, device_error, for_caller, leaves_of, structure};

/// The implementation that all layers share: the parameters, and a function of the sequence, the states and the
/// parameters.
#[derive(Clone, Debug)]
struct Layer {
    parameters: Parameters,
    function: Arc<Differentiable>,
    states: Arc<[TensorType]>,
    /// The index of the batch axis in a sequence.
    batch: usize,
}

impl Layer {
    fn new(at: &Place, layer: funcify_nn::Layer, dtype: DType, batch_first: bool, device: &Device) -> Result<Self> {
        Ok(Layer {
            parameters: Parameters::new(at, &layer, dtype, device)?,
            function: Arc::new(Differentiable::new(&layer.graph)),
            states: layer.states.into(),
            batch: if batch_first { 0 } else { 1 },
        })
    }

    fn forward<S: Tensors>(&self, at: &Place, xs: Tensor<3>, states: Option<S>) -> Result<(Tensor<3>, S)> {
        let batch = xs.dims()[self.batch];
        let states = match states {
            Some(states) => leaves_of(states),
            None => self.zeros(at, batch, &xs.device())?,
        };
        let mut arguments = vec![AnyTensor::from(xs)];
        arguments.extend(states);
        arguments.extend(self.parameters.tensors());
        structure(at, "result", self.function.run(at, arguments)?)
    }

    /// Returns the initial states for `batch` sequences, filled with zeros.
    fn zeros(&self, at: &Place, batch: usize, device: &Device) -> Result<Vec<AnyTensor>> {
        let burn = Burn::of(device)?;
        let zeros = |ty: &TensorType| {
            let sizes = ty.shape.dims().iter().map(|dim| dim.constant().map_or(batch, |size| size as usize));
            let zeros = burn.zeros(ty.dtype, &sizes.collect::<Vec<usize>>());
            zeros.map(AnyTensor::new).map_err(|source| device_error(at, "burn", source))
        };
        self.states.iter().map(zeros).collect()
    }

    fn with(&self, parameters: Parameters) -> Self {
        Layer { parameters, ..self.clone() }
    }
}

macro_rules! layers {
    ($(
        $(#[$doc:meta])* $name:ident: $options:ident($example:literal) $({ cell: $cell:expr })? =>
            $state:ty, $of_state:literal;
    )*) => {$(
        $(#[$doc])*
        ///
        /// ```
        /// # #[cfg(feature = "flex")] {
        /// use burn::tensor::{Device, Tensor};
        #[doc = concat!("use funcify::nn::", stringify!($options), ";")]
        ///
        /// let device = Device::flex();
        #[doc = concat!("let options = ", stringify!($options), "::new(", $example, ");")]
        #[doc = concat!("let layer = funcify_burn::nn::", stringify!($name), "::new(&options, &device)?;")]
        /// let (ys, _state) = layer.forward(Tensor::ones([2, 5, 8], &device), None)?;
        /// assert_eq!(ys.dims(), [2, 5, 8]);
        /// # }
        /// # Ok::<(), funcify::Error>(())
        /// ```
        #[derive(Clone, Debug)]
        pub struct $name(Layer);

        impl $name {
            /// Creates a layer on a device, with newly initialised parameters.
            ///
            /// # Errors
            /// Returns `Type` for invalid options, and `Unsupported` if the device cannot hold the layer.
            #[track_caller]
            pub fn new(options: &funcify_nn::$options, device: &Device) -> Result<Self> {
                let at = Place::new(stringify!($name), Site::caller());
                let options = funcify_nn::$options { $(cell: $cell,)? ..options.clone() };
                let layer = options.layer();
                let layer = layer.and_then(|it| Layer::new(&at, it, options.dtype, options.batch_first, device));
                layer.map($name).map_err(|error| for_caller(&at, error))
            }

            /// Runs the layer on a sequence `[B,T,F]`, or `[T,B,F]` if the option `batch_first` is false. Returns the
            /// outputs and the state after the last step.
            #[doc = concat!("The state: ", $of_state, ". It starts as zeros if it is `None`.")]
            ///
            /// # Errors
            /// Returns `Call` if the sequence or the state has the wrong sizes, dtype or device.
            #[track_caller]
            pub fn forward(&self, xs: Tensor<3>, state: Option<$state>) -> Result<(Tensor<3>, $state)> {
                let at = Place::new(stringify!($name), Site::caller());
                self.0.forward(&at, xs, state).map_err(|error| for_caller(&at, error))
            }
        }

        impl Module for $name {
            fn collect_devices(&self, devices: Devices) -> Devices {
                self.0.parameters.collect_devices(devices)
            }

            fn fork(self, device: &Device) -> Self {
                $name(self.0.with(self.0.parameters.clone().fork(device)))
            }

            fn to_device(self, device: &Device) -> Self {
                $name(self.0.with(self.0.parameters.clone().to_device(device)))
            }

            fn train(self) -> Self {
                $name(self.0.with(self.0.parameters.clone().train()))
            }

            fn valid(&self) -> Self {
                $name(self.0.with(self.0.parameters.valid()))
            }

            fn materialize(self) -> Self {
                $name(self.0.with(self.0.parameters.clone().materialize()))
            }

            fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
                self.0.parameters.visit(visitor);
            }

            fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
                $name(self.0.with(self.0.parameters.clone().map(mapper)))
            }
        }

        impl ModuleDisplayDefault for $name {
            fn content(&self, content: Content) -> Option<Content> {
                self.0.parameters.content(content.set_top_level_type(stringify!($name)))
            }
        }

        impl ModuleDisplay for $name {}
    )*};
}

layers! {
    /// An Elman network with any number of layers, unidirectional or bidirectional. The constructor overrides the field
    /// `cell` of its options ([`Recurrent`](funcify_nn::Recurrent)).
    Rnn: Recurrent("funcify::nn::Cell::Rnn, 8, 8") { cell: Cell::Rnn } =>
        Tensor<3>, "`[layers * directions, B, hidden]`";
    /// An Elman network with ReLU activations and any number of layers, unidirectional or bidirectional. The
    /// constructor overrides the field `cell` of its options ([`Recurrent`](funcify_nn::Recurrent)).
    ReluRnn: Recurrent("funcify::nn::Cell::ReluRnn, 8, 8") { cell: Cell::ReluRnn } =>
        Tensor<3>, "`[layers * directions, B, hidden]`";
    /// A gated recurrent unit (GRU) with any number of layers, unidirectional or bidirectional. The constructor
    /// overrides the field `cell` of its options ([`Recurrent`](funcify_nn::Recurrent)).
    Gru: Recurrent("funcify::nn::Cell::Gru, 8, 8") { cell: Cell::Gru } =>
        Tensor<3>, "`[layers * directions, B, hidden]`";
    /// S5, a diagonal state space layer: see [`S5`](funcify_nn::S5).
    S5: S5("8, 16") => [Tensor<2>; 2], "the real and the imaginary part, each `[B, states]`";
    /// The selective scan, the core of Mamba: see [`SelectiveScan`](funcify_nn::SelectiveScan).
    SelectiveScan: SelectiveScan("8") => Tensor<3>, "`[B, features, states]`";
    /// Gated linear attention: see [`GatedLinearAttention`](funcify_nn::GatedLinearAttention).
    GatedLinearAttention: GatedLinearAttention("8, 2") => Tensor<4>, "`[B, heads, key / heads, value / heads]`";
    /// A minGRU or minLSTM: see [`Minimal`](funcify_nn::Minimal).
    Minimal: Minimal("funcify::nn::MinimalCell::Gru, 8, 8") => Tensor<2>, "`[B, hidden]`";
    /// A linear recurrent unit: see [`Lru`](funcify_nn::Lru).
    Lru: Lru("8, 16") => [Tensor<2>; 2], "the real and the imaginary part, each `[B, states]`";
    /// The short convolution and the gated linear recurrence of Griffin: see [`RgLru`](funcify_nn::RgLru).
    RgLru: RgLru("8, 2") =>
        (Tensor<2>, Tensor<3>), "h `[B, features]`, and `[B, width - 1, features]` of the convolution";
    /// The recurrent block of RecurrentGemma: see [`Griffin`](funcify_nn::Griffin).
    Griffin: Griffin("8, 2") => (Tensor<2>, Tensor<3>, Tensor<1>),
        "h `[B, inner]`, `[B, width - 1, inner]` of the convolution, and whether it started, `[B]`";
    /// The mixer of Mamba: see [`Mamba`](funcify_nn::Mamba).
    Mamba: Mamba("8") => (Tensor<3>, Tensor<3>), "`[B, inner, states]`, and `[B, width - 1, inner]` of the convolution";
    /// The mixer of Mamba-2: see [`Mamba2`](funcify_nn::Mamba2).
    Mamba2: Mamba2("8") => (Tensor<4>, Tensor<3>),
        "`[B, heads, head, states]`, and `[B, width - 1, inner + 2 groups states]` of the convolution";
    /// DeltaNet or gated DeltaNet: see [`DeltaNet`](funcify_nn::DeltaNet).
    DeltaNet: DeltaNet("8, 2") => (Tensor<4>, [Tensor<3>; 3]),
        "`[B, heads, key / heads, value / heads]`, and `[B, width - 1, ..]` of the convolutions of queries, keys and values";
    /// The time-mixing layer of RWKV-4: see [`Rwkv4`](funcify_nn::Rwkv4).
    Rwkv4: Rwkv4("8") => [Tensor<2>; 4], "the input before, `[B, features]`, and num, den and max, each `[B, inner]`";
    /// The time-mixing layer of RWKV-5 and RWKV-6: see [`Rwkv`](funcify_nn::Rwkv).
    Rwkv: Rwkv("8, 2") => (Tensor<2>, Tensor<4>),
        "the input before, `[B, features]`, and `[B, heads, features / heads, features / heads]`";
    /// The sLSTM layer of xLSTM. The constructor overrides the field `cell` of its options
    /// ([`Xlstm`](funcify_nn::Xlstm)).
    Slstm: Xlstm("funcify::nn::XlstmCell::Slstm, 8, 8") { cell: XlstmCell::Slstm } =>
        [Tensor<2>; 4], "h, c, n and m, each `[B, hidden]`";
    /// The mLSTM layer of xLSTM. The constructor overrides the field `cell` of its options
    /// ([`Xlstm`](funcify_nn::Xlstm)).
    Mlstm: Xlstm("funcify::nn::XlstmCell::Mlstm, 8, 8") { cell: XlstmCell::Mlstm } => (Tensor<4>, Tensor<3>, Tensor<2>),
        "`[B, heads, hidden / heads, hidden / heads]`, n `[B, heads, hidden / heads]` and m `[B, heads]`";
    /// The layer of xLSTM 7B: see [`XlstmLarge`](funcify_nn::XlstmLarge).
    XlstmLarge: XlstmLarge("8, 2") => (Tensor<4>, Tensor<3>, Tensor<2>),
        "`[B, heads, key / heads, value / heads]`, n `[B, heads, key / heads]` and m `[B, heads]`";
    /// A long short-term memory (LSTM) with any number of layers, unidirectional or bidirectional. The constructor
    /// overrides the field `cell` of its options ([`Recurrent`](funcify_nn::Recurrent)).
    Lstm: Recurrent("funcify::nn::Cell::Lstm, 8, 8") { cell: Cell::Lstm } =>
        LstmState<3>, "hidden and cell, each `[layers * directions, B, hidden]`";
}
