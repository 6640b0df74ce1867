//! Runs the conformance suite on faulty backends. The backend without a fault must pass. Every fault must be caught in
//! each category of cases in which it has an effect.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use funcify::dispatch::LoopStrategy;
use funcify_conformance::{Case, CaseResult, Expectations, Expected, Status, Subject, all_cases, run_case};
use funcify_tests::wrong::{self, Fault};

#[path = "../../crates/funcify-conformance/tests/judgement/fake.rs"]
mod fake;
use fake::Fake;

/// Returns the cases with loops, except those that exceed the memory budget, because the interpreter has no budget.
fn cases_with_loops() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    let is_affordable = |case: &Case| !matches!(case.expected, Expected::Error("OverBudget"));
    let cases = || all_cases().unwrap().into_iter().filter(|case| case.category != "op" && is_affordable(case));
    CASES.get_or_init(|| cases().collect())
}

/// Runs the suite on a backend with a fault, and returns the results of the cases that fail. A single mode is enough,
/// because the interpreter runs loops in only one way.
fn failures(fault: Fault) -> Vec<CaseResult> {
    let subject = Subject {
        name: format!("{fault:?}"),
        executor: Ok(Arc::new(Fake::new(move |graph, arguments| wrong::call(fault, graph, arguments)))),
        expectations: Expectations::default(),
    };
    let rows = cases_with_loops().iter().map(|case| run_case(case, &subject, LoopStrategy::Native));
    rows.filter(|row| row.status == Status::Fail).collect()
}

/// Returns the categories of cases that must catch a fault.
fn expected_categories(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::None => &[],
        Fault::ReadsAfterWrites => &["mit_mot"],
        Fault::SequenceTapOffByOne => &["scan", "taps", "nested", "model"],
        Fault::BufferTapOffByOne => &["taps", "mit_mot"],
        Fault::OnlyFirstTap => &["taps", "mit_mot"],
        Fault::OnlyFirstWrite => &["mit_mot"],
        Fault::WritesNotSeen => &["taps", "mit_mot"],
        Fault::ReversedDirection => &["scan", "taps", "mit_mot", "nested", "model"],
        Fault::TraceInStepOrder => &["scan"],
        Fault::LostLastRow => &["scan", "taps", "mit_mot", "nested", "model"],
        Fault::LastStepNotRun => &["scan", "taps", "mit_mot", "nested", "dtype", "model"],
        Fault::ZeroStepsRunOne => &["scan"],
        Fault::CarryNotReplaced => &["scan", "nested", "dtype", "model"],
        Fault::CarriesReplacedOneByOne => &["scan"],
        Fault::InvariantsOfFirstRun => &["nested"],
        Fault::UntilNotRead | Fault::StoppingStepDropped | Fault::RowsNotCut => &["while", "edge"],
        Fault::CutAtTheEnd => &["edge"],
        Fault::DoublesRoundedToSingle => &["scan", "dtype"],
        Fault::IntegersRoundedToSingle => &["dtype"],
    }
}

#[test]
fn the_interpreter_without_a_fault_passes_the_suite() {
    let failed = failures(Fault::None);
    let reasons: Vec<String> = failed.iter().map(|row| format!("{}: {}", row.case, row.reason)).collect();
    assert!(reasons.is_empty(), "{}", reasons.join("\n"));
}

#[test]
fn every_fault_is_caught_where_it_shows() {
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        let failed = failures(fault);
        let mut by_category: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &failed {
            *by_category.entry(&row.category).or_default() += 1;
        }
        println!("{fault:?}: {} cases catch it: {by_category:?}", failed.len());
        let absent = expected_categories(fault).iter().filter(|category| !by_category.contains_key(**category));
        missed.extend(absent.map(|category| format!("{fault:?} is not caught by any case of `{category}`")));
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
