//! Tests graphs that run as single ops of Burn's autodiff. Their gradients must equal those of the same computation
//! with Burn's own ops, for any choice of tracked arguments and any choice of results that the loss uses.

mod common;
#[path = "../../funcify/tests/elementwise/mod.rs"]
mod elementwise;

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{Bool, Device, Int, Scalar, Tensor, TensorData};
use common::{assert_close, autodiff_devices, devices, values};
use elementwise::elementwise;
use funcify::error::BackendError;
use funcify::ops::{Custom, CustomOp};
use funcify::{CheckpointPolicy, Graph, HostTensor, apply, scan};
use funcify_burn::{AnyTensor, Burn, Differentiable, DifferentiableOptions};

/// Builds a graph with three inputs. Its results are `y = tanh(x @ w) + b`, `z = b * sum(x)`, a mask and a count. The
/// mask and the count have no gradient.
fn layer() -> Graph {
    Graph::build("layer", |g| {
        let (x, w, b) = (g.input("x", "f32[N,3]"), g.input("w", "f32[3,2]"), g.input("b", "f32[2]"));
        let y = x.matmul(w).tanh() + b;
        let positive = y.gt(0.0);
        (y, b * x.sum(..), positive, positive.cast(funcify::DType::I64).sum(..))
    })
    .unwrap()
}

type Layer = (Tensor<2>, Tensor<1>, Tensor<2, Bool>, Tensor<1, Int>);

fn by_hand(x: Tensor<2>, w: Tensor<2>, b: Tensor<1>) -> (Tensor<2>, Tensor<1>) {
    (x.clone().matmul(w).tanh() + b.clone().unsqueeze(), b * x.sum())
}

struct Inputs {
    x: Tensor<2>,
    w: Tensor<2>,
    b: Tensor<1>,
}

fn inputs(device: &Device, tracked: [bool; 3]) -> Inputs {
    let of = |is_tracked: bool, x: Tensor<2>| if is_tracked { x.require_grad() } else { x };
    let b = Tensor::<1>::from_data(TensorData::new(values(2, 3), [2]), device);
    Inputs {
        x: of(tracked[0], Tensor::from_data(TensorData::new(values(12, 1), [4, 3]), device)),
        w: of(tracked[1], Tensor::from_data(TensorData::new(values(6, 2), [3, 2]), device)),
        b: if tracked[2] { b.require_grad() } else { b },
    }
}

/// Applies `loss` to the two differentiable results of `forward`, and returns the gradients with respect to the three
/// inputs.
fn gradients(
    device: &Device,
    tracked: [bool; 3],
    loss: impl Fn(Tensor<2>, Tensor<1>) -> Tensor<1>,
    forward: impl Fn(&Inputs) -> (Tensor<2>, Tensor<1>),
) -> Vec<Option<TensorData>> {
    let inputs = inputs(device, tracked);
    let (y, z) = forward(&inputs);
    let gradients = loss(y, z).backward();
    let Inputs { x, w, b } = inputs;
    let of = |tensor: &Tensor<2>| tensor.grad(&gradients).map(|gradient| gradient.into_data());
    vec![of(&x), of(&w), b.grad(&gradients).map(|gradient| gradient.into_data())]
}

type Loss = fn(Tensor<2>, Tensor<1>) -> Tensor<1>;

const LOSSES: [(&str, Loss); 4] = [
    ("both results", |y, z| (y * 2.0).exp().sum() + z.sum()),
    ("the first alone", |y, _| (y.clone() * y).sum()),
    ("the second alone", |_, z| z.exp().sum()),
    ("one twice", |y, z| y.clone().sum() * z.sum() + y.sum().exp()),
];

