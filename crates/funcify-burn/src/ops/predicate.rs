//! Predicates on floats: Burn's.

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Scalar;
use funcify_core::ops;
use funcify_runtime::funcify;

use super::Outcome;
use crate::device::Burn;
use crate::kinds::Tensor;

funcify!(Burn, ops::IsNan, |call, [x]| {
    let holds: Outcome = Ok(Dispatch::float_is_nan(x, call.backend.bool_dtype()));
    holds
});
funcify!(Burn, ops::IsFinite, |call, [x]| is_finite(call.backend, x));

/// |x| < infinity, which NaN is not. Burn's own predicate panics on wgpu.
fn is_finite(burn: &Burn, x: Tensor) -> Outcome {
    Ok(Dispatch::float_lower_elem(Dispatch::float_abs(x), Scalar::from(f64::INFINITY), burn.bool_dtype()))
}
