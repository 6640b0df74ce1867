//! Tests gradient stops in recorded loops. `detach`, `set_require_grad`, `no_grad`, and everything else that stops a
//! gradient in Burn must also stop it in the recorded loop. A handwritten loop on Burn's own tape is the oracle for
//! values, for gradients, and for missing gradients.

#[macro_use]
mod bodies;
mod common;

use bodies::{BODIES, Body, Vector, WIDTH, twice};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData, activation, s};
use common::{assert_close, autodiff_devices, devices, values};
use funcify_burn::{Scan, scan, trace};

const STEPS: usize = 4;

struct Run {
    results: [TensorData; 2],
    /// The gradients of the weight, the initial carry and the rows.
    gradients: [Option<TensorData>; 3],
}

fn run(device: &Device, forward: impl FnOnce(Vector, Vector, Tensor<2>) -> (Vector, Tensor<2>)) -> Run {
    run_at(0.2, device, forward)
}

/// Runs the loop `forward` on pseudorandom arguments around `centre`. Returns its results and gradients.
fn run_at(centre: f32, device: &Device, forward: impl FnOnce(Vector, Vector, Tensor<2>) -> (Vector, Tensor<2>)) -> Run {
    let of = |count, seed| values(count, seed).into_iter().map(|it| centre + 0.6 * it).collect::<Vec<f32>>();
    let [w, c] =
        [1, 2].map(|seed| Tensor::<1>::from_data(TensorData::new(of(WIDTH, seed), [WIDTH]), device).require_grad());
    let rows = TensorData::new(of(STEPS * WIDTH, 3), [STEPS, WIDTH]);
    let xs = Tensor::<2>::from_data(rows, device).require_grad();
    let (last, ys) = forward(w.clone(), c.clone(), xs.clone());
    // Add a tracked tensor to the loss, because `backward` needs one even if both results are constants.
    let tape = Tensor::<1>::zeros([1], device).require_grad();
    let loss = (last.clone() * last.clone() + last.clone() * 0.3).sum() + (ys.clone() * ys.clone() * 0.7).sum();
    let gradients = (loss + tape).backward();
    let by_rows = xs.grad(&gradients).map(Tensor::into_data);
    let gradients = [w.grad(&gradients).map(Tensor::into_data), c.grad(&gradients).map(Tensor::into_data), by_rows];
    Run { results: [last.into_data(), ys.into_data()], gradients }
}

fn by_hand(
    body: impl Fn(Vector, Vector, Vector) -> (Vector, Vector),
) -> impl Fn(Vector, Vector, Tensor<2>) -> (Vector, Tensor<2>) {
    move |w, mut c, xs| {
        let mut ys = Vec::new();
        for x in xs.iter_dim(0) {
            let (next, y) = body(w.clone(), c, x.squeeze_dim(0));
            c = next;
            ys.push(y);
        }
        (c, Tensor::stack(ys, 0))
    }
}

fn assert_same(found: &Run, expected: &Run, what: &str) {
    assert_within(1e-5, found, expected, what);
}

/// Asserts that two runs agree within a relative tolerance.
fn assert_within(rounding: f64, found: &Run, expected: &Run, what: &str) {
    for (found, expected) in found.results.iter().zip(&expected.results) {
        assert_close(found, expected, rounding, what);
    }
    for (name, (found, expected)) in ["w", "c", "xs"].iter().zip(found.gradients.iter().zip(&expected.gradients)) {
        let zeros = |data: &TensorData| data.iter::<f64>().all(|element| element == 0.0);
        match (found, expected) {
            (Some(found), Some(expected)) => assert_close(found, expected, 2.0 * rounding, &format!("{what}: d{name}")),
            (None, None) => {}
            // If gradients reach an argument only through the first step of the handwritten loop, the gradient of this
            // argument may be zero in one loop and missing in the other.
            (Some(zero), None) | (None, Some(zero)) => assert!(zeros(zero), "{what}: d{name} is {zero:?} in one only"),
        }
    }
}

#[test]
fn every_control_of_autodiff_is_burns() {
    for device in devices() {
        for device in [device.clone().autodiff(), device.autodiff().gradient_checkpointing()] {
            for (name, body) in BODIES {
                let expected = run(&device, by_hand(*body));
                let found =
                    run(&device, |w, c, xs| scan(w, c, xs, body).unwrap_or_else(|error| panic!("{name}: {error}")));
                assert_same(&found, &expected, &format!("{name} on {device:?}"));
            }
        }
    }
}

