//! `scan`: Candle runs op after op, so a loop runs its steps one after the other.

use super::prelude::*;

funcify!(Candle, ops::Scan, unroll);
