//! `sort`: in host memory, as Burn's sorts are on its CPU devices too, where they are not stable and put NaN elsewhere.

use funcify_core::DType;
use funcify_core::error::BackendError;
use funcify_core::ops::Sort;
use funcify_runtime::{KernelCall, funcify};

use crate::device::Burn;
use crate::kinds::{Kind, Tensor, kind, sizes};
use crate::on_host;

funcify!(Burn, Sort, |call, [x]| sort(&call, x));

fn sort(call: &KernelCall<'_, Burn, Sort>, x: Tensor) -> Result<[Tensor; 2], BackendError> {
    let (burn, Sort { axis, descending }) = (call.backend, *call.op);
    let shape = sizes(&x);
    if shape.contains(&0) {
        return Ok([x, burn.zeros(DType::I64, &shape)?]);
    }
    match kind(&x) {
        Kind::Float => by_float!(x, Float => on_host::sort::<Float>(burn, x, axis, descending)),
        Kind::Integer => by_integer!(x, Integer => on_host::sort::<Integer>(burn, x, axis, descending)),
        Kind::Bool => on_host::sort::<bool>(burn, x, axis, descending),
    }
}
