//! Helpers shared by the test programs.
#![allow(dead_code, reason = "each test program uses a part")]

use funcify::{Builder, Graph, Tree};

/// Builds a valid program.
#[track_caller]
pub(crate) fn built<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build(name, program).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the results of a step whose next state is also its output.
pub(crate) fn traced<T: Copy>(next: T) -> (T, T) {
    (next, next)
}
