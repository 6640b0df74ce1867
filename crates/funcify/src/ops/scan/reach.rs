//! Which states of the loop have lanes, tangents or cotangents, as far as the paths through its body say.

use super::Scan;
use super::Start;
use crate::fixpoint::{fixpoint, union};
use crate::ops::reach::{Kind, Pull, Reach};

impl Scan {
    /// Which buffers and carries are reached if these operands are, and whether the `until` is.
    pub(in crate::ops) fn states_reached(&self, kind: Kind, operands: &[bool], body: &mut Reach) -> (Vec<bool>, bool) {
        let (layout, results, places) = (self.params(), self.results(), self.operands());
        let by_lane = kind == Kind::Lanes && places.steps.is_some_and(|steps| operands[steps]);
        let of_buffers = places.buffers.iter().map(|place| place.is_some_and(|place| operands[place]));
        let states: Vec<bool> = of_buffers.chain(operands[places.carries.clone()].iter().copied()).collect();
        fixpoint((states, false), |(states, ends)| {
            // What lanes that are done would compute is guarded.
            let is_guarded = by_lane || *ends;
            let states: Vec<bool> = states.iter().map(|state| *state || is_guarded).collect();
            let mut params = vec![false; layout.count];
            for (operand, params_of) in places.sequences.clone().zip(&layout.sequences) {
                params[params_of.clone()].fill(operands[operand]);
            }
            for (params_of, reached) in layout.buffers.iter().zip(&states) {
                params[params_of.clone()].fill(*reached);
            }
            params[layout.carries.clone()].copy_from_slice(&states[self.buffers.len()..]);
            params[layout.invariants.clone()].copy_from_slice(&operands[places.invariants.clone()]);
            if is_guarded {
                let is_float = |param: usize| self.body.input_type(param).dtype.is_float();
                params.iter_mut().enumerate().for_each(|(param, reached)| *reached |= is_float(param));
            }
            let given = body.follow(&self.body, kind, &params);
            let written = results.buffers.iter().map(|written| given[written.clone()].contains(&true));
            let given_states = written.chain(given[results.carries.clone()].iter().copied());
            let stops = kind == Kind::Lanes && results.until.is_some_and(|until| given[until]);
            (union(&states, given_states), stops)
        })
    }

    /// The body, of which the cotangents are wanted that lead to operands that are.
    pub(in crate::ops) fn pull(&self, wanted: &[bool]) -> Pull {
        Pull::of(&self.body, &self.active(wanted))
    }

    /// Which operands have cotangents if these results have, and which buffers and carries have them in a step.
    pub(in crate::ops) fn states_pulled(&self, of_results: &[bool], body: &mut Pull) -> (Vec<bool>, Vec<bool>) {
        let (layout, results, places) = (self.params(), self.results(), self.operands());
        let mut found = Vec::new();
        let states = fixpoint(of_results.to_vec(), |states| {
            let mut outputs = vec![false; results.count];
            for (written, has) in results.buffers.iter().zip(states) {
                outputs[written.clone()].fill(*has);
            }
            outputs[results.carries.clone()].copy_from_slice(&states[self.buffers.len()..]);
            found = body.follow(&self.body, &outputs);
            let read = layout.buffers.iter().map(|reads| found[reads.clone()].contains(&true));
            union(states, read.chain(found[layout.carries.clone()].iter().copied()))
        });
        let mut operands = vec![false; places.count];
        for (operand, params) in places.sequences.zip(&layout.sequences) {
            operands[operand] = found[params.clone()].contains(&true);
        }
        for (number, operand) in places.buffers.iter().enumerate() {
            let is_full = self.buffers[number].start == Start::Full;
            let has = states[number] || (!is_full && of_results[number]);
            operand.iter().for_each(|operand| operands[*operand] = has);
        }
        operands[places.carries].copy_from_slice(&states[self.buffers.len()..]);
        operands[places.invariants].copy_from_slice(&found[layout.invariants]);
        (operands, states)
    }
}
