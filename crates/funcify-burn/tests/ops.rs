//! Every op on every device and dtype against the reference evaluation.

mod support;

use std::sync::Arc;

use funcify::ops::*;
use funcify::{DType, Dim, HostTensor};
use funcify_burn::Burn;
use support::*;

#[test]
fn every_op_is_converted() {
    assert_eq!(funcify::dispatch::converted_ops::<Burn>(), all_names());
}

#[test]
fn unary() {
    use Unary::*;
    let rows = [
        (dtypes(false, true, true), vec![Neg, Abs, Sign, Square]),
        (dtypes(false, false, true), vec![Exp, Expm1, Log, Log1p, Tanh, Sigmoid, Sin, Cos, Sqrt, Rsqrt, Recip]),
        (dtypes(true, true, false), vec![Not]),
        (dtypes(true, true, true), vec![StopGradient]),
    ];
    let mut cases = Vec::new();
    for (dtypes, ops) in rows {
        for (dtype, op) in dtypes.iter().flat_map(|dtype| ops.iter().map(move |op| (*dtype, *op))) {
            cases.push(Case::new(op, &[&extreme(dtype, &[36])]));
            cases.extend(SHAPES.map(|shape| Case::new(op, &[&small(dtype, shape)])));
        }
    }
    check(cases);
}

#[test]
fn binary() {
    use Binary::*;
    let rows = [
        (dtypes(false, true, true), vec![Add, Sub, Mul, Div, Rem, Max, Min, Pow]),
        (dtypes(true, true, false), vec![And, Or, Xor]),
    ];
    let mut cases = Vec::new();
    for (dtypes, ops) in rows {
        for (dtype, op) in dtypes.iter().flat_map(|dtype| ops.iter().map(move |op| (*dtype, *op))) {
            let [left, right] = pairs(dtype);
            cases.push(Case::new(op, &[&left, &right]));
            cases.extend(SHAPES.map(|shape| Case::new(op, &[&small(dtype, shape), &extreme(dtype, shape)])));
        }
    }
    check(cases);
}

#[test]
fn compare() {
    use Compare::*;
    let mut cases = Vec::new();
    for (dtype, op) in DType::ALL.iter().flat_map(|dtype| [Eq, Ne, Lt, Le, Gt, Ge].map(|op| (*dtype, op))) {
        let [left, right] = pairs(dtype);
        cases.push(Case::new(op, &[&left, &right]));
        cases.extend(SHAPES.map(|shape| Case::new(op, &[&small(dtype, shape), &extreme(dtype, shape)])));
    }
    check(cases);
}

#[test]
fn select() {
    let mut cases = Vec::new();
    for (dtype, shape) in DType::ALL.iter().flat_map(|dtype| SHAPES.map(|shape| (*dtype, shape))) {
        let predicate = small(DType::Bool, shape);
        cases.push(Case::new(Select, &[&predicate, &small(dtype, shape), &extreme(dtype, shape)]));
    }
    check(cases);
}

#[test]
fn cast() {
    let mut cases = Vec::new();
    for (from, to) in DType::ALL.iter().flat_map(|from| DType::ALL.map(|to| (*from, to))) {
        cases.push(Case::new(Cast { dtype: to }, &[&extreme(from, &[6, 6])]));
        cases.extend(SHAPES.map(|shape| Case::new(Cast { dtype: to }, &[&small(from, shape)])));
    }
    check(cases);
}

#[test]
fn matmul() {
    let shapes: [(&[usize], &[usize]); 6] = [
        (&[3, 4], &[4, 2]),
        (&[1, 1], &[1, 1]),
        (&[2, 3, 4], &[2, 4, 5]),
        (&[2, 2, 1, 4], &[2, 2, 4, 3]),
        (&[3, 0], &[0, 2]),
        (&[0, 3], &[3, 2]),
    ];
    let pairs = FLOATS.iter().flat_map(|dtype| shapes.map(|shapes| (*dtype, shapes)));
    check(
        pairs
            .map(|(dtype, (left, right))| Case::new(MatMul, &[&small(dtype, left), &small(dtype, right)]).scaled(4.0))
            .collect(),
    );
}

