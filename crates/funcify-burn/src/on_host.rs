//! Implements host kernels for ops that Burn lacks and for integer ops that panic in Burn.
//!
//! On a CPU device, elements are already in host memory. The kernels change a buffer in place if it is not shared.

use burn::tensor::Element;
use funcify_core::types::{nearest_bf16, nearest_f16};

use crate::data::{elements, from_elements};
use crate::device::Burn;
use crate::kinds::{Outcome, Tensor, sizes};

/// Evaluates `$body`, in which `$element` is the Rust type of an integer tensor's elements.
macro_rules! by_integer {
    ($tensor:expr, $element:ident => $body:expr) => {
        by_element!($tensor, [U8 = u8, U32 = u32, I32 = i32, I64 = i64], $element => $body)
    };
}

/// Evaluates `$body`, in which `$element` is the Rust type of a float tensor's elements.
macro_rules! by_float {
    ($tensor:expr, $element:ident => $body:expr) => {
        by_element!($tensor, [F16 = half::f16, BF16 = half::bf16, F32 = f32, F64 = f64], $element => $body)
    };
}

macro_rules! by_element {
    ($tensor:expr, [$($dtype:ident = $type:ty),*], $element:ident => $body:expr) => {
        match $crate::dtypes::of(&$tensor) {
            $(Some(funcify_core::DType::$dtype) => {
                type $element = $type;
                $body
            })*
            other => Err(format!("no kernel for elements of type {other:?}").into()),
        }
    };
}

/// Applies a function to each element of a tensor.
pub(crate) fn map<E: Element, R: Element>(burn: &Burn, x: Tensor, f: impl Fn(E) -> R) -> Outcome {
    let shape = sizes(&x);
    Ok(from_elements(burn, elements::<E>(x)?.into_iter().map(f).collect(), &shape))
}

/// A float type that converts to f64 without rounding.
pub(crate) trait Real: Element {
    fn widen(self) -> f64;
    fn round_from(wide: f64) -> Self;
}

macro_rules! reals {
    ($($float:ty: $wide:expr, |$number:ident| $rounded:expr;)*) => {$(
        impl Real for $float {
            fn widen(self) -> f64 {
                $wide(self)
            }
            fn round_from($number: f64) -> Self {
                $rounded
            }
        }
    )*};
}

reals! {
    half::f16: half::f16::to_f64, |wide| nearest_f16(wide);
    half::bf16: half::bf16::to_f64, |wide| nearest_bf16(wide);
    f32: f64::from, |wide| wide as f32;
    f64: std::convert::identity, |wide| wide;
}

/// Applies a function to each element of a float tensor. Computes the function in f64, and rounds its result once.
pub(crate) fn map_in_f64(burn: &Burn, x: Tensor, f: impl Fn(f64) -> f64) -> Outcome {
    by_float!(x, Float => map::<Float, Float>(burn, x, |x| Float::round_from(f(x.widen()))))
}

/// Applies a function to each pair of corresponding elements of two tensors of the same shape.
pub(crate) fn zip<E: Element>(burn: &Burn, x: Tensor, y: Tensor, f: impl Fn(E, E) -> E) -> Outcome {
    let shape = sizes(&x);
    let (mut left, right) = (elements::<E>(x)?, elements::<E>(y)?);
    left.iter_mut().zip(right).for_each(|(a, b)| *a = f(*a, b));
    Ok(from_elements(burn, left, &shape))
}

/// Reduces an axis to size 1 (keepdim), by folding its elements with `f`, starting from `identity`.
pub(crate) fn fold<E: Element>(burn: &Burn, x: Tensor, axis: usize, identity: E, f: impl Fn(E, E) -> E) -> Outcome {
    let mut shape = sizes(&x);
    let inner: usize = shape[axis + 1..].iter().product();
    let block = inner * shape[axis];
    shape[axis] = 1;
    let mut folded = vec![identity; shape.iter().product()];
    for (index, element) in elements::<E>(x)?.into_iter().enumerate() {
        let target = &mut folded[index / block * inner + index % inner];
        *target = f(*target, element);
    }
    Ok(from_elements(burn, folded, &shape))
}

