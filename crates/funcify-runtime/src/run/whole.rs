//! Runs loops and programs that a backend compiled as a whole.

use super::*;
use crate::backend::Outcome;

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