/// Checks bodies for which several placements of gradient stops fit Burn's tape. Numerical trials on small positive
/// numbers alone cannot distinguish these placements.
#[test]
fn ways_that_few_numbers_tell_apart_are_told_apart() {
    let device = devices().swap_remove(0).autodiff();
    let bodies: [(&str, f32, Body); 6] = [
        (
            "hinges",
            10.0,
            body!(|w, c, x| twice(
                c * 0.5 + activation::relu(x.clone() - 5.0).detach() * activation::relu(x - 6.0) + w
            )),
        ),
        (
            "the excess over a threshold",
            3.0,
            body!(|w, c, x| {
                let v = c * 0.1 + w * x;
                let bounded = (v.clone().clamp(1.5, 20.0) - 1.5).tanh();
                (v.clone() * 0.5, bounded.detach() * activation::relu(v - 1.5))
            }),
        ),
        (
            "below zero",
            -3.0,
            body!(|w, c, x| {
                let v = w * x.clone();
                let (left, right) = (activation::relu(-v.clone()), activation::relu(-v * 0.5));
                twice(c * 0.5 + left.detach() * right + x)
            }),
        ),
        (
            "a small part",
            0.5,
            body!(|w, c, x| {
                let (left, right) = (x.clone().exp(), x.clone().sin());
                (c * w + x, left.detach() * right * 1e-5)
            }),
        ),
        (
            "where two arguments differ",
            0.2,
            body!(|w, c, x| {
                let v = w.clone() * x.clone();
                let mixed = v.clone().exp().detach() * v.clone().sin();
                twice(c * 0.5 + v.mask_where(x.greater(w), mixed))
            }),
        ),
        (
            "where there are no logarithms and roots",
            3.0,
            body!(|w, c, x| {
                let v = w * x;
                twice(c * 0.5 + v.clone().log().detach() * v.sqrt())
            }),
        ),
    ];
    for (name, centre, body) in bodies {
        let expected = run_at(centre, &device, by_hand(body));
        let found =
            run_at(centre, &device, |w, c, xs| scan(w, c, xs, body).unwrap_or_else(|it| panic!("{name}: {it}")));
        assert_same(&found, &expected, name);
    }
}

/// Checks that numerical trials distinguish two placements of a gradient stop in a wide layer with masked rows. The
/// layer saturates if all its arguments have the same sign.
#[test]
fn masks_and_wide_layers_tell_ways_apart() {
    const FEATURES: usize = 128;
    let device = devices().swap_remove(0).autodiff();
    let linear = LinearConfig::new(FEATURES, FEATURES).init(&device);
    let xs = TensorData::new(values(STEPS * FEATURES, 3), [STEPS, FEATURES]);
    let valid = Tensor::<1, Int>::from_data([1, 1, 0, 1], &device).equal_elem(1);
    let valid: Tensor<2, Bool> = valid.unsqueeze_dim::<2>(1).expand([STEPS, FEATURES]);
    let body = |linear: Linear, h: Vector, (x, valid): (Vector, Tensor<1, Bool>)| {
        let z = linear.forward(x);
        let next = h.clone() * 0.5 + activation::sigmoid(z.clone()).detach() * z.tanh();
        (h.mask_where(valid, next), ())
    };
    let gradients = |forward: &dyn Fn(Vector, Tensor<2>) -> Vector| {
        let xs = Tensor::<2>::from_data(xs.clone(), &device).require_grad();
        let gradients = forward(Vector::zeros([FEATURES], &device), xs.clone()).sum().backward();
        [linear.weight.grad(&gradients).unwrap().into_data(), xs.grad(&gradients).unwrap().into_data()]
    };
    let expected = gradients(&|mut h, xs| {
        for (x, valid) in xs.iter_dim(0).zip(valid.clone().iter_dim(0)) {
            h = body(linear.clone(), h, (x.squeeze_dim(0), valid.squeeze_dim(0))).0;
        }
        h
    });
    let found = gradients(&|h, xs| scan(&linear, h, (xs, valid.clone()), body).unwrap().0);
    for (found, expected) in found.iter().zip(&expected) {
        assert_close(found, expected, 1e-4, "masked");
    }
}

