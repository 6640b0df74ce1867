//! `select`: Burn's masked replacement, which names the branches in the opposite order.

use super::prelude::*;

funcify!(Burn, ops::Select, |_call, [predicate, left, right]| Outcome::Ok(mask_where(right, predicate, left)));
