//! Options for rewriting: the rules, the number of patches, the tolerated changes, and the device.

use std::sync::OnceLock;

use super::Rule;

/// Options for rewriting a graph.
///
/// ```
/// use funcify::prelude::*;
/// use funcify::rewrite::RewriteOptions;
///
/// let graph = Graph::build("plain", |g| (g.input("x", "f32[2,3]") * 1.0).t().t())?;
/// let only = RewriteOptions::new().only(&["identity"]);
/// assert!(graph.rewritten_with(&only)?.patches.iter().all(|patch| patch.rule == "identity"));
/// let first = RewriteOptions::new().stop_after(1);
/// assert_eq!(graph.rewritten_with(&first)?.patches.len(), 1);
/// # Ok::<(), funcify::Error>(())
/// ```
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

/// The environment variable that limits the number of patches, to find the one that changes a result:
/// `FUNCIFY_STOP_AFTER=12`.
///
/// ```
/// assert_eq!(funcify::rewrite::STOP_AFTER_VARIABLE, "FUNCIFY_STOP_AFTER");
/// ```
pub const STOP_AFTER_VARIABLE: &str = "FUNCIFY_STOP_AFTER";

impl RewriteOptions {
    /// Enables all rules that need no request, without a limit and without texts.
    pub fn new() -> Self {
        RewriteOptions::default()
    }

    /// Reads the options from the environment: `FUNCIFY_STOP_AFTER`, if it is a number. The variable is read once.
    pub fn from_environment() -> Self {
        static STOP_AFTER: OnceLock<Option<usize>> = OnceLock::new();
        let read = || std::env::var(STOP_AFTER_VARIABLE).ok().and_then(|text| text.parse().ok());
        RewriteOptions { stop_after: *STOP_AFTER.get_or_init(read), ..RewriteOptions::default() }
    }

    /// Adds the rule of that name, which is not tried otherwise ([`Rule::on_request`]).
    pub fn with(mut self, rule: &str) -> Self {
        self.with.push(rule.to_string());
        self
    }

    /// Removes the rule of that name.
    pub fn without(mut self, rule: &str) -> Self {
        self.without.push(rule.to_string());
        self
    }

    /// Enables only these rules.
    pub fn only(mut self, rules: &[&str]) -> Self {
        self.only = Some(rules.iter().map(|rule| rule.to_string()).collect());
        self
    }

    /// Sets the value changes that rewriting may cause. The default is [only the order of sums](Tolerance::Exact).
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets whether the device prefers parallel steps. If it is not set, a `Function` of the runtime asks its
    /// backend, and a graph rewritten on its own assumes [`Parallel::Avoid`].
    pub fn parallel(mut self, parallel: Parallel) -> Self {
        self.parallel = Some(parallel);
        self
    }

    /// Sets the device preference if it is not set yet.
    #[doc(hidden)]
    pub fn or_parallel(self, parallel: Parallel) -> Self {
        RewriteOptions { parallel: self.parallel.or(Some(parallel)), ..self }
    }

    pub(super) fn is_enabled(&self, rule: &Rule) -> bool {
        let is_it = |name: &String| name == rule.name;
        let is_preferred = self.tolerance == Tolerance::Reassociated && self.parallel == Some(Parallel::Prefer);
        let is_among = match &self.only {
            Some(only) => only.iter().any(is_it),
            None => !rule.on_request || is_preferred,
        };
        !self.without.iter().any(is_it) && (is_among || self.with.iter().any(is_it))
    }

    /// Returns all rules named in the options.
    pub(super) fn named(&self) -> impl Iterator<Item = &String> {
        self.with.iter().chain(&self.without).chain(self.only.iter().flatten())
    }

    /// Limits the number of patches.
    pub fn stop_after(mut self, patches: usize) -> Self {
        self.stop_after = Some(patches);
        self
    }

    /// Records the text before and after each patch.
    pub fn texts(mut self) -> Self {
        self.texts = true;
        self
    }
}

/// The changes of values that rewriting may make.
///
/// ```
/// use funcify::rewrite::{Parallel, RewriteOptions, Tolerance};
/// use funcify::{Graph, rewrite::Rewrite, scan};
///
/// let decay = Graph::build("decay", |g| {
///     let [xs, a] = [g.input("xs", "f32[T]"), g.input("a", "f32[]")];
///     scan(a.zeros_like(), xs, |h, x| (h * a + x, h)).1
/// })?;
/// let options = RewriteOptions::new().parallel(Parallel::Prefer);
/// assert!(decay.rewritten_with(&options)?.graph.to_string().contains(" scan"));
/// let options = options.tolerance(Tolerance::Reassociated);
/// assert!(decay.rewritten_with(&options)?.graph.to_string().contains("associative_scan"));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tolerance {
    /// Only the order of sums: results differ by rounding.
    #[default]
    Exact,
    /// Any order of sums and products of floats, including products of factors that a loop never multiplies with each
    /// other. Such a product may be infinite or 0 where no state of the loop is, which makes the state infinite or NaN.
    Reassociated,
}

/// A device's preference between work of logarithmic depth, with many parallel steps, and less work in sequential
/// steps.
///
/// ```
/// use funcify::dispatch::{Backend, Reference};
/// use funcify::rewrite::Parallel;
///
/// assert_eq!(Reference.parallel(), Parallel::Avoid);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parallel {
    /// Prefers the least work, as on processors with few cores.
    Avoid,
    /// Prefers the least depth, as on devices where each step is a kernel launch, and a small kernel leaves most of the
    /// device idle.
    Prefer,
}
