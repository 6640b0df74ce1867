//! The derivatives of the conditional loop.
//!
//! Forward: one loop that carries values and tangents; the condition looks at the values only. A carry has a tangent if
//! its initial value has or if a step gives it one: see [`reach`](crate::ops::reach).
//!
//! Reverse: the loop of the forward pass counts its steps, bounded or not. For the backward pass the same steps run again
//! as a loop of that many steps, which saves the carries, and whose reverse rule gives the cotangents.

use std::sync::Arc;

use super::While;
use crate::derivative::{Dual, Forward, Record, Tape, VjpContext, push_forward};
use crate::error::Site;
use crate::graph::tracer::ClosedBody;
use crate::graph::{Graph, emit, fresh_symbol, inline, trace_body};
use crate::host::HostTensor;
use crate::ops::Scan;
use crate::ops::reach::{Guess, Kind, Reach};
use crate::types::{DType, Dim, TensorType};
use crate::value::{Value, constant};

pub(super) fn jvp(op: &While, operands: &[Dual]) -> Vec<Dual> {
    let carries = &operands[op.operands().carries];
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let mut bodies = [Reach::of(&op.condition), Reach::of(&op.body)];
    let (guess, _) = op.reached(Kind::Tangents, &has_tangent, &mut bodies);
    let mut guess = Guess::new(has_tangent[..carries.len()].to_vec(), guess);
    loop {
        let active = guess.flags().to_vec();
        let twins: Vec<usize> = (0..active.len()).filter(|index| active[*index]).collect();
        let twin = |index: &usize| (format!("tan_{}", op.body.input_name(*index)), op.body.input_type(*index).clone());
        let extra: Vec<(String, TensorType)> = twins.iter().map(twin).collect();
        let duals = |values: &[Value]| -> Vec<Dual> {
            let mut tangents = values[carries.len()..].iter().copied();
            let mut tangent = |active: &bool| if *active { tangents.next() } else { None };
            values
                .iter()
                .zip(&active)
                .map(|(value, active)| Dual { primal: *value, tangent: tangent(active) })
                .collect()
        };
        let mut found = guess.least();
        let body = trace(op, &op.body, &extra, |values| {
            let inputs = [duals(values).as_slice(), &operands[op.operands().body]].concat();
            let next = push_forward(&op.body, &inputs);
            let mut outputs = named(&op.body, next.iter().map(|next| next.primal));
            for (index, next) in next.iter().enumerate() {
                found[index] |= next.tangent.is_some();
                if active[index] {
                    outputs.push((format!("tan_{}", op.body.outputs()[index].name), next.tangent_or_zeros()));
                }
            }
            outputs
        });
        let Some(body) = body else { return Vec::new() };
        if guess.holds(found) {
            let values: Vec<Value> = operands.iter().map(|operand| operand.primal).collect();
            let initial = twins.iter().map(|index| carries[*index].tangent_or_zeros());
            let Some(condition) = condition(op, &values, &extra) else { return Vec::new() };
            let results = finish(op, &values, initial.collect(), condition, body);
            let mut results = results.into_iter();
            let primals: Vec<Value> = results.by_ref().take(carries.len()).collect();
            let pair = |(primal, active)| Dual { primal, tangent: if active { results.next() } else { None } };
            return primals.into_iter().zip(active).map(pair).collect();
        }
    }
}

/// Adds the loop for a forward pass: it counts its steps.
pub(super) fn forward(op: &While, operands: &[Value]) -> Forward {
    let extra = [("steps".to_string(), TensorType::scalar(DType::I64))];
    let carries = op.operands().carries;
    let body = trace(op, &op.body, &extra, |values| {
        let inputs = [&values[carries.clone()], &operands[op.operands().body]].concat();
        let mut outputs = named(&op.body, inline(&op.body, &inputs).into_iter());
        outputs.push(("steps".to_string(), values[carries.end] + 1));
        outputs
    });
    let condition = condition(op, operands, &extra);
    let (Some(body), Some(condition)) = (body, condition) else {
        return Forward::of(Vec::new());
    };
    let mut results = finish(op, operands, vec![constant(HostTensor::scalar(0i64))], condition, body);
    match results.split_off(carries.end.min(results.len())).pop() {
        Some(steps) => Forward { results, record: Record::Steps(steps) },
        None => Forward::of(Vec::new()),
    }
}

pub(super) fn vjp(op: &While, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Vec<Option<Value>> {
    let places = op.operands();
    let again = Scan { steps: Dim::symbol(&fresh_symbol()), ..op.as_loop() };
    let Record::Steps(steps) = context.record else { return context.none() };
    let of = |values: &[Value]| [&[*steps], &values[places.carries.clone()], &values[places.body.clone()]].concat();
    let operands = of(context.operands);
    let wanted = [&[false], &context.wanted[places.carries.clone()], &context.wanted[places.body.clone()]].concat();
    let Some(program) = Graph::of_op(again, &operands) else { return context.none() };
    let given = Tape::record(&program, &operands, &wanted, context.choices).pull(cotangents);
    let mut found = context.none();
    for (operand, cotangent) in places.carries.chain(places.body).zip(given.into_iter().skip(1)) {
        found[operand] = cotangent;
    }
    found
}

impl While {
    /// The step as a loop of a number of steps that an operand gives.
    pub(in crate::ops) fn as_loop(&self) -> Scan {
        let places = self.operands();
        Scan {
            body: self.body.clone(),
            steps: Dim::from("steps"),
            steps_operand: true,
            until: None,
            reverse: false,
            sequences: Vec::new(),
            buffers: Vec::new(),
            carries: places.carries.len(),
            invariants: places.body.len(),
            unroll: 1,
            policy: None,
            truncate: None,
        }
    }
}

/// Traces a body that takes the carries and `extra` parameters.
fn trace(
    op: &While,
    body: &Graph,
    extra: &[(String, TensorType)],
    f: impl FnOnce(&[Value]) -> Vec<(String, Value)>,
) -> Option<ClosedBody> {
    let carries = op.operands().carries;
    let params = carries.map(|index| (body.input_name(index).to_string(), body.input_type(index).clone()));
    let params: Vec<(String, TensorType)> = params.chain(extra.iter().cloned()).collect();
    trace_body("while", body.name(), &params, f)
}

/// The condition, which does not look at the `extra` carries.
fn condition(op: &While, operands: &[Value], extra: &[(String, TensorType)]) -> Option<ClosedBody> {
    trace(op, &op.condition, extra, |values| {
        let places = op.operands();
        let inputs = [&values[places.carries], &operands[places.condition]].concat();
        named(&op.condition, inline(&op.condition, &inputs).into_iter())
    })
}

/// Adds the loop with more carries.
fn finish(op: &While, operands: &[Value], more: Vec<Value>, condition: ClosedBody, body: ClosedBody) -> Vec<Value> {
    let initial = operands[op.operands().carries].iter().copied().chain(more);
    let operands: Vec<Value> = initial.chain(condition.captures).chain(body.captures).collect();
    let op = While { condition: Arc::new(condition.graph), body: Arc::new(body.graph), bound: op.bound.clone() };
    emit(op, &operands, Site::Unknown)
}

/// Values with the names of a graph's outputs.
fn named(graph: &Graph, values: impl Iterator<Item = Value>) -> Vec<(String, Value)> {
    graph.outputs().iter().map(|output| output.name.clone()).zip(values).collect()
}
