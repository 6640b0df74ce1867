//! Tests the functions that take, write and stack rows, the backend's element types, and calls with tracked tensors.
//! Also covers cases outside the conformance suite: tensors large enough for kernels to use several threads, constants
//! that run as ops, and errors.

use candle_core::{Device, Tensor, Var};
use funcify::dispatch::{Backend, Function, Part, StackType, run_op};
use funcify::ops::{Broadcast, Constant, Op, Unary};
use funcify::{DType, Graph, HostTensor, Scalar, Shape, TensorType, apply};
use funcify_candle::Candle;

#[test]
fn rows_are_taken_and_stacked() {
    let candle = Candle::cpu();
    for dtype in DType::ALL {
        let x = HostTensor::from_fn(dtype, &[3, 2], |index| Scalar::Int((2 * index[0] + index[1]) as i64));
        let uploaded = candle.upload(&x).unwrap();
        let row = candle.row(&uploaded, 1).unwrap();
        assert_eq!(candle.shape(&row), [2]);
        let parts = vec![
            Part::Row(candle.row(&uploaded, 0).unwrap()),
            Part::Block(candle.rows(&uploaded, 3, 0).unwrap()),
            Part::Block(candle.rows(&uploaded, 1, 2).unwrap()),
        ];
        let stacked = candle.stack(parts, &StackType { dtype, rows: 3, row: vec![2] }).unwrap();
        assert!(candle.has_dtype(&stacked, dtype));
        assert_eq!(candle.download(&stacked, dtype).unwrap(), x);
        for (rows, row) in [(0, vec![2]), (0, vec![]), (2, vec![0, 3])] {
            let ty = StackType { dtype, rows, row: row.clone() };
            let parts = (0..rows).map(|_| Part::Row(candle.upload(&HostTensor::zeros(dtype, &row)).unwrap())).collect();
            assert_eq!(candle.shape(&candle.stack(parts, &ty).unwrap()), ty.shape());
        }
        assert!(candle.rows(&uploaded, 2, 2).is_err());
        assert!(candle.row(&uploaded, 3).is_err());
    }
}

/// Writes rows of various layouts to traces, out of order, and checks the contents of the traces. Later writes must not
/// change the tensors that were passed as rows.
#[test]
fn traces_are_written_in_place() {
    let candle = Candle::cpu();
    for dtype in DType::ALL {
        for row in [&[][..], &[2], &[2, 3], &[0]] {
            let ty = StackType { dtype, rows: 3, row: row.to_vec() };
            let x =
                HostTensor::from_fn(dtype, &ty.shape(), |index| Scalar::Int((index.iter().sum::<usize>() % 2) as i64));
            let uploaded = candle.upload(&x).unwrap();
            let mut trace = candle.allocate(&ty).unwrap().unwrap();
            for index in [2, 0, 1] {
                let value = candle.row(&uploaded, index).unwrap();
                trace = candle.write_row(trace, index, value).unwrap();
            }
            assert_eq!(candle.download(&trace, dtype).unwrap(), x);
            let over = Tensor::zeros(row, trace.dtype(), &Device::Cpu).unwrap();
            trace = candle.write_row(trace, 0, over.clone()).unwrap();
            assert_eq!(candle.download(&uploaded, dtype).unwrap(), x);
            if !row.contains(&0) {
                assert!(candle.write_row(trace.clone(), 3, over).is_err());
                let other = Tensor::zeros(7, trace.dtype(), &Device::Cpu).unwrap();
                assert!(candle.write_row(trace, 0, other).is_err());
            }
        }
    }
    let ty = StackType { dtype: DType::F32, rows: 2, row: vec![2, 3] };
    let transposed = Tensor::arange(0f32, 6.0, &Device::Cpu).unwrap().reshape((3, 2)).unwrap().t().unwrap();
    let repeated = Tensor::full(7f32, (1, 1), &Device::Cpu).unwrap().broadcast_as((2, 3)).unwrap();
    let mut trace = candle.allocate(&ty).unwrap().unwrap();
    trace = candle.write_row(trace, 0, transposed).unwrap();
    trace = candle.write_row(trace, 1, repeated).unwrap();
    let expected = [0f32, 2., 4., 1., 3., 5., 7., 7., 7., 7., 7., 7.];
    assert_eq!(trace.flatten_all().unwrap().to_vec1::<f32>().unwrap(), expected);
}

