//! The derivatives of the associative scan.
//!
//! Forward: dual numbers are combined by the derivative of `combine`, which is associative because `combine` is; so the
//! tangents are an associative scan too, in logarithmic depth.
//!
//! Reverse: one loop against the direction of the scan, on the accumulated elements that the forward pass gave. With
//! g the whole cotangent of `y[t]`, `(d y[t-1], d x[t]) = g` pulled back through `combine(y[t-1], x[t])`; where the scan
//! begins, `d x[t] = g`. The order of the operands is kept, so `combine` need not commute.

use std::sync::Arc;

use super::AssociativeScan;
use crate::derivative::{Dual, Primals, Tape, push_forward};
use crate::error::Site;
use crate::graph::{Value, emit, full, iota, select, size};
use crate::ops::reach::{Guess, Kind, Reach};
use crate::ops::scan::{ScanOptions, scan_with};
use crate::types::{DType, TensorType};
use crate::vmap::trace_body;

pub(super) fn jvp(op: &AssociativeScan, operands: &[Dual]) -> Vec<Dual> {
    let (xs, captured) = operands.split_at(op.leaves);
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let guess = op.reached(Kind::Tangents, &has_tangent, &mut Reach::of(&op.combine));
    let mut guess = Guess::new(has_tangent[..op.leaves].to_vec(), guess);
    loop {
        let active = guess.flags().to_vec();
        let mut found = guess.least();
        let mut params: Vec<(String, TensorType)> = Vec::new();
        for first in [0, op.leaves] {
            for (leaf, active) in active.iter().enumerate() {
                let (name, ty) = (op.combine.input_name(first + leaf), op.combine.input_type(first + leaf));
                params.push((name.to_string(), ty.clone()));
                if *active {
                    params.push((format!("tan_{name}"), ty.clone()));
                }
            }
        }
        let closed = trace_body("associative_scan", op.combine.name(), &params, |values| {
            let mut values = values.iter().copied();
            let mut next = || values.next().unwrap_or_else(Value::poison);
            let flags = active.iter().chain(&active);
            let elements = flags.map(|active| Dual { primal: next(), tangent: active.then(&mut next) });
            let inputs: Vec<Dual> = elements.chain(captured.iter().copied()).collect();
            let mut outputs = Vec::new();
            for (leaf, (result, output)) in
                push_forward(&op.combine, &inputs).iter().zip(op.combine.outputs()).enumerate()
            {
                found[leaf] |= result.tangent.is_some();
                outputs.push((output.name.clone(), result.primal));
                if active[leaf] {
                    outputs.push((format!("tan_{}", output.name), result.tangent_or_zeros()));
                }
            }
            outputs
        });
        let Some(closed) = closed else { return Vec::new() };
        if guess.holds(found) {
            let mut operands: Vec<Value> = Vec::new();
            for (leaf, active) in xs.iter().zip(&active) {
                operands.push(leaf.primal);
                operands.extend(active.then(|| leaf.tangent_or_zeros()));
            }
            let leaves = operands.len();
            operands.extend(closed.captures);
            let op = AssociativeScan { combine: Arc::new(closed.graph), leaves, reverse: op.reverse };
            let mut results = emit(op, &operands, Site::Unknown).into_iter();
            let mut next = || results.next().unwrap_or_else(Value::poison);
            return active.iter().map(|active| Dual { primal: next(), tangent: active.then(&mut next) }).collect();
        }
    }
}

pub(super) fn vjp(op: &AssociativeScan, primals: &Primals<'_>, cotangents: &[Option<Value>]) -> Vec<Option<Value>> {
    let (xs, captured) = primals.operands.split_at(op.leaves);
    let count = xs[0].dim(0);
    if count.constant() == Some(0) {
        return cotangents.iter().copied().chain(captured.iter().map(|_| None)).collect();
    }
    // Row t of `before` is what was accumulated before element t; where the scan begins, it is that element.
    let numbers = iota(&count, DType::I64);
    let last = size(count.clone() - 1, DType::I64);
    let (neighbours, begins) = match op.reverse {
        false => ((numbers - 1).maximum(0), numbers.eq(0)),
        true => ((numbers + 1).minimum(last).maximum(0), numbers.eq(last)),
    };
    let before: Vec<Value> = primals.results.iter().map(|y| y.take(0, neighbours)).collect();
    let floats = |values: &[Value]| values.iter().map(|value| value.dtype().is_float()).collect::<Vec<bool>>();
    let of_captured: Vec<bool> =
        floats(captured).iter().zip(&primals.wanted[op.leaves..]).map(|(float, wanted)| *float && *wanted).collect();
    let wanted = op.active_params(primals.wanted);
    let kept = |values: &[Value], flags: &[bool]| -> Vec<Value> {
        values.iter().zip(flags).filter(|(_, flag)| **flag).map(|(value, _)| *value).collect()
    };

    // Which leaves have cotangents: those of the results, and what they lead to.
    let given: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
    let (_, guess) = op.pulled(&given, &mut op.pull(primals.wanted));
    let mut guess = Guess::new(given, guess);
    loop {
        let active = guess.flags().to_vec();
        let mut found = guess.least();
        let mut of_x = vec![false; op.leaves];
        let mut sums = vec![false; captured.len()];
        let given: Vec<Value> = cotangents
            .iter()
            .zip(xs)
            .zip(&active)
            .filter(|(_, active)| **active)
            .map(|((cotangent, leaf), _)| cotangent.unwrap_or_else(|| leaf.zeros_like()))
            .collect();
        let row = |leaf: &Value| leaf.ty().row().unwrap_or_else(|| leaf.ty());
        let zeros = |leaf: &Value| full(row(leaf).shape, leaf.dtype(), 0.0);
        let states: Vec<Value> = kept(xs, &active).iter().map(zeros).collect();
        let totals: Vec<Value> = kept(captured, &of_captured).iter().map(|value| value.zeros_like()).collect();
        let options = ScanOptions::new();
        let options = if op.reverse { options } else { options.reverse() };
        let rows = (before.clone(), xs.to_vec(), given, begins);
        let ((_, totals), of_xs) =
            scan_with(options, (states, totals), rows, |(states, totals), (before, x, given, begins)| {
                let inputs = [before.as_slice(), &x, captured].concat();
                let tape = Tape::record(&op.combine, &inputs, &wanted, primals.residuals);
                let mut whole = given.iter().zip(&states).map(|(given, state)| *given + *state);
                let whole: Vec<Option<Value>> =
                    active.iter().map(|active| if *active { whole.next() } else { None }).collect();
                let pulled = tape.pull(&whole);
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
                let mut sum = totals.into_iter();
                let mut summed = Vec::new();
                for (index, value) in captured.iter().enumerate().filter(|(index, _)| of_captured[*index]) {
                    let total = sum.next().unwrap_or_else(Value::poison);
                    let pulled = pulled[2 * op.leaves + index];
                    sums[index] = pulled.is_some();
                    summed.push(pulled.map_or(total, |pulled| total + guarded(Some(pulled), None, *value)));
                }
                ((next, summed), of_x_rows)
            });
        if guess.holds(found) {
            let (mut of_xs, mut totals) = (of_xs.into_iter(), totals.into_iter());
            let of_leaves = of_x.iter().map(|has| if *has { of_xs.next() } else { None });
            let mut found: Vec<Option<Value>> = of_leaves.collect();
            for (index, float) in of_captured.iter().enumerate() {
                let total = if *float { totals.next() } else { None };
                found.push(total.filter(|_| sums[index]));
            }
            return found;
        }
    }
}
