//! Tests loops over Burn modules. `scan` must compute the same results as a handwritten loop on Burn's own tape, and
//! the same gradients for the carries, the sequences and every parameter.

mod common;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, LstmState};
use burn::tensor::{DType, Device, Distribution, Gradients, Int, Tensor, TensorData};
use common::cells::{Gru, Lstm, Rnn, S5, Selective};
use common::{assert_close, autodiff_devices, devices, devices_of_f64, values};
use funcify_burn::{AnyTensor, Scan, Tensors, scan};

const STEPS: usize = 24;
const BATCH: usize = 3;
const INPUTS: usize = 4;
const WIDTH: usize = 5;

/// Returns the gradient of each parameter of a module, in order, with `None` for a parameter without a gradient.
fn parameter_gradients<M: Module>(module: &M, gradients: &Gradients) -> Vec<Option<TensorData>> {
    struct Collect<'a>(&'a Gradients, Vec<Option<TensorData>>);
    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.push(param.val().grad(self.0).map(|gradient| gradient.into_data()));
        }
    }
    let mut collect = Collect(gradients, Vec::new());
    module.visit(&mut collect);
    collect.1
}

/// Casts the parameters of a module to a different dtype.
fn in_dtype<M: Module>(module: M, dtype: DType) -> M {
    struct Cast(DType);
    impl ModuleMapper for Cast {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|tensor| Tensor::from_inner(tensor.inner().cast(self.0)).require_grad())
        }
    }
    module.map(&mut Cast(dtype))
}

fn tensor<const D: usize>(shape: [usize; D], seed: u32, device: &Device, dtype: DType) -> Tensor<D> {
    let data = TensorData::new(values(shape.iter().product(), seed), shape).convert_dtype(dtype);
    Tensor::from_data(data, (device, dtype)).require_grad()
}

/// The results of a run, and the gradients of the carries, the sequences and the parameters.
struct Run {
    results: Vec<TensorData>,
    gradients: Vec<Option<TensorData>>,
}

fn run<M: Module, C: Tensors + Clone>(
    module: &M,
    init: C,
    xs: Tensor<3>,
    forward: impl Fn(C, Tensor<3>) -> (C, Tensor<3>),
) -> Run {
    let (last, ys) = forward(init.clone(), xs.clone());
    let mut results = leaves(last);
    results.push(AnyTensor::from(ys));
    // Give every element a different weight in the loss.
    let part = |(index, tensor): (usize, &AnyTensor)| {
        let shape = tensor.shape();
        let count = shape.iter().product();
        let flat = flat(tensor.clone());
        let weights = TensorData::new(values(count, 100 + index as u32), [count]).convert_dtype(flat.dtype());
        (flat.clone() * Tensor::from_data(weights, (&flat.device(), flat.dtype())) + flat.powi_scalar(2)).sum()
    };
    let loss = results.iter().enumerate().map(part).reduce(|sum, part| sum + part).unwrap();
    let gradients = loss.backward();
    let mut inputs = leaves(init);
    inputs.push(AnyTensor::from(xs));
    let of = |tensor: AnyTensor| gradient(tensor, &gradients);
    let mut by_inputs: Vec<Option<TensorData>> = inputs.into_iter().map(of).collect();
    by_inputs.extend(parameter_gradients(module, &gradients));
    Run { results: results.into_iter().map(|it| flat(it).into_data()).collect(), gradients: by_inputs }
}

fn leaves(tensors: impl Tensors) -> Vec<AnyTensor> {
    let mut leaves = Vec::new();
    tensors.into_leaves(&mut leaves);
    leaves
}

fn flat(tensor: AnyTensor) -> Tensor<1> {
    match tensor.shape().len() {
        1 => tensor.into_tensor().unwrap(),
        2 => tensor.into_tensor::<2, burn::tensor::Float>().unwrap().flatten(0, 1),
        3 => tensor.into_tensor::<3, burn::tensor::Float>().unwrap().flatten(0, 2),
        rank => panic!("rank {rank}"),
    }
}

fn gradient(tensor: AnyTensor, gradients: &Gradients) -> Option<TensorData> {
    match tensor.shape().len() {
        2 => tensor.into_tensor::<2, _>().unwrap().grad(gradients).map(|it| it.into_data()),
        3 => tensor.into_tensor::<3, _>().unwrap().grad(gradients).map(|it| it.into_data()),
        rank => panic!("rank {rank}"),
    }
}

