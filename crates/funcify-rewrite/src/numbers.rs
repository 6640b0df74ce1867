//! Recognises values whose elements are known numbers, from the ops that compute them.

use super::rule::RewriteContext;
use super::*;

/// The maximum number of elements of a constant to compare.
const MAX_COMPARED_ELEMENTS: usize = 1 << 12;

impl RewriteContext<'_> {
    /// Returns the tensor of a value that is a constant.
    pub(super) fn constant(&self, value: ValueId) -> Option<&Arc<HostTensor>> {
        match &self.node(value)?.op {
            Op::Constant(constant) => Some(&constant.value),
            _ => None,
        }
    }

    /// Returns the number if all elements of a value equal the same known number.
    pub(super) fn splat(&self, value: ValueId) -> Option<Scalar> {
        splat(self.graph, value)
    }
}

/// Returns the number if all elements of a constant, or of a broadcast constant, are equal.
pub(super) fn splat(graph: &Graph, mut value: ValueId) -> Option<Scalar> {
    loop {
        let node = graph.node_of(value)?;
        match &node.op {
            Op::Broadcast(_) | Op::Reshape(_) | Op::Transpose(_) => value = node.inputs[0],
            Op::Constant(constant) => {
                let tensor = &constant.value;
                let first = (1..=MAX_COMPARED_ELEMENTS).contains(&tensor.len()).then(|| tensor.get(0))?;
                return tensor.scalars().all(|scalar| is_same(scalar, first)).then_some(first);
            }
            _ => return None,
        }
    }
}

/// Returns whether two numbers are bitwise equal; NaN equals nothing.
pub(super) fn is_same(left: Scalar, right: Scalar) -> bool {
    match (left, right) {
        (Scalar::Float(left), Scalar::Float(right)) => left.to_bits() == right.to_bits() && !left.is_nan(),
        (left, right) => left == right,
    }
}

/// Returns whether a number is the neutral element of addition: `-0.0` for floats, as 0 + -0 is 0.
pub(super) fn is_additive_identity(scalar: Scalar) -> bool {
    scalar == Scalar::Int(0) || is_same(scalar, Scalar::Float(-0.0))
}

/// Returns whether a number is zero: `+0.0` for floats.
pub(super) fn is_zero(scalar: Scalar) -> bool {
    scalar == Scalar::Int(0) || is_same(scalar, Scalar::Float(0.0))
}

/// Returns whether a number is 1.
pub(super) fn is_one(scalar: Scalar) -> bool {
    scalar == Scalar::Int(1) || scalar == Scalar::Float(1.0)
}
