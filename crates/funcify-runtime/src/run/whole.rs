//! Runs loops and programs that a backend compiled as a whole.

use super::*;
use crate::backend::Outcome;

/// A compiled loop that may reject its operands at run time.
pub(crate) struct RefusableLoop<T> {
    pub(crate) compiled: Arc<dyn Compiled<T>>,
    /// For each result of the loop, `true` if the compiled code returns it.
    pub(crate) used: Vec<bool>,
}

impl<T: Clone + 'static> RefusableLoop<T> {
    /// Runs the code and returns all results of the loop, with placeholders for those that the code does not return.
    /// Returns `None` if the code rejects its operands.
    pub(crate) fn run_unless_refused<B: Backend<Tensor = T>>(
        &self,
        run: &Run<'_, B>,
        at: &Place,
        operands: &[T],
    ) -> Result<Option<Tensors<T>>> {
        let backend = run.backend.name();
        let results = run_compiled(&*self.compiled, &run.watch, || at.clone(), backend, operands)?;
        Ok(results.map(|results| with_placeholders(results, &self.used, operands)))
    }
}

/// Returns one tensor for each result of a node: the used results, and placeholders for the unused results. The
/// placeholders are arbitrary tensors that are never read.
pub(crate) fn with_placeholders<T: Clone>(results: Vec<T>, used: &[bool], operands: &[T]) -> Tensors<T> {
    debug_assert_eq!(results.len(), used.iter().filter(|used| **used).count(), "it returns each used result");
    let placeholder = operands.first().or(results.first()).cloned();
    let mut results = results.into_iter();
    let mut next = |used: &bool| if *used { results.next() } else { placeholder.clone() };
    used.iter().filter_map(&mut next).collect()
}

/// Runs compiled code and returns its results, or `None` if the code rejects its operands. Returns an error if the code
/// fails or the run is cancelled. Calls `at` only to build an error.
pub(crate) fn run_compiled<T: 'static>(
    compiled: &dyn Compiled<T>,
    watch: &ActiveHandles,
    at: impl Fn() -> Place + Sync,
    backend: &str,
    operands: &[T],
) -> Result<Option<Vec<T>>> {
    let ran = || watch.check_at(&at, Progress::Uncounted);
    loop {
        let outcome = compiled.run(operands, &|| ran().is_err());
        match outcome.map_err(|error| execution_error(&at(), backend, error))? {
            Outcome::Done(results) => return Ok(Some(results)),
            Outcome::Refused => return Ok(None),
            Outcome::Stopped => ran()?,
        }
    }
}
