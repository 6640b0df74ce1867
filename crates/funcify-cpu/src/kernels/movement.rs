//! Kernels that transpose, gather and scatter elements. (Copies and broadcasts use the elementwise op `Copy`.)

use funcify_body::float::Float;
use pulp::Scalar;

use super::Unary;
use super::fold::Fold;
use super::map::Target;
use super::math::MathTable;
use super::source::Source;
use super::table::Elementwise;

/// The side length of a square block that is small enough to be transposed in registers and the L1 cache.
const BLOCK: usize = 16;

/// Transposes the source: sets lane l of row r of the target to element `l * stride + r` of the source. Works on square
/// blocks, so that source and target stay in the cache.
pub(crate) fn transpose<T: Copy + Default>(mut target: Target<'_, T>, from: &[T], stride: usize) {
    if target.rows < BLOCK / 2 {
        for row in 0..target.rows {
            let from = &from[row..];
            target.row(row).iter_mut().enumerate().for_each(|(lane, to)| *to = from[lane * stride]);
        }
        return;
    }
    if target.lanes < BLOCK / 2 {
        for lane in 0..target.lanes {
            let from = &from[lane * stride..][..target.rows];
            from.iter().enumerate().for_each(|(row, from)| target.data[row * target.stride + lane] = *from);
        }
        return;
    }
    for first_row in (0..target.rows).step_by(BLOCK) {
        for first_lane in (0..target.lanes).step_by(BLOCK) {
            let (rows, lanes) = ((target.rows - first_row).min(BLOCK), (target.lanes - first_lane).min(BLOCK));
            let mut block = [[T::default(); BLOCK]; BLOCK];
            for (lane, row) in block.iter_mut().enumerate().take(lanes) {
                let from = &from[(first_lane + lane) * stride + first_row..][..rows];
                match <&[T; BLOCK]>::try_from(from) {
                    Ok(whole) => *row = *whole,
                    Err(_) => row[..rows].copy_from_slice(from),
                }
            }
            for row in 0..rows {
                let to = &mut target.row(first_row + row)[first_lane..][..lanes];
                match <&mut [T; BLOCK]>::try_from(&mut *to) {
                    Ok(whole) => *whole = std::array::from_fn(|lane| block[lane][row]),
                    Err(_) => to.iter_mut().zip(&block).for_each(|(to, lane)| *to = lane[row]),
                }
            }
        }
    }
}

/// Copies the first element of each source row to the first element of the same row of the target.
pub(crate) fn copy_elements<T: Copy>(target: &mut Target<'_, T>, from: Source<'_, T>) {
    match from {
        Source::Lanes { data, stride } | Source::Element { data, stride } => {
            for row in 0..target.rows {
                target.data[row * target.stride] = data[row * stride];
            }
        }
        Source::Same => {}
    }
}

/// Gathers elements from a table. Sets lane l of row r of the target to the element that is `i * step` elements after
/// lane l of row r of the table. Here, i is lane l of row r of `index`, clamped to `0..count`.
pub(crate) fn take<T: Float>(
    mut target: Target<'_, T>,
    table: Source<'_, T>,
    index: Source<'_, T>,
    count: usize,
    step: usize,
) {
    let position = |row: usize, lane: usize| position(index.element(row, lane, T::default()), count) * step;
    for row in 0..target.rows {
        let to = target.row(row);
        match (table, index) {
            (Source::Lanes { data, stride }, Source::Element { .. }) => {
                let start = row * stride + position(row, 0);
                to.copy_from_slice(&data[start..start + to.len()]);
            }
            (Source::Lanes { data, stride }, _) => {
                for (lane, to) in to.iter_mut().enumerate() {
                    *to = data[row * stride + lane + position(row, lane)];
                }
            }
            (Source::Element { data, stride }, _) => {
                for (lane, to) in to.iter_mut().enumerate() {
                    *to = data[row * stride + position(row, lane)];
                }
            }
            (Source::Same, _) => {}
        }
    }
}

