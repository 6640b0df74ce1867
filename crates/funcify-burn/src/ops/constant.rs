//! `constant`: an upload.

use funcify_core::ops;
use funcify_runtime::{Backend, funcify};

use crate::device::Burn;

funcify!(Burn, ops::Constant, |call, []| call.backend.upload(&call.op.value));
