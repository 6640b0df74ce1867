//! The [`Backend`] trait: a tensor type, and the operations that loops and calls need in addition to kernels.

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

/// The operands or results of a kernel. Stores at most two tensors inline: every kernel call moves the list, and a
/// tensor may be large (about 500 bytes in Burn).
///
/// ```
/// use funcify::dispatch::Tensors;
///
/// let operands: Tensors<f32> = [1.0, 2.0].into_iter().collect();
/// assert_eq!(operands.as_slice(), [1.0, 2.0]);
/// ```
pub type Tensors<T> = SmallVec<[T; 2]>;

/// A tensor library on one device.
///
/// A value of the implementing type represents the device. Kernels are registered for that type with
/// [`funcify!`](crate::funcify).
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::dispatch::{Backend, Function, Reference, tensors_of};
/// use funcify::{Error, Graph, HostTensor, Scalar, funcify, ops};
///
/// /// A backend on the tensors of another one, with one kernel.
/// #[derive(Clone)]
/// struct Mine;
///
/// impl Backend for Mine {
///     tensors_of!(Reference);
///
///     fn name(&self) -> &'static str {
///         "mine"
///     }
/// }
///
/// funcify!(Mine, ops::Neg, |_call, [x]| {
///     let negated = |index: &[usize]| Scalar::Float(-x.at(index).as_f64());
///     Ok::<_, Error>(Arc::new(HostTensor::from_fn(x.dtype(), x.shape(), negated)))
/// });
///
/// let negate = Graph::build("negate", |g| -g.input("x", "f32[N]"))?;
/// let negate = Function::compile(&negate, &Mine)?;
/// assert_eq!(negate.call_host(&[HostTensor::from([1f32, -2.0])])?, [HostTensor::from([-1f32, 2.0])]);
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Backend: Clone + Send + Sync + 'static {
    /// The library's tensor type. Must be cheap to clone: clones share their elements.
    type Tensor: Clone + Send + Sync + 'static;

    /// The state, such as derivatives, that a function keeps between calls with tracked tensors
    /// ([`call_tracked`](Backend::call_tracked)). `()` if the library has no autodiff.
    type Tracked: Default + Send + Sync + 'static;

    /// Returns the backend's name, such as `candle` or `burn-flex`, for tables and errors.
    fn name(&self) -> &'static str;

    /// Returns the reason why the device cannot store tensors of this dtype and rank, or `None` if it can.
    fn unsupported(&self, dtype: DType, rank: usize) -> Option<String>;

    /// Copies a tensor from the host to the device.
    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError>;

    /// Copies a tensor from the device to the host, as `dtype`. For example, booleans that the library stores as bytes
    /// are returned as booleans.
    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError>;

    /// Returns the sizes of a tensor.
    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize>;

    /// Returns `true` if a tensor has the given sizes. Override this method if the library can compare sizes without
    /// allocating: the fast path for repeated calls uses it.
    fn has_shape(&self, tensor: &Self::Tensor, sizes: &[usize]) -> bool {
        self.shape(tensor) == sizes
    }

    /// Returns `true` if the tensor has the element type that this backend uses to store `dtype`.
    fn has_dtype(&self, tensor: &Self::Tensor, dtype: DType) -> bool;

    /// Returns rows `start..start + count` along axis 0.
    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError>;

    /// Returns row `row` of axis 0, with that axis removed.
    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError>;

    /// Concatenates rows and blocks of rows along axis 0 into a tensor of type `ty`. `parts` is empty if the result has
    /// no rows.
    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError>;

    /// Allocates a tensor of type `ty`, which [`write_row`](Backend::write_row) will fill row by row. Returns `None` if
    /// the device cannot write in place. In that case, the rows are collected and then stacked.
    fn allocate(&self, _ty: &StackType) -> Result<Option<Self::Tensor>, BackendError> {
        Ok(None)
    }

    /// Writes `value` to row `row` of `trace`, and returns the trace. `trace` was created by
    /// [`allocate`](Backend::allocate) and is not shared. A backend that implements `allocate` must also implement this
    /// method.
    fn write_row(&self, _trace: Self::Tensor, row: usize, _value: Self::Tensor) -> Result<Self::Tensor, BackendError> {
        let name = self.name();
        Err(format!("row {row} of a trace cannot be written: `{name}` allocates traces and has no `write_row`").into())
    }

    /// Returns the number of bytes per element of a tensor of type `dtype`, for the memory budget.
    fn element_bytes(&self, dtype: DType) -> usize {
        dtype.size()
    }

    /// Converts a kernel's result in place to the representation that this backend uses for `dtype`. Called after each
    /// kernel. If the library computes in a different type, this method must round or wrap the elements to `dtype`.
    fn normalize(&self, _tensor: &mut Self::Tensor, _dtype: DType) -> Result<(), BackendError> {
        Ok(())
    }

    /// Converts an argument to the representation of `dtype` that kernels expect. If the library stores `dtype` in a
    /// wider type, an argument may have elements that are invalid for `dtype`, such as the byte 2 for a boolean. This
    /// method must make them valid: any nonzero byte means true.
    fn admit(&self, mut tensor: Self::Tensor, dtype: DType) -> Result<Self::Tensor, BackendError> {
        self.normalize(&mut tensor, dtype)?;
        Ok(tensor)
    }

    /// Returns `true` if the code from [`compile_whole`](Backend::compile_whole) accepts this tensor as an argument of
    /// type `dtype` without conversion by [`admit`](Backend::admit).
    fn is_admitted(&self, _tensor: &Self::Tensor, _dtype: DType) -> bool {
        false
    }

    /// Returns `true` if the library's autodiff tracks the tensor. A call with a tracked argument first tries
    /// [`call_tracked`](Backend::call_tracked).
    fn is_tracked(&self, _tensor: &Self::Tensor) -> bool {
        false
    }

    /// Calls a function on arguments that the library's autodiff tracks, and records the call as a single op. Returns
    /// tracked results, or `None` if no gradient flows to any argument. In that case, the function is called without
    /// tracking.
    fn call_tracked(
        &self,
        _call: &TrackedCall<'_, Self>,
        _arguments: &[Self::Tensor],
    ) -> Option<Result<Vec<Self::Tensor>>> {
        None
    }

    /// Runs a kernel and normalizes its results. Override this method if the library must convert some operands and
    /// results, such as tensors of rank 0.
    fn run_kernel(
        &self,
        kernel: Kernel<Self>,
        call: &KernelCall<'_, Self, Op>,
        operands: Tensors<Self::Tensor>,
    ) -> Result<Tensors<Self::Tensor>, BackendError> {
        call.normalize(kernel(call, operands)?)
    }

    /// Blocks until the device has finished all its work. Does nothing if kernels run synchronously.
    fn wait(&self) {}

    /// Returns the parts of a program that the backend compiles as a whole. The runtime compiles nothing if the user
    /// forces [`LoopStrategy::Unroll`] or [`LoopStrategy::Native`]. Loops outside these parts run with the strategy of
    /// their lowering rule.
    fn compiles(&self) -> Compiles {
        Compiles::Nothing
    }

    /// Compiles a program, or one of its loops or ops, as a whole for the given sizes. If compilation is impossible,
    /// returns the op that prevents it, with the reason.
    fn compile_whole(&self, _whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
        Err(Declined::new(self.name(), "the backend compiles no loops"))
    }

    /// Returns the device's [preference](Parallel): less work, or logarithmic depth. If the device prefers logarithmic
    /// depth, a function is rewritten to reduce its depth, provided that its options
    /// [tolerate](funcify_rewrite::Tolerance) the resulting rounding differences.
    fn parallel(&self) -> Parallel {
        Parallel::Avoid
    }

    /// Returns the fallback kernel, which runs all ops that have no lowering rule. The default is `None`.
    fn fallback(&self) -> Option<Kernel<Self>> {
        None
    }
}

