//! `constant`: an upload.

use super::prelude::*;

funcify!(Burn, ops::Constant, |call, []| call.backend.upload(&call.op.value));
