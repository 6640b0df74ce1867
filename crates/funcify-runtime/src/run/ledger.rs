//! Tracks the memory of a running program against the budget.
//!
//! If the predicted peak of a program is within the budget, whichever branches run, the program is not tracked. For all
//! other programs, including those with data-dependent sizes, the ledger checks the budget before each instruction
//! runs, so a branch counts only if it runs.

use funcify_core::memory::{bytes_of, over_budget};

use super::native::NativeLoop;
use super::program::{Action, Instruction, with_slots};
use super::*;

/// The memory budget, and the bytes held by the enclosing programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) budget: u64,
    pub(crate) held: u64,
}

impl<B: Backend> Run<'_, B> {
    /// Returns an error if `bytes` additional bytes would exceed the budget.
    pub(crate) fn check_budget(&self, at: &Place, what: impl FnOnce() -> String, bytes: u64) -> Result<()> {
        match &self.memory {
            Some(memory) if memory.held.saturating_add(bytes) > memory.budget => {
                Err(over_budget(at, what(), bytes, memory.held, memory.budget))
            }
            _ => Ok(()),
        }
    }

    /// Returns the size of a tensor of this type in bytes, or 0 if its dimensions are not bound yet.
    pub(crate) fn bytes_of(&self, ty: &TensorType) -> u64 {
        bytes_of(ty, &self.sizes, self.backend.element_bytes(ty.dtype)).unwrap_or(0)
    }
}

/// The number of bytes held by each slot of a running program.
pub(crate) struct Ledger<'f> {
    slots: &'f mut Vec<u64>,
    live: u64,
    /// The bytes that the enclosing programs held when this program began.
    outer: u64,
}

impl<'f> Ledger<'f> {
    /// Opens the ledger of a program that is about to run. Returns `None` if the run has no budget to check. Reuses the
    /// allocation of `slots`.
    pub(crate) fn open<B: Backend>(program: &Program<B>, run: &Run<'_, B>, slots: &'f mut Vec<u64>) -> Option<Self> {
        let outer = run.memory?.held;
        slots.clear();
        slots.resize(program.slots, 0);
        let mut ledger = Ledger { slots, live: 0, outer };
        for (slot, ty) in with_slots(&program.inputs, &program.input_types) {
            // The arguments of a body are already counted by the enclosing program. The arguments of the outermost
            // program belong to the caller, but they count too.
            let bytes = if outer == 0 { run.bytes_of(ty) } else { 0 };
            ledger.set(slot, bytes);
        }
        Some(ledger)
    }

    fn set(&mut self, slot: usize, bytes: u64) {
        self.live = self.live.saturating_sub(self.slots[slot]).saturating_add(bytes);
        self.slots[slot] = bytes;
    }

    /// Returns an error if the results of an instruction would exceed the budget. Also records in `run` the bytes that
    /// are held at this point, because programs nested in the instruction add their own bytes to them.
    pub(crate) fn check_instruction<B: Backend>(
        &self,
        instruction: &Instruction<B>,
        run: &mut Run<'_, B>,
    ) -> Result<()> {
        let Some(budget) = run.memory.map(|memory| memory.budget) else { return Ok(()) };
        let held = self.outer.saturating_add(self.live);
        run.memory = Some(Memory { budget, held });
        let bytes = instruction.made_types().map(|ty| run.bytes_of(ty)).fold(0, u64::saturating_add);
        if held.saturating_add(bytes) > budget {
            let at = instruction.action.place();
            let shown = || instruction.made_types().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
            run.check_budget(&at, shown, bytes)?;
        }
        if !matches!(instruction.action, Action::Kernel(_)) {
            run.memory = Some(Memory { budget, held: held.saturating_add(bytes).max(1) });
        }
        Ok(())
    }

    /// Records the results of an instruction, now that their sizes are bound, and releases the operands that have no
    /// later use.
    pub(crate) fn record_results<B: Backend>(&mut self, instruction: &Instruction<B>, run: &mut Run<'_, B>) {
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
    /// Returns the types of the results that the instruction allocates. A kernel also allocates its unused results.
    fn made_types(&self) -> impl Iterator<Item = &TensorType> {
        let makes_all = matches!(self.action, Action::Kernel(_));
        let types = self.results.iter().zip(self.action.output_types());
        types.filter(move |(slot, _)| makes_all || slot.is_some()).map(|(_, ty)| ty)
    }
}

impl<B: Backend> NativeLoop<B> {
    /// Returns the number of bytes that each step adds to the traces of a loop with early exit. Returns 0 for all other
    /// loops, and if the run has no budget to check.
    pub(crate) fn collected_row_bytes(&self, run: &Run<'_, B>) -> u64 {
        if run.memory.is_none() || self.scan.until.is_none() {
            return 0;
        }
        let handle = size_of::<B::Tensor>() as u64;
        let rows = self.rows.iter().map(|row| run.bytes_of(row).saturating_add(handle));
        rows.fold(0, u64::saturating_add)
    }

    /// Returns an error if the traces of a loop would exceed the budget. Checks a loop only if its number of steps is
    /// an operand and the loop has no early exit.
    pub(crate) fn check_trace_budget(&self, run: &Run<'_, B>, used: impl Fn(usize) -> bool) -> Result<()> {
        if run.memory.is_none() || self.count.is_none() || self.scan.until.is_some() {
            return Ok(());
        }
        let traces = self.outputs[..self.scan.buffers.len()].iter().enumerate().filter(|(index, _)| used(*index));
        let bytes = traces.clone().map(|(_, ty)| run.bytes_of(ty)).fold(0, u64::saturating_add);
        let shown = || traces.clone().map(|(_, ty)| ty.to_string()).collect::<Vec<_>>().join(", ");
        let steps = || self.scan.steps.value(&run.sizes).map_or("?".into(), |steps| steps.to_string());
        run.check_budget(&self.at, || format!("{} for {} steps", shown(), steps()), bytes)
    }
}