/// Writes `x` to the target at an offset of `i * step` elements, where i is the first element of `index`, clamped to
/// `0..count`.
pub(crate) fn put<T: Float>(
    target: &mut Target<'_, T>,
    x: Source<'_, T>,
    index: Source<'_, T>,
    count: usize,
    step: usize,
) {
    let first = position(index.element(0, 0, T::default()), count) * step;
    for row in 0..target.rows {
        let to = &mut target.data[first + row * target.stride..][..target.lanes];
        match x {
            Source::Lanes { data, stride } => to.copy_from_slice(&data[row * stride..][..target.lanes]),
            Source::Element { data, stride } => to.fill(data[row * stride]),
            Source::Same => {}
        }
    }
}

/// Scatters `x` to the target. Writes lane l of row r of `x` to the element that is `i * step` elements after lane l of
/// row r of the target, or folds it into that element if `fold` is given, and applies `then`, if given, to the combined
/// element. Here, i is lane l of row r of `index`. Skips indices outside `0..count`. Processes rows in order.
pub(crate) fn scatter<T: MathTable>(
    target: &mut Target<'_, T>,
    x: Source<'_, T>,
    index: Source<'_, T>,
    size: (usize, usize),
    (fold, then): (Option<Fold>, Option<Unary>),
) {
    use Fold::{Max, Min, Product, Sum};
    match (fold, then) {
        (None, _) => scatter_with(target, x, index, size, |_, x| x),
        (Some(fold), Some(then)) => scatter_rounded(target, x, index, size, (fold, then)),
        (Some(Sum), None) => scatter_with(target, x, index, size, |to, x| Sum.combine_elements(to, x)),
        (Some(Product), None) => scatter_with(target, x, index, size, |to, x| Product.combine_elements(to, x)),
        (Some(Max), None) => scatter_with(target, x, index, size, |to, x| Max.combine_elements(to, x)),
        (Some(Min), None) => scatter_with(target, x, index, size, |to, x| Min.combine_elements(to, x)),
    }
}

/// Scatters and applies `then` to each combined element. A function of its own, which leaves the registers of
/// [`scatter`] to the loops without `then`.
#[inline(never)]
fn scatter_rounded<T: MathTable>(
    target: &mut Target<'_, T>,
    x: Source<'_, T>,
    index: Source<'_, T>,
    size: (usize, usize),
    (fold, then): (Fold, Unary),
) {
    let combine = |to, x| then.of_elements(Scalar::new(), [fold.combine_elements(to, x)]);
    scatter_with(target, x, index, size, combine);
}

#[inline(always)]
fn scatter_with<T: Float>(
    target: &mut Target<'_, T>,
    x: Source<'_, T>,
    index: Source<'_, T>,
    (count, step): (usize, usize),
    combine: impl Fn(T, T) -> T,
) {
    let place = |row: usize, lane: usize| {
        let place = index.element(row, lane, T::default()).to_f64();
        (0.0..count as f64).contains(&place).then_some(place as usize * step)
    };
    for row in 0..target.rows {
        let first = row * target.stride;
        if let (Source::Lanes { data, stride }, Source::Element { .. }) = (x, index) {
            let Some(place) = place(row, 0) else { continue };
            let (to, x) = (&mut target.data[first + place..][..target.lanes], &data[row * stride..][..target.lanes]);
            to.iter_mut().zip(x).for_each(|(to, x)| *to = combine(*to, *x));
            continue;
        }
        for lane in 0..target.lanes {
            if let Some(place) = place(row, lane) {
                let to = &mut target.data[first + lane + place];
                *to = combine(*to, x.element(row, lane, *to));
            }
        }
    }
}

/// Converts an index to a position, clamped to `0..count`.
fn position<T: Float>(index: T, count: usize) -> usize {
    // The cast saturates: negative values become 0.
    (index.to_f64() as usize).min(count - 1)
}
