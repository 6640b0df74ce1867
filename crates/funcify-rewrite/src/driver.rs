//! Implements the driver, which rebuilds a graph op by op and tries each rule on each op.
//!
//! The driver processes the ops of a replacement like any other ops, so it also tries the rules on them. Bodies are
//! rewritten before the ops that contain them. The driver repeats passes over a graph until nothing changes. Rules make
//! a program smaller or move work out of a loop, so rewriting terminates; `MAX_PASSES` is only a safeguard.

use std::borrow::Cow;

use funcify_core::cancel::ActiveHandles;
use funcify_core::graph::Replay;

use super::common::{self, Available};
use super::fuse::fuse_loops;
use super::prefix::shorten_loops;
use super::rule::{COMMON, DEAD_CODE, FUSED, Patch, RULES, RewriteContext, Rule, SHORTENED, TRIMMED};
use super::trim::trim_traces;
use super::*;

/// The maximum number of passes over a graph. Tests check that no program reaches it.
pub(super) const MAX_PASSES: usize = 64;

/// The maximum nesting depth of patches applied to the results of other patches. Deeper patches are left to the next
/// pass.
const MAX_PATCH_DEPTH: usize = 32;

/// Rewrites a graph until nothing changes.
pub(super) fn rewrite(graph: &Graph, options: &RewriteOptions) -> Rewritten {
    let is_on = |rule: &&Rule| options.is_enabled(rule);
    let mut driver = Driver {
        rules: RULES.iter().filter(is_on).collect(),
        left: options.stop_after.unwrap_or(usize::MAX),
        texts: options.texts,
        patches: Vec::new(),
        finished: HashMap::new(),
        watch: ActiveHandles::current(),
    };
    let mut graph = Cow::Borrowed(graph);
    for passes in 1..=MAX_PASSES {
        let before = driver.patches.len();
        if driver.watch.is_cancelled() {
            return Rewritten { graph: graph.into_owned(), patches: driver.patches, passes };
        }
        if let Some(next) = driver.without_dead_code(&graph) {
            graph = Cow::Owned(next);
        }
        if let Some(next) = driver.pass(&graph) {
            graph = Cow::Owned(next);
        }
        if driver.patches.len() == before {
            return Rewritten { graph: graph.into_owned(), patches: driver.patches, passes };
        }
    }
    Rewritten { graph: graph.into_owned(), patches: driver.patches, passes: MAX_PASSES }
}

struct Driver {
    /// The enabled rules.
    rules: Vec<&'static Rule>,
    /// The number of patches that may still be applied.
    left: usize,
    texts: bool,
    patches: Vec<Patched>,
    /// The fully rewritten bodies, keyed by address. Holding the bodies keeps their addresses unique.
    finished: HashMap<*const Graph, Arc<Graph>>,
    /// The handles that can cancel rewriting. On cancellation, the partly rebuilt graph is discarded.
    watch: ActiveHandles,
}

impl Driver {
    fn is_enabled(&self, name: &str) -> bool {
        self.left > 0 && self.rules.iter().any(|rule| rule.name == name)
    }

    fn log(&mut self, rule: &'static str, site: Site, texts: impl FnOnce() -> [String; 2]) {
        self.left -= 1;
        let [before, after] = if self.texts { texts() } else { Default::default() };
        self.patches.push(Patched { rule, site, before, after });
    }

    /// Removes the nodes that no output needs. Returns `None` if every node is needed, or if the rule `dead_code` is
    /// disabled.
    fn without_dead_code(&mut self, graph: &Graph) -> Option<Graph> {
        let pruned = self.is_enabled(DEAD_CODE).then(|| graph.pruned_strict())??;
        self.log(DEAD_CODE, Site::Unknown, || [graph.to_string(), pruned.to_string()]);
        Some(pruned)
    }

