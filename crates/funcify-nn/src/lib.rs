//! Recurrent networks, linear recurrences, state space models and linear attention, as graphs with named parameters.
//!
//! A [`Layer`] is independent of any tensor library. `funcify-candle` and `funcify-burn` turn it into a Candle or Burn
//! layer that owns the parameters. A layer can also be used directly: [`Layer::graph`] can be differentiated, batched
//! and run like any other graph.
//!
//! Sequences have the shape `[B,T,F]` (batch, time, features), as in Candle's and Burn's layers, or `[T,B,F]` if a
//! layer's `batch_first` is `false`. Every layer takes its initial states and returns its final ones, so a long
//! sequence can be processed in chunks, and a model can generate one step at a time.
//!
//! Parameters have the names and shapes used in weight files:
//!
//! | layer | source of its weights |
//! |---|---|
//! | [`Recurrent`] | `RNN`, `GRU` and `LSTM` of `torch.nn`; `GRU` and `LSTM` of candle_nn |
//! | [`Mamba`] and its core [`SelectiveScan`], [`Mamba2`] | the authors' code, and the `mixer` of `transformers` |
//! | [`Griffin`] | the recurrent `temporal_block` of RecurrentGemma in `transformers` |
//! | [`XlstmLarge`] | the `mlstm_layer` of xLSTM 7B in `transformers` |
//! | [`Rwkv4`] | the `attention` of RWKV in `transformers` |
//! | [`DeltaNet`] | flash-linear-attention, and the `linear_attn` in files of OLMo Hybrid |
//! | [`GatedLinearAttention`], [`RgLru`], [`S5`] | the authors' code |
//! | [`Rwkv`] | the authors' code, without axes of size 1 |
//! | [`Lru`], [`Minimal`], [`Xlstm`] | the symbols of the papers |

mod affine;
mod attention;
mod delta;
mod griffin;
mod lru;
mod mamba;
mod mamba2;
mod minimal;
mod recurrent;
mod rg_lru;
mod rwkv;
mod rwkv4;
mod selective;
mod state_space;
#[cfg(test)]
mod tests;
mod xlstm;
mod xlstm_large;

pub use attention::GatedLinearAttention;
pub use delta::DeltaNet;
pub use griffin::Griffin;
pub use lru::Lru;
pub use mamba::Mamba;
pub use mamba2::Mamba2;
pub use minimal::{Minimal, MinimalCell};
pub use recurrent::{Cell, Recurrent};
pub use rg_lru::RgLru;
pub use rwkv::{Rwkv, RwkvVersion};
pub use rwkv4::Rwkv4;
pub use selective::SelectiveScan;
pub use state_space::S5;
pub use xlstm::{Xlstm, XlstmCell};
pub use xlstm_large::XlstmLarge;

use std::cell::RefCell;

use funcify_core::error::{Place, Result, Site};
use funcify_core::graph::Graph;
use funcify_core::ops::scan::scan;
use funcify_core::types::{DType, Dim, Shape, TensorType};
use funcify_core::{Builder, HostTensor, Scalar, Value, concat};

use self::affine::{affine_scan, short_convolution};

/// The graph of a layer, with the types of its states and a description of its parameters.
///
/// The inputs of the graph are the sequence `xs`, then the states, then the parameters. The outputs are the sequence
/// `ys`, then the states after the last step, in the same order and of the same types. The output with the final value
/// of a state `h` is called `last_h`.
///
/// ```
/// use funcify::nn::{Cell, Recurrent};
///
/// let gru = Recurrent::new(Cell::Gru, 3, 8).layer()?;
/// assert_eq!(gru.states[0].to_string(), "f32[1,B,8]");
/// let names: Vec<&str> = (0..3).map(|input| gru.graph.input_name(input)).collect();
/// assert_eq!(names, ["xs", "h", "weight_ih_l0"]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layer {
    /// The graph that computes the layer.
    pub graph: Graph,
    /// The types of the states, in the order of the graph's inputs.
    pub states: Vec<TensorType>,
    /// The parameters, in the order of the graph's inputs.
    pub parameters: Vec<Parameter>,
}

/// A parameter of a layer.
///
/// ```
/// use funcify::nn::SelectiveScan;
///
/// let layer = SelectiveScan::new(8).layer()?;
/// let parameter = &layer.parameters[0];
/// assert_eq!((parameter.name.as_str(), parameter.shape.as_slice()), ("x_proj.weight", [33, 8].as_slice()));
/// assert_eq!(parameter.input(), "x_proj_weight");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name in weight files, such as `x_proj.weight`.
    pub name: String,
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The initial values.
    pub init: Init,
}

impl Parameter {
    /// Returns the name of this parameter's graph input: `name`, with each `.` replaced by `_`.
    pub fn input(&self) -> String {
        self.name.replace('.', "_")
    }
}

/// The initial values of a parameter.
///
/// ```
/// use funcify::nn::{Cell, Init, Recurrent};
///
/// let lstm = Recurrent::new(Cell::Lstm, 3, 4).layer()?;
/// assert!(matches!(lstm.parameters[0].init, Init::Uniform(bound) if bound == 0.5));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Init {
    /// Independent samples from the uniform distribution over `[-b, b]`, where `b` is the given bound.
    Uniform(f64),
    /// Independent samples from the normal distribution with mean 0 and the given standard deviation.
    Normal(f64),
    /// The same number for all elements.
    Constant(f64),
    /// Explicit values, given as f64.
    Values(HostTensor),
}

impl Init {
    /// Creates explicit initial values by calling `number` with the index of each element.
    fn from_fn(shape: &[usize], number: impl Fn(&[usize]) -> f64) -> Init {
        Init::Values(HostTensor::from_fn(DType::F64, shape, |index| Scalar::Float(number(index))))
    }