/// Compares the results and gradients of `scan` with those of a handwritten loop, on every device, in f32 and f64.
fn check<M: Module, C: Tensors + Clone>(
    module: impl Fn(&Device) -> M,
    init: impl Fn(&Device, DType) -> C,
    body: impl Fn(M, C, Tensor<2>) -> (C, Tensor<2>) + Copy,
) {
    let in_f32 = devices().into_iter().map(|device| (device, DType::F32, 1e-5));
    let in_f64 = devices_of_f64().into_iter().map(|device| (device, DType::F64, 1e-10));
    for (device, dtype, tolerance) in in_f32.chain(in_f64) {
        let device = device.autodiff();
        let module = in_dtype(module(&device), dtype);
        for is_reversed in [false, true] {
            let xs = || tensor([STEPS, BATCH, INPUTS], 1, &device, dtype);
            let looped = run(&module, init(&device, dtype), xs(), |carry, xs| {
                let scan = if is_reversed { Scan::new().reverse() } else { Scan::new() };
                scan.run(&module, carry, xs, body).unwrap()
            });
            let by_hand = run(&module, init(&device, dtype), xs(), |mut carry, xs| {
                let mut rows: Vec<Tensor<2>> = xs.iter_dim(0).map(|row| row.squeeze_dim(0)).collect();
                let mut ys = Vec::new();
                if is_reversed {
                    rows.reverse();
                }
                for row in rows {
                    let (next, y) = body(module.clone(), carry, row);
                    carry = next;
                    ys.push(y);
                }
                if is_reversed {
                    ys.reverse();
                }
                (carry, Tensor::stack(ys, 0))
            });
            for (index, (found, expected)) in looped.results.iter().zip(&by_hand.results).enumerate() {
                assert_close(found, expected, tolerance, &format!("result {index} on {device:?} in {dtype:?}"));
            }
            assert_eq!(looped.gradients.len(), by_hand.gradients.len());
            for (index, (found, expected)) in looped.gradients.iter().zip(&by_hand.gradients).enumerate() {
                let what = format!("gradient {index} on {device:?} in {dtype:?}");
                assert_close(found.as_ref().expect(&what), expected.as_ref().expect(&what), tolerance, &what);
            }
        }
    }
}

/// Returns a state both as the next carry and as the output.
fn twice(next: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    (next.clone(), next)
}

fn hidden(device: &Device, dtype: DType) -> Tensor<2> {
    tensor([BATCH, WIDTH], 2, device, dtype)
}

#[test]
fn an_rnn_is_the_loop_by_hand() {
    check(|device| Rnn::new(INPUTS, WIDTH, device), hidden, |rnn: Rnn, h, x| twice(rnn.step(h, x)));
}

#[test]
fn a_gru_is_the_loop_by_hand() {
    check(|device| Gru::new(INPUTS, WIDTH, device), hidden, |gru: Gru, h, x| twice(gru.step(h, x)));
}

#[test]
fn an_lstm_is_the_loop_by_hand() {
    let init = |device: &Device, dtype| LstmState::new(hidden(device, dtype), tensor([BATCH, WIDTH], 3, device, dtype));
    check(
        |device| Lstm::new(INPUTS, WIDTH, device),
        init,
        |lstm: Lstm, state, x| {
            let state = lstm.step(state, x);
            (state.clone(), state.hidden)
        },
    );
}

#[test]
fn an_s5_layer_is_the_loop_by_hand() {
    let init = |device: &Device, dtype| [hidden(device, dtype), tensor([BATCH, WIDTH], 3, device, dtype)];
    check(|device| S5::new(INPUTS, WIDTH, device), init, |layer: S5, state, x| layer.step(state, x));
}

#[test]
fn a_selective_scan_is_the_loop_by_hand() {
    let init = |device: &Device, dtype| tensor([BATCH, INPUTS, WIDTH], 2, device, dtype);
    check(|device| Selective::new(INPUTS, WIDTH, device), init, |layer: Selective, h, x| layer.step(h, x));
}

