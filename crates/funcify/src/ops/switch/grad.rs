//! The derivatives of the choice: the same choice between the branches' derivatives.
//!
//! Only the branch that was chosen is computed, in both modes; in reverse mode it is computed again. What the chosen
//! branch does not use gets zeros, so that a branch that was not chosen has no part in a gradient, not even as NaN.

use std::sync::Arc;

use super::Switch;
use crate::derivative::{Dual, Primals, Tape, push_forward};
use crate::error::Site;
use crate::graph::{Value, emit, full};
use crate::ops::reach::{Guess, Kind, Reach};
use crate::vmap::trace_body;

pub(super) fn jvp(switch: &Switch, operands: &[Dual]) -> Vec<Dual> {
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let mut bodies: Vec<Reach> = switch.branches.iter().map(|branch| Reach::of(branch)).collect();
    let guess = switch.reached(Kind::Tangents, &has_tangent, &mut bodies);
    let mut guess = Guess::new(vec![false; guess.len()], guess);
    loop {
        let active = guess.flags().to_vec();
        let mut found = guess.least();
        let mut branches = Vec::with_capacity(switch.branches.len());
        let mut values = vec![operands[0].primal];
        for (branch, places) in switch.branches.iter().zip(switch.operands()) {
            let closed = trace_body("switch", branch.name(), &[], |_| {
                let results = push_forward(branch, &operands[places]);
                let mut outputs = Vec::new();
                for (index, (result, output)) in results.iter().zip(branch.outputs()).enumerate() {
                    found[index] |= result.tangent.is_some();
                    outputs.push((output.name.clone(), result.primal));
                    if active[index] {
                        outputs.push((format!("tan_{}", output.name), result.tangent_or_zeros()));
                    }
                }
                outputs
            });
            let Some(closed) = closed else { return Vec::new() };
            branches.push(Arc::new(closed.graph));
            values.extend(closed.captures);
        }
        if guess.holds(found) {
            let mut results = emit(Switch { branches }, &values, Site::Unknown).into_iter();
            let mut next = || results.next().unwrap_or_else(Value::poison);
            return active.iter().map(|active| Dual { primal: next(), tangent: active.then(&mut next) }).collect();
        }
    }
}

pub(super) fn vjp(switch: &Switch, primals: &Primals<'_>, cotangents: &[Option<Value>]) -> Vec<Option<Value>> {
    let given: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
    let guess = switch.pulled(primals.wanted, &given, &mut Vec::new());
    let mut guess = Guess::new(vec![false; guess.len()], guess);
    loop {
        let connected = guess.flags().to_vec();
        let mut found = guess.least();
        let mut branches = Vec::with_capacity(switch.branches.len());
        let mut values = vec![primals.operands[0]];
        for (branch, places) in switch.branches.iter().zip(switch.operands()) {
            let closed = trace_body("switch", branch.name(), &[], |_| {
                let (inputs, wanted) = (&primals.operands[places.clone()], &primals.wanted[places.clone()]);
                let tape = Tape::record(branch, inputs, wanted, primals.residuals);
                let pulled = tape.pull(cotangents);
                let mut outputs = Vec::new();
                for (operand, value) in primals.operands.iter().enumerate() {
                    let cotangent = places.contains(&operand).then(|| pulled[operand - places.start]).flatten();
                    found[operand] |= cotangent.is_some();
                    if connected[operand] {
                        let cotangent = cotangent.unwrap_or_else(|| full(value.shape(), value.dtype(), 0.0));
                        outputs.push((format!("ct_{}", operand - 1), cotangent));
                    }
                }
                outputs
            });
            let Some(closed) = closed else { return primals.none() };
            branches.push(Arc::new(closed.graph));
            values.extend(closed.captures);
        }
        if guess.holds(found) {
            if !connected.contains(&true) {
                return primals.none();
            }
            let mut results = emit(Switch { branches }, &values, Site::Unknown).into_iter();
            return connected.iter().map(|connected| if *connected { results.next() } else { None }).collect();
        }
    }
}
