//! The reference backend: runs each op with the reference evaluator. Programs and loops are lowered and run as on any
//! other backend.

use std::sync::Arc;

use funcify_core::error::BackendError;
use funcify_core::ops::{EvalContext, Op, OpRules, Scan};
use funcify_core::types::DType;
use funcify_core::{HostTensor, Scalar, Storage};

use crate::backend::registry::Kernel;
use crate::backend::{Backend, KernelCall, Part, StackType, Tensors};

/// A slow and simple backend on host tensors that supports every op and every dtype.
///
/// ```
/// use funcify::dispatch::{Function, Reference};
/// use funcify::{Graph, HostTensor};
///
/// let square = Graph::build("square", |g| g.input("x", "f16[]").square())?;
/// let square = Function::compile(&square, &Reference)?;
/// let x = HostTensor::scalar(3f32).cast(funcify::DType::F16);
/// assert_eq!(square.call_host(&[x])?[0].to_f64_vec(), [9.0]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

crate::funcify!(Reference, Scan, native_loop);
crate::register_backend!("reference", || funcify_core::error::Result::Ok(Reference));

impl Backend for Reference {
    type Tensor = Arc<HostTensor>;
    type Tracked = ();

    fn name(&self) -> &'static str {
        "reference"
    }

    fn unsupported(&self, _: DType, _: usize) -> Option<String> {
        None
    }

    fn upload(&self, tensor: &HostTensor) -> Result<Self::Tensor, BackendError> {
        Ok(Arc::new(tensor.clone()))
    }

    fn download(&self, tensor: &Self::Tensor, dtype: DType) -> Result<HostTensor, BackendError> {
        Ok(if tensor.dtype() == dtype { (**tensor).clone() } else { tensor.cast(dtype) })
    }

    fn shape(&self, tensor: &Self::Tensor) -> Vec<usize> {
        tensor.shape().to_vec()
    }

    fn has_shape(&self, tensor: &Self::Tensor, sizes: &[usize]) -> bool {
        tensor.shape() == sizes
    }

    fn has_dtype(&self, tensor: &Self::Tensor, dtype: DType) -> bool {
        tensor.dtype() == dtype
    }

    fn rows(&self, tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, BackendError> {
        let rows: Vec<Scalar> =
            (start..start + count).flat_map(|row| tensor.row(row).scalars().collect::<Vec<_>>()).collect();
        assemble(tensor.dtype(), [&[count], &tensor.shape()[1..]].concat(), rows)
    }

    fn row(&self, tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, BackendError> {
        Ok(Arc::new(tensor.row(row)))
    }

    fn stack(&self, parts: Vec<Part<Self::Tensor>>, ty: &StackType) -> Result<Self::Tensor, BackendError> {
        let scalars = parts.iter().flat_map(|part| {
            let (Part::Row(tensor) | Part::Block(tensor)) = part;
            tensor.scalars()
        });
        assemble(ty.dtype, ty.shape(), scalars)
    }

    fn element_bytes(&self, dtype: DType) -> usize {
        funcify_core::memory::bytes_during_creation(dtype)
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(evaluate_kernel)
    }
}

/// Runs any op with the reference evaluator. Intended as the fallback kernel of a backend that has the same tensor type
/// as [`Reference`].
///
/// ```
/// use funcify::dispatch::{Backend, Function, Kernel, Reference, evaluate_kernel, tensors_of};
/// use funcify::{Graph, HostTensor};
///
/// #[derive(Clone)]
/// struct Mine;
///
/// impl Backend for Mine {
///     tensors_of!(Reference);
///
///     fn name(&self) -> &'static str {
///         "mine"
///     }
///
///     fn fallback(&self) -> Option<Kernel<Self>> {
///         Some(evaluate_kernel)
///     }
/// }
///
/// let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
/// assert_eq!(Function::compile(&square, &Mine)?.call_host(&[3f32.into()])?, [HostTensor::scalar(9f32)]);
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn evaluate_kernel<B: Backend<Tensor = Arc<HostTensor>>>(
    call: &KernelCall<'_, B, Op>,
    operands: Tensors<B::Tensor>,
) -> Result<Tensors<B::Tensor>, BackendError> {
    let mut sizes = call.sizes().clone();
    let mut context = EvalContext { at: call.place().clone(), sizes: &mut sizes };
    let inputs: Vec<HostTensor> = operands.iter().map(|tensor| (**tensor).clone()).collect();
    let results = call.op.eval(&mut context, &inputs, call.outputs)?;
    Ok(results.into_iter().map(Arc::new).collect())
}

/// Implements the tensor methods of [`Backend`](crate::Backend) by delegating to another backend: write
/// `tensors_of!(Reference);` in an `impl Backend`. The only required method that remains is `name`.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::HostTensor;
/// use funcify::dispatch::{Backend, Reference, tensors_of};
///
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
/// assert_eq!(Mine.shape(&Arc::new(HostTensor::from([1f32, 2.0]))), [2]);
/// ```
#[macro_export]
macro_rules! tensors_of {
    ($backend:ident) => {
        type Tensor = <$backend as $crate::Backend>::Tensor;
        type Tracked = ();

        $crate::tensors_of! { $backend:
            unsupported(dtype: $crate::DType, rank: usize) -> Option<String>;
            upload(tensor: &$crate::HostTensor) -> Result<Self::Tensor, $crate::BackendError>;
            download(tensor: &Self::Tensor, dtype: $crate::DType) -> Result<$crate::HostTensor, $crate::BackendError>;
            shape(tensor: &Self::Tensor) -> Vec<usize>;
            has_shape(tensor: &Self::Tensor, sizes: &[usize]) -> bool;
            has_dtype(tensor: &Self::Tensor, dtype: $crate::DType) -> bool;
            rows(tensor: &Self::Tensor, start: usize, count: usize) -> Result<Self::Tensor, $crate::BackendError>;
            row(tensor: &Self::Tensor, row: usize) -> Result<Self::Tensor, $crate::BackendError>;
            stack(
                parts: Vec<$crate::Part<Self::Tensor>>,
                ty: &$crate::StackType
            ) -> Result<Self::Tensor, $crate::BackendError>;
        }
    };
    ($backend:ident: $($method:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        $(fn $method(&self, $($argument: $ty),*) -> $result {
            $crate::Backend::$method(&$backend, $($argument),*)
        })*
    };
}

fn assemble(
    dtype: DType,
    shape: Vec<usize>,
    scalars: impl IntoIterator<Item = Scalar>,
) -> Result<Arc<HostTensor>, BackendError> {
    let tensor = HostTensor::new(shape, Storage::from_scalars(dtype, scalars));
    tensor.map(Arc::new).ok_or_else(|| "rows of different sizes cannot be stacked".into())
}
