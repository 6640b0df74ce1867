//! Runs cases on a backend in each mode, and judges the results against the expected values and the declared gaps.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use funcify::dispatch::{CompileOptions, Compiles, Executor, LoopStrategy, Need, needs};
use funcify::ops::Op;
use funcify::rewrite::{Rewrite, RewriteOptions};
use funcify::{Error, Graph, HostTensor};
use serde::Serialize;

use crate::case::{Case, Expected};
use crate::compare::compare;
use crate::expectations::Expectations;

/// The modes of a backend that does not compile loops.
///
/// ```
/// use funcify::dispatch::LoopStrategy;
/// use funcify_conformance::MODES;
///
/// assert_eq!(MODES, [LoopStrategy::Unroll, LoopStrategy::Native]);
/// ```
pub const MODES: [LoopStrategy; 2] = [LoopStrategy::Unroll, LoopStrategy::Native];

/// Returns the modes in which cases run on a backend. The compiled mode is included if the backend compiles loops or
/// whole programs. The unrolled mode is omitted if the backend compiles whole programs.
///
/// ```
/// use funcify::dispatch::Reference;
/// use funcify_conformance::{MODES, modes_of};
///
/// assert_eq!(modes_of(&Reference), MODES);
/// ```
pub fn modes_of(executor: &dyn Executor) -> &'static [LoopStrategy] {
    match executor.compiles() {
        Compiles::Nothing => &MODES,
        Compiles::Loops => &[LoopStrategy::Unroll, LoopStrategy::Native, LoopStrategy::Compiled],
        Compiles::Programs => &[LoopStrategy::Native, LoopStrategy::Compiled],
    }
}

/// A backend to test, with its declared gaps.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::dispatch::Reference;
/// use funcify_conformance::{Expectations, Subject};
///
/// let (name, expectations) = ("reference".to_string(), Expectations::parse("partial = true")?);
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// assert_eq!(subject.modes().len(), 2);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct Subject {
    /// The backend's name.
    pub name: String,
    /// The backend, or the reason why it is absent.
    pub executor: Result<Arc<dyn Executor>, String>,
    /// The backend's declared gaps.
    pub expectations: Expectations,
}

impl Subject {
    /// Returns the modes in which cases run on the backend.
    pub fn modes(&self) -> &'static [LoopStrategy] {
        self.executor.as_ref().map_or(&MODES, |executor| modes_of(executor.as_ref()))
    }
}

/// The outcome of a case on a backend.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::Graph;
/// use funcify::dispatch::{LoopStrategy, Reference};
/// use funcify_conformance::{Case, Expectations, Status, Subject, run_case};
///
/// # let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// # let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// let result = run_case(&case, &subject, LoopStrategy::Native);
/// assert_eq!(result.status, Status::Pass);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The result is as expected.
    Pass,
    /// The result is wrong, the error is not declared, or a case with a declared gap did not fail as declared.
    Fail,
    /// The case has a declared gap, and failed with the declared error.
    Unsupported,
    /// The case needs ops for which the backend has no lowering rules yet, or types that the backend does not support.
    Needs,
    /// The backend is not available on this machine.
    Absent,
}

/// The result of one case on one backend in one mode.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::Graph;
/// use funcify::dispatch::{LoopStrategy, Reference};
/// use funcify_conformance::{Case, Expectations, Status, Subject, run_case};
///
/// # let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// # let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// let result = run_case(&case, &subject, LoopStrategy::Native);
/// assert_eq!((result.status, result.mode.as_str()), (Status::Pass, "raw/native"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CaseResult {
    /// The case's name.
    pub case: String,
    /// The case's category.
    pub category: String,
    /// The backend's name.
    pub backend: String,
    /// The form of the program and the mode: `raw/unroll`, `raw/native`, `rewritten/native` and so on.
    pub mode: String,
    /// The case's status.
    pub status: Status,
    /// The reason why the case did not pass, or an empty string.
    pub reason: String,
    /// The names of the ops and types that the backend is missing, if the case failed because of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// Runs one case's program, as written, on a backend in one mode.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::Graph;
/// use funcify::dispatch::{LoopStrategy, Reference};
/// use funcify_conformance::{Case, Expectations, Status, Subject, run_case};
///
/// # let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// # let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// let result = run_case(&case, &subject, LoopStrategy::Native);
/// assert_eq!(result.status, Status::Pass);
/// # Ok::<(), String>(())
/// ```
pub fn run_case(case: &Case, subject: &Subject, mode: LoopStrategy) -> CaseResult {
    Run::new(case, subject, None).row(mode)
}

