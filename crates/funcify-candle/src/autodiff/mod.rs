//! Extends Candle's autodiff with ops that have any number of inputs and outputs, and computes gradients of a part of a
//! graph.
//!
//! [`node`] turns a computation into one node of Candle's graph. [`local`] differentiates a part of a recorded Candle
//! graph. Both use the op in [`record`](mod@record). [`storage`] moves elements into the results of ops without
//! copying.

pub(crate) mod local;
pub(crate) mod node;
mod record;
pub(crate) mod storage;
