//! `select`: Candle's `where_cond`, which reads views as they are.

use funcify_core::ops::Select;
use funcify_runtime::funcify;

use crate::device::Candle;

funcify!(Candle, Select, |_, [predicate, left, right]| {
    if left.elem_count() == 0 { Ok(left) } else { predicate.where_cond(&left, &right) }
});
