//! Upper bounds on integers that follow from the ops that compute them.

use super::*;
use crate::DType;
use crate::ops::{Along, Binary, Cast, Constant, Creation, Elementwise, Movement, OpClass, Reduce, ReduceKind};

/// The maximum number of ops between a value and the constants that bound it.
const MAX_DEPTH: usize = 16;
/// The maximum number of elements of a constant that may be a bound.
const MAX_ELEMENTS: usize = 64;

/// Returns an upper bound on all elements of an integer value. The bound is a constant from which ops such as `minimum`
/// or `select` compute the value. Returns `None` if no bound is known.
#[doc(hidden)]
pub fn upper_bound(graph: &Graph, value: ValueId) -> Option<i64> {
    bound_within(graph, value, MAX_DEPTH)
}

fn bound_within(graph: &Graph, value: ValueId, depth: usize) -> Option<i64> {
    if depth == 0 || !graph.ty(value).dtype.is_int() {
        return None;
    }
    let Node { op, inputs, .. } = graph.node_of(value)?;
    let bound = |operand: &ValueId| bound_within(graph, *operand, depth - 1);
    let largest = |operands: &[ValueId]| {
        operands.iter().map(bound).try_fold(i64::MIN, |largest, bound| Some(largest.max(bound?)))
    };
    match op.class() {
        OpClass::Elementwise(Elementwise::Binary(Binary::Min)) => inputs.iter().filter_map(bound).min(),
        OpClass::Elementwise(Elementwise::Binary(Binary::Max)) => largest(inputs),
        OpClass::Elementwise(Elementwise::Select(_)) => largest(&inputs[1..]),
        // A cast to a narrower type may wrap around.
        OpClass::Elementwise(Elementwise::Cast(Cast { dtype: DType::I64 })) => largest(inputs),
        OpClass::Movement(Movement::Bitcast(_)) => None,
        OpClass::Movement(_) => largest(inputs),
        OpClass::Along(Along::Reduce(Reduce { kind: ReduceKind::Max | ReduceKind::Min, .. })) => largest(inputs),
        OpClass::Creation(Creation::Constant(Constant { value })) if value.len() <= MAX_ELEMENTS => {
            (0..value.len()).map(|index| value.get(index).as_i64()).max()
        }
        OpClass::Elementwise(_) | OpClass::Creation(_) | OpClass::Indexing(_) | OpClass::Along(_) => None,
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => None,
        OpClass::Control(_) | OpClass::Custom(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::upper_bound;
    use crate::{DType, Graph, HostTensor, Value, concat, constant, select};

    fn bound_of(program: impl FnOnce(Value) -> Value) -> Option<i64> {
        let graph = Graph::build("bound", |g| program(g.input("n", "i64[3]"))).unwrap();
        upper_bound(&graph, graph.outputs()[0].value)
    }

    #[test]
    fn a_constant_bounds_what_is_computed_from_it() {
        assert_eq!(bound_of(|n| n), None);
        assert_eq!(bound_of(|n| n.minimum(7)), Some(7));
        assert_eq!(bound_of(|n| select(n.gt(5), -1, n)), None);
        assert_eq!(bound_of(|n| select(n.gt(5), -1, n).minimum(5).maximum(-2)), Some(5));
        assert_eq!(bound_of(|n| concat(&[n.minimum(3), constant(HostTensor::from([9i64]))], 0).max(0)), Some(9));
        assert_eq!(bound_of(|n| n.minimum(4) + 1), None);
    }

    /// 2^32 + 5 becomes 5 if it is cast to 32 bits, and -2^31 - 1 becomes 2^31 - 1.
    #[test]
    fn a_cast_that_may_wrap_around_has_no_bound() {
        assert_eq!(bound_of(|n| n.minimum(3).cast(DType::I32)), None);
        assert_eq!(bound_of(|n| n.cast(DType::I32).minimum(3).cast(DType::I64)), Some(3));
    }
}
