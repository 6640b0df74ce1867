//! Tests that the suite distinguishes missing ops from wrong results, for a backend under construction.

use std::sync::Arc;

use funcify::dispatch::LoopStrategy;
use funcify::{DType, Graph, HostTensor};
use funcify_conformance::{Case, CaseResult, Expectations, Status, Subject, run_case, trials_of};
use libtest_mimic::Arguments;

use super::fake::Fake;

/// Builds the case `y = tanh(x) + x` in f32.
fn case(name: &str) -> Case {
    let graph = Graph::build("program", |g| {
        let x = g.input("x", "f32[2]");
        x.tanh() + x
    });
    Case::from_reference(name, "edge", graph.unwrap(), vec![HostTensor::from([0f32, 0.0])]).unwrap()
}

/// Creates a backend with the right results for the case.
fn right_backend() -> Fake {
    Fake::results(vec![HostTensor::from([0f32, 0.0])])
}

fn wrong_backend() -> Fake {
    Fake::results(vec![HostTensor::from([0f32, 1.0])])
}

fn subject(fake: Fake, expectations: &str) -> Subject {
    let expectations = Expectations::parse(expectations).unwrap();
    Subject { name: "fake".into(), executor: Ok(Arc::new(fake)), expectations }
}

fn row(fake: Fake) -> CaseResult {
    run_case(&case("program"), &subject(fake, ""), LoopStrategy::Native)
}

fn rejecting_backend() -> Fake {
    Fake::error("NoLoweringRule")
}

#[test]
fn a_case_needs_the_ops_that_are_missing() {
    for (lowered, needs) in [(&[][..], &["add", "tanh"][..]), (&["add"], &["tanh"]), (&["tanh", "mul"], &["add"])] {
        let row = row(rejecting_backend().lowering(lowered));
        assert_eq!(row.status, Status::Needs, "{row:?}");
        assert_eq!(row.needs, needs, "{row:?}");
    }
    let row = row(Fake::error("Unsupported").lowering(&["add", "tanh"]).without(DType::F32));
    assert_eq!((row.status, row.needs), (Status::Needs, vec!["tensors of f32".to_string()]));
}

/// A failure counts as a failed case, and not as a missing op, if the backend claims to have the ops, or if the
/// failure has another cause.
#[test]
fn a_backend_that_claims_an_op_and_fails_has_failed() {
    let all = ["add", "tanh"];
    for (what, fake) in [
        ("wrong", wrong_backend().lowering(&all)),
        ("refused, though claimed", rejecting_backend().lowering(&all)),
        ("refused, and it runs every op", rejecting_backend()),
        ("a kernel that takes no f32", Fake::error("Unsupported").lowering(&all)),
        ("another error", Fake::error("StepCount").lowering(&["add"])),
        ("a panic", Fake::new(|_, _| panic!("broken")).lowering(&["add"])),
        ("wrong, though it lacks an op", wrong_backend().lowering(&["add"])),
    ] {
        let row = row(fake);
        assert_eq!((row.status, row.needs.len()), (Status::Fail, 0), "{what}: {row:?}");
    }
    assert_eq!(row(right_backend().lowering(&all)).status, Status::Pass);
}

/// A declared gap takes precedence over missing ops.
#[test]
fn a_declared_gap_is_judged_as_before() {
    let gap = "[[expect]]\ncase = 'edge/*'\nstatus = 'unsupported'\nerror = 'NoLoweringRule'\nreason = 'no tanh'";
    let judged = |fake| run_case(&case("program"), &subject(fake, gap), LoopStrategy::Native).status;
    assert_eq!(judged(rejecting_backend().lowering(&["add"])), Status::Unsupported);
    assert_eq!(judged(Fake::error("Unsupported").lowering(&["add"])), Status::Fail);
    assert_eq!(judged(right_backend().lowering(&["add"])), Status::Fail);
}

/// Runs two cases, each in two modes. Returns the numbers of tests that passed, failed and were ignored.
fn tests(fake: Fake, expectations: &str) -> (u64, u64, u64) {
    let arguments = Arguments { quiet: true, ..Arguments::default() };
    let trials = trials_of(vec![case("one"), case("two")], &subject(fake, expectations));
    let conclusion = libtest_mimic::run(&arguments, trials);
    (conclusion.num_passed, conclusion.num_failed, conclusion.num_ignored)
}

#[test]
fn tests_that_need_more_are_ignored() {
    let partial = "partial = true";
    // One additional test fails for each missing op, unless the backend is declared `partial`.
    assert_eq!(tests(rejecting_backend().lowering(&["add"]), ""), (0, 1, 4));
    assert_eq!(tests(rejecting_backend().lowering(&[]), ""), (0, 2, 4));
    assert_eq!(tests(rejecting_backend().lowering(&["add"]), partial), (0, 0, 4));
    assert_eq!(tests(right_backend().lowering(&["add", "tanh"]), ""), (4, 0, 0));
    // If no op is missing, one additional test fails, because the backend must no longer be declared `partial`.
    assert_eq!(tests(right_backend().lowering(&["add", "tanh"]), partial), (4, 1, 0));
    assert_eq!(tests(wrong_backend().lowering(&["add", "tanh"]), partial), (0, 5, 0));
    // A case with a declared gap runs instead of being ignored.
    let gap = "[[expect]]\ncase = 'edge/one'\nstatus = 'unsupported'\nerror = 'NoLoweringRule'\nreason = 'no tanh'";
    assert_eq!(tests(rejecting_backend().lowering(&["add"]), &format!("{partial}\n{gap}")), (2, 0, 2));
}
