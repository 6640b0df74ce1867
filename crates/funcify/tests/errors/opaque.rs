//! An op from another crate without rules for derivatives.

use funcify::error::Place;
use funcify::ops::{Attributes, Custom, CustomOp, EvalContext, Failed};
use funcify::vmap::Batched;
use funcify::{Dim, HostTensor, Result, TensorType, Value, apply, custom_op};

#[derive(Debug)]
struct Opaque;

custom_op!(Opaque, "opaque", |_attributes| Ok(Opaque));

/// Adds the op, which gives its operand.
#[track_caller]
pub(crate) fn opaque(x: Value) -> Value {
    apply(Custom::new(Opaque), &[x])[0]
}

impl CustomOp for Opaque {
    fn infer(&self, _: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        Ok(inputs.to_vec())
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        Ok(inputs.to_vec())
    }

    fn attributes(&self) -> Attributes {
        Attributes::new()
    }

    fn batch(&self, _: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        Ok(operands.to_vec())
    }
}