#[test]
fn reduce() {
    use ReduceKind::*;
    let axes: [(&[usize], &[usize]); 12] = [
        (&[5], &[0]),
        (&[], &[]),
        (&[0], &[0]),
        (&[300], &[0]),
        (&[3, 4], &[0]),
        (&[3, 4], &[1]),
        (&[3, 4], &[0, 1]),
        (&[2, 3, 4], &[0, 2]),
        (&[2, 3, 4], &[1]),
        (&[2, 0, 3], &[1]),
        (&[2, 0, 3], &[0]),
        (&[2, 1, 3, 2], &[1, 2, 3]),
    ];
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        let kinds = if dtype == DType::Bool { vec![Any, All] } else { vec![Sum, Prod, Max, Min] };
        for (kind, (shape, axes)) in kinds.iter().flat_map(|kind| axes.map(|axes| (*kind, axes))) {
            let op = Reduce { kind, axes: axes.to_vec() };
            let tensors = [small(dtype, shape), extreme(dtype, shape)];
            cases.extend(tensors.map(|x| Case::new(op.clone(), &[&x]).scaled(10.0)));
        }
        if dtype == DType::Bool {
            let ones = HostTensor::from_vec(vec![true; 600], [2, 300]).expect("it has 600 elements");
            cases.extend(kinds.iter().map(|kind| Case::new(Reduce { kind: *kind, axes: vec![1] }, &[&ones])));
        }
    }
    check(cases);
}

#[test]
fn argmax() {
    let shapes: [(&[usize], usize); 7] =
        [(&[5], 0), (&[1], 0), (&[300], 0), (&[3, 4], 0), (&[3, 4], 1), (&[2, 3, 4], 1), (&[0, 3], 1)];
    let mut cases = Vec::new();
    for (dtype, (shape, axis)) in dtypes(false, true, true).iter().flat_map(|d| shapes.map(|shape| (*d, shape))) {
        let rising = HostTensor::from_fn(dtype, shape, |index| match dtype.is_float() {
            true => funcify::Scalar::Float(index[axis] as f64),
            false => funcify::Scalar::Int(index[axis] as i64),
        });
        let tensors = [small(dtype, shape), extreme(dtype, shape), rising];
        cases.extend(tensors.map(|x| Case::new(ArgMax { axis }, &[&x])));
    }
    check(cases);
}

/// An op without attributes that depend on the dtype, on tensors of every dtype.
fn on_every_dtype(rows: Vec<(Op, &[usize])>) -> Vec<Case> {
    let pairs = DType::ALL.iter().flat_map(|dtype| rows.iter().map(move |(op, shape)| (*dtype, op, *shape)));
    pairs.map(|(dtype, op, shape)| Case::new(op.clone(), &[&extreme(dtype, shape)])).collect()
}

