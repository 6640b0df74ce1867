//! Recognises splats: values whose elements all equal one known number, the fill value.

use super::rule::RewriteContext;
use super::*;

/// The maximum number of elements that [`splat`] compares in a constant. Larger constants are not recognised as splats.
const MAX_COMPARED_ELEMENTS: usize = 1 << 12;

impl RewriteContext<'_> {
    /// Returns the tensor of a constant, or `None` if the value is not a constant.
    pub(super) fn constant(&self, value: ValueId) -> Option<&Arc<HostTensor>> {
        match &self.node(value)?.op {
            Op::Constant(constant) => Some(&constant.value),
            _ => None,
        }
    }

    /// Returns the fill value of `value` if it is known to be a splat, or `None` otherwise.
    pub(super) fn splat(&self, value: ValueId) -> Option<Scalar> {
        splat(self.graph, value)
    }
}

/// Returns the fill value of a splat: a constant with equal elements, or a broadcast, reshape or transpose of such a
/// constant. Returns `None` for any other value.
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

/// Returns `true` if two numbers are bitwise equal and not NaN.
pub(super) fn is_same(left: Scalar, right: Scalar) -> bool {
    match (left, right) {
        (Scalar::Float(left), Scalar::Float(right)) => left.to_bits() == right.to_bits() && !left.is_nan(),
        (left, right) => left == right,
    }
}

/// Returns `true` for the neutral element of addition: 0 for integers, and `-0.0` for floats. The float `0.0` is not
/// neutral, because adding it to `-0.0` gives `0.0`.
pub(super) fn is_additive_identity(scalar: Scalar) -> bool {
    scalar == Scalar::Int(0) || is_same(scalar, Scalar::Float(-0.0))
}

/// Returns `true` for the integer 0 and the float `+0.0`.
pub(super) fn is_zero(scalar: Scalar) -> bool {
    scalar == Scalar::Int(0) || is_same(scalar, Scalar::Float(0.0))
}

/// Returns `true` for the integer 1 and the float `1.0`.
pub(super) fn is_one(scalar: Scalar) -> bool {
    scalar == Scalar::Int(1) || scalar == Scalar::Float(1.0)
}
