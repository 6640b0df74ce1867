//! `scan`: loops run natively.

use funcify::{funcify, ops};

use crate::device::Burn;

funcify!(Burn, ops::Scan, native_loop);
