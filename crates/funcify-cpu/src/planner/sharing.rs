//! Things found by the memory that they are in, so that asking who else is there costs the same in a program with many of them.

use std::collections::{BTreeSet, HashMap};

use super::view::{MemoryKey, View};

/// Numbers of things, by the memory that each is in.
#[derive(Default, Debug)]
pub(super) struct Sharing(HashMap<usize, HashMap<MemoryKey, BTreeSet<usize>>>);

impl Sharing {
    /// Says that a thing is in the memory of a view.
    pub(super) fn insert(&mut self, view: &View, thing: usize) {
        self.0.entry(view.region).or_default().entry(view.memory()).or_default().insert(thing);
    }

    /// Says that a thing is no longer in the memory of a view. To be called while the view lives: a later register may have the
    /// same address.
    pub(super) fn remove(&mut self, view: &View, thing: usize) {
        let Some(memories) = self.0.get_mut(&view.region) else { return };
        let Some(things) = memories.get_mut(&view.memory()) else { return };
        things.remove(&thing);
        if things.is_empty() {
            memories.remove(&view.memory());
        }
    }

    /// The things in memory that this view may share ([`View::shares_memory`]).
    pub(super) fn with(&self, view: &View) -> impl Iterator<Item = usize> {
        let memories = self.0.get(&view.region);
        let (these, others) = match view.memory() {
            MemoryKey::Register(_) => ([view.memory(), MemoryKey::Region].map(Some), None),
            MemoryKey::Region => ([None; 2], memories),
        };
        let these = these.into_iter().flatten().filter_map(move |memory| memories?.get(&memory));
        these.chain(others.into_iter().flat_map(HashMap::values)).flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::*;

    #[test]
    fn those_that_share_memory_are_found() {
        let memory = Memory::default();
        let of = |region| View { register: Some(memory.reserve(4, true)), ..View::whole(region, 0, &[4], 0) };
        let views =
            [of(0), of(0), View::whole(0, 0, &[4], 0), of(1), View::whole(1, 0, &[4], 0), View::whole(2, 0, &[4], 0)];
        let views = [&views[..], &[views[0].part(0, 1, 2, 1)]].concat();
        let mut sharing = Sharing::default();
        views.iter().enumerate().for_each(|(thing, view)| sharing.insert(view, thing));
        let agrees = |sharing: &Sharing, left: &[usize]| {
            for view in &views {
                let mut found: Vec<usize> = sharing.with(view).collect();
                found.sort_unstable();
                let expected: Vec<usize> =
                    left.iter().copied().filter(|thing| views[*thing].shares_memory(view)).collect();
                assert_eq!(found, expected, "{view:?}");
            }
        };
        agrees(&sharing, &[0, 1, 2, 3, 4, 5, 6]);
        sharing.remove(&views[2], 2);
        sharing.remove(&views[0], 0);
        agrees(&sharing, &[1, 3, 4, 5, 6]);
    }
}
