//! What memory holds: each write gives it other contents, so a copy of it is good as long as their number is the same.

use std::collections::HashMap;

use super::view::View;

/// The contents of some memory: those after so many writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Version(usize);

/// How often each register, and each region without registers, was written.
#[derive(Clone, Default, Debug)]
pub(super) struct Contents(HashMap<(usize, Option<usize>), usize>);

impl Contents {
    /// Counts a write to a view.
    pub(super) fn written(&mut self, view: &View) {
        *self.0.entry(memory_of(view)).or_default() += 1;
    }

    /// What the memory of a view holds now.
    pub(super) fn version(&self, view: &View) -> Version {
        Version(self.0.get(&memory_of(view)).copied().unwrap_or(0))
    }
}

/// A register, or a region without registers. Whoever keeps a version keeps the register, so that it is not given away.
fn memory_of(view: &View) -> (usize, Option<usize>) {
    (view.region, view.register.as_ref().map(|register| register.start))
}

/// A copy of a view, and what was there when it was made.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    from: View,
    version: Version,
    pub(super) copy: View,
}

impl Copied {
    /// A copy that was just made.
    pub(super) fn new(contents: &Contents, from: &View, copy: &View) -> Self {
        Copied { from: from.clone(), version: contents.version(from), copy: copy.clone() }
    }

    /// Whether it is a copy of what a view holds now (order-c4).
    pub(super) fn is_of(&self, contents: &Contents, view: &View) -> bool {
        self.from.is(view) && self.version == contents.version(view)
    }
}
