//! A backend with predetermined results.
#![allow(dead_code, reason = "tests of other crates use a part")]

use std::sync::Arc;

use funcify::dispatch::{CompileCounts, CompileOptions, Compiles, Executable, Executor, LoopStrategy, Profile, Report};
use funcify::error::Place;
use funcify::{DType, Error, Graph, HostTensor, Result};

/// A function that computes the result of a call, given the graph and the arguments.
type Answer = dyn Fn(&Graph, &[HostTensor]) -> Result<Vec<HostTensor>> + Send + Sync;

/// A backend that calls a function for its results instead of running the program.
#[derive(Clone)]
pub(super) struct Fake {
    answer: Arc<Answer>,
    /// The ops with lowering rules, or `None` if every op has a lowering rule.
    lowered: Option<Vec<&'static str>>,
    /// The dtypes that the backend does not support.
    without: Vec<DType>,
}

impl Fake {
    pub(super) fn new(
        answer: impl Fn(&Graph, &[HostTensor]) -> Result<Vec<HostTensor>> + Send + Sync + 'static,
    ) -> Self {
        Fake { answer: Arc::new(answer), lowered: None, without: Vec::new() }
    }

    /// Creates a backend that always returns these results.
    pub(super) fn results(results: Vec<HostTensor>) -> Self {
        Fake::new(move |_, _| Ok(results.clone()))
    }

    /// Restricts the lowering rules to these ops.
    pub(super) fn lowering(self, ops: &[&'static str]) -> Self {
        Fake { lowered: Some(ops.to_vec()), ..self }
    }

    /// Removes support for tensors of this dtype.
    pub(super) fn without(mut self, dtype: DType) -> Self {
        self.without.push(dtype);
        self
    }

    /// Creates a backend that always fails with an error of this kind.
    pub(super) fn error(kind: &'static str) -> Self {
        Fake::new(move |_, _| Err(error(kind)))
    }
}

/// Creates an error of this kind.
pub(super) fn error(kind: &str) -> Error {
    let (at, backend, reason, fix) = (Place::default().boxed(), "fake".to_string(), String::new(), String::new());
    match kind {
        "Unsupported" => Error::Unsupported { at, backend, what: "it".into(), reason, fix },
        "StepCountNotStatic" => Error::StepCountNotStatic { at, backend, reason, fix },
        "NoLoweringRule" => Error::NoLoweringRule { at, backend, fix },
        "StepCount" => Error::StepCount { at, reason, fix },
        kind => panic!("no error has the kind {kind}"),
    }
}

struct FakeFunction(Fake, Graph);

impl Executor for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn compile(&self, graph: &Graph, _: CompileOptions) -> Result<Box<dyn Executable>> {
        Ok(Box::new(FakeFunction(self.clone(), graph.clone())))
    }

    fn lowered_ops(&self) -> Vec<&'static str> {
        self.lowered.clone().unwrap_or_default()
    }

    fn loop_strategy(&self) -> LoopStrategy {
        LoopStrategy::Native
    }

    fn compiles(&self) -> Compiles {
        Compiles::Nothing
    }

    fn has_fallback(&self) -> bool {
        self.lowered.is_none()
    }

    fn unsupported(&self, dtype: DType, _: usize) -> Option<String> {
        self.without.contains(&dtype).then(|| format!("it has no {dtype}"))
    }
}

impl Executable for FakeFunction {
    fn call(&self, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
        (self.0.answer)(&self.1, arguments)
    }

    fn profile(&self, arguments: &[HostTensor]) -> Result<(Vec<HostTensor>, Profile)> {
        Ok((self.call(arguments)?, Profile::default()))
    }

    fn counts(&self) -> CompileCounts {
        CompileCounts::default()
    }

    fn instructions(&self) -> usize {
        0
    }

    fn report(&self) -> Report {
        Report::default()
    }
}
