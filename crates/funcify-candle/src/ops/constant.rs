//! `constant`: an upload.

use funcify_core::ops::Constant;
use funcify_runtime::{Backend, funcify};

use crate::device::Candle;

funcify!(Candle, Constant, |call, []| call.backend.upload(&call.op.value));
