//! Checks the names and types of the leaves that a user's closure returns.

use crate::graph::fail;
use crate::graph::tracer::ClosedBody;
use crate::ops::call::check_sizes;
use crate::ops::fail_mismatch;
use crate::ops::rules::*;

/// Formats the names of leaves as a list for an error message.
pub(crate) fn listed<T>(leaves: &[(String, T)]) -> String {
    let names: Vec<String> = leaves.iter().map(|(name, _)| format!("`{name}`")).collect();
    if names.is_empty() { "no leaves".to_string() } else { names.join(", ") }
}

/// Returns the body unchanged, or an error if the type of a result has a size that is bound in the body (bind-c1).
pub(crate) fn reject_bound_sizes(at: &Place, name: &str, body: ClosedBody) -> Result<ClosedBody, Failed> {
    match check_sizes(at, name, &body.graph) {
        Ok(()) => Ok(body),
        Err(error) => Err(fail(&at.op, at.site, &[], |_| error)),
    }
}

/// Returns `true` if the leaves have the expected names. Otherwise, records an error in the open graph.
pub(crate) fn check_names<T>(
    at: &Place,
    component: &str,
    expected: &[(String, T)],
    found: &[(String, Value)],
    fix: &str,
) -> bool {
    let same = expected.iter().map(|(name, _)| name).eq(found.iter().map(|(name, _)| name));
    if !same {
        let values: Vec<Value> = found.iter().map(|(_, value)| *value).collect();
        fail_mismatch(at, &values, component, listed(expected), listed(found), fix);
    }
    same
}

/// Checks the type of a leaf, and records an error in the open graph if it differs from `expected`. The last parameter
/// holds three texts for the suggested fix: the value to cast, the advice for a wrong shape, and the advice if both
/// dtype and shape are wrong.
pub(crate) fn check_type(
    at: &Place,
    component: &str,
    expected: &TensorType,
    value: Value,
    [cast, shape, both]: [&str; 3],
) {
    let found = value.ty();
    if value.is_failed() || *expected == found {
        return;
    }
    let fix = match (expected.dtype == found.dtype, expected.shape == found.shape) {
        (false, true) => format!("cast {cast}: `.cast(DType::{:?})`", expected.dtype),
        (true, false) => shape.to_string(),
        _ => both.to_string(),
    };
    fail_mismatch(at, &[value], component, expected, &found, fix);
}
