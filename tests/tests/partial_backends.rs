//! Tests unfinished backends in the conformance suite: missing ops are reported, and wrong results still fail the case.

use std::collections::BTreeSet;
use std::sync::Arc;

use funcify::dispatch::{Backend, CompileOptions, Executor, LoopStrategy, Need, Reference, needs, tensors_of};
use funcify::error::BackendError;
use funcify::ops::{Add, Custom, CustomOp, Mul, Scan};
use funcify::{DType, Error, Graph, HostTensor, Scalar, bind_size, custom_op, funcify, scan};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_conformance::{Case, Expectations, Status, Subject, all_golden_cases, custom_cases, run_case};
use funcify_cpu::Cpu;
use funcify_tests::softplus::{Softplus, softplus};
use funcify_tests::toy::Toy;

#[path = "../../crates/funcify/tests/elementwise/mod.rs"]
mod elementwise;
use elementwise::elementwise;

fn subject(executor: impl Executor + 'static) -> Subject {
    let name = executor.name().to_string();
    Subject { name, executor: Ok(Arc::new(executor)), expectations: Expectations::parse("partial = true").unwrap() }
}

/// Returns every thirteenth case of the suite.
fn some_cases() -> Vec<Case> {
    all_golden_cases().unwrap().into_iter().step_by(13).collect()
}

/// Runs cases on the toy backend, which supports eight ops on f64 and nothing else. Asserts that the function `needs`
/// returns a nonempty set for a case if and only if compiling the case for the backend fails.
#[test]
fn a_partial_backend_passes_or_lacks_something() {
    let toy = subject(Toy);
    let (mut passed, mut lacking) = (0, BTreeSet::new());
    for case in some_cases() {
        for mode in [LoopStrategy::Native, LoopStrategy::Unroll] {
            let row = run_case(&case, &toy, mode);
            assert!(matches!(row.status, Status::Pass | Status::Needs), "{row:?}");
            passed += usize::from(row.status == Status::Pass);
            lacking.extend(row.needs);
        }
        let options = CompileOptions { rewrites: None, strategy: LoopStrategy::Native, ..CompileOptions::default() };
        let refused = match Executor::compile(&Toy, &case.graph, options) {
            Err(Error::NoLoweringRule { at, .. }) => Some(at.op),
            Err(Error::Unsupported { .. }) => Some("tensors".into()),
            _ => None,
        };
        let needs = needs(&Toy, &case.graph).unwrap();
        assert_eq!(needs.is_empty(), refused.is_none(), "{}: {needs:?}, but {refused:?}", case.name);
        if let Some(op) = refused.filter(|op| op != "tensors") {
            assert!(needs.iter().any(|need| matches!(need, Need::Op(name) if *name == op)), "{}: {op}", case.name);
        }
    }
    assert!(passed > 0);
    assert!(["slice", "matmul", "tensors of f32"].iter().all(|need| lacking.contains(*need)), "{lacking:?}");
}

/// A backend that uses the toy backend's tensors and supports only three ops. Its kernel for `mul` computes wrong
/// results.
#[derive(Clone, Copy)]
struct UnfinishedBackend;

funcify!(UnfinishedBackend, Scan, native_loop);
funcify!(UnfinishedBackend, Add, |_call, [x, y]| x.zip(&y, |x, y| x + y));
funcify!(UnfinishedBackend, Mul, |_call, [x, y]| x.zip(&y, |x, y| x * y + 1e-3));

impl Backend for UnfinishedBackend {
    tensors_of!(Toy);

    fn name(&self) -> &'static str {
        "begun"
    }
}

#[test]
fn a_wrong_kernel_of_a_partial_backend_fails() {
    let step = |name: &'static str, step: fn(funcify::Value, funcify::Value) -> funcify::Value| {
        let graph = Graph::build(name, |g| {
            scan(g.input("start", "f64[2]"), g.input("xs", "f64[T,2]"), |c, x| (step(c, x), ())).0
        });
        let inputs = vec![HostTensor::from([1f64, 2.0]), HostTensor::from([[3f64, 4.0], [5.0, 6.0]])];
        Case::from_reference(name, "scan", graph.unwrap(), inputs).unwrap()
    };
    let status = |case: Case| run_case(&case, &subject(UnfinishedBackend), LoopStrategy::Native).status;
    assert_eq!(status(step("sums", |c, x| c + x)), Status::Pass);
    assert_eq!(status(step("products", |c, x| c * x)), Status::Fail);
    assert_eq!(status(step("sines", |c, x| c + x.sin())), Status::Needs);
    // This case uses both a missing op and the op whose results are wrong. A missing op takes precedence over a wrong
    // result.
    assert_eq!(status(step("both", |c, x| c * x.sin())), Status::Needs);
}

