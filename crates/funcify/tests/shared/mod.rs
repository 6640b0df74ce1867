//! Helpers shared by the tests.
#![allow(dead_code, reason = "each test program uses a part")]

use funcify::{Builder, Graph, Tree};

/// Builds a graph. Panics with the error if the program is invalid.
#[track_caller]
pub(crate) fn built<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build(name, program).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns `next` twice: as the next state of a scan step, and as its output.
pub(crate) fn traced<T: Copy>(next: T) -> (T, T) {
    (next, next)
}
