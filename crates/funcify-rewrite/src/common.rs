//! Eliminates common subexpressions (global value numbering; PyTensor's `MergeOptimizer`): the same op on the same
//! operands, in the same body, is computed once.
//!
//! Two ops are candidates if they have the same name and the same operands, in any order if the op is commutative. They
//! are merged if their attributes and bodies are also equal. Custom ops, calls to functions with derivative rules, and
//! ops that bind a size are never merged.

use funcify_core::graph::NodeId;
use smallvec::SmallVec;

use super::rule::RewriteContext;
use super::*;

/// The number of elements above which constants are compared by address instead of by value.
const PRINTED_ELEMENTS: usize = 64;

/// The name and the operands of an op. Equal ops have equal keys.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Key(&'static str, SmallVec<[u32; 4]>);

/// The available expressions: the ops placed in a body so far.
pub(super) struct Available(HashMap<Key, Placed>);

/// The ops that share a key. Formatting an op as text is expensive, so it is deferred until a second op with the same
/// key is looked up.
enum Placed {
    One(NodeId),
    More(HashMap<String, NodeId>),
}

impl Available {
    /// Creates an empty table with capacity for `ops` ops.
    pub(super) fn of(ops: usize) -> Self {
        Available(HashMap::with_capacity(ops))
    }

    /// Returns the results of an equal op that was placed earlier, or `None` if there is no such op.
    pub(super) fn find(&mut self, key: &Key, context: &RewriteContext<'_>) -> Option<Vec<ValueId>> {
        let placed = self.0.get_mut(key)?;
        if let Placed::One(node) = placed {
            *placed = Placed::More(HashMap::from([(text(&context.graph.node(*node).op), *node)]));
        }
        let Placed::More(texts) = placed else { return None };
        Some(context.graph.node(*texts.get(&text(context.op))?).outputs.clone())
    }

    /// Adds the op of a node that was just placed.
    pub(super) fn add(&mut self, key: Key, node: NodeId, op: &Op) {
        if let Placed::More(texts) = self.0.entry(key).or_insert(Placed::One(node)) {
            texts.insert(text(op), node);
        }
    }
}

/// Returns the key of an op, or `None` if the op is never merged.
pub(super) fn key(context: &RewriteContext<'_>) -> Option<Key> {
    if is_never_merged(context.op) {
        return None;
    }
    let mut operands: SmallVec<[u32; 4]> = context.operands.iter().map(|operand| operand.index() as u32).collect();
    if let Op::Binary(Binary::Add | Binary::Mul | Binary::And | Binary::Or | Binary::Xor) = context.op {
        operands.sort_unstable();
    }
    Some(Key(context.op.name(), operands))
}

/// Formats an op with its attributes and bodies as text. Represents a large constant by its address.
pub(super) fn text(op: &Op) -> String {
    match op {
        Op::Constant(Constant { value }) if value.len() > PRINTED_ELEMENTS => format!("at {:p}", Arc::as_ptr(value)),
        Op::Constant(Constant { value }) => format!("{value:?}"),
        op => format!("{op:?}"),
    }
}

/// Returns `true` if an op must never be merged: it is opaque, it binds a size, or its bodies contain such an op.
fn is_never_merged(op: &Op) -> bool {
    op.is_opaque()
        || op.binds().next().is_some()
        || op.bodies().into_iter().any(|body| body.nodes().iter().any(|node| is_never_merged(&node.op)))
}
