//! Runs the suite as a test program, with one test per case and mode.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use funcify::Graph;
use funcify::dispatch::{Executor, LoopStrategy};
use libtest_mimic::{Arguments, Failed, FormatSetting, Trial};
use rayon::prelude::*;

use crate::case::Case;
use crate::expectations::Expectations;
use crate::runner::{Status, Subject, missing_needs, rewrite_case, run_case, run_rewritten, unmatched_gaps};
use crate::suite::all_cases;
use crate::unlocks::{unlock_table, unlocks};

/// Runs the suite as a test program. Put `fn main() { funcify_conformance::run_as_tests(Arc::new(MyBackend), "") }`
/// into `tests/conformance.rs`, and the following into `Cargo.toml`:
///
/// ```toml
/// [[test]]
/// name = "conformance"
/// harness = false
/// ```
///
/// `expectations` declares gaps, in the TOML format of [`Expectations`](crate::expectations). Use [`Suite`] to add
/// cases of your own.
///
/// ```no_run
/// # use funcify::dispatch::Reference as MyBackend;
/// use std::sync::Arc;
///
/// fn main() {
///     funcify_conformance::run_as_tests(Arc::new(MyBackend), "partial = true")
/// }
/// ```
pub fn run_as_tests(executor: Arc<dyn Executor>, expectations: &str) {
    Suite::new(executor).with_expectations(expectations).run();
}

/// A test program that runs the suite on one backend. Call `Suite::new(Arc::new(MyBackend)).run()` in `main`.
///
/// ```no_run
/// # use funcify::dispatch::Reference as MyBackend;
/// use std::sync::Arc;
///
/// use funcify_conformance::Suite;
///
/// fn main() {
///     Suite::new(Arc::new(MyBackend)).with_expectations("partial = true").run()
/// }
/// ```
pub struct Suite {
    executor: Arc<dyn Executor>,
    expectations: String,
    cases: Vec<Case>,
}

impl Suite {
    /// Creates the suite for a backend, with no declared gaps.
    pub fn new(executor: Arc<dyn Executor>) -> Self {
        Suite { executor, expectations: String::new(), cases: Vec::new() }
    }

    /// Declares gaps, in the TOML format of [`Expectations`](crate::expectations).
    pub fn with_expectations(self, expectations: &str) -> Self {
        Suite { expectations: expectations.to_string(), ..self }
    }

    /// Adds cases to the suite, for custom ops ([`custom_cases`](crate::custom_cases)) or for your own programs
    /// ([`Case::from_reference`]).
    ///
    /// ```no_run
    /// # use funcify::dispatch::Reference as MyBackend;
    /// use std::sync::Arc;
    ///
    /// use funcify::Graph;
    /// use funcify_conformance::{Case, Suite};
    ///
    /// fn main() {
    ///     let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
    ///     let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()]).unwrap();
    ///     Suite::new(Arc::new(MyBackend)).with_cases([case]).run()
    /// }
    /// ```
    pub fn with_cases(mut self, cases: impl IntoIterator<Item = Case>) -> Self {
        self.cases.extend(cases);
        self
    }

    /// Runs all cases as tests, with options from the command line, and prints the ops and types that the backend is
    /// missing. Then exits the process, with a nonzero exit code if a test failed.
    pub fn run(self) -> ! {
        let (arguments, name) = (Arguments::from_args(), self.executor.name().to_string());
        let (cases, expectations) = match (all_cases(), Expectations::parse(&self.expectations)) {
            (Ok(cases), Ok(expectations)) => (cases, expectations),
            (Err(reason), _) => libtest_mimic::run(&arguments, vec![failing_trial("cases", reason)]).exit(),
            (_, Err(reason)) => libtest_mimic::run(&arguments, vec![failing_trial("expectations", reason)]).exit(),
        };
        let subject = Subject { name, executor: Ok(self.executor), expectations };
        let cases: Vec<Case> = cases.into_iter().chain(self.cases).collect();
        let missing_by_case = missing_by_case(&cases, &subject);
        let conclusion = libtest_mimic::run(&arguments, trials_with(cases, &subject, &missing_by_case));
        let is_text = !matches!(arguments.format, Some(FormatSetting::Json));
        if !missing_by_case.is_empty() && is_text && !arguments.list {
            println!("{}", summary(&subject.name, &missing_by_case));
        }
        conclusion.exit()
    }
}

/// Returns one test for each case and mode of the suite, with names such as `my-backend/scan/cumsum/native`. Each test
/// runs the case's program both as written and after rewriting.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use funcify::dispatch::Reference;
/// use funcify_conformance::{Expectations, Subject, trials};
///
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let trials = trials(&Subject { name, executor: Ok(Arc::new(Reference)), expectations });
/// libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
/// ```
pub fn trials(subject: &Subject) -> Vec<Trial> {
    match all_cases() {
        Ok(cases) => trials_of(cases, subject),
        Err(reason) => vec![failing_trial("cases", reason)],
    }
}

