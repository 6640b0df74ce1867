//! `size`: a number of the call.

use funcify_core::{HostTensor, ops};
use funcify_runtime::{Backend, KernelCall, funcify};

use super::Outcome;
use crate::device::Burn;

funcify!(Burn, ops::Size, |call, []| size(&call));

fn size(call: &KernelCall<'_, Burn, ops::Size>) -> Outcome {
    let value = call.dim_value(&call.op.dim)?;
    call.backend.upload(&HostTensor::scalar(value).cast(call.op.dtype))
}
