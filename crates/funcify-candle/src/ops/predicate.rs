//! Lowers predicates on floats to Candle's comparisons, which work on every device.

use super::prelude::*;

funcify!(Candle, ops::IsNan, |_, [x]| x.ne(&x));
funcify!(Candle, ops::IsFinite, |_, [x]| Outcome::Ok(x.abs()?.lt(f64::INFINITY)?));
