//! The derivatives of the while loop.
//!
//! In forward mode, a single loop carries values and tangents. The condition reads only the values. A carry has a
//! tangent if its initial value has one, or if a step gives it one: see [`reach`](crate::ops::reach).
//!
//! In reverse mode, the loop of the forward pass also counts its steps. The backward pass first runs the same steps
//! again, as a scan with that number of steps. The scan saves the carries, and its reverse-mode rule computes the
//! cotangents.

use super::*;
use crate::derivative::{forward_body, no_record, primals};
use crate::graph::{fresh_symbol, inline};
use crate::ops::Scan;

pub(super) fn jvp(op: &While, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let carries = &operands[op.operands().carries];
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let mut bodies = [Reach::of(&op.condition), Reach::of(&op.body)];
    let (guess, _) = op.carries_reached(ReachKind::Tangents, &has_tangent, &mut bodies);
    let guess = Guess::new(has_tangent[..carries.len()].to_vec(), guess);
    let (active, (body, twins, extra)) = guess.confirm(|active, found| {
        let twins = flagged_indices(active);
        let twin = |index: &usize| (format!("tan_{}", op.body.input_name(*index)), op.body.input_type(*index).clone());
        let extra: Vec<(String, TensorType)> = twins.iter().map(twin).collect();
        let body = trace(op, &op.body, &extra, |values| {
            let (values, tangents) = values.split_at(carries.len());
            let inputs = [duals(values, active, tangents).as_slice(), &operands[op.operands().body]].concat();
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
    let initial = values[..carries.len()].iter().copied().chain(initial);
    let results = emit_loop(op.bound.clone(), initial, condition, body, Site::Unknown)?;
    let (last, tangents) = results.split_at(carries.len());
    Ok(duals(last, &active, tangents))
}

/// Pairs each value with its tangent. Only the values marked in `active` have tangents.
fn duals(values: &[Value], active: &[bool], tangents: &[Value]) -> Vec<Dual> {
    let tangents = place_marked(active, tangents.iter().copied());
    values.iter().zip(tangents).map(|(primal, tangent)| Dual { primal: *primal, tangent }).collect()
}

pub(super) fn vjp(op: &While, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
    let again = Scan { steps: Dim::symbol(&fresh_symbol()), ..op.as_loop() };
    let Record::Steps(steps) = context.record else { return Err(no_record("while")) };
    let operands = op.to_loop_operands(*steps, context.operands);
    let program = Graph::of_op(again, &operands)?;
    let tape = Tape::record(&program, &operands, &op.to_loop_operands(false, context.wrt), context.vjp_options)?;
    Ok(op.split_loop_operands(&tape.pull(cotangents)?, None))
}

impl While {
    /// Adds the loop to a forward pass, with an additional carry that counts its steps for the reverse-mode rule. `wrt`
    /// marks the operands that need cotangents.
    pub(in crate::ops) fn forward_pass(&self, operands: &[Value], wrt: &[bool]) -> Result<Forward, Failed> {
        let step = forward_body(&self.body, || self.active(wrt))?;
        let extra = [("steps".to_string(), TensorType::scalar(DType::I64))];
        let places = self.operands();
        let body = trace(self, &step, &extra, |values| {
            let inputs = [&values[places.carries.clone()], &operands[places.body.clone()]].concat();
            let mut outputs = step.named_outputs(inline(&step, &inputs)?);
            outputs.push(("steps".to_string(), values[places.carries.end] + 1));
            Ok(outputs)
        })?;
        let condition = condition(self, operands, &extra)?;
        let steps = constant(HostTensor::scalar(0i64));
        let initial = operands[places.carries.clone()].iter().copied().chain([steps]);
        let mut results = emit_loop(self.bound.clone(), initial, condition, body, Site::Unknown)?;
        let steps = results.swap_remove(places.carries.end);
        Ok(Forward { results, record: Record::Steps(steps) })
    }

    /// Returns a scan that runs the body of this loop. The first operand of the scan is the number of steps.
    pub(in crate::ops) fn as_loop(&self) -> Scan {
        let places = self.operands();
        Scan {
            steps_operand: true,
            carries: places.carries.len(),
            invariants: places.body.len(),
            ..Scan::of(self.body.clone(), Dim::from("steps"))
        }
    }

    /// Converts a list with one item per operand of this op to a list with one item per operand of the scan that
    /// [`as_loop`](While::as_loop) returns. `steps` is the item for the number of steps.
    pub(in crate::ops) fn to_loop_operands<T: Copy>(&self, steps: T, operands: &[T]) -> Vec<T> {
        let places = self.operands();
        [&[steps], &operands[places.carries], &operands[places.body]].concat()
    }

    /// Converts a list with one item per operand of the scan that [`as_loop`](While::as_loop) returns to a list with
    /// one item per operand of this op. `of_condition` is the item for each value that the condition captures.
    pub(in crate::ops) fn split_loop_operands<T: Copy>(&self, of_loop: &[T], of_condition: T) -> Vec<T> {
        let places = self.operands();
        let (carries, body) = of_loop[1..].split_at(places.carries.len());
        [carries, &vec![of_condition; places.condition.len()], body].concat()
    }
}

/// Traces `f` into a graph. The graph's parameters are the carries of `body`, followed by `extra`.
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

/// Traces the condition of a loop with the additional carries `extra`, which the condition ignores.
fn condition(op: &While, operands: &[Value], extra: &[(String, TensorType)]) -> Result<ClosedBody, Failed> {
    trace(op, &op.condition, extra, |values| {
        let places = op.operands();
        let inputs = [&values[places.carries], &operands[places.condition]].concat();
        Ok(op.condition.named_outputs(inline(&op.condition, &inputs)?))
    })
}
