//! `scan`: the steps run one after the other, because Candle executes ops eagerly.

use super::prelude::*;

funcify!(Candle, ops::Scan, unroll);
