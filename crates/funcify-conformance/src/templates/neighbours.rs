//! Draws folds along short axes, and stencils whose bodies read rotated, shifted, padded and concatenated tensors in
//! place.
//!
//! The generated programs exercise the following planner rules: If an elementwise op reads a concatenation or a padded
//! tensor of at least 4096 floats or 256 integers, the parts of the tensor stay separate (`is_read_in_place`), unless
//! the tensor's memory location is already fixed. The boundaries of the parts divide the output into boxes, and a body
//! that reads the parts runs once for each box. If there are more than 64 boxes, or fewer than 128 lanes per box on
//! average, the parts are copied instead (`boxes`). All parts have the type of the whole tensor. A value whose only
//! reader is a fold of at most 64 elements is written in the order in which the fold reads it (`order_of_fold`).

use funcify::{DType, Value, concat, scan_with, select};

use super::draft::{Draft, shape_of};
use super::fill::Fill;

pub(super) fn neighbours(draft: &Draft<'_, '_>) -> Vec<Value> {
    let dtype = draft.pick(&[draft.dtype, DType::I32, draft.dtype, DType::U8, DType::I64, DType::U32]);
    let shape = draft.pick(&[[5, 7], [15, 17], [16, 16], [3, 90], [64, 64], [70, 3], [63, 65], [4, 2]]);
    let input = |draft: &Draft<'_, '_>| match dtype.is_float() {
        true => draft.input(&shape),
        false => draft.input_of(dtype, &shape, Fill::Integers(0, 200)),
    };
    let (start, other) = (input(draft), input(draft));
    let options = draft.direction().length(draft.pick(&[2, 1, 3]));
    let (last, ys) = scan_with(options, start, (), |state, ()| {
        let name = if draft.one_in(3) { draft.alias(state) } else { state };
        let near = moved(draft, name, other);
        let far = if draft.one_in(2) { moved(draft, near, state) } else { moved(draft, state, other) };
        let next = match draft.below(4) {
            0 => near.maximum(far),
            1 => select(near.gt(far), near, state),
            2 => near.minimum(other).maximum(far),
            _ => select(state.gt(other), far, near.minimum(state)),
        };
        // Floats are averaged, so that they stay small. Integers may wrap.
        let next = if dtype.is_float() { (next + far) * 0.5 } else { next + far };
        let axis = draft.below(2) as i64;
        let folded = match draft.below(4) {
            0 => (near.unsqueeze(2) - other.unsqueeze(2)).max(2),
            1 => (far - state).sum(axis),
            2 => near.maximum(far).min(axis),
            _ => state.max(axis),
        };
        (next, (folded, draft.pick(&[near, far, state])))
    });
    vec![last, ys.0, ys.1]
        .into_iter()
        .map(|value| if dtype.is_float() { value } else { value.cast(DType::F64) })
        .collect()
}

/// Rotates or shifts a value along a random axis. Fills the gap left by a shift with a constant or with elements of
/// `other`.
fn moved(draft: &Draft<'_, '_>, x: Value, other: Value) -> Value {
    let axis = draft.below(2);
    // If an earlier op was rejected, the shape may be unknown.
    let Some(size) = shape_of(x).and_then(|shape| shape.get(axis).copied()) else { return x };
    let distance = (1 + draft.below(3)).min(size - 1) as i64;
    let along = axis as i64;
    match draft.below(6) {
        0 => concat(&[x.slice(along, distance..), x.slice(along, ..distance)], along),
        1 => concat(&[x.slice(along, -distance..), x.slice(along, ..-distance)], along),
        2 => x.slice(along, distance..).pad(along, 0, distance, 1.0),
        3 => x.slice(along, ..-distance).pad(along, distance, 0, 2.0),
        4 => concat(&[other.slice(along, ..distance), x.slice(along, distance..)], along),
        _ => x.pad(along, distance, 1, 0.0).slice(along, 1..1 + size as i64),
    }
}
