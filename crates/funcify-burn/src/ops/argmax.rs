//! `argmax`: Burn's. Integers are widened to i64 first, since ndarray gives positions in the integers' own type.

use burn::backend::Dispatch;
use burn::backend::ops::{FloatTensorOps, IntTensorOps};
use burn::tensor::IntDType;
use funcify_core::DType;
use funcify_core::ops::ArgMax;
use funcify_runtime::{KernelCall, funcify};

use super::{Outcome, empty_axis};
use crate::device::Burn;
use crate::kinds::{Kind, Tensor, kind, reshape, sizes};

funcify!(Burn, ArgMax, |call, [x]| argmax(&call, x));

fn argmax(call: &KernelCall<'_, Burn, ArgMax>, x: Tensor) -> Outcome {
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
