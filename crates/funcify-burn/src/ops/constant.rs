//! `constant`: an upload.

use funcify_core::ops;
use funcify_runtime::Backend;
use funcify_runtime::funcify;

use crate::device::Burn;

funcify!(Burn, ops::Constant, |call, []| call.backend.upload(&call.op.value));
