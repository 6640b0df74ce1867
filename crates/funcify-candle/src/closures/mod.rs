//! Provides loops and branches whose bodies are closures on Candle's tensors, for code that cannot be traced. Each loop
//! is a single node of Candle's graph.
//!
//! The steps are divided into segments. The forward pass saves only the results of the steps, and the carry at the
//! start of each segment. The backward pass reruns each segment from that carry. In a rerun, each step starts from new
//! leaves, and Candle's own backward pass differentiates the step. So neither the depth of the graph nor the cost of a
//! step grows with the number of steps.
//!
//! - [`steps`]: the loop on lists of leaves. [`record`]: the values that the loop saves. [`back`]: the gradient of the
//!   loop.
//! - [`scan`](mod@scan), [`while_loop`](mod@while_loop), [`map`](mod@map), [`cond`](mod@cond): the entry points, on
//!   trees of tensors.

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
