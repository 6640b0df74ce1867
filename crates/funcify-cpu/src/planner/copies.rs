//! Copies of views, and what they are copies of.

use funcify_analysis::{Contents, Version};

use super::view::View;

/// A copy of a view, and what was there when it was made. It keeps the view's register, so that this is not given away.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    from: View,
    version: Version,
    pub(super) copy: View,
}

impl Copied {
    /// A copy that was just made.
    pub(super) fn new(contents: &Contents, from: &View, copy: &View) -> Self {
        Copied { from: from.clone(), version: contents.version(from.memory()), copy: copy.clone() }
    }

    /// Whether it is a copy of what a view holds now (order-c4).
    pub(super) fn is_of(&self, contents: &Contents, view: &View) -> bool {
        self.from.is(view) && self.version == contents.version(view.memory())
    }
}
