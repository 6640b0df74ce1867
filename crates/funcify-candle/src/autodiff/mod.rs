//! Extends Candle's autodiff: ops with any number of inputs and outputs, and gradients of a part of a program.
//!
//! [`node`] turns a computation into one node of Candle's graph. [`local`] does the reverse: it differentiates a part
//! of a program that Candle has recorded, from given cotangents to new leaves. Both use the op in
//! [`record`](mod@record). [`storage`] moves tensors into results without a copy.

pub(crate) mod local;
pub(crate) mod node;
mod record;
pub(crate) mod storage;
