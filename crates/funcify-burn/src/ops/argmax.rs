//! Lowers `argmax` to Burn's own op. On devices in host memory, integers are first converted to i64, because Burn's
//! ndarray device returns the positions in the dtype of the operand.

use burn::tensor::IntDType;

use super::prelude::*;

funcify!(Burn, ops::ArgMax, |call, [x]| argmax(&call, x));

fn argmax(call: &Call<'_, ops::ArgMax>, x: Tensor) -> Outcome {
    let axis = call.op.axis;
    let mut shape = sizes(&x);
    if shape.remove(axis) == 0 {
        return Err(empty_axis(call));
    }
    if shape.contains(&0) {
        return call.backend.zeros(DType::I64, &shape);
    }
    let positions = match kind(&x) {
        Kind::Float => Dispatch::float_argmax(x, axis, IntDType::I64),
        _ if !call.backend.in_host_memory() => Dispatch::int_cast(Dispatch::int_argmax(x, axis), IntDType::I64),
        _ => Dispatch::int_cast(Dispatch::int_argmax(Dispatch::int_cast(x, IntDType::I64), axis), IntDType::I64),
    };
    reshape(positions, &shape)
}
