//! Checks that all subjects compute the same values. Programs with wrong results are not timed.
//!
//! The expected values come from the reference evaluator, or from JAX if the reference evaluator is too slow. If
//! neither has results, a handwritten loop supplies the expected values. Without a handwritten loop, the first subject
//! that returned results supplies them.

use std::collections::BTreeMap;

use funcify::HostTensor;

/// The maximum allowed difference from the expected values, relative to the largest element of the tensor.
/// Reassociating sums over thousands of steps changes f32 results by about 1e-5.
const TOLERANCE: f64 = 1e-3;

/// The results of each subject, keyed by the name of the output.
#[derive(Default)]
pub(crate) struct Values(Vec<(&'static str, BTreeMap<String, HostTensor>)>);

/// The subjects whose results may serve as the expected values, in order of preference.
const TRUSTED_SUBJECTS: &[&str] = &["reference", "jax", "candle-by-hand", "burn-flex-by-hand"];

impl Values {
    pub(crate) fn add(&mut self, subject: &'static str, results: BTreeMap<String, HostTensor>) {
        self.0.push((subject, results));
    }

    /// Returns the subject that supplies the expected values, together with its results. Returns `None` if no subject
    /// has results.
    fn expected_values(&self) -> Option<(&'static str, &BTreeMap<String, HostTensor>)> {
        let of = |name: &&str| self.0.iter().find(|(subject, _)| **subject == **name);
        let best = TRUSTED_SUBJECTS.iter().find_map(of).or(self.0.first())?;
        Some((best.0, &best.1))
    }

    /// Returns the name of the subject against which `subject` was checked, or `None` if `subject` itself supplies the
    /// expected values or no subject has results.
    pub(crate) fn checked_against(&self, subject: &str) -> Option<&'static str> {
        self.expected_values().map(|(name, _)| name).filter(|name| *name != subject)
    }
}

/// Returns the subjects with wrong results, each with a description of the difference.
pub(crate) fn subjects_with_wrong_values(values: &Values) -> BTreeMap<&'static str, String> {
    let Some((expected_subject, expected)) = values.expected_values() else {
        return BTreeMap::new();
    };
    let mut wrong = BTreeMap::new();
    for (subject, results) in &values.0 {
        for (name, expected) in expected {
            let difference = match results.get(name) {
                None => format!("no `{name}` among its results"),
                Some(found) => match largest_difference(expected, found) {
                    Some(difference) if difference <= TOLERANCE => continue,
                    Some(difference) => format!("`{name}` differs by {difference:.1e} from {expected_subject}'s"),
                    None => format!("`{name}` has {} elements, not {}", found.len(), expected.len()),
                },
            };
            wrong.entry(*subject).or_insert(format!("wrong values: {difference}"));
        }
    }
    wrong
}

/// Returns the largest difference, relative to the largest expected element, or `None` if the tensors differ in
/// length. NaN counts as an infinite difference.
pub(crate) fn largest_difference(expected: &HostTensor, found: &HostTensor) -> Option<f64> {
    if expected.len() != found.len() {
        return None;
    }
    let mut largest = f64::MIN_POSITIVE;
    let mut difference = 0f64;
    for index in 0..expected.len() {
        let (expected, found) = (expected.get(index).as_f64(), found.get(index).as_f64());
        let apart = (expected - found).abs();
        difference = difference.max(if apart.is_nan() { f64::INFINITY } else { apart });
        largest = largest.max(expected.abs());
    }
    Some(difference / largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(numbers: [[f32; 2]; 2]) -> Values {
        let mut values = Values::default();
        for (subject, numbers) in ["reference", "candle-native"].into_iter().zip(numbers) {
            values.add(subject, BTreeMap::from([("y".to_string(), HostTensor::from(numbers))]));
        }
        values
    }

    #[test]
    fn a_subject_that_computes_something_else_is_named() {
        assert!(subjects_with_wrong_values(&values([[1.0, -4.0], [1.0005, -4.0]])).is_empty());
        let differing = subjects_with_wrong_values(&values([[1.0, -4.0], [1.01, -4.0]]));
        assert_eq!(differing["candle-native"], "wrong values: `y` differs by 2.5e-3 from reference's");
        assert!(subjects_with_wrong_values(&values([[1.0, -4.0], [f32::NAN, -4.0]])).contains_key("candle-native"));
    }

    #[test]
    fn a_result_that_is_missing_or_shorter_is_wrong() {
        let mut values = values([[1.0, 2.0]; 2]);
        values.add("jax", BTreeMap::new());
        values.add("rlx", BTreeMap::from([("y".to_string(), HostTensor::from([1f32]))]));
        let differing = subjects_with_wrong_values(&values);
        assert_eq!(differing["jax"], "wrong values: no `y` among its results");
        assert_eq!(differing["rlx"], "wrong values: `y` has 1 elements, not 2");
        assert_eq!(differing.len(), 2);
    }
}
