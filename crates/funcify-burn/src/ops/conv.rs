//! Lowers `conv` to Burn's own op. If the input is dilated, or cropped by negative padding, it is copied first. Both
//! operands are copied into row-major order, because Burn's ndarray device requires contiguous rows. For Burn's wgpu
//! device, the padding is inserted as explicit zeros: that device skips implicit zeros, although 0 times infinity or
//! NaN is NaN.

use burn::backend::ops::{ConvOptions, ModuleOps};

use super::prelude::*;
use crate::dtypes;

funcify!(Burn, ops::Conv, |call, [x, kernel]| conv(&call, x, kernel));

fn conv(call: &Call<'_, ops::Conv>, x: Tensor, kernel: Tensor) -> Outcome {
    let shape = call.op.result_shape(call.place(), &call.outputs[0].shape, call.sizes())?;
    if shape.contains(&0) || sizes(&x).contains(&0) || sizes(&kernel).contains(&0) {
        return call.backend.zeros(call.dtype(0), &shape);
    }
    let mut x = x;
    let mut zeros = Vec::new();
    for (spatial, dilation) in call.op.input_dilation.iter().enumerate() {
        let padding = call.op.padding(call.place(), spatial, sizes(&x)[spatial + 2], call.sizes())?;
        x = dilate(call, x, spatial + 2, *dilation, &padding)?;
        if call.backend.in_host_memory() {
            zeros.push((padding.before, padding.after));
        } else {
            x = pad(call, x, spatial + 2, &padding)?;
            zeros.push((0, 0));
        }
    }
    let (x, kernel) = (row_major(x)?, row_major(kernel)?);
    let ops::Conv { strides, dilation, .. } = call.op;
    let groups = call.dim(&call.op.groups)?;
    Ok(match zeros[..] {
        [zeros] => {
            let (stride, dilation) = ([strides[0]], [dilation[0]]);
            Dispatch::conv1d(x, kernel, None, ConvOptions { stride, padding: [zeros], dilation, groups })
        }
        _ => {
            let (stride, dilation) = ([strides[0], strides[1]], [dilation[0], dilation[1]]);
            let padding = [zeros[0], zeros[1]];
            Dispatch::conv2d(x, kernel, None, ConvOptions { stride, padding, dilation, groups })
        }
    })
}

/// Dilates an axis by inserting zeros between its elements, and crops it where the padding is negative.
fn dilate(call: &Call<'_, ops::Conv>, x: Tensor, axis: usize, dilation: usize, padding: &ops::Padding) -> Outcome {
    let mut shape = sizes(&x);
    let size = (shape[axis] - 1) * dilation + 1;
    let dilated = if dilation == 1 {
        x
    } else {
        shape[axis] = size;
        slice_assign(zeros_like(call, &x, &shape)?, &slices_along(&shape, axis, 0, size, dilation), x)
    };
    if padding.kept == (0..size) {
        return Ok(dilated);
    }
    Ok(slice(dilated, &slices_along(&shape, axis, padding.kept.start, padding.kept.end, 1)))
}

/// Pads an axis with zeros.
fn pad(call: &Call<'_, ops::Conv>, x: Tensor, axis: usize, padding: &ops::Padding) -> Outcome {
    let mut shape = sizes(&x);
    let (start, end) = (padding.before, padding.before + shape[axis]);
    if padding.before + padding.after == 0 {
        return Ok(x);
    }
    shape[axis] = end + padding.after;
    Ok(slice_assign(zeros_like(call, &x, &shape)?, &slices_along(&shape, axis, start, end, 1), x))
}

/// Creates zeros of the operand's storage dtype. This dtype may differ from the operand's dtype in the graph: f16 may
/// be stored as f32.
fn zeros_like(call: &Call<'_, ops::Conv>, x: &Tensor, shape: &[usize]) -> Outcome {
    call.backend.zeros(dtypes::of(x).expect("the call's operands have dtypes that funcify supports"), shape)
}

/// Copies the elements of a tensor into row-major order.
fn row_major(x: Tensor) -> Outcome {
    let shape = sizes(&x);
    reshape(reshape(x, &[shape.iter().product()])?, &shape)
}
