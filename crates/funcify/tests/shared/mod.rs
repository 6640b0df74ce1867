//! Helpers shared by the tests.
#![allow(dead_code, reason = "each test program uses a part")]

use funcify::{Builder, Graph, Tree};

/// Builds a program that must be valid.
#[track_caller]
pub(crate) fn built<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build(name, program).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the results of a step whose output is the next state.
pub(crate) fn traced<T: Copy>(next: T) -> (T, T) {
    (next, next)
}
