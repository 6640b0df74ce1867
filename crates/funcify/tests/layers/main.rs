//! Compares layers with plain loops over numbers.

mod linear;
mod mixers;
#[path = "../stepping/mod.rs"]
mod stepping;