#[test]
fn gradients_are_burns_for_every_choice_of_tracked_inputs_and_used_results() {
    for device in autodiff_devices() {
        let function = Differentiable::new(&layer());
        for choice in 1..8 {
            let tracked = [choice & 1 > 0, choice & 2 > 0, choice & 4 > 0];
            for (name, loss) in LOSSES {
                if name == "the second alone" && !tracked[0] && !tracked[2] {
                    // The loss depends on no tracked input, so Burn's own ops have no gradients to compare with.
                    continue;
                }
                let ours = gradients(&device, tracked, loss, |inputs| {
                    let Inputs { x, w, b } = inputs;
                    let (y, z, ..): Layer = function.call((x.clone(), w.clone(), b.clone())).unwrap();
                    (y, z)
                });
                let burns = gradients(&device, tracked, loss, |inputs| {
                    by_hand(inputs.x.clone(), inputs.w.clone(), inputs.b.clone())
                });
                for ((ours, burns), is_tracked) in ours.iter().zip(&burns).zip(tracked) {
                    assert_eq!(ours.is_some(), is_tracked);
                    match (ours, burns) {
                        (Some(ours), Some(burns)) => assert_close(ours, burns, 1e-5, name),
                        // If the loss does not depend on an input, Burn returns no gradient, and funcify returns a zero
                        // gradient.
                        (Some(ours), None) => assert!(ours.iter::<f32>().all(|it| it == 0.0), "{name}"),
                        (ours, _) => assert!(ours.is_none(), "{name}"),
                    }
                }
            }
        }
    }
}

#[test]
fn results_without_autodiff_are_those_with_it() {
    for device in devices() {
        let function = Differentiable::new(&layer());
        let call = |device: &Device, tracked: bool| {
            let Inputs { x, w, b } = inputs(device, [tracked; 3]);
            function.call::<Layer>((x, w, b)).unwrap()
        };
        let plain = call(&device, false);
        assert!(!plain.0.is_autodiff() && !plain.2.device().is_autodiff());
        let untracked = call(&device.clone().autodiff(), false);
        assert!(untracked.0.is_autodiff() && !untracked.0.is_tracked() && untracked.3.device().is_autodiff());
        let tracked = call(&device.autodiff(), true);
        assert!(tracked.0.is_tracked() && tracked.1.is_tracked());
        for other in [untracked, tracked] {
            assert_close(&other.0.into_data(), &plain.0.to_data(), 0.0, "y");
            assert_close(&other.1.into_data(), &plain.1.to_data(), 0.0, "z");
            assert_eq!(other.2.into_data(), plain.2.to_data());
            assert_eq!(other.3.into_data(), plain.3.to_data());
        }
    }
}

#[test]
fn an_input_that_is_given_twice_gets_both_shares() {
    let graph = Graph::build("product", |g| g.input("x", "f32[3]") * g.input("y", "f32[3]")).unwrap();
    for device in devices() {
        let x = Tensor::<1>::from_data([1.0, 2.0, 3.0], &device.autodiff()).require_grad();
        // `inner` is not a leaf, and it is also used outside of the call.
        let inner = x.clone() * 2.0;
        let product: Tensor<1> = Differentiable::new(&graph).call((inner.clone(), inner.clone())).unwrap();
        let gradients = (product + inner).sum().backward();
        // The derivative of (2x)^2 + 2x is 8x + 2.
        let expected = TensorData::from([10f32, 18.0, 26.0]);
        assert_close(&x.grad(&gradients).unwrap().into_data(), &expected, 1e-6, "x");
    }
}

#[test]
fn calls_follow_one_another_and_losses_have_tapes_of_their_own() {
    let graph = Graph::build("step", |g| (g.input("h", "f32[2]") * g.input("w", "f32[2]")).sin()).unwrap();
    for device in devices() {
        let function = Differentiable::new(&graph);
        let w = Tensor::<1>::from_data([0.5, -1.5], &device.autodiff()).require_grad();
        let gradient = |by_hand: bool, steps: usize, scale: f64| {
            let mut h = Tensor::<1>::from_data([1.0, 2.0], &w.device());
            for _ in 0..steps {
                h = match by_hand {
                    true => (h * w.clone()).sin(),
                    false => function.call((h, w.clone())).unwrap(),
                };
            }
            let gradients = (h * scale).sum().backward();
            w.grad(&gradients).unwrap().into_data()
        };
        for (steps, scale) in [(1, 1.0), (5, 2.0), (3, -1.0)] {
            assert_close(&gradient(false, steps, scale), &gradient(true, steps, scale), 1e-5, "w");
        }
    }
}

