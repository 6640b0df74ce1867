//! Tests that a call returns an error if the backend reports a fault in its compiled code. The call must not fall back
//! to another way of running the loop.

use std::sync::Arc;

use funcify::dispatch::{
    Backend, Compiled, Compiles, Declined, Function, Kernel, Reference, WholeRequest, evaluate_kernel, tensors_of,
};
use funcify::ops::Scan;
use funcify::{Error, Graph, HostTensor, fori_loop, funcify, scan, while_loop};

#[path = "../../funcify/tests/forwarded/mod.rs"]
mod forwarded;
use forwarded::RejectingProgram;

/// A variant of the reference backend that claims to compile whole programs. It reports a fault for each compile
/// request that satisfies its predicate.
#[derive(Clone, Copy)]
struct Faulty(fn(&WholeRequest<'_>) -> bool);

funcify!(Faulty, Scan, native_loop);

impl Backend for Faulty {
    tensors_of!(Reference);

    fn name(&self) -> &'static str {
        "faulty"
    }

    fn compiles(&self) -> Compiles {
        Compiles::Programs
    }

    fn compile_whole(&self, whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
        match (self.0)(&whole) {
            true => Err(Declined::fault("two instructions disagree")),
            false if whole.may_refuse => Ok(Arc::new(RejectingProgram)),
            false => Err(Declined::new("op", "this backend compiles nothing")),
        }
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(evaluate_kernel)
    }
}

/// Asserts that compiling or calling a function returns an error if the backend reports a fault, and that both succeed
/// otherwise.
fn is_an_error(graph: &Graph, inputs: &[HostTensor], is_fault: fn(&WholeRequest<'_>) -> bool) {
    let run = |backend: Faulty| Function::compile(graph, &backend)?.call_host(inputs);
    assert_eq!(run(Faulty(|_| false)).expect("without a fault it runs"), funcify::evaluate(graph, inputs).unwrap());
    let error = run(Faulty(is_fault)).expect_err("the fault is an error");
    assert!(matches!(error, Error::Internal { .. }), "{error}");
    let message = error.to_string();
    for words in ["internal error", "`faulty`", "two instructions disagree", "please report it"] {
        assert!(message.contains(words), "no `{words}` in: {message}");
    }
}

#[test]
fn a_fault_is_an_error_and_nothing_runs_in_its_place() {
    let sums = Graph::build("sums", |g| {
        let (start, xs) = (g.input("start", "f32[]"), g.input("xs", "f32[3]"));
        scan(start, xs, |sum, x| (sum + x, sum * x))
    });
    let sums = sums.unwrap();
    let inputs = [HostTensor::scalar(1f32), HostTensor::from([1f32, 2.0, 3.0])];
    is_an_error(&sums, &inputs, |whole| whole.is_program);
    is_an_error(&sums, &inputs, |whole| !whole.is_program);

    let halved = Graph::build("halved", |g| while_loop(g.input("x", "f32[]"), |x| x.gt(1.0), |x| x * 0.5)).unwrap();
    is_an_error(&halved, &[HostTensor::scalar(9f32)], |whole| !whole.is_program && whole.may_refuse);
}

/// A loop whose number of steps is known only at run time is planned during the call.
#[test]
fn a_fault_of_a_plan_that_is_made_late_is_an_error() {
    let powers = Graph::build("powers", |g| {
        let (n, x) = (g.input("n", "i64[]"), g.input("x", "f32[]"));
        fori_loop(0, n + n, x, |_, y| y * 0.5)
    });
    let inputs = [HostTensor::scalar(50i64), HostTensor::scalar(3f32)];
    is_an_error(powers.as_ref().unwrap(), &inputs, |whole| whole.may_refuse);
    is_an_error(powers.as_ref().unwrap(), &inputs, |whole| whole.sizes.iter().any(|(_, size)| size == 100));
}
