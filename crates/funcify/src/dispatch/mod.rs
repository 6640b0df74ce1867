//! Dispatch: from a graph to a program of a backend's kernels, and to a function that is called.

mod sizes;

pub use sizes::bind_sizes;
