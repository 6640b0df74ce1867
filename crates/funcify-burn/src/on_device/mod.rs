//! Implements kernels for devices with their own memory. The kernels use Burn's own ops, whose integer arithmetic wraps
//! on these devices. The kernels combine several of Burn's ops for the cases that Burn leaves undefined: division by
//! zero, casts of numbers that the target type cannot represent, and indices out of range. No kernel reads elements
//! back to the host, so a loop enqueues its steps without waiting for the device.

mod bits;
mod float_bits;
mod floats;
mod long;
mod special;
mod threefry;

use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::backend::{Dispatch, TensorMetadata};
use burn::tensor::{FloatDType, IndexingUpdateOp, Scalar};
use funcify_core::DType;
use funcify_core::ops::{ReduceKind, ScatterMode};

use crate::device::Burn;
use crate::dtypes;
use crate::kinds::{Kind, Outcome, Tensor, join, kind, mask_where, sizes, slice, slices_along};

pub(crate) use bits::{count_leading_zeros, popcount, shift_left, shift_right_arithmetic, shift_right_logical};
pub(crate) use float_bits::{bitcast, copysign, next_after};
pub(crate) use floats::{expm1, log, log1p, power, tanh};
pub(crate) use long::{reduce_long_axis, running_long_axis};
pub(crate) use special::{acos, asin, atan, atan2, erf, erf_inv, sinh};
pub(crate) use threefry::threefry;

/// Returns whether a tensor holds unsigned integers.
fn is_unsigned(x: &Tensor) -> bool {
    dtypes::of(x) == Some(DType::U32)
}

/// Computes -x in two's complement, for signed and unsigned integers.
pub(crate) fn negate(x: Tensor) -> Tensor {
    Dispatch::int_add_scalar(Dispatch::bitwise_not(x), Scalar::from(1i64))
}

fn below_zero(burn: &Burn, x: &Tensor) -> Tensor {
    Dispatch::int_lower_elem(x.clone(), Scalar::from(0i64), burn.bool_dtype())
}

/// Computes |x|. The smallest signed integer maps to itself.
pub(crate) fn magnitude(burn: &Burn, x: Tensor) -> Tensor {
    if is_unsigned(&x) {
        return x;
    }
    let below = below_zero(burn, &x);
    mask_where(x.clone(), below, negate(x))
}

/// Computes the sign of integers: -1, 0 or 1.
pub(crate) fn sign(burn: &Burn, x: Tensor) -> Tensor {
    let dtype = x.dtype().into();
    let above = Dispatch::int_greater_elem(x.clone(), Scalar::from(0i64), burn.bool_dtype());
    let above = Dispatch::bool_into_int(above, dtype);
    match is_unsigned(&x) {
        true => above,
        false => Dispatch::int_sub(above, Dispatch::bool_into_int(below_zero(burn, &x), dtype)),
    }
}

/// Computes x / y, rounded toward zero. If y is 0, all bits of the result are 1. The device never divides by 0 or -1,
/// because such a division may crash the device.
pub(crate) fn quotient(burn: &Burn, x: Tensor, y: Tensor) -> Tensor {
    let (divisor, is_zero, is_minus_one) = safe_divisor(burn, &y);
    let quotient = Dispatch::int_div(x.clone(), divisor);
    let quotient = match is_minus_one {
        Some(is_minus_one) => mask_where(quotient, is_minus_one, negate(x)),
        None => quotient,
    };
    let ones = if is_unsigned(&y) { i64::from(u32::MAX) } else { -1 };
    Dispatch::int_mask_fill(quotient, is_zero, Scalar::from(ones))
}

/// Computes the remainder x - y * (x / y), which has the sign of x. Returns x if y is 0.
pub(crate) fn remainder(burn: &Burn, x: Tensor, y: Tensor) -> Tensor {
    let (divisor, is_zero, _) = safe_divisor(burn, &y);
    let multiple = Dispatch::int_mul(Dispatch::int_div(x.clone(), divisor.clone()), divisor);
    mask_where(Dispatch::int_sub(x.clone(), multiple), is_zero, x)
}

