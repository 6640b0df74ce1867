//! Options for rewriting: the enabled rules, the maximum number of patches, the tolerance, and the device preference.

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

/// The name of the environment variable that limits the number of patches, as in `FUNCIFY_STOP_AFTER=12`. Use it to
/// find the patch that changes a result.
///
/// ```
/// assert_eq!(funcify::rewrite::STOP_AFTER_VARIABLE, "FUNCIFY_STOP_AFTER");
/// ```
pub const STOP_AFTER_VARIABLE: &str = "FUNCIFY_STOP_AFTER";

impl RewriteOptions {
    /// Creates the default options: all rules except those that run only on request, no limit on patches, and no
    /// recording of [`texts`](Self::texts).
    pub fn new() -> Self {
        RewriteOptions::default()
    }

    /// Creates the default options, with the patch limit from `FUNCIFY_STOP_AFTER` if that variable is set. The
    /// variable is read only once per process.
    pub fn from_environment() -> Self {
        static STOP_AFTER: OnceLock<Option<usize>> = OnceLock::new();
        let read = || std::env::var(STOP_AFTER_VARIABLE).ok().and_then(|text| text.parse().ok());
        RewriteOptions { stop_after: *STOP_AFTER.get_or_init(read), ..RewriteOptions::default() }
    }

    /// Enables the rule named `rule`. Only rules that run on request ([`Rule::on_request`]) are disabled by default.
    pub fn with(mut self, rule: &str) -> Self {
        self.with.push(rule.to_string());
        self
    }

    /// Disables the rule named `rule`.
    pub fn without(mut self, rule: &str) -> Self {
        self.without.push(rule.to_string());
        self
    }

    /// Disables all rules except the given ones.
    pub fn only(mut self, rules: &[&str]) -> Self {
        self.only = Some(rules.iter().map(|rule| rule.to_string()).collect());
        self
    }

    /// Sets the tolerance for changes in results. The default is [`Tolerance::Exact`], which allows only the
    /// reassociation of sums.
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets whether the device prefers parallel steps. By default, a `Function` of the runtime uses the preference of
    /// its backend, and other callers use [`Parallel::Avoid`].
    pub fn parallel(mut self, parallel: Parallel) -> Self {
        self.parallel = Some(parallel);
        self
    }

    /// Sets the device preference, unless it is already set.
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

    /// Returns the names of all rules that these options enable or disable by name.
    pub(super) fn named(&self) -> impl Iterator<Item = &String> {
        self.with.iter().chain(&self.without).chain(self.only.iter().flatten())
    }

    /// Limits the number of patches. Rewriting stops when the limit is reached.
    pub fn stop_after(mut self, patches: usize) -> Self {
        self.stop_after = Some(patches);
        self
    }

    /// Enables the recording of the text of each replaced op and of its replacement.
    pub fn texts(mut self) -> Self {
        self.texts = true;
        self
    }
}

/// The changes in results that rewriting is allowed to cause.
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
    /// Sums may be reassociated, so results may differ by rounding error.
    #[default]
    Exact,
    /// Sums and products of floats may be reassociated. This includes products of factors that the loop never
    /// multiplies with each other. Such a product may overflow or underflow even if all states of the original loop are
    /// finite. A state may then become 0, infinite or NaN.
    Reassociated,
}

/// The preference of a device: less work in sequential steps, or logarithmic depth with more work in parallel steps.
///
/// ```
/// use funcify::dispatch::{Backend, Reference};
/// use funcify::rewrite::Parallel;
///
/// assert_eq!(Reference.parallel(), Parallel::Avoid);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parallel {
    /// The device prefers less work, as a processor with few cores does.
    Avoid,
    /// The device prefers less depth, because each step is a kernel launch and small kernels leave most of the device
    /// idle.
    Prefer,
}
