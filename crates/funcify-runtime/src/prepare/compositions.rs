//! Replaces custom ops with their compositions ([`CustomOp::composition`](funcify_core::ops::CustomOp::composition)).
//! In graphs that a backend compiles as a whole, all custom ops are replaced; in other graphs, only those for which the
//! backend has no kernel.
//!
//! The composition is traced for the operand types of the node, checked against the op's type rule, and inlined in
//! place of the node. Custom ops inside a composition are replaced too.

use std::borrow::Cow;
use std::sync::Arc;

use funcify_core::Value;
use funcify_core::error::{Result, Site};
use funcify_core::graph::{Failed, Graph, Input, Node, Replay, at_site, emit, inline, tracer};
use funcify_core::ops::{Custom, Op, OpRules};
use funcify_core::tree::Named;

use crate::backend::Declined;

/// The maximum nesting depth of compositions.
const MAX_DEPTH: usize = 64;

/// Replaces each custom op for which `is_selected` returns `true` with its composition. This includes custom ops in
/// bodies. Keeps ops that have no composition.
pub(crate) fn with_compositions<'g>(graph: &'g Graph, is_selected: &dyn Fn(&Custom) -> bool) -> Result<Cow<'g, Graph>> {
    match has_custom(graph, is_selected) {
        true => Composer { is_selected, reserved: vec![Arc::new(graph.clone())], depth: 0 }.with_compositions(graph),
        false => Ok(Cow::Borrowed(graph)),
    }
}

/// Returns the composition of a custom op for the types of a node, or `None` if the op has no composition.
pub(crate) fn composition(graph: &Graph, node: &Node, custom: &Custom) -> Result<Option<Graph>> {
    custom.composition(&node.place(), &graph.types(&node.inputs), &graph.types(&node.outputs))
}

/// Replaces the reason in `declined` with a message about the missing composition, if the op that prevents compilation
/// is a custom op.
pub(crate) fn explain_missing_composition(graph: &Graph, declined: Declined) -> Declined {
    match has_custom(graph, &|custom| custom.name() == declined.op) {
        true => Declined::new(
            declined.op,
            "the custom op has no composition; implement `CustomOp::composition` for it, so that it can be compiled",
        ),
        false => declined,
    }
}

/// Returns `true` if a graph, or a body in it, has a custom op for which `is_one` returns `true`.
fn has_custom(graph: &Graph, is_one: &dyn Fn(&Custom) -> bool) -> bool {
    graph.nodes().iter().any(|node| match &node.op {
        Op::Custom(custom) => is_one(custom),
        op => op.bodies().into_iter().any(|body| has_custom(body, is_one)),
    })
}

struct Composer<'a> {
    is_selected: &'a dyn Fn(&Custom) -> bool,
    /// The graphs whose symbols are reserved, so that no new symbol takes one of their names.
    reserved: Vec<Arc<Graph>>,
    /// The number of compositions that enclose the current graph.
    depth: usize,
}

/// The replacement for a node.
enum Replacement {
    /// The same op, possibly with rewritten bodies.
    Op(Op),
    /// The composition of a custom op.
    Composition(Arc<Graph>),
}

impl Composer<'_> {
    fn with_compositions<'g>(&mut self, graph: &'g Graph) -> Result<Cow<'g, Graph>> {
        if !has_custom(graph, self.is_selected) {
            return Ok(Cow::Borrowed(graph));
        }
        let replacements = graph.nodes().iter().zip(graph.live_nodes());
        let replacements = replacements.map(|(node, live)| live.then(|| self.replacement(graph, node)).transpose());
        let replacements = replacements.collect::<Result<Vec<_>>>()?;
        // The branches of a switch have no names, so they need a default name here.
        let name = if tracer::is_identifier(graph.name()) { graph.name() } else { "body" };
        let built = tracer::build(name, Site::Unknown, |_| {
            self.reserved.iter().for_each(|reserved| tracer::reserve_symbols(reserved));
            let input = |(index, input): (usize, &Input)| {
                // The parameters of a body may have duplicate names, but the tracer requires unique input names.
                let (own, other) = (graph.input_name(index), format!("x{index}"));
                let name = if tracer::has_input(own) || !tracer::is_identifier(own) { &other } else { own };
                tracer::input(name, graph.input_type(index).clone(), input.is_static, Site::Unknown)
            };
            let inputs: Vec<Value> = graph.inputs().iter().enumerate().map(input).collect();
            let replayed = Replay::new(graph, inputs).walk_live(|index, node, operands| {
                at_site(node.site, || match &replacements[index] {
                    Some(Replacement::Op(op)) => emit(op.clone(), &operands),
                    // The composition may be inlined several times, so its symbols must be renamed.
                    Some(Replacement::Composition(graph)) => inline(&graph.with_fresh_symbols(), &operands),
                    None => unreachable!("every replayed node is live and has a replacement"),
                })
            })?;
            Ok::<_, Failed>(Named(graph.named_outputs(replayed.outputs()?)))
        })?;
        self.reserved.push(Arc::new(built.clone()));
        Ok(Cow::Owned(built))
    }

    fn replacement(&mut self, graph: &Graph, node: &Node) -> Result<Replacement> {
        let Op::Custom(custom) = &node.op else {
            let bodies =
                node.op.bodies().into_iter().map(|body| Ok(Arc::new(self.with_compositions(body)?.into_owned())));
            let bodies = bodies.collect::<Result<Vec<_>>>()?;
            return Ok(Replacement::Op(node.op.with_bodies(bodies)));
        };
        let composition = if (self.is_selected)(custom) { composition(graph, node, custom)? } else { None };
        let Some(composition) = composition else { return Ok(Replacement::Op(node.op.clone())) };
        if self.depth == MAX_DEPTH {
            let (most, fix) =
                (format!("at most {MAX_DEPTH} nested compositions"), "express it with ops other than itself");
            return Err(node.place().mismatch("its composition", most, "more", fix));
        }
        self.depth += 1;
        let inner = self.with_compositions(&composition)?.into_owned();
        self.depth -= 1;
        Ok(Replacement::Composition(Arc::new(inner)))
    }
}