/// Replaces the divisors 0 and -1 with 1. Returns the new divisors, a mask of the zero divisors, and, for signed
/// integers, a mask of the divisors equal to -1.
fn safe_divisor(burn: &Burn, y: &Tensor) -> (Tensor, Tensor, Option<Tensor>) {
    let equals = |number: i64| Dispatch::int_equal_elem(y.clone(), Scalar::from(number), burn.bool_dtype());
    let one = Scalar::from(1i64);
    let is_zero = equals(0);
    let divisor = Dispatch::int_mask_fill(y.clone(), is_zero.clone(), one);
    if is_unsigned(y) {
        return (divisor, is_zero, None);
    }
    let is_minus_one = equals(-1);
    (Dispatch::int_mask_fill(divisor, is_minus_one.clone(), one), is_zero, Some(is_minus_one))
}

/// Casts integers to a different integer type, with wrapping. Corrects Burn's wgpu cast from u32 to i64, which
/// sign-extends.
pub(crate) fn cast_wrapping(burn: &Burn, x: Tensor, dtype: DType) -> Outcome {
    let is_extended = is_unsigned(&x) && dtype == DType::I64;
    let cast = Dispatch::int_cast(x, burn.integer(dtype)?);
    Ok(match is_extended {
        true => Dispatch::bitwise_and_scalar(cast, Scalar::from(i64::from(u32::MAX))),
        false => cast,
    })
}

