//! Compares nested scans and their gradients with handwritten loops, on every device.

mod common;

use burn::module::Module;
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use common::cells::Rnn;
use common::{assert_close, autodiff_devices, values};
use funcify_burn::{Scan, scan};

fn tensor<const D: usize>(shape: [usize; D], seed: u32, device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values(shape.iter().product(), seed), shape), device).require_grad()
}

/// Compares the result of a function that uses `scan`, and the gradients of its arguments, with those of a handwritten
/// loop.
fn check(
    seeds: u32,
    by_scan: impl Fn(&[Tensor<2>], &Device) -> Tensor<2>,
    by_hand: impl Fn(&[Tensor<2>], &Device) -> Tensor<2>,
) {
    for device in autodiff_devices() {
        let run = |program: &dyn Fn(&[Tensor<2>], &Device) -> Tensor<2>| {
            let given: Vec<Tensor<2>> = (0..seeds).map(|seed| tensor([4, 3], seed, &device)).collect();
            let result = program(&given, &device);
            let gradients: Gradients = (result.clone() * tensor(result.dims(), 99, &device).detach()).sum().backward();
            let mut all = vec![result.into_data()];
            all.extend(given.iter().map(|each| each.grad(&gradients).expect("each has a gradient").into_data()));
            all
        };
        let (found, expected) = (run(&by_scan), run(&by_hand));
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_close(found, expected, 1e-5, &format!("{index} on {device:?}"));
        }
    }
}

fn rows(xs: &Tensor<2>) -> Vec<Tensor<1>> {
    xs.clone().iter_dim(0).map(|row| row.squeeze_dim(0)).collect()
}

/// Checks an inner loop that uses the carry and the row of the outer loop, and iterates over a weight of the outer
/// loop.
#[test]
fn an_inner_loop_uses_what_the_outer_one_has() {
    for is_reversed in [false, true] {
        let inner = move || if is_reversed { Scan::new().reverse() } else { Scan::new() };
        check(
            3,
            |given, _| {
                let start = given[2].clone().sum_dim(0).squeeze_dim::<1>(0);
                let (_, hs) = scan(given[1].clone(), start, given[0].clone(), |ys, h: Tensor<1>, x: Tensor<1>| {
                    let scaled = h.clone() * x.clone();
                    let (last, all) = inner()
                        .run((), h.clone(), ys, |(), k: Tensor<1>, y: Tensor<1>| {
                            let k = (k * y + scaled.clone()).tanh();
                            (k.clone(), k * x.clone())
                        })
                        .unwrap();
                    let next = last + all.sum_dim(0).squeeze_dim::<1>(0);
                    (next.clone(), next)
                })
                .unwrap();
                hs
            },
            |given, _| {
                let mut h: Tensor<1> = given[2].clone().sum_dim(0).squeeze_dim(0);
                let mut hs = Vec::new();
                for x in rows(&given[0]) {
                    let scaled = h.clone() * x.clone();
                    let (mut k, mut sum) = (h, Tensor::<1>::zeros([3], &x.device()));
                    let mut ys = rows(&given[1]);
                    if is_reversed {
                        ys.reverse();
                    }
                    for y in ys {
                        k = (k * y + scaled.clone()).tanh();
                        sum = sum + k.clone() * x.clone();
                    }
                    h = k + sum;
                    hs.push(h.clone());
                }
                Tensor::stack(hs, 0)
            },
        );
    }
}

/// Checks three nested loops. The innermost loop has no sequences, and carries an integer tensor in addition to a float
/// tensor.
#[test]
fn three_loops() {
    check(
        2,
        |given, _| {
            let start = given[1].clone();
            let (last, ()) = scan((), start, given[0].clone(), |(), h: Tensor<2>, x: Tensor<1>| {
                let (h, ()) = scan((), h.clone(), h, |(), h: Tensor<2>, y: Tensor<1>| {
                    let count = Tensor::<1, Int>::zeros([1], &h.device());
                    let body = |(), (h, count): (Tensor<2>, Tensor<1, Int>), ()| {
                        let scale = count.clone().float().unsqueeze::<2>() * 0.1 + 0.5;
                        ((h * scale + (x.clone() * y.clone()).unsqueeze::<2>(), count + 1), ())
                    };
                    let ((h, _), ()) = Scan::new().length(3).run((), (h, count), (), body).unwrap();
                    (h, ())
                })
                .unwrap();
                (h.tanh(), ())
            })
            .unwrap();
            last
        },
        |given, _| {
            let mut h = given[1].clone();
            for x in rows(&given[0]) {
                for y in rows(&h) {
                    for count in 0..3 {
                        h = h * (count as f64 * 0.1 + 0.5) + (x.clone() * y.clone()).unsqueeze::<2>();
                    }
                }
                h = h.tanh();
            }
            h
        },
    );
}