/// Reduces an axis to its maximum or minimum, with size 1 (keepdim). `pick` chooses one of two elements and must be
/// commutative. No axis may be empty.
pub(crate) fn extreme<E: Element>(burn: &Burn, x: Tensor, axis: usize, pick: impl Fn(E, E) -> E + Copy) -> Outcome {
    let mut shape = sizes(&x);
    let (size, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    shape[axis] = 1;
    let elements = elements::<E>(x)?;
    let mut extremes = Vec::with_capacity(elements.len() / size);
    for block in elements.chunks_exact(size * inner) {
        if inner == 1 {
            extremes.push(extreme_of(block, pick));
            continue;
        }
        let start = extremes.len();
        extremes.extend_from_slice(&block[..inner]);
        for row in block[inner..].chunks_exact(inner) {
            extremes[start..].iter_mut().zip(row).for_each(|(extreme, element)| *extreme = pick(*extreme, *element));
        }
    }
    Ok(from_elements(burn, extremes, &shape))
}

/// Returns the maximum or minimum of a row. Computes 16 partial results, which lets the compiler vectorise the loop.
fn extreme_of<E: Copy>(row: &[E], pick: impl Fn(E, E) -> E + Copy) -> E {
    let (first, rest) = row.as_chunks::<16>();
    let mut lanes = [row[0]; 16];
    for elements in first {
        lanes.iter_mut().zip(elements).for_each(|(lane, element)| *lane = pick(*lane, *element));
    }
    lanes.iter().chain(rest).copied().fold(row[0], pick)
}

/// Computes a running reduction along an axis, from the first element or, if `reverse` is set, from the last.
pub(crate) fn running_reduction<E: Element>(
    burn: &Burn,
    x: Tensor,
    axis: usize,
    reverse: bool,
    f: impl Fn(E, E) -> E,
) -> Outcome {
    let shape = sizes(&x);
    let (size, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let mut changed = elements::<E>(x)?;
    for block in changed.chunks_exact_mut((size * inner).max(1)) {
        for step in 1..size {
            let (row, before) = if reverse { (size - 1 - step, size - step) } else { (step, step - 1) };
            for column in 0..inner {
                block[row * inner + column] = f(block[before * inner + column], block[row * inner + column]);
            }
        }
    }
    Ok(from_elements(burn, changed, &shape))
}

/// Sorts the elements along an axis. Also returns the original position of each element. The sort is stable, and treats
/// NaN as larger than all numbers.
pub(crate) fn sort<E: Element + PartialOrd>(
    burn: &Burn,
    x: Tensor,
    axis: usize,
    descending: bool,
) -> Outcome<[Tensor; 2]> {
    let compare = |a: &E, b: &E| a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)));
    let shape = sizes(&x);
    let (size, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let given = elements::<E>(x)?;
    let (mut sorted, mut positions) = (given.clone(), vec![0i64; given.len()]);
    let mut order: Vec<usize> = Vec::with_capacity(size);
    for start in (0..given.len()).step_by((size * inner).max(1)).flat_map(|block| block..block + inner) {
        let element = |position: usize| &given[start + position * inner];
        order.clear();
        order.extend(0..size);
        order.sort_by(|a, b| match descending {
            false => compare(element(*a), element(*b)),
            true => compare(element(*b), element(*a)),
        });
        for (target, source) in order.iter().enumerate() {
            positions[start + target * inner] = *source as i64;
            sorted[start + target * inner] = *element(*source);
        }
    }
    Ok([from_elements(burn, sorted, &shape), from_elements(burn, positions, &shape)])
}

/// Returns whether an element is NaN. Always `false` for integers.
pub(crate) fn is_nan<E: PartialOrd>(element: &E) -> bool {
    element.partial_cmp(element).is_none()
}

/// Applies updates to the elements at `indices` along an axis, in row-major order. `indices` must be i64. Updates whose
/// index is out of range are skipped.
pub(crate) fn scatter<E: Element>(
    burn: &Burn,
    axis: usize,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    f: impl Fn(E, E) -> E,
) -> Outcome {
    let shape = sizes(&x);
    let size = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    let block = inner * sizes(&indices)[axis];
    let mut changed = elements::<E>(x)?;
    let pairs = elements::<i64>(indices)?.into_iter().zip(elements::<E>(updates)?);
    for (flat, (index, update)) in pairs.enumerate() {
        let Some(position) = usize::try_from(index).ok().filter(|position| *position < size) else { continue };
        let target = &mut changed[(flat / block * size + position) * inner + flat % inner];
        *target = f(*target, update);
    }
    Ok(from_elements(burn, changed, &shape))
}

#[cfg(all(test, any(feature = "flex", feature = "ndarray")))]
mod tests {
    use burn::backend::Dispatch;
    use burn::backend::ops::IntTensorOps;

    use super::*;
    use crate::kinds::{expand, slice, slices_along};

    fn devices() -> Vec<Burn> {
        vec![
            #[cfg(feature = "flex")]
            Burn::flex(),
            #[cfg(feature = "ndarray")]
            Burn::ndarray(),
        ]
    }

    #[test]
    fn views_are_read_in_row_major_order() {
        for burn in devices() {
            let x = || from_elements(&burn, vec![1i64, 2, 3, 4, 5, 6], &[2, 3]);
            let views = [
                (Dispatch::int_permute(x(), &[1, 0]), vec![1, 4, 2, 5, 3, 6]),
                (slice(x(), &slices_along(&[2, 3], 1, 1, 3, 1)), vec![2, 3, 5, 6]),
                (slice(x(), &slices_along(&[2, 3], 0, 1, 2, 1)), vec![4, 5, 6]),
                (expand(from_elements(&burn, vec![7i64, 8], &[2, 1]), &[2, 2]), vec![7, 7, 8, 8]),
            ];
            for (view, expected) in views {
                let shape = sizes(&view);
                assert_eq!(elements::<i64>(view.clone()).unwrap(), expected);
                let doubled = zip::<i64>(&burn, view.clone(), view, |i, j| i + j).unwrap();
                assert_eq!(sizes(&doubled), shape);
                assert_eq!(elements::<i64>(doubled).unwrap(), expected.iter().map(|i| 2 * i).collect::<Vec<_>>());
            }
        }
    }
}
