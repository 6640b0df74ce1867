//! Decides which memory a node may overwrite, by applying the conditions order-c1 to order-c5 of
//! [`ReadOrder`](funcify_analysis::ReadOrder) to views.
//!
//! A value occupies the memory of its views. A deferred value occupies the memory of the views that its computation
//! will read. Code that overwrites memory must first call the functions in this module.
//! [`Contents`](funcify_analysis::Contents) decides whether a copy is still valid, and `Planner::emit_moves` emits the
//! moves.

use super::*;

/// The operands of a node that may overwrite the register of a state.
pub(super) struct Operands<'v> {
    /// The operands that are read elementwise: each element is read before the corresponding element of the result is
    /// written.
    pub(super) elementwise: &'v [View],
    /// The operands that are read in any other order.
    pub(super) others: &'v [View],
}

impl Scope<'_, '_> {
    /// Sets the planned form of a value to `now`, or clears it if `now` is `None`.
    pub(super) fn set(&mut self, value: ValueId, now: Option<Value>) {
        let index = value.index();
        for view in self.values[index].iter().flat_map(Value::views) {
            self.order.vacate(view.memory(), value);
        }
        for view in now.iter().flat_map(Value::views) {
            self.order.occupy(view.memory(), value);
        }
        self.values[index] = now;
    }

    /// Returns the register of the state whose next value is `value`, if the current node may overwrite this register
    /// with its result (order-c1).
    pub(super) fn own_state(&self, value: ValueId, operands: &Operands<'_>) -> Option<View> {
        let (_, register) = self.next_of[value.index()].as_ref()?;
        let is_apart = |view: &View| !view.shares_memory(register);
        let may_write = operands.elementwise.iter().all(|view| view.is_same_view(register) || is_apart(view))
            && operands.others.iter().all(is_apart)
            && !self.order.is_read_later(register.memory());
        may_write.then(|| register.clone())
    }

    /// Returns the register of the state whose next value is `value`, if no value occupies this register any more
    /// (order-c2).
    pub(super) fn free_state(&self, value: ValueId, level: usize) -> Option<View> {
        let (state, register) = self.next_of[value.index()].as_ref()?;
        let is_free = self.order.remaining_reads(*state) == 0 && self.order.is_free(register.memory());
        (is_free && register.level == level).then(|| register.clone())
    }

    /// Returns `true` if the sum `value`, which is the next value of a state, may be deferred to the end of a strip
    /// (order-c3).
    pub(super) fn may_defer(&self, value: ValueId) -> bool {
        let Some((state, _)) = &self.next_of[value.index()] else { return false };
        let is_rounded = self.planner.rounding(self.graph.ty(value).dtype).is_some();
        self.order.may_defer(value, *state) && !is_rounded
    }
}
