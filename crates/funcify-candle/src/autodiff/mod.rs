//! Extends Candle's autodiff: ops with any number of inputs and outputs, and gradients of a piece of a program.
//!
//! [`node`] makes a computation one node of Candle's graph. [`local`] does the reverse: it differentiates a piece
//! that Candle has recorded, between leaves of its own and given cotangents. [`record`](mod@record) is an op that
//! both use, and [`storage`] hands over tensors without a copy.

pub(crate) mod local;
pub(crate) mod node;
mod record;
pub(crate) mod storage;
