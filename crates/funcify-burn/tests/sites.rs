//! Tests that errors of every kind name the line of the user's call, and that inputs without a gradient do not cause
//! errors.

mod common;

use burn::nn::LstmConfig;
use burn::tensor::{Device, Int, Tensor};
use common::{autodiff_devices, devices};
use funcify::error::Site;
use funcify::nn::{Cell, Recurrent};
use funcify::{DType, Error, Graph, scan};
use funcify_burn::{AnyTensor, Burn, Differentiable, RnnExt, Scan, trace};

/// Asserts that a result is an error of the given kind, and that the error names a line of this file.
#[track_caller]
fn assert_here<T>(result: Result<T, Error>, kind: &str) {
    let Err(error) = result else { panic!("expected an error of the kind {kind}") };
    assert_eq!(error.kind(), kind, "{error}");
    let Site::Rust(line) = error.place().site else { panic!("{error}") };
    assert!(line.file().ends_with("tests/sites.rs"), "{error}");
}

fn product() -> Differentiable {
    let graph = Graph::build("product", |g| g.input("x", "f32[N,N]").matmul(g.input("y", "f32[N,N]")));
    Differentiable::new(&graph.unwrap())
}

#[test]
fn calls_are_errors_of_the_callers_line() {
    for device in devices() {
        for device in [device.clone(), device.autodiff()] {
            let is_tracked = device.is_autodiff();
            let ones = |shape: [usize; 2]| {
                let ones = Tensor::<2>::ones(shape, &device);
                if is_tracked { ones.require_grad() } else { ones }
            };
            let f = product();
            assert_here(f.call::<Tensor<2>>((ones([3, 3]),)), "Call");
            assert_here(f.call::<Tensor<2>>((ones([3, 3]), ones([4, 4]))), "Call");
            assert_here(f.call::<Tensor<2>>((ones([3, 3]), ones([3, 3]).int())), "Call");
            assert_here(f.call::<Tensor<2>>(()), "Call");
            assert_here(f.call::<Tensor<1>>((ones([3, 3]), ones([3, 3]))), "Call");
            let traced = trace((), ones([2, 2]), |(), x: Tensor<2>| x.exp()).unwrap();
            assert_here(traced.call::<Tensor<2>>((), ones([3, 2])), "Call");
            assert_here(traced.call::<Tensor<1>>((), ones([2, 2])), "Call");
            assert_here(traced.function().call::<Tensor<2>>((ones([2, 2]), ones([2, 2]))), "Call");
            assert_here(AnyTensor::from(ones([2, 2])).into_tensor::<1, Int>(), "Call");
        }
    }
}

#[test]
fn closures_are_errors_of_the_callers_line() {
    for device in autodiff_devices() {
        let ones = |shape: [usize; 2]| Tensor::<2>::ones(shape, &device).require_grad();
        let row = || Tensor::<1>::ones([2], &device).require_grad();
        let looped =
            |body: fn((), Tensor<1>, Tensor<1>) -> (Tensor<1>, ())| Scan::new().run((), row(), ones([3, 2]), body);
        assert_here(looped(|(), c, x| (c.cross(x, 0), ())), "Unsupported");
        assert_here(looped(|(), c, x| (Tensor::cat(vec![c, x], 0), ())), "Type");
        assert_here(looped(|(), c, x| (Tensor::from_inner(c.inner()) + x, ())), "Unsupported");
        assert_here(Scan::new().length(4).run((), row(), ones([3, 2]), |(), c: Tensor<1>, x| (c + x, ())), "Call");
        assert_here(Scan::new().run((), row(), (), |(), c: Tensor<1>, ()| (c, ())), "StepCount");
        let crossed = Scan::new().trace((), row(), ones([3, 2]), |(), c: Tensor<1>, x| (c.cross(x, 0), ()));
        assert_here(crossed, "Unsupported");
        assert_here(trace((), ones([2, 2]), |(), x: Tensor<2>| x.clone().cross(x, 0)), "Unsupported");
        let lstm = LstmConfig::new(3, 4, true).init(&device);
        assert_here(lstm.scan(Tensor::ones([2, 5, 7], &device), None), "Type");
    }
}

#[test]
fn layers_are_errors_of_the_callers_line() {
    for device in devices() {
        let options = Recurrent::new(Cell::Lstm, 3, 4);
        let layer = funcify_burn::nn::Lstm::new(&options, &device).unwrap();
        assert_here(layer.forward(Tensor::ones([2, 5, 7], &device), None), "Call");
        assert_here(funcify_burn::nn::Lstm::new(&Recurrent { layers: 0, ..options }, &device), "Type");
        let _ = Burn::of(&device);
    }
}

fn gates() -> Differentiable {
    let graph = Graph::build("gates", |g| {
        let [xs, w] = [g.input("xs", "f32[T,1]"), g.input("w", "f32[1]")];
        scan(w * 0.0, xs.gt(1.5), |c, x| (c * 0.5 + w * x.cast(DType::F32), ())).0
    });
    Differentiable::new(&graph.unwrap())
}

fn first(gradient: Option<Tensor<1>>) -> Option<f32> {
    gradient.map(|gradient| gradient.into_data().iter::<f32>().next().unwrap())
}

#[test]
fn an_input_that_leads_to_no_result_has_no_gradient() {
    for device in autodiff_devices() {
        let xs = Tensor::<2>::from_data([[1.0], [2.0], [3.0]], &device).require_grad();
        let [w, u] = [0.5, 2.0].map(|x| Tensor::<1>::from_data([x], &device).require_grad());
        let start = Tensor::<1>::zeros([1], &device);
        let body = |w: Tensor<1>, c: Tensor<1>, x: Tensor<1>| c * 0.5 + w * x.greater_elem(1.5).float();

        let by_hand = xs.clone().iter_dim(0).fold(start.clone(), |c, x| body(w.clone(), c, x.squeeze_dim(0)));
        let gradients = by_hand.sum().backward();
        assert!(first(w.grad(&gradients)) == Some(1.5) && xs.grad(&gradients).is_none());

        let scanned = funcify_burn::scan(w.clone(), start.clone(), xs.clone(), |w, c, x| (body(w, c, x), ()));
        let gradients = scanned.unwrap().0.sum().backward();
        assert!(first(w.grad(&gradients)) == Some(1.5) && xs.grad(&gradients).is_none());

        let plain = xs.clone().detach().set_require_grad(false);
        let dropped = funcify_burn::scan((w.clone(), u.clone()), start, plain, |(w, u), c: Tensor<1>, x: Tensor<1>| {
            let _second_head: Tensor<1> = x.clone() * u;
            (c * 0.5 + w * x, ())
        });
        let gradients = dropped.unwrap().0.sum().backward();
        assert!(first(w.grad(&gradients)) == Some(4.25) && u.grad(&gradients).is_none());

        let function = gates();
        let last: Tensor<1> = function.call((xs.clone(), w.clone())).unwrap();
        let gradients = last.sum().backward();
        assert!(first(w.grad(&gradients)) == Some(1.5) && xs.grad(&gradients).is_none());
        assert_eq!(function.report().len(), 2);
        // As in Burn, the result is a constant if no tracked input has a gradient.
        let constant = w.clone().detach().set_require_grad(false);
        let last: Tensor<1> = function.call((xs, constant)).unwrap();
        assert!(!last.is_tracked());
        assert_eq!(function.report().len(), 1);
    }
    let _: fn() -> Device = Device::default;
}
