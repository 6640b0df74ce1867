//! A custom op whose composition returns a value of the wrong type, or too many values.

use funcify::ops::{Attributes, Custom, CustomOp, EvalContext, Failed};
use funcify::{DType, HostTensor, Result, TensorType, Value, apply, custom_op};

use crate::elementwise::elementwise;

/// An identity op whose composition returns this number of f64 values.
#[derive(Clone, Copy, Debug)]
struct InconsistentComposition(usize);

custom_op!(InconsistentComposition, "misfit", |attributes| Ok(InconsistentComposition(
    attributes.take_usize("results")?
)));

/// Applies the op, with a composition that returns `results` values.
#[track_caller]
pub(crate) fn misfit(x: Value, results: usize) -> Value {
    apply(Custom::new(InconsistentComposition(results)), &[x])[0]
}

impl CustomOp for InconsistentComposition {
    elementwise!();

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        Ok(inputs.to_vec())
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with("results", self.0)
    }

    fn composition(&self, operands: &[Value]) -> Result<Option<Vec<Value>>, Failed> {
        Ok(Some(vec![operands[0].cast(DType::F64); self.0]))
    }
}