/// Checks that random closures with `detach` at random operands either have Burn's gradients or are rejected.
#[test]
fn random_closures_stop_where_burn_stops() {
    const PROGRAMS: u64 = 400;
    let device = devices().swap_remove(0).autodiff();
    let mut refused = 0;
    for seed in 0..PROGRAMS {
        let centre = [0.2, -0.5, 3.0, 10.0][seed as usize % 4];
        let body = |w: Vector, c: Vector, x: Vector| drawn(seed, centre, w, c, x);
        let found = run_at_or_refused(centre, &device, body);
        let Some(found) = found else {
            refused += 1;
            continue;
        };
        // Large numbers cancel here, so the tolerance is high. A misplaced stop would cause a much larger difference.
        assert_within(5e-3, &found, &run_at(centre, &device, by_hand(body)), &format!("program {seed}"));
    }
    assert!(refused < PROGRAMS / 10, "{refused} of {PROGRAMS} are rejected");
}

/// Runs `scan` with this body on pseudorandom arguments around `centre`. Returns `None` if the loop is rejected because
/// several placements of stops fit the tape.
fn run_at_or_refused(
    centre: f32,
    device: &Device,
    body: impl Fn(Vector, Vector, Vector) -> (Vector, Vector),
) -> Option<Run> {
    let mut is_refused = false;
    let found = run_at(centre, device, |w, c, xs| match scan(w, c.clone(), xs.clone(), &body) {
        Ok(results) => results,
        Err(error) => {
            assert!(error.to_string().contains("several places in the closure fit"), "{error}");
            is_refused = true;
            (c, xs)
        }
    });
    (!is_refused).then_some(found)
}

/// Applies random ops to the weight, the carry, the row and earlier results. Returns the next carry and the y.
fn drawn(seed: u64, centre: f32, w: Vector, c: Vector, x: Vector) -> (Vector, Vector) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % limit
    };
    let mut pool = vec![w, c, x];
    for _ in 0..3 + below(7) {
        let mut operand = || {
            // Prefer recent results.
            let index = (pool.len() - 1).saturating_sub(below(4).min(below(4)));
            let operand = pool[if below(3) == 0 { below(pool.len()) } else { index }].clone();
            if below(4) == 0 { operand.detach() } else { operand }
        };
        let (a, b) = (operand(), operand());
        pool.push(match below(12) {
            0 | 1 => a + b,
            2 => a - b,
            3..=5 => a * b * (0.5 / centre.abs().max(1.0)),
            6 => a.tanh(),
            7 => activation::sigmoid(a - centre),
            8 => activation::relu(a - centre),
            9 => (a - centre).abs(),
            10 => a.clone().mask_where(b.greater_elem(centre), a * 0.5),
            _ => a * 0.7,
        });
    }
    let y = pool[pool.len() - 1].clone();
    let next = pool[pool.len() - 1 - below(2)].clone() * 0.5 + pool[1].clone() * 0.3;
    (next, y)
}

/// Checks a body that runs a separate loop over tensors that are not on the capture device. This loop is recorded while
/// the body is being recorded.
#[test]
fn a_record_within_a_record_leaves_its_stops_alone() {
    let plain = devices().swap_remove(0);
    let device = plain.clone().autodiff();
    let body = |w: Vector, c: Vector, x: Vector| {
        let ones = Tensor::<2>::ones([3, 1], &plain);
        let (sum, ()) = scan((), Vector::zeros([1], &plain), ones, |(), sum: Vector, x: Vector| (sum + x, ())).unwrap();
        let three: f32 = sum.into_data().iter::<f32>().next().unwrap();
        twice(c * 0.5 + w.clone().detach() * w * x * three)
    };
    let expected = run(&device, by_hand(body));
    let found = run(&device, |w, c, xs| scan(w, c, xs, body).unwrap());
    assert_same(&found, &expected, "a loop over other tensors");
}

