//! Helpers shared by the tests across the crates: an op and a backend as another crate would add them, faulty
//! backends, and a loop that is trained in both frameworks.

use funcify::{Builder, Graph, Tree};

/// Runs every program in the documentation as a test.
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

/// Builds a valid program.
#[track_caller]
pub fn built<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build(name, program).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the results of a step whose next state is also its output.
pub fn traced<T: Copy>(next: T) -> (T, T) {
    (next, next)
}
