//! Optimises programs as an expert would by hand, without changing their results.
//!
//! A rewrite is a named rule. It examines one op with its operands and returns a patch: existing values, or a small
//! program that replaces the op. The driver rebuilds a graph op by op and tries each rule on each op, bodies first,
//! until no rule applies. The driver reads the original graph in order and does not modify it. All ops before the
//! current one have already been rewritten, so one pass is enough for a chain of ops.
//!
//! - **rewrite-c1** Types, names of inputs and outputs, and the source lines of ops stay the same.
//! - **rewrite-c2** No rule changes a value, a NaN, an infinity or the sign of a zero, except by reassociation. Rules
//!   that reassociate sums (marked in [`RULES`]) may change results by rounding error. A rule that may change results
//!   by more than rounding error runs only if it is requested by name, or if its effects are [tolerated](Tolerance) and
//!   the device prefers less depth.
//! - **rewrite-c3** A rewritten program fails if and only if the original program fails. An op that may fail at run
//!   time is neither removed nor moved to a point where it runs more often than before.
//! - **rewrite-c4** Rewriting terminates and is idempotent.
//!
//! Programs are differentiated first and rewritten afterwards. If rewriting came first, work that it moves out of a
//! loop would not be differentiated as part of the loop. Loops with a truncated derivative (scan-c8) are left
//! unchanged.

mod bisect;
mod common;
mod driver;
mod fold;
mod fuse;
mod identity;
mod loops;
mod movement;
mod numbers;
mod options;
mod prefix;
mod rule;
#[cfg(test)]
mod tests;
mod trim;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

pub use bisect::first_wrong;
pub use options::{Parallel, RewriteOptions, STOP_AFTER_VARIABLE, Tolerance};
pub use rule::{RULES, Rule};

use funcify_core::cancel::{Progress, check_cancelled};
use funcify_core::error::{Place, Result, Site};
use funcify_core::graph::{Graph, GraphCopy, Node, Source, ValueId, cannot_fail, uses_any};
use funcify_core::ops::scan::{Returned, Scan};
use funcify_core::ops::{Binary, Constant, Movement, Op, OpClass, OpRules, Slice};
use funcify_core::types::{Dim, Sizes, Symbol, TensorType};
use funcify_core::{HostTensor, Scalar};

/// A patch that was applied.
///
/// ```
/// use funcify::prelude::*;
/// use funcify::rewrite::RewriteOptions;
///
/// let graph = Graph::build("same", |g| g.input("x", "f32[2]") * 1.0)?;
/// let patches = graph.rewritten_with(&RewriteOptions::new().texts())?.patches;
/// let patch = patches.iter().find(|patch| patch.rule == "identity").unwrap();
/// assert!(patch.before.contains("mul"));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Patched {
    /// The name of the rule.
    pub rule: &'static str,
    /// The source line of the replaced op.
    pub site: Site,
    /// The text of the replaced op. Empty unless [`RewriteOptions::texts`] is set.
    pub before: String,
    /// The text of the replacement. Empty unless [`RewriteOptions::texts`] is set.
    pub after: String,
}

impl fmt::Display for Patched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.rule, self.site)?;
        for (mark, text) in [("-", &self.before), ("+", &self.after)] {
            text.lines().try_for_each(|line| writeln!(f, "  {mark} {line}"))?;
        }
        Ok(())
    }
}

/// The result of rewriting a graph.
///
/// ```
/// use funcify::prelude::*;
/// use funcify::rewrite::RewriteOptions;
///
/// let graph = Graph::build("same", |g| g.input("x", "f32[2]") * 1.0)?;
/// let rewritten = graph.rewritten_with(&RewriteOptions::new())?;
/// assert!(rewritten.graph.nodes().is_empty());
/// assert_eq!(rewritten.counts()["identity"], 1);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The rewritten graph.
    pub graph: Graph,
    /// The patches, in the order in which they were applied.
    pub patches: Vec<Patched>,
    /// The number of passes over the graph, including the last one, which changes nothing.
    pub passes: usize,
}

impl Rewritten {
    /// Returns the number of patches of each rule, keyed by rule name.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        counts(&self.patches)
    }
}

/// Counts the given patches by rule. The keys of the returned map are the rule names.
#[doc(hidden)]
pub fn counts<'p>(patches: impl IntoIterator<Item = &'p Patched>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    patches.into_iter().for_each(|patch| *counts.entry(patch.rule).or_default() += 1);
    counts
}

/// Adds methods for rewriting to [`Graph`].
///
/// ```
/// use funcify::prelude::*;
///
/// let graph = Graph::build("twice", |g| {
///     let x = g.input("x", "f32[2]");
///     x.exp() + x.exp() // computed once
/// })?;
/// assert_eq!((graph.nodes().len(), graph.rewritten().nodes().len()), (3, 2));
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Rewrite {
    /// Rewrites the program with all [`rules`](RULES) that are enabled by default.
    ///
    /// ```
    /// use funcify::prelude::*;
    ///
    /// let graph = Graph::build("twice", |g| {
    ///     let x = g.input("x", "f32[2,3]");
    ///     x.t().t() * 1.0
    /// })?;
    /// assert_eq!(graph.rewritten().to_string(), "fn @twice(%x: f32[2,3]) {\n  return out=%x\n}\n");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    fn rewritten(&self) -> Graph;

    /// Rewrites the program with the given options. Returns the rewritten graph and the patches that were applied.
    ///
    /// ```
    /// use funcify::prelude::*;
    /// use funcify::rewrite::RewriteOptions;
    ///
    /// let graph = Graph::build("same", |g| g.input("x", "f32[2]") * 1.0)?;
    /// let options = RewriteOptions::new().without("identity");
    /// assert!(graph.rewritten_with(&options)?.patches.is_empty());
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the options name an unknown rule, if the graph is invalid, or if the call is cancelled.
    #[track_caller]
    fn rewritten_with(&self, options: &RewriteOptions) -> Result<Rewritten>;
}

impl Rewrite for Graph {
    fn rewritten(&self) -> Graph {
        driver::rewrite(self, &RewriteOptions::default()).graph
    }

    #[track_caller]
    fn rewritten_with(&self, options: &RewriteOptions) -> Result<Rewritten> {
        let at = Place::new("rewrite", Site::caller());
        self.checked()?;
        rewritten_at(&at, self, options)
    }
}

/// Rewrites a graph that is known to be valid. Errors report `at` as their place.
///
/// # Errors
/// Returns an error if the options name an unknown rule, or if the call is cancelled.
#[doc(hidden)]
pub fn rewritten_at(at: &Place, graph: &Graph, options: &RewriteOptions) -> Result<Rewritten> {
    let is_rule = |name: &&String| RULES.iter().any(|rule| rule.name == name.as_str());
    let Some(unknown) = options.named().find(|name| !is_rule(name)) else {
        let rewritten = driver::rewrite(graph, options);
        check_cancelled(|| at.clone(), Progress::Ops(0))?;
        return Ok(rewritten);
    };
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    let (expected, found) = (format!("one of {}", names.join(", ")), format!("`{unknown}`"));
    Err(at.mismatch("the name of a rule", expected, found, "use the name of an existing rule"))
}
