//! `scan`: Candle runs op after op, so a loop is its steps one after the other.

use funcify_core::ops::Scan;
use funcify_runtime::funcify;

use crate::device::Candle;

funcify!(Candle, Scan, unroll);
