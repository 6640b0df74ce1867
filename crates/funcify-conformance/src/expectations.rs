//! Parses the declared gaps of a backend, each with its exact error and a reason.
//!
//! ```toml
//! [[expect]]
//! case   = "dtype/f16_*"          # one case, or a pattern with one `*`
//! mode   = "native"               # optional: unroll or native
//! status = "unsupported"          # the only status there is
//! error  = "Unsupported"          # the kind of the error, exactly
//! reason = "the device has no f16"
//! ```
//!
//! Cases with a declared gap run too, and must fail with exactly the declared error. The run fails if such a case
//! passes, or if an entry matches no case.
//!
//! A backend under construction declares `partial = true` above its gaps. Cases that need ops without a lowering rule,
//! or dtypes that the backend does not support, then do not fail the run. Once nothing is missing, `partial = true`
//! itself fails the run.

use serde::Deserialize;

/// The declared gaps of a backend.
///
/// ```
/// use funcify_conformance::Expectations;
///
/// let expectations = Expectations::parse(
///     r#"
///     [[expect]]
///     case   = "dtype/f16_*"
///     mode   = "native"
///     status = "unsupported"
///     error  = "Unsupported"
///     reason = "the device has no f16"
///     "#,
/// )?;
/// assert!(expectations.find("dtype/f16_sum", "native").is_some());
/// assert!(expectations.find("dtype/f16_sum", "unroll").is_none());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// `true` if the backend is under construction. Missing ops and types then do not fail the run.
    #[serde(default)]
    pub partial: bool,
    /// The declared gaps.
    #[serde(default)]
    pub expect: Vec<Gap>,
}

/// A declared gap.
///
/// ```
/// use funcify_conformance::expectations::{Gap, GapStatus};
///
/// let gap = Gap {
///     case: "op/*_f16".into(),
///     mode: None,
///     status: GapStatus::Unsupported,
///     error: "Unsupported".into(),
///     reason: "the device has no f16".into(),
/// };
/// assert!(gap.covers("op/tanh_f16", "native") && !gap.covers("op/tanh_f32", "native"));
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// A case's name, or a pattern in which one `*` matches any text.
    pub case: String,
    /// The mode in which the gap exists, or `None` if it exists in all modes.
    pub mode: Option<String>,
    /// The status of the cases with this gap.
    pub status: GapStatus,
    /// The kind of the expected error.
    pub error: String,
    /// The reason for the gap.
    pub reason: String,
}

/// The status of a case with a gap.
///
/// ```
/// use funcify_conformance::Expectations;
/// use funcify_conformance::expectations::GapStatus;
///
/// let expectations = Expectations::parse(
///     r#"
///     [[expect]]
///     case   = "dtype/f16_*"
///     mode   = "native"
///     status = "unsupported"
///     error  = "Unsupported"
///     reason = "the device has no f16"
///     "#,
/// )?;
/// assert_eq!(expectations.expect[0].status, GapStatus::Unsupported);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GapStatus {
    /// The backend rejects the case.
    Unsupported,
}

impl Expectations {
    /// Parses declared gaps from TOML. The error says why the text is invalid.
    ///
    /// ```
    /// use funcify_conformance::Expectations;
    ///
    /// assert!(Expectations::parse("partial = true")?.partial);
    /// assert!(Expectations::parse("parital = true").is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let expectations: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match expectations.expect.iter().find(|gap| gap.reason.trim().is_empty()) {
            Some(gap) => Err(format!("the gap `{}` has no reason", gap.case)),
            None => Ok(expectations),
        }
    }

    /// Returns the declared gap that covers a case in a mode, or `None` if no gap covers it.
    pub fn find(&self, case: &str, mode: &str) -> Option<&Gap> {
        self.expect.iter().find(|gap| gap.covers(case, mode))
    }
}

impl Gap {
    /// Returns `true` if the gap covers a case in a mode.
    pub fn covers(&self, case: &str, mode: &str) -> bool {
        let named = match self.case.split_once('*') {
            Some((before, after)) => case.strip_prefix(before).is_some_and(|rest| rest.ends_with(after)),
            None => case == self.case,
        };
        named && self.mode.as_deref().is_none_or(|own| own == mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused() {
        let text = "[[expect]]\ncase = 'a'\nstatus = 'unsupported'\nerror = 'E'\nreason = ' '";
        assert_eq!(Expectations::parse(text).unwrap_err(), "the gap `a` has no reason");
        let text = "[[expect]]\ncase = 'a'\nstatus = 'unsupported'\nerror = 'E'\nreason = 'r'\nwhy = 'x'";
        assert!(Expectations::parse(text).unwrap_err().contains("unknown field `why`"));
        assert!(Expectations::parse(&text.replace("unsupported", "flaky")).is_err());
    }

    #[test]
    fn a_gap_covers_a_prefix_in_its_mode() {
        let text =
            "[[expect]]\ncase = 'dtype/f16_*'\nmode = 'native'\nstatus = 'unsupported'\nerror = 'E'\nreason = 'r'";
        let expectations = Expectations::parse(text).unwrap();
        assert!(expectations.find("dtype/f16_sum", "native").is_some());
        assert!(expectations.find("dtype/f16_sum", "unroll").is_none());
        assert!(expectations.find("dtype/f32_sum", "native").is_none());
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let covers = |pattern: &str, case: &str| {
            let text = format!("[[expect]]\ncase = '{pattern}'\nstatus = 'unsupported'\nerror = 'E'\nreason = 'r'");
            Expectations::parse(&text).unwrap().find(case, "native").is_some()
        };
        assert!(covers("op/*_f16", "op/tanh_f16") && covers("op/*_f16", "op/cast_i64_f16"));
        assert!(!covers("op/*_f16", "op/tanh_bf16") && !covers("op/*_f16", "op/cast_f16_i64"));
        assert!(!covers("op/*_f16", "dtype/sum_f16"));
        assert!(covers("*", "op/tanh_f16") && covers("op/tanh_f16*", "op/tanh_f16"));
        // The text before the star and the text after it must match parts of the name that do not overlap.
        assert!(!covers("op/f16*f16", "op/f16"));
    }
}