#[test]
fn a_loop_in_a_loop_stops_where_burn_stops() {
    let device = devices().swap_remove(0).autodiff();
    let bodies: [Body; 2] = [
        |w, c, x| twice((c.detach() * x.clone() + w.clone()).tanh() + w.detach() * x),
        // Two placements of the stop fit the tape, so numerical trials choose one.
        |w, c, x| {
            let v = w * x;
            twice(c * 0.5 + v.clone().exp().detach() * v.sin())
        },
    ];
    let outer = |w: Vector, c: Vector, x: Vector| {
        let rows = Tensor::stack::<2>(vec![x.clone(), x.clone() * 0.5, w.clone().detach()], 0);
        (w, c * 0.5 + x, rows)
    };
    for (index, inner) in bodies.into_iter().enumerate() {
        let expected = run(&device, |w, mut c, xs| {
            let mut ys = Vec::new();
            for x in xs.iter_dim(0) {
                let (w, init, rows) = outer(w.clone(), c.clone(), x.squeeze_dim(0));
                let (last, inner_ys) = by_hand(inner)(w, init.clone().detach(), rows);
                c = last * 0.3 + init;
                ys.push(inner_ys.sum_dim(0).squeeze_dim::<1>(0));
            }
            (c, Tensor::stack(ys, 0))
        });
        let found = run(&device, |w, c, xs| {
            let looped = scan(w, c, xs, |w, c, x| {
                let (w, init, rows) = outer(w, c, x);
                let (last, ys) = scan(w, init.clone().detach(), rows, inner).unwrap();
                (last * 0.3 + init, ys.sum_dim(0).squeeze_dim::<1>(0))
            });
            looped.unwrap()
        });
        assert_same(&found, &expected, &format!("a loop in a loop, {index}"));
    }
}

#[test]
fn parts_of_a_module_are_frozen_in_a_step() {
    let device = devices().swap_remove(0).autodiff();
    let body = |(first, second): (Linear, Linear), c: Tensor<2>, x: Tensor<2>| {
        let next = (first.no_grad().forward(c) + second.forward(x)).tanh();
        (next.clone(), next)
    };
    let cell = || (LinearConfig::new(3, 3).init(&device), LinearConfig::new(3, 3).init(&device));
    let cell = cell();
    let (c, xs) = (Tensor::<2>::ones([2, 3], &device), Tensor::<3>::ones([4, 2, 3], &device) * 0.3);
    let mut carry = c.clone();
    for x in xs.clone().iter_dim(0) {
        carry = body(cell.clone(), carry, x.squeeze_dim(0)).0;
    }
    let expected = carry.sum().backward();
    let (last, _) = scan((&cell.0, &cell.1), c, xs, body).unwrap();
    let found = last.sum().backward();
    assert!(cell.0.weight.grad(&found).is_none() && cell.0.weight.grad(&expected).is_none());
    let [found, expected] = [found, expected].map(|it| cell.1.weight.grad(&it).unwrap().into_data());
    assert_close(&found, &expected, 1e-5, "the other layer");
}

#[test]
fn a_graph_shows_its_stops_also_without_autodiff() {
    for device in devices() {
        for device in [device.clone(), device.autodiff()] {
            let x = Tensor::<1>::ones([2], &device);
            let traced = trace((), x.clone(), |(), x: Vector| x.clone().detach() * x).unwrap();
            assert!(traced.graph().to_string().contains("stop_gradient"), "{}", traced.graph());
            let traced = trace((), x.clone(), |(), x: Vector| x.clone() * x).unwrap();
            assert!(!traced.graph().to_string().contains("stop_gradient"), "{}", traced.graph());
            let rows = Tensor::<2>::ones([3, 2], &device);
            let traced = Scan::new().trace((), x, rows, |(), c: Vector, x: Vector| (c.detach() + x, ())).unwrap();
            assert!(traced.graph().to_string().contains("stop_gradient"), "{}", traced.graph());
        }
    }
}

#[test]
fn a_line_may_stop_gradients_at_one_time_and_not_at_another() {
    let device = devices().swap_remove(0).autodiff();
    let gradient = |is_stopped: bool| {
        let w = Tensor::<1>::from_data([2.0], &device).require_grad();
        let rows = Tensor::<2>::ones([3, 1], &device);
        let (last, ()) = scan(w.clone(), Tensor::<1>::zeros([1], &device), rows, |w, c: Vector, x: Vector| {
            let factor = if is_stopped { w.clone().detach() } else { w.clone() };
            (c + factor * w * x, ())
        })
        .unwrap();
        w.grad(&last.sum().backward()).unwrap().into_data().iter::<f32>().next().unwrap()
    };
    assert_eq!([false, true, true, false].map(gradient), [12.0, 6.0, 6.0, 12.0]);
}

