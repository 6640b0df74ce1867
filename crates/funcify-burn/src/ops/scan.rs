//! `scan`: loops run natively.

use funcify_core::ops;
use funcify_runtime::funcify;

use crate::device::Burn;

funcify!(Burn, ops::Scan, native_loop);
