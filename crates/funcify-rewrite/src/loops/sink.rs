//! Moves sums over steps out of the loop, as PyTensor's `push_out_dot1` does for dot products, and cuDNN for weight
//! gradients.
//!
//! If a carry starts at zero, each step adds a term to it, and nothing else reads it, then its final value is the sum
//! of the terms over all steps. If a term is a product of two values of the step, the sum is a single product that
//! contracts over the steps: `sum_t a_t b_t = [a_0 a_1 ..] [b_0; b_1; ..]`. A weight gradient then takes one large
//! product, instead of a product and an addition per step. The operands of a term are either computed from the
//! sequences for all steps, or traced by the loop.
//!
//! Precondition: the carry is an integer, or a float that is known to start at 0. If it started at -0, a loop without
//! steps would return -0, but the rewritten program would return `-0 + 0`, which is 0. The memory for the traces is
//! limited to a multiple of the bytes that the loop reads and writes. Floats are summed in a different order.

use super::*;
use crate::numbers::is_zero;

/// A carry that is a sum over steps.
struct Sum {
    carry: usize,
    terms: Vec<Term>,
}

impl Sum {
    fn has_product(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.addend, Addend::Product(..)))
    }
}

/// A term of a sum: an addend, and the ops that move its elements, outermost first. The rule applies these ops after
/// the loop, to the sum of the addend over all steps.
struct Term {
    addend: Addend,
    moves: Vec<Op>,
}

/// The value that each step adds, before any ops that move its elements.
enum Addend {
    /// The matrix product of two values of the step.
    Product(ValueId, ValueId),
    /// A value of the step, summed over the given axes. Without axes, this is the value itself.
    Reduced(ValueId, Vec<usize>),
}

impl Term {
    /// Returns the values of the body that are needed from every step in order to compute the sum.
    fn values(&self) -> Vec<ValueId> {
        match &self.addend {
            Addend::Product(left, right) => vec![*left, *right],
            Addend::Reduced(value, _) => vec![*value],
        }
    }

    /// Computes the sum of the term over all steps. Given a value of the body, `stacked` returns its values from all
    /// steps, stacked into one tensor. Returns `None` if a value cannot be stacked, or the product cannot be contracted
    /// over the steps.
    fn sum_over_steps(&self, stacked: &dyn Fn(ValueId) -> Option<Value>) -> Option<Value> {
        let sum = match &self.addend {
            Addend::Product(left, right) => contract_steps(stacked(*left)?, stacked(*right)?)?,
            Addend::Reduced(value, axes) => {
                let axes = std::iter::once(0).chain(axes.iter().map(|axis| axis + 1)).collect();
                stacked(*value)?.emit(Reduce { kind: ReduceKind::Sum, axes })
            }
        };
        Some(self.moves.iter().rev().fold(sum, |sum, op| sum.emit(op.clone())))
    }
}

/// Replaces carries that are sums over steps with sums that are computed after the loop.
pub(crate) fn sink(context: &RewriteContext<'_>) -> Option<Patch> {
    let scan = whole_loop(context)?;
    let sums = sums(context, scan);
    if sums.is_empty() {
        return None;
    }
    let classes = classes(scan);
    let sums = affordable_sums(scan, &classes, sums);
    if sums.is_empty() {
        return None;
    }
    context.build(context.operands, |operands| emit_sums_after(scan, &classes, &sums, operands))
}

/// Returns the carries that are sums over steps, with their terms.
fn sums(context: &RewriteContext<'_>, scan: &Scan) -> Vec<Sum> {
    let (body, places) = (&scan.body, scan.operands());
    let uses = uses(body);
    let carries = scan.params().carries.zip(scan.results().carries).zip(places.carries).enumerate();
    let sum = |(carry, ((param, next), operand)): (usize, ((usize, usize), usize))| {
        let (param, next) = (body.inputs()[param].value, body.outputs()[next].value);
        let starts_at_zero =
            context.splat(context.operands[operand]).is_some_and(is_zero) || context.ty(operand).dtype.is_int();
        let addends = if starts_at_zero { addends(body, &uses, next, param, 0)? } else { return None };
        let mut terms = Vec::new();
        for addend in addends {
            split_addend(body, &uses, addend, &mut terms);
        }
        let terms: Vec<Term> = terms.into_iter().map(|value| term(body, value)).collect();
        (!terms.is_empty()).then_some(Sum { carry, terms })
    };
    carries.filter_map(sum).collect()
}

