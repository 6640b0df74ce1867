//! The batching rule of the while loop.
//!
//! If the condition is the same for all lanes, it is evaluated once per step for all of them, and only the step is
//! batched. If the condition differs between lanes, the loop runs until the condition is false in every lane. As in
//! JAX, a lane keeps its carries once its condition is false. An additional carry holds the condition of each lane. The
//! batched loop runs as many steps as the lane with the most steps, so the bound stays the same (while-c3).

use super::*;
use crate::vmap::{guarded, inline, inline_where};

pub(super) fn batch(op: &While, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let mapped: Vec<bool> = operands.iter().map(|operand| operand.mapped).collect();
    let mut bodies = [Reach::of(&op.condition), Reach::of(&op.body)];
    let (carries, by_lane) = op.carries_reached(ReachKind::Lanes, &mapped, &mut bodies);
    let lanes = Lanes { op, size, operands, carries };
    if by_lane { lanes.build_per_lane() } else { lanes.batch() }
}

struct Lanes<'a> {
    op: &'a While,
    size: &'a Dim,
    operands: &'a [Batched],
    /// For each carry, `true` if it has lanes.
    carries: Vec<bool>,
}

impl Lanes<'_> {
    fn batch(mut self) -> Result<Vec<Batched>, Failed> {
        // A carry that a step returns with lanes must have lanes from the first step on. Giving lanes to one carry may
        // give lanes to others too, so trace the step again until no more carries get lanes.
        let (_, body) = Guess::certain(self.carries.clone()).confirm(|carries, found| {
            self.carries = carries.to_vec();
            self.step(found)
        })?;
        let mut by_lane = false;
        let condition = self.trace(&self.op.condition, &[], |inputs| {
            let holds = self.evaluate_condition(inputs)?;
            by_lane = holds.mapped;
            Ok(vec![("out".to_string(), holds.value)])
        })?;
        if by_lane {
            self.carries.fill(true);
            return self.build_per_lane();
        }
        self.emit(condition, body, &[])
    }

    /// Traces the step. Sets an entry of `found` to `true` for each carry that the step returns with lanes.
    fn step(&self, found: &mut [bool]) -> Result<ClosedBody, Failed> {
        self.trace(&self.op.body, &[], |inputs| {
            let next = inline(&self.op.body, self.size, &self.with_captured(inputs, self.op.operands().body))?;
            let next = next.into_iter().zip(&self.carries).zip(found).map(|((next, mapped), found)| {
                let next = next.materialized_if(*mapped, self.size);
                *found = next.mapped;
                next.value
            });
            Ok(self.op.body.named_outputs(next))
        })
    }

    /// Adds a loop whose condition differs between lanes. The loop runs until the condition is false in every lane.
    fn build_per_lane(&self) -> Result<Vec<Batched>, Failed> {
        let extra = [("holds".to_string(), TensorType::new(DType::Bool, [self.size.clone()]))];
        let initial = self.evaluate_condition(&self.operands[..self.carries.len()])?.materialized(self.size);
        let condition = self.trace(&self.op.condition, &extra, |inputs| {
            Ok(vec![("out".to_string(), inputs[self.carries.len()].value.any(0))])
        })?;
        let body = self.trace(&self.op.body, &extra, |inputs| {
            let (carries, holds) = inputs.split_at(self.carries.len());
            let arguments = self.with_captured(carries, self.op.operands().body);
            let arguments = arguments.into_iter().map(|input| guarded(holds[0].value, self.size, input));
            let next = inline_where(Some(holds[0].value), &self.op.body, self.size, &arguments.collect::<Vec<_>>())?;
            let kept =
                next.into_iter().zip(carries).map(|(next, old)| select_lanes(holds[0].value, self.size, next, *old));
            let kept: Vec<Batched> = kept.collect();
            let still = self.evaluate_condition(&kept)?.materialized(self.size);
            let mut outputs = self.op.body.named_outputs(kept.iter().map(|next| next.value));
            outputs.push(("holds".to_string(), still));
            Ok(outputs)
        })?;
        self.emit(condition, body, &[initial])
    }

    /// Inlines the condition with `carries` as its arguments, and returns its result.
    fn evaluate_condition(&self, carries: &[Batched]) -> Result<Batched, Failed> {
        let carries = &carries[..self.carries.len()];
        let holds = inline(&self.op.condition, self.size, &self.with_captured(carries, self.op.operands().condition))?;
        Ok(holds[0])
    }

    /// Traces `f` into a graph. The graph's parameters are the carries of `body`, followed by `extra`.
    fn trace(
        &self,
        body: &Graph,
        extra: &[(String, TensorType)],
        f: impl FnOnce(&[Batched]) -> Result<Vec<(String, Value)>, Failed>,
    ) -> Result<ClosedBody, Failed> {
        trace_lanes("while", body, &self.carries, extra, self.size, f)
    }

    fn with_captured(&self, carries: &[Batched], captured: std::ops::Range<usize>) -> Vec<Batched> {
        [carries, &self.operands[captured]].concat()
    }

    fn emit(&self, condition: ClosedBody, body: ClosedBody, extra: &[Value]) -> Result<Vec<Batched>, Failed> {
        let initial = self.operands.iter().zip(&self.carries);
        let initial = initial.map(|(operand, mapped)| operand.materialized_if(*mapped, self.size).value);
        let initial = initial.chain(extra.iter().copied());
        let results = emit_loop(self.op.bound.clone(), initial, condition, body, Site::Unknown)?;
        Ok(results.into_iter().zip(&self.carries).map(|(value, mapped)| Batched { value, mapped: *mapped }).collect())
    }
}
