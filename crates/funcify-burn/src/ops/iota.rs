//! Lowers `iota`: creates the elements on the host, because Burn's own op counts in the integer dtype of the result, in
//! which a large index may overflow.

use funcify_core::{HostTensor, Scalar};

use super::prelude::*;
use crate::data::upload;

funcify!(Burn, ops::Iota, |call, []| iota(&call));

fn iota(call: &Call<'_, ops::Iota>) -> Outcome {
    let shape = check_output(call)?;
    let dtype = call.op.dtype;
    let number = |index: usize| if dtype.is_float() { Scalar::Float(index as f64) } else { Scalar::Int(index as i64) };
    Ok(upload(call.backend, &HostTensor::from_fn(dtype, &shape, |index| number(index[0]))))
}