    /// Returns a function that maps the indices below `count` to numbers spaced evenly on a log scale from `low` to
    /// `high`.
    fn logspaced(low: f64, high: f64, count: usize) -> impl Fn(usize) -> f64 {
        let ratio = (high / low).ln() / (count.max(2) - 1) as f64;
        move |index| low * (ratio * index as f64).exp()
    }
}

/// The inputs of a layer graph under construction, with a record of the states and parameters declared so far.
struct Inputs<'a> {
    builder: &'a Builder,
    dtype: DType,
    batch_first: bool,
    states: RefCell<Vec<(String, TensorType)>>,
    parameters: RefCell<Vec<Parameter>>,
}

impl Inputs<'_> {
    /// Declares the input sequence. Returns it in the layout `[T,B,features]`.
    fn sequence(&self, features: usize) -> Value {
        self.sequence_of(features, Dim::from("T"))
    }

    /// Declares an input sequence of `time` steps. Returns it in the layout `[time,B,features]`.
    fn sequence_of(&self, features: usize, time: Dim) -> Value {
        let (batch, features) = (Dim::from("B"), Dim::from(features));
        let dims = if self.batch_first { [batch, time, features] } else { [time, batch, features] };
        self.steps_first(self.builder.input("xs", TensorType::new(self.dtype, dims)))
    }

    /// Swaps the time and batch axes if `batch_first` is set. This converts a sequence from the user's layout to
    /// `[T,B,F]`, or back.
    fn steps_first(&self, sequence: Value) -> Value {
        if self.batch_first { sequence.move_axis(1, 0) } else { sequence }
    }

    /// Declares an initial state as an input, and records its name and type.
    fn state(&self, name: &str, dims: impl Into<Shape>) -> Value {
        let ty = TensorType::new(self.dtype, dims);
        self.states.borrow_mut().push((name.to_string(), ty.clone()));
        self.builder.input(name, ty)
    }

    fn parameter(&self, name: &str, shape: &[usize], init: Init) -> Value {
        let parameter = Parameter { name: name.to_string(), shape: shape.to_vec(), init };
        let value = self.builder.input(&parameter.input(), TensorType::new(self.dtype, shape));
        self.parameters.borrow_mut().push(parameter);
        value
    }

    /// Declares the weight of a linear layer, of shape `[to, from]`.
    fn linear_weight(&self, name: &str, from: usize, to: usize) -> Value {
        self.parameter(&format!("{name}.weight"), &[to, from], Init::Uniform((from as f64).recip().sqrt()))
    }
}

/// Builds a layer. `outputs` declares the inputs and returns two results: the output sequence, in the layout `[T,B,F]`,
/// and the states after the last step. Returns an error if the dtype is not a float type.
#[track_caller]
fn layer(
    name: &str,
    dtype: DType,
    batch_first: bool,
    outputs: impl FnOnce(&Inputs<'_>) -> (Value, Vec<Value>),
) -> Result<Layer> {
    let at = Place::new(name, Site::caller());
    if !dtype.is_float() {
        return Err(at.mismatch("the dtype", "a float type", dtype, "use `DType::F32`"));
    }
    let (mut states, mut parameters) = (Vec::new(), Vec::new());
    let graph = Graph::build(name, |builder| {
        let inputs = Inputs { builder, dtype, batch_first, states: RefCell::default(), parameters: RefCell::default() };
        let (ys, last) = outputs(&inputs);
        (states, parameters) = (inputs.states.take(), inputs.parameters.take());
        let ys = inputs.steps_first(ys);
        let last = states.iter().zip(last).map(|((name, _), last)| (format!("last_{name}"), last));
        funcify_core::tree::Named(std::iter::once(("ys".to_string(), ys)).chain(last).collect())
    })?;
    let states = states.into_iter().map(|(_, ty)| ty).collect();
    Ok(Layer { graph, states, parameters })
}

/// Returns an error if any of the given options of a layer is 0.
fn check_at_least_one(layer: &str, site: Site, options: &[(&str, usize)]) -> Result<()> {
    let Some((name, _)) = options.iter().find(|(_, size)| *size == 0) else { return Ok(()) };
    let fix = format!("set `{name}` to the size that you need");
    Err(Place::new(layer, site).mismatch(format!("`{name}`"), "1 or more", 0, fix))
}

/// Returns an error unless all of the given options of a layer are multiples of `heads`, the layer's number of heads or
/// groups.
fn check_divided_by_heads(layer: &str, site: Site, heads: usize, options: &[(&str, usize)]) -> Result<()> {
    let Some((name, size)) = options.iter().find(|(_, size)| size % heads != 0) else { return Ok(()) };
    let expected = format!("a multiple of the {heads} heads");
    let fix = "choose sizes that the number of heads divides";
    Err(Place::new(layer, site).mismatch(format!("`{name}`"), expected, size, fix))
}

/// Returns an error if any size of an attention layer, including those in `more`, is 0, or if `heads` does not divide
/// `key` and `value`.
fn check_keys_and_values(
    layer: &str,
    site: Site,
    [features, heads, key, value]: [usize; 4],
    more: &[(&str, usize)],
) -> Result<()> {
    let sizes = [("features", features), ("heads", heads), ("key", key), ("value", value)];
    check_at_least_one(layer, site, &[sizes.as_slice(), more].concat())?;
    check_divided_by_heads(layer, site, heads, &[("key", key), ("value", value)])
}

/// Multiplies `x [.., from]` by the transpose of a weight of shape `[to, from]`.
fn linear(x: Value, weight: Value) -> Value {
    x.dot_general(weight, &[(-1, 1)], &[])
}
