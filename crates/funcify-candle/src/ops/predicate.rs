//! Predicates on floats, by Candle's comparisons, which work on every device.

use funcify::error::BackendError;
use funcify::funcify;
use funcify::ops::{IsFinite, IsNan};

use crate::device::Candle;

funcify!(Candle, IsNan, |_, [x]| x.ne(&x));
funcify!(Candle, IsFinite, |_, [x]| Ok::<_, BackendError>(x.abs()?.lt(f64::INFINITY)?));
