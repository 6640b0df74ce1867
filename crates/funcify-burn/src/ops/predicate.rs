//! Predicates on floats: Burn's.

use burn::backend::Dispatch;
use burn::backend::ops::FloatTensorOps;
use burn::tensor::Scalar;
use funcify_core::ops;
use funcify_runtime::funcify;

use super::Outcome;
use crate::device::Burn;

funcify!(Burn, ops::IsNan, |call, [x]| Outcome::Ok(Dispatch::float_is_nan(x, call.backend.bool_dtype())));

// |x| < infinity, which NaN is not. Burn's own predicate panics on wgpu.
funcify!(Burn, ops::IsFinite, |call, [x]| {
    let infinity = Scalar::from(f64::INFINITY);
    Outcome::Ok(Dispatch::float_lower_elem(Dispatch::float_abs(x), infinity, call.backend.bool_dtype()))
});
