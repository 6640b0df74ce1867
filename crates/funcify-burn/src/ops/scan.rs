//! Declares that Burn runs `scan` natively by default, instead of unrolling it.

use super::prelude::*;

funcify!(Burn, ops::Scan, native_loop);
