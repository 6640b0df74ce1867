//! The [`Backend`] trait: a tensor type, and the few operations that loops and calls need in addition to kernels.

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

/// The operands or results of a kernel. Inline storage is small because a tensor may be large (Burn's has some 500
/// bytes) and every kernel call moves them.
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
/// A backend's value is the device. Its kernels are registered for its type with [`funcify!`](crate::funcify).
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
    /// The library's own tensor. Cloning is cheap: it shares the elements.
    type Tensor: Clone + Send + Sync + 'static;

    /// The state that a function keeps between its calls with tracked tensors
    /// ([`call_tracked`](Backend::call_tracked)), such as its derivatives. `()` if the library has no autodiff.
    type Tracked: Default + Send + Sync + 'static;

    /// Returns the backend's name in tables and errors, such as `candle` or `burn-flex`.
    fn name(&self) -> &'static str;

    /// Returns the reason why the device cannot hold tensors of this dtype or rank, or `None` if it can.
    fn unsupported(&self, dtype: DType, rank: usize) -> Option<String>;

    /// Copies a host tensor to the device.
    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError>;

    /// Copies a tensor to the host, as `dtype`: a library that stores booleans as bytes reads them back as booleans.
    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError>;

    /// Returns the sizes of a tensor.
    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize>;

    /// Returns whether a tensor has these sizes. Repeated calls use this method because it needs no list of sizes.
    fn has_shape(&self, tensor: &Self::Tensor, sizes: &[usize]) -> bool {
        self.shape(tensor) == sizes
    }

    /// Returns whether a tensor stores elements of `dtype` in the form that this backend uses for that dtype.
    fn has_dtype(&self, tensor: &Self::Tensor, dtype: DType) -> bool;

    /// Returns rows `start..start + count` of axis 0.
    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError>;

    /// Returns row `row` of axis 0, without that axis.
    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError>;

    /// Concatenates tensors along axis 0. All have the type `[.., row]`, and `ty` is the type of the result. `parts`
    /// is empty for a result without rows.
    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError>;

    /// Allocates a tensor of type `ty` whose rows will be written by [`write_row`](Backend::write_row), if the device
    /// can write in place. With `None`, the rows are collected and stacked.
    fn allocate(&self, _ty: &StackType) -> Result<Option<Self::Tensor>, BackendError> {
        Ok(None)
    }

    /// Returns `trace` with row `row` replaced. `trace` came from [`allocate`](Backend::allocate) and is not shared.
    /// A backend that allocates traces must implement this method.
    fn write_row(&self, _trace: Self::Tensor, row: usize, _value: Self::Tensor) -> Result<Self::Tensor, BackendError> {
        let name = self.name();
        Err(format!("row {row} of a trace cannot be written: `{name}` allocates traces and has no `write_row`").into())
    }

    /// Returns the number of bytes of one element of a tensor, for the memory budget.
    fn element_bytes(&self, dtype: DType) -> usize {
        dtype.size()
    }

    /// Converts a kernel's result of type `dtype` to the form in which the device keeps it: if the library computes in
    /// a different type, this method rounds or wraps the result to `dtype`. Called after each kernel.
    fn normalize(&self, _tensor: &mut Self::Tensor, _dtype: DType) -> Result<(), BackendError> {
        Ok(())
    }

    /// Converts an argument of type `dtype` to the form that kernels expect. A library may store a dtype in a wider
    /// one. Its elements may then be invalid for the dtype: a boolean that is stored as a byte may be neither 0 nor 1,
    /// and counts as true. This method converts such elements to valid ones.
    fn admit(&self, mut tensor: Self::Tensor, dtype: DType) -> Result<Self::Tensor, BackendError> {
        self.normalize(&mut tensor, dtype)?;
        Ok(tensor)
    }

    /// Returns whether the result of [`compile_whole`](Backend::compile_whole) accepts an argument of type `dtype`
    /// without [`admit`](Backend::admit).
    fn is_admitted(&self, _tensor: &Self::Tensor, _dtype: DType) -> bool {
        false
    }

    /// Returns whether the library's autodiff tracks a tensor, so that [`call_tracked`](Backend::call_tracked) must
    /// be tried.
    fn is_tracked(&self, _tensor: &Self::Tensor) -> bool {
        false
    }

    /// Calls a function on arguments that the library's autodiff tracks, as a single op of that library, and returns
    /// tracked results. Returns `None` if no gradient flows to an argument; the function is then called as if nothing
    /// were tracked.
    fn call_tracked(
        &self,
        _call: &TrackedCall<'_, Self>,
        _arguments: &[Self::Tensor],
    ) -> Option<Result<Vec<Self::Tensor>>> {
        None
    }

    /// Runs a kernel. A backend whose library cannot compute on some tensors directly, such as those of rank 0,
    /// converts operands and results here.
    fn run_kernel(
        &self,
        kernel: Kernel<Self>,
        call: &KernelCall<'_, Self, Op>,
        operands: Tensors<Self::Tensor>,
    ) -> Result<Tensors<Self::Tensor>, BackendError> {
        call.normalize(kernel(call, operands)?)
    }

    /// Waits until the device has done all its work. Does nothing on a device that runs kernels synchronously.
    fn wait(&self) {}

    /// Returns the parts of a program that the backend compiles as a whole if the user does not force a strategy. Loops
    /// outside these parts run as their lowering rule says.
    fn compiles(&self) -> Compiles {
        Compiles::Nothing
    }

    /// Compiles a program, or one of its loops, as a whole for the sizes of a call. The error names the op that
    /// prevents it.
    fn compile_whole(&self, _whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
        Err(Declined::new(self.name(), "the backend compiles no loops"))
    }

    /// Returns whether the device prefers logarithmic depth to less work. If so, functions whose options
    /// [tolerate](funcify_rewrite::Tolerance) it are rewritten accordingly.
    fn parallel(&self) -> Parallel {
        Parallel::Avoid
    }

    /// Returns a kernel for ops that have no lowering rule. Only the reference backend has one.
    fn fallback(&self) -> Option<Kernel<Self>> {
        None
    }
}

/// A part of a [`Backend::stack`].
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
    /// One row, without axis 0.
    Row(T),
    /// Several rows.
    Block(T),
}

/// The type of a stacked tensor in one call.
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
    /// Returns the sizes of the stacked tensor.
    pub fn shape(&self) -> Vec<usize> {
        [&[self.rows], self.row.as_slice()].concat()
    }
}

/// The function that [`Backend::call_tracked`] calls.
pub struct TrackedCall<'a, B: Backend> {
    /// The function and the line that calls it.
    pub at: &'a Place,
    /// The graph.
    pub graph: &'a Graph,
    /// The options that the graph is compiled with.
    pub options: &'a CompileOptions,
    /// The state that the backend keeps for the function.
    pub tracked: &'a B::Tracked,
}

/// Converts the error of a failed kernel: an [`Error`] is returned unchanged, any other becomes [`Error::Execution`].
pub(crate) fn execution_error(at: &Place, backend: &str, error: BackendError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(source) => Error::Execution { at: at.boxed(), backend: backend.to_string(), source },
    }
}
