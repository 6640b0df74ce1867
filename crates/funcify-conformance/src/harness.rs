//! The suite as tests of a third party's backend: one test a case and mode.

use std::sync::{Arc, LazyLock};

use funcify::dispatch::Executor;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::expectations::Expectations;
use crate::runner::{Status, Subject, rewritten, run_case, run_rewritten, unmatched_gaps};
use crate::suite::{Case, all_cases};

/// The suite as a test program of its own: put `fn main() { funcify_conformance::run_as_tests(Arc::new(MyBackend), "") }`
/// into `tests/conformance.rs` with `harness = false`. `expectations` is the TOML of
/// [`Expectations`](crate::expectations).
pub fn run_as_tests(executor: Arc<dyn Executor>, expectations: &str) {
    let name = executor.name().to_string();
    let trials = match Expectations::parse(expectations) {
        Ok(expectations) => trials(&Subject { name, executor: Ok(executor), expectations }),
        Err(reason) => vec![failing("expectations", reason)],
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// One test for each case and mode of the suite, as it is written and rewritten, named `my-backend/scan/cumsum/native`.
pub fn trials(subject: &Subject) -> Vec<Trial> {
    match all_cases() {
        Ok(cases) => trials_of(cases, subject),
        Err(reason) => vec![failing("cases", reason)],
    }
}

/// One test for each of these cases and mode, and one that fails for each declared gap that matches none of them.
pub fn trials_of(cases: Vec<Case>, subject: &Subject) -> Vec<Trial> {
    let mut trials: Vec<Trial> =
        unmatched_gaps(&cases, subject).into_iter().map(|row| failing(&row.case, row.reason)).collect();
    for case in cases.into_iter().map(Arc::new) {
        let rewritten = Arc::new(LazyLock::new({
            let case = case.clone();
            move || rewritten(&case)
        }));
        for &mode in subject.modes() {
            let name = format!("{}/{}/{}", subject.name, case.name, mode.name());
            let (case, rewritten, subject) = (case.clone(), rewritten.clone(), subject.clone());
            trials.push(Trial::test(name, move || {
                let of_rewritten = (**rewritten).as_ref().map(|graph| run_rewritten(&case, graph, &subject, mode));
                let rows = [Some(run_case(&case, &subject, mode)), of_rewritten];
                let failed = rows.into_iter().flatten().find(|row| row.status == Status::Fail);
                failed.map_or(Ok(()), |row| Err(Failed::from(format!("{}: {}", row.mode, row.reason))))
            }));
        }
    }
    trials
}

fn failing(name: &str, reason: String) -> Trial {
    Trial::test(name.to_string(), move || Err(Failed::from(reason)))
}
