//! Emits the instruction that generates random words.

use funcify_core::ops::Words;

use super::*;

impl Emitter {
    /// Emits contiguous rows of random words. `pairs` are the keys and counters, each with two contiguous words per
    /// row.
    pub(in super::super) fn threefry(&mut self, words: Words, to: &View, pairs: [&View; 2]) -> Result<()> {
        let views = [to, pairs[0], pairs[1]];
        let row = views.map(|view| view.strides[0]);
        let size = [to.shape[0], to.shape[1]];
        self.push(to.level, &Op::Threefry(words), size, &views, (&row, &[Across::Lanes; 3]), &[])
    }
}