#[test]
fn shapes() {
    let broadcast = |shape: &[usize]| Op::from(Broadcast { shape: shape.into() });
    let reshape = |shape: &[usize]| Op::from(Reshape { shape: shape.into() });
    let transpose = |axes: &[usize]| Op::from(Transpose { axes: axes.to_vec() });
    check(on_every_dtype(vec![
        (broadcast(&[2, 3]), &[]),
        (broadcast(&[]), &[]),
        (broadcast(&[2, 3]), &[3]),
        (broadcast(&[2, 3]), &[2, 1]),
        (broadcast(&[4, 2, 3, 2]), &[2, 1, 2]),
        (broadcast(&[0, 3]), &[1, 3]),
        (broadcast(&[2, 0]), &[0]),
        (broadcast(&[1, 1, 2, 1, 1, 3]), &[3]),
        (reshape(&[3, 4]), &[12]),
        (reshape(&[]), &[1, 1]),
        (reshape(&[1]), &[]),
        (reshape(&[2, 3, 2, 1]), &[3, 4]),
        (reshape(&[0, 5]), &[2, 0]),
        (transpose(&[]), &[]),
        (transpose(&[1, 0]), &[3, 4]),
        (transpose(&[2, 0, 1]), &[2, 3, 4]),
        (transpose(&[3, 1, 0, 2]), &[2, 1, 3, 2]),
        (transpose(&[1, 0]), &[0, 3]),
        (Reverse { axis: 0 }.into(), &[5]),
        (Reverse { axis: 1 }.into(), &[2, 3, 4]),
        (Reverse { axis: 0 }.into(), &[0, 3]),
    ]));
}

#[test]
fn slice() {
    let slice = |axis, start: usize, limit: usize, step| {
        Op::from(Slice { axis, start: Dim::from(start), limit: Dim::from(limit), step })
    };
    check(on_every_dtype(vec![
        (slice(0, 1, 4, 1), &[5]),
        (slice(0, 0, 5, 2), &[5]),
        (slice(0, 1, 5, 3), &[5]),
        (slice(1, 2, 2, 1), &[2, 3]),
        (slice(1, 1, 3, 1), &[2, 3, 4]),
        (slice(2, 0, 4, 3), &[2, 3, 4]),
        (slice(0, 0, 0, 1), &[0, 3]),
        (slice(0, 0, 0, 2), &[4, 0]),
        (slice(0, 0, 3, 2), &[4, 0]),
    ]));
}

#[test]
fn concat() {
    let rows: [(usize, Vec<&[usize]>); 6] = [
        (0, vec![&[2], &[0], &[3]]),
        (0, vec![&[2, 3]]),
        (1, vec![&[2, 3], &[2, 1], &[2, 0]]),
        (0, vec![&[0, 3], &[0, 3]]),
        (0, vec![&[1, 0], &[2, 0]]),
        (2, vec![&[2, 3, 4], &[2, 3, 2]]),
    ];
    let pairs = DType::ALL.iter().flat_map(|dtype| rows.iter().map(move |row| (*dtype, row)));
    check(
        pairs
            .map(|(dtype, (axis, shapes))| {
                let parts: Vec<HostTensor> = shapes.iter().map(|shape| extreme(dtype, shape)).collect();
                Case::new(Concat { axis: *axis }, &parts.iter().collect::<Vec<_>>())
            })
            .collect(),
    );
}

#[test]
fn pad() {
    let pad =
        |axis, low: usize, high: usize, interior| Pad { axis, low: Dim::from(low), high: Dim::from(high), interior };
    let rows: [(Pad, &[usize]); 8] = [
        (pad(0, 1, 2, 0), &[3]),
        (pad(0, 0, 0, 2), &[3]),
        (pad(1, 2, 1, 1), &[2, 3]),
        (pad(0, 2, 0, 3), &[1]),
        (pad(0, 1, 2, 1), &[0]),
        (pad(0, 1, 2, 0), &[2, 0]),
        (pad(1, 0, 3, 0), &[2, 3, 4]),
        (pad(5, 1, 1, 1), &[1, 2, 1, 1, 1, 3]),
    ];
    let pairs = DType::ALL.iter().flat_map(|dtype| rows.iter().map(move |row| (*dtype, row)));
    check(
        pairs
            .map(|(dtype, (pad, shape))| {
                let value = small(dtype, &[2]).row(1);
                Case::new(pad.clone(), &[&extreme(dtype, shape), &value])
            })
            .collect(),
    );
}

