//! Every op on every element type of its domain, against the reference evaluation: on tensors as they are uploaded,
//! and on views of larger tensors with their axes in the opposite order.

use funcify::dispatch::{Function, Reference, run_op};
use funcify::ops::*;
use funcify::{DType, Graph, HostTensor, Scalar, Shape, Storage, TensorType, Value, apply};
use funcify_candle::Candle;

const INTS: [DType; 4] = [DType::U8, DType::U32, DType::I32, DType::I64];
const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
const NUMBERS: [DType; 8] =
    [DType::U8, DType::U32, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

/// The shapes on which elementwise ops and reductions are tried.
const SHAPES: [&[usize]; 10] =
    [&[], &[1], &[7], &[0], &[3, 4], &[0, 3], &[2, 0, 3], &[2, 3, 4], &[2, 3, 2, 4], &[5, 6]];

/// Values that differ in every way that an op may mind.
fn values(dtype: DType) -> Vec<Scalar> {
    let ints = [0, 1, 2, 3, 7, 8, 100, 255, -1, -2, -7, -128, i64::MAX, i64::MIN, 1 << 31, (1 << 31) - 1];
    let inf = f64::INFINITY;
    let floats = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-4, 2.0, -3.5, 3.0, 60.0, -7.25, inf, -inf, f64::NAN];
    match dtype {
        DType::Bool => [true, false].map(Scalar::Bool).to_vec(),
        _ if dtype.is_float() => floats.map(Scalar::Float).to_vec(),
        _ => ints.map(Scalar::Int).to_vec(),
    }
}

/// A tensor that repeats `values`, from the one numbered `first` on.
fn repeated(dtype: DType, shape: &[usize], values: &[Scalar], first: usize) -> HostTensor {
    let size: usize = shape.iter().product();
    let scalars = (first..first + size).map(|index| values[index % values.len()]);
    HostTensor::new(shape, Storage::from_scalars(dtype, scalars)).unwrap()
}

fn varied(dtype: DType, shape: &[usize], first: usize) -> HostTensor {
    repeated(dtype, shape, &values(dtype), first)
}

/// A tensor of small numbers without NaN and infinity.
fn small(dtype: DType, shape: &[usize], first: usize) -> HostTensor {
    let values = [0.5, -1.0, 2.0, 0.25, -0.75, 1.5, 3.0].map(Scalar::Float);
    if dtype.is_float() { repeated(dtype, shape, &values, first) } else { varied(dtype, shape, first) }
}

/// All pairs of values, as two vectors.
fn pairs(dtype: DType) -> [HostTensor; 2] {
    let values = values(dtype);
    let count = values.len();
    let side = |pick: fn(usize, usize) -> usize| {
        let scalars = (0..count * count).map(|index| values[pick(index, count)]);
        HostTensor::new([count * count], Storage::from_scalars(dtype, scalars)).unwrap()
    };
    [side(|index, count| index / count), side(|index, count| index % count)]
}

fn ints(elements: &[i64], dtype: DType) -> HostTensor {
    let scalars = elements.iter().map(|element| Scalar::Int(*element));
    HostTensor::new([elements.len()], Storage::from_scalars(dtype, scalars)).unwrap()
}

/// Candle gives what the reference evaluation gives, for tensors and for views.
fn check(op: impl Into<Op>, inputs: &[HostTensor]) {
    let op = op.into();
    let expected = run_op(&Reference, &op, inputs).unwrap_or_else(|error| panic!("the reference: {error}"));
    let found = run_op(&Candle::cpu(), &op, inputs).unwrap_or_else(|error| panic!("{op:?} of {inputs:?}: {error}"));
    compare(&op, inputs, &found, &expected);
    let (graph, stored) = on_views(&op, inputs);
    let function = Function::compile(&graph, &Candle::cpu()).unwrap_or_else(|error| panic!("{error}"));
    let found = function.call_host(&stored).unwrap_or_else(|error| panic!("{op:?} of views {inputs:?}: {error}"));
    compare(&op, inputs, &found, &expected);
}