/// Checks that `needs` lists the ops of a custom op's composition if the backend has no kernel for the custom op.
#[test]
fn a_custom_op_needs_its_composition() {
    let graph = Graph::build("smooth", |g| softplus(g.input("x", "f64[2]"), 2)).unwrap();
    assert!(needs(&Toy, &graph).unwrap().is_empty() && needs(&Reference, &graph).unwrap().is_empty());
    let lacking = needs(&UnfinishedBackend, &graph).unwrap();
    assert!(lacking.contains(&Need::Op("exp")) && !lacking.contains(&Need::Op("softplus")), "{lacking:?}");
}

/// Checks that `bind_size` needs no kernel, because programs read sizes on the host.
#[test]
fn no_backend_needs_a_kernel_for_a_computed_size() {
    let graph = Graph::build("some", |g| {
        let size = bind_size(g.input("n", "u32[]"));
        g.input("x", "f64[8]").slice(0, ..size)
    });
    assert_eq!(
        needs(&UnfinishedBackend, &graph.unwrap()).unwrap(),
        BTreeSet::from([Need::Op("slice"), Need::DType(DType::U32)])
    );
}

fn softplus_cases() -> Vec<Case> {
    let operands =
        [vec![HostTensor::from([[0.5f64, -1.0, 2.0], [0.0, 30.0, -30.0]])], vec![HostTensor::from([0.25f32, -0.5])]];
    custom_cases("softplus", Custom::new(Softplus { beta: 3 }), &operands).unwrap()
}

/// Checks that the suite tests a custom op on its own, batched and in a loop, and that it tests the op's derivatives.
#[test]
fn a_custom_op_has_cases() {
    let cases = softplus_cases();
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let expected = [
        "custom/softplus",
        "custom/softplus_all",
        "custom/softplus_grad",
        "custom/softplus_jvp",
        "custom/softplus_hvp",
        "custom/softplus_in_a_loop",
        "custom/softplus_in_a_loop_grad",
        "custom/softplus_in_a_loop_jvp",
        "custom/softplus_in_a_loop_hvp",
        "custom/softplus_1_grad",
    ];
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    // The second derivatives contain derivatives of the op, but not the op itself.
    for case in cases.iter().filter(|case| !case.name.contains("_hvp")) {
        assert!(case.graph.to_string().contains("softplus"), "{}", case.name);
    }
    let subjects = [subject(Cpu::default()), subject(Candle::cpu()), subject(Burn::flex()), subject(Burn::ndarray())];
    for subject in subjects.iter().chain([&subject(Reference)]) {
        for (case, mode) in cases.iter().flat_map(|case| subject.modes().iter().map(move |mode| (case, *mode))) {
            let row = run_case(case, subject, mode);
            assert_eq!(row.status, Status::Pass, "{row:?}");
        }
    }
}

/// The op `tripled`, which triples its operand and has no derivative rules. Its kernel on `cpu` is slightly inaccurate.
#[derive(Clone, Copy, Debug)]
struct Tripled;

custom_op!(Tripled, "tripled", |_attributes| Ok(Tripled));

funcify!(Cpu, Tripled, |_call, [x]| Ok::<_, BackendError>(Arc::new(multiply(&x, 3.001))));

fn multiply(x: &HostTensor, factor: f64) -> HostTensor {
    HostTensor::from_fn(x.dtype(), x.shape(), |index| Scalar::Float(x.at(index).as_f64() * factor))
}

impl CustomOp for Tripled {
    elementwise!(|inputs| vec![multiply(&inputs[0], 3.0)]);
}

#[test]
fn a_wrong_kernel_of_a_custom_op_fails_its_cases() {
    let cases = custom_cases("tripled", Custom::new(Tripled), &[vec![HostTensor::from([0.5f64, -1.0])]]).unwrap();
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["custom/tripled", "custom/tripled_all", "custom/tripled_in_a_loop"]);
    for case in &cases {
        let status = |subject| run_case(case, &subject, LoopStrategy::Native).status;
        assert_eq!(status(subject(Cpu::default())), Status::Fail, "{}", case.name);
        assert_eq!(status(subject(Reference)), Status::Pass, "{}", case.name);
    }
}
