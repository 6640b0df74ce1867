//! The reverse-mode rule in logarithmic depth, for a `combine` that is elementwise in the accumulated element.
//!
//! Let `dy[t]` be the cotangent of `y[t]` from outside the scan, `g[t]` the total cotangent of `y[t]`, and `J[t]` the
//! transposed Jacobian of `combine(y[t-1], x[t])` with respect to `y[t-1]`. Then `g[t] = dy[t] + J[t+1] g[t+1]`. This
//! affine recurrence is an associative scan over pairs, in the opposite direction: `(J, g)` followed by `(K, h)` is `(K
//! J, h + K g)`. If each number in `y[t]` depends on `y[t-1]` only through the numbers at the same position of their
//! leaves, then `J` has one number per position for each pair of leaves ([`jacobian`](super::jacobian)). In this case,
//! the rule
//!
//! 1. batches `combine` over all elements, and records it on a tape with the operands `y[t-1]` and `x[t]`;
//! 2. pulls cotangents of 1 back through the tape, one leaf at a time, to obtain the Jacobians;
//! 3. computes all `g[t]` with an associative scan, which is itself differentiable;
//! 4. pulls the `g[t]` back to obtain the cotangents of the elements and, after summation, of the captured values.
//!
//! As in the loop of [`sequential`](super::sequential), the cotangent of the first element of the scan is its `g[t]`,
//! because no combination computes the first result. Unlike that loop, the rule multiplies the Jacobians of many
//! elements before it applies them to a cotangent. These products may overflow or underflow in cases where the loop
//! does not.

use super::build::{AssociativeScanOptions, associative_scan_with};
use super::grad::Order;
use super::jacobian::{Coefficient, Factor, Matrix, closed_under_products, compose_coefficients};
use super::*;
use crate::derivative::active_values;
use crate::ops::elementwise::partials::{Passes, passes};
use crate::ops::movement::broadcast::broadcasts;
use crate::vmap::inline;

/// Returns the cotangents of the leaves and of the captured values, or `None` if the rule does not apply to `combine`.
/// `reached` marks the leaves that may have cotangents.
pub(super) fn vjp(
    op: &AssociativeScan,
    context: &VjpContext<'_>,
    cotangents: &[Option<Value>],
    order: &Order,
    reached: &[bool],
) -> Result<Option<Cotangents>, Failed> {
    let (xs, captured) = context.operands.split_at(op.leaves);
    let count = xs[0].dim(0);
    let wrt = op.active(context.wrt);
    let of_captured = &wrt[2 * op.leaves..];
    let rows: Vec<Shape> = xs.iter().map(|leaf| leaf.row_type().shape).collect();
    let fits = |(value, wrt): (&Value, &bool)| !*wrt || rows.iter().any(|row| broadcasts(&value.shape(), row));
    let all_fit = captured.iter().zip(of_captured).all(fits);
    let Some(chooses) = path_selects_operands(op, &wrt, reached).filter(|_| all_fit) else { return Ok(None) };

    // 1. Batch `combine`. A captured value that needs a cotangent gets lanes as well, because each element contributes
    //    to that cotangent.
    let batched = |(index, value): (usize, &Value)| match of_captured[index] {
        true => Batched::mapped(Batched::unmapped(*value).materialized(&count)),
        false => Batched::unmapped(*value),
    };
    let captured: Vec<Batched> = captured.iter().enumerate().map(batched).collect();
    let before: Vec<Value> = context.results.iter().map(|y| y.take(0, order.previous)).collect();
    let lanes = captured.iter().filter(|value| value.mapped).map(|value| value.value);
    let inputs: Vec<Value> = before.iter().chain(xs).copied().chain(lanes).collect();
    let all = trace_over_all_rows(op, &count, &inputs, &captured)?;
    let mut flags = wrt[..2 * op.leaves].to_vec();
    flags.resize(inputs.len(), true);
    flags.resize(all.graph.inputs().len(), false);
    let inputs = [inputs, all.captures].concat();
    let tape = Tape::record(&all.graph, &inputs, &flags, context.vjp_options)?;

    // 2. Compute the Jacobians.
    let mut of_first = flags.clone();
    of_first[op.leaves..].fill(false);
    let (leaves, factors) = jacobians(&tape, &of_first, chooses, context.results, cotangents)?;

    // 3. Compute the total cotangents.
    let given: Vec<Value> =
        leaves.iter().map(|leaf| cotangents[*leaf].unwrap_or_else(|| xs[*leaf].zeros_like())).collect();
    let mut whole = vec![None; op.leaves];
    for (leaf, cotangent) in leaves.iter().zip(accumulate_cotangents(op, order, chooses, &factors, given)) {
        whole[*leaf] = Some(cotangent);
    }

    // 4. Pull back the total cotangents.
    let pulled = tape.pull(&whole)?;
    let first_or = |first: Value, other: Value| {
        let [first, other] = [first, other].map(Batched::mapped);
        select_lanes(order.begins, &count, first, other).value
    };
    let of_elements =
        pulled[op.leaves..].iter().zip(&whole).zip(xs).map(|((pulled, whole), x)| match (pulled, whole) {
            (None, None) => None,
            (Some(pulled), Some(whole)) if pulled.same_as(*whole) => Some(*whole),
            (pulled, whole) => {
                let [first, other] = [whole, pulled].map(|value| value.unwrap_or_else(|| x.zeros_like()));
                Some(first_or(first, other))
            }
        });
    let mut found: Vec<Option<Value>> = of_elements.collect();
    let mut pulled = pulled[2 * op.leaves..].iter();
    for value in &captured {
        let of_lanes = if value.mapped { pulled.next().copied().flatten() } else { None };
        found.push(of_lanes.map(|pulled| first_or(pulled.zeros_like(), pulled).sum(0)));
    }
    Ok(Some(found))
}

