//! The conformance suite of funcify: identical cases on every backend.

pub mod cases;
pub mod golden;
