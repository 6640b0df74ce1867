//! Control flow over closures on Candle's tensors, for code that cannot be traced. Each loop or branch is a single
//! node of Candle's graph.
//!
//! A closure runs step after step, and only the results of a step are saved. The backward pass reruns a segment of
//! steps from the carry at its start. Each step starts from new leaves, and Candle's own backward pass differentiates
//! it. So neither the depth of the graph nor the cost of a step grows with the number of steps.
//!
//! - [`steps`]: the loop on lists of leaves. [`record`]: the values that it saves. [`back`]: its gradient.
//! - [`scan`](mod@scan), [`while_loop`](mod@while_loop), [`map`](mod@map), [`cond`](mod@cond): the entry points, on
//!   trees.

mod back;
pub(crate) mod cond;
pub(crate) mod map;
mod record;
pub(crate) mod scan;
mod steps;
pub(crate) mod while_loop;

use candle_core::{Result, Tensor};

use crate::autodiff::node::place;
use crate::errors;
use crate::tree::{TensorTree, check_names, detach, leaves, names, rebuild};
