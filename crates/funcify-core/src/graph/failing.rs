//! Makes ops fail on demand, for the tests of this crate and of the crates that depend on it.

use std::cell::Cell;

thread_local! {
    static OPS_UNTIL_FAILURE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Counts the op that is being added, and returns `true` if it must fail.
pub(super) fn should_fail() -> bool {
    let left = OPS_UNTIL_FAILURE.get();
    OPS_UNTIL_FAILURE.set(left.and_then(|left| left.checked_sub(1)));
    left == Some(0)
}

/// Calls `build` once for each op that `build` adds, and makes a different op fail in each call. Asserts that `build`
/// returns an error each time.
pub fn check_each_op_failing<R>(build: impl Fn() -> crate::error::Result<R>) {
    for number in 0.. {
        OPS_UNTIL_FAILURE.set(Some(number));
        let built = build();
        let is_over = OPS_UNTIL_FAILURE.take().is_some();
        assert!(built.is_err() || is_over, "op {number} failed, but the program was built");
        if is_over {
            return;
        }
    }
}
