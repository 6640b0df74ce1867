//! Ops that move or create elements: shapes, slices, concatenation, padding, and the ops without operands.

use funcify::ops::{Broadcast, Concat, Constant, Iota, Pad, Reshape, Reverse, Size};

use super::values::{NUMBERS, SHAPES, cycle_values};
use super::*;

pub(super) fn cases() -> Cases {
    Ok([broadcasts()?, reshapes()?, transposes()?, reverses()?, slices()?, concats()?, pads()?, without_operands()?]
        .concat())
}

/// Builds a case for each dtype. The cases apply each op in `rows` to an operand of the given shape. The ops accept all
/// dtypes, because they only move elements.
fn moves<'a>(name: &str, rows: impl IntoIterator<Item = (Op, &'a [usize])>) -> Cases {
    let rows: Vec<(Op, &[usize])> = rows.into_iter().collect();
    on_dtypes(name, &DType::ALL, 0.0, |dtype| {
        rows.iter().map(|(op, shape)| OpUse::new(op.clone(), [cycle_values(dtype, shape, 0)])).collect()
    })
}

fn broadcasts() -> Cases {
    let rows: [(&[usize], &[usize]); 13] = [
        (&[], &[]),
        (&[], &[3]),
        (&[], &[2, 3]),
        (&[], &[2, 0]),
        (&[1], &[4]),
        (&[3], &[2, 3]),
        (&[0], &[2, 0]),
        (&[2, 1], &[2, 3]),
        (&[2, 1], &[3, 2, 4]),
        (&[1, 3], &[0, 3]),
        (&[2, 1, 2], &[4, 2, 3, 2]),
        (&[1, 3, 1], &[2, 2, 3, 2]),
        (&[3], &[1, 1, 2, 1, 1, 3]),
    ];
    moves("broadcast", rows.map(|(from, to)| (Broadcast { shape: Shape::from(to) }.into(), from)))
}

fn reshapes() -> Cases {
    let rows: [(&[usize], &[usize]); 10] = [
        (&[], &[1, 1]),
        (&[], &[1]),
        (&[1], &[]),
        (&[1, 1], &[]),
        (&[6], &[2, 3]),
        (&[3, 4], &[2, 3, 2, 1]),
        (&[2, 3, 4], &[4, 6]),
        (&[0, 3], &[5, 0]),
        (&[2, 0], &[0, 5]),
        (&[2, 1], &[2]),
    ];
    moves("reshape", rows.map(|(from, to)| (Reshape { shape: Shape::from(to) }.into(), from)))
}

fn transposes() -> Cases {
    let rows: [(&[usize], &[usize]); 8] = [
        (&[], &[]),
        (&[0], &[3]),
        (&[0], &[0]),
        (&[1, 0], &[2, 3]),
        (&[1, 0], &[0, 3]),
        (&[2, 0, 1], &[2, 3, 4]),
        (&[3, 1, 0, 2], &[2, 3, 4, 2]),
        (&[3, 1, 0, 2], &[2, 1, 3, 2]),
    ];
    moves("transpose", rows.map(|(axes, shape)| (Transpose { axes: axes.to_vec() }.into(), shape)))
}

fn reverses() -> Cases {
    let rows: [(usize, &[usize]); 10] = [
        (0, &[5]),
        (0, &[0]),
        (0, &[1]),
        (0, &[3, 2]),
        (0, &[0, 2]),
        (0, &[2, 0]),
        (0, &[0, 3]),
        (1, &[3, 2]),
        (1, &[2, 3, 4]),
        (1, &[2, 1, 0]),
    ];
    moves("reverse", rows.map(|(axis, shape)| (Reverse { axis }.into(), shape)))
}

