//! The names that the rules of every op are written with, for `use crate::ops::rules::*`.

pub(in crate::ops) use crate::derivative::{Cotangents, Dual, VjpContext, jvp_linear, jvp_none, jvp_with};
pub(in crate::ops) use crate::error::{Place, Result};
pub(in crate::ops) use crate::host::{HostTensor, Scalar};
pub(in crate::ops) use crate::ops::{EvalContext, Failed, OpRules, op_text};
pub(in crate::ops) use crate::ops::{arity, batch_elementwise, check_axis, emit_lanes, tensor};
pub(in crate::ops) use crate::types::{DType, Dim, Shape, TensorType};
pub(in crate::ops) use crate::value::Value;
pub(in crate::ops) use crate::vmap::Batched;