/// The limit on the nesting depth of additions, on the number of movement ops that are stripped from a term, and on the
/// number of terms into which addends are split.
const MAX_NESTED_ADDITIONS: usize = 16;

/// Returns the values that `value` adds to `carry`. Returns `None` if `value` is not a sum that includes `carry`, if
/// the additions are nested too deeply, or if anything else uses `value` or one of the intermediate sums.
pub(super) fn addends(
    body: &Graph,
    uses: &[usize],
    value: ValueId,
    carry: ValueId,
    depth: usize,
) -> Option<Vec<ValueId>> {
    if uses[value.index()] != 1 || depth > MAX_NESTED_ADDITIONS {
        return None;
    }
    if value == carry {
        return Some(Vec::new());
    }
    let (Op::Binary(Binary::Add), [left, right]) = defining_op(body, value)? else { return None };
    for (sum, addend) in [(left, right), (right, left)] {
        if let Some(mut addends) = self::addends(body, uses, *sum, carry, depth + 1) {
            addends.push(*addend);
            return Some(addends);
        }
    }
    None
}

/// Appends the terms of an addend to `terms`. If the addend is an addition whose result is not used elsewhere, splits
/// both operands recursively.
pub(super) fn split_addend(body: &Graph, uses: &[usize], addend: ValueId, terms: &mut Vec<ValueId>) {
    match defining_op(body, addend) {
        Some((Op::Binary(Binary::Add), [left, right]))
            if uses[addend.index()] == 1 && terms.len() < MAX_NESTED_ADDITIONS =>
        {
            split_addend(body, uses, *left, terms);
            split_addend(body, uses, *right, terms);
        }
        _ => terms.push(addend),
    }
}

fn term(body: &Graph, mut value: ValueId) -> Term {
    let mut moves = Vec::new();
    loop {
        let addend = match defining_op(body, value) {
            Some((Op::MatMul(_), [left, right])) => Addend::Product(*left, *right),
            Some((Op::Reduce(Reduce { kind: ReduceKind::Sum, axes }), [of])) => Addend::Reduced(*of, axes.clone()),
            Some((op @ (Op::Transpose(_) | Op::Reshape(_)), [of]))
                if moves.len() < MAX_NESTED_ADDITIONS && is_certain_value(body, value) =>
            {
                moves.push(op.clone());
                value = *of;
                continue;
            }
            _ => Addend::Reduced(value, Vec::new()),
        };
        return Term { addend, moves };
    }
}

/// Finds the value that the loop must trace in order to provide `value` for all steps, and appends it to `all`. Appends
/// nothing if `value` can be computed from the sequences and invariants. Skips ops that only move elements, because
/// they can be applied after the loop.
fn collect_values_to_trace(body: &Graph, classes: &[Class], value: ValueId, all: &mut Vec<ValueId>) {
    if classes[value.index()] != Class::Stepwise {
        return;
    }
    match defining_op(body, value) {
        Some((Op::Transpose(_) | Op::Reshape(_), [of])) if is_certain_value(body, value) => {
            collect_values_to_trace(body, classes, *of, all);
        }
        _ if all.contains(&value) => {}
        _ => all.push(value),
    }
}

pub(super) fn is_certain_value(body: &Graph, value: ValueId) -> bool {
    body.node_of(value).is_none_or(|node| cannot_fail(body, node, &Sizes::new()))
}

/// Returns the index of the buffer that already traces a value, or `None` if no buffer does.
fn traced(scan: &Scan, value: ValueId) -> Option<usize> {
    traces(scan).find(|(_, written)| *written == value).map(|(number, _)| number)
}

