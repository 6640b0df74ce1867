//! What of a loop some of its results need.

use std::ops::Range;
use std::sync::Arc;

use super::{Scan, Start};
use crate::fixpoint::fixpoint;
use crate::graph::{Graph, Keep, Need, PrunedOp};
use crate::ops::Prunable;

impl Scan {
    /// Whether a loop is needed for the size of its number of steps alone.
    fn only_counts(&self, results: &[bool]) -> bool {
        !results.contains(&true) && self.until.is_none()
    }

    /// Which buffers and carries are needed: their results are, or a step that is needed reads them.
    fn needed_states(&self, results: &[bool], body: &Need) -> Vec<bool> {
        let layout = self.params();
        let is_read = |reads: &Range<usize>| reads.clone().any(|param| body.has(&self.body, param));
        let read = layout.buffers.iter().map(is_read).chain(layout.carries.map(|param| body.has(&self.body, param)));
        results.iter().zip(read).map(|(result, read)| *result || read).collect()
    }
}

impl Prunable for Scan {
    fn needed_operands(&self, results: &[bool], bodies: &mut [Need]) -> Vec<bool> {
        let (layout, outputs, places) = (self.params(), self.results(), self.operands());
        let (body, mut operands) = (&mut bodies[0], vec![false; places.count]);
        places.steps.iter().for_each(|steps| operands[*steps] = true);
        if self.only_counts(results) {
            return operands;
        }
        let states = fixpoint(results.to_vec(), |states| {
            let mut needed = vec![false; outputs.count];
            for (written, state) in outputs.buffers.iter().zip(states) {
                needed[written.clone()].fill(*state);
            }
            needed[outputs.carries.clone()].copy_from_slice(&states[self.buffers.len()..]);
            outputs.until.iter().for_each(|until| needed[*until] = true);
            body.add(&self.body, &needed);
            self.needed_states(results, body)
        });
        for (operand, params) in places.sequences.zip(layout.sequences) {
            operands[operand] = params.into_iter().any(|param| body.has(&self.body, param));
        }
        for (operand, needed) in places.buffers.iter().zip(&states) {
            operand.iter().for_each(|operand| operands[*operand] = *needed);
        }
        operands[places.carries].copy_from_slice(&states[self.buffers.len()..]);
        for (operand, param) in places.invariants.zip(layout.invariants) {
            operands[operand] = body.has(&self.body, param);
        }
        operands
    }

    fn pruned_for(&self, results: &[bool], bodies: &[Need]) -> Option<PrunedOp> {
        if self.only_counts(results) {
            let body = Arc::new(Graph::new(self.body.name()));
            let op = Scan { body, sequences: vec![], buffers: vec![], carries: 0, invariants: 0, ..self.clone() };
            return Some(PrunedOp {
                op: op.into(),
                operands: self.operands().steps.into_iter().collect(),
                results: vec![],
            });
        }
        let (layout, outputs, places) = (self.params(), self.results(), self.operands());
        let need = &bodies[0];
        let (needed, used) = (self.needed_states(results, need), need.inputs(&self.body));
        let mut kept = vec![false; outputs.count];
        for (written, needed) in outputs.buffers.iter().zip(&needed) {
            kept[written.clone()].fill(*needed);
        }
        kept[outputs.carries.clone()].copy_from_slice(&needed[self.buffers.len()..]);
        outputs.until.iter().for_each(|until| kept[*until] = true);
        let is_read = |reads: &Range<usize>| used[reads.clone()].contains(&true);
        let mut inputs = vec![false; layout.count];
        let mut operands: Vec<usize> = places.steps.into_iter().collect();
        let mut op = Scan { sequences: vec![], buffers: vec![], carries: 0, invariants: 0, ..self.clone() };
        for (number, operand) in places.sequences.enumerate() {
            if is_read(&layout.sequences[number]) {
                inputs[layout.sequences[number].clone()].fill(true);
                operands.push(operand);
                op.sequences.push(self.sequences[number].clone());
            }
        }
        for (number, buffer) in self.buffers.iter().enumerate().filter(|(number, _)| needed[*number]) {
            inputs[layout.buffers[number].clone()].fill(true);
            operands.extend(places.buffers[number].filter(|_| buffer.start != Start::Empty));
            op.buffers.push(buffer.clone());
        }
        let carries = places.carries.zip(layout.carries).zip(&needed[self.buffers.len()..]);
        let carries: Vec<(usize, usize)> = carries.filter(|(_, needed)| **needed).map(|(pair, _)| pair).collect();
        op.carries = carries.len();
        let invariants: Vec<(usize, usize)> =
            places.invariants.zip(layout.invariants).filter(|(_, param)| used[*param]).collect();
        op.invariants = invariants.len();
        for (operand, param) in carries.into_iter().chain(invariants) {
            inputs[param] = true;
            operands.push(operand);
        }
        op.body = Arc::new(self.body.kept(&Keep { inputs, outputs: kept }, need)?);
        let results = (0..needed.len()).filter(|result| needed[*result]).collect();
        Some(PrunedOp { op: op.into(), operands, results })
    }
}
