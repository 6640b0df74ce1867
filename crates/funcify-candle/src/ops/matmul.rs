//! `matmul`: Candle's product, of the shapes and layouts for which it is right; small ones by `ndarray`; of integers this
//! crate's, since Candle has none.
//!
//! On the CPU, Candle asks in each product how many cores there are. Unless `RAYON_NUM_THREADS` or `CANDLE_CPU_MASK` is set,
//! that reads files of the system and takes 50 microseconds, a hundred times what a small product takes. The library that Candle
//! calls, `gemm`, has no safe function. `ndarray`'s product has, and is as fast where the right matrix is small, which it
//! copies; so what is small does not depend on a variable, in time or in bits.

use candle_core::{CpuStorage, CustomOp2, DType, Layout, Shape, Tensor, WithDType};
use funcify::dispatch::KernelCall;
use funcify::error::BackendError;
use funcify::funcify;
use funcify::ops::{MatMul, integer_products};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView3, ArrayViewMut3, LinalgScalar, ShapeBuilder};

use crate::cpu::{contiguous, require_cpu};
use crate::device::{Candle, output_shape};

funcify!(Candle, MatMul, |call, [left, right]| matmul(&call, &left, &right));

fn matmul(call: &KernelCall<'_, Candle, MatMul>, left: &Tensor, right: &Tensor) -> Result<Tensor, BackendError> {
    let shape = output_shape(call)?;
    if left.elem_count() == 0 || right.elem_count() == 0 {
        return call.backend.zeros(&shape, call.dtype(0));
    }
    if !left.dtype().is_float() {
        return integers(call, left, right, shape);
    }
    if left.dtype() == DType::BF16 && left.device().is_cpu() {
        // Candle widens all that lies behind a view, a whole trace for one of its rows.
        let [left, right] = [left.to_dtype(DType::F32)?, right.to_dtype(DType::F32)?];
        return Ok(product(&left, &right, shape)?.to_dtype(DType::BF16)?);
    }
    product(left, right, shape)
}

fn product(left: &Tensor, right: &Tensor, shape: Vec<usize>) -> Result<Tensor, BackendError> {
    let batch_axes = left.rank() - 2;
    if is_small(left, right) {
        let [left, right] = [batches(left)?, batches(right)?];
        return Ok(left.apply_op2_no_bwd(&right, &Small { shape })?);
    }
    if batch_axes == 0 {
        return Ok(readable(left)?.matmul(&readable(right)?)?);
    }
    let [left, right] = [one_batch_axis(&readable(left)?)?, one_batch_axis(&readable(right)?)?];
    // With a right operand that is the same for all batches, Candle takes the left matrices as one tall matrix
    // without looking at their strides.
    let left = if right.stride()[0] == 0 { left.contiguous()? } else { left };
    let product = left.matmul(&right)?;
    Ok(if batch_axes == 1 { product } else { product.reshape(shape)? })
}

/// The most elements of a right matrix, and the most products of two numbers, for which `ndarray` is not slower than Candle with
/// the variable set (8x8x8 0.3 and 1.2 microseconds, 32x32x32 1.2 and 1.9, 64x64x64 8.0 and 8.5; 1x128x128 6 and 3).
const SMALL: [usize; 2] = [64 * 64, 64 * 64 * 64];

fn is_small(left: &Tensor, right: &Tensor) -> bool {
    let rank = left.rank();
    let (rows, matrix) = (left.dims()[rank - 2], right.dims()[rank - 2] * right.dims()[rank - 1]);
    let is_kind = matches!(left.dtype(), DType::F32 | DType::F64) && left.device().is_cpu();
    is_kind && matrix <= SMALL[0] && rows * matrix <= SMALL[1]
}

/// The tensor with one batch axis.
fn batches(x: &Tensor) -> candle_core::Result<Tensor> {
    if x.rank() == 2 { x.unsqueeze(0) } else { one_batch_axis(x) }
}

/// Products of small matrices of floats, none of them empty, of that shape. The operands have one batch axis and any strides.
struct Small {
    shape: Vec<usize>,
}

