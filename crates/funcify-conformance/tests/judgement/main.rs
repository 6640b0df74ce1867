//! Tests how the suite judges results: its tolerances, and the failures that a declared gap excuses. Fake backends
//! return right, slightly wrong, and wrong results.

mod fake;
mod partial;
mod properties;

use std::collections::BTreeMap;
use std::sync::Arc;

use funcify::dispatch::LoopStrategy;
use funcify::{DType, Graph, HostTensor, Scalar};
use funcify_conformance::golden::{GoldenCase, Manifest, Tolerance};
use funcify_conformance::{
    Case, Expectations, Expected, Status, Subject, all_golden_cases, run_case, trials_of, unmatched_gaps,
};
use libtest_mimic::Arguments;

use fake::{Fake, error};

/// Creates a subject from a fake backend and declared gaps in TOML.
fn subject(fake: Fake, gaps: &str) -> Subject {
    Subject { name: "fake".into(), executor: Ok(Arc::new(fake)), expectations: Expectations::parse(gaps).unwrap() }
}

fn status(case: &Case, fake: Fake, gaps: &str, mode: LoopStrategy) -> Status {
    run_case(case, &subject(fake, gaps), mode).status
}

/// Returns the results that a case expects, in the order and with the types of the graph's outputs. Returns `None` if
/// the case expects an error.
fn expected_results(case: &Case) -> Option<Vec<HostTensor>> {
    let Expected::Outputs(expected) = &case.expected else { return None };
    let results = case.graph.outputs().iter().map(|output| {
        let expected = expected.iter().find(|expected| expected.name == output.name)?;
        Some(expected.values.cast(expected.ty.dtype))
    });
    results.collect()
}

/// Adds `by` to the float at index `flat` of the flattened tensor.
fn shift_element(tensor: &HostTensor, flat: usize, by: f64) -> HostTensor {
    let mut index = 0;
    HostTensor::from_fn(tensor.dtype(), tensor.shape(), |_| {
        index += 1;
        match tensor.get(index - 1) {
            Scalar::Float(value) if index - 1 == flat => Scalar::Float(value + by),
            other => other,
        }
    })
}

/// Returns the manifest's absolute tolerance for an output. The manifest's key for the output `y` is `out.y`. The key
/// for `tan_grad_x_2` is `hvp.x_2` or, if the manifest does not contain it, `hvp.x`.
fn atol(tolerance: &Tolerance, name: &str) -> f64 {
    const GROUPS: [(&str, &str); 5] =
        [("tan_tan_grad_", "grad3"), ("tan_grad_", "hvp"), ("grad_", "grad"), ("tan_", "jvp"), ("", "out")];
    let key = |name: &str| {
        GROUPS.iter().find_map(|(prefix, group)| {
            let key = format!("{group}.{}", name.strip_prefix(prefix)?);
            tolerance.atol.get(&key).copied()
        })
    };
    key(name).or_else(|| key(name.strip_suffix("_2")?)).unwrap_or(0.0)
}

