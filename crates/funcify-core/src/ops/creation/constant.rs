//! `constant`: a tensor that is stored in the program.

use std::sync::Arc;

use crate::ops::op_key;
use crate::ops::rules::*;

/// An op that returns a tensor whose elements are known when the graph is built. It has no operands. The text form
/// lists the elements.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The tensor.
    pub value: Arc<HostTensor>,
}

op_text!("constant" => Constant);
op_key!("constant" => Constant);

impl OpRules for Constant {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [] = arity(at, inputs)?;
        Ok(vec![self.value.ty()])
    }

    fn eval(&self, _: &mut EvalContext<'_>, _: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        Ok(vec![(*self.value).clone()])
    }

    fn batch(&self, _: &Dim, _: &[Batched]) -> Result<Vec<Batched>, Failed> {
        emit_shared(self.clone())
    }

    no_derivative_rules!();
}
