//! An op that gives its operand, and sets a handle when it runs for the `n`th time.

use std::cell::RefCell;

use funcify::ops::{Custom, CustomOp};
use funcify::{Cancellation, Value, apply, custom_op};

use crate::elementwise::elementwise;

thread_local! {
    /// The handle, and how many times the op still runs.
    pub(crate) static HANDLE: RefCell<Option<(Cancellation, usize)>> = const { RefCell::new(None) };
}

#[derive(Clone, Copy, Debug)]
struct Stopper;

custom_op!(Stopper, "stopper", |_attributes| Ok(Stopper));

/// Adds the op.
#[track_caller]
pub(crate) fn stopper(x: Value) -> Value {
    apply(Custom::new(Stopper), &[x])[0]
}

impl CustomOp for Stopper {
    elementwise!(|inputs| {
        HANDLE.with_borrow_mut(|state| {
            if let Some((handle, left)) = state {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    handle.cancel();
                }
            }
        });
        inputs.to_vec()
    });
}
