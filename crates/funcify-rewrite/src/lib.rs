//! Rewrites: a program arranged as an expert would have arranged it, with the values that it had.
//!
//! A rewrite is a named rule, which looks at one op with its operands and gives a patch: values that are there
//! already, or a small program that takes the op's place. The driver puts a graph together again, op by op, and
//! asks each rule at each op, bodies first, until none has anything to say. So a graph is read in order and never changed in
//! place: what a rule sees before an op is rewritten already, and a chain of ops takes one pass.
//!
//! - **rewrite-c1** types, names of inputs and outputs, and the lines of ops stay.
//! - **rewrite-c2** no rule changes a value, a NaN, an infinity or the sign of a zero. The rules that add in another order
//!   than a loop does ([`RULES`] says which) give sums within rounding. One that may do more is tried only where it is asked for
//!   by name, or where what it may do is [tolerated](Tolerance) and the device prefers what it makes.
//! - **rewrite-c3** an error stays an error, and none is added: what may be refused when it runs is neither left out nor run
//!   where it would not have run.
//! - **rewrite-c4** it ends, and rewriting what was rewritten changes nothing.
//!
//! Rewrites come after derivatives: what was moved out of a loop is outside of it for a derivative, too. Loops that say
//! where their derivative ends (scan-c8) are left as they are.

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

use funcify_core::cancel::{Ran, check_in_force};
use funcify_core::error::{Place, Result, Site};
use funcify_core::graph::{Copy, Graph, Node, Source, ValueId, is_certain, uses_any};
use funcify_core::ops::scan::{Returned, Scan};
use funcify_core::ops::{Binary, Constant, Movement, Op, OpClass, OpRules, Slice};
use funcify_core::types::{Dim, Sizes, Symbol, TensorType};
use funcify_core::{HostTensor, Scalar};

/// A patch that was made.
#[derive(Clone, PartialEq, Debug)]
pub struct Patched {
    /// The rule's name.
    pub rule: &'static str,
    /// The line of the op that it was made of.
    pub site: Site,
    /// The op before, as a text; empty unless [`RewriteOptions::texts`] asks for it.
    pub before: String,
    /// What took its place.
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

/// What became of a graph.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The graph.
    pub graph: Graph,
    /// The patches, in the order in which they were made.
    pub patches: Vec<Patched>,
    /// How often the driver went through the graph, the last time in vain.
    pub passes: usize,
}

impl Rewritten {
    /// How often each rule made a patch, by the rules' names.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        counts(&self.patches)
    }
}

/// How often each rule made one of these patches, by the rules' names.
pub fn counts<'p>(patches: impl IntoIterator<Item = &'p Patched>) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    patches.into_iter().for_each(|patch| *counts.entry(patch.rule).or_default() += 1);
    counts
}

/// Rewrites of graphs, as methods.
pub trait Rewrite {
    /// Returns the same program, arranged anew by all [`rules`](RULES).
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

    /// [`rewritten`](Rewrite::rewritten) with options, and with the list of patches.
    ///
    /// # Errors
    /// A name of no rule; what is wrong with the graph.
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

/// Rewrites a graph that is sound, as [`rewritten_with`](Rewrite::rewritten_with) does; `at` is what errors name.
///
/// # Errors
/// A name of no rule; a cancellation.
pub fn rewritten_at(at: &Place, graph: &Graph, options: &RewriteOptions) -> Result<Rewritten> {
    let is_rule = |name: &&String| RULES.iter().any(|rule| rule.name == name.as_str());
    let Some(unknown) = options.named().find(|name| !is_rule(name)) else {
        let rewritten = driver::rewrite(graph, options);
        check_in_force(|| at.clone(), Ran::Ops(0))?;
        return Ok(rewritten);
    };
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    let (expected, found) = (format!("one of {}", names.join(", ")), format!("`{unknown}`"));
    Err(at.mismatch("the name of a rule", expected, found, "name a rule that there is"))
}