/// The op on views: each operand is stored with its axes reversed and one more element along each.
fn on_views(op: &Op, inputs: &[HostTensor]) -> (Graph, Vec<HostTensor>) {
    let mut stored = Vec::new();
    for input in inputs {
        let shape: Vec<usize> = input.shape().iter().rev().map(|size| size + 1).collect();
        stored.push(HostTensor::from_fn(input.dtype(), &shape, |index| {
            let source: Vec<usize> = index.iter().rev().copied().collect();
            let inside = source.iter().zip(input.shape()).all(|(position, size)| position < size);
            if inside { input.at(&source) } else { Scalar::Int(1) }
        }));
    }
    let graph = Graph::build("on_views", |builder| {
        let mut operands = Vec::new();
        for (number, (input, stored)) in inputs.iter().zip(&stored).enumerate() {
            let mut view: Value = builder.input(&format!("x{number}"), stored.ty());
            for (axis, size) in input.shape().iter().rev().enumerate() {
                let slice = Slice { axis, start: 0.into(), limit: (*size).into(), step: 1 };
                view = apply(slice, &[view])[0];
            }
            operands.push(apply(Transpose { axes: (0..input.shape().len()).rev().collect() }, &[view])[0]);
        }
        apply(op.clone(), &operands)
    });
    (graph.unwrap_or_else(|error| panic!("{error}")), stored)
}

fn compare(op: &Op, inputs: &[HostTensor], found: &[HostTensor], expected: &[HostTensor]) {
    assert_eq!(found.len(), expected.len(), "{op:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.ty(), expected.ty(), "{op:?} of {inputs:?}");
        let close = found.scalars().zip(expected.scalars()).all(|(a, b)| is_close(a, b, expected.dtype()));
        assert!(close, "{op:?} of {inputs:?}\n   found {found:?}\nexpected {expected:?}");
    }
}

fn is_close(found: Scalar, expected: Scalar, dtype: DType) -> bool {
    let tolerance = match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 2e-2,
        DType::F32 => 1e-5,
        DType::F64 => 1e-12,
        _ => return found == expected,
    };
    let (found, expected) = (found.as_f64(), expected.as_f64());
    let close = (found - expected).abs() <= tolerance * (0.1 + expected.abs());
    found == expected || close || (found.is_nan() && expected.is_nan())
}

/// What moves elements moves every type.
fn check_moves(op: impl Into<Op> + Clone, shapes: &[&[usize]]) {
    for dtype in DType::ALL {
        for shape in shapes {
            check(op.clone(), &[varied(dtype, shape, 0)]);
        }
    }
}

fn refuses(op: impl Into<Op>, inputs: &[HostTensor], message: &str) {
    let error = run_op(&Candle::cpu(), &op.into(), inputs).expect_err("an error").to_string();
    assert!(error.contains(message), "{error}\ndoes not say: {message}");
}

#[test]
fn unary_floats() {
    use Unary::*;
    let ops =
        [Neg, Abs, Sign, Square, Exp, Expm1, Log, Log1p, Tanh, Sigmoid, Sin, Cos, Sqrt, Rsqrt, Recip, StopGradient];
    for op in ops {
        for dtype in FLOATS {
            check(op, &[varied(dtype, &[15], 0)]);
            for shape in SHAPES {
                check(op, &[varied(dtype, shape, 2)]);
            }
        }
    }
}

#[test]
fn unary_integers_and_booleans() {
    use Unary::*;
    for (ops, dtypes) in
        [(&[Neg, Abs, Sign, Square, Not, StopGradient][..], &INTS[..]), (&[Not, StopGradient], &[DType::Bool])]
    {
        for op in ops {
            for dtype in dtypes {
                check(*op, &[varied(*dtype, &[16], 0)]);
                for shape in SHAPES {
                    check(*op, &[varied(*dtype, shape, 6)]);
                }
            }
        }
    }
}

#[test]
fn binary_ops() {
    use Binary::*;
    let logic = [DType::Bool, DType::U8, DType::U32, DType::I32, DType::I64];
    let tables = [(&[Add, Sub, Mul, Div, Rem, Max, Min, Pow][..], &NUMBERS[..]), (&[And, Or, Xor], &logic)];
    for (ops, dtypes) in tables {
        for op in ops {
            for dtype in dtypes {
                check(*op, &pairs(*dtype));
                for shape in SHAPES {
                    check(*op, &[varied(*dtype, shape, 2), varied(*dtype, shape, 3)]);
                }
            }
        }
    }
}