/// Checks that the path from the accumulated element to the reached leaves is elementwise, with a single dtype. Returns
/// `None` if the check fails. Otherwise, returns `true` if an op on the path selects one operand and ignores another,
/// as a maximum does. A `combine` that contains a loop or a switch fails the check, because it would save too many
/// residuals when it runs on all elements at once.
fn path_selects_operands(op: &AssociativeScan, wrt: &[bool], reached: &[bool]) -> Option<bool> {
    let combine = &op.combine;
    if combine.nodes().iter().any(|node| !node.op.bodies().is_empty() || matches!(node.op, Op::Custom(_))) {
        return None;
    }
    let mut dtypes = (0..op.leaves).filter(|leaf| reached[*leaf]).map(|leaf| combine.input_type(leaf).dtype);
    let first = dtypes.next();
    if dtypes.any(|dtype| Some(dtype) != first) {
        return None;
    }
    let of_first: Vec<bool> = (0..wrt.len()).map(|param| param < op.leaves && wrt[param]).collect();
    let active = active_values(combine, &of_first);
    let mut is_on_it = vec![false; active.len()];
    for (output, _) in combine.outputs().iter().zip(reached).filter(|(_, reached)| **reached) {
        is_on_it[output.value.index()] = active[output.value.index()];
    }
    let mut chooses = false;
    for node in combine.nodes().iter().rev() {
        if node.outputs.iter().any(|output| is_on_it[output.index()]) {
            chooses |= passes(&node.op)? == Passes::Chosen;
            node.inputs.iter().for_each(|input| is_on_it[input.index()] |= active[input.index()]);
        }
    }
    Some(chooses)
}

/// Traces `combine` for all rows at once. `inputs` holds the accumulated element that precedes each row, the rows
/// themselves, and the captured values that have lanes.
fn trace_over_all_rows(
    op: &AssociativeScan,
    count: &Dim,
    inputs: &[Value],
    captured: &[Batched],
) -> Result<ClosedBody, Failed> {
    let combine = &op.combine;
    let of_captured = captured.iter().enumerate().filter(|(_, value)| value.mapped);
    let params = (0..2 * op.leaves).chain(of_captured.map(|(index, _)| 2 * op.leaves + index));
    let named = params.zip(inputs).map(|(param, value)| (combine.input_name(param).to_string(), value.ty()));
    trace_body("associative_scan", combine.name(), &named.collect::<Vec<_>>(), |values| {
        let (elements, lanes) = values.split_at(2 * op.leaves);
        let mut lanes = lanes.iter().copied();
        let captured = captured.iter().filter_map(|value| match value.mapped {
            true => lanes.next().map(Batched::mapped),
            false => Some(*value),
        });
        let inputs: Vec<Batched> = elements.iter().copied().map(Batched::mapped).chain(captured).collect();
        let results = inline(combine, count, &inputs)?;
        Ok(combine.named_outputs(results.into_iter().map(|result| result.materialized(count))))
    })
}

