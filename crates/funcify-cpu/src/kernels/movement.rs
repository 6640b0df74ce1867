//! Kernels that only move elements. Copies and broadcasts are the elementwise op `Copy`.

use super::map::Target;
use super::source::Source;
use crate::float::Float;

/// Target row r, lane l is element `l * stride + r`: square blocks at a time, so that both sides stay in cache.
pub(crate) fn transpose<T: Copy>(mut target: Target<'_, T>, from: &[T], stride: usize) {
    const BLOCK: usize = 16;
    for first_row in (0..target.rows).step_by(BLOCK) {
        for first_lane in (0..target.lanes).step_by(BLOCK) {
            let lanes = first_lane..target.lanes.min(first_lane + BLOCK);
            for row in first_row..target.rows.min(first_row + BLOCK) {
                let to = &mut target.row(row)[lanes.clone()];
                for (to, lane) in to.iter_mut().zip(lanes.clone()) {
                    *to = from[lane * stride + row];
                }
            }
        }
    }
}

/// Target row r, lane l is the element of the table that lies `i * step` after its own row r, lane l, where i is the index there,
/// clamped into `0..count`.
pub(crate) fn take<T: Float>(
    mut target: Target<'_, T>,
    table: Source<'_, T>,
    index: Source<'_, T>,
    count: usize,
    step: usize,
) {
    let position = |row: usize, lane: usize| {
        let index = index.element(row, lane, T::default()).to_f64();
        // A cast clamps at 0.
        (index as usize).min(count - 1) * step
    };
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