#[test]
fn tracked_tensors_stay_tracked() {
    let graph = Graph::build("tracked", |builder| {
        let x = builder.input("x", TensorType::new(DType::F64, [3usize]));
        x.sigmoid() + x.expm1() * x.log1p() + x.rsqrt() + x.reverse(0).stop_gradient()
    });
    let function = Function::compile(&graph.unwrap(), &Candle::cpu()).unwrap();
    let at = [0.5f64, 1.0, 2.0];
    let x = Var::new(&at, &Device::Cpu).unwrap();
    let y = &function.call(&[x.as_tensor().clone()]).unwrap()[0];
    let gradients = y.sum_all().unwrap().backward().unwrap();
    let found = gradients.get(&x).unwrap().to_vec1::<f64>().unwrap();
    let value = |x: f64| 1.0 / (1.0 + (-x).exp()) + x.exp_m1() * x.ln_1p() + 1.0 / x.sqrt();
    for (x, found) in at.iter().zip(found) {
        let expected = (value(x + 1e-5) - value(x - 1e-5)) / 2e-5;
        assert!((found - expected).abs() < 1e-8, "{found} != {expected}");
    }
}

#[test]
fn elementwise_ops_have_gradients() {
    // Skip `stop_gradient`, because its gradient differs from the finite difference.
    for op in Unary::ALL.iter().copied().filter(|op| *op != Unary::StopGradient) {
        let graph = Graph::build("tracked", |builder| apply(op, &[builder.input("x", "f64[2]")]));
        // Skip ops that do not accept floats.
        let Ok(graph) = graph else { continue };
        let value = |x: [f64; 2]| funcify::evaluate(&graph, &[x.into()]).unwrap()[0].to_f64_vec();
        let inside = [[0.3, -0.7], [1.25, 3.0]].into_iter().find(|x| value(*x).iter().all(|y| y.is_finite()));
        let at = inside.unwrap_or_else(|| panic!("{op:?} is finite at none of the points: add another point"));
        let x = Var::new(&at, &Device::Cpu).unwrap();
        let y = &Function::compile(&graph, &Candle::cpu()).unwrap().call(&[x.as_tensor().clone()]).unwrap()[0];
        let gradients = y.sum_all().unwrap().backward().unwrap();
        let found = gradients.get(&x).unwrap().to_vec1::<f64>().unwrap();
        let (above, below) = (value(at.map(|x| x + 1e-5)), value(at.map(|x| x - 1e-5)));
        for (index, found) in found.into_iter().enumerate() {
            let expected = (above[index] - below[index]) / 2e-5;
            let is_close = (found - expected).abs() < 1e-8 * (1.0 + expected.abs());
            assert!(is_close, "{op:?} at {}: {found} != {expected}", at[index]);
        }
    }
}

#[test]
fn a_tensor_of_another_type_is_an_error() {
    let x = Tensor::new(&[1f32], &Device::Cpu).unwrap();
    assert!(Candle::cpu().download(&x, DType::F64).is_err());
    assert!(!Candle::cpu().has_dtype(&x, DType::Bool));
}

#[test]
fn large_tensors_run_in_parallel() {
    let ints = [-3, 0, 7, 255, i64::MAX, i64::MIN, 2].map(Scalar::Int);
    let floats = [-3.5, -0.0, 1e-4, 60.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(Scalar::Float);
    for (dtype, values) in [(DType::F32, floats), (DType::I64, ints)] {
        let mut next = values.iter().cycle();
        let inputs = [[300, 301], [301, 299], [301, 300]]
            .map(|shape| HostTensor::from_fn(dtype, &shape, |_| *next.next().unwrap()));
        let graph = Graph::build("large", |builder| {
            let [x, y, z] = [("x", 0), ("y", 1), ("z", 2)].map(|(name, index)| builder.input(name, inputs[index].ty()));
            // `z.t()` is a view.
            [x.maximum(z.t()), z.t() * x, y.sign(), y.maximum(y.reverse(0)), y * y.reverse(1), z.t().sign()]
        });
        let graph = graph.unwrap();
        let found = Function::compile(&graph, &Candle::cpu()).unwrap().call_host(&inputs).unwrap();
        let expected = funcify::evaluate(&graph, &inputs).unwrap();
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.ty(), expected.ty());
            let same = |(a, b): (Scalar, Scalar)| a == b || (a.as_f64().is_nan() && b.as_f64().is_nan());
            assert!(found.scalars().zip(expected.scalars()).all(same), "{dtype}, output {index}");
        }
    }
}

