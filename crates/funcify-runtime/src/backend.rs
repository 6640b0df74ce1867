//! What a backend is: a tensor type, and the few things that loops and calls need of it beside its kernels.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use funcify_core::HostTensor;
use funcify_core::error::{BackendError, Error, Place, Result};
use funcify_core::graph::Graph;
use funcify_core::ops::Op;
use funcify_core::types::{DType, Dim, Shape, SizeError, Sizes, TensorType};
use funcify_rewrite::Parallel;
use smallvec::SmallVec;

use super::function::CompileOptions;
use super::registry::Kernel;

/// The tensors that a kernel takes or gives. A tensor may be large, Burn's is some 500 bytes, and each kernel moves them.
pub type Tensors<T> = SmallVec<[T; 2]>;

/// A tensor library on one device.
///
/// A backend's value is the device. Its kernels are registered for its type with [`funcify!`](crate::funcify).
pub trait Backend: Clone + Send + Sync + 'static {
    /// The library's own tensor. Cloning is cheap: it shares the elements.
    type Tensor: Clone + Send + Sync + 'static;

    /// The name in tables and errors: `candle`, `burn-flex`.
    fn name(&self) -> &'static str;

    /// Why the device cannot hold tensors of this dtype or rank, if it cannot.
    fn unsupported(&self, dtype: DType, rank: usize) -> Option<String>;

    /// A tensor with the elements of a host tensor.
    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError>;

    /// The elements of a tensor, as `dtype`: a library that stores booleans as bytes reads them back as such.
    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError>;

    /// The sizes of a tensor.
    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize>;

    /// Whether a tensor has these sizes. For calls that are repeated, which do not need a list of them.
    fn has_shape(&self, tensor: &Self::Tensor, sizes: &[usize]) -> bool {
        self.shape(tensor) == sizes
    }

    /// Whether a tensor stores elements of `dtype`, as this backend stores them.
    fn has_dtype(&self, tensor: &Self::Tensor, dtype: DType) -> bool;

    /// Rows `start..start + count` of axis 0.
    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError>;

    /// Row `row` of axis 0, which disappears.
    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError>;

    /// Tensors after one another along axis 0. All have the type `[.., row]`, and `ty` is the result's; there may be
    /// no parts at all, for a result without rows.
    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError>;

    /// A tensor of that type whose rows will be written by [`write_row`](Backend::write_row), if the device can
    /// write in place; else the rows are collected and stacked.
    fn allocate(&self, ty: &StackType) -> Result<Option<Self::Tensor>, BackendError> {
        let _ = ty;
        Ok(None)
    }

    /// `trace` with row `row` replaced. `trace` came from [`allocate`](Backend::allocate) and is shared with nothing. A
    /// backend that allocates traces must have it.
    fn write_row(&self, trace: Self::Tensor, row: usize, value: Self::Tensor) -> Result<Self::Tensor, BackendError> {
        let _ = (trace, value);
        let name = self.name();
        Err(format!("row {row} of a trace cannot be written: `{name}` allocates traces and has no `write_row`").into())
    }

    /// How many bytes one element of a tensor takes, for the memory budget.
    fn element_bytes(&self, dtype: DType) -> usize {
        dtype.size()
    }

    /// A kernel's result of type `dtype` as the device keeps it: where the library computes in another type, what was
    /// computed is rounded or wrapped to `dtype` here. Called after each kernel.
    fn normalize(&self, tensor: Self::Tensor, dtype: DType) -> Result<Self::Tensor, BackendError> {
        let _ = dtype;
        Ok(tensor)
    }

    /// An argument of type `dtype` as kernels take it. A library may store a dtype as another one, with elements that the
    /// dtype does not have: bytes beyond 0 and 1 for booleans, which are true. Here they become elements of `dtype`.
    fn admit(&self, tensor: Self::Tensor, dtype: DType) -> Result<Self::Tensor, BackendError> {
        self.normalize(tensor, dtype)
    }

    /// Whether what [`compile`](Backend::compile) gives takes an argument of type `dtype` without [`admit`](Backend::admit).
    fn is_admitted(&self, tensor: &Self::Tensor, dtype: DType) -> bool {
        let _ = (tensor, dtype);
        false
    }

    /// Whether the library's autodiff tracks a tensor, and [`call_tracked`](Backend::call_tracked) is to be asked.
    fn is_tracked(&self, tensor: &Self::Tensor) -> bool {
        let _ = tensor;
        false
    }

    /// A call of a function with arguments that the library's autodiff tracks, as one op of it: the results, tracked.
    /// `None` if no argument is tracked, or the library has no autodiff.
    fn call_tracked(&self, call: &TrackedCall<'_>, arguments: &[Self::Tensor]) -> Option<Result<Vec<Self::Tensor>>> {
        let _ = (call, arguments);
        None
    }

    /// Runs a kernel. A backend whose library cannot compute on some tensors as they are, on those of rank 0 say,
    /// converts operands and results here.
    fn run_kernel(
        &self,
        kernel: Kernel<Self>,
        call: &KernelCall<'_, Self, Op>,
        operands: Tensors<Self::Tensor>,
    ) -> Result<Tensors<Self::Tensor>, BackendError> {
        call.normalize(kernel(call, operands)?)
    }

    /// Returns when the device has done all that it was given. Where kernels run as they are called, nothing is to be
    /// waited for.
    fn wait(&self) {}

    /// What is compiled as a whole where loops are left to the backend. What is not, runs as the lowering rule of loops says.
    fn compiles(&self) -> Compiles {
        Compiles::Nothing
    }

    /// Compiles a program, or a loop of one, as a whole for the sizes of a call; or says which op stands in the way.
    fn compile(&self, whole: Whole<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
        let _ = whole;
        Err(Declined::new(self.name(), "the backend compiles no loops"))
    }

    /// Whether the device prefers work of logarithmic depth to less work. Where it does, functions whose options
    /// [tolerate](funcify_rewrite::Tolerance) it are rewritten so.
    fn parallel(&self) -> Parallel {
        Parallel::Avoid
    }

    /// A kernel for ops that have no lowering rule. Only the reference backend has one.
    fn fallback(&self) -> Option<Kernel<Self>> {
        None
    }
}

