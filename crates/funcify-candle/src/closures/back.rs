//! Attaches a closure loop to Candle's graph as one node. The backward pass reruns the segments of the loop in reverse
//! order, each from the carry saved at the start of the segment.

use std::ops::Range;

use funcify_core::cancel::{ActiveHandles, Progress};

use super::record::{Traced, fingerprints, is_same};
use super::steps::{ForwardRun, Operand, Steps};
use super::*;
use crate::autodiff::local::{self, Sum};
use crate::autodiff::node::attach;
use crate::autodiff::storage::Elements;

impl Steps {
    /// Runs the loop from the initial carry `init` while `has_more` returns `true`. Returns the last carry and the ys,
    /// attached to Candle's graph.
    pub(super) fn run(
        self,
        init: Vec<Tensor>,
        has_more: &dyn Fn(usize, &[Tensor]) -> Result<bool>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let init = Operand::all_contiguous(init)?;
        let mut run = self.forward(&init, has_more).map_err(errors::without_backtrace)?;
        let (carries, ys) = (run.record.last.clone(), std::mem::take(&mut run.ys));
        let tracked = init.iter().chain(&self.xs).chain(&self.captured).filter_map(|operand| operand.tracked.as_ref());
        let inputs: Vec<Tensor> = tracked.chain(&run.vars).cloned().collect();
        let is_float = |tensor: &&Tensor| tensor.dtype().is_float();
        let carried = carries.iter().filter(is_float).cloned().map(Elements::Shared);
        let stacked = self.axis.is_some();
        let given = ys.iter().filter(is_float).cloned();
        let given = given.map(|y| if stacked { Elements::Fresh(y) } else { Elements::Shared(y) });
        let outputs: Vec<Elements> = carried.chain(given).collect();
        if inputs.is_empty() || outputs.is_empty() {
            return Ok((carries, ys));
        }
        let at = self.at.clone();
        let ys_are_floats = ys.iter().map(|y| y.dtype().is_float()).collect();
        let init = init.into_iter().map(|operand| operand.tracked.is_some()).collect();
        let data = BackwardData { steps: self, run, init, ys_are_floats };
        let mut tracked = attach(&at, &inputs, &outputs, Box::new(move |given| data.run(given)))?.into_iter();
        let mut give = |tensor: Tensor| match tensor.dtype().is_float() {
            true => tracked.next().expect("the node has one output per float"),
            false => tensor,
        };
        let carries = carries.into_iter().map(&mut give).collect();
        Ok((carries, ys.into_iter().map(&mut give).collect()))
    }
}

/// The loop, and the data of its forward pass that the backward pass needs.
pub(super) struct BackwardData {
    pub(super) steps: Steps,
    pub(super) run: ForwardRun,
    /// For each leaf of the initial carry, `true` if it needs a gradient.
    pub(super) init: Vec<bool>,
    pub(super) ys_are_floats: Vec<bool>,
}

/// The state of a backward pass, which processes the steps in reverse order.
struct BackwardState<'a> {
    data: &'a BackwardData,
    /// The captured tensors that were passed to the steps.
    captured: Vec<Tensor>,
    /// The cotangents of the carry after the step being differentiated.
    carry: Vec<Option<Tensor>>,
    ys: Vec<Option<Tensor>>,
    /// The gradients of the sequences, filled row by row.
    xs: Vec<Option<Tensor>>,
    captured_sums: Vec<Sum>,
    var_sums: Vec<Sum>,
}

impl BackwardData {
    /// Computes the gradients of the tracked tensors from the cotangents of the float carries and ys. The order of
    /// the gradients is: initial carry, sequences, captured tensors, captured variables.
    pub(super) fn run(&self, cotangents: &[Option<Tensor>]) -> Result<Vec<Option<Elements>>> {
        let record = &self.run.record;
        let mut given = cotangents.iter().cloned();
        let mut next = |is_float: bool| match is_float {
            true => given.next().expect("the node has one output per float"),
            false => None,
        };
        let keeps_graphs = !record.graphs.is_empty();
        let mut back = BackwardState {
            data: self,
            captured: if keeps_graphs { self.run.captured.clone() } else { self.steps.captured_leaves()? },
            carry: record.last.iter().map(|carry| next(carry.dtype().is_float())).collect(),
            ys: self.ys_are_floats.iter().map(|is_float| next(*is_float)).collect(),
            xs: vec![None; self.steps.xs.len()],
            captured_sums: self.steps.captured.iter().map(|_| Sum::default()).collect(),
            var_sums: self.run.vars.iter().map(|_| Sum::default()).collect(),
        };
        let watch = ActiveHandles::current();
        let check = |back: usize| watch.check(&self.steps.at, Progress::Steps(back)).map_err(errors::into_candle);
        self.run.scope.run(|| {
            for (step, traced) in record.graphs.iter().enumerate().rev() {
                check(record.steps - 1 - step)?;
                back.step(step, traced)?;
            }
            for (range, start, end) in record.segments() {
                let mut steps = range.clone().rev();
                let mut segment = self.rerun_segment(range, start, end, &back.captured)?;
                while let (Some(step), Some(traced)) = (steps.next(), segment.pop()) {
                    check(record.steps - 1 - step)?;
                    back.step(step, &traced)?;
                }
            }
            Ok::<(), candle_core::Error>(())
        })?;
        Ok(back.finish())
    }