#[test]
fn parameters_that_are_frozen_or_not_used_have_no_gradient() {
    for device in autodiff_devices() {
        let cells = [Rnn::new(INPUTS, WIDTH, &device), Rnn::new(INPUTS, WIDTH, &device).no_grad()];
        let unused = Rnn::new(INPUTS, WIDTH, &device);
        let xs = tensor([STEPS, BATCH, INPUTS], 1, &device, DType::F32).detach();
        let h = Tensor::<2>::zeros([BATCH, WIDTH], &device);
        let weights = (&cells[0], &cells[1], &unused);
        let (h, ()) = scan(weights, h, xs, |(first, second, _unused), h, x| {
            (first.step(h.clone(), x.clone()) + second.step(h, x), ())
        })
        .unwrap();
        let gradients = h.sum().backward();
        assert!(parameter_gradients(&cells[0], &gradients).iter().all(Option::is_some));
        assert!(parameter_gradients(&cells[1], &gradients).iter().all(Option::is_none));
        assert!(parameter_gradients(&unused, &gradients).iter().all(Option::is_none));
    }
}

#[test]
fn weights_may_be_tensors_and_what_they_are_computed_from_is_reached() {
    for device in autodiff_devices() {
        let a = Tensor::<1>::from_data([0.5, -0.25], &device).require_grad();
        let xs = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], &device);
        let decay = a.clone().exp();
        let (sum, ()) =
            scan(decay.clone(), Tensor::<1>::zeros([2], &device), xs.clone(), |decay, sum, x| (sum * decay + x, ()))
                .unwrap();
        let found = a.grad(&sum.sum().backward()).unwrap().into_data();
        let decay = a.clone().exp();
        let mut sum = Tensor::<1>::zeros([2], &device);
        for x in xs.iter_dim(0) {
            sum = sum * decay.clone() + x.squeeze_dim(0);
        }
        let expected = a.grad(&sum.sum().backward()).unwrap().into_data();
        assert_close(&found, &expected, 1e-6, "a");
    }
}

#[test]
fn carries_and_sequences_may_be_integers_and_steps_counted() {
    for device in devices() {
        let tokens = Tensor::<1, Int>::from_data([2, 0, 1, 2], &device);
        let table = Tensor::<2>::from_data([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]], &device);
        let zero = (Tensor::<1, Int>::zeros([1], &device), Tensor::<1>::zeros([2], &device));
        let ((count, last), sums) = scan(table, zero, tokens, |table, (count, sum), token| {
            let sum = sum + table.select(0, token).squeeze_dim(0);
            ((count + 1, sum.clone()), sum)
        })
        .unwrap();
        assert_eq!(count.into_data().iter::<i64>().collect::<Vec<_>>(), [4]);
        assert_eq!(last.into_data().iter::<f32>().collect::<Vec<_>>(), [9.0, 90.0]);
        let expected = [3.0, 30.0, 4.0, 40.0, 6.0, 60.0, 9.0, 90.0];
        assert_eq!(sums.into_data().iter::<f32>().collect::<Vec<_>>(), expected);

        let one = Tensor::<1>::ones([1], &device);
        let (power, ()) = Scan::new().length(10).run((), one, (), |(), x, ()| (x * 2.0, ())).unwrap();
        assert_eq!(power.into_data().iter::<f32>().collect::<Vec<_>>(), [1024.0]);
    }
}

#[test]
fn one_line_serves_other_sizes_and_other_constants() {
    for device in devices() {
        let run = |steps: usize, width: usize, scale: f64| {
            let xs = Tensor::<2>::ones([steps, width], &device);
            let (sum, ()) =
                scan((), Tensor::<1>::zeros([width], &device), xs, |(), sum, x| (sum + x * scale, ())).unwrap();
            sum.into_data().iter::<f32>().collect::<Vec<_>>()
        };
        assert_eq!(run(3, 2, 1.0), [3.0; 2]);
        assert_eq!(run(5, 2, 1.0), [5.0; 2]);
        assert_eq!(run(5, 3, 1.0), [5.0; 3]);
        assert_eq!(run(5, 3, 2.0), [10.0; 3]);
        assert_eq!(run(3, 2, 1.0), [3.0; 2]);
    }
}