/// Returns one test for each of these cases in each mode, and a failing test for each declared gap that matches no
/// case.
///
/// A test is ignored if its case needs an op or type that the backend is missing. Each missing op or type adds one
/// failing test, unless the backend is declared `partial`.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::Graph;
/// use funcify::dispatch::Reference;
/// use funcify_conformance::{Case, Expectations, Subject, trials_of};
///
/// # let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// # let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// let names: Vec<String> = trials_of(vec![case], &subject).iter().map(|trial| trial.name().to_string()).collect();
/// assert!(names.contains(&"reference/mine/square/native".to_string()));
/// # Ok::<(), String>(())
/// ```
pub fn trials_of(cases: Vec<Case>, subject: &Subject) -> Vec<Trial> {
    let missing_by_case = missing_by_case(&cases, subject);
    trials_with(cases, subject, &missing_by_case)
}

fn trials_with(cases: Vec<Case>, subject: &Subject, missing_by_case: &MissingByCase) -> Vec<Trial> {
    let unmatched = unmatched_gaps(&cases, subject).into_iter();
    let mut trials: Vec<Trial> = unmatched.map(|row| failing_trial(&row.case, row.reason)).collect();
    trials.extend(missing_op_trials(subject, missing_by_case));
    for case in cases.into_iter().map(Arc::new) {
        let rewritten = Arc::new(LazyLock::new({
            let case = case.clone();
            move || rewrite_case(&case)
        }));
        let needs = missing_by_case.get(&case.name);
        for &mode in subject.modes() {
            let name = format!("{}/{}/{}", subject.name, case.name, mode.name());
            // A case with a declared gap always runs, because it must fail as declared.
            let needs = needs.filter(|_| subject.expectations.find(&case.name, mode.name()).is_none());
            if let Some(needs) = needs {
                let trial = Trial::test(name, || Ok(())).with_ignored_flag(true);
                trials.push(trial.with_kind(format!("needs {}", needs.join(", "))));
                continue;
            }
            let (case, rewritten, subject) = (case.clone(), rewritten.clone(), subject.clone());
            trials.push(Trial::test(name, move || run_both_forms(&case, (**rewritten).as_ref(), &subject, mode)));
        }
    }
    trials
}

/// Runs a case's program both as written and after rewriting. The error describes the first run that failed.
fn run_both_forms(case: &Case, rewritten: Option<&Graph>, subject: &Subject, mode: LoopStrategy) -> Result<(), Failed> {
    let of_rewritten = rewritten.map(|graph| run_rewritten(case, graph, subject, mode));
    let rows = [Some(run_case(case, subject, mode)), of_rewritten];
    let failed = rows.into_iter().flatten().find(|row| matches!(row.status, Status::Fail | Status::Needs));
    failed.map_or(Ok(()), |row| Err(Failed::from(format!("{}: {}", row.mode, row.reason))))
}

/// The missing ops and types, keyed by the name of the case that needs them.
type MissingByCase = BTreeMap<String, Vec<String>>;

fn missing_by_case(cases: &[Case], subject: &Subject) -> MissingByCase {
    let Ok(executor) = &subject.executor else { return MissingByCase::new() };
    let of_case = |case: &Case| (case.name.clone(), missing_needs(executor.as_ref(), &case.graph));
    cases.par_iter().map(of_case).filter(|(_, needs)| !needs.is_empty()).collect()
}

/// Returns a failing test for each missing op or type. For a `partial` backend, returns no tests, or one failing test
/// if nothing is missing.
fn missing_op_trials(subject: &Subject, missing_by_case: &MissingByCase) -> Vec<Trial> {
    if subject.expectations.partial {
        let reason = "`partial = true` is declared, but nothing is missing: remove the declaration";
        return if missing_by_case.is_empty() { vec![failing_trial("partial", reason.into())] } else { Vec::new() };
    }
    let unlocks = unlocks(missing_by_case.values().map(Vec::as_slice)).into_iter();
    let trials = unlocks.map(|unlock| {
        let name = format!("{}/needs/{}", subject.name, unlock.need);
        let (cases, only_need) = (unlock.cases, unlock.only_need);
        let fix = "write it with `funcify!`, declare gaps for the cases, or declare `partial = true` while the backend is under construction";
        failing_trial(&name, format!("{cases} cases need it, and {only_need} of them need nothing else: {fix}"))
    });
    trials.collect()
}

/// Formats the table of missing ops and types.
fn summary(name: &str, missing_by_case: &MissingByCase) -> String {
    let table = unlock_table(&unlocks(missing_by_case.values().map(Vec::as_slice)));
    format!("{} cases need ops or types that `{name}` does not have yet:\n\n{table}", missing_by_case.len())
}

fn failing_trial(name: &str, reason: String) -> Trial {
    Trial::test(name.to_string(), move || Err(Failed::from(reason)))
}
