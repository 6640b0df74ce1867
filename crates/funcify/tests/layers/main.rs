//! Compares layers with plain scalar loops.

mod linear;
mod mixers;
#[path = "../stepping/mod.rs"]
mod stepping;
