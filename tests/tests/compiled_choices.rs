//! Tests `cond`s that are compiled together with the surrounding ops, on Candle's and Burn's tensors, forward and
//! backward.

use funcify::dispatch::{Backend, Function};
use funcify::{GradOptions, Graph, HostTensor, cond, evaluate};
use funcify_burn::Burn;
use funcify_candle::Candle;

/// Checks the results of a graph on a backend against the reference evaluator. Returns `true` if the backend compiles
/// the whole graph into a single instruction.
fn is_whole<B: Backend>(graph: &Graph, backend: &B, inputs: &[HostTensor]) -> bool {
    let function = Function::compile(graph, backend).unwrap();
    let (found, expected) = (function.call_host(inputs).unwrap(), evaluate(graph, inputs).unwrap());
    for (found, expected) in found.iter().zip(&expected) {
        let (found, expected) = (found.to_f64_vec(), expected.to_f64_vec());
        let is_close = |(found, expected): (&f64, &f64)| (found - expected).abs() <= 1e-5 * expected.abs().max(1.0);
        assert!(found.iter().zip(&expected).all(is_close), "{}: {found:?} is not {expected:?}", backend.name());
    }
    let report = function.report();
    report.declined.is_none() && report.instructions == 1
}

fn is_whole_on_backends(graph: &Graph, inputs: &[HostTensor]) -> [bool; 3] {
    let burn = [Burn::flex(), Burn::ndarray()].map(|burn| is_whole(graph, &burn, inputs));
    [is_whole(graph, &Candle::cpu(), inputs), burn[0], burn[1]]
}

/// Tests a graph that sums the exponentials of values, or of the clamped values if an exponential overflows. The branch
/// that is not taken may have an infinite derivative, which must not reach the gradient.
#[test]
fn a_choice_outside_of_loops_is_one_program_and_so_is_its_gradient() {
    let graph = Graph::build("guarded", |g| {
        let (x, w) = (g.input("x", "f32[B]"), g.input("w", "f32[]"));
        let are_finite = (x * w).exp().is_finite().all(0);
        cond(are_finite, || (x * w).exp().sum(0), || (x * w).clamp(-5.0, 5.0).exp().sum(0))
    });
    let graph = graph.unwrap();
    let gradient = graph.value_and_grad("w", GradOptions::new()).unwrap();
    for last in [0.5f32, 1e6] {
        let inputs = [HostTensor::from([0.25f32, -0.75, last]), HostTensor::scalar(1.5f32)];
        assert!(evaluate(&gradient, &inputs).unwrap().iter().all(|result| result.to_f64_vec()[0].is_finite()));
        assert_eq!(is_whole_on_backends(&graph, &inputs), [true; 3]);
        assert_eq!(is_whole_on_backends(&gradient, &inputs), [true; 3]);
    }
}

/// Checks that the host chooses the branch of a `cond` that contains a matrix product. Such a `cond` is not compiled,
/// because the tensor library computes all matrix products.
#[test]
fn a_choice_with_products_runs_from_the_host() {
    let graph = Graph::build("products", |g| {
        let (x, w) = (g.input("x", "f32[B,2]"), g.input("w", "f32[2,2]"));
        cond(x.sum(1).sum(0).gt(0.0), || x.matmul(w), || x)
    });
    let inputs = [HostTensor::from([[1f32, 2.0], [3.0, 4.0]]), HostTensor::from([[0.5f32, 1.0], [-1.0, 0.25]])];
    assert_eq!(is_whole_on_backends(&graph.unwrap(), &inputs), [false; 3]);
}
