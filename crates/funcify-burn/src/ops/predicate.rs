//! Lowers predicates on floats to Burn's own ops.

use super::prelude::*;

funcify!(Burn, ops::IsNan, |call, [x]| Outcome::Ok(Dispatch::float_is_nan(x, call.backend.bool_dtype())));

// |x| < infinity is false for NaN too. Burn's own predicate panics on wgpu.
funcify!(Burn, ops::IsFinite, |call, [x]| {
    let infinity = Scalar::from(f64::INFINITY);
    Outcome::Ok(Dispatch::float_lower_elem(Dispatch::float_abs(x), infinity, call.backend.bool_dtype()))
});
