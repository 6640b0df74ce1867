//! Defines the rewrite rules. A rule has a name, a reason, and, unless it applies to whole graphs, a function that
//! returns a patch for an op.

use funcify_core::Value;
use funcify_core::graph::{at_site, tracer};
use funcify_core::tree::Named;

use super::*;

/// A rewrite rule, with its name and its reason.
///
/// ```
/// use funcify::rewrite::RULES;
///
/// let rule = RULES.iter().find(|rule| rule.name == "dead_code").unwrap();
/// assert!(!rule.reorders_sums && !rule.on_request);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of the rule in logs and options.
    pub name: &'static str,
    /// The reason why the replacement is valid or useful, in one line.
    pub reason: &'static str,
    /// `true` if the rule reassociates sums of floats. Results may then differ by rounding error.
    pub reorders_sums: bool,
    /// `true` if the rule also reassociates products, in order to reduce depth. Such a rule runs only if
    /// [`RewriteOptions::with`](super::RewriteOptions::with) requests it, or if reassociation is
    /// [tolerated](super::Tolerance) and the device [prefers](super::Parallel) less depth.
    pub on_request: bool,
    /// The function that rewrites an op, or `None` for a rule that the driver applies to whole graphs.
    pub(super) apply: Option<fn(&RewriteContext<'_>) -> Option<Patch>>,
}