/// Returns the leaves that have cotangents, and the matrix of the factors between these leaves. The factors map
/// cotangents of `combine(y[t-1], x[t])` to cotangents of `y[t-1]`.
fn jacobians(
    tape: &Tape<'_>,
    of_first: &[bool],
    chooses: bool,
    ys: &[Value],
    cotangents: &[Option<Value>],
) -> Result<(Vec<usize>, Matrix<Coefficient>), Failed> {
    let mut has: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
    let mut rows: Vec<Vec<Factor<Coefficient>>> = vec![Vec::new(); ys.len()];
    while let Some(from) = (0..ys.len()).find(|leaf| has[*leaf] && rows[*leaf].is_empty()) {
        let pull = |cotangent: Value| {
            let mut cotangents = vec![None; ys.len()];
            cotangents[from] = Some(cotangent);
            tape.pull_to(of_first, &cotangents)
        };
        let ones = ys[from].ones_like();
        let numbers = pull(ones)?;
        // Pull back NaN as a probe. A 0 in the result shows that no cotangent passes, because NaN times any number is
        // NaN.
        let probes = if chooses { pull(ys[from].full_like(f64::NAN))? } else { vec![None; ys.len()] };
        let factors = numbers.into_iter().zip(probes).map(|(number, probe)| match number {
            None => Factor::Zero,
            Some(number) if number.same_as(ones) => Factor::One,
            Some(number) => Factor::Of(Coefficient { number, stopped: probe.map(|probe| probe.eq(0.0)) }),
        });
        rows[from] = factors.take(ys.len()).collect();
        for (has, factor) in has.iter_mut().zip(&rows[from]) {
            *has |= factor.kind() != Factor::Zero;
        }
    }
    let leaves = flagged_indices(&has);
    let among = |row: &Vec<Factor<Coefficient>>| leaves.iter().map(|leaf| row[*leaf]).collect();
    let factors = leaves.iter().map(|leaf| among(&rows[*leaf])).collect();
    Ok((leaves, factors))
}

/// Computes the total cotangents of the results. `given` holds the cotangents from outside the scan.
fn accumulate_cotangents(
    op: &AssociativeScan,
    order: &Order,
    chooses: bool,
    factors: &Matrix<Coefficient>,
    given: Vec<Value>,
) -> Vec<Value> {
    let kinds =
        closed_under_products(factors.iter().map(|row| row.iter().map(|factor| factor.kind()).collect()).collect());
    if kinds.iter().flatten().all(|kind| *kind == Factor::Zero) {
        return given;
    }
    // Element t of the backward scan holds the cotangent of `y[t]` and the factors of element t + 1. The factors of the
    // last element can be arbitrary, because they are never applied.
    let elements: Vec<Value> = pack_factors(&kinds, factors, &given, chooses)
        .into_iter()
        .map(|value| value.take(0, order.next))
        .chain(given.iter().copied())
        .collect();
    let options = AssociativeScanOptions::new();
    let options = if op.reverse { options } else { options.reverse() };
    let results = associative_scan_with(options, elements, |later, own| {
        let (first, cotangents) = unpack_factors(&kinds, &later, chooses);
        let (next, given) = unpack_factors(&kinds, &own, chooses);
        let arrive = |leaf: usize| {
            let ways = cotangents.iter().zip(&next).map(|(cotangent, row)| row[leaf].apply(*cotangent));
            ways.flatten().fold(given[leaf], |sum, way| sum + way)
        };
        let cotangents: Vec<Value> = (0..given.len()).map(arrive).collect();
        let both = compose_coefficients(&first, &next, &given, chooses);
        pack_factors(&kinds, &both, &given, chooses).into_iter().chain(cotangents).collect()
    });
    results[results.len() - given.len()..].to_vec()
}

/// Returns the coefficients of the factors of kind [`Factor::Of`] and, if `may_stop` is `true`, their masks. These are
/// leaves of the backward scan. `likes` are values with the types of the leaves.
fn pack_factors(kinds: &Matrix<()>, factors: &Matrix<Coefficient>, likes: &[Value], may_stop: bool) -> Vec<Value> {
    let mut values = Vec::new();
    for (kinds, factors) in kinds.iter().zip(factors) {
        for ((kind, factor), like) in kinds.iter().zip(factors).zip(likes) {
            if *kind == Factor::Of(()) {
                let Coefficient { number, stopped } = factor.coefficient(*like, may_stop);
                values.push(number);
                values.extend(stopped);
            }
        }
    }
    values
}

/// Rebuilds the factors from the leading entries of `values`, and returns them with the remaining entries. This is the
/// inverse of [`pack_factors`].
fn unpack_factors(kinds: &Matrix<()>, values: &[Value], may_stop: bool) -> (Matrix<Coefficient>, Vec<Value>) {
    let mut count = 0;
    let mut next = || {
        count += 1;
        values[count - 1]
    };
    let mut factor = |kind: &Factor<()>| match kind {
        Factor::Zero => Factor::Zero,
        Factor::One => Factor::One,
        Factor::Of(()) => Factor::Of(Coefficient { number: next(), stopped: may_stop.then(&mut next) }),
    };
    let factors = kinds.iter().map(|row| row.iter().map(&mut factor).collect()).collect();
    (factors, values[count..].to_vec())
}
