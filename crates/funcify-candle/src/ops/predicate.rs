//! Predicates on floats, by Candle's comparisons, which work on every device.

use funcify_core::error::BackendError;
use funcify_core::ops::{IsFinite, IsNan};
use funcify_runtime::funcify;

use crate::device::Candle;

funcify!(Candle, IsNan, |_, [x]| x.ne(&x));
funcify!(Candle, IsFinite, |_, [x]| Ok::<_, BackendError>(x.abs()?.lt(f64::INFINITY)?));
