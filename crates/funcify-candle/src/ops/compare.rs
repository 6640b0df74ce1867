//! Comparisons: Candle's, whose results are 0 and 1 and for which NaN is unordered.

use super::prelude::*;

funcify!(Candle, ops::Eq, |_, [x, y]| x.eq(&y));
funcify!(Candle, ops::Ne, |_, [x, y]| x.ne(&y));
funcify!(Candle, ops::Lt, |_, [x, y]| x.lt(&y));
funcify!(Candle, ops::Le, |_, [x, y]| x.le(&y));
funcify!(Candle, ops::Gt, |_, [x, y]| x.gt(&y));
funcify!(Candle, ops::Ge, |_, [x, y]| x.ge(&y));