/// What a backend compiles as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compiles {
    /// Nothing.
    Nothing,
    /// Loops, and programs with loops that have no products of matrices outside them; the rest of others runs op for op.
    Loops,
    /// Programs, with all their loops; or else their loops.
    Programs,
}

/// What [`Backend::compile`] is given.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// A program; or a loop, as a graph of one node, whose inputs are its operands and whose outputs are the results that
    /// are used.
    pub graph: &'a Graph,
    /// The sizes that it is compiled for.
    pub sizes: &'a Sizes,
    /// Whether it is the whole program.
    pub is_program: bool,
    /// How many bytes may be held beside arguments and results.
    pub memory_budget: u64,
    /// Whether it may [refuse](Outcome::Refused) operands when it runs, because something else can run in its place.
    pub may_refuse: bool,
}

/// A program or a loop that runs as a whole. The backend that compiled it can tell what it is
/// ([`Function::whole`](super::Function::whole)).
pub trait Compiled<T>: Any + Send + Sync {
    /// Runs it: the graph's inputs in, its outputs out. It asks `stop` between steps, every so often.
    fn run(&self, operands: &[T], stop: &(dyn Fn() -> bool + Sync)) -> Result<Outcome<T>, BackendError>;
}

/// What came of running something that was compiled.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The results: on the heap, as they are moved through a few hands.
    Done(Vec<T>),
    /// It ended early, because `stop` said true.
    Stopped,
    /// It does not hold for these operands, and has computed nothing.
    Refused,
}

impl<T> Outcome<T> {
    /// The same with other results.
    pub fn try_map<U>(
        self,
        f: impl FnOnce(Vec<T>) -> Result<Vec<U>, BackendError>,
    ) -> Result<Outcome<U>, BackendError> {
        Ok(match self {
            Outcome::Done(results) => Outcome::Done(f(results)?),
            Outcome::Stopped => Outcome::Stopped,
            Outcome::Refused => Outcome::Refused,
        })
    }
}

