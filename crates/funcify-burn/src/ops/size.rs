//! Lowers `size`: creates a scalar from a size that is known only at run time.

use funcify_core::HostTensor;

use super::prelude::*;

funcify!(Burn, ops::Size, |call, []| {
    let value = call.dim_value(&call.op.dim)?;
    call.backend.upload(&HostTensor::scalar(value).cast(call.op.dtype))
});
