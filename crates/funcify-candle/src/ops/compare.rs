//! Lowers comparisons to Candle's kernels, which return 0 or 1 and treat NaN as unordered.

use super::prelude::*;

funcify!(Candle, ops::Eq, |_, [x, y]| x.eq(&y));
funcify!(Candle, ops::Ne, |_, [x, y]| x.ne(&y));
funcify!(Candle, ops::Lt, |_, [x, y]| x.lt(&y));
funcify!(Candle, ops::Le, |_, [x, y]| x.le(&y));
funcify!(Candle, ops::Gt, |_, [x, y]| x.gt(&y));
funcify!(Candle, ops::Ge, |_, [x, y]| x.ge(&y));
