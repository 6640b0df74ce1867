//! Predicts which states of a loop (buffers, then carries) have lanes, tangents or cotangents, by following the paths
//! through its body. Also converts flags between the operands, the states, and the body's parameters and results.

use super::*;
use crate::fixpoint::or_flags;
use crate::ops::reach::CotangentReach;

impl Operands {
    /// Converts flags of the operands to flags of the states. A state has the flag of its initial value, or `false` if
    /// it has no initial value.
    pub(super) fn states(&self, operands: &[bool]) -> Vec<bool> {
        let of_buffers = self.buffers.iter().map(|place| place.is_some_and(|place| operands[place]));
        of_buffers.chain(operands[self.carries.clone()].iter().copied()).collect()
    }
}

impl Layout {
    /// Converts flags of the body's parameters or results to flags of the states. A buffer is flagged if any of its
    /// rows is flagged.
    pub(super) fn states(&self, flags: &[bool]) -> Vec<bool> {
        let of_buffers = self.buffers.iter().map(|rows| flags[rows.clone()].contains(&true));
        of_buffers.chain(flags[self.carries.clone()].iter().copied()).collect()
    }

    /// Converts flags of the states to flags of the body's parameters or results.
    pub(super) fn of_states(&self, states: &[bool]) -> Vec<bool> {
        let mut flags = vec![false; self.count];
        for (rows, state) in self.buffers.iter().zip(states) {
            flags[rows.clone()].fill(*state);
        }
        flags[self.carries.clone()].copy_from_slice(&states[self.buffers.len()..]);
        flags
    }
}

impl Scan {
    /// Converts flags of the operands and of the states to flags of the body's parameters.
    pub(super) fn reached_params(&self, operands: &[bool], states: &[bool]) -> Vec<bool> {
        let (layout, places) = (self.params(), self.operands());
        let mut params = layout.of_states(states);
        for (operand, rows) in places.sequences.zip(layout.sequences) {
            params[rows].fill(operands[operand]);
        }
        params[layout.invariants].copy_from_slice(&operands[places.invariants]);
        params
    }

    /// Returns the flags of the operands, given the flags of the body's parameters and of the states.
    pub(super) fn reached_operands(&self, params: &[bool], states: &[bool]) -> Vec<bool> {
        let (layout, places) = (self.params(), self.operands());
        let mut operands = vec![false; places.count];
        for (operand, rows) in places.sequences.zip(layout.sequences) {
            operands[operand] = params[rows].contains(&true);
        }
        for (operand, state) in places.buffers.iter().zip(states) {
            operand.iter().for_each(|operand| operands[*operand] = *state);
        }
        operands[places.carries].copy_from_slice(&states[self.buffers.len()..]);
        operands[places.invariants].copy_from_slice(&params[layout.invariants]);
        operands
    }

    /// Returns which buffers and carries are reached by the lanes or tangents of the marked operands, and whether the
    /// exit condition `until` differs between lanes.
    pub(in crate::ops) fn states_reached(
        &self,
        kind: ReachKind,
        operands: &[bool],
        body: &mut Reach,
    ) -> (Vec<bool>, bool) {
        let (results, places) = (self.results(), self.operands());
        let by_lane = kind == ReachKind::Lanes && places.steps.is_some_and(|steps| operands[steps]);
        fixpoint((places.states(operands), false), |(states, ends)| {
            // If lanes may finish early, the batching rule gives lanes to all states, and also to the float parameters,
            // because it stops the gradients of these parameters in finished lanes.
            let is_guarded = by_lane || *ends;
            let states: Vec<bool> = states.iter().map(|state| *state || is_guarded).collect();
            let mut params = self.reached_params(operands, &states);
            if is_guarded {
                let is_float = |param: usize| self.body.input_type(param).dtype.is_float();
                params.iter_mut().enumerate().for_each(|(param, reached)| *reached |= is_float(param));
            }
            let given = body.follow(&self.body, kind, &params);
            let stops = kind == ReachKind::Lanes && results.until.is_some_and(|until| given[until]);
            (or_flags(&states, results.states(&given)), stops)
        })
    }

    /// Returns the initial [`CotangentReach`] of the body, for derivatives with respect to the operands in `wrt`.
    pub(in crate::ops) fn cotangent_reach(&self, wrt: &[bool]) -> CotangentReach {
        CotangentReach::of(&self.body, &self.active(wrt))
    }

    /// Returns which operands have cotangents if the results marked in `of_results` have them, and which buffers and
    /// carries have cotangents in at least one step.
    pub(in crate::ops) fn states_pulled(
        &self,
        of_results: &[bool],
        body: &mut CotangentReach,
    ) -> (Vec<bool>, Vec<bool>) {
        let (layout, results) = (self.params(), self.results());
        let mut params = Vec::new();
        let states = fixpoint(of_results.to_vec(), |states| {
            params = body.follow(&self.body, &results.of_states(states));
            or_flags(states, layout.states(&params))
        });
        (self.reached_operands(&params, &states), states)
    }
}