/// Compares products of transposed, narrowed and broadcast operands with Candle's products of contiguous copies. The
/// operands have up to two batch axes. For contiguous operands, the results must be bitwise equal.
#[test]
fn products_read_operands_where_they_lie() {
    let random = |shape: &[usize], dtype: candle_core::DType| {
        Tensor::randn(0f64, 1.0, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
    };
    for (dtype, own) in [(candle_core::DType::F32, DType::F32), (candle_core::DType::F64, DType::F64)] {
        for [m, k, n] in
            [[1, 1, 1], [1, 8, 5], [8, 8, 8], [3, 64, 64], [64, 64, 64], [65, 64, 64], [2, 65, 64], [5, 7, 1]]
        {
            let (left, right) = (random(&[m, k], dtype), random(&[k, n], dtype));
            let transposed = random(&[k, m], dtype).t().unwrap();
            let narrowed = random(&[m + 3, k + 2], dtype).narrow(0, 2, m).unwrap().narrow(1, 1, k).unwrap();
            let repeated = random(&[1, k], dtype).broadcast_as((m, k)).unwrap();
            let rows = random(&[4, k, n], dtype);
            let lefts = random(&[4, k, m], dtype).transpose(1, 2).unwrap();
            let apart = random(&[3, 2, m, k], dtype).transpose(0, 1).unwrap();
            let shared = random(&[k, n], dtype).broadcast_as((2, 3, k, n)).unwrap();
            let by_right = [&left, &transposed, &narrowed, &repeated].map(|left| (left, &right));
            let pairs = by_right.into_iter().chain([(&lefts, &rows), (&apart, &shared)]);
            for (index, (left, right)) in pairs.into_iter().enumerate() {
                let graph = Graph::build("product", |builder| {
                    let [l, r] = [("l", left), ("r", right)]
                        .map(|(name, tensor)| builder.input(name, TensorType::new(own, tensor.dims())));
                    l.matmul(r)
                });
                let function = Function::compile(&graph.unwrap(), &Candle::cpu()).unwrap();
                let found = &function.call(&[left.clone(), right.clone()]).unwrap()[0];
                let expected = left.contiguous().unwrap().matmul(&right.contiguous().unwrap()).unwrap();
                assert_eq!((found.dims(), found.dtype()), (expected.dims(), dtype));
                let numbers = |x: &Tensor| x.to_dtype(candle_core::DType::F64)?.flatten_all()?.to_vec1::<f64>();
                let (found, expected) = (numbers(found).unwrap(), numbers(&expected).unwrap());
                let off = found.iter().zip(&expected).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
                let bound = if own == DType::F32 { 2e-5 } else { 4e-14 };
                assert!(if index == 0 { found == expected } else { off <= bound }, "{m}x{k}x{n}, pair {index}: {off}");
            }
        }
    }
}

#[test]
fn every_op_has_a_lowering_rule() {
    let lowered = funcify::dispatch::lowered_ops::<Candle>();
    let mut names = funcify::ops::all_names();
    names.retain(|name| !funcify::ops::CONTROL_FLOW.contains(name));
    let missing: Vec<_> = names.iter().filter(|name| !lowered.contains(name)).collect();
    assert!(missing.is_empty(), "add `funcify!(Candle, ..)` for {missing:?} in crates/funcify-candle/src/ops");
    let unknown: Vec<_> = lowered.iter().filter(|name| !names.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?} in crates/funcify-candle/src/ops are control flow or not core ops");
}

#[test]
fn a_constant_is_an_op_too() {
    for dtype in DType::ALL {
        for shape in [&[][..], &[0], &[2, 3]] {
            let value = HostTensor::from_fn(dtype, shape, |index| Scalar::Int(index.iter().sum::<usize>() as i64));
            let op = Op::from(Constant { value: value.clone().into() });
            assert_eq!(run_op(&Candle::cpu(), &op, &[]).unwrap(), [value]);
        }
    }
}

#[test]
fn what_cannot_be_done_is_an_error() {
    let shape = Shape::from([1usize; 9].as_slice());
    let tries: [(Op, HostTensor); 2] = [
        (Unary::Neg.into(), HostTensor::zeros(DType::F32, &[1; 9])),
        (Broadcast { shape }.into(), HostTensor::scalar(1f32)),
    ];
    for (op, operand) in tries {
        let error = run_op(&Candle::cpu(), &op, &[operand]).expect_err("an error").to_string();
        assert!(error.contains("at most 8 axes"), "{error}");
    }
}
