//! `constant`: an upload.

use funcify::dispatch::Backend;
use funcify::funcify;
use funcify::ops::Constant;

use crate::device::Candle;

funcify!(Candle, Constant, |call, []| call.backend.upload(&call.op.value));
