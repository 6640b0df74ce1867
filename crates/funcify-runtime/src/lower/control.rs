//! Lowers ops that the host must drive: switches, while loops, associative scans, and ops that bind data-dependent
//! sizes.

use std::collections::hash_map::Entry;

use funcify_core::ops::{AssociativeScan, BindSize, Switch};

use super::report::count_kernels;
use super::whole::used_results;
use super::*;
use crate::run::associative::AssociativeNode;
use crate::run::bind::BindNode;
use crate::run::switch::SwitchNode;
use crate::run::while_loop::WhileNode;

impl<B: Backend> Lowering<'_, B> {
    /// Lowers a switch. If its index is static, lowers only the selected branch.
    pub(super) fn lower_switch(&mut self, call: NodeCall<'_>, switch: &Switch) -> Result<Vec<Slot>> {
        let NodeCall { graph, node, operands, .. } = call;
        let places = switch.operands();
        if let Some(index) = self.static_number(operands[0]) {
            let chosen = switch.selected_branch(index);
            let branch = &switch.branches[chosen];
            let inputs = Replay::new(branch, operands[places[chosen].clone()].iter().copied());
            return self.lower_nodes(branch, inputs, &branch.live_nodes())?.outputs();
        }
        let branches = switch.branches.iter().zip(&places);
        let branches = branches.map(|(branch, place)| self.sub_program(branch, 0, &operands[place.clone()], false));
        let branches = branches.collect::<Result<Vec<_>>>()?;
        let (at, index, outputs) = (node.place(), graph.ty(node.inputs[0]).dtype, graph.types(&node.outputs));
        let switch = SwitchNode { switch: switch.clone(), at: at.clone(), branches, places, index, outputs };
        self.push(&at, Action::Switch(Box::new(switch)), operands, node.outputs.len())
    }

    pub(super) fn not_static(&self, at: &Place, reason: String, fix: &str) -> Error {
        let backend = self.settings.backend.name().to_string();
        Error::StepCountNotStatic { at: at.boxed(), backend, reason, fix: fix.into() }
    }

    /// Lowers a while loop. Returns an error if unrolling is forced and the loop has no static bound.
    pub(super) fn lower_while(&mut self, call: NodeCall<'_>, op: &While) -> Result<Vec<Slot>> {
        let NodeCall { graph, index, node, operands } = call;
        let at = node.place();
        let bound = op.bound.as_ref().map(|bound| bound.value(&self.sizes).map_err(|error| (bound, error)));
        if self.settings.strategy == Some(LoopStrategy::Unroll) && !matches!(bound, Some(Ok(_))) {
            let reason = match bound {
                Some(Err((bound, error))) => format!("the bound is {bound}, and {error}"),
                _ => "the number of steps depends on values that the loop computes, and has no bound".to_string(),
            };
            return Err(self.not_static(&at, reason, "use `LoopStrategy::Auto`, or bound it: `while_loop_bounded`"));
        }
        let declined = match self.lower_whole_node(graph, index, operands)?.into_results("while") {
            Ok(results) => return Ok(results),
            Err(declined) => declined,
        };
        let (late, declined) = match declined.map(|_| self.late_while(graph, node)) {
            Some(Ok(late)) => (Some(late), None),
            Some(Err(furthest)) => (None, Some(furthest.unless_fault(&node.place(), self.settings.backend.name())?)),
            None => (None, None),
        };
        let reported = self.notes.loops.len();
        let places = op.operands();
        let carries = places.carries.len();
        let (condition, body) = self.lower_fallback(late.is_some(), |lowering| {
            let condition = lowering.sub_program(&op.condition, carries, &operands[places.condition], true)?;
            Ok((condition, lowering.sub_program(&op.body, carries, &operands[places.body], true)?))
        })?;
        match &late {
            Some(_) => self.report_loop(reported, graph, node, LoopStrategy::Compiled, None, None),
            None => {
                let kernels = count_kernels(&condition.instructions) + count_kernels(&body.instructions);
                self.report_loop(reported, graph, node, LoopStrategy::Native, declined, Some(kernels));
            }
        }
        let outputs = graph.types(&node.outputs);
        let node = WhileNode { op: op.clone(), at: at.clone(), condition, body, outputs, late };
        let results = self.push(&at, Action::While(Box::new(node)), operands, carries)?;
        self.note_bounded_carries(op, operands, &results);
        Ok(results)
    }

    /// Lowers an associative scan to a compiled loop if possible, and otherwise to two sweeps, which handle any number
    /// of elements.
    pub(super) fn lower_associative(&mut self, call: NodeCall<'_>, op: &AssociativeScan) -> Result<Vec<Slot>> {
        let NodeCall { graph, index, node, operands } = call;
        if let Attempt::Compiled(results) = self.lower_whole_node(graph, index, operands)? {
            return Ok(results);
        }
        let at = node.place();
        let types = graph.types(&node.inputs);
        let used = used_results(&self.uses(graph), node);
        let sweeps = self.sweeps((graph.id(), index), &at, op, &types, &used)?;
        let (captured, needed) = (&operands[op.leaves..], sweeps.needed.clone());
        let up_sweep = self.sub_program(&sweeps.up, op.leaves, captured, false)?;
        let down_sweep = self.sub_program(&sweeps.down, needed.len() + op.leaves, captured, false)?;
        let (pairs, leaves) = (sweeps.pairs.clone(), types[..op.leaves].to_vec());
        let outputs = needed.iter().map(|leaf| types[*leaf].clone()).collect();
        let reverse = op.reverse;
        let node = AssociativeNode { at: at.clone(), reverse, leaves, needed, outputs, pairs, up_sweep, down_sweep };
        let results = self.push(&at, Action::Associative(Box::new(node)), operands, sweeps.needed.len())?;
        Ok(self.registers_of_all_results(results, (0..op.leaves).map(|leaf| sweeps.needed.contains(&leaf))))
    }

    /// Returns the two sweeps of an associative scan. Caches them, so that an enclosing unrolled loop builds them once.
    fn sweeps(
        &mut self,
        key: NodeKey,
        at: &Place,
        op: &AssociativeScan,
        types: &[TensorType],
        used: &[bool],
    ) -> Result<Arc<Sweeps>> {
        Ok(match self.sweeps.entry(key) {
            Entry::Occupied(sweeps) => sweeps.get().clone(),
            Entry::Vacant(entry) => entry.insert(Arc::new(op.sweeps(at, types, used)?)).clone(),
        })
    }
}

impl<B: Backend> Lowering<'_, B> {
    pub(super) fn lower_bind(&mut self, call: NodeCall<'_>, op: &BindSize) -> Result<Vec<Slot>> {
        let NodeCall { graph, node, operands, .. } = call;
        let (at, symbol) = (node.place(), op.size.clone());
        // A negative static value becomes an error only at run time, because the op may be in a branch that is never
        // taken (bind-c2).
        let action = match self.static_number(operands[0]).and_then(|number| usize::try_from(number).ok()) {
            Some(size) => {
                self.sizes.set(&symbol, size);
                Action::Bind { symbol, size }
            }
            None => {
                self.sizes.remove(&symbol);
                let dtype = graph.ty(node.inputs[0]).dtype;
                Action::BindSize(Box::new(BindNode { op: op.clone(), dtype, at: at.clone() }))
            }
        };
        let operands = if let Action::BindSize(_) = action { operands } else { &[] };
        self.push(&at, action, operands, 0)
    }
}
