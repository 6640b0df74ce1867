//! Selects the values of a step that the backward loop may read from a trace instead of recomputing them.
//!
//! A recomputed value may differ from the original in its last bits, because a compiled loop may or may not fuse a
//! product and a sum into a multiply-add, depending on the surrounding code. For most ops, such a difference does not
//! matter. However, a discontinuous op can distinguish two values that were equal in the forward loop. For example, if
//! a maximum is read from a trace but its operand is recomputed, the maximum may not equal any of the recomputed
//! elements, and the gradient is lost. A discontinuous op therefore reads either all of its operands from traces, or
//! none. An extremum is read from a trace only together with its operand, because its derivative rule compares the two.

use super::*;
use crate::ops::{Binary, ReduceKind, ScatterMode, Unary};

/// Selects the candidates that the backward loop may read from traces in addition to the `saved` values.
pub(super) fn readable_values(body: &Graph, mut candidates: Vec<ValueId>, saved: &[ValueId]) -> Vec<ValueId> {
    // If a candidate is removed, more values are recomputed, and other candidates may have to be removed too.
    loop {
        let given = [&candidates, saved].concat();
        let count = candidates.len();
        candidates.retain(|value| !mixes_with_recomputed(body, *value, &given));
        if candidates.len() == count {
            return candidates;
        }
    }
}

/// Returns `true` if a discontinuous op combines operands computed from `value` with recomputed operands, or if `value`
/// is an extremum of recomputed elements. Assumes that only the values in `given` are read from traces.
fn mixes_with_recomputed(body: &Graph, value: ValueId, given: &[ValueId]) -> bool {
    let count = body.values().count();
    let (mut of_value, mut again) = (vec![false; count], vec![false; count]);
    of_value[value.index()] = true;
    for node in body.nodes() {
        let any = |of: &[bool]| node.inputs.iter().any(|input| of[input.index()]);
        let (is_of_value, is_again) = (any(&of_value), any(&again));
        let is_found = node.outputs.contains(&value) && is_extremum(&node.op);
        if is_again && (is_found || (is_of_value && is_discontinuous(body, node))) {
            return true;
        }
        for output in node.outputs.iter().filter(|output| !given.contains(output)) {
            of_value[output.index()] = is_of_value;
            again[output.index()] = is_again || (!is_of_value && rounds(&node.op));
        }
    }
    false
}

/// Returns `true` if the op's derivative rule compares the result with the operands.
fn is_extremum(op: &Op) -> bool {
    use ReduceKind::{Max, Min};
    match op {
        Op::Reduce(op) => matches!(op.kind, Max | Min),
        Op::Cumulative(op) => matches!(op.kind, Max | Min),
        Op::Scatter(op) => matches!(op.mode, ScatterMode::Max | ScatterMode::Min),
        _ => false,
    }
}

/// Returns `true` if the result of a node, or its derivative, is discontinuous in the operands.
fn is_discontinuous(body: &Graph, node: &Node) -> bool {
    let is_float = |value: &ValueId| body.ty(*value).dtype.is_float();
    match &node.op {
        Op::Unary(op) => {
            matches!(op, Unary::Abs | Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc)
        }
        Op::Binary(op) => matches!(op, Binary::Max | Binary::Min | Binary::Rem | Binary::Copysign | Binary::Pow),
        Op::Reduce(_) | Op::Cumulative(_) | Op::Scatter(_) => is_extremum(&node.op),
        Op::NextAfter(_) | Op::Sort(_) => true,
        // The bodies of these ops may contain discontinuous ops.
        Op::Scan(_) | Op::Switch(_) | Op::While(_) | Op::AssociativeScan(_) | Op::Call(_) | Op::Custom(_) => true,
        _ => node.inputs.iter().any(is_float) && !node.outputs.iter().all(is_float),
    }
}

/// Returns `true` if recomputing the op may round differently. Ops that move elements or compute random bits always
/// reproduce their results exactly.
fn rounds(op: &Op) -> bool {
    !op.is_movement()
        && !matches!(op, Op::DynamicSlice(_) | Op::Take(_) | Op::Gather(_) | Op::BindSize(_) | Op::Threefry(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, select};

    /// Traces `step` with a carry and a row, both of shape `[2,3]`, and passes its first `N` results to
    /// [`readable_values`] as candidates. Returns which of them are readable.
    fn readable<const N: usize>(step: impl Fn(Value, Value) -> ([Value; N], Value)) -> [bool; N] {
        let body = Graph::build("step", |g| {
            let (next, y) = step(g.input("c", "f32[2,3]"), g.input("x", "f32[2,3]"));
            (next.to_vec(), y)
        });
        let body = body.unwrap();
        let candidates: [ValueId; N] = std::array::from_fn(|index| body.outputs()[index].value);
        let found = readable_values(&body, candidates.to_vec(), &[]);
        candidates.map(|value| found.contains(&value))
    }

    #[test]
    fn values_that_only_add_up_are_readable() {
        assert_eq!(readable(|c, x| ([(c * x).tanh()], x)), [true]);
        assert_eq!(readable(|c, x| ([(c * x).tanh()], (c * x).exp() - x)), [true]);
    }

    #[test]
    fn an_extremum_is_readable_with_its_elements_alone() {
        assert_eq!(readable(|c, x| ([(c * x).max(1)], x)), [false]);
        assert_eq!(readable(|c, x| ([(c * x).cummax(1, false)], x)), [false]);
        assert_eq!(readable(|_, x| ([x.t().max(1)], x)), [true]);
    }

    #[test]
    fn an_op_that_jumps_has_no_other_operands_that_are_computed_again() {
        let beside = |jump: fn(Value, Value) -> Value| {
            readable(|c, x| {
                let next = (c * x).tanh();
                ([next], jump(next, c * x))
            })
        };
        assert_eq!(beside(|next, _| next.maximum(0.0)), [true]);
        assert_eq!(beside(|next, again| next.maximum(again)), [false]);
        assert_eq!(beside(|next, again| select(next.eq(again), next, 0.0)), [false]);
        assert_eq!(beside(|next, again| (next - again).sign()), [false]);
        assert_eq!(beside(|next, again| next - again), [true]);
    }

    /// Checks that the order of the candidates does not matter. The second candidate, `largest`, must be recomputed,
    /// because it is the maximum of recomputed elements. The first candidate, `twice`, is compared with `largest`, so
    /// it must be recomputed too.
    #[test]
    fn what_is_not_readable_stands_against_others() {
        let step = |c: Value, x: Value| {
            let largest = (c * x).max(1);
            let twice = largest * 2.0;
            ([twice, largest], select(twice.gt(largest), twice, 0.0))
        };
        assert_eq!(readable(step), [false, false]);
    }
}
