//! Lowers `matmul`. On the CPU, multiplies floats with `gemm`, the library that Candle itself calls unless it was built
//! with MKL or Accelerate. With MKL, with Accelerate and on other devices, multiplies floats with Candle's `matmul`,
//! but only in shapes and layouts that it handles correctly. Multiplies integers with this crate's kernel, because
//! Candle has none.
//!
//! On the CPU, Candle queries the number of cores for each product. Unless `RAYON_NUM_THREADS` or `CANDLE_CPU_MASK`
//! is set, the query reads system files and takes 50 microseconds, a hundred times as long as a small product.
//! `product.rs` queries the number only once.

use candle_core::{CpuStorage, DType, Layout, Shape, utils};
use ndarray::{ArrayView3, ShapeBuilder};

use super::prelude::*;
use crate::cpu::{Kernel, contiguous, require_cpu};
use crate::product::products;

funcify!(Candle, ops::MatMul, |call, [left, right]| matmul(&call, &left, &right));

fn matmul(call: &Call<'_, ops::MatMul>, left: &Tensor, right: &Tensor) -> Outcome {
    let shape = output_shape(call)?;
    if left.elem_count() == 0 || right.elem_count() == 0 {
        return call.backend.zeros(&shape, call.dtype(0));
    }
    if !left.dtype().is_float() {
        require_cpu(call)?;
        return Ok(multiply(&left.contiguous()?, &right.contiguous()?, shape)?);
    }
    if left.dtype() == DType::BF16 && left.device().is_cpu() {
        // Candle's own bf16 product would convert the whole storage of each operand to f32, even if the operand is a
        // view, such as one row of a trace.
        let [left, right] = [left.to_dtype(DType::F32)?, right.to_dtype(DType::F32)?];
        return Ok(product(&left, &right, shape)?.to_dtype(DType::BF16)?);
    }
    product(left, right, shape)
}

fn product(left: &Tensor, right: &Tensor, shape: Vec<usize>) -> Outcome {
    let own = left.device().is_cpu() && !utils::has_mkl() && !utils::has_accelerate();
    if own && left.rank() == 2 {
        return Ok(multiply(&with_nonzero_strides(left)?, &with_nonzero_strides(right)?, shape)?);
    }
    let [left, right] =
        [merge_batch_axes(&with_nonzero_strides(left)?)?, merge_batch_axes(&with_nonzero_strides(right)?)?];
    // If all batches share one right matrix, stack the left matrices and compute a single product. (Candle also does
    // this, but without checking the strides.)
    let is_shared = right.stride()[0] == 0;
    let left = if is_shared { left.contiguous()? } else { left };
    let product = match left.dims3()? {
        _ if !own => left.matmul(&right)?.reshape(shape)?,
        (batch, rows, inner) if is_shared => {
            let tall = left.reshape((1, batch * rows, inner))?;
            multiply(&tall, &right.narrow(0, 0, 1)?, shape)?
        }
        _ => multiply(&left, &right, shape)?,
    };
    Ok(product)
}

/// Multiplies non-empty matrices, and returns the products in the given shape. Float operands may have any strides, but
/// at most one batch axis. Integer operands must be contiguous.
fn multiply(left: &Tensor, right: &Tensor, shape: Vec<usize>) -> candle_core::Result<Tensor> {
    let kernel = move |s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout| {
        let rank = l1.dims().len();
        let sizes = [l1.dims()[rank - 2], l1.dims()[rank - 1], l2.dims()[rank - 1]];
        macro_rules! products {
            (floats: $($float:ident),*; integers: $($integer:ident),*) => {
                match s1 {
                    $(CpuStorage::$float(_) => {
                        CpuStorage::$float(products(view(s1.as_slice()?, l1)?, view(s2.as_slice()?, l2)?))
                    })*
                    $(CpuStorage::$integer(_) => {
                        CpuStorage::$integer(ops::integer_products(contiguous(s1, l1)?, contiguous(s2, l2)?, sizes))
                    })*
                    _ => candle_core::bail!("no matrix product for these element types"),
                }
            };
        }
        let products = products!(floats: F16, F32, F64; integers: U8, U32, I32, I64);
        Ok((products, Shape::from(shape.clone())))
    };
    left.apply_op2_no_bwd(right, &Kernel("funcify-products", kernel))
}

/// Views a tensor of rank 2 or 3 as a batch of matrices.
fn view<'a, T>(elements: &'a [T], layout: &Layout) -> candle_core::Result<ArrayView3<'a, T>> {
    let (dims, strides) = match (layout.dims(), layout.stride()) {
        ([rows, columns], [row, column]) => ((1, *rows, *columns), (0, *row, *column)),
        (_, strides) => (layout.shape().dims3()?, (strides[0], strides[1], strides[2])),
    };
    let elements = &elements[layout.start_offset()..];
    ArrayView3::from_shape(dims.strides(strides), elements).map_err(candle_core::Error::wrap)
}

/// Returns the tensor, or a contiguous copy if its matrices repeat a row or a column through a stride of 0.
fn with_nonzero_strides(x: &Tensor) -> candle_core::Result<Tensor> {
    let rank = x.rank();
    let repeats = (rank - 2..rank).any(|axis| x.stride()[axis] == 0 && x.dims()[axis] > 1);
    if repeats { x.contiguous() } else { Ok(x.clone()) }
}

/// Merges all batch axes into one. Copies the elements only if there are several batch axes, and neither the tensor nor
/// the tensor with its matrices transposed is contiguous.
fn merge_batch_axes(x: &Tensor) -> candle_core::Result<Tensor> {
    let rank = x.rank();
    match rank {
        2 => return x.unsqueeze(0),
        3 => return Ok(x.clone()),
        _ => {}
    }
    let batch: usize = x.dims()[..rank - 2].iter().product();
    let (rows, columns) = (x.dims()[rank - 2], x.dims()[rank - 1]);
    // If transposing the matrices makes the tensor contiguous, reshape the transposed tensor and transpose it back,
    // which avoids a copy.
    let transposed = x.t()?;
    if !x.is_contiguous() && transposed.is_contiguous() {
        return transposed.reshape((batch, columns, rows))?.t();
    }
    x.reshape((batch, rows, columns))
}
