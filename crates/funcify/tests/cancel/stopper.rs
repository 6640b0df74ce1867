//! An op that gives its operand, and sets a handle when it runs for the `n`th time.

use std::cell::RefCell;

use funcify::error::Place;
use funcify::ops::{Attributes, Custom, CustomOp, EvalContext, Failed, batch_elementwise};
use funcify::vmap::Batched;
use funcify::{Cancellation, Dim, HostTensor, Result, TensorType, Value, apply, custom_op};

thread_local! {
    /// The handle, and how many times the op still runs.
    pub(crate) static HANDLE: RefCell<Option<(Cancellation, usize)>> = const { RefCell::new(None) };
}

#[derive(Clone, Debug)]
struct Stopper;

custom_op!(Stopper, "stopper", |_attributes| Ok(Stopper));

/// Adds the op.
#[track_caller]
pub(crate) fn stopper(x: Value) -> Value {
    apply(Custom::new(Stopper), &[x])[0]
}

impl CustomOp for Stopper {
    fn infer(&self, _: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        Ok(inputs.to_vec())
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        HANDLE.with_borrow_mut(|state| {
            if let Some((handle, left)) = state {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    handle.cancel();
                }
            }
        });
        Ok(inputs.to_vec())
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        batch_elementwise(Custom::new(Stopper), size, operands)
    }
}