#[test]
fn what_a_record_cannot_have_is_refused_by_name() {
    let device = devices().swap_remove(0).autodiff();
    let refused = |what: &str, body: Body| {
        let of = |shape: [usize; 1]| Tensor::<1>::ones(shape, &device).require_grad();
        let error = scan(of([WIDTH]), of([WIDTH]), Tensor::<2>::ones([2, WIDTH], &device), body).unwrap_err();
        assert_eq!(error.kind(), "Unsupported", "{error}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("tests/stops.rs"), "{what}: {text}");
    };
    // The arguments of the numerical trials never exceed the thresholds 30 and 40 of this body.
    refused("several places in the closure fit", |w, c, x| {
        twice(c * w + activation::relu(x.clone() - 30.0).detach() * activation::relu(x - 40.0))
    });
    refused("`from_inner`", |w, c, x| twice(c + Tensor::from_inner(w.clone().inner()) * w * x));
    refused("`without_autodiff`", |w, c, x| twice(c + w.clone().without_autodiff() * w * x));
    refused("`backward`", |w, c, x| {
        let gradients = (w.clone() * x.clone()).sum().backward();
        twice(c + w.grad(&gradients).map_or(x, Tensor::autodiff))
    });
    refused("`to_device`", |w, c, x| twice(c + w.to_device(&Device::default()) * x));
    refused("`to_device`", |w, c, x| {
        let device = x.device();
        twice(c + w.to_device(&device) * x)
    });
    refused("`Random`", |w, c, x| {
        let is_training = x.device().is_autodiff();
        let mask = x.random_like(burn::tensor::Distribution::Bernoulli(0.5));
        twice(if is_training { c + w * x * mask } else { c + w * x })
    });
}

/// Checks that a loop is rejected if its body uses batch normalisation. Burn differentiates this op with a single rule,
/// in which gradients flow through the statistics of the batch. Capture records batch normalisation as several ops, and
/// on the tape the gradients appear to stop at the statistics.
#[test]
fn an_op_of_several_with_a_rule_of_its_own_is_refused() {
    let normed = |w: Vector, c: Vector, x: Vector| {
        let rows = (c * w.clone() + x.clone()).reshape([WIDTH, 1]);
        let (scale, offset) = (w.clone().slice(s![0..1]), w.slice(s![1..2]));
        twice(burn::tensor::module::batch_norm_train(rows, scale, offset, 0.1).output.reshape([WIDTH]) * x)
    };
    for device in autodiff_devices() {
        let [w, c] = [1, 2].map(|seed| Tensor::<1>::from_data(TensorData::new(values(WIDTH, seed), [WIDTH]), &device));
        let xs = Tensor::<2>::from_data(TensorData::new(values(STEPS * WIDTH, 3), [STEPS, WIDTH]), &device);
        let in_a_loop = |w: Vector, c: Vector, x: Vector| {
            let rows = Tensor::stack::<2>(vec![x.clone(), x], 0);
            let (last, ys) = scan(w, c, rows, normed).unwrap();
            (last, ys.sum_dim(0).squeeze_dim::<1>(0))
        };
        let refusals = [
            scan(w.clone(), c.clone(), xs.clone(), normed).map(|_| ()).unwrap_err(),
            scan(w.clone(), c.clone(), xs.clone(), in_a_loop).map(|_| ()).unwrap_err(),
            trace(w, (c.clone(), xs.clone().slice(s![0..1]).reshape([WIDTH])), |w, (c, x)| normed(w, c, x))
                .unwrap_err(),
        ];
        for error in refusals {
            let text = error.to_string();
            for part in ["whose gradients differ from those of its ops", "`batch_norm_train`", "fix:", "stops.rs"] {
                assert!(text.contains(part), "{text}\ndoes not contain: {part}");
            }
        }
        // Check that the same computation is accepted if it is composed of elementary ops.
        let by_ops = |w: Vector, c: Vector, x: Vector| {
            let rows = c * w.clone() + x.clone();
            let centred = rows.clone() - rows.mean();
            let (scale, offset) = (w.clone().slice(s![0..1]), w.slice(s![1..2]));
            twice((centred.clone() / (centred.square().mean() + 0.1).sqrt() * scale + offset) * x)
        };
        let expected = run(&device, by_hand(normed));
        assert_same(&run(&device, |w, c, xs| scan(w, c, xs, by_ops).unwrap()), &expected, "by ops");
    }
}
