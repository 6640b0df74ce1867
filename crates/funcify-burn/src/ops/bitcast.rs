//! Lowers `bitcast`, which Burn lacks. The kernel runs on the host, or with [`on_device`] on a device with its own
//! memory.

use super::prelude::*;

funcify!(Burn, ops::Bitcast, |call, [x]| {
    check_output(&call)?;
    bitcast(&call, x)
});

fn bitcast(call: &Call<'_, ops::Bitcast>, x: Tensor) -> Outcome {
    let (burn, from, to) = (call.backend, call.dtype(0), call.op.dtype);
    if from == to {
        return Ok(x);
    }
    if let Some(bits) = on_device::bitcast(burn, &x, to) {
        return Ok(bits);
    }
    match (from, to) {
        (DType::F32, DType::U32) => on_host::map(burn, x, f32::to_bits),
        (DType::F32, DType::I32) => on_host::map(burn, x, |v: f32| v.to_bits() as i32),
        (DType::U32, DType::F32) => on_host::map(burn, x, f32::from_bits),
        (DType::I32, DType::F32) => on_host::map(burn, x, |v: i32| f32::from_bits(v as u32)),
        (DType::U32, DType::I32) => on_host::map(burn, x, |v: u32| v as i32),
        (DType::I32, DType::U32) => on_host::map(burn, x, |v: i32| v as u32),
        (DType::F64, DType::I64) => on_host::map(burn, x, |v: f64| v.to_bits() as i64),
        (DType::I64, DType::F64) => on_host::map(burn, x, |v: i64| f64::from_bits(v as u64)),
        _ => Err(format!("no kernel that reads the bits of {from} as {to}").into()),
    }
}
