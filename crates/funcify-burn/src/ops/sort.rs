//! Lowers `sort` to this crate's own kernel, which runs on the host. Burn's own sort on the CPU devices is not stable,
//! and orders NaN differently from funcify.

use super::prelude::*;

funcify!(Burn, ops::Sort, |call, [x]| sort(&call, x));

fn sort(call: &Call<'_, ops::Sort>, x: Tensor) -> Outcome<[Tensor; 2]> {
    let (burn, ops::Sort { axis, descending }) = (call.backend, *call.op);
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
