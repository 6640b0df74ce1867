//! Lowers `cumulative`. On a device with its own memory, all cases use Burn's own ops. On the CPU devices, only running
//! sums and products of floats use Burn's own ops. The other cases use kernels from [`on_host`]. For example, maxima
//! and minima of floats must order -0 before +0, and Burn's running sums and products of integers panic on overflow. To
//! run one of Burn's ops in reverse, the kernel flips the operand and the result.

use super::prelude::*;

funcify!(Burn, ops::Cumulative, |call, [x]| cumulative(&call, x));

fn cumulative(call: &Call<'_, ops::Cumulative>, x: Tensor) -> Outcome {
    let (burn, ops::Cumulative { kind: monoid, axis, reverse }) = (call.backend, *call.op);
    if sizes(&x).contains(&0) {
        return Ok(x);
    }
    match kind(&x) {
        Kind::Float if burn.in_host_memory() && matches!(monoid, ReduceKind::Max | ReduceKind::Min) => {
            by_float!(x, Float => match monoid {
                ReduceKind::Max => on_host::running_reduction::<Float>(burn, x, axis, reverse, Float::larger),
                _ => on_host::running_reduction::<Float>(burn, x, axis, reverse, Float::smaller),
            })
        }
        Kind::Float => floats(burn, monoid, x, axis, reverse),
        Kind::Integer if !burn.in_host_memory() => on_device::running_integers(burn, monoid, x, axis, reverse)
            .unwrap_or_else(|| wrong_kind(monoid, "integers")),
        Kind::Bool if !burn.in_host_memory() => {
            on_device::running_bools(burn, monoid, x, axis, reverse).unwrap_or_else(|| wrong_kind(monoid, "booleans"))
        }
        Kind::Integer => by_integer!(x, Integer => match monoid {
            ReduceKind::Sum => on_host::running_reduction::<Integer>(burn, x, axis, reverse, |i, j| i.wrapping_add(j)),
            ReduceKind::Prod => on_host::running_reduction::<Integer>(burn, x, axis, reverse, |i, j| i.wrapping_mul(j)),
            ReduceKind::Max => on_host::running_reduction::<Integer>(burn, x, axis, reverse, |i, j| i.max(j)),
            ReduceKind::Min => on_host::running_reduction::<Integer>(burn, x, axis, reverse, |i, j| i.min(j)),
            _ => wrong_kind(monoid, "integers"),
        }),
        Kind::Bool => match monoid {
            ReduceKind::Any => on_host::running_reduction::<bool>(burn, x, axis, reverse, |i, j| i | j),
            ReduceKind::All => on_host::running_reduction::<bool>(burn, x, axis, reverse, |i, j| i & j),
            _ => wrong_kind(monoid, "booleans"),
        },
    }
}

fn floats(burn: &Burn, monoid: ReduceKind, x: Tensor, axis: usize, reverse: bool) -> Outcome {
    let along = match monoid {
        ReduceKind::Sum => Dispatch::float_cumsum,
        ReduceKind::Prod => Dispatch::float_cumprod,
        ReduceKind::Max => Dispatch::float_cummax,
        ReduceKind::Min => Dispatch::float_cummin,
        _ => return wrong_kind(monoid, "floats"),
    };
    let turned = |x: Tensor| if reverse { Dispatch::float_flip(x, &[axis]) } else { x };
    on_device::running_long_axis(burn, monoid, turned(x), axis, &along).map(turned)
}

fn wrong_kind(monoid: ReduceKind, what: &str) -> Outcome {
    Err(format!("no running `{}` of {what} exists", monoid.name()).into())
}
