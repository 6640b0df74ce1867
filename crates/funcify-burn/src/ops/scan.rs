//! `scan`: Burn runs these loops natively.

use super::prelude::*;

funcify!(Burn, ops::Scan, native_loop);
