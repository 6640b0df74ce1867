//! Lowers `constant`: uploads the op's host tensor to the device.

use super::prelude::*;

funcify!(Candle, ops::Constant, |call, []| call.backend.upload(&call.op.value));