#[test]
fn there_may_be_more_inputs_than_a_node_has_operands() {
    const COUNT: usize = 50;
    let graph = Graph::build("many", |g| {
        let inputs = (0..COUNT).map(|index| g.input(&format!("x{index}"), "f32[2]"));
        inputs.enumerate().map(|(index, x)| x.square() * (index as f64)).reduce(|sum, x| sum + x).unwrap()
    });
    let graph = graph.unwrap();
    for device in autodiff_devices() {
        // Every third input is a constant.
        let inputs: Vec<Tensor<1>> = (0..COUNT)
            .map(|index| {
                let x = Tensor::from_data([index as f32 * 0.1, 1.0], &device);
                if index % 3 == 2 { x } else { x.require_grad() }
            })
            .collect();
        let sum: Tensor<1> = Differentiable::new(&graph).call(inputs.clone()).unwrap();
        let gradients = sum.sum().backward();
        for (index, x) in inputs.iter().enumerate() {
            let gradient = x.grad(&gradients);
            assert_eq!(gradient.is_some(), index % 3 != 2);
            if let Some(gradient) = gradient {
                let expected = TensorData::from([2.0 * index as f32 * 0.1 * index as f32, 2.0 * index as f32]);
                assert_close(&gradient.into_data(), &expected, 1e-5, "x");
            }
        }
    }
}

#[test]
fn a_call_that_no_loss_uses_leaves_other_gradients_alone() {
    let graph = Graph::build("double", |g| g.input("x", "f32[2]") * 2.0).unwrap();
    for device in devices() {
        let x = Tensor::<1>::from_data([1.0, 2.0], &device.autodiff()).require_grad();
        let function = Differentiable::new(&graph);
        let unused: Tensor<1> = function.call((x.clone(),)).unwrap();
        let used: Tensor<1> = function.call((x.clone(),)).unwrap();
        let gradients = used.sum().backward();
        assert_close(&x.grad(&gradients).unwrap().into_data(), &TensorData::from([2f32, 2.0]), 0.0, "x");
        let gradients = unused.sum().backward();
        assert_close(&x.grad(&gradients).unwrap().into_data(), &TensorData::from([2f32, 2.0]), 0.0, "x");
    }
}

#[test]
fn both_strategies_of_gradient_checkpointing_are_served() {
    for device in devices() {
        let device = device.autodiff().gradient_checkpointing();
        let function = Differentiable::new(&layer());
        let loss: Loss = |y, z| y.sum() + z.sum();
        let ours = gradients(&device, [true; 3], loss, |inputs| {
            // This op precedes the call, and Burn may recompute it in the backward pass.
            let x = inputs.x.clone() * 3.0;
            let (y, z, ..): Layer = function.call((x, inputs.w.clone(), inputs.b.clone())).unwrap();
            (y.tanh(), z)
        });
        let burns = gradients(&device, [true; 3], loss, |inputs| {
            let (y, z) = by_hand(inputs.x.clone() * 3.0, inputs.w.clone(), inputs.b.clone());
            (y.tanh(), z)
        });
        for (ours, burns) in ours.iter().zip(&burns) {
            assert_close(ours.as_ref().unwrap(), burns.as_ref().unwrap(), 1e-5, "checkpointing");
        }
    }
}

#[test]
fn scalars_are_vectors_of_one_element() {
    let graph = Graph::build("scaled", |g| (g.input("x", "f32[3]") * g.input("scale", "f32[]")).sum(..)).unwrap();
    for device in devices() {
        let x = Tensor::<1>::from_data([1.0, 2.0, 4.0], &device.autodiff());
        let scale = Tensor::<1>::from_data([3.0], &x.device()).require_grad();
        let sum: Tensor<1> = Differentiable::new(&graph).call((x, scale.clone())).unwrap();
        assert_eq!(sum.dims(), [1]);
        let gradients = sum.backward();
        assert_close(&scale.grad(&gradients).unwrap().into_data(), &TensorData::from([7f32]), 0.0, "scale");
    }
}