impl CustomOp2 for Small {
    fn name(&self) -> &'static str {
        "funcify-small-products"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let products = match s1 {
            CpuStorage::F32(_) => CpuStorage::F32(small_products(s1, l1, s2, l2)?),
            CpuStorage::F64(_) => CpuStorage::F64(small_products(s1, l1, s2, l2)?),
            _ => candle_core::bail!("no kernel for small products of these numbers"),
        };
        Ok((products, Shape::from(self.shape.clone())))
    }
}

/// The products, row-major.
fn small_products<T: WithDType + LinalgScalar>(
    s1: &CpuStorage,
    l1: &Layout,
    s2: &CpuStorage,
    l2: &Layout,
) -> candle_core::Result<Vec<T>> {
    let (left, right) = (view(s1.as_slice::<T>()?, l1)?, view(s2.as_slice::<T>()?, l2)?);
    let shape = [left.dim().0, left.dim().1, right.dim().2];
    let mut products = vec![T::zero(); shape.iter().product()];
    let mut each = ArrayViewMut3::from_shape(shape, &mut products).map_err(candle_core::Error::wrap)?;
    for ((left, right), mut product) in left.outer_iter().zip(right.outer_iter()).zip(each.outer_iter_mut()) {
        general_mat_mul(T::one(), &left, &right, T::zero(), &mut product);
    }
    Ok(products)
}

/// The matrices of a tensor of rank 3 where they lie.
fn view<'a, T>(elements: &'a [T], layout: &Layout) -> candle_core::Result<ArrayView3<'a, T>> {
    let (dims, strides) = (layout.shape().dims3()?, layout.stride());
    let elements = elements.get(layout.start_offset()..).unwrap_or_default();
    ArrayView3::from_shape(dims.strides((strides[0], strides[1], strides[2])), elements)
        .map_err(candle_core::Error::wrap)
}

fn integers(
    call: &KernelCall<'_, Candle, MatMul>,
    left: &Tensor,
    right: &Tensor,
    shape: Vec<usize>,
) -> Result<Tensor, BackendError> {
    require_cpu(call)?;
    Ok(left.contiguous()?.apply_op2_no_bwd(&right.contiguous()?, &Integers { shape })?)
}

/// Products of contiguous matrices of integers, none of them empty, of that shape.
struct Integers {
    shape: Vec<usize>,
}

impl CustomOp2 for Integers {
    fn name(&self) -> &'static str {
        "funcify-integer-products"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let rank = l1.dims().len();
        let sizes = [l1.dims()[rank - 2], l1.dims()[rank - 1], l2.dims()[rank - 1]];
        macro_rules! products {
            ($($kind:ident),*) => {
                match s1 {
                    $(CpuStorage::$kind(_) => {
                        CpuStorage::$kind(integer_products(contiguous(s1, l1)?, contiguous(s2, l2)?, sizes))
                    })*
                    _ => candle_core::bail!("no kernel for products of these numbers"),
                }
            };
        }
        Ok((products!(U8, U32, I32, I64), Shape::from(self.shape.clone())))
    }
}

/// The tensor with matrices that have strides: a matrix that repeats a row or a column is copied.
fn readable(x: &Tensor) -> candle_core::Result<Tensor> {
    let rank = x.rank();
    let repeats = (rank - 2..rank).any(|axis| x.stride()[axis] == 0 && x.dims()[axis] > 1);
    if repeats { x.contiguous() } else { Ok(x.clone()) }
}

/// The tensor with all batch axes as one; a view if it is contiguous.
fn one_batch_axis(x: &Tensor) -> candle_core::Result<Tensor> {
    let rank = x.rank();
    if rank == 3 {
        return Ok(x.clone());
    }
    let batch: usize = x.dims()[..rank - 2].iter().product();
    let (rows, columns) = (x.dims()[rank - 2], x.dims()[rank - 1]);
    // A transposed matrix in contiguous batches keeps its strides: its transpose is the view.
    let transposed = x.t()?;
    if !x.is_contiguous() && transposed.is_contiguous() {
        return transposed.reshape((batch, columns, rows))?.t();
    }
    x.reshape((batch, rows, columns))
}