/// Checks that the cache of recorded closures also compares the types of the arguments. A body that returns its
/// arguments unchanged records no ops, so only the types distinguish its calls.
#[test]
fn one_line_serves_other_types_of_what_is_passed_on() {
    for device in devices() {
        let passed = |xs: Tensor<2>| {
            let [_, width] = xs.dims();
            let init = Tensor::<1>::ones([width], &device).cast(xs.dtype());
            let (last, ys) = scan((), init, xs.clone(), |(), c, x| (c, x)).unwrap();
            assert_eq!((ys.dtype(), ys.dims()), (xs.dtype(), xs.dims()));
            assert_eq!((last.dtype(), last.dims()), (xs.dtype(), [width]));
            assert_eq!(ys.into_data(), xs.into_data());
        };
        passed(Tensor::ones([4, 3], &device));
        passed(Tensor::ones([4, 2], &device) * 2.0);
        passed(Tensor::ones([5, 2], &device));
    }
    for device in devices_of_f64() {
        let xs = Tensor::<2>::ones([4, 3], &device);
        for dtype in [DType::F32, DType::F64] {
            let init = Tensor::<1>::ones([3], &device).cast(dtype);
            let (last, ys) = scan((), init, xs.clone().cast(dtype), |(), c, x| (c, x)).unwrap();
            assert_eq!((last.dtype(), ys.dtype()), (dtype, dtype));
        }
    }
}

#[test]
fn a_module_is_left_as_it_was() {
    #[derive(Module, Debug)]
    struct Cell {
        norm: BatchNorm,
        dropout: Dropout,
    }
    for device in autodiff_devices() {
        let cell = Cell { norm: BatchNormConfig::new(WIDTH).init(&device), dropout: DropoutConfig::new(0.5).init() };
        let before = cell.norm.running_mean.value().into_data();
        let xs = tensor([STEPS, BATCH, WIDTH], 1, &device, DType::F32);
        let body = |cell: Cell, h: Tensor<2>, x| {
            let h = cell.dropout.forward(cell.norm.forward(h * 0.5 + x));
            (h.clone(), h)
        };
        // Capture cannot record batch normalisation or dropout in training mode, so the module is rejected.
        let h = hidden(&device, DType::F32);
        let error = scan(&cell, h.clone(), xs.clone(), body).unwrap_err();
        assert!(error.to_string().contains("behave differently in training"), "{error}");
        let first_alone = Cell { dropout: cell.dropout.valid(), ..cell.clone() };
        assert!(scan(&first_alone, h.clone(), xs.clone(), body).is_err());
        let (last, _) = Scan::new().inference().run(&cell, h.clone(), xs.clone(), body).unwrap();
        assert!(last.is_tracked());
        let (plain, _) = scan(&cell.valid(), h.inner(), xs.inner(), body).unwrap();
        assert_close(&last.into_data(), &plain.into_data(), 0.0, "in inference");
        assert_eq!(cell.norm.running_mean.value().into_data(), before);
        assert!(cell.norm.running_mean.value().device().is_autodiff());
        // Check that the module still works on its own device.
        let y = cell.norm.forward(Tensor::<2>::random([BATCH, WIDTH], Distribution::Default, &device));
        assert_eq!(y.dims(), [BATCH, WIDTH]);
    }
}

#[test]
fn what_cannot_be_recorded_is_an_error_that_says_why() {
    let device = Device::flex();
    let xs = || Tensor::<2>::ones([3, 2], &device);
    let h = || Tensor::<1>::zeros([2], &device);
    let text = |result: funcify::Result<(Tensor<1>, ())>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), "Unsupported", "{error}");
        assert!(error.to_string().contains("tests/scan.rs"), "{error}");
        error.to_string()
    };
    let error = text(scan((), h(), xs(), |(), h, x| (h + x + Tensor::random([2], Distribution::Default, &device), ())));
    assert!(error.contains("two devices") && error.contains("`&x.device()`"), "{error}");
    let error = text(scan((), h(), xs(), |(), h, x| {
        let noise = Tensor::random([2], Distribution::Default, &x.device());
        (h + x + noise, ())
    }));
    assert!(error.contains("`Random`") && error.contains("drawn once"), "{error}");
    let error = text(scan((), h(), xs(), |(), h, x| {
        let ones = Tensor::ones([2], &x.device());
        let (sorted, _) = (h + x).topk_with_indices(1, 0);
        (Tensor::cat(vec![sorted.clone(), sorted], 0).cross(ones, 0), ())
    }));
    assert!(error.contains("panicked"), "{error}");
}

