//! Closures over Burn tensors, modules included, as funcify graphs.

mod import;
mod inner;
mod panics;
mod probe;
mod record;
mod recorded;
mod scan;
mod sequence;
mod stops;
mod tape;
mod trace;
mod weights;

pub use scan::{Scan, scan};
pub use sequence::{Sequences, Stacked};
pub use trace::{Trace, trace};
pub use weights::Weights;

/// Names that differ.
struct Named(Vec<String>);

impl Named {
    /// The name, or with the first number that makes it another one. Gives it.
    fn add(&mut self, name: &str) -> String {
        let numbered = (1..).map(|number: usize| format!("{name}_{number}"));
        let free = std::iter::once(name.to_string()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.expect("there are names enough");
        self.0.push(free.clone());
        free
    }
}

impl std::ops::Index<usize> for Named {
    type Output = String;

    fn index(&self, index: usize) -> &String {
        &self.0[index]
    }
}

/// These names, with numbers where they are alike.
fn names(names: Vec<String>) -> Named {
    let mut named = Named(Vec::with_capacity(names.len()));
    names.iter().for_each(|name| _ = named.add(name));
    named
}