const fn exact(name: &'static str, reason: &'static str, apply: fn(&RewriteContext<'_>) -> Option<Patch>) -> Rule {
    Rule { name, reason, reorders_sums: false, on_request: false, apply: Some(apply) }
}

const fn reordering(name: &'static str, reason: &'static str, apply: fn(&RewriteContext<'_>) -> Option<Patch>) -> Rule {
    Rule { name, reason, reorders_sums: true, on_request: false, apply: Some(apply) }
}

const fn on_request(name: &'static str, reason: &'static str, apply: fn(&RewriteContext<'_>) -> Option<Patch>) -> Rule {
    Rule { name, reason, reorders_sums: true, on_request: true, apply: Some(apply) }
}

const fn whole_graph(name: &'static str, reason: &'static str) -> Rule {
    Rule { name, reason, reorders_sums: false, on_request: false, apply: None }
}

/// The name of the rule that removes nodes that no output needs.
pub(super) const DEAD_CODE: &str = "dead_code";

/// The name of the rule that trims traces to the last rows if nothing reads the earlier ones.
pub(super) const TRIMMED: &str = "trimmed_traces";

/// The name of the rule that removes the last steps of a loop if nothing reads their results.
pub(super) const SHORTENED: &str = "shortened_loops";

/// The name of the rule that merges loops that have the same number of steps and the same direction.
pub(super) const FUSED: &str = "fused_loops";

/// The name of the rule that eliminates common subexpressions.
pub(super) const COMMON: &str = "common_subexpression";

/// All rules, in the order in which they are tried.
///
/// ```
/// use funcify::rewrite::RULES;
///
/// for rule in RULES.iter().filter(|rule| !rule.on_request) {
///     println!("{}: {}", rule.name, rule.reason);
/// }
/// ```
pub const RULES: &[Rule] = &[
    whole_graph(DEAD_CODE, "ops whose results no output needs can be left out"),
    whole_graph(TRIMMED, "if only the last rows of a trace are read, the other rows need not be stored"),
    whole_graph(
        SHORTENED,
        "if only the first rows of its traces are read, a loop can stop after the steps that write them",
    ),
    whole_graph(
        FUSED,
        "a loop that reads the trace of another row by row, or the same sequence, can be merged with it",
    ),
    whole_graph(COMMON, "the same op on the same operands needs to be computed only once"),
    exact("constant_folding", "an op on small constants can be evaluated before the program runs", fold::fold),
    exact("identity", "an op that returns its operand unchanged can be replaced by that operand", identity::identity),
    exact(
        "known_choice",
        "a switch with a constant index can be replaced by the selected branch",
        identity::known_choice,
    ),
    exact("movement", "two successive moves of elements can be merged, or removed if they cancel", movement::movement),
    exact(
        "constant_operands",
        "a loop operand whose elements are all the same constant can be replaced by that constant",
        loops::constants,
    ),
    exact(
        "states",
        "a carry that never changes can become an invariant, and equal carries or operands can be merged",
        loops::states,
    ),
    exact(
        "few_steps",
        "a loop of no steps returns its initial values, and a loop of one step can be replaced by that step",
        loops::few_steps,
    ),
    exact("last_rows", "a buffer of which only the last row is returned can be replaced by a carry", loops::last_rows),
    exact("invariant_work", "work that is the same in each step can be done once, before the loop", loops::invariants),
    exact(
        "invariant_work_of_branches",
        "work in a branch that is the same in each step can be done once, before the loop",
        loops::branches,
    ),
    exact(
        "hoisted_lookups",
        "table lookups that depend only on sequences can be done for all steps at once, before the loop",
        loops::hoist_lookups,
    ),
    exact(
        "hoisting",
        "work that depends only on sequences can be done for all steps at once, before the loop",
        loops::hoist,
    ),
    exact(
        "interchanged_loops",
        "an inner loop that depends on no state of the outer loop can run once, for all outer steps together",
        loops::interchange,
    ),
    exact(
        "flattened_loops",
        "a loop whose step is an inner loop that continues its states can be merged with it into one loop",
        loops::flatten,
    ),
    reordering(
        "cumulative",
        "a running sum, product, maximum or minimum can be one cumulative op, whose rows the loop reads",
        loops::cumulative,
    ),
    reordering(
        "padded_sums",
        "a sum over steps of values that are padded with zeros can be padded after the loop",
        loops::padded_sums,
    ),
    reordering(
        "sums_over_steps",
        "a sum over steps can be computed after the loop, where a sum of products becomes a single product",
        loops::sink,
    ),
    on_request(
        "affine_recurrence",
        "a state that each step only scales and shifts can be an associative scan, which has logarithmic depth",
        loops::affine,
    ),
];

/// The replacement for an op.
pub(super) enum Patch {
    /// Existing values of the graph, one for each result.
    Values(Vec<ValueId>),
    /// A program and its operands. The outputs of the program replace the results of the op.
    Program(Vec<ValueId>, Graph),
}

/// An op that is about to be added to the rewritten graph, with the facts that rules need.
pub(super) struct RewriteContext<'a> {
    /// The part of the rewritten graph that is already built.
    pub(super) graph: &'a Graph,
    pub(super) op: &'a Op,
    pub(super) operands: &'a [ValueId],
    pub(super) site: Site,
    /// For each value of the graph, `true` if none of the ops that compute it, directly or indirectly, can fail.
    pub(super) certain: &'a [bool],
    /// The symbols that may be unbound at run time because the op that binds them may fail.
    pub(super) uncertain_sizes: &'a [Symbol],
}

impl RewriteContext<'_> {
    /// Returns the type of the operand with index `operand`.
    pub(super) fn ty(&self, operand: usize) -> &TensorType {
        self.graph.ty(self.operands[operand])
    }

    /// Returns the types of the operands.
    pub(super) fn types(&self) -> Vec<&TensorType> {
        self.operands.iter().map(|operand| self.graph.ty(*operand)).collect()
    }

    /// Returns the types of the results, or `None` if the op rejects the types of its operands.
    pub(super) fn results(&self) -> Option<Vec<TensorType>> {
        self.op.infer(&Place::new(self.op.name(), self.site), &self.graph.types(self.operands)).ok()
    }

    /// Returns the node that computes a value, or `None` for an input.
    pub(super) fn node(&self, value: ValueId) -> Option<&Node> {
        self.graph.node_of(value)
    }

    /// Returns `true` if a value is an input, or if the op that computes it cannot fail and may therefore be removed
    /// (rewrite-c3).
    pub(super) fn is_certain(&self, value: ValueId) -> bool {
        self.node(value).is_none_or(|node| self.certainly_runs(node))
    }

    fn certainly_runs(&self, node: &Node) -> bool {
        let sizes: Vec<&Symbol> = self.uncertain_sizes.iter().collect();
        !uses_any(self.graph, node, &sizes) && cannot_fail(self.graph, node, &Sizes::new())
    }

    /// Returns `true` if a value may become unused (rewrite-c3): none of the ops that compute it can fail, except those
    /// that still run to compute the `used` values.
    pub(super) fn may_leave_out(&self, value: ValueId, used: &[ValueId]) -> bool {
        if used.contains(&value) || self.certain[value.index()] {
            return true;
        }
        let node = self.node(value).filter(|node| self.certainly_runs(node));
        node.is_some_and(|node| node.inputs.iter().all(|input| used.contains(input) || self.certain[input.index()]))
    }

    /// Returns a patch that replaces the op with an existing value, such as an operand.
    pub(super) fn value(&self, value: ValueId) -> Option<Patch> {
        Some(Patch::Values(vec![value]))
    }

    /// Builds a patch by tracing `build` on the given operands. Returns `None` if `build` returns `None`, or if the
    /// traced program is invalid.
    pub(super) fn build(
        &self,
        operands: &[ValueId],
        build: impl FnOnce(&[Value]) -> Option<Vec<Value>>,
    ) -> Option<Patch> {
        let mut is_built = false;
        let built = tracer::build("patch", self.site, |_| {
            self.op.bodies().into_iter().for_each(|body| tracer::reserve_symbols(body));
            let input = |(index, operand): (usize, &ValueId)| {
                tracer::input(&format!("v{index}"), self.graph.ty(*operand).clone(), false, self.site)
            };
            let inputs: Vec<Value> = operands.iter().enumerate().map(input).collect();
            let outputs = at_site(self.site, || build(&inputs));
            is_built = outputs.is_some();
            let outputs = outputs.into_iter().flatten().enumerate();
            Ok(Named(outputs.map(|(index, value)| (format!("r{index}"), value)).collect()))
        });
        let graph = built.ok().filter(|_| is_built)?;
        Some(Patch::Program(operands.to_vec(), graph))
    }

    /// Returns a patch that consists of a single op on the given operands, or `None` if the op rejects their types.
    pub(super) fn one_op(&self, op: impl Into<Op>, operands: &[ValueId]) -> Option<Patch> {
        let graph = Graph::of_typed_op(["patch", "v", "r"], op.into(), self.graph.types(operands), self.site).ok()?;
        Some(Patch::Program(operands.to_vec(), graph))
    }

    /// Formats the op as a program on its operands, for the log.
    pub(super) fn text(&self) -> String {
        match self.one_op(self.op.clone(), self.operands) {
            Some(Patch::Program(_, graph)) => graph.to_string(),
            _ => String::new(),
        }
    }
}