#[test]
fn a_loop_that_does_not_fit_is_an_error_that_says_so() {
    let device = Device::flex();
    let (xs, h) = (Tensor::<2>::ones([3, 2], &device), Tensor::<1>::zeros([2], &device));
    let error = scan((), h.clone(), xs.clone(), |(), h, x| (Tensor::cat(vec![h, x], 0), ())).unwrap_err();
    assert_eq!(error.kind(), "Type", "{error}");
    assert!(error.to_string().contains("f32[2]") && error.to_string().contains("f32[4]"), "{error}");
    let carry = vec![h.clone(), h.clone()];
    let error = scan((), carry, xs.clone(), |(), mut carry, _| {
        carry.pop();
        (carry, ())
    });
    assert!(error.unwrap_err().to_string().contains("2 tensors"));
    let error = scan((), h.clone(), (), |(), h, ()| (h, ())).unwrap_err();
    assert_eq!(error.kind(), "StepCount", "{error}");
    let other = Tensor::<2>::ones([4, 2], &device);
    let error = scan((), h.clone(), (xs.clone(), other), |(), h, (x, y)| (h + x + y, ())).unwrap_err();
    assert_eq!(error.kind(), "Call", "{error}");
    assert!(error.to_string().contains("T = 3"), "{error}");
    let tracked = Tensor::<1>::ones([2], &device.clone().autodiff()).require_grad();
    let error = scan(&tracked, h, xs, |w, h, x| (h * w + x, ())).unwrap_err();
    assert!(error.to_string().contains("no gradient would flow"), "{error}");
}

/// Checks a loop whose only operands are two weights. The body does not use the second weight.
#[test]
fn a_loop_of_weights_alone() {
    for device in devices() {
        let (w, unused) = (Tensor::<1>::ones([3], &device), Tensor::<1>::ones([2], &device));
        let body = |(w, _unused): (Tensor<1>, Tensor<1>), (), ()| ((), w * 2.0);
        let traced = Scan::new().length(4).trace((w.clone(), unused.clone()), (), (), body).unwrap();
        assert_eq!(traced.graph().inputs().len(), 1);
        let ((), ys) = Scan::new().length(4).run((w, unused), (), (), body).unwrap();
        assert_close(&ys.into_data(), &TensorData::new(vec![2f32; 12], [4, 3]), 1e-6, "twice");
    }
}

/// Checks that the first of several equal maxima or minima receives the whole gradient, as in Burn.
#[test]
fn the_first_of_equal_elements_has_the_gradient() {
    type Body = fn(Tensor<2>) -> Tensor<2>;
    let bodies: [(&str, Body); 9] = [
        ("max_dim", |x| x.max_dim(1)),
        ("min_dim", |x| x.min_dim(0)),
        ("max", |x| x.max().unsqueeze()),
        ("min", |x| x.min().unsqueeze()),
        ("max_abs", |x| (x - 1.0).max_abs().unsqueeze()),
        ("max_abs_dim", |x| (x - 1.0).max_abs_dim(1)),
        ("max_dim_with_indices", |x| x.max_dim_with_indices(0).0),
        ("min_dim_with_indices", |x| x.min_dim_with_indices(1).0),
        ("a pool", |x| x.clone().max_dim(1) * x.min_dim(1)),
    ];
    for device in devices().into_iter().map(Device::autodiff) {
        for (name, body) in bodies {
            let of = |is_scan: bool| {
                let data = TensorData::from([[1f32, 3.0, 3.0, 0.0], [0.0, 3.0, 0.0, 2.0], [2.0, 2.0, 2.0, 2.0]]);
                let c = Tensor::<2>::from_data(data, &device).require_grad();
                let step = |(), c: Tensor<2>, x: Tensor<1>| (body(c).expand([3, 4]) * x.unsqueeze(), ());
                let xs = Tensor::<2>::from_data([[1.0, 2.0, 3.0, 4.0]], &device);
                let last = match is_scan {
                    true => scan((), c.clone(), xs, step).unwrap().0,
                    false => step((), c.clone(), xs.squeeze_dim(0)).0,
                };
                c.grad(&last.sum().backward()).unwrap().into_data()
            };
            assert_close(&of(true), &of(false), 1e-6, &format!("{name} on {device:?}"));
        }
    }
}
