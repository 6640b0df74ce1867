//! What the tests across the crates share: an op and a backend as another crate would add them, backends that are wrong on
//! purpose, and a loop that is trained in both frameworks.

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
