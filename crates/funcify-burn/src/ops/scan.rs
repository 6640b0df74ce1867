//! `scan`: loops run natively.

use super::prelude::*;

funcify!(Burn, ops::Scan, native_loop);