#[test]
fn comparisons() {
    use Compare::*;
    for op in [Eq, Ne, Lt, Le, Gt, Ge] {
        for dtype in DType::ALL {
            check(op, &pairs(dtype));
            for shape in SHAPES {
                check(op, &[varied(dtype, shape, 2), varied(dtype, shape, 3)]);
            }
        }
    }
}

#[test]
fn large_tensors_run_in_parallel() {
    for dtype in [DType::F32, DType::I64] {
        let (x, y) = (varied(dtype, &[300, 301], 2), varied(dtype, &[300, 301], 3));
        check(Binary::Max, &[x.clone(), y.clone()]);
        check(Binary::Mul, &[x.clone(), y]);
        check(Unary::Sign, &[x]);
    }
}

#[test]
fn select_takes_views() {
    for dtype in DType::ALL {
        for shape in SHAPES {
            check(Select, &[varied(DType::Bool, shape, 0), varied(dtype, shape, 0), varied(dtype, shape, 5)]);
        }
    }
}

#[test]
fn casts() {
    let exact = [2049, 4097, 16_777_217, 65_505, (1 << 24) + 1, (1 << 53) + 1].map(Scalar::Int);
    let far = [300.7, -1.5, 1e10, -1e10, 1e20, -1e20, 65_519.0, 65_520.0, 1e-8].map(Scalar::Float);
    for from in DType::ALL {
        for dtype in DType::ALL {
            check(Cast { dtype }, &[varied(from, &[16], 0)]);
            check(Cast { dtype }, &[repeated(from, &[6], &exact, 0)]);
            check(Cast { dtype }, &[repeated(from, &[9], &far, 0)]);
            for shape in SHAPES {
                check(Cast { dtype }, &[varied(from, shape, 1)]);
            }
        }
    }
}

#[test]
fn products_of_matrices() {
    let shapes: [(&[usize], [usize; 3]); 14] = [
        (&[], [2, 3, 4]),
        (&[], [1, 1, 1]),
        (&[], [1, 5, 1]),
        (&[], [17, 33, 19]),
        (&[], [0, 3, 4]),
        (&[], [2, 0, 4]),
        (&[], [2, 3, 0]),
        (&[2], [3, 4, 5]),
        (&[0], [3, 4, 5]),
        (&[3], [2, 0, 2]),
        (&[2, 3], [2, 3, 4]),
        (&[1, 3], [2, 3, 4]),
        (&[2, 1], [1, 3, 4]),
        (&[2, 3, 2], [2, 3, 4]),
    ];
    for dtype in FLOATS {
        for (batch, [rows, inner, columns]) in shapes {
            let left = [batch, &[rows, inner]].concat();
            let right = [batch, &[inner, columns]].concat();
            check(MatMul, &[small(dtype, &left, 0), small(dtype, &right, 3)]);
        }
    }
}

#[test]
fn reductions() {
    use ReduceKind::*;
    for kind in [Sum, Prod, Max, Min, Any, All] {
        let dtypes: &[DType] = if matches!(kind, Any | All) { &[DType::Bool] } else { &NUMBERS };
        for dtype in dtypes {
            for shape in SHAPES {
                for subset in 0..1usize << shape.len() {
                    let axes: Vec<usize> = (0..shape.len()).filter(|axis| subset >> axis & 1 == 1).collect();
                    let op = Reduce { kind, axes };
                    check(op.clone(), &[varied(*dtype, shape, 1)]);
                    check(op, &[small(*dtype, shape, 1)]);
                }
            }
            check(Reduce { kind, axes: vec![0] }, &[small(*dtype, &[300, 2], 0)]);
            let op = Reduce { kind, axes: vec![1] };
            let ones = if *dtype == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(1) };
            check(op, &[repeated(*dtype, &[2, 300], &[ones], 0)]);
        }
    }
}

#[test]
fn positions_of_the_largest() {
    for dtype in NUMBERS {
        for shape in SHAPES {
            for axis in (0..shape.len()).filter(|axis| shape[*axis] > 0) {
                for first in 0..16 {
                    check(ArgMax { axis }, &[varied(dtype, shape, first)]);
                }
            }
        }
    }
}

