//! Helpers shared by the cross-crate tests: an op and a backend as a third-party crate would define them, faulty
//! backends, and a loop that is trained in both frameworks.

use funcify::{Builder, Graph, Tree};

/// Runs every program in the documentation as a documentation test.
#[cfg(doctest)]
mod listings {
    macro_rules! pages {
        ($($name:ident $page:literal)*) => { $(#[doc = include_str!(concat!("../../", $page))] struct $name;)* };
    }

    pages! {
        Readme "README.md"
        Backends "docs/backends.md"
        Derivatives "docs/derivatives.md"
        ExistingModels "docs/existing-models.md"
        Guide "docs/guide.md"
    }
}

pub mod softplus;
pub mod toy;
pub mod training;
pub mod wrong;

/// Builds a graph. Panics if the graph is invalid.
#[track_caller]
pub fn built<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build(name, program).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns `next` twice, for a step whose output is also its next carry.
pub fn traced<T: Copy>(next: T) -> (T, T) {
    (next, next)
}
