//! Looks up items by the memory that they occupy, in time that does not depend on the total number of items.

use std::collections::{BTreeSet, HashMap};

/// Identifies a region of memory, or one allocation in a region, while an engine lays out a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Memory {
    /// The index of a region. Each region is one of the caller's tensors, or scratch memory.
    pub region: usize,
    /// An identifier of the allocation, unique within the region, or `None` for the whole region.
    pub allocation: Option<usize>,
}

impl Memory {
    /// Returns `true` if `self` and `other` may overlap: if they are the same allocation, or if one of them is the
    /// region that contains the other.
    pub fn may_share(&self, other: &Memory) -> bool {
        self.region == other.region
            && match (self.allocation, other.allocation) {
                (Some(own), Some(other)) => own == other,
                _ => true,
            }
    }
}

/// The indices of items, keyed by the memory that each item occupies.
///
/// ```
/// use funcify_analysis::{Memory, Occupants};
///
/// let [whole, first, second] = [None, Some(1), Some(2)].map(|allocation| Memory { region: 0, allocation });
/// let mut occupants = Occupants::default();
/// occupants.insert(first, 7);
/// assert_eq!(occupants.with(first).collect::<Vec<_>>(), [7]);
/// assert_eq!(occupants.with(whole).collect::<Vec<_>>(), [7]);
/// assert_eq!(occupants.with(second).count(), 0);
/// ```
#[derive(Default, Debug)]
pub struct Occupants(HashMap<usize, HashMap<Option<usize>, BTreeSet<usize>>>);

impl Occupants {
    /// Records that an item occupies `memory`.
    pub fn insert(&mut self, memory: Memory, thing: usize) {
        self.0.entry(memory.region).or_default().entry(memory.allocation).or_default().insert(thing);
    }

    /// Records that an item no longer occupies `memory`.
    pub fn remove(&mut self, memory: Memory, thing: usize) {
        let Some(allocations) = self.0.get_mut(&memory.region) else { return };
        let Some(things) = allocations.get_mut(&memory.allocation) else { return };
        things.remove(&thing);
        if things.is_empty() {
            allocations.remove(&memory.allocation);
        }
    }

    /// Returns the items whose memory [may overlap](Memory::may_share) `memory`.
    pub fn with(&self, memory: Memory) -> impl Iterator<Item = usize> {
        let allocations = self.0.get(&memory.region);
        let (these, others) = match memory.allocation {
            Some(_) => ([memory.allocation, None].map(Some), None),
            None => ([None; 2], allocations),
        };
        let these = these.into_iter().flatten().filter_map(move |allocation| allocations?.get(&allocation));
        these.chain(others.into_iter().flat_map(HashMap::values)).flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_share_memory_are_found() {
        let of = |region, allocation| Memory { region, allocation };
        let memories = [
            of(0, Some(0)),
            of(0, Some(1)),
            of(0, None),
            of(1, Some(0)),
            of(1, None),
            of(2, None),
            // The same memory as the first entry.
            of(0, Some(0)),
        ];
        let mut occupants = Occupants::default();
        memories.iter().enumerate().for_each(|(thing, memory)| occupants.insert(*memory, thing));
        let agrees = |occupants: &Occupants, left: &[usize]| {
            for memory in &memories {
                let mut found: Vec<usize> = occupants.with(*memory).collect();
                found.sort_unstable();
                let expected: Vec<usize> =
                    left.iter().copied().filter(|thing| memories[*thing].may_share(memory)).collect();
                assert_eq!(found, expected, "{memory:?}");
            }
        };
        agrees(&occupants, &[0, 1, 2, 3, 4, 5, 6]);
        occupants.remove(memories[2], 2);
        occupants.remove(memories[0], 0);
        agrees(&occupants, &[1, 3, 4, 5, 6]);
    }
}
