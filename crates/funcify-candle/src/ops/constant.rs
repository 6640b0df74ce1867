//! Lowers `constant`: uploads the host tensor.

use super::prelude::*;

funcify!(Candle, ops::Constant, |call, []| call.backend.upload(&call.op.value));