#[test]
fn broadcasts_and_reshapes() {
    let broadcasts: [(&[usize], &[usize]); 8] = [
        (&[], &[]),
        (&[], &[3]),
        (&[], &[2, 0]),
        (&[1], &[4]),
        (&[3], &[2, 3]),
        (&[2, 1], &[3, 2, 4]),
        (&[1, 3], &[0, 3]),
        (&[1, 3, 1], &[2, 2, 3, 2]),
    ];
    for (from, to) in broadcasts {
        check_moves(Broadcast { shape: Shape::from(to) }, &[from]);
    }
    let reshapes: [(&[usize], &[usize]); 6] =
        [(&[], &[1, 1]), (&[6], &[2, 3]), (&[2, 3, 4], &[4, 6]), (&[0, 3], &[5, 0]), (&[2, 1], &[2]), (&[1], &[])];
    for (from, to) in reshapes {
        check_moves(Reshape { shape: Shape::from(to) }, &[from]);
    }
}

#[test]
fn transposes_and_reverses() {
    check_moves(Transpose { axes: vec![] }, &[&[]]);
    check_moves(Transpose { axes: vec![0] }, &[&[3], &[0]]);
    check_moves(Transpose { axes: vec![1, 0] }, &[&[2, 3], &[0, 3]]);
    check_moves(Transpose { axes: vec![2, 0, 1] }, &[&[2, 3, 4]]);
    check_moves(Transpose { axes: vec![3, 1, 0, 2] }, &[&[2, 3, 4, 2]]);
    check_moves(Reverse { axis: 0 }, &[&[5], &[0], &[1], &[3, 2], &[0, 2], &[2, 0]]);
    check_moves(Reverse { axis: 1 }, &[&[3, 2], &[2, 3, 4], &[2, 1, 0]]);
}

#[test]
fn slices() {
    for (start, limit) in [(0, 5), (1, 4), (5, 5), (0, 0), (2, 3)] {
        for step in 1..4 {
            let slice = |axis| Slice { axis, start: start.into(), limit: limit.into(), step };
            check_moves(slice(0), &[&[5], &[5, 2], &[5, 0]]);
            check_moves(slice(1), &[&[2, 5], &[2, 5, 3]]);
        }
    }
}

#[test]
fn concatenations() {
    for dtype in DType::ALL {
        let part = |shape: &[usize], first| varied(dtype, shape, first);
        check(Concat { axis: 0 }, &[part(&[3], 0)]);
        check(Concat { axis: 0 }, &[part(&[3], 0), part(&[0], 0), part(&[2], 1)]);
        check(Concat { axis: 0 }, &[part(&[0], 0), part(&[0], 0)]);
        check(Concat { axis: 0 }, &[part(&[1, 3], 0), part(&[2, 3], 5)]);
        check(Concat { axis: 1 }, &[part(&[2, 1], 0), part(&[2, 3], 5), part(&[2, 0], 0)]);
        check(Concat { axis: 1 }, &[part(&[2, 2, 3], 0), part(&[2, 1, 3], 5)]);
        check(Concat { axis: 2 }, &[part(&[2, 2, 3], 0), part(&[2, 2, 1], 5)]);
    }
}

#[test]
fn paddings() {
    for dtype in DType::ALL {
        for (low, high, interior) in [(0, 0, 0), (1, 2, 0), (0, 1, 2), (2, 0, 1), (0, 0, 3)] {
            for (axis, shape) in [(0, &[3][..]), (0, &[1]), (0, &[0]), (1, &[2, 3]), (0, &[3, 0]), (1, &[2, 2, 3])] {
                let op = Pad { axis, low: low.into(), high: high.into(), interior };
                check(op, &[varied(dtype, shape, 0), varied(dtype, &[], 1)]);
            }
        }
    }
}

#[test]
fn ops_without_operands() {
    for dtype in NUMBERS {
        for size in [0, 1, 5, 300, 3000] {
            check(Iota { size: size.into(), dtype }, &[]);
            check(Size { dim: size.into(), dtype }, &[]);
        }
    }
    for dtype in DType::ALL {
        for shape in SHAPES {
            check(Constant { value: varied(dtype, shape, 0).into() }, &[]);
        }
    }
}

#[test]
fn dynamic_slices_and_updates() {
    for dtype in DType::ALL {
        for index_dtype in INTS {
            for start in [0, 1, 2, 9, -1, i64::MIN, i64::MAX] {
                let start = HostTensor::scalar(start).cast(index_dtype);
                for size in [0, 1, 3, 4] {
                    let slice = |axis| DynamicSlice { axis, size: (size as i64).into() };
                    check(slice(0), &[varied(dtype, &[4], 0), start.clone()]);
                    check(slice(1), &[varied(dtype, &[2, 4, 2], 0), start.clone()]);
                    let operands = [varied(dtype, &[4], 0), varied(dtype, &[size], 3), start.clone()];
                    check(DynamicUpdate { axis: 0 }, &operands);
                    let operands = [varied(dtype, &[2, 4, 2], 0), varied(dtype, &[2, size, 2], 3), start.clone()];
                    check(DynamicUpdate { axis: 1 }, &operands);
                }
            }
        }
    }
}

