//! Ops with computed indices: dynamic slices and updates, `take`, `gather`, `scatter`. The cases cover every integer
//! type, and indices out of range on both sides.

use funcify::ops::{DynamicSlice, DynamicUpdate, Gather, Scatter, ScatterMode, Take};

use super::values::{INTEGERS, NUMBERS, cycle_values, index, indices, small};
use super::*;

/// Indices for an axis of size 3. Integers that an index type cannot represent, such as -1 in unsigned types, wrap.
const POSITIONS: [i64; 10] = [2, 0, 255, 1, 1, -1, i64::MAX, i64::MIN, 7, 1];

/// The operands to test with `gather` and `scatter`, each given by an axis, the operand's shape, and the number of
/// indices along the axis.
const ALONG: [(usize, &[usize], usize); 12] = [
    (0, &[3], 8),
    (0, &[3], 5),
    (0, &[3], 2),
    (0, &[3], 0),
    (1, &[2, 3], 4),
    (1, &[2, 3], 0),
    (0, &[3, 2], 2),
    (0, &[3, 4], 2),
    (1, &[2, 3, 4], 5),
    (1, &[2, 3, 4], 2),
    (0, &[2, 0], 3),
    (1, &[2, 0], 0),
];

pub(super) fn cases() -> Cases {
    Ok([dynamic_slices()?, dynamic_updates()?, takes()?, gathers()?, scatters()?].concat())
}

/// Returns the slices to test, each given by an axis, the operand's shape, and the size of the slice along the axis.
fn parts() -> Vec<(usize, &'static [usize], usize)> {
    let mut rows = vec![(0, &[0][..], 0), (0, &[5], 2), (0, &[3, 2], 3), (1, &[2, 3], 2)];
    for size in [0, 1, 3, 4] {
        rows.extend([(0, &[4][..], size), (1, &[2, 4, 2], size)]);
    }
    rows
}

/// Returns all combinations of an integer type and a start index.
fn starts() -> impl Iterator<Item = (DType, i64)> {
    let numbers = [0, 1, 2, 9, -1, i64::MIN, i64::MAX];
    INTEGERS.into_iter().flat_map(move |dtype| numbers.map(|number| (dtype, number)))
}

fn with_size(shape: &[usize], axis: usize, size: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape[axis] = size;
    shape
}

fn dynamic_slices() -> Cases {
    on_dtypes("dynamic_slice", &DType::ALL, 0.0, |dtype| {
        let each = starts().flat_map(|start| parts().into_iter().map(move |part| (start, part)));
        each.map(|((index_dtype, start), (axis, shape, size))| {
            let op = DynamicSlice { axis, size: size.into() };
            OpUse::new(op, [cycle_values(dtype, shape, 0), index(index_dtype, start)])
        })
        .collect()
    })
}

fn dynamic_updates() -> Cases {
    on_dtypes("dynamic_update", &DType::ALL, 0.0, |dtype| {
        let each = starts().flat_map(|start| parts().into_iter().map(move |part| (start, part)));
        each.map(|((index_dtype, start), (axis, shape, size))| {
            let part = cycle_values(dtype, &with_size(shape, axis, size), 3);
            OpUse::new(DynamicUpdate { axis }, [cycle_values(dtype, shape, 0), part, index(index_dtype, start)])
        })
        .collect()
    })
}

fn takes() -> Cases {
    let picked: [&[usize]; 6] = [&[], &[8], &[4], &[0], &[2, 4], &[2, 5]];
    let shapes: [(usize, &[usize]); 5] = [(0, &[3]), (0, &[3, 2]), (1, &[2, 3]), (1, &[2, 3, 2]), (1, &[2, 3, 4])];
    on_dtypes("take", &DType::ALL, 0.0, |dtype| {
        let mut uses = Vec::new();
        for (index_dtype, picked) in INTEGERS.into_iter().flat_map(|dtype| picked.map(|picked| (dtype, picked))) {
            for (axis, shape) in shapes {
                let operands = [cycle_values(dtype, shape, 0), indices(index_dtype, picked, &POSITIONS)];
                uses.push(OpUse::new(Take { axis }, operands));
            }
        }
        uses
    })
}

fn gathers() -> Cases {
    on_dtypes("gather", &DType::ALL, 0.0, |dtype| {
        let each = INTEGERS.into_iter().flat_map(|index_dtype| ALONG.map(|row| (index_dtype, row)));
        each.map(|(index_dtype, (axis, shape, count))| {
            let indices = indices(index_dtype, &with_size(shape, axis, count), &POSITIONS);
            OpUse::new(Gather { axis }, [cycle_values(dtype, shape, 0), indices])
        })
        .collect()
    })
}

fn scatters() -> Cases {
    let uses = |mode, dtype| {
        let mut rows = ALONG.to_vec();
        rows.push((0, &[0], 2));
        let mut uses = Vec::new();
        for (index_dtype, (axis, shape, count)) in
            INTEGERS.into_iter().flat_map(|index_dtype| rows.iter().map(move |row| (index_dtype, *row)))
        {
            let along = with_size(shape, axis, count);
            for updates in [cycle_values(dtype, &along, 4), small(dtype, &along, 4)] {
                let operands = [cycle_values(dtype, shape, 0), indices(index_dtype, &along, &POSITIONS), updates];
                uses.push(OpUse::new(Scatter { axis, mode }, operands));
            }
        }
        uses
    };
    let mut cases = Vec::new();
    for mode in ScatterMode::ALL {
        let dtypes: &[DType] = if mode == ScatterMode::Set { &DType::ALL } else { &NUMBERS };
        cases.extend(on_dtypes(&format!("scatter_{}", mode.name()), dtypes, 0.0, |dtype| uses(mode, dtype))?);
    }
    Ok(cases)
}
