//! `size`: a number of the call.

use funcify_core::{HostTensor, ops};
use funcify_runtime::{Backend, funcify};

use crate::device::Burn;

funcify!(Burn, ops::Size, |call, []| {
    let value = call.dim_value(&call.op.dim)?;
    call.backend.upload(&HostTensor::scalar(value).cast(call.op.dtype))
});