#[test]
fn takes_gathers_and_scatters() {
    for dtype in DType::ALL {
        for index_dtype in INTS {
            let indices = ints(&[2, 0, 255, 1, 1, -1, i64::MAX, i64::MIN], index_dtype);
            let square = indices.clone().reshaped([2, 4]).unwrap();
            let none = ints(&[], index_dtype);
            for indices in [&indices, &square, &none, &HostTensor::scalar(1i64).cast(index_dtype)] {
                check(Take { axis: 0 }, &[varied(dtype, &[3], 0), indices.clone()]);
                check(Take { axis: 1 }, &[varied(dtype, &[2, 3, 2], 0), indices.clone()]);
            }
            check(Gather { axis: 0 }, &[varied(dtype, &[3], 0), indices.clone()]);
            check(Gather { axis: 1 }, &[varied(dtype, &[2, 3], 0), square.clone()]);
            check(Gather { axis: 0 }, &[varied(dtype, &[3, 4], 0), square.clone()]);
            check(Gather { axis: 0 }, &[varied(dtype, &[3], 0), none.clone()]);
            for mode in [ScatterMode::Set, ScatterMode::Add] {
                if mode == ScatterMode::Add && dtype == DType::Bool {
                    continue;
                }
                let scatter = |axis| Scatter { axis, mode };
                check(scatter(0), &[varied(dtype, &[3], 0), indices.clone(), varied(dtype, &[8], 4)]);
                check(scatter(1), &[varied(dtype, &[2, 3], 0), square.clone(), small(dtype, &[2, 4], 4)]);
                check(scatter(0), &[varied(dtype, &[3, 4], 0), square.clone(), small(dtype, &[2, 4], 4)]);
                check(scatter(0), &[varied(dtype, &[3], 0), none.clone(), varied(dtype, &[0], 4)]);
            }
        }
    }
}

#[test]
fn views_that_repeat_elements() {
    let graph = Graph::build("repeats", |builder| {
        let x = builder.input("x", TensorType::new(DType::F32, [3usize, 4]));
        let y = builder.input("y", TensorType::new(DType::F32, [4usize, 3]));
        let z = builder.input("z", TensorType::new(DType::F32, [2usize, 4, 3]));
        let row = x.slice(0, 1..2);
        let matrices = x.broadcast_to([2usize, 3, 4]);
        let same_right = y.t().broadcast_to([2usize, 3, 4]);
        vec![
            x + row,
            row.broadcast_to([3usize, 4]).matmul(y),
            matrices.transpose(vec![0, 2, 1]).matmul(same_right),
            z.transpose(vec![0, 2, 1]).matmul(y.broadcast_to([2usize, 4, 3])),
            matrices.matmul(y.broadcast_to([2usize, 4, 3])),
            row.broadcast_to([3usize, 4]).sum(0),
            row.broadcast_to([3usize, 4]).max(1),
            row.broadcast_to([3usize, 4]).reverse(0),
        ]
    });
    let graph = graph.unwrap_or_else(|error| panic!("{error}"));
    let inputs = [small(DType::F32, &[3, 4], 0), small(DType::F32, &[4, 3], 2), small(DType::F32, &[2, 4, 3], 1)];
    let expected = funcify::evaluate(&graph, &inputs).unwrap();
    let found = Function::compile(&graph, &Candle::cpu()).unwrap().call_host(&inputs).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        compare(&Op::from(MatMul), &inputs, std::slice::from_ref(found), std::slice::from_ref(expected));
    }
}

#[test]
fn what_cannot_be_done_is_an_error() {
    let nine = HostTensor::zeros(DType::F32, &[1; 9]);
    refuses(Unary::Neg, &[nine], "at most 8 axes");
    let shape = Shape::from([1usize; 9].as_slice());
    refuses(Broadcast { shape }, &[HostTensor::scalar(1f32)], "at most 8 axes");
}
