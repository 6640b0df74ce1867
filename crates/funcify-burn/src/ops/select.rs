//! `select`: Burn's masked replacement, which names the branches the other way round.

use funcify_core::ops;
use funcify_runtime::funcify;

use super::Outcome;
use crate::device::Burn;
use crate::kinds::mask_where;

funcify!(Burn, ops::Select, |_call, [predicate, left, right]| Outcome::Ok(mask_where(right, predicate, left)));
