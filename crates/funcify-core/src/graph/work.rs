//! Counts the work of passes, for tests: adding or visiting a node is one unit of work.

use std::cell::Cell;

thread_local! {
    static DONE: Cell<usize> = const { Cell::new(0) };
}

/// Counts one unit of work.
pub fn count() {
    DONE.with(|done| done.set(done.get().wrapping_add(1)));
}

/// Returns the result of `f`, and the number of units of work that it took.
pub fn measure<R>(f: impl FnOnce() -> R) -> (R, usize) {
    let before = DONE.with(Cell::get);
    let result = f();
    (result, DONE.with(Cell::get).wrapping_sub(before))
}
