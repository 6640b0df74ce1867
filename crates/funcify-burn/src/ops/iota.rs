//! `iota`: counted in host memory, since Burn counts in integers of the result's type.

use funcify_core::{HostTensor, Scalar, ops};
use funcify_runtime::{KernelCall, funcify};

use super::{Outcome, check_output};
use crate::data::upload;
use crate::device::Burn;

funcify!(Burn, ops::Iota, |call, []| iota(&call));

fn iota(call: &KernelCall<'_, Burn, ops::Iota>) -> Outcome {
    let shape = check_output(call)?;
    let dtype = call.op.dtype;
    let number = |index: usize| if dtype.is_float() { Scalar::Float(index as f64) } else { Scalar::Int(index as i64) };
    Ok(upload(call.backend, &HostTensor::from_fn(dtype, &shape, |index| number(index[0]))))
}