/// Why something was not compiled as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declined {
    /// The op that stands in the way.
    pub op: String,
    /// What it is about it.
    pub reason: String,
    /// Whether it is no op's doing but a fault: what was compiled is wrong, which is an error, and nothing runs in its place.
    is_fault: bool,
}

impl Declined {
    /// An op and what it is about it.
    pub fn new(op: impl Into<String>, reason: impl Into<String>) -> Self {
        Declined { op: op.into(), reason: reason.into(), is_fault: false }
    }

    /// Says that what was compiled does not compute what the program means. It becomes [`Error::Internal`], and nothing runs in its
    /// place.
    pub fn fault(reason: impl Into<String>) -> Self {
        Declined { op: "plan".into(), reason: reason.into(), is_fault: true }
    }

    /// Returns itself, or the error that a fault is.
    pub(super) fn unless_fault(self, at: &Place, backend: &str) -> Result<Self> {
        if !self.is_fault {
            return Ok(self);
        }
        let fix =
            "please report it, with the program; `LoopStrategy::Native` runs without what was compiled".to_string();
        Err(Error::Internal { at: at.boxed(), backend: backend.to_string(), fault: self.reason, fix })
    }
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.op, self.reason)
    }
}

impl std::error::Error for Declined {}

/// What [`Backend::call_tracked`] is given of a function.
pub struct TrackedCall<'a> {
    /// The function and the line that calls it.
    pub at: &'a Place,
    /// The graph.
    pub graph: &'a Graph,
    /// How it is compiled.
    pub options: &'a CompileOptions,
    pub(super) made: &'a Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl TrackedCall<'_> {
    /// What the backend makes of the function at its first such call, and keeps for the next.
    pub fn made<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = made.clone().and_then(|made| made.downcast().ok()) {
            return Ok(earlier);
        }
        let new = Arc::new(make()?);
        *made = Some(new.clone());
        Ok(new)
    }
}

/// A part of a [`Backend::stack`].
#[derive(Clone, Debug)]
pub enum Part<T> {
    /// One row: axis 0 is missing.
    Row(T),
    /// Several rows.
    Block(T),
}

/// The type of a stacked tensor in one call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StackType {
    /// The element type.
    pub dtype: DType,
    /// The number of rows.
    pub rows: usize,
    /// The sizes of a row.
    pub row: Vec<usize>,
}

impl StackType {
    /// The sizes of the whole.
    pub fn shape(&self) -> Vec<usize> {
        [&[self.rows], self.row.as_slice()].concat()
    }
}

/// How the loops of a program run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LoopStrategy {
    /// Each loop compiled, if the [backend](Backend::compiles) does that and can compile it; else as the backend's lowering
    /// rule of `scan` says. Where that unrolls, loops with a static number of steps are unrolled, and the others run
    /// from the host.
    #[default]
    Auto,
    /// One body after the other in a straight line, compiled for the sizes of a call.
    Unroll,
    /// One program for the body, run by a loop; any sizes.
    Native,
    /// The whole loop compiled by the backend for the sizes of a call, where it can; else native.
    Compiled,
}

impl LoopStrategy {
    /// The strategy, if it is one that all loops must take.
    pub(super) fn forced(self) -> Option<LoopStrategy> {
        (self != LoopStrategy::Auto).then_some(self)
    }

    /// What is compiled as a whole of what a backend [compiles](Backend::compiles).
    pub(super) fn compiled(self, own: Compiles) -> Compiles {
        match self {
            LoopStrategy::Auto | LoopStrategy::Compiled => own,
            LoopStrategy::Unroll | LoopStrategy::Native => Compiles::Nothing,
        }
    }

