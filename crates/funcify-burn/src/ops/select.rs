//! Lowers `select` to Burn's `mask_where`, which takes the branches in the opposite order.

use super::prelude::*;

funcify!(Burn, ops::Select, |_call, [predicate, left, right]| Outcome::Ok(mask_where(right, predicate, left)));
