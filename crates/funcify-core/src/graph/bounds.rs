//! Bounds on integers that follow from the ops that compute them.

use super::*;
use crate::ops::{Along, Binary, Cast, Constant, Creation, Elementwise, Movement, OpClass, Reduce, ReduceKind};
use crate::types::DType;

/// The maximum number of ops between a value and the constants that bound it.
const MAX_DEPTH: usize = 16;
/// The maximum number of elements of a constant that may be a bound.
const MAX_ELEMENTS: usize = 64;

/// Bounds on all elements of a value. `None` is an unknown bound.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bounds {
    /// No element is less than this number.
    pub low: Option<i64>,
    /// No element is greater than this number.
    pub high: Option<i64>,
}

impl Bounds {
    /// Returns the bounds that hold for the elements of both values.
    fn union(self, other: Bounds) -> Bounds {
        let both = |bound: fn(Bounds) -> Option<i64>| bound(self).zip(bound(other));
        Bounds { low: both(|it| it.low).map(|(a, b)| a.min(b)), high: both(|it| it.high).map(|(a, b)| a.max(b)) }
    }
}

/// Returns the bounds of an integer value that follow from the constants from which ops such as `minimum` or `select`
/// compute it.
#[doc(hidden)]
pub fn integer_bounds(graph: &Graph, value: ValueId) -> Bounds {
    bounds_within(graph, value, MAX_DEPTH)
}

fn bounds_within(graph: &Graph, value: ValueId, depth: usize) -> Bounds {
    let Some(Node { op, inputs, .. }) = graph.node_of(value) else { return Bounds::default() };
    if depth == 0 || !graph.ty(value).dtype.is_int() {
        return Bounds::default();
    }
    let of = |operand: &ValueId| bounds_within(graph, *operand, depth - 1);
    let all = |operands: &[ValueId]| operands.iter().map(of).reduce(Bounds::union).unwrap_or_default();
    match op.class() {
        OpClass::Elementwise(Elementwise::Binary(Binary::Min)) => {
            Bounds { high: inputs.iter().filter_map(|input| of(input).high).min(), ..all(inputs) }
        }
        OpClass::Elementwise(Elementwise::Binary(Binary::Max)) => {
            Bounds { low: inputs.iter().filter_map(|input| of(input).low).max(), ..all(inputs) }
        }
        OpClass::Elementwise(Elementwise::Select(_)) => all(&inputs[1..]),
        // A cast to a narrower type may wrap around.
        OpClass::Elementwise(Elementwise::Cast(Cast { dtype: DType::I64 })) => all(inputs),
        OpClass::Movement(Movement::Bitcast(_)) => Bounds::default(),
        OpClass::Movement(_) => all(inputs),
        OpClass::Along(Along::Reduce(Reduce { kind: ReduceKind::Max | ReduceKind::Min, axes })) => {
            // The maximum of no elements is the smallest integer.
            let shape = &graph.ty(inputs[0]).shape;
            let is_empty = axes.iter().any(|axis| shape[*axis].is_at_least(&Dim::from(1)) != Some(true));
            if is_empty { Bounds::default() } else { all(inputs) }
        }
        OpClass::Creation(Creation::Constant(Constant { value })) if value.len() <= MAX_ELEMENTS => {
            let numbers = || (0..value.len()).map(|index| value.get(index).as_i64());
            Bounds { low: numbers().min(), high: numbers().max() }
        }
        OpClass::Elementwise(_) | OpClass::Creation(_) | OpClass::Indexing(_) | OpClass::Along(_) => Bounds::default(),
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => Bounds::default(),
        OpClass::Control(_) | OpClass::Custom(_) => Bounds::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bounds, integer_bounds};
    use crate::{DType, Graph, HostTensor, Value, concat, constant, select};

    fn bounds_of(program: impl FnOnce(Value) -> Value) -> (Option<i64>, Option<i64>) {
        let graph = Graph::build("bounds", |g| program(g.input("n", "i64[3]"))).unwrap();
        let Bounds { low, high } = integer_bounds(&graph, graph.outputs()[0].value);
        (low, high)
    }

    #[test]
    fn constants_bound_what_is_computed_from_them() {
        assert_eq!(bounds_of(|n| n), (None, None));
        assert_eq!(bounds_of(|n| n.minimum(7)), (None, Some(7)));
        assert_eq!(bounds_of(|n| n.minimum(7).maximum(-2).minimum(9)), (Some(-2), Some(7)));
        assert_eq!(bounds_of(|n| select(n.gt(5), -1, n)), (None, None));
        assert_eq!(bounds_of(|n| select(n.gt(5), -1, n.maximum(2).minimum(5))), (Some(-1), Some(5)));
        let nine = || constant(HostTensor::from([9i64]));
        assert_eq!(bounds_of(|n| concat(&[n.minimum(3).maximum(1), nine()], 0).max(0)), (Some(1), Some(9)));
        assert_eq!(bounds_of(|n| n.minimum(3).maximum(1).slice(0, 0..0).max(0)), (None, None));
        assert_eq!(bounds_of(|n| n.minimum(4) + 1), (None, None));
    }

    /// 2^32 + 5 becomes 5 if it is cast to 32 bits, and -2^31 - 1 becomes 2^31 - 1.
    #[test]
    fn a_cast_that_may_wrap_around_has_no_bounds() {
        assert_eq!(bounds_of(|n| n.minimum(3).cast(DType::I32)), (None, None));
        assert_eq!(bounds_of(|n| n.cast(DType::I32).minimum(3).cast(DType::I64)), (None, Some(3)));
    }
}
