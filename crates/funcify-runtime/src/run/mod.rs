//! Runs programs: the instruction set, its interpreter, and the profiler.

pub(crate) mod associative;
pub(crate) mod bind;
pub(crate) mod interpret;
pub(crate) mod late;
mod ledger;
pub(crate) mod native;
pub(crate) mod profile;
pub(crate) mod program;
mod size;
pub(crate) mod span;
pub(crate) mod switch;
pub(crate) mod while_loop;
pub(crate) mod whole;

use std::sync::Arc;

use funcify_core::cancel::{ActiveHandles, Progress, free_after};
use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::types::{DType, Sizes, TensorType};

use self::interpret::Run;
pub(crate) use self::ledger::Memory;
use self::program::Program;
use crate::backend::{Backend, Compiled, Part, StackType, Tensors, execution_error};
