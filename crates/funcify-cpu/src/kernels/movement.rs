//! Kernels that only move elements. Copies and broadcasts are the elementwise op `Copy`.

use super::map::Target;

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
