//! What Candle's autodiff lacks: an op with any number of inputs and outputs, and the gradient of a piece of a program.
//!
//! [`node`] makes a computation one node of Candle's graph. [`local`] is the other way round: a piece that Candle has
//! recorded, between leaves of its own and given cotangents. [`record`](mod@record) is an op of either, [`storage`] hands tensors over
//! without a copy.

pub(crate) mod local;
pub(crate) mod node;
mod record;
pub(crate) mod storage;