/// Casts floats to integers. Rounds toward zero, saturates, and maps NaN to 0.
pub(crate) fn cast_saturating(burn: &Burn, x: Tensor, dtype: DType) -> Outcome {
    let (lowest, highest) = match dtype {
        DType::U8 => (0, 255),
        DType::U32 => (0, i64::from(u32::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let x = Dispatch::float_cast(x, FloatDType::F32);
    // The largest i32, u32 and i64 round up in f32, to 2^31, 2^32 and 2^63. Floats at or above these bounds saturate.
    let below = Dispatch::float_lower_equal_elem(x.clone(), Scalar::from(lowest as f64), burn.bool_dtype());
    let above = Dispatch::float_greater_equal_elem(x.clone(), Scalar::from(highest as f64), burn.bool_dtype());
    let is_nan = Dispatch::float_is_nan(x.clone(), burn.bool_dtype());
    let outside = Dispatch::bool_or(Dispatch::bool_or(below.clone(), above.clone()), is_nan);
    let inside = Dispatch::float_mask_fill(x, outside, Scalar::from(0f64));
    let whole = Dispatch::float_into_int(inside, burn.integer(dtype)?);
    let whole = Dispatch::int_mask_fill(whole, below, Scalar::from(lowest));
    Ok(Dispatch::int_mask_fill(whole, above, Scalar::from(highest)))
}

/// Reduces an axis of an integer tensor to size 1 (keepdim). Returns `None` for `Any` and `All`, which are reductions
/// of booleans.
pub(crate) fn fold(monoid: ReduceKind, x: Tensor, axis: usize) -> Option<Tensor> {
    match monoid {
        ReduceKind::Sum => Some(Dispatch::int_sum_dim(x, axis)),
        ReduceKind::Prod => Some(Dispatch::int_prod_dim(x, axis)),
        ReduceKind::Max => Some(Dispatch::int_max_dim(x, axis)),
        ReduceKind::Min => Some(Dispatch::int_min_dim(x, axis)),
        ReduceKind::Any | ReduceKind::All => None,
    }
}

/// Computes a running reduction of integers along an axis, from the first element or, if `reverse` is set, from the
/// last. Returns `None` for `Any` and `All`, which are reductions of booleans.
pub(crate) fn running_integers(
    burn: &Burn,
    monoid: ReduceKind,
    x: Tensor,
    axis: usize,
    reverse: bool,
) -> Option<Outcome> {
    let along = match monoid {
        ReduceKind::Sum => Dispatch::int_cumsum,
        ReduceKind::Prod => Dispatch::int_cumprod,
        ReduceKind::Max => Dispatch::int_cummax,
        ReduceKind::Min => Dispatch::int_cummin,
        ReduceKind::Any | ReduceKind::All => return None,
    };
    let turned = |x: Tensor| if reverse { Dispatch::int_flip(x, &[axis]) } else { x };
    Some(running_long_axis(burn, monoid, turned(x), axis, &along).map(turned))
}

/// Computes a running reduction of booleans along an axis, as a maximum or minimum of integers. Returns `None` for
/// reductions other than `Any` and `All`.
pub(crate) fn running_bools(burn: &Burn, monoid: ReduceKind, x: Tensor, axis: usize, reverse: bool) -> Option<Outcome> {
    let of_integers = match monoid {
        ReduceKind::Any => ReduceKind::Max,
        ReduceKind::All => ReduceKind::Min,
        _ => return None,
    };
    let integers = running_integers(burn, of_integers, Dispatch::bool_into_int(x, burn.index_dtype()), axis, reverse)?;
    Some(integers.map(|all| Dispatch::int_not_equal_elem(all, Scalar::from(0i64), burn.bool_dtype())))
}

/// Clamps indices of any integer type to `0..size`, and casts them to the device's index type.
pub(crate) fn clamp_indices(burn: &Burn, indices: Tensor, size: usize) -> Tensor {
    let last = size.saturating_sub(1).min(i32::MAX as usize) as i64;
    let indices = Dispatch::int_clamp(indices, Scalar::from(0i64), Scalar::from(last));
    Dispatch::int_cast(indices, burn.index_dtype())
}

/// Applies updates to the elements at `indices` along an axis, in row-major order. Updates whose index is out of range
/// go to an extra position past the end, which is removed afterwards.
pub(crate) fn scatter(
    burn: &Burn,
    axis: usize,
    mode: ScatterMode,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
) -> Tensor {
    if kind(&x) != Kind::Float || !matches!(mode, ScatterMode::Max | ScatterMode::Min) {
        return scatter_numbers(burn, axis, mode, x, indices, updates);
    }
    // On the device, the maximum or minimum of a number and NaN is the number. So a separate scatter tracks NaNs.
    let is_nan = |x: &Tensor| Dispatch::float_is_nan(x.clone(), burn.bool_dtype());
    let marked = |x: &Tensor| Dispatch::bool_into_int(is_nan(x), burn.index_dtype());
    let marks = scatter_numbers(burn, axis, ScatterMode::Max, marked(&x), indices.clone(), marked(&updates));
    let nans = Dispatch::int_not_equal_elem(marks, Scalar::from(0i64), burn.bool_dtype());
    let changed = scatter_numbers(burn, axis, mode, x, indices, updates);
    Dispatch::float_mask_fill(changed, nans, Scalar::from(f64::NAN))
}

/// Works like [`scatter`], but ignores NaN in maxima and minima.
fn scatter_numbers(burn: &Burn, axis: usize, mode: ScatterMode, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor {
    let x_sizes = sizes(&x);
    let size = x_sizes[axis];
    let below = below_zero(burn, &indices);
    let above = Dispatch::int_greater_elem(indices.clone(), Scalar::from(size as i64 - 1), burn.bool_dtype());
    let outside = Dispatch::bool_or(below, above);
    let indices = Dispatch::int_mask_fill(clamp_indices(burn, indices, size), outside, Scalar::from(size as i64));
    let spare = slice(x.clone(), &slices_along(&x_sizes, axis, 0, 1, 1));
    let extended = join(vec![x, spare], axis);
    let update = match mode {
        ScatterMode::Set => IndexingUpdateOp::Assign,
        ScatterMode::Add => IndexingUpdateOp::Add,
        ScatterMode::Mul => IndexingUpdateOp::Mul,
        ScatterMode::Max => IndexingUpdateOp::Max,
        ScatterMode::Min => IndexingUpdateOp::Min,
    };
    let changed = match kind(&extended) {
        Kind::Float => Dispatch::float_scatter(axis, extended, indices, updates, update),
        _ => Dispatch::int_scatter(axis, extended, indices, updates, update),
    };
    let mut extended = x_sizes;
    extended[axis] += 1;
    slice(changed, &slices_along(&extended, axis, 0, size, 1))
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {

    use super::*;
    use crate::kinds::READS;
    use funcify_core::{Graph, HostTensor, evaluate, random, scan};
    use funcify_runtime::{Backend, Function};

    /// Checks that a native loop reads nothing back from the device. Each step computes floats, integers, bytes and
    /// random numbers, and indexes tensors at data-dependent positions.
    #[test]
    fn a_native_loop_reads_nothing_back() {
        let burn = match Burn::wgpu() {
            Ok(burn) => burn,
            Err(error) => {
                let required = std::env::var("FUNCIFY_REQUIRE").unwrap_or_default();
                assert!(!required.split(',').any(|name| name == "burn-wgpu"), "{error}");
                return eprintln!("skipping burn-wgpu: {error}");
            }
        };
        let graph = Graph::build("steps", |g| {
            let xs = g.input("xs", "f32[T,4]");
            let (ks, bytes) = (g.input("ks", "i32[T]"), g.input("bytes", "u8[T]"));
            let (table, start) = (g.input("table", "f32[5,4]"), g.input("start", "i32[]"));
            let init = (table.index(0, 0), start, bytes.index(0, 0));
            scan(init, (xs, ks, bytes), |(h, n, sum), (x, k, byte)| {
                let row = table.dynamic_index(0, k) + table.take(0, n % k);
                let h = (h * x + row).tanh();
                let n = n * 3 - h.argmax(0).cast(DType::I32) / k + n.maximum(k);
                let sum = sum + byte * byte;
                let drawn = random::normal(random::fold_in(random::key(3), k), [4], DType::F32);
                let bits = (n >> 1).popcount();
                (
                    (h, n, sum),
                    (
                        h.sum(0),
                        n,
                        sum,
                        drawn.cumsum(0, true),
                        drawn.atan(),
                        bits,
                        (row * 3.0).cast(DType::I32).cumprod(0, false),
                    ),
                )
            })
        })
        .unwrap();
        let arguments = [
            HostTensor::from_fn(DType::F32, &[7, 4], |at| {
                funcify_core::Scalar::Float((at[0] * 4 + at[1]) as f64 / 20.0)
            }),
            HostTensor::from_vec(vec![3i32, 0, -1, 2, 100, -7, 1], [7]).unwrap(),
            HostTensor::from_vec(vec![3u8, 0, 200, 255, 100, 17, 1], [7]).unwrap(),
            HostTensor::from_fn(DType::F32, &[5, 4], |at| {
                funcify_core::Scalar::Float(at[0] as f64 - at[1] as f64 / 2.0)
            }),
            HostTensor::scalar(5i32),
        ];
        let function = Function::compile(&graph, &burn).unwrap();
        let uploaded: Vec<Tensor> = arguments.iter().map(|tensor| burn.upload(tensor).unwrap()).collect();
        READS.with(|reads| reads.set(0));
        let results = function.call(&uploaded).unwrap();
        assert_eq!(READS.with(|reads| reads.get()), 0);
        for (result, expected) in results.iter().zip(evaluate(&graph, &arguments).unwrap()) {
            let found = burn.download(result, expected.dtype()).unwrap();
            assert_eq!(found.shape(), expected.shape());
            for (found, expected) in found.to_f64_vec().into_iter().zip(expected.to_f64_vec()) {
                assert!((found - expected).abs() <= 1e-4 * expected.abs(), "{found} != {expected}");
            }
        }
        assert!(READS.with(|reads| reads.get()) > 0);
    }
}