/// Rewrites the program of a case with all default rules. Returns `None` if no rule changes the program, or if
/// rewriting fails.
///
/// ```
/// use funcify::Graph;
/// use funcify_conformance::{Case, rewrite_case};
///
/// let same = Graph::build("same", |g| g.input("x", "f32[2]") * 1.0).unwrap();
/// let case = Case::from_reference("same", "mine", same, vec![[2f32, 3.0].into()])?;
/// assert!(rewrite_case(&case).unwrap().nodes().is_empty());
/// # Ok::<(), String>(())
/// ```
pub fn rewrite_case(case: &Case) -> Option<Graph> {
    let rewritten = case.graph.rewritten_with(&RewriteOptions::new()).ok()?;
    (!rewritten.patches.is_empty()).then_some(rewritten.graph)
}

/// Runs one case's [rewritten](rewrite_case) program on a backend in one mode. The rewritten program may run even if
/// the backend rejects the original one.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::Graph;
/// use funcify::dispatch::{LoopStrategy, Reference};
/// use funcify_conformance::{Case, Expectations, Status, Subject, rewrite_case, run_rewritten};
///
/// # let square = Graph::build("square", |g| g.input("x", "f32[2]").square() * 1.0).unwrap();
/// # let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// let rewritten = rewrite_case(&case).unwrap();
/// assert_eq!(run_rewritten(&case, &rewritten, &subject, LoopStrategy::Native).status, Status::Pass);
/// # Ok::<(), String>(())
/// ```
pub fn run_rewritten(case: &Case, rewritten: &Graph, subject: &Subject, mode: LoopStrategy) -> CaseResult {
    Run::new(case, subject, Some(rewritten)).row(mode)
}

/// Runs one case in all modes of a backend, as written and [after rewriting](rewrite_case), and calls `done` after each
/// mode. A program without loops or branches runs the same way in the unrolled and the native mode, so it is run only
/// once for both.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::Graph;
/// use funcify::dispatch::Reference;
/// use funcify_conformance::{Case, Expectations, Subject, run_modes};
///
/// # let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// # let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// let mut done = 0;
/// assert_eq!(run_modes(&case, None, &subject, || done += 1).len(), 2);
/// assert_eq!(done, 2);
/// # Ok::<(), String>(())
/// ```
pub fn run_modes(case: &Case, rewritten: Option<&Graph>, subject: &Subject, mut done: impl FnMut()) -> Vec<CaseResult> {
    let mut runs = vec![Run::new(case, subject, None)];
    runs.extend(rewritten.map(|graph| Run::new(case, subject, Some(graph))));
    let mut rows = Vec::new();
    for &mode in subject.modes() {
        rows.extend(runs.iter_mut().map(|run| run.row(mode)));
        done();
    }
    rows
}

/// Returns the names of the ops and types that a program needs and the backend lacks, or an empty list if the needs
/// cannot be determined.
pub(crate) fn missing_needs(executor: &dyn Executor, graph: &Graph) -> Vec<String> {
    let needs = needs(executor, graph).unwrap_or_else(|_| BTreeSet::new());
    needs.iter().map(Need::to_string).collect()
}

/// A case's program, either as written or rewritten, and the backend on which it runs in several modes.
struct Run<'a> {
    case: &'a Case,
    subject: &'a Subject,
    rewritten: Option<&'a Graph>,
    /// The cached outcome of the unrolled and the native mode, if the program runs the same way in both.
    unrolled_or_native: Option<Execution>,
}

impl<'a> Run<'a> {
    fn new(case: &'a Case, subject: &'a Subject, rewritten: Option<&'a Graph>) -> Self {
        Run { case, subject, rewritten, unrolled_or_native: None }
    }

    fn row(&mut self, mode: LoopStrategy) -> CaseResult {
        let kind = if self.rewritten.is_some() { "rewritten" } else { "raw" };
        let (status, reason, needs) = match &self.subject.executor {
            Err(reason) => (Status::Absent, reason.clone(), Vec::new()),
            Ok(executor) => self.run_and_judge(executor.as_ref(), mode),
        };
        CaseResult {
            case: self.case.name.clone(),
            category: self.case.category.clone(),
            backend: self.subject.name.clone(),
            mode: format!("{kind}/{}", mode.name()),
            status,
            reason,
            needs,
        }
    }

