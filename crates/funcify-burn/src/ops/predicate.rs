//! Predicates on floats: Burn's.

use burn::backend::Dispatch;
use burn::backend::ops::{BoolTensorOps, FloatTensorOps};
use funcify::{funcify, ops};

use super::Outcome;
use crate::device::Burn;
use crate::kinds::Tensor;

funcify!(Burn, ops::IsNan, |call, [x]| {
    let holds: Outcome = Ok(Dispatch::float_is_nan(x, call.backend.bool_dtype()));
    holds
});
funcify!(Burn, ops::IsFinite, |call, [x]| is_finite(call.backend, x));

fn is_finite(burn: &Burn, x: Tensor) -> Outcome {
    let infinite = Dispatch::float_is_inf(x.clone(), burn.bool_dtype());
    Ok(Dispatch::bool_not(Dispatch::bool_or(infinite, Dispatch::float_is_nan(x, burn.bool_dtype()))))
}
