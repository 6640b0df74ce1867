//! Checks of the leaves that a user's closure gives: they have the names and the types that are expected.

use crate::graph::fail;
use crate::graph::tracer::ClosedBody;
use crate::ops::call::check_sizes;
use crate::ops::fail_mismatch;
use crate::ops::rules::*;

/// Leaves as an error lists them.
pub(crate) fn listed<T>(leaves: &[(String, T)]) -> String {
    let names: Vec<String> = leaves.iter().map(|(name, _)| format!("`{name}`")).collect();
    if names.is_empty() { "no leaves".to_string() } else { names.join(", ") }
}

/// The body, unless it gives something of a size that is bound in it (bind-c1).
pub(crate) fn with_known_sizes(at: &Place, name: &str, body: ClosedBody) -> Result<ClosedBody, Failed> {
    match check_sizes(at, name, &body.graph) {
        Ok(()) => Ok(body),
        Err(error) => Err(fail(&at.op, at.site, &[], |_| error)),
    }
}

/// Whether leaves have the names that are expected; else the open trace keeps an error.
pub(crate) fn have_names<T>(
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

/// Checks the type of a leaf. The fixes are what is to be cast, what to do about another shape, and what if both differ.
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
