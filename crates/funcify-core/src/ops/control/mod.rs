//! Control flow: the ops that run bodies, and the op that binds a size symbol.

pub mod associative;
pub(in crate::ops) mod bind_size;
pub mod call;
pub mod scan;
pub mod switch;
pub mod while_loop;

use std::ops::Range;
use std::sync::Arc;

pub use associative::{AssociativeScan, Sweeps};
pub use bind_size::BindSize;
pub use call::{Call, Rule};
pub use scan::Scan;
pub use switch::Switch;
pub use while_loop::While;

use crate::derivative::{Forward, Record, Tape, VjpOptions, active_params, place_marked, push_forward};
use crate::error::{Error, Site};
use crate::fixpoint::fixpoint;
use crate::graph::tracer::ClosedBody;
use crate::graph::{BodyTrace, Failed, Graph, Keep, Need, PrunedOp, ValueId, emit, emit_at, trace_body};
use crate::ops::basis::bodied::{Bodied, OwnSizes, StepCount, with_new_bodies};
use crate::ops::form::{Bodies, Form, FormBody, Spelling, values_at};
use crate::ops::leaves::{check_names, check_type, reject_bound_sizes};
use crate::ops::reach::{Connected, Guess, Reach, ReachKind};
use crate::ops::rules::*;
use crate::ops::{
    Attributes, Op, Printable, Prunable, check_types, evaluate_in, fail_mismatch, flagged_indices, input_types,
    output_types, trace_lanes,
};
use crate::tree::Tree;
use crate::types::{Replacements, Sizes, Symbol};
use crate::vmap::{ragged, select_lanes};
