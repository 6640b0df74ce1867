//! Lowers `constant`: uploads the host tensor.

use super::prelude::*;

funcify!(Burn, ops::Constant, |call, []| call.backend.upload(&call.op.value));
