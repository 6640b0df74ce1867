//! What the tests of programs share.
#![allow(dead_code, reason = "each test program uses a part")]

use funcify::{Builder, Graph, Tree};

/// Builds a program in which nothing is wrong.
#[track_caller]
pub(crate) fn built<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build(name, program).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns what a step gives whose next state is also its output.
pub(crate) fn traced<T: Copy>(next: T) -> (T, T) {
    (next, next)
}
