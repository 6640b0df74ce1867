//! Lowers `conv` to Candle's kernels if the convolution has a single group and either one spatial axis, or two axes
//! with the same stride and dilation. Otherwise, copies the windows to columns (im2col), and computes a matrix product
//! for each group. Pads the operand explicitly, because Candle requires the same padding on both sides of every axis.
//! Computes convolutions of f16 and bf16 in f32.

use candle_core::DType;

use super::pad::interleave;
use super::prelude::*;
use super::slice::{narrow, take_every};

funcify!(Candle, ops::Conv, |call, [x, kernel]| conv(&call, &x, &kernel));

fn conv(call: &Call<'_, ops::Conv>, x: &Tensor, kernel: &Tensor) -> Outcome {
    let shape = call.op.result_shape(call.place(), &call.outputs[0].shape, call.sizes())?;
    if shape.contains(&0) || x.elem_count() == 0 || kernel.elem_count() == 0 {
        return call.backend.zeros(&shape, call.dtype(0));
    }
    let dtype = x.dtype();
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let (x, kernel) = (pad(call, &x.to_dtype(wide)?)?, kernel.to_dtype(wide)?.contiguous()?);
    let ops::Conv { strides, dilation, .. } = call.op;
    let even = strides.iter().all(|stride| *stride == strides[0]) && dilation.iter().all(|step| *step == dilation[0]);
    let groups = call.dim(&call.op.groups)?;
    let result = match (strides.len(), groups) {
        (1, 1) => x.conv1d(&kernel, 0, strides[0], dilation[0], 1)?,
        (2, 1) if even => x.conv2d(&kernel, 0, strides[0], dilation[0], 1)?,
        _ => convolve_by_columns(call, &x, &kernel, groups, &shape)?,
    };
    Ok(result.to_dtype(dtype)?)
}

/// Dilates the operand, applies the padding (crops where the padding is negative), and makes the result contiguous.
fn pad(call: &Call<'_, ops::Conv>, x: &Tensor) -> Outcome {
    let zero = Tensor::zeros((), x.dtype(), x.device())?;
    let mut result = x.clone();
    for (spatial, dilation) in call.op.input_dilation.iter().enumerate() {
        let axis = spatial + 2;
        let padding = call.op.padding(call.place(), spatial, x.dim(axis)?, call.sizes())?;
        if padding.kept.is_empty() {
            let mut shape = result.dims().to_vec();
            shape[axis] = padding.before + padding.after;
            result = Tensor::zeros(shape, x.dtype(), x.device())?;
            continue;
        }
        let dilated = interleave(&result.contiguous()?, &zero, axis, dilation - 1)?;
        let cut = narrow(&dilated, axis, padding.kept.start, padding.kept.len())?;
        result = cut.pad_with_zeros(axis, padding.before, padding.after)?;
    }
    Ok(result.contiguous()?)
}

/// Computes the convolution by im2col: copies the windows to columns, and multiplies the kernel by the columns. For
/// each group, the kernel has shape `[output channels, input channels * window]`, and the columns have shape `[input
/// channels * window, positions]`.
fn convolve_by_columns(
    call: &Call<'_, ops::Conv>,
    x: &Tensor,
    kernel: &Tensor,
    groups: usize,
    shape: &[usize],
) -> Outcome {
    let mut columns = vec![x.clone()];
    for (spatial, (stride, dilation)) in call.op.strides.iter().zip(&call.op.dilation).enumerate() {
        let axis = spatial + 2;
        let mut parts = Vec::new();
        for column in &columns {
            for offset in 0..kernel.dim(axis)? {
                let part = narrow(column, axis, offset * dilation, (shape[axis] - 1) * stride + 1)?;
                parts.push(if *stride == 1 { part } else { take_every(&part, axis, *stride)? });
            }
        }
        columns = parts;
    }
    let (batch, results) = (shape[0], shape[1]);
    let positions: usize = shape[2..].iter().product();
    let rows = kernel.elem_count() / results;
    let columns = Tensor::stack(&columns, 2)?.reshape((batch * groups, rows, positions))?;
    let kernel = kernel.reshape((1, groups, results / groups, rows))?;
    let kernel = kernel.broadcast_as((batch, groups, results / groups, rows))?.contiguous()?;
    let product = kernel.reshape((batch * groups, results / groups, rows))?.matmul(&columns)?;
    Ok(product.reshape(shape)?)
}
