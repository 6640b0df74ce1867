//! Determines which ops are certain to terminate without a run-time error.
//!
//! Moving an op that may fail must not make it run in cases where the original program would not run it. For example,
//! such an op must not be hoisted out of a loop, because the loop may have zero steps. An op that may fail must not be
//! removed if the original program would run it: without the op, the program would return a value instead of the error.

use smallvec::SmallVec;

use super::live::uses_any;
use super::*;
use crate::ops::{Movement, OpClass};

/// Returns `true` if an op cannot fail at run time, regardless of the elements of its operands. Such an op computes no
/// negative size, indexes no empty axis, reads only rows that exist, and terminates. `sizes` contains the known sizes.
pub fn cannot_fail(graph: &Graph, node: &Node, sizes: &Sizes) -> bool {
    let (known, op) = (KnownSizes(sizes), &node.op);
    let operands: SmallVec<[&TensorType; 4]> = node.inputs.iter().map(|input| graph.ty(*input)).collect();
    let is_given = |dim: &Dim| operands.iter().any(|ty| ty.shape.dims().contains(dim));
    let mut made = node.outputs.iter().flat_map(|output| graph.ty(*output).shape.dims());
    made.all(|dim| known.is_nonnegative(dim) || is_given(dim))
        && attributes_are_nonnegative(op, &known)
        && op.is_certain_to_succeed(&operands, &known)
        && op.bodies().iter().all(|body| body.nodes().iter().all(|node| cannot_fail(body, node, sizes)))
}

/// The known sizes of symbols, used to compare dimensions.
pub struct KnownSizes<'a>(pub &'a Sizes);

impl KnownSizes<'_> {
    /// Returns `true` if `large` is provably at least `small`.
    pub(crate) fn is_at_least(&self, large: &Dim, small: &Dim) -> bool {
        if let (Some(large), Some(small)) = (large.constant(), small.constant()) {
            return large >= small;
        }
        large.substitute(self.0).is_at_least(&small.substitute(self.0)) == Some(true)
    }

    /// Returns `true` if a size is provably nonnegative.
    pub(crate) fn is_nonnegative(&self, dim: &Dim) -> bool {
        match dim.constant() {
            Some(number) => number >= 0,
            None => dim.as_symbol().is_some() || self.is_at_least(dim, &Dim::from(0)),
        }
    }

    /// Returns `true` if a tensor provably has no elements.
    pub(crate) fn is_empty(&self, ty: &TensorType) -> bool {
        ty.shape.dims().iter().any(|dim| self.is_at_least(&Dim::from(0), dim))
    }

    pub(crate) fn has_elements(&self, ty: &TensorType, axis: usize) -> bool {
        self.is_at_least(&ty.shape[axis], &Dim::from(1))
    }
}

fn attributes_are_nonnegative(op: &Op, known: &KnownSizes<'_>) -> bool {
    let are_nonnegative =
        || op.attributes().iter().all(|(_, attribute)| attribute.dims().iter().all(|dim| known.is_nonnegative(dim)));
    match op.class() {
        // The only sizes in the attributes of these ops are the result sizes, which the caller checks.
        OpClass::Elementwise(_) | OpClass::Movement(Movement::Reshape(_) | Movement::Broadcast(_)) => true,
        OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) | OpClass::Along(_) => are_nonnegative(),
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => are_nonnegative(),
        OpClass::Control(_) | OpClass::Custom(_) => are_nonnegative(),
    }
}

/// Returns, for each value, whether it is certain to be computed: no op that it depends on, through operands or
/// through sizes, can fail.
pub(super) fn certain_values(graph: &Graph) -> Vec<bool> {
    let mut certain = vec![true; graph.values.len()];
    let mut uncertain_sizes: Vec<&Symbol> = Vec::new();
    for node in &graph.nodes {
        let is_so = node.inputs.iter().all(|input| certain[input.index()])
            && !uses_any(graph, node, &uncertain_sizes)
            && cannot_fail(graph, node, &Sizes::new());
        node.outputs.iter().for_each(|output| certain[output.index()] = is_so);
        uncertain_sizes.extend(node.op.binds().filter(|_| !is_so));
    }
    certain
}