/// A row or a block of rows that [`Backend::stack`] concatenates.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::dispatch::{Backend, Part, Reference, StackType};
/// use funcify::{DType, HostTensor};
///
/// let row = Part::Row(Arc::new(HostTensor::from([1f32, 2.0])));
/// let block = Part::Block(Arc::new(HostTensor::from([[3f32, 4.0], [5.0, 6.0]])));
/// let stacked = Reference.stack(vec![row, block], &StackType { dtype: DType::F32, rows: 3, row: vec![2] })?;
/// assert_eq!(*stacked, HostTensor::from([[1f32, 2.0], [3.0, 4.0], [5.0, 6.0]]));
/// # Ok::<(), funcify::error::BackendError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Part<T> {
    /// A single row, without axis 0.
    Row(T),
    /// Several rows, along axis 0.
    Block(T),
}

/// The type of a stacked tensor, with the sizes of one call.
///
/// ```
/// use funcify::DType;
/// use funcify::dispatch::StackType;
///
/// assert_eq!(StackType { dtype: DType::F32, rows: 3, row: vec![2] }.shape(), [3, 2]);
/// ```
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
    /// Returns the shape of the stacked tensor: the number of rows, then the shape of a row.
    pub fn shape(&self) -> Vec<usize> {
        [&[self.rows], self.row.as_slice()].concat()
    }
}

/// The arguments of [`Backend::call_tracked`] other than tensors: the function to call and its state.
pub struct TrackedCall<'a, B: Backend> {
    /// The name of the function, and the source line of the call.
    pub at: &'a Place,
    /// The graph of the function.
    pub graph: &'a Graph,
    /// The options with which the graph was compiled.
    pub options: &'a CompileOptions,
    /// The state that the backend keeps for the function.
    pub tracked: &'a B::Tracked,
}

/// Builds the error for a kernel that returns more or fewer results than its op has.
#[cold]
pub(crate) fn wrong_number_of_results(found: usize, declared: usize) -> BackendError {
    format!("the kernel returned {found} results, and the op declares {declared}").into()
}

/// Converts the error of a failed backend method to an [`Error`]. If the error already is an [`Error`], returns it
/// unchanged. Otherwise, wraps it in [`Error::Execution`].
#[cold]
pub(crate) fn execution_error(at: &Place, backend: &str, error: BackendError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(source) => Error::Execution { at: at.boxed(), backend: backend.to_string(), source },
    }
}
