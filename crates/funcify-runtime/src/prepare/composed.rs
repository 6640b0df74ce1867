//! Compositions in the place of custom ops ([`CustomOp::composition`](funcify_core::ops::CustomOp::composition)): for what a backend
//! compiles as a whole, and for programs that run op by op on a backend without a kernel for the op.
//!
//! A composition is traced for the types of one node, checked against the op's type rule, and inlined where the node was. It
//! may have custom ops of its own, whose compositions take their places, too.

use std::borrow::Cow;
use std::sync::Arc;

use funcify_core::Value;
use funcify_core::error::{Result, Site};
use funcify_core::graph::{Failed, Graph, Input, Node, Replay, at_site, emit, inline, tracer};
use funcify_core::ops::{Custom, Op, OpRules};
use funcify_core::tree::Named;

use crate::backend::Declined;

/// How many compositions may lie inside one another.
const DEPTH: usize = 64;

/// Puts compositions in the place of the custom ops that `chooses` names and that have one, also in bodies.
pub(crate) fn composed<'g>(graph: &'g Graph, chooses: &dyn Fn(&Custom) -> bool) -> Result<Cow<'g, Graph>> {
    match has_custom(graph, chooses) {
        true => Composer { chooses, made: vec![Arc::new(graph.clone())], depth: 0 }.composed(graph),
        false => Ok(Cow::Borrowed(graph)),
    }
}

/// The composition of a node, if it has one.
pub(crate) fn composition(graph: &Graph, node: &Node, custom: &Custom) -> Result<Option<Graph>> {
    custom.composition(&node.place(), &graph.types(&node.inputs), &graph.types(&node.outputs))
}

/// Says of a custom op in the way of a compiled program that it has no composition.
pub(crate) fn explain(graph: &Graph, declined: Declined) -> Declined {
    match has_custom(graph, &|custom| custom.name() == declined.op) {
        true => Declined::new(
            declined.op,
            "the custom op has no composition; implement `CustomOp::composition` for it, so that it can be compiled",
        ),
        false => declined,
    }
}

/// Whether a graph or a body in it has such a custom op.
fn has_custom(graph: &Graph, is_one: &dyn Fn(&Custom) -> bool) -> bool {
    graph.nodes().iter().any(|node| match &node.op {
        Op::Custom(custom) => is_one(custom),
        op => op.bodies().into_iter().any(|body| has_custom(body, is_one)),
    })
}

struct Composer<'a> {
    chooses: &'a dyn Fn(&Custom) -> bool,
    /// The graphs whose symbols no other part may bind again.
    made: Vec<Arc<Graph>>,
    /// How many compositions the graph at hand lies in.
    depth: usize,
}

/// What takes a node's place.
enum Replacement {
    /// The op, perhaps with other bodies.
    Op(Op),
    /// The op's composition.
    Composition(Arc<Graph>),
}

impl Composer<'_> {
    fn composed<'g>(&mut self, graph: &'g Graph) -> Result<Cow<'g, Graph>> {
        if !has_custom(graph, self.chooses) {
            return Ok(Cow::Borrowed(graph));
        }
        let replacements = graph.nodes().iter().zip(graph.live_nodes());
        let replacements = replacements.map(|(node, live)| live.then(|| self.replacement(graph, node)).transpose());
        let replacements = replacements.collect::<Result<Vec<_>>>()?;
        // The branches of a choice have no name.
        let name = if tracer::is_identifier(graph.name()) { graph.name() } else { "body" };
        let built = tracer::build(name, Site::Unknown, |_| {
            self.made.iter().for_each(|made| tracer::reserve_symbols(made));
            let input = |(index, input): (usize, &Input)| {
                // A body may have two parameters of one name.
                let (own, other) = (graph.input_name(index), format!("x{index}"));
                let name = if tracer::has_input(own) || !tracer::is_identifier(own) { &other } else { own };
                tracer::input(name, graph.input_type(index).clone(), input.is_static, Site::Unknown)
            };
            let inputs: Vec<Value> = graph.inputs().iter().enumerate().map(input).collect();
            let replayed = Replay::new(graph, inputs).live(|index, node, operands| {
                at_site(node.site, || match &replacements[index] {
                    Some(Replacement::Op(op)) => emit(op.clone(), &operands),
                    // What it binds may be bound once more: by the same op at another place.
                    Some(Replacement::Composition(graph)) => inline(&graph.with_fresh_symbols(), &operands),
                    None => unreachable!("only live nodes are replayed"),
                })
            })?;
            Ok::<_, Failed>(Named(graph.named_outputs(replayed.outputs()?)))
        })?;
        self.made.push(Arc::new(built.clone()));
        Ok(Cow::Owned(built))
    }

    fn replacement(&mut self, graph: &Graph, node: &Node) -> Result<Replacement> {
        let Op::Custom(custom) = &node.op else {
            let bodies = node.op.bodies().into_iter().map(|body| Ok(Arc::new(self.composed(body)?.into_owned())));
            let bodies = bodies.collect::<Result<Vec<_>>>()?;
            return Ok(Replacement::Op(node.op.with_bodies(bodies)));
        };
        let composition = if (self.chooses)(custom) { composition(graph, node, custom)? } else { None };
        let Some(composition) = composition else { return Ok(Replacement::Op(node.op.clone())) };
        if self.depth == DEPTH {
            let (most, fix) =
                (format!("at most {DEPTH} compositions in one another"), "compose it of other ops than itself");
            return Err(node.place().mismatch("its composition", most, "more", fix));
        }
        self.depth += 1;
        let inner = self.composed(&composition)?.into_owned();
        self.depth -= 1;
        Ok(Replacement::Composition(Arc::new(inner)))
    }
}