    /// Runs one pass over a graph. Returns `None` if nothing changes, if rebuilding fails, or if the limit on patches
    /// has been reached.
    fn pass(&mut self, graph: &Graph) -> Option<Graph> {
        if self.left == 0 {
            return None;
        }
        let before = self.patches.len();
        let shortened = self.apply_to_graph(SHORTENED, graph, shorten_loops);
        let trimmed = self.apply_to_graph(TRIMMED, shortened.as_ref().unwrap_or(graph), trim_traces);
        let placed = self.place_all(trimmed.as_ref().or(shortened.as_ref()).unwrap_or(graph));
        if placed.is_none() {
            // Rebuilding failed, so the pass leaves the graph unchanged and its patches do not count.
            self.left += self.patches.len() - before;
            self.patches.truncate(before);
        }
        if self.patches.len() == before {
            // No other rule applies, so all work that can be moved out of a loop has been moved, and loops may be
            // merged.
            return self.apply_to_graph(FUSED, graph, fuse_loops);
        }
        placed
    }

    /// Applies a rule that rewrites whole graphs. Returns `None` if the rule is disabled or changes nothing.
    fn apply_to_graph(
        &mut self,
        rule: &'static str,
        graph: &Graph,
        apply: fn(&Graph) -> Option<(Graph, Site)>,
    ) -> Option<Graph> {
        let (changed, site) = self.is_enabled(rule).then(|| apply(graph))??;
        self.log(rule, site, || [graph.to_string(), changed.to_string()]);
        Some(changed)
    }

    fn place_all(&mut self, graph: &Graph) -> Option<Graph> {
        let certain = vec![true; graph.inputs().len()];
        let mut to = Placing {
            graph: GraphCopy::with_inputs_of(graph).graph,
            available: Available::of(graph.nodes().len()),
            certain,
            uncertain_sizes: Vec::new(),
        };
        let inputs: Vec<ValueId> = to.graph.inputs().iter().map(|input| input.value).collect();
        let results = self.place_nodes(&mut to, graph, &inputs, 0, Driver::with_bodies)?;
        graph.outputs().iter().zip(results).for_each(|(output, id)| to.graph.push_output(&output.name, id));
        Some(to.graph)
    }

    /// Returns an op with rewritten bodies. Calls to functions with derivative rules are left unchanged, because the
    /// derivative rule belongs to the original body.
    fn with_bodies(&mut self, op: &Op) -> Op {
        if op.bodies().is_empty() || op.is_opaque() {
            return op.clone();
        }
        let bodies = op.bodies().into_iter().map(|body| {
            if self.finished.contains_key(&Arc::as_ptr(body)) {
                return body.clone();
            }
            self.pass(body).map(Arc::new).unwrap_or_else(|| {
                self.finished.insert(Arc::as_ptr(body), body.clone());
                body.clone()
            })
        });
        op.with_bodies(bodies.collect())
    }

    /// Places an op, or its replacement if a rule applies, in the graph that is being rebuilt. Returns the results, or
    /// `None` if rewriting is cancelled or fails.
    fn place(
        &mut self,
        to: &mut Placing,
        op: Op,
        operands: &[ValueId],
        types: Vec<TensorType>,
        site: Site,
        depth: usize,
    ) -> Option<Vec<ValueId>> {
        if self.watch.is_cancelled() {
            return None;
        }
        let (graph, certain, uncertain_sizes) = (&to.graph, &to.certain, &to.uncertain_sizes);
        let context = RewriteContext { graph, op: &op, operands, site, certain, uncertain_sizes };
        let key = if self.is_enabled(COMMON) { common::key(&context) } else { None };
        if let Some(same) = key.as_ref().and_then(|key| to.available.find(key, &context)) {
            let is_constant = matches!(op, Op::Constant(_));
            self.log(COMMON, site, || {
                [context.text(), if is_constant { String::new() } else { names(&context, &same) }]
            });
            return Some(same);
        }
        if let Some((rule, patch)) = self.patch(&context).filter(|_| depth < MAX_PATCH_DEPTH) {
            let after = |patch: &Patch| match patch {
                Patch::Values(values) => names(&context, values),
                Patch::Program(_, program) => program.to_string(),
            };
            self.log(rule, site, || [context.text(), after(&patch)]);
            return match patch {
                Patch::Values(values) => Some(values),
                Patch::Program(operands, program) => {
                    self.place_nodes(to, &program, &operands, depth + 1, |_, op| op.clone())
                }
            };
        }
        let results = to.node(op, operands, types, site)?;
        if let Some((key, node)) = key.zip(to.graph.last_node()) {
            to.available.add(key, node, &to.graph.node(node).op);
        }
        Some(results)
    }

