//! An identity op that cancels a handle on its `n`th run.

use std::cell::RefCell;

use funcify::ops::{Custom, CustomOp};
use funcify::{Cancellation, Value, apply, custom_op};

use crate::elementwise::elementwise;

thread_local! {
    /// The handle to cancel, and a counter that each run of the op decreases by 1. When the counter reaches 0, the op
    /// cancels the handle.
    pub(crate) static HANDLE: RefCell<Option<(Cancellation, usize)>> = const { RefCell::new(None) };
}

#[derive(Clone, Copy, Debug)]
struct Stopper;

custom_op!(Stopper, "stopper", |_attributes| Ok(Stopper));

/// Applies the op, which returns its operand unchanged.
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