#[test]
fn every_policy_of_what_is_saved_gives_the_same_gradients() {
    let graph = Graph::build("rnn", |g| {
        let (xs, h, w) = (g.input("xs", "f32[T,2,3]"), g.input("h", "f32[2,3]"), g.input("w", "f32[3,3]"));
        scan(h, xs, |h, x| {
            let h = (h.matmul(w) + x).tanh();
            (h, h)
        })
    })
    .unwrap();
    for device in autodiff_devices() {
        let tensor = |count, seed, shape: Vec<usize>| TensorData::new(values(count, seed), shape);
        let gradient = |policy| {
            let options = DifferentiableOptions { policy: Some(policy), ..DifferentiableOptions::default() };
            let function = Differentiable::with_options(&graph, options);
            let xs = Tensor::<3>::from_data(tensor(30, 1, vec![5, 2, 3]), &device);
            let h = Tensor::<2>::from_data(tensor(6, 2, vec![2, 3]), &device);
            let w = Tensor::<2>::from_data(tensor(9, 3, vec![3, 3]), &device).require_grad();
            let (last, all): (Tensor<2>, Tensor<3>) = function.call((xs, h, w.clone())).unwrap();
            let gradients = (last.sum() + all.powi_scalar(2).sum()).backward();
            w.grad(&gradients).unwrap().into_data()
        };
        let expected = gradient(CheckpointPolicy::Recompute);
        for policy in [
            CheckpointPolicy::SaveDots,
            CheckpointPolicy::SaveAll,
            CheckpointPolicy::Segments(2),
            CheckpointPolicy::Budget(1 << 16),
        ] {
            assert_close(&gradient(policy), &expected, 1e-6, "w");
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error_that_says_so() {
    let function = Differentiable::new(&layer());
    for device in devices() {
        let Inputs { x, w, b } = inputs(&device.clone().autodiff(), [true; 3]);
        let error = function.call::<Layer>((x.clone(), w.clone())).unwrap_err();
        assert_eq!(error.kind(), "Call");
        let error = function.call::<Layer>((x.clone(), b.clone(), w.clone())).unwrap_err().to_string();
        assert!(error.contains("argument 1 (`w`)") && error.contains("f32[3,2]"), "{error}");
        let error = function.call::<(Tensor<2>, Tensor<2>, AnyTensor, AnyTensor)>((x.clone(), w.clone(), b.clone()));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("result 1") && error.contains("Tensor<2, Float>"), "{error}");
        assert!(error.contains("tests/autodiff.rs"), "{error}");
        let error = function.call::<(Tensor<2>, Tensor<1>)>((x, w, b)).unwrap_err().to_string();
        assert!(error.contains("4 tensors"), "{error}");
        let error = function.call::<AnyTensor>(()).unwrap_err().to_string();
        assert!(error.contains("no tensors"), "{error}");
    }
}

/// A custom op without derivatives.
#[derive(Clone, Copy, Debug)]
struct Halve;

funcify::custom_op!(Halve, "halve", |_attributes| Ok(Halve));
funcify::funcify!(Burn, Halve, |_call, [x]| Ok::<_, BackendError>(Dispatch::float_mul_scalar(x, Scalar::from(0.5))));

impl CustomOp for Halve {
    elementwise!(|inputs| {
        let half = |index: &[usize]| funcify::Scalar::Float(inputs[0].at(index).as_f64() / 2.0);
        vec![HostTensor::from_fn(inputs[0].dtype(), inputs[0].shape(), half)]
    });
}

#[test]
fn an_op_without_a_derivative_is_refused_if_it_would_be_needed() {
    let graph =
        Graph::build("half", |g| apply(Custom::new(Halve), &[g.input("x", "f32[2]")])[0] + g.input("y", "f32[2]"));
    let function = Differentiable::new(&graph.unwrap());
    for device in autodiff_devices() {
        let [x, y] = [[1.0, 2.0], [3.0, 4.0]].map(|data| Tensor::<1>::from_data(data, &device));
        let sum: Tensor<1> = function.call((x.clone(), y.clone().require_grad())).unwrap();
        assert_eq!(sum.into_data().iter::<f32>().collect::<Vec<_>>(), [3.5, 5.0]);
        let error = function.call::<Tensor<1>>((x.require_grad(), y)).unwrap_err();
        assert_eq!(error.kind(), "NoDerivative", "{error}");
        assert!(error.to_string().contains("halve"), "{error}");
    }
}
