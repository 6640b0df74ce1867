//! The reverse-mode rule for any `combine`, as a loop in the opposite direction. Each step pulls cotangents back
//! through one combination. The order of the operands is preserved, so `combine` need not be commutative.

use super::grad::Order;
use super::*;
use crate::ops::scan::{ScanOptions, try_repeat};
use crate::ops::select_flagged;
use crate::value::full;

/// Returns the cotangents of the leaves and of the captured values. `reached` is a guess at the leaves that have
/// cotangents.
pub(super) fn vjp(
    op: &AssociativeScan,
    context: &VjpContext<'_>,
    cotangents: &[Option<Value>],
    order: &Order,
    reached: Vec<bool>,
) -> Result<Cotangents, Failed> {
    let (xs, captured) = context.operands.split_at(op.leaves);
    // Row t of `before` is the accumulated element that precedes element t. For the first element of the scan, the row
    // holds that element itself.
    let before: Vec<Value> = context.results.iter().map(|y| y.take(0, order.previous)).collect();
    let of_captured = captured.iter().zip(&context.wrt[op.leaves..]);
    let of_captured: Vec<bool> = of_captured.map(|(value, wrt)| value.dtype().is_float() && *wrt).collect();
    let wrt = op.active(context.wrt);

    // Find the leaves that have cotangents, either from outside the scan or from another leaf.
    let given: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
    let (_, (of_x, of_xs, sums, totals)) = Guess::new(given, reached).confirm(|active, found| {
        let mut of_x = vec![false; op.leaves];
        let mut sums = vec![false; captured.len()];
        let leaves = (0..op.leaves).filter(|leaf| active[*leaf]);
        let given = leaves.map(|leaf| cotangents[leaf].unwrap_or_else(|| xs[leaf].zeros_like())).collect::<Vec<_>>();
        let zeros = |leaf: &Value| full(leaf.row_type().shape, leaf.dtype(), 0.0);
        let states: Vec<Value> = select_flagged(active, xs).iter().map(zeros).collect();
        let totals: Vec<Value> =
            select_flagged(&of_captured, captured).iter().map(|value| value.zeros_like()).collect();
        let options = ScanOptions::new();
        let options = if op.reverse { options } else { options.reverse() };
        let rows = (before.clone(), xs.to_vec(), given, order.begins);
        let at = Place::new("scan", Site::Unknown);
        let ((_, totals), of_xs) =
            try_repeat(&at, options, None, (states, totals), rows, |(states, totals), (before, x, given, begins)| {
                let inputs = [before.as_slice(), &x, captured].concat();
                let tape = Tape::record(&op.combine, &inputs, &wrt, context.vjp_options)?;
                let whole = place_marked(active, given.iter().zip(&states).map(|(given, state)| *given + *state));
                let pulled = tape.pull(&whole)?;
                let guarded = |cotangent: Option<Value>, at_begin: Option<Value>, like: Value| {
                    let zeros = || like.zeros_like();
                    select(begins, at_begin.unwrap_or_else(zeros), cotangent.unwrap_or_else(zeros))
                };
                let (mut next, mut of_x_rows) = (Vec::new(), Vec::new());
                for leaf in 0..op.leaves {
                    found[leaf] |= pulled[leaf].is_some();
                    if active[leaf] {
                        next.push(guarded(pulled[leaf], None, x[leaf]));
                    }
                    let element = pulled[op.leaves + leaf];
                    of_x[leaf] = element.is_some() || whole[leaf].is_some();
                    if of_x[leaf] {
                        of_x_rows.push(guarded(element, whole[leaf], x[leaf]));
                    }
                }
                let mut summed = Vec::new();
                let captured = captured.iter().enumerate().filter(|(index, _)| of_captured[*index]);
                for ((index, value), total) in captured.zip(totals) {
                    let pulled = pulled[2 * op.leaves + index];
                    sums[index] = pulled.is_some();
                    summed.push(pulled.map_or(total, |pulled| total + guarded(Some(pulled), None, *value)));
                }
                Ok::<_, Failed>(((next, summed), of_x_rows, None))
            })?;
        Ok((of_x, of_xs, sums, totals))
    })?;
    let totals = place_marked(&of_captured, totals).into_iter().zip(sums);
    Ok(place_marked(&of_x, of_xs).into_iter().chain(totals.map(|(total, has)| total.filter(|_| has))).collect())
}