/// Shifts the largest element of each golden result. A shift by 0.9 times the manifest's tolerance must pass, and a
/// shift by 1.2 times the tolerance must fail.
#[test]
fn golden_results_are_held_to_the_tolerances_of_the_manifest() {
    let manifest = Manifest::load().unwrap();
    let by_name: BTreeMap<&str, &GoldenCase> = manifest.cases.iter().map(|case| (case.name.as_str(), case)).collect();
    let mut compared = 0;
    for case in all_golden_cases().unwrap() {
        let Some(golden) = case.name.split_once('/').and_then(|(_, name)| by_name.get(name)) else { continue };
        let tolerance = golden.tolerance.get(&golden.dtype).or(golden.tolerance.get("f64")).unwrap();
        let (Some(results), Expected::Outputs(expected)) = (expected_results(&case), &case.expected) else { continue };
        assert_eq!(
            status(&case, Fake::results(results.clone()), "", LoopStrategy::Native),
            Status::Pass,
            "{}",
            case.name
        );
        for (at, output) in case.graph.outputs().iter().enumerate() {
            let output = expected.iter().find(|expected| expected.name == output.name).unwrap();
            let values = output.values.to_f64_vec();
            let largest = (0..values.len()).filter(|index| values[*index].is_finite());
            let Some(flat) = largest.max_by(|a, b| values[*a].abs().total_cmp(&values[*b].abs())) else { continue };
            if !results[at].dtype().is_float() {
                continue;
            }
            let allowed = atol(tolerance, &output.name) + tolerance.rtol * values[flat].abs();
            for (factor, expected) in
                [(0.9, Status::Pass), (-0.9, Status::Pass), (1.2, Status::Fail), (-1.2, Status::Fail)]
            {
                let mut results = results.clone();
                results[at] = shift_element(&results[at], flat, factor * allowed);
                let found = status(&case, Fake::results(results), "", LoopStrategy::Native);
                assert_eq!(found, expected, "{}: `{}` off by {factor} of the tolerance", case.name, output.name);
            }
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared} results");
}

/// Returns the status of a case whose expected result is 1, for a backend that returns 1 plus `off` ulps. The tolerance
/// of the case depends on `scale`.
fn of_reference(dtype: DType, scale: f64, off: f64) -> Status {
    let graph = Graph::build("same", |g| g.input("x", format!("{}[2]", dtype.name()).as_str())).unwrap();
    let ones = HostTensor::from_fn(dtype, &[2], |_| Scalar::Float(1.0));
    let case = Case::from_reference_scaled("same", "op", graph, vec![ones.clone()], scale).unwrap();
    let digits = match dtype {
        DType::F16 => 10,
        DType::BF16 => 7,
        DType::F32 => 23,
        _ => 52,
    };
    let result = shift_element(&ones, 1, off * 2f64.powi(-digits));
    status(&case, Fake::results(vec![result]), "", LoopStrategy::Native)
}

/// For each dtype, the table lists a deviation that passes and one that fails, in ulps of 1. The tolerance is twice as
/// large for a `scale` of 1 as for a `scale` of 0.
#[test]
fn results_of_the_reference_evaluation_are_held_to_a_few_units_in_the_last_place() {
    for (dtype, passes, fails) in
        [(DType::F16, 2.0, 3.0), (DType::BF16, 2.0, 3.0), (DType::F32, 80.0, 90.0), (DType::F64, 4400.0, 4600.0)]
    {
        assert_eq!(of_reference(dtype, 0.0, passes), Status::Pass, "{dtype:?}");
        assert_eq!(of_reference(dtype, 0.0, fails), Status::Fail, "{dtype:?}");
        assert_eq!(of_reference(dtype, 1.0, 2.0 * passes), Status::Pass, "{dtype:?}");
        assert_eq!(of_reference(dtype, 1.0, 2.0 * fails), Status::Fail, "{dtype:?}");
    }
}

#[test]
fn integers_and_booleans_are_equal() {
    let graph = Graph::build("same", |g| (g.input("n", "i64[2]"), g.input("p", "bool[2]"))).unwrap();
    let inputs = vec![HostTensor::from([1i64 << 60, 5]), HostTensor::from([true, false])];
    let case = Case::from_reference("same", "op", graph, inputs.clone()).unwrap();
    let given = |results: [HostTensor; 2]| status(&case, Fake::results(results.to_vec()), "", LoopStrategy::Native);
    let [n, p] = [inputs[0].clone(), inputs[1].clone()];
    assert_eq!(given([n.clone(), p.clone()]), Status::Pass);
    assert_eq!(given([HostTensor::from([(1i64 << 60) + 1, 5]), p.clone()]), Status::Fail);
    assert_eq!(given([n.clone(), HostTensor::from([true, true])]), Status::Fail);
    assert_eq!(given([n.cast(DType::I32).cast(DType::I64), p]), Status::Fail);
}

/// Builds the case `y = 2 x` in f32. If `expected` is given, the case expects an error of that kind instead.
fn case(expected: Option<&'static str>) -> Case {
    let graph = Graph::build("twice", |g| g.input("x", "f32[2]") * 2.0).unwrap();
    let case = Case::from_reference("twice", "edge", graph, vec![HostTensor::from([1f32, 3.0])]).unwrap();
    Case { expected: expected.map_or(case.expected, Expected::Error), ..case }
}

/// A gap that covers the case in every mode, with the error `Unsupported`.
const GAP: &str =
    "[[expect]]\ncase = 'edge/twice'\nstatus = 'unsupported'\nerror = 'Unsupported'\nreason = 'no floats'";

/// Returns a backend for each kind of outcome: right results, wrong results, results of another type, too few results,
/// an error, or a panic.
fn answers() -> [(&'static str, Fake); 8] {
    [
        ("right", Fake::results(vec![HostTensor::from([2f32, 6.0])])),
        ("wrong", Fake::results(vec![HostTensor::from([2f32, 6.001])])),
        ("another dtype", Fake::results(vec![HostTensor::from([2f64, 6.0])])),
        ("another shape", Fake::results(vec![HostTensor::from([[2f32, 6.0]])])),
        ("no results", Fake::results(Vec::new())),
        ("Unsupported", Fake::error("Unsupported")),
        ("NoLoweringRule", Fake::error("NoLoweringRule")),
        ("panic", Fake::new(|_, _| panic!("broken"))),
    ]
}

fn passing(case: &Case, gaps: &str, expected: Status) -> Vec<&'static str> {
    let rows = answers().into_iter().map(|(name, fake)| (name, status(case, fake, gaps, LoopStrategy::Native)));
    let rows: Vec<(&str, Status)> = rows.collect();
    assert!(rows.iter().all(|(_, status)| [expected, Status::Fail].contains(status)), "{rows:?}");
    rows.into_iter().filter(|(_, status)| *status == expected).map(|(name, _)| name).collect()
}

#[test]
fn only_what_is_expected_passes() {
    assert_eq!(passing(&case(None), "", Status::Pass), ["right"]);
    assert_eq!(passing(&case(Some("NoLoweringRule")), "", Status::Pass), ["NoLoweringRule"]);
}

#[test]
fn a_declared_gap_excuses_its_own_kind_of_error_alone() {
    assert_eq!(passing(&case(None), GAP, Status::Unsupported), ["Unsupported"]);
    assert_eq!(passing(&case(Some("NoLoweringRule")), GAP, Status::Unsupported), ["Unsupported"]);
    let row = run_case(&case(None), &subject(Fake::error("Unsupported"), GAP), LoopStrategy::Native);
    assert_eq!(row.reason, "no floats");
    let row = run_case(&case(None), &subject(Fake::error("NoLoweringRule"), GAP), LoopStrategy::Native);
    assert!(row.reason.contains("declared to fail with Unsupported, but"), "{}", row.reason);
    let row = run_case(&case(None), &subject(answers()[0].1.clone(), GAP), LoopStrategy::Native);
    assert!(row.reason.contains("it passes: remove the declaration"), "{}", row.reason);
}

#[test]
fn a_declared_gap_is_in_its_mode_alone() {
    let gap = format!("{GAP}\nmode = 'unroll'");
    let right = || answers()[0].1.clone();
    assert_eq!(status(&case(None), right(), &gap, LoopStrategy::Native), Status::Pass);
    assert_eq!(status(&case(None), right(), &gap, LoopStrategy::Unroll), Status::Fail);
    let refuses = || Fake::error("Unsupported");
    assert_eq!(status(&case(None), refuses(), &gap, LoopStrategy::Native), Status::Fail);
    assert_eq!(status(&case(None), refuses(), &gap, LoopStrategy::Unroll), Status::Unsupported);
}

#[test]
fn steps_that_only_a_running_program_knows_are_refused_when_unrolled() {
    let case = Case { needs_dynamic_steps: true, ..case(None) };
    let right = || answers()[0].1.clone();
    let refuses = || Fake::error("StepCountNotStatic");
    assert_eq!(status(&case, right(), "", LoopStrategy::Native), Status::Pass);
    assert_eq!(status(&case, right(), "", LoopStrategy::Unroll), Status::Fail);
    assert_eq!(status(&case, refuses(), "", LoopStrategy::Unroll), Status::Pass);
    assert_eq!(status(&case, refuses(), "", LoopStrategy::Native), Status::Fail);
    assert_eq!(status(&case, Fake::error("StepCount"), "", LoopStrategy::Unroll), Status::Fail);
}

#[test]
fn an_absent_backend_neither_passes_nor_fails() {
    let subject = Subject { executor: Err("no device".into()), ..subject(Fake::error("StepCount"), "") };
    let row = run_case(&case(None), &subject, LoopStrategy::Native);
    assert_eq!((row.status, row.reason.as_str()), (Status::Absent, "no device"));
}

#[test]
fn a_declared_gap_that_matches_no_case_fails() {
    let unmatched = |gap: &str| unmatched_gaps(&[case(None)], &subject(Fake::error("StepCount"), gap));
    assert!(unmatched(GAP).is_empty());
    assert!(unmatched(&format!("{GAP}\nmode = 'native'")).is_empty());
    for gap in [GAP.replace("twice", "thrice"), format!("{GAP}\nmode = 'eager'")] {
        let rows = unmatched(&gap);
        assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [Status::Fail], "{gap}");
    }
}

/// When another crate tests its backend, a test must fail for each row that fails, and for each declared gap that
/// matches no case.
#[test]
fn the_tests_of_a_backend_fail_where_it_does() {
    let failed = |fake: Fake, gaps: &str| {
        let arguments = Arguments { quiet: true, ..Arguments::default() };
        let conclusion = libtest_mimic::run(&arguments, trials_of(vec![case(None)], &subject(fake, gaps)));
        (conclusion.num_passed, conclusion.num_failed)
    };
    assert_eq!(failed(answers()[0].1.clone(), ""), (2, 0));
    assert_eq!(failed(Fake::new(|_, _| Err(error("Unsupported"))), ""), (0, 2));
    assert_eq!(failed(Fake::error("Unsupported"), GAP), (2, 0));
    assert_eq!(failed(answers()[0].1.clone(), &GAP.replace("twice", "thrice")), (2, 1));
}
