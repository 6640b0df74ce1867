//! The account of the memory of a running program, against the budget.
//!
//! Where the plan of a program holds no more than the budget in any of its branches, there is no account. Else, and where sizes
//! follow from data, each instruction is held against the budget before it runs, so that what does not run is not counted.

use funcify_core::memory::{bytes_of, over_budget};

use super::native::NativeLoop;
use super::program::{Action, Instruction, with_slots};
use super::*;

/// What is held in the enclosing programs of the one that runs, and the budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) budget: u64,
    pub(crate) held: u64,
}

impl<B: Backend> Run<'_, B> {
    /// Refuses what would take more than the budget.
    pub(crate) fn afford(&self, at: &Place, what: impl FnOnce() -> String, bytes: u64) -> Result<()> {
        match &self.memory {
            Some(memory) if memory.held.saturating_add(bytes) > memory.budget => {
                Err(over_budget(at, what(), bytes, memory.held, memory.budget))
            }
            _ => Ok(()),
        }
    }

    /// Returns the bytes of a tensor of this type: 0 until its sizes are bound, as there is none of it before.
    pub(crate) fn bytes_of(&self, ty: &TensorType) -> u64 {
        bytes_of(ty, &self.sizes, self.backend.element_bytes(ty.dtype)).unwrap_or(0)
    }
}

/// What the slots of one running program hold.
pub(crate) struct Ledger<'f> {
    slots: &'f mut Vec<u64>,
    live: u64,
    /// What the enclosing programs held when this one began.
    outer: u64,
}

impl<'f> Ledger<'f> {
    /// The ledger of a program that begins, if it needs one, in memory that an earlier one may have had.
    pub(crate) fn open<B: Backend>(program: &Program<B>, run: &Run<'_, B>, slots: &'f mut Vec<u64>) -> Option<Self> {
        let outer = run.memory?.held;
        slots.clear();
        slots.resize(program.slots, 0);
        let mut ledger = Ledger { slots, live: 0, outer };
        for (slot, ty) in with_slots(&program.inputs, &program.input_types) {
            // Those of a body are held by the enclosing program; the whole program's are the caller's, and count.
            let bytes = if outer == 0 { run.bytes_of(ty) } else { 0 };
            ledger.set(slot, bytes);
        }
        Some(ledger)
    }

    fn set(&mut self, slot: usize, bytes: u64) {
        self.live = self.live.saturating_sub(self.slots[slot]).saturating_add(bytes);
        self.slots[slot] = bytes;
    }

    /// Refuses an instruction whose results would pass the budget. What it runs inside begins with what is held here.
    pub(crate) fn before<B: Backend>(&self, instruction: &Instruction<B>, run: &mut Run<'_, B>) -> Result<()> {
        let Some(budget) = run.memory.map(|memory| memory.budget) else { return Ok(()) };
        let held = self.outer.saturating_add(self.live);
        run.memory = Some(Memory { budget, held });
        let bytes = instruction.made().map(|ty| run.bytes_of(ty)).fold(0, u64::saturating_add);
        if held.saturating_add(bytes) > budget {
            let at = instruction.action.place();
            let shown = || instruction.made().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
            run.afford(&at, shown, bytes)?;
        }
        if !matches!(instruction.action, Action::Kernel(_)) {
            run.memory = Some(Memory { budget, held: held.saturating_add(bytes).max(1) });
        }
        Ok(())
    }

    /// Notes the results, whose sizes are bound now, and lets go of what was used for the last time.
    pub(crate) fn after<B: Backend>(&mut self, instruction: &Instruction<B>, run: &mut Run<'_, B>) {
        for operand in instruction.operands.iter().filter(|operand| operand.last) {
            self.set(operand.slot as usize, 0);
        }
        for (slot, ty) in with_slots(&instruction.results, instruction.action.output_types()) {
            self.set(slot, run.bytes_of(ty));
        }
        if let Some(memory) = &mut run.memory {
            memory.held = self.outer;
        }
    }
}

impl<B: Backend> Instruction<B> {
    /// The types of what it makes: a kernel also makes the results that nobody uses.
    fn made(&self) -> impl Iterator<Item = &TensorType> {
        let makes_all = matches!(self.action, Action::Kernel(_));
        let types = self.results.iter().zip(self.action.output_types());
        types.filter(move |(slot, _)| makes_all || slot.is_some()).map(|(_, ty)| ty)
    }
}

impl<B: Backend> NativeLoop<B> {
    /// The bytes of one more row of each buffer that is collected while the loop runs, as the number of rows follows from data.
    pub(crate) fn collected_row_bytes(&self, run: &Run<'_, B>) -> u64 {
        if run.memory.is_none() || self.scan.until.is_none() {
            return 0;
        }
        let handle = size_of::<B::Tensor>() as u64;
        let rows = self.rows.iter().map(|row| run.bytes_of(row).saturating_add(handle));
        rows.fold(0, u64::saturating_add)
    }

    /// Refuses traces of a number of steps that follows from data.
    pub(crate) fn afford_traces(&self, run: &Run<'_, B>, used: impl Fn(usize) -> bool) -> Result<()> {
        if run.memory.is_none() || self.count.is_none() || self.scan.until.is_some() {
            return Ok(());
        }
        let traces = self.outputs[..self.scan.buffers.len()].iter().enumerate().filter(|(index, _)| used(*index));
        let bytes = traces.clone().map(|(_, ty)| run.bytes_of(ty)).fold(0, u64::saturating_add);
        let shown = || traces.clone().map(|(_, ty)| ty.to_string()).collect::<Vec<_>>().join(", ");
        let steps = || self.scan.steps.value(&run.sizes).map_or("?".into(), |steps| steps.to_string());
        run.afford(&self.at, || format!("{} for {} steps", shown(), steps()), bytes)
    }
}