fn slices() -> Cases {
    let slice = |axis, start: usize, limit: usize, step| {
        Op::from(Slice { axis, start: start.into(), limit: limit.into(), step })
    };
    let mut rows: Vec<(Op, &[usize])> = Vec::new();
    for (start, limit) in [(0, 5), (1, 4), (1, 5), (5, 5), (0, 0), (2, 3)] {
        for step in 1..4 {
            let shapes: [(usize, &[usize]); 5] = [(0, &[5]), (0, &[5, 2]), (0, &[5, 0]), (1, &[2, 5]), (1, &[2, 5, 3])];
            rows.extend(shapes.map(|(axis, shape)| (slice(axis, start, limit, step), shape)));
        }
    }
    rows.extend([
        (slice(2, 0, 4, 3), &[2, 3, 4][..]),
        (slice(0, 0, 0, 1), &[0, 3]),
        (slice(0, 0, 0, 2), &[4, 0]),
        (slice(0, 0, 3, 2), &[4, 0]),
    ]);
    moves("slice", rows)
}

fn concats() -> Cases {
    let rows: [(usize, &[&[usize]]); 11] = [
        (0, &[&[3]]),
        (0, &[&[2, 3]]),
        (0, &[&[3], &[0], &[2]]),
        (0, &[&[0], &[0]]),
        (0, &[&[0, 3], &[0, 3]]),
        (0, &[&[1, 0], &[2, 0]]),
        (0, &[&[1, 3], &[2, 3]]),
        (1, &[&[2, 1], &[2, 3], &[2, 0]]),
        (1, &[&[2, 2, 3], &[2, 1, 3]]),
        (2, &[&[2, 2, 3], &[2, 2, 1]]),
        (2, &[&[2, 3, 4], &[2, 3, 2]]),
    ];
    on_dtypes("concat", &DType::ALL, 0.0, |dtype| {
        let part = |(index, shape): (usize, &&[usize])| cycle_values(dtype, shape, 5 * index);
        let parts = |shapes: &[&[usize]]| shapes.iter().enumerate().map(part).collect::<Vec<_>>();
        rows.iter().map(|(axis, shapes)| OpUse::new(Concat { axis: *axis }, parts(shapes))).collect()
    })
}

fn pads() -> Cases {
    let shapes: [(usize, &[usize]); 8] = [
        (0, &[3]),
        (0, &[1]),
        (0, &[0]),
        (1, &[2, 3]),
        (0, &[3, 0]),
        (0, &[2, 0]),
        (1, &[2, 2, 3]),
        (5, &[1, 2, 1, 1, 1, 3]),
    ];
    let amounts = [(0, 0, 0), (1, 2, 0), (0, 1, 2), (2, 0, 1), (0, 0, 3), (1, 2, 1), (2, 0, 3), (0, 3, 0)];
    on_dtypes("pad", &DType::ALL, 0.0, |dtype| {
        let pad =
            |axis, (low, high, interior): (i64, i64, usize)| Pad { axis, low: low.into(), high: high.into(), interior };
        let each = shapes.iter().flat_map(|row| amounts.map(|amount| (*row, amount)));
        let operands = |shape| [cycle_values(dtype, shape, 0), cycle_values(dtype, &[], 1)];
        each.map(|((axis, shape), amount)| OpUse::new(pad(axis, amount), operands(shape))).collect()
    })
}

fn without_operands() -> Cases {
    let none = Vec::<HostTensor>::new;
    let iota = on_dtypes("iota", &NUMBERS, 0.0, |dtype| {
        [0usize, 1, 5, 7, 300, 3000].map(|size| OpUse::new(Iota { size: size.into(), dtype }, none())).into()
    })?;
    let size = on_dtypes("size", &NUMBERS, 0.0, |dtype| {
        [-3i64, 0, 1, 5, 300, 3000].map(|dim| OpUse::new(Size { dim: dim.into(), dtype }, none())).into()
    })?;
    let constant = on_dtypes("constant", &DType::ALL, 0.0, |dtype| {
        SHAPES.map(|shape| OpUse::new(Constant { value: cycle_values(dtype, shape, 0).into() }, none())).into()
    })?;
    Ok([iota, size, constant].concat())
}
