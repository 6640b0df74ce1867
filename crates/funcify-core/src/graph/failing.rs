//! Makes ops fail on demand, for the tests of this crate and of those above it.

use std::cell::Cell;

thread_local! {
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns whether the op being added is to fail.
pub(super) fn is_due() -> bool {
    let left = LEFT.get();
    LEFT.set(left.and_then(|left| left.checked_sub(1)));
    left == Some(0)
}

/// Builds repeatedly and makes each op fail once. Asserts that each failure is an error, not a panic.
pub fn check<R>(build: impl Fn() -> crate::error::Result<R>) {
    for number in 0.. {
        LEFT.set(Some(number));
        let built = build();
        let is_over = LEFT.take().is_some();
        assert!(built.is_err() || is_over, "op {number} failed, but the program was built");
        if is_over {
            return;
        }
    }
}
