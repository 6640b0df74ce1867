//! Declares that scans are unrolled by default, because Candle executes ops eagerly.

use super::prelude::*;

funcify!(Candle, ops::Scan, unroll);
