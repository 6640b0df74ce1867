//! `scan`: Candle runs op after op, so a loop is its steps one after the other.

use funcify::funcify;
use funcify::ops::Scan;

use crate::device::Candle;

funcify!(Candle, Scan, unroll);
