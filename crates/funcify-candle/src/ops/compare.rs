//! Comparisons: Candle's, whose results are 0 and 1 and for which NaN is unordered.

use funcify_core::ops::{Eq, Ge, Gt, Le, Lt, Ne};
use funcify_runtime::funcify;

use crate::device::Candle;

funcify!(Candle, Eq, |_, [x, y]| x.eq(&y));
funcify!(Candle, Ne, |_, [x, y]| x.ne(&y));
funcify!(Candle, Lt, |_, [x, y]| x.lt(&y));
funcify!(Candle, Le, |_, [x, y]| x.le(&y));
funcify!(Candle, Gt, |_, [x, y]| x.gt(&y));
funcify!(Candle, Ge, |_, [x, y]| x.ge(&y));