/// Returns the sums for which the required traces stay within the memory limit. Considers sums with products first. For
/// a sum without products, the loop must already trace the values that the sum needs, or their traces must take no more
/// memory than the loop already reads and writes.
fn affordable_sums(scan: &Scan, classes: &[Class], mut sums: Vec<Sum>) -> Vec<Sum> {
    let body = &scan.body;
    let present = bytes_of_step(scan);
    let mut traces: Vec<ValueId> = Vec::new();
    let mut affordable: Vec<Sum> = Vec::new();
    sums.sort_by_key(|sum| !sum.has_product());
    for sum in sums {
        let mut all = traces.clone();
        for value in sum.terms.iter().flat_map(Term::values) {
            collect_values_to_trace(body, classes, value, &mut all);
        }
        let new = all.iter().filter(|value| traced(scan, **value).is_none());
        let new = new.fold(Dim::from(0), |sum, value| sum + bytes(body.ty(*value)));
        // Skip sums with invariant operands, because these operands would have to be repeated for all steps.
        let shared = sum.terms.iter().flat_map(Term::values).any(|value| classes[value.index()] == Class::Shared);
        let is_free = all.len() == traces.len();
        let factor = if sum.has_product() { MAX_MEMORY_FACTOR } else { 1 };
        if !shared && (is_free || is_bounded(&new, &present, factor, &scan.steps)) {
            traces = all;
            affordable.push(sum);
        }
    }
    affordable
}

/// Emits the loop without the sums, and computes the sums after the loop.
fn emit_sums_after(scan: &Scan, classes: &[Class], sums: &[Sum], operands: &[Value]) -> Option<Vec<Value>> {
    let body = &scan.body;
    let starts = &operands[scan.operands().carries];
    let mut parts = Loop::of(scan, operands);
    let mut traces = Vec::new();
    for value in sums.iter().flat_map(|sum| &sum.terms).flat_map(Term::values) {
        collect_values_to_trace(body, classes, value, &mut traces);
    }
    let place = |value: &ValueId| traced(scan, *value).unwrap_or_else(|| parts.trace(*value));
    let places: Vec<usize> = traces.iter().map(place).collect();
    let is_sum = |number: usize| sums.iter().any(|sum| scan.buffers.len() + sum.carry == number);
    parts.carries.retain(|part| !part.number.is_some_and(is_sum));
    let mut results = parts.emit_rest()?;
    let given: Vec<(ValueId, Value)> = traces
        .iter()
        .zip(places)
        .map(|(value, place)| Some((*value, *results.buffers.get(place)?)))
        .collect::<Option<_>>()?;
    let stacked = |value: ValueId| compute_for_all_steps(&parts, &scan.steps, &given, &[value])?.pop();
    for sum in sums {
        let mut terms = sum.terms.iter().map(|term| term.sum_over_steps(&stacked));
        let first = terms.next()??;
        let total = terms.try_fold(first, |total, term| Some(total + term?))?;
        results.old[scan.buffers.len() + sum.carry] = Some(starts[sum.carry] + total);
    }
    results.old.into_iter().collect()
}

/// Multiplies two stacks of matrices, and sums the products over the steps (axis 0). Computes the result as a single
/// product whose contracted axis combines the steps with the original contracted axis. Returns `None` unless both
/// stacks have the same rank, which must be at least 3.
fn contract_steps(left: Value, right: Value) -> Option<Value> {
    let rank = left.rank();
    if rank < 3 || right.rank() != rank {
        return None;
    }
    let batch = 1..rank - 2;
    // With T steps, [T,..,m,k] and [T,..,k,n] become [..,T*k,m] and [..,T*k,n].
    let order = |last: [usize; 2]| -> Vec<usize> { batch.clone().chain([0]).chain(last).collect() };
    let tall = |value: Value, order: Vec<usize>| {
        let moved = value.transpose(order);
        let dims = moved.shape();
        let (outer, inner) = dims.dims().split_at(rank - 3);
        let shape: Vec<Dim> = outer.iter().cloned().chain([inner[0].clone() * &inner[1], inner[2].clone()]).collect();
        moved.reshape(shape)
    };
    let (left, right) = (tall(left, order([rank - 1, rank - 2])), tall(right, order([rank - 2, rank - 1])));
    Some(left.t().matmul(right))
}
