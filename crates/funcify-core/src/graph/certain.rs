//! Which ops certainly end, and are not refused when they run.
//!
//! One that may be must not run where it would not have (before a loop, which may have no steps), and must not be left out
//! where it would have: the error would become a value.

use smallvec::SmallVec;

use super::live::uses_any;
use super::{Graph, Node};
use crate::ops::{Op, OpRules};
use crate::types::{Dim, Sizes, Symbol, TensorType};

/// Whether an op is not refused when it runs, whatever its operands hold: no size that it makes can be negative, no axis
/// that it indexes is empty, the rows that it reads are there, and it ends. `sizes` are those that are known.
pub fn is_certain(graph: &Graph, node: &Node, sizes: &Sizes) -> bool {
    let (known, op) = (Known(sizes), &node.op);
    let operands: SmallVec<[&TensorType; 4]> = node.inputs.iter().map(|input| graph.ty(*input)).collect();
    let is_given = |dim: &Dim| operands.iter().any(|ty| ty.shape.dims().contains(dim));
    let mut made = node.outputs.iter().flat_map(|output| graph.ty(*output).shape.dims());
    made.all(|dim| known.is_natural(dim) || is_given(dim))
        && attributes_are_natural(op, &known)
        && reads_what_is_there(op, &operands, &known)
        && op.bodies().iter().all(|body| body.nodes().iter().all(|node| is_certain(body, node, sizes)))
}

/// What is known of sizes.
pub struct Known<'a>(pub(crate) &'a Sizes);

impl Known<'_> {
    /// Whether one size surely is at least the other.
    pub(crate) fn is_at_least(&self, large: &Dim, small: &Dim) -> bool {
        if let (Some(large), Some(small)) = (large.constant(), small.constant()) {
            return large >= small;
        }
        large.substitute(self.0).is_at_least(&small.substitute(self.0)) == Some(true)
    }

    /// Whether a size surely is not negative.
    pub(crate) fn is_natural(&self, dim: &Dim) -> bool {
        match dim.constant() {
            Some(number) => number >= 0,
            None => dim.as_symbol().is_some() || self.is_at_least(dim, &Dim::from(0)),
        }
    }

    fn has_elements(&self, ty: &TensorType, axis: usize) -> bool {
        self.is_at_least(&ty.shape[axis], &Dim::from(1))
    }
}

fn attributes_are_natural(op: &Op, known: &Known<'_>) -> bool {
    if matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Reshape(_) | Op::Broadcast(_) | Op::Transpose(_)) {
        // Their sizes are those of their results.
        return true;
    }
    op.attributes().iter().all(|(_, attribute)| attribute.dims().iter().all(|dim| known.is_natural(dim)))
}

/// Whether what an op takes of its operands surely lies in them.
fn reads_what_is_there(op: &Op, operands: &[&TensorType], known: &Known<'_>) -> bool {
    let size = |axis: usize| &operands[0].shape[axis];
    match op {
        Op::Take(op) => known.has_elements(operands[0], op.axis),
        Op::Gather(op) => known.has_elements(operands[0], op.axis),
        Op::ArgMax(op) => known.has_elements(operands[0], op.axis),
        Op::Slice(op) => known.is_at_least(size(op.axis), &op.limit) && known.is_at_least(&op.limit, &op.start),
        Op::DynamicSlice(op) => known.is_at_least(size(op.axis), &op.size),
        // A negative number is refused.
        Op::BindSize(_) => operands[0].dtype.is_unsigned(),
        Op::DynamicUpdate(op) => known.is_at_least(size(op.axis), &operands[1].shape[op.axis]),
        op => op.bodied().is_none_or(|op| op.surely_runs(operands, known)),
    }
}

/// Which values of a graph are certainly computed: no op that they depend on may be refused, by an operand or by a size.
pub(super) fn certain_values(graph: &Graph) -> Vec<bool> {
    let mut certain = vec![true; graph.values.len()];
    let mut uncertain_sizes: Vec<&Symbol> = Vec::new();
    for node in &graph.nodes {
        let is_so = node.inputs.iter().all(|input| certain[input.index()])
            && !uses_any(graph, node, &uncertain_sizes)
            && is_certain(graph, node, &Sizes::new());
        node.outputs.iter().for_each(|output| certain[output.index()] = is_so);
        uncertain_sizes.extend(node.op.binds().filter(|_| !is_so));
    }
    certain
}
