//! The batching rule of the conditional loop.
//!
//! A condition that all lanes share is read once for all; the step is batched. If the condition differs between
//! lanes, the loop runs as long as any lane's holds, and a lane whose condition does not hold keeps its carries, as
//! in JAX. Whether it holds is one more carry, a boolean a lane. A lane's steps are the first ones of the loop, so a
//! bound is the same (while-c3).

use std::sync::Arc;

use super::While;
use crate::error::Site;
use crate::graph::tracer::ClosedBody;
use crate::graph::{Graph, emit, trace_body};
use crate::ops::reach::{Kind, Reach};
use crate::types::{DType, Dim, TensorType};
use crate::value::Value;
use crate::vmap::{Batched, guarded, inline, lanes_type, select_lanes};

pub(super) fn batch(op: &While, size: &Dim, operands: &[Batched]) -> Vec<Batched> {
    let mapped: Vec<bool> = operands.iter().map(|operand| operand.mapped).collect();
    let mut bodies = [Reach::of(&op.condition), Reach::of(&op.body)];
    let (carries, by_lane) = op.reached(Kind::Lanes, &mapped, &mut bodies);
    let lanes = Lanes { op, size, operands, carries };
    let batched = if by_lane { lanes.by_lane() } else { lanes.batch() };
    batched.unwrap_or_default()
}

struct Lanes<'a> {
    op: &'a While,
    size: &'a Dim,
    operands: &'a [Batched],
    /// Which carries have lanes.
    carries: Vec<bool>,
}

impl Lanes<'_> {
    fn batch(mut self) -> Option<Vec<Batched>> {
        loop {
            let (body, carries) = self.step()?;
            if carries != self.carries {
                // A carry that gets lanes in a step has them from the start, which may give lanes to others.
                self.carries = carries;
                continue;
            }
            let mut by_lane = false;
            let condition = self.trace(&self.op.condition, &[], |inputs| {
                let holds = self.holds(inputs);
                by_lane = holds.mapped;
                vec![("out".to_string(), holds.value)]
            })?;
            if by_lane {
                self.carries.fill(true);
                return self.by_lane();
            }
            return Some(self.emit(condition, body, &[]));
        }
    }

    /// The step, and which of the next carries have lanes.
    fn step(&self) -> Option<(ClosedBody, Vec<bool>)> {
        let mut mapped = self.carries.clone();
        let body = self.trace(&self.op.body, &[], |inputs| {
            let next = inline(&self.op.body, self.size, &self.with_captured(inputs, self.op.operands().body));
            let next = next.into_iter().zip(&mut mapped).map(|(next, mapped)| {
                let next = next.materialized_if(*mapped, self.size);
                *mapped = next.mapped;
                next.value
            });
            named(&self.op.body, next)
        })?;
        Some((body, mapped))
    }

    /// The loop with a condition for each lane.
    fn by_lane(&self) -> Option<Vec<Batched>> {
        let extra = [("holds".to_string(), TensorType::new(DType::Bool, [self.size.clone()]))];
        let initial = self.holds(&self.operands[..self.carries.len()]).materialized(self.size);
        let condition = self.trace(&self.op.condition, &extra, |inputs| {
            let any = inputs.last().map_or_else(Value::failed, |holds| holds.value.any(0));
            vec![("out".to_string(), any)]
        })?;
        let body = self.trace(&self.op.body, &extra, |inputs| {
            let (carries, holds) = inputs.split_at(self.carries.len());
            let arguments = self.with_captured(carries, self.op.operands().body);
            let arguments = arguments.into_iter().map(|input| guarded(holds[0].value, self.size, input));
            let next = inline(&self.op.body, self.size, &arguments.collect::<Vec<_>>());
            let kept =
                next.into_iter().zip(carries).map(|(next, old)| select_lanes(holds[0].value, self.size, next, *old));
            let kept: Vec<Batched> = kept.collect();
            let still = self.holds(&kept).materialized(self.size);
            let mut outputs = named(&self.op.body, kept.iter().map(|next| next.value));
            outputs.push(("holds".to_string(), still));
            outputs
        })?;
        Some(self.emit(condition, body, &[initial]))
    }

    /// The condition of these carries.
    fn holds(&self, carries: &[Batched]) -> Batched {
        let carries = &carries[..self.carries.len()];
        let holds = inline(&self.op.condition, self.size, &self.with_captured(carries, self.op.operands().condition));
        holds.first().copied().unwrap_or(Batched::unmapped(Value::failed()))
    }

    /// Traces a body that takes the carries and `extra` parameters.
    fn trace(
        &self,
        body: &Graph,
        extra: &[(String, TensorType)],
        f: impl FnOnce(&[Batched]) -> Vec<(String, Value)>,
    ) -> Option<ClosedBody> {
        let carries = self.carries.iter().enumerate().map(|(index, mapped)| {
            (body.input_name(index).to_string(), lanes_type(body.input_type(index), *mapped, self.size))
        });
        let params: Vec<(String, TensorType)> = carries.chain(extra.iter().cloned()).collect();
        let mapped: Vec<bool> = self.carries.iter().copied().chain(extra.iter().map(|_| true)).collect();
        trace_body("while", body.name(), &params, |values| {
            let inputs = values.iter().zip(mapped).map(|(value, mapped)| Batched { value: *value, mapped });
            f(&inputs.collect::<Vec<_>>())
        })
    }

    fn with_captured(&self, carries: &[Batched], captured: std::ops::Range<usize>) -> Vec<Batched> {
        [carries, &self.operands[captured]].concat()
    }

    fn emit(&self, condition: ClosedBody, body: ClosedBody, extra: &[Value]) -> Vec<Batched> {
        let initial = self.operands.iter().zip(&self.carries);
        let initial = initial.map(|(operand, mapped)| operand.materialized_if(*mapped, self.size).value);
        let operands: Vec<Value> =
            initial.chain(extra.iter().copied()).chain(condition.captures).chain(body.captures).collect();
        let bound = self.op.bound.clone();
        let op = While { condition: Arc::new(condition.graph), body: Arc::new(body.graph), bound };
        let results = emit(op, &operands, Site::Unknown).into_iter().zip(&self.carries);
        results.map(|(value, mapped)| Batched { value, mapped: *mapped }).collect()
    }
}

/// Values with the names of a graph's outputs.
fn named(graph: &Graph, values: impl Iterator<Item = Value>) -> Vec<(String, Value)> {
    graph.outputs().iter().map(|output| output.name.clone()).zip(values).collect()
}
