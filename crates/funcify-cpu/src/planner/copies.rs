//! Records copies of views, so that a copy can be reused as long as its source is unchanged.

use funcify_analysis::{Contents, Version};

use super::view::View;

/// A copy of a view, and the version of the source that was copied. As long as this record exists, the source's
/// register is not reused.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    from: View,
    version: Version,
    pub(super) copy: View,
}

impl Copied {
    /// Records that `copy` was just copied from `from`.
    pub(super) fn new(contents: &Contents, from: &View, copy: &View) -> Self {
        Copied { from: from.clone(), version: contents.version(from.memory()), copy: copy.clone() }
    }

    /// Returns `true` if this is a copy of the current contents of `view` (order-c4).
    pub(super) fn is_of(&self, contents: &Contents, view: &View) -> bool {
        self.from.is_same_view(view) && self.version == contents.version(view.memory())
    }
}
