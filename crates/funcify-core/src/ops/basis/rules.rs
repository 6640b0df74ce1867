//! The imports and macros that op rules share. Each op's module imports them with `use crate::ops::rules::*`.

pub(in crate::ops) use smallvec::smallvec;

pub(in crate::ops) use crate::derivative::{Cotangents, Dual, VjpContext, jvp_linear, jvp_none, jvp_with};
pub(in crate::ops) use crate::error::{Place, Result};
pub(in crate::ops) use crate::host::{HostTensor, Scalar, Storage};
pub(in crate::ops) use crate::ops::elementwise::binary::check_same;
pub(in crate::ops) use crate::ops::elementwise::table::{op_table, value_method};
pub(in crate::ops) use crate::ops::elementwise::unary::Domain;
pub(in crate::ops) use crate::ops::{
    EvalContext, Failed, Lanes, Linearity, OpRules, arity, batch_elementwise, check_axis, check_except, dilated_size,
    emit_lanes, emit_shared, op_text, tensor,
};
pub(in crate::ops) use crate::types::{DType, Dim, Shape, TensorType};
pub(in crate::ops) use crate::value::{Value, constant, select};
pub(in crate::ops) use crate::vmap::Batched;

/// Defines the derivative rules of an op through which no derivative passes.
macro_rules! no_derivative_rules {
    () => {
        fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
            jvp_none(self.clone(), operands)
        }

        fn vjp(&self, context: &VjpContext<'_>, _: &[Option<Value>]) -> Result<Cotangents, Failed> {
            Ok(context.no_cotangents())
        }
    };
}

/// Defines the batching rule of an elementwise op.
macro_rules! elementwise_batch {
    () => {
        fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
            batch_elementwise(self.clone(), size, operands)
        }
    };
}

/// Defines the forward-mode rule of an op that is jointly linear in its float operands.
macro_rules! linear_jvp {
    () => {
        fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
            jvp_linear(self.clone(), operands)
        }
    };
}

/// Defines the batching, forward-mode and reverse-mode rules of an op. They call the functions `batch`, `jvp` and `vjp`
/// of the given modules.
macro_rules! rules_of_modules {
    ($batch:ident, $jvp:ident, $vjp:ident) => {
        fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
            $batch::batch(self, size, operands)
        }

        fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
            $jvp::jvp(self, operands)
        }

        fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
            $vjp::vjp(self, context, cotangents)
        }
    };
}

pub(in crate::ops) use {elementwise_batch, linear_jvp, no_derivative_rules, rules_of_modules};
