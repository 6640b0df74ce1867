//! Lowers `select` to Candle's `where_cond`, which accepts strided views.

use super::prelude::*;

funcify!(Candle, ops::Select, |_, [predicate, left, right]| {
    if left.elem_count() == 0 { Ok(left) } else { predicate.where_cond(&left, &right) }
});
