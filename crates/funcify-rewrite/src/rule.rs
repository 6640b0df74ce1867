//! Rules: a name, a reason, and a function from an op in its context to a patch.

use funcify_core::Value;
use funcify_core::graph::{at_site, tracer};
use funcify_core::tree::Named;

use super::*;

/// A named rewrite.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name used to log and to disable the rule.
    pub name: &'static str,
    /// The reason for the rule, in one line.
    pub reason: &'static str,
    /// `true` if its patches add floats in another order, so that sums differ by rounding.
    pub reorders_sums: bool,
    /// `true` if it changes more than the order of sums to reduce the depth. Such a rule is tried only if
    /// [`RewriteOptions::with`](super::RewriteOptions::with) requests it, or if reassociation is
    /// [tolerated](super::Tolerance) and the device [prefers](super::Parallel) depth.
    pub on_request: bool,
    /// The function that rewrites an op; `None` for rules about a whole graph, which the driver applies.
    pub(super) apply: Option<fn(&Here<'_>) -> Option<Patch>>,
}

const fn exact(name: &'static str, reason: &'static str, apply: fn(&Here<'_>) -> Option<Patch>) -> Rule {
    Rule { name, reason, reorders_sums: false, on_request: false, apply: Some(apply) }
}

const fn reordering(name: &'static str, reason: &'static str, apply: fn(&Here<'_>) -> Option<Patch>) -> Rule {
    Rule { name, reason, reorders_sums: true, on_request: false, apply: Some(apply) }
}

const fn on_request(name: &'static str, reason: &'static str, apply: fn(&Here<'_>) -> Option<Patch>) -> Rule {
    Rule { name, reason, reorders_sums: true, on_request: true, apply: Some(apply) }
}

const fn of_graph(name: &'static str, reason: &'static str) -> Rule {
    Rule { name, reason, reorders_sums: false, on_request: false, apply: None }
}

/// The rule that removes nodes that no output needs.
pub(super) const DEAD_CODE: &str = "dead_code";

/// The rule that trims traces to the rows that are read.
pub(super) const TRIMMED: &str = "trimmed_traces";

/// The rule that shortens a loop to the steps that are read.
pub(super) const SHORTENED: &str = "shortened_loops";

/// The rule that merges loops with the same steps.
pub(super) const FUSED: &str = "fused_loops";

/// The rule that merges equal ops.
pub(super) const COMMON: &str = "common_subexpression";

/// All rules, in the order in which they are tried.
pub const RULES: &[Rule] = &[
    of_graph(DEAD_CODE, "what no output needs is not computed"),
    of_graph(TRIMMED, "a trace of which only last rows are read has only those"),
    of_graph(SHORTENED, "a loop of whose traces only first rows are read runs the steps that write them"),
    of_graph(FUSED, "a loop that reads another's trace row by row, or the same rows, is one with it"),
    of_graph(COMMON, "the same op on the same operands is computed once"),
    exact("constant_folding", "an op on small constants is a constant", fold::fold),
    exact("identity", "an op that gives its operand is that operand", identity::identity),
    exact("known_choice", "a choice whose index is constant is its branch", identity::known_choice),
    exact("movement", "two moves of the same elements are one, and none where they cancel", movement::movement),
    exact("constant_operands", "an operand of a loop that is one number is that number in each step", loops::constants),
    exact("states", "a carry that stays is an invariant, and equal carries and operands are one", loops::states),
    exact("few_steps", "a loop of no step is its initial values, and one of one step is that step", loops::few_steps),
    exact("last_rows", "a buffer of which only the last row is returned is a carry", loops::last_rows),
    exact("invariant_work", "what is the same in each step is computed once, before the loop", loops::invariants),
    exact(
        "invariant_work_of_branches",
        "what is the same in each step in a branch of a choice is computed once, before the loop",
        loops::branches,
    ),
    exact(
        "hoisting",
        "work that depends on sequences only is done for all steps at once, before the loop",
        loops::hoist,
    ),
    exact(
        "interchanged_loops",
        "a loop in a loop that depends on none of its states is one loop for all its steps",
        loops::interchange,
    ),
    exact("flattened_loops", "a loop whose step is a loop that goes on is one loop", loops::flatten),
    reordering(
        "cumulative",
        "a running sum, product or extreme is one op, and what reads it reads its rows",
        loops::cumulative,
    ),
    reordering(
        "sums_over_steps",
        "a sum over steps is taken after the loop: a sum of products is one product",
        loops::sink,
    ),
    on_request(
        "affine_recurrence",
        "a state that a step scales and adds to is an associative scan, of logarithmic depth",
        loops::affine,
    ),
];

/// The replacement of an op.
pub(super) enum Patch {
    /// Existing values, one per result.
    Values(Vec<ValueId>),
    /// A program on these operands, whose outputs are the results.
    Program(Vec<ValueId>, Graph),
}

/// An op that is about to be added to a graph.
pub(super) struct Here<'a> {
    /// The graph so far.
    pub(super) graph: &'a Graph,
    pub(super) op: &'a Op,
    pub(super) operands: &'a [ValueId],
    pub(super) site: Site,
    /// `true` for each value so far that is certainly computed: nothing that it depends on may fail.
    pub(super) certain: &'a [bool],
    /// The symbols that are not certain to be bound.
    pub(super) uncertain_sizes: &'a [Symbol],
}

impl Here<'_> {
    /// Returns the type of an operand.
    pub(super) fn ty(&self, operand: usize) -> &TensorType {
        self.graph.ty(self.operands[operand])
    }

    /// Returns the types of the operands.
    pub(super) fn types(&self) -> Vec<&TensorType> {
        self.operands.iter().map(|operand| self.graph.ty(*operand)).collect()
    }

    /// Returns the types of the results.
    pub(super) fn results(&self) -> Option<Vec<TensorType>> {
        self.op.infer(&Place::new(self.op.name(), self.site), &self.graph.types(self.operands)).ok()
    }

    /// Returns the node that computes a value, unless it is an input.
    pub(super) fn node(&self, value: ValueId) -> Option<&Node> {
        self.graph.node_of(value)
    }

    /// Returns whether the op that computes a value certainly runs without error, so that leaving it out loses no
    /// error (rewrite-c3).
    pub(super) fn is_certain(&self, value: ValueId) -> bool {
        self.node(value).is_none_or(|node| self.certainly_runs(node))
    }

    fn certainly_runs(&self, node: &Node) -> bool {
        let sizes: Vec<&Symbol> = self.uncertain_sizes.iter().collect();
        !uses_any(self.graph, node, &sizes) && cannot_fail(self.graph, node, &Sizes::new())
    }

    /// Returns whether a value can be left out while the `used` ones stay, without losing an error on the way to it
    /// (rewrite-c3).
    pub(super) fn may_leave_out(&self, value: ValueId, used: &[ValueId]) -> bool {
        if used.contains(&value) || self.certain[value.index()] {
            return true;
        }
        let node = self.node(value).filter(|node| self.certainly_runs(node));
        node.is_some_and(|node| node.inputs.iter().all(|input| used.contains(input) || self.certain[input.index()]))
    }

    /// Returns a patch that is an existing value, such as an operand.
    pub(super) fn value(&self, value: ValueId) -> Option<Patch> {
        Some(Patch::Values(vec![value]))
    }

    /// Returns a patch built from these values. Returns `None` if it is invalid, or if `build` returns `None`.
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

    /// Returns a patch that is one op on these values.
    pub(super) fn one(&self, op: impl Into<Op>, operands: &[ValueId]) -> Option<Patch> {
        let graph = Graph::of_typed_op(["patch", "v", "r"], op.into(), self.graph.types(operands), self.site).ok()?;
        Some(Patch::Program(operands.to_vec(), graph))
    }

    /// Formats the op in its context as a program, for the log.
    pub(super) fn text(&self) -> String {
        match self.one(self.op.clone(), self.operands) {
            Some(Patch::Program(_, graph)) => graph.to_string(),
            _ => String::new(),
        }
    }
}