    /// Returns the patch of the first rule that applies to an op, with the name of the rule. Returns `None` if no rule
    /// applies, or if the patch would change a type or drop an op that may fail.
    fn patch(&self, context: &RewriteContext<'_>) -> Option<(&'static str, Patch)> {
        if self.left == 0 {
            return None;
        }
        let (rule, patch) = self.rules.iter().find_map(|rule| Some((rule.name, (rule.apply?)(context)?)))?;
        let (types, used) = match &patch {
            Patch::Values(values) => (context.graph.types(values), values),
            Patch::Program(operands, program) => {
                (program.outputs().iter().map(|output| program.ty(output.value).clone()).collect(), operands)
            }
        };
        // rewrite-c1
        let is_right = context.results() == Some(types);
        debug_assert!(is_right, "{rule} changes the type of {}", context.text());
        let loses_nothing = context.operands.iter().all(|operand| context.may_leave_out(*operand, used));
        (is_right && loses_nothing).then_some((rule, patch))
    }

    /// Places the nodes of `graph` in the graph that is being rebuilt, with `inputs` as the values of its inputs.
    /// Transforms each node's op with `op` before placing the node. Returns the values of the outputs of `graph`, or
    /// `None` if a node cannot be placed.
    fn place_nodes(
        &mut self,
        to: &mut Placing,
        graph: &Graph,
        inputs: &[ValueId],
        depth: usize,
        op: fn(&mut Self, &Op) -> Op,
    ) -> Option<Vec<ValueId>> {
        let all = vec![true; graph.nodes().len()];
        let placed = Replay::new(graph, inputs.iter().copied()).walk_marked(&all, |_, node, operands| {
            let op = op(self, &node.op);
            let results = self.place(to, op, &operands, graph.types(&node.outputs), node.site, depth).ok_or(())?;
            to.graph.keep_names(graph, node, &results);
            Ok::<_, ()>(results)
        });
        placed.ok()?.outputs().ok()
    }
}

/// A graph that is being rebuilt.
struct Placing {
    graph: Graph,
    available: Available,
    /// For each value, `true` if computing it cannot fail.
    certain: Vec<bool>,
    /// The symbols that may be unbound at run time because the op that binds them may fail.
    uncertain_sizes: Vec<Symbol>,
}

impl Placing {
    /// Adds an op with results of the given types. The types remain valid after rewriting, because no patch changes a
    /// type (rewrite-c1). Returns the results, or `None` if the graph rejects the op.
    fn node(&mut self, op: Op, operands: &[ValueId], types: Vec<TensorType>, site: Site) -> Option<Vec<ValueId>> {
        let bound: Vec<Symbol> = op.binds().cloned().collect();
        let results = self.graph.push_typed(op, operands, types, site).ok()?;
        let sizes: Vec<&Symbol> = self.uncertain_sizes.iter().collect();
        let is_new_certain = operands.iter().all(|operand| self.certain[operand.index()])
            && self.graph.nodes().last().is_none_or(|node| {
                !uses_any(&self.graph, node, &sizes) && cannot_fail(&self.graph, node, &Sizes::new())
            });
        self.uncertain_sizes.extend(bound.into_iter().filter(|_| !is_new_certain));
        self.certain.resize(self.certain.len() + results.len(), is_new_certain);
        Some(results)
    }
}

/// Formats values for the log. A value without a name is described by the op that computes it.
fn names(context: &RewriteContext<'_>, values: &[ValueId]) -> String {
    let name = |value: &ValueId| match (context.graph.value_name(*value), context.node(*value)) {
        (Some(name), _) => format!("%{name}: {}", context.graph.ty(*value)),
        (None, Some(node)) => format!("the {} before: {}", node.op.name(), context.graph.ty(*value)),
        (None, None) => context.graph.ty(*value).to_string(),
    };
    values.iter().map(name).collect::<Vec<_>>().join(", ")
}
