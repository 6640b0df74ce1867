//! What a backend is: a tensor type, and the few things that loops and calls need of it beside its kernels.

mod kernel_call;
mod options;
pub(crate) mod registry;
mod whole;

use std::sync::Arc;

use funcify_core::HostTensor;
use funcify_core::error::{BackendError, Error, Place, Result};
use funcify_core::graph::Graph;
use funcify_core::ops::Op;
use funcify_core::types::DType;
use funcify_rewrite::Parallel;
use smallvec::SmallVec;

pub use self::kernel_call::{IntoTensors, KernelCall};
pub use self::options::{CompileOptions, LoopStrategy};
use self::registry::Kernel;
pub(crate) use self::whole::CompileResult;
pub use self::whole::{Compiled, Compiles, Declined, Outcome, WholeRequest};

/// The tensors that a kernel takes or gives. A tensor may be large, Burn's is some 500 bytes, and each kernel moves them.
pub type Tensors<T> = SmallVec<[T; 2]>;

/// A tensor library on one device.
///
/// A backend's value is the device. Its kernels are registered for its type with [`funcify!`](crate::funcify).
pub trait Backend: Clone + Send + Sync + 'static {
    /// The library's own tensor. Cloning is cheap: it shares the elements.
    type Tensor: Clone + Send + Sync + 'static;

    /// What a function keeps between its calls with tracked tensors ([`call_tracked`](Backend::call_tracked)): derivatives, say.
    /// `()` where the library has no autodiff.
    type Tracked: Default + Send + Sync + 'static;

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
    fn allocate(&self, _ty: &StackType) -> Result<Option<Self::Tensor>, BackendError> {
        Ok(None)
    }

    /// `trace` with row `row` replaced. `trace` came from [`allocate`](Backend::allocate) and is shared with nothing. A
    /// backend that allocates traces must have it.
    fn write_row(&self, _trace: Self::Tensor, row: usize, _value: Self::Tensor) -> Result<Self::Tensor, BackendError> {
        let name = self.name();
        Err(format!("row {row} of a trace cannot be written: `{name}` allocates traces and has no `write_row`").into())
    }

    /// How many bytes one element of a tensor takes, for the memory budget.
    fn element_bytes(&self, dtype: DType) -> usize {
        dtype.size()
    }

    /// A kernel's result of type `dtype` as the device keeps it: where the library computes in another type, what was
    /// computed is rounded or wrapped to `dtype` here. Called after each kernel.
    fn normalize(&self, tensor: Self::Tensor, _dtype: DType) -> Result<Self::Tensor, BackendError> {
        Ok(tensor)
    }

    /// An argument of type `dtype` as kernels take it. A library may store a dtype as another one, with elements that the
    /// dtype does not have: bytes beyond 0 and 1 for booleans, which are true. Here they become elements of `dtype`.
    fn admit(&self, tensor: Self::Tensor, dtype: DType) -> Result<Self::Tensor, BackendError> {
        self.normalize(tensor, dtype)
    }

    /// Whether what [`compile_whole`](Backend::compile_whole) gives takes an argument of type `dtype` without [`admit`](Backend::admit).
    fn is_admitted(&self, _tensor: &Self::Tensor, _dtype: DType) -> bool {
        false
    }

    /// Whether the library's autodiff tracks a tensor, and [`call_tracked`](Backend::call_tracked) is to be asked.
    fn is_tracked(&self, _tensor: &Self::Tensor) -> bool {
        false
    }

    /// A call of a function with arguments that the library's autodiff tracks, as one op of it: the results, tracked.
    /// `None` if no gradient flows to an argument, so that the function is called as if nothing were tracked.
    fn call_tracked(
        &self,
        _call: &TrackedCall<'_, Self>,
        _arguments: &[Self::Tensor],
    ) -> Option<Result<Vec<Self::Tensor>>> {
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
    fn compile_whole(&self, _whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
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

/// What [`Backend::call_tracked`] is given of a function.
pub struct TrackedCall<'a, B: Backend> {
    /// The function and the line that calls it.
    pub at: &'a Place,
    /// The graph.
    pub graph: &'a Graph,
    /// How it is compiled.
    pub options: &'a CompileOptions,
    /// What the backend keeps of the function.
    pub tracked: &'a B::Tracked,
}

/// The error of a kernel that failed: its own if it is one of ours.
pub(crate) fn execution_error(at: &Place, backend: &str, error: BackendError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(source) => Error::Execution { at: at.boxed(), backend: backend.to_string(), source },
    }
}