#[test]
fn without_operands() {
    let mut cases = Vec::new();
    for dtype in dtypes(false, true, true) {
        cases.extend([0usize, 1, 7, 300].map(|size| Case::new(Iota { size: Dim::from(size), dtype }, &[])));
        cases.extend([-3i64, 0, 300].map(|dim| Case::new(Size { dim: Dim::from(dim), dtype }, &[])));
    }
    for (dtype, shape) in DType::ALL.iter().flat_map(|dtype| SHAPES.map(|shape| (*dtype, shape))) {
        cases.push(Case::new(Constant { value: Arc::new(extreme(dtype, shape)) }, &[]));
    }
    check(cases);
}

#[test]
fn dynamic_slices_and_updates() {
    let rows: [(usize, usize, &[usize]); 6] =
        [(0, 2, &[5]), (1, 2, &[2, 3]), (0, 0, &[3]), (0, 3, &[3, 2]), (1, 1, &[2, 3, 4]), (0, 0, &[0])];
    let mut cases = Vec::new();
    for (dtype, (axis, size, shape)) in DType::ALL.iter().flat_map(|dtype| rows.map(|row| (*dtype, row))) {
        for (index, start) in INTEGERS.iter().flat_map(|index| [0, 1, 2, 9, -1, i64::MAX].map(|start| (*index, start)))
        {
            let start = HostTensor::scalar(start).cast(index);
            let mut part = shape.to_vec();
            part[axis] = size;
            let x = extreme(dtype, shape);
            cases.push(Case::new(DynamicSlice { axis, size: Dim::from(size) }, &[&x, &start]));
            cases.push(Case::new(DynamicUpdate { axis }, &[&x, &small(dtype, &part), &start]));
        }
    }
    check(cases);
}

#[test]
fn take_and_gather() {
    let numbers = [0, 2, 1, -1, 7, 1, i64::MAX, i64::MIN];
    let rows: [(usize, &[usize], &[usize]); 6] = [
        (0, &[3], &[]),
        (0, &[3], &[4]),
        (1, &[2, 3], &[2, 5]),
        (0, &[3, 2], &[0]),
        (1, &[2, 3, 4], &[3]),
        (0, &[0], &[0]),
    ];
    let mut cases = Vec::new();
    for (dtype, index) in DType::ALL.iter().flat_map(|dtype| INTEGERS.map(|index| (*dtype, index))) {
        for (axis, shape, picked) in rows {
            let x = extreme(dtype, shape);
            if shape != [0] {
                cases.push(Case::new(Take { axis }, &[&x, &indices(index, picked, &numbers)]));
            }
            for count in [0, 2, 4] {
                let mut along = shape.to_vec();
                along[axis] = count;
                if shape[axis] > 0 {
                    cases.push(Case::new(Gather { axis }, &[&x, &indices(index, &along, &numbers)]));
                }
            }
        }
    }
    check(cases);
}

#[test]
fn scatter() {
    let numbers = [0, 2, 1, -1, 7, 1, 1, i64::MIN];
    let rows: [(usize, &[usize], usize); 7] = [
        (0, &[3], 5),
        (0, &[3], 0),
        (1, &[2, 3], 4),
        (0, &[3, 2], 2),
        (1, &[2, 3, 4], 5),
        (0, &[0], 2),
        (0, &[2, 0], 3),
    ];
    let mut cases = Vec::new();
    for (dtype, index) in DType::ALL.iter().flat_map(|dtype| INTEGERS.map(|index| (*dtype, index))) {
        for ((axis, shape, count), mode) in
            rows.iter().flat_map(|row| [ScatterMode::Set, ScatterMode::Add].map(|m| (*row, m)))
        {
            if dtype == DType::Bool && mode == ScatterMode::Add {
                continue;
            }
            let mut along = shape.to_vec();
            along[axis] = count;
            let operands = [extreme(dtype, shape), indices(index, &along, &numbers), small(dtype, &along)];
            cases.push(Case::new(Scatter { axis, mode }, &operands.each_ref()).scaled(2.0));
        }
    }
    check(cases);
}
