//! What is said of a rewriting: which rules, how far, what they may change, and for which device.

use std::sync::OnceLock;

use super::Rule;

/// How a graph is rewritten.
#[derive(Clone, Debug, Default)]
pub struct RewriteOptions {
    with: Vec<String>,
    without: Vec<String>,
    only: Option<Vec<String>>,
    tolerance: Tolerance,
    parallel: Option<Parallel>,
    pub(super) stop_after: Option<usize>,
    pub(super) texts: bool,
}

/// The variable that holds how many patches are made, to find the one that changes an answer: `FUNCIFY_STOP_AFTER=12`.
pub const STOP_AFTER_VARIABLE: &str = "FUNCIFY_STOP_AFTER";

impl RewriteOptions {
    /// All rules that need not be asked for by name, to the end, without texts.
    pub fn new() -> Self {
        RewriteOptions::default()
    }

    /// As the environment says: `FUNCIFY_STOP_AFTER`, if it is a number. It is read once.
    pub fn from_environment() -> Self {
        static STOP_AFTER: OnceLock<Option<usize>> = OnceLock::new();
        let read = || std::env::var(STOP_AFTER_VARIABLE).ok().and_then(|text| text.parse().ok());
        RewriteOptions { stop_after: *STOP_AFTER.get_or_init(read), ..RewriteOptions::default() }
    }

    /// With the rule of that name, too, which is not tried otherwise ([`Rule::on_request`]).
    pub fn with(mut self, rule: &str) -> Self {
        self.with.push(rule.to_string());
        self
    }

    /// Without the rule of that name.
    pub fn without(mut self, rule: &str) -> Self {
        self.without.push(rule.to_string());
        self
    }

    /// With these rules alone.
    pub fn only(mut self, rules: &[&str]) -> Self {
        self.only = Some(rules.iter().map(|rule| rule.to_string()).collect());
        self
    }

    /// What rewriting may change of values, [nothing but the order of sums](Tolerance::Exact) by default.
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// For a device that prefers steps side by side, or avoids them. A `Function` of the runtime asks its backend,
    /// unless it is said here; a graph that is rewritten alone is for one that avoids them.
    pub fn parallel(mut self, parallel: Parallel) -> Self {
        self.parallel = Some(parallel);
        self
    }

    /// The same for such a device, if nothing was said of it.
    pub fn or_parallel(self, parallel: Parallel) -> Self {
        RewriteOptions { parallel: self.parallel.or(Some(parallel)), ..self }
    }

    pub(super) fn has(&self, rule: &Rule) -> bool {
        let is_it = |name: &String| name == rule.name;
        let is_preferred = self.tolerance == Tolerance::Reassociated && self.parallel == Some(Parallel::Prefer);
        let is_among = match &self.only {
            Some(only) => only.iter().any(is_it),
            None => !rule.on_request || is_preferred,
        };
        !self.without.iter().any(is_it) && (is_among || self.with.iter().any(is_it))
    }

    /// All rules that are named.
    pub(super) fn named(&self) -> impl Iterator<Item = &String> {
        self.with.iter().chain(&self.without).chain(self.only.iter().flatten())
    }

    /// Only the first patches, so many.
    pub fn stop_after(mut self, patches: usize) -> Self {
        self.stop_after = Some(patches);
        self
    }

    /// With the texts of what was there before and after each patch.
    pub fn texts(mut self) -> Self {
        self.texts = true;
        self
    }
}

/// What rewriting may change of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tolerance {
    /// Nothing but the order of sums: results differ by rounding.
    #[default]
    Exact,
    /// Sums and products of floats in any order, also of factors that a loop never multiplied with each other. Their product may be
    /// infinite or 0 where no state of the loop was, which then is infinite or NaN.
    Reassociated,
}

/// Whether a device prefers work of logarithmic depth, many steps side by side, to less work one step after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parallel {
    /// The least work: processors with few cores.
    Avoid,
    /// The least depth: devices on which each step is a launch, and most of them idle in a small one.
    Prefer,
}
