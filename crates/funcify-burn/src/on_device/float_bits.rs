//! Accesses the bits of floats on a device with its own memory, by reinterpreting a tensor's buffer as a different
//! element type. No elements are copied.
//!
//! Burn exposes the buffer only if there is no layer between funcify and the device. Burn's feature `fusion` adds such
//! a layer. With this feature, the functions of this module return `None`, and their callers fall back to the host
//! kernels.

use super::*;

const SIGN: i64 = i32::MIN as i64;
const MAGNITUDE: i64 = i32::MAX as i64;
/// The bit pattern of f32 infinity. As an integer, it is smaller than the bit pattern of any positive NaN.
const INFINITY: i64 = 0x7f80_0000;
const NAN: i64 = 0x7fc0_0000;

/// Reinterprets the bits of each element as `dtype`, which must have the same width. Returns `None` if the device uses
/// host memory, if a layer hides the buffer, or if `dtype` is not f32, i32 or u32.
pub(crate) fn bitcast(burn: &Burn, x: &Tensor, dtype: DType) -> Option<Tensor> {
    if burn.in_host_memory() { None } else { reinterpret(x, dtype) }
}

#[cfg(not(feature = "wgpu"))]
fn reinterpret(_: &Tensor, _: DType) -> Option<Tensor> {
    None
}

#[cfg(feature = "wgpu")]
fn reinterpret(x: &Tensor, dtype: DType) -> Option<Tensor> {
    use burn::backend::{BackendTensor, DispatchTensorKind};
    use burn::tensor::DType as BurnDType;

    let stored = match dtype {
        DType::F32 => BurnDType::F32,
        DType::I32 => BurnDType::I32,
        DType::U32 => BurnDType::U32,
        _ => return None,
    };
    let kind = match (&x.kind, dtype) {
        (DispatchTensorKind::Cube(BackendTensor::Float(x)), _) => BackendTensor::Int(with_dtype(x.clone(), stored)?),
        (DispatchTensorKind::Cube(BackendTensor::Int(x)), DType::F32) => {
            BackendTensor::Float(with_dtype(x.clone(), stored)?)
        }
        (DispatchTensorKind::Cube(BackendTensor::Int(x)), _) => BackendTensor::Int(with_dtype(x.clone(), stored)?),
        _ => return None,
    };
    Some(Tensor { kind: DispatchTensorKind::Cube(kind), autodiff: x.autodiff })
}

/// Reinterprets a tensor's buffer as elements of `dtype`. Returns `None` if a layer between funcify and the device
/// hides the buffer.
#[cfg(feature = "wgpu")]
fn with_dtype<P: 'static, R: 'static>(primitive: P, dtype: burn::tensor::DType) -> Option<R> {
    use std::any::Any;

    use burn::backend::wgpu::CubeTensor;

    let primitive: Box<dyn Any> = Box::new(primitive);
    let mut tensor = primitive.downcast::<CubeTensor>().ok()?;
    tensor.dtype = dtype;
    let tensor: Box<dyn Any> = tensor;
    tensor.downcast::<R>().ok().map(|tensor| *tensor)
}

/// Returns |x| with the sign of y, or `None` if the bits are not accessible. The elements must be f32.
pub(crate) fn copysign(burn: &Burn, x: &Tensor, y: &Tensor) -> Option<Tensor> {
    let [x, y] = [bitcast(burn, x, DType::I32)?, bitcast(burn, y, DType::I32)?];
    let (magnitude, sign) = (mask_bits(&x, MAGNITUDE), mask_bits(&y, SIGN));
    bitcast(burn, &Dispatch::bitwise_or(magnitude, sign), DType::F32)
}

/// Returns the next f32 after x in the direction of y, or `None` if the elements are not f32 or their bits are not
/// accessible. Maps the bits to integers that are ordered like the floats (both zeros map to 0), and adds or subtracts
/// 1.
pub(crate) fn next_after(burn: &Burn, x: &Tensor, y: &Tensor) -> Option<Tensor> {
    if crate::dtypes::of(x) != Some(DType::F32) {
        return None;
    }
    let [x, y] = [bitcast(burn, x, DType::I32)?, bitcast(burn, y, DType::I32)?];
    let bool_dtype = burn.bool_dtype();
    let in_order = |bits: &Tensor| {
        let magnitude = mask_bits(bits, MAGNITUDE);
        mask_where(magnitude.clone(), below_zero(burn, bits), negate(magnitude))
    };
    let (from, toward) = (in_order(&x), in_order(&y));
    let up = Dispatch::int_greater(toward.clone(), from.clone(), bool_dtype);
    let down = Dispatch::int_lower(toward, from.clone(), bool_dtype);
    let by = |step: i64, x: Tensor| Dispatch::int_add_scalar(x, Scalar::from(step));
    let moved = mask_where(from.clone(), up.clone(), by(1, from.clone()));
    let moved = mask_where(moved, down.clone(), by(-1, from));

    // Map the integer back to a float, keeping the sign of zero.
    let is_below = below_zero(burn, &moved);
    let is_zero = Dispatch::int_equal_elem(moved.clone(), Scalar::from(0i64), bool_dtype);
    let is_negative = Dispatch::bool_or(is_below.clone(), Dispatch::bool_and(is_zero, below_zero(burn, &x)));
    let magnitude = mask_where(moved.clone(), is_below, negate(moved));
    let signed = Dispatch::bitwise_or_scalar(magnitude.clone(), Scalar::from(SIGN));
    let next = mask_where(magnitude, is_negative, signed);
    let next = mask_where(y.clone(), Dispatch::bool_or(up, down), next);

    let is_nan =
        |bits: &Tensor| Dispatch::int_greater_elem(mask_bits(bits, MAGNITUDE), Scalar::from(INFINITY), bool_dtype);
    let undefined = Dispatch::bool_or(is_nan(&x), is_nan(&y));
    bitcast(burn, &Dispatch::int_mask_fill(next, undefined, Scalar::from(NAN)), DType::F32)
}

fn mask_bits(bits: &Tensor, mask: i64) -> Tensor {
    Dispatch::bitwise_and_scalar(bits.clone(), Scalar::from(mask))
}
