//! The derivatives of the conditional loop.
//!
//! Forward: one loop that carries values and tangents; the condition looks at the values only. A carry has a tangent if
//! its initial value has or if a step gives it one: see [`reach`](crate::ops::reach).
//!
//! Reverse: the loop of the forward pass counts its steps, bounded or not. For the backward pass the same steps run again
//! as a loop of that many steps, which saves the carries, and whose reverse rule gives the cotangents.

use std::sync::Arc;

use super::While;
use crate::derivative::{Cotangents, Dual, Forward, Record, Tape, VjpContext, no_record, primals, push_forward};
use crate::error::Result;
use crate::graph::tracer::ClosedBody;
use crate::graph::{Failed, Graph, emit, fresh_symbol, inline, trace_body};
use crate::host::HostTensor;
use crate::ops::Scan;
use crate::ops::reach::{Guess, Kind, Reach};
use crate::types::{DType, Dim, TensorType};
use crate::value::{Value, constant};

pub(super) fn jvp(op: &While, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let carries = &operands[op.operands().carries];
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let mut bodies = [Reach::of(&op.condition), Reach::of(&op.body)];
    let (guess, _) = op.carries_reached(Kind::Tangents, &has_tangent, &mut bodies);
    let guess = Guess::new(has_tangent[..carries.len()].to_vec(), guess);
    let (active, (body, twins, extra)) = guess.confirmed(|active, found| {
        let twins: Vec<usize> = (0..active.len()).filter(|index| active[*index]).collect();
        let twin = |index: &usize| (format!("tan_{}", op.body.input_name(*index)), op.body.input_type(*index).clone());
        let extra: Vec<(String, TensorType)> = twins.iter().map(twin).collect();
        let duals = |values: &[Value]| -> Vec<Dual> {
            let mut tangents = values[carries.len()..].iter().copied();
            let mut tangent = |active: &bool| if *active { tangents.next() } else { None };
            values.iter().zip(active).map(|(value, active)| Dual { primal: *value, tangent: tangent(active) }).collect()
        };
        let body = trace(op, &op.body, &extra, |values| {
            let inputs = [duals(values).as_slice(), &operands[op.operands().body]].concat();
            let next = push_forward(&op.body, &inputs)?;
            let mut outputs = op.body.named_outputs(primals(&next));
            for (index, next) in next.iter().enumerate() {
                found[index] |= next.tangent.is_some();
                if active[index] {
                    outputs.push((format!("tan_{}", op.body.outputs()[index].name), next.tangent_or_zeros()));
                }
            }
            Ok(outputs)
        })?;
        Ok((body, twins, extra))
    })?;
    let values = primals(operands);
    let initial = twins.iter().map(|index| carries[*index].tangent_or_zeros());
    let condition = condition(op, &values, &extra)?;
    let mut results = finish(op, &values, initial.collect(), condition, body)?.into_iter();
    let primals: Vec<Value> = results.by_ref().take(carries.len()).collect();
    let pair = |(primal, active)| Dual { primal, tangent: if active { results.next() } else { None } };
    Ok(primals.into_iter().zip(active).map(pair).collect())
}

/// Adds the loop for a forward pass: it counts its steps.
pub(super) fn forward(op: &While, operands: &[Value]) -> Result<Forward, Failed> {
    let extra = [("steps".to_string(), TensorType::scalar(DType::I64))];
    let carries = op.operands().carries;
    let body = trace(op, &op.body, &extra, |values| {
        let inputs = [&values[carries.clone()], &operands[op.operands().body]].concat();
        let mut outputs = op.body.named_outputs(inline(&op.body, &inputs)?);
        outputs.push(("steps".to_string(), values[carries.end] + 1));
        Ok(outputs)
    })?;
    let condition = condition(op, operands, &extra)?;
    let mut results = finish(op, operands, vec![constant(HostTensor::scalar(0i64))], condition, body)?;
    let steps = results.swap_remove(carries.end);
    Ok(Forward { results, record: Record::Steps(steps) })
}

pub(super) fn vjp(op: &While, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
    let places = op.operands();
    let again = Scan { steps: Dim::symbol(&fresh_symbol()), ..op.as_loop() };
    let Record::Steps(steps) = context.record else { return Err(no_record("while")) };
    let of = |values: &[Value]| [&[*steps], &values[places.carries.clone()], &values[places.body.clone()]].concat();
    let operands = of(context.operands);
    let wanted = [&[false], &context.wanted[places.carries.clone()], &context.wanted[places.body.clone()]].concat();
    let program = Graph::of_op(again, &operands)?;
    let given = Tape::record(&program, &operands, &wanted, context.choices)?.pull(cotangents)?;
    let mut found = context.none();
    for (operand, cotangent) in places.carries.chain(places.body).zip(given.into_iter().skip(1)) {
        found[operand] = cotangent;
    }
    Ok(found)
}

impl While {
    /// The step as a loop of a number of steps that an operand gives.
    pub(in crate::ops) fn as_loop(&self) -> Scan {
        let places = self.operands();
        Scan {
            steps_operand: true,
            carries: places.carries.len(),
            invariants: places.body.len(),
            ..Scan::of(self.body.clone(), Dim::from("steps"))
        }
    }
}

/// Traces a body that takes the carries and `extra` parameters.
fn trace(
    op: &While,
    body: &Graph,
    extra: &[(String, TensorType)],
    f: impl FnOnce(&[Value]) -> Result<Vec<(String, Value)>, Failed>,
) -> Result<ClosedBody, Failed> {
    let carries = op.operands().carries;
    let params = carries.map(|index| (body.input_name(index).to_string(), body.input_type(index).clone()));
    let params: Vec<(String, TensorType)> = params.chain(extra.iter().cloned()).collect();
    trace_body("while", body.name(), &params, f)
}

/// The condition, which does not look at the `extra` carries.
fn condition(op: &While, operands: &[Value], extra: &[(String, TensorType)]) -> Result<ClosedBody, Failed> {
    trace(op, &op.condition, extra, |values| {
        let places = op.operands();
        let inputs = [&values[places.carries], &operands[places.condition]].concat();
        Ok(op.condition.named_outputs(inline(&op.condition, &inputs)?))
    })
}

/// Adds the loop with more carries.
fn finish(
    op: &While,
    operands: &[Value],
    more: Vec<Value>,
    condition: ClosedBody,
    body: ClosedBody,
) -> Result<Vec<Value>, Failed> {
    let initial = operands[op.operands().carries].iter().copied().chain(more);
    let operands: Vec<Value> = initial.chain(condition.captures).chain(body.captures).collect();
    let op = While { condition: Arc::new(condition.graph), body: Arc::new(body.graph), bound: op.bound.clone() };
    emit(op, &operands)
}
