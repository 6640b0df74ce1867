//! `size`: a number of the call.

use funcify::dispatch::{Backend, Call};
use funcify::{HostTensor, funcify, ops};

use super::Outcome;
use crate::device::Burn;

funcify!(Burn, ops::Size, |call, []| size(&call));

fn size(call: &Call<'_, Burn, ops::Size>) -> Outcome {
    let unbound = |symbol| format!("the size `{symbol}` is not bound in this call");
    let value = call.op.dim.value(call.sizes()).map_err(unbound)?;
    call.backend.upload(&HostTensor::scalar(value).cast(call.op.dtype))
}
