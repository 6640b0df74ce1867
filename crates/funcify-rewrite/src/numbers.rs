//! Which number a value is, by the ops that make it.

use super::rule::Here;
use super::*;

/// How many elements of a constant are looked at.
const MOST_ELEMENTS: usize = 1 << 12;

impl Here<'_> {
    /// The tensor that a value is, if a constant.
    pub(super) fn constant(&self, value: ValueId) -> Option<&Arc<HostTensor>> {
        match &self.node(value)?.op {
            Op::Constant(constant) => Some(&constant.value),
            _ => None,
        }
    }

    /// The one number that all elements of a value are.
    pub(super) fn splat(&self, value: ValueId) -> Option<Scalar> {
        splat(self.graph, value)
    }
}

/// The one number that all elements of a value are: of a constant, or of one that is repeated.
pub(super) fn splat(graph: &Graph, mut value: ValueId) -> Option<Scalar> {
    loop {
        let node = graph.node_of(value)?;
        match &node.op {
            Op::Broadcast(_) | Op::Reshape(_) | Op::Transpose(_) => value = node.inputs[0],
            Op::Constant(constant) => {
                let tensor = &constant.value;
                let first = (1..=MOST_ELEMENTS).contains(&tensor.len()).then(|| tensor.get(0))?;
                return tensor.scalars().all(|scalar| is_same(scalar, first)).then_some(first);
            }
            _ => return None,
        }
    }
}

/// Whether two numbers are the same to the bit; no NaN is.
pub(super) fn is_same(left: Scalar, right: Scalar) -> bool {
    match (left, right) {
        (Scalar::Float(left), Scalar::Float(right)) => left.to_bits() == right.to_bits() && !left.is_nan(),
        (left, right) => left == right,
    }
}

/// Whether a number is the one that adds nothing to any: of floats -0, as 0 + -0 is 0.
pub(super) fn adds_nothing(scalar: Scalar) -> bool {
    scalar == Scalar::Int(0) || is_same(scalar, Scalar::Float(-0.0))
}

/// Whether a number is zero, of floats the positive one.
pub(super) fn is_zero(scalar: Scalar) -> bool {
    scalar == Scalar::Int(0) || is_same(scalar, Scalar::Float(0.0))
}

/// Whether a number is 1.
pub(super) fn is_one(scalar: Scalar) -> bool {
    scalar == Scalar::Int(1) || scalar == Scalar::Float(1.0)
}