/// Checks an inner loop that receives the module of the outer loop.
#[test]
fn a_module_in_the_inner_loop() {
    for device in autodiff_devices() {
        let cell = Rnn::new(3, 3, &device);
        let xs = || tensor([4, 2, 3], 5, &device);
        let zero = || Tensor::<2>::zeros([2, 3], &device);
        let (by_scan, ()) = scan(&cell, zero(), xs(), |cell: Rnn, h, x: Tensor<2>| {
            let body = |cell: Rnn, h, ()| (cell.step(h, x.clone()), ());
            (Scan::new().length(2).run(&cell, h, (), body).unwrap().0, ())
        })
        .unwrap();
        let mut by_hand = zero();
        for x in xs().iter_dim(0) {
            for _ in 0..2 {
                by_hand = cell.step(by_hand, x.clone().squeeze_dim(0));
            }
        }
        assert_close(&by_scan.clone().into_data(), &by_hand.clone().into_data(), 1e-5, "h");
        let [found, expected] = [by_scan, by_hand].map(|h| h.powi_scalar(2).sum().backward());
        let (found, expected) = (parameter_gradients(&cell, &found), parameter_gradients(&cell, &expected));
        assert!(!found.is_empty());
        for (found, expected) in found.iter().zip(&expected) {
            assert_close(found, expected, 1e-5, "a parameter");
        }
    }
}

fn parameter_gradients<M: Module>(module: &M, gradients: &Gradients) -> Vec<TensorData> {
    struct Collect<'a>(&'a Gradients, Vec<TensorData>);
    impl burn::module::ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &burn::module::Param<Tensor<D>>) {
            self.1.extend(param.val().grad(self.0).map(|gradient| gradient.into_data()));
        }
    }
    let mut collect = Collect(gradients, Vec::new());
    module.visit(&mut collect);
    collect.1
}

/// Checks that the traced graph contains the inner loop as a nested scan, not as unrolled steps.
#[test]
fn the_graph_has_the_inner_loop() {
    let device = Device::flex();
    let (xs, h) = (Tensor::<2>::ones([3, 2], &device), Tensor::<1>::zeros([2], &device));
    let traced = Scan::new()
        .trace((), h, xs, |(), h: Tensor<1>, x: Tensor<1>| {
            let body = |(), h: Tensor<1>, ()| (h * x.clone(), ());
            (Scan::new().length(1000).run((), h, (), body).unwrap().0, ())
        })
        .unwrap();
    let text = traced.graph().to_string();
    assert_eq!(text.matches(" = scan @").count(), 2, "{text}");
    assert!(text.contains("{steps=1000") && text.matches("mul ").count() == 1, "{text}");
}

#[test]
fn inner_loops_that_do_not_fit_are_errors() {
    let device = Device::flex();
    let run = |inner: &dyn Fn(Tensor<1>, Tensor<1>) -> funcify::Result<Tensor<1>>| {
        let (xs, h) = (Tensor::<2>::ones([3, 2], &device), Tensor::<1>::zeros([2], &device));
        let error = std::cell::RefCell::new(None);
        let outer = scan((), h, xs, |(), h: Tensor<1>, x| {
            let next = inner(h.clone(), x).map_err(|refusal| *error.borrow_mut() = Some(refusal));
            (next.unwrap_or(h), ())
        });
        drop(outer);
        error.into_inner().expect("the inner loop must be rejected")
    };
    let error = run(&|h, x| Ok(Scan::new().run((), h, (), |(), h, ()| (h + x.clone(), ()))?.0));
    assert_eq!(error.kind(), "StepCount", "{error}");
    let error = run(&|h, x| {
        let body = |(), h: Tensor<1>, ()| (Tensor::cat(vec![h, x.clone()], 0), ());
        Ok(Scan::new().length(2).run((), h, (), body)?.0)
    });
    assert_eq!(error.kind(), "Type", "{error}");
    let error = run(&|h, _| {
        let ys = (h.clone().unsqueeze::<2>().repeat_dim(0, 2), h.clone().unsqueeze::<2>().repeat_dim(0, 3));
        Ok(scan((), h, ys, |(), h, (a, b): (Tensor<1>, Tensor<1>)| (h + a + b, ()))?.0)
    });
    assert_eq!(error.kind(), "StepCount", "{error}");
    let error = run(&|h, _| {
        let foreign = Tensor::<2>::ones([3, 2], &device);
        Ok(scan((), h, foreign, |(), h, a: Tensor<1>| (h + a, ()))?.0)
    });
    assert_eq!(error.kind(), "Unsupported", "{error}");
}
