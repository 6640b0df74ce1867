//! The backend itself: rows and stacks, element types, and tensors that Candle tracks.

use candle_core::{Device, Tensor, Var};
use funcify::dispatch::{Backend, Function, Part, StackType};
use funcify::{DType, Graph, HostTensor, Scalar, TensorType};
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
        assert!(candle.stores(&stacked, dtype));
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
        assert!((found - expected).abs() < 1e-8, "{found} is not {expected}");
    }
}

#[test]
fn a_tensor_of_another_type_is_an_error() {
    let x = Tensor::new(&[1f32], &Device::Cpu).unwrap();
    assert!(Candle::cpu().download(&x, DType::F64).is_err());
    assert!(!Candle::cpu().stores(&x, DType::Bool));
}