    /// Reruns the steps of a segment, each from new leaves. Checks that the results equal those of the forward pass.
    fn rerun_segment(
        &self,
        range: Range<usize>,
        start: &[Tensor],
        end: &[Tensor],
        captured: &[Tensor],
    ) -> Result<Vec<Traced>> {
        let mut segment: Vec<Traced> = Vec::with_capacity(range.len());
        let mut carry = start.to_vec();
        let watch = ActiveHandles::current();
        for step in range {
            watch.check(&self.steps.at, Progress::Steps(step)).map_err(errors::into_candle)?;
            let traced = self.steps.trace_step(step, &carry, captured);
            let again = " when rerun for the gradient";
            let traced = traced
                .map_err(|error| errors::without_backtrace(error).context(self.steps.failure_context(step, again)))?;
            let given = fingerprints(&traced.ys).collect::<Result<Vec<_>>>()?;
            let first = step * given.len();
            if self.run.record.fingerprints.get(first..first + given.len()) != Some(&given) {
                return Err(self.not_reproducible_error(format!("a y of step {step}")));
            }
            carry = traced.next.iter().map(|next| next.detach().contiguous()).collect::<Result<_>>()?;
            segment.push(traced);
        }
        // Compare results only on the CPU, because rounding may differ between runs on other devices.
        for (index, (carry, end)) in carry.iter().zip(end).enumerate().filter(|(_, (end, _))| end.device().is_cpu()) {
            if !is_same(carry, end)? {
                return Err(self.not_reproducible_error(format!("leaf `{}` of the carry", self.steps.names[index])));
            }
        }
        Ok(segment)
    }

    /// Returns the error for a closure whose results differ between the forward pass and the rerun.
    fn not_reproducible_error(&self, component: String) -> candle_core::Error {
        let fix = "make the closure depend on its arguments only: draw random numbers (dropout masks) outside and pass \
                   them, change variables after the backward; or keep the graphs of a loop with \
                   `ScanOptions::keep_graphs`";
        let expected = "the result of the forward pass";
        errors::into_candle(self.steps.at.mismatch(component, expected, "different numbers in the rerun", fix))
    }
}

impl BackwardState<'_> {
    fn step(&mut self, step: usize, traced: &Traced) -> Result<()> {
        let steps = &self.data.steps;
        let row = steps.row(step);
        let cotangent = |cotangent: &Option<Tensor>| match (cotangent, steps.axis) {
            (Some(all), Some(axis)) => all.narrow(axis, row, 1)?.squeeze(axis)?.contiguous().map(Some),
            (whole, _) => Ok(whole.clone()),
        };
        let ys = self.ys.iter().map(cotangent).collect::<Result<Vec<_>>>()?;
        let carries = traced.next.iter().zip(self.carry.drain(..));
        let mut gradients = local::compute_gradients(carries.chain(traced.ys.iter().zip(ys)))?;
        let mut of = |leaf: &Tensor| gradients.remove(leaf).map(|gradient| gradient.detach());
        self.carry = traced.carry.iter().map(&mut of).collect();
        for ((all, xs), leaf) in self.xs.iter_mut().zip(&steps.xs).zip(&traced.xs) {
            if let (Some(_), Some(gradient)) = (&xs.tracked, of(leaf)) {
                let axis = steps.axis.expect("sequences have an axis of steps");
                let all = match all {
                    Some(all) => all,
                    None => all.insert(Tensor::zeros(xs.value.shape(), xs.value.dtype(), xs.value.device())?),
                };
                if gradient.elem_count() > 0 {
                    all.slice_set(&gradient.contiguous()?.unsqueeze(axis)?, axis, row)?;
                }
            }
        }
        for (sum, leaf) in self.captured_sums.iter_mut().zip(&self.captured) {
            sum.add(of(leaf))?;
        }
        for (sum, var) in self.var_sums.iter_mut().zip(&self.data.run.vars) {
            sum.add(of(var))?;
        }
        Ok(())
    }

    fn finish(self) -> Vec<Option<Elements>> {
        let steps = &self.data.steps;
        let mut gradients = Vec::new();
        let init = self.carry.into_iter().zip(&self.data.init).filter(|(_, tracked)| **tracked);
        gradients.extend(init.map(|(gradient, _)| gradient.map(Elements::Shared)));
        let xs = self.xs.into_iter().zip(&steps.xs).filter(|(_, xs)| xs.tracked.is_some());
        gradients.extend(xs.map(|(gradient, _)| gradient.map(Elements::Fresh)));
        let captured = self.captured_sums.into_iter().zip(&steps.captured).filter(|(_, it)| it.tracked.is_some());
        gradients.extend(captured.map(|(sum, _)| sum.total().map(Elements::Fresh)));
        gradients.extend(self.var_sums.into_iter().map(|sum| sum.total().map(Elements::Fresh)));
        gradients
    }
}