    fn run_and_judge(&mut self, executor: &dyn Executor, mode: LoopStrategy) -> (Status, String, Vec<String>) {
        let (case, subject) = (self.case, self.subject);
        let graph = self.rewritten.unwrap_or(&case.graph);
        let fresh;
        let execution = if mode != LoopStrategy::Compiled && !has_bodies(graph) {
            self.unrolled_or_native.get_or_insert_with(|| execute(case, executor, mode, graph))
        } else {
            fresh = execute(case, executor, mode, graph);
            &fresh
        };
        let (status, reason) = match (self.rewritten, execution, &case.expected) {
            // The rewritten program may run where the original fails, because rewriting may have removed the
            // unsupported op.
            (Some(_), Execution::Results(results), Expected::Outputs(expected)) => {
                match compare(&case.graph, results, expected) {
                    Ok(()) => (Status::Pass, String::new()),
                    Err(reason) => (Status::Fail, reason),
                }
            }
            _ => judge(case, subject, mode, execution),
        };
        let has_gap = subject.expectations.find(&case.name, mode.name()).is_some();
        let needs = match status == Status::Fail && execution.is_refused() && !has_gap {
            true => missing_needs(executor, graph),
            false => Vec::new(),
        };
        match needs.is_empty() {
            true => (status, reason, needs),
            false => (Status::Needs, reason, needs),
        }
    }
}

/// Returns `true` if a program contains loops, branches or other ops whose execution may depend on the mode.
fn has_bodies(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| matches!(node.op, Op::Custom(_)) || !node.op.bodies().is_empty())
}

/// Returns a failed row for each declared gap that matches no case.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::Graph;
/// use funcify::dispatch::Reference;
/// use funcify_conformance::{Case, Expectations, Subject, unmatched_gaps};
///
/// # let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// # let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// assert!(unmatched_gaps(&[case], &subject).is_empty());
/// # Ok::<(), String>(())
/// ```
pub fn unmatched_gaps(cases: &[Case], subject: &Subject) -> Vec<CaseResult> {
    let matched = |gap: &&crate::expectations::Gap| {
        cases.iter().any(|case| subject.modes().iter().any(|mode| gap.covers(&case.name, mode.name())))
    };
    let unmatched = subject.expectations.expect.iter().filter(|gap| !matched(gap));
    unmatched
        .map(|gap| CaseResult {
            case: gap.case.clone(),
            category: "expectations".into(),
            backend: subject.name.clone(),
            mode: gap.mode.clone().unwrap_or_else(|| "any".into()),
            status: Status::Fail,
            reason: "the declared gap matches no case".into(),
            needs: Vec::new(),
        })
        .collect()
}

/// The outcome of running a case on a backend.
enum Execution {
    Results(Vec<HostTensor>),
    Error(Error),
    Panic(String),
}

impl Execution {
    /// Returns `true` if the backend rejected the program because of a missing op or an unsupported type.
    fn is_refused(&self) -> bool {
        matches!(self, Execution::Error(Error::NoLoweringRule { .. } | Error::Unsupported { .. }))
    }
}

fn execute(case: &Case, executor: &dyn Executor, mode: LoopStrategy, graph: &Graph) -> Execution {
    let options = CompileOptions { strategy: mode, rewrites: None, ..CompileOptions::default() };
    let run = || executor.compile(graph, options)?.call(&case.inputs);
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(results)) => Execution::Results(results),
        Ok(Err(error)) => Execution::Error(error),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
            Execution::Panic(text.unwrap_or_else(|| "a panic without a message".into()))
        }
    }
}

fn judge(case: &Case, subject: &Subject, mode: LoopStrategy, execution: &Execution) -> (Status, String) {
    let gap = subject.expectations.find(&case.name, mode.name());
    let outcome = match (&case.expected_in(mode), execution) {
        (_, Execution::Panic(text)) => Err(format!("panic: {text}")),
        (Expected::Outputs(expected), Execution::Results(results)) => compare(&case.graph, results, expected),
        (Expected::Outputs(_), Execution::Error(error)) => Err(error.to_string()),
        (Expected::Error(kind), Execution::Error(error)) if error.kind() == *kind => Ok(()),
        (Expected::Error(kind), Execution::Error(error)) => Err(format!("expected the error {kind}, found: {error}")),
        (Expected::Error(kind), Execution::Results(_)) => Err(format!("returned results instead of the error {kind}")),
    };
    match (gap, outcome, execution) {
        (None, Ok(()), _) => (Status::Pass, String::new()),
        (None, Err(reason), _) => (Status::Fail, reason),
        (Some(gap), Err(_), Execution::Error(error)) if error.kind() == gap.error => {
            (Status::Unsupported, gap.reason.clone())
        }
        (Some(gap), Err(reason), _) => (Status::Fail, format!("declared to fail with {}, but: {reason}", gap.error)),
        (Some(gap), Ok(()), _) => {
            (Status::Fail, format!("declared to fail with {}, but it passes: remove the declaration", gap.error))
        }
    }
}
