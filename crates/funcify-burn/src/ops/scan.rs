//! Declares that Burn runs `scan` as a native loop.

use super::prelude::*;

funcify!(Burn, ops::Scan, native_loop);
