//! Remembers the copies of views, and the version of the source that each copy was taken from.

use funcify_analysis::{Contents, Version};

use super::view::View;

/// A copy of a view, and the version of its source at the time of the copy. It holds the source's register, so that
/// the register is not reused.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    from: View,
    version: Version,
    pub(super) copy: View,
}

impl Copied {
    /// Records a copy that was just made.
    pub(super) fn new(contents: &Contents, from: &View, copy: &View) -> Self {
        Copied { from: from.clone(), version: contents.version(from.memory()), copy: copy.clone() }
    }

    /// Returns whether this is a copy of the current contents of `view` (order-c4).
    pub(super) fn is_of(&self, contents: &Contents, view: &View) -> bool {
        self.from.is_same_view(view) && self.version == contents.version(view.memory())
    }
}
