//! Eliminates common subexpressions (global value numbering; PyTensor's `MergeOptimizer`): the same op on the same
//! operands, in the same body, is computed once.
//!
//! Ops of the same name on the same operands, in any order where the op is commutative (`a + b` is `b + a`), are
//! compared by their attributes and bodies. Ops of other crates, calls of functions with derivative rules, and loops
//! that bind a size are never merged.

use funcify_core::graph::NodeId;
use smallvec::SmallVec;

use super::rule::RewriteContext;
use super::*;

/// The number of elements above which constants are compared by address.
const PRINTED_ELEMENTS: usize = 64;

/// The properties that equal ops must share: the name, and the operands.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Key(&'static str, SmallVec<[u32; 4]>);

/// The available expressions: the ops of a body so far.
pub(super) struct Available(HashMap<Key, Placed>);

/// The ops with a key: a single op, or several ops keyed by their texts. An op's text is computed only once a second op
/// has the same key.
enum Placed {
    One(NodeId),
    More(HashMap<String, NodeId>),
}

impl Available {
    /// Creates an empty table with room for `ops` ops.
    pub(super) fn of(ops: usize) -> Self {
        Available(HashMap::with_capacity(ops))
    }

    /// Returns the results of an equal op placed earlier.
    pub(super) fn find(&mut self, key: &Key, context: &RewriteContext<'_>) -> Option<Vec<ValueId>> {
        let placed = self.0.get_mut(key)?;
        if let Placed::One(node) = placed {
            *placed = Placed::More(HashMap::from([(text(&context.graph.node(*node).op), *node)]));
        }
        let Placed::More(texts) = placed else { return None };
        Some(context.graph.node(*texts.get(&text(context.op))?).outputs.clone())
    }

    /// Records the op that computed these results.
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

/// Formats an op with its attributes and bodies as text.
pub(super) fn text(op: &Op) -> String {
    match op {
        Op::Constant(Constant { value }) if value.len() > PRINTED_ELEMENTS => format!("at {:p}", Arc::as_ptr(value)),
        Op::Constant(Constant { value }) => format!("{value:?}"),
        op => format!("{op:?}"),
    }
}

/// Returns whether an op must not be merged, because of the op itself or of an op in its bodies.
fn is_never_merged(op: &Op) -> bool {
    op.is_opaque()
        || op.binds().next().is_some()
        || op.bodies().into_iter().any(|body| body.nodes().iter().any(|node| is_never_merged(&node.op)))
}