    /// The name in tables: `auto`, `unroll`, `native`, `compiled`.
    pub fn name(self) -> &'static str {
        match self {
            LoopStrategy::Auto => "auto",
            LoopStrategy::Unroll => "unroll",
            LoopStrategy::Native => "native",
            LoopStrategy::Compiled => "compiled",
        }
    }
}

/// What a kernel may ask about the call that it serves. `O` is the op's type.
pub struct KernelCall<'a, B: Backend, O> {
    /// The op with its attributes.
    pub op: &'a O,
    /// The device.
    pub backend: &'a B,
    /// The operands' types, with symbols.
    pub inputs: &'a [TensorType],
    /// The results' types, with symbols.
    pub outputs: &'a [TensorType],
    pub(super) sizes: &'a Sizes,
    pub(super) at: &'a Place,
}

impl<'a, B: Backend, O> KernelCall<'a, B, O> {
    /// The same call with the op as another type.
    pub fn with_op<P>(&self, op: &'a P) -> KernelCall<'a, B, P> {
        let KernelCall { backend, inputs, outputs, sizes, at, .. } = *self;
        KernelCall { op, backend, inputs, outputs, sizes, at }
    }

    /// A kernel's results as the device keeps them ([`Backend::normalize`]).
    pub fn normalize(&self, results: Tensors<B::Tensor>) -> Result<Tensors<B::Tensor>, BackendError> {
        let typed = results.into_iter().zip(self.outputs);
        typed.map(|(tensor, ty)| self.backend.normalize(tensor, ty.dtype)).collect()
    }

    /// The number that a dimension has in this call.
    pub fn dim(&self, dim: &Dim) -> Result<usize, BackendError> {
        let value = self.dim_value(dim)?;
        usize::try_from(value)
            .map_err(|_| funcify_core::ops::no_size(self.at, SizeError::Negative(dim.clone(), value)).into())
    }

    /// The value of a dimension in this call, which may be negative: no size then, but a number.
    pub fn dim_value(&self, dim: &Dim) -> Result<i64, BackendError> {
        dim.value(self.sizes).map_err(|error| funcify_core::ops::no_size(self.at, error).into())
    }

    /// The sizes that a shape has in this call.
    pub fn shape(&self, shape: &Shape) -> Result<Vec<usize>, BackendError> {
        shape.dims().iter().map(|dim| self.dim(dim)).collect()
    }

    /// The sizes of result `index`.
    pub fn output_shape(&self, index: usize) -> Result<Vec<usize>, BackendError> {
        self.shape(&self.outputs[index].shape)
    }

    /// The sizes of operand `index`.
    pub fn input_shape(&self, index: usize) -> Result<Vec<usize>, BackendError> {
        self.shape(&self.inputs[index].shape)
    }

    /// The element type of operand `index`.
    pub fn dtype(&self, index: usize) -> DType {
        self.inputs[index].dtype
    }

    /// The sizes of the call.
    pub fn sizes(&self) -> &Sizes {
        self.sizes
    }

    /// The op and the user's line, for errors.
    pub fn place(&self) -> &Place {
        self.at
    }

    /// The error of something that the device does not support.
    pub fn unsupported(
        &self,
        what: impl Into<String>,
        reason: impl Into<String>,
        fix: impl Into<String>,
    ) -> BackendError {
        Box::new(Error::Unsupported {
            at: self.at.boxed(),
            backend: self.backend.name().to_string(),
            what: what.into(),
            reason: reason.into(),
            fix: fix.into(),
        })
    }
}

/// What a kernel's formula may give: one tensor, an array, or a list.
pub trait IntoTensors<T> {
    /// The tensors in order.
    fn into_tensors(self) -> Tensors<T>;
}

impl<T> IntoTensors<T> for Tensors<T> {
    fn into_tensors(self) -> Tensors<T> {
        self
    }
}

impl<T, const N: usize> IntoTensors<T> for [T; N] {
    fn into_tensors(self) -> Tensors<T> {
        self.into_iter().collect()
    }
}

impl<T> IntoTensors<T> for T {
    fn into_tensors(self) -> Tensors<T> {
        smallvec::smallvec![self]
    }
}
