//! `constant`: an upload.

use funcify::dispatch::Backend;
use funcify::{funcify, ops};

use crate::device::Burn;

funcify!(Burn, ops::Constant, |call, []| call.backend.upload(&call.op.value));
