//! The model of memory and order: which value occupies which memory, and who reads it when.
//!
//! A value of a scope occupies memory: the views that it names, or that it will read once it is computed. Several values may
//! occupy the same memory under different names (a transpose, a stopped gradient, a choice with one branch). Whoever changes
//! memory asks this model, and the condition of each transformation is stated here, next to the others:
//!
//! - **order-c1, in place.** The next value of a state is written over the state's register only if no value that occupies
//!   the register is read after the node that writes it ([`Scope::is_read_later`]), and each operand of that node is either the
//!   register itself, element for element, or apart from it.
//! - **order-c2, free.** A node that writes while it still reads in another order takes the register only if none of its own
//!   operands occupies it, either ([`Scope::free_state`]).
//! - **order-c3, deferred.** A sum is deferred to the end of a strip only if the step reads neither the old nor the new state:
//!   the sum is the state's only reader, and the next step the sum's ([`Scope::may_defer`]).
//! - **order-c4, copies.** A copy stands for what it was made of as long as nothing wrote there since
//!   ([`Contents`](super::super::contents::Contents), which counts the writes).
//! - **order-c5, moves.** What a step gives is moved to where the next step finds it; whatever a move overwrites before
//!   it is read, by itself or by a later move, is copied aside first (`Planner::moved`).
//!
//! What is written to a place (a row of a trace, an output, a part of a concatenation) needs no condition: scan-c5 says that no
//! step reads a row before the step that writes it, and outputs are not read.

use funcify_core::graph::ValueId;

use super::super::view::View;
use super::{Scope, Value};

/// The operands of a node that may write over a state.
pub(super) struct Operands<'v> {
    /// Those of which each element is read when the same element is written, and not later.
    pub(super) elementwise: &'v [View],
    /// Those that are read in another order.
    pub(super) others: &'v [View],
}

impl Scope<'_, '_> {
    /// Says what a value is from now on; `None` if nothing reads it any more.
    pub(super) fn set(&mut self, value: ValueId, now: Option<Value>) {
        let index = value.index();
        for view in self.values[index].iter().flat_map(Value::views) {
            self.occupants.remove(view, index);
        }
        for view in now.iter().flat_map(Value::views) {
            self.occupants.insert(view, index);
        }
        self.values[index] = now;
    }

    /// How many readers of a value come after the node that is planned.
    fn later_readers(&self, value: usize) -> usize {
        let reads_now = self.now.iter().flat_map(|node| &node.inputs).filter(|input| input.index() == value).count();
        self.uses[value] - reads_now
    }

    /// Whether a value that occupies memory of this register is read after the node that is planned.
    fn is_read_later(&self, register: &View) -> bool {
        self.occupants.with(register).any(|value| self.later_readers(value) > 0)
    }

    /// The register of the state that a value comes next of, if the node that is planned may write the value there (order-c1).
    pub(super) fn own_state(&self, value: ValueId, operands: &Operands<'_>) -> Option<View> {
        let (_, register) = self.next_of[value.index()].as_ref()?;
        let is_apart = |view: &View| !view.shares_memory(register);
        let may_write = operands.elementwise.iter().all(|view| view.is(register) || is_apart(view))
            && operands.others.iter().all(is_apart)
            && !self.is_read_later(register);
        may_write.then(|| register.clone())
    }

    /// The register of the state that a value comes next of, if no value occupies it any more (order-c2).
    pub(super) fn free_state(&self, value: ValueId, level: usize) -> Option<View> {
        let (state, register) = self.next_of[value.index()].as_ref()?;
        let is_free = self.uses[state.index()] == 0 && self.occupants.with(register).next().is_none();
        (is_free && register.level == level).then(|| register.clone())
    }

    /// Whether a sum that gives the next value of a state may be added to it behind the steps of a strip (order-c3).
    pub(super) fn may_defer(&self, value: ValueId) -> bool {
        let Some((state, _)) = &self.next_of[value.index()] else { return false };
        let is_read_by_sum = self.now.is_some_and(|node| node.inputs.contains(state));
        let is_rounded = self.planner.rounding(self.graph.ty(value).dtype).is_some();
        is_read_by_sum && self.readers[state.index()] == 1 && self.readers[value.index()] == 1 && !is_rounded
    }
}
