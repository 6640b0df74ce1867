//! Tracks writes to memory, so that an engine knows which copies of the memory's contents are still valid.

use std::collections::HashMap;

use crate::occupants::Memory;

/// A version of the contents of an allocation or region: the number of writes to it so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(usize);

/// Counts the writes to each [`Memory`]. A copy of a memory's contents is valid as long as the count for that memory
/// has not changed (order-c4 of [`ReadOrder`](crate::ReadOrder)).
///
/// ```
/// use funcify_analysis::{Contents, Memory};
///
/// let memory = Memory { region: 0, allocation: Some(3) };
/// let mut contents = Contents::default();
/// let copied = contents.version(memory);
/// assert_eq!(contents.version(memory), copied);
/// contents.record_write(memory);
/// assert_ne!(contents.version(memory), copied);
/// ```
#[derive(Clone, Default, Debug)]
pub struct Contents(HashMap<Memory, usize>);

impl Contents {
    /// Records a write to `memory`.
    pub fn record_write(&mut self, memory: Memory) {
        *self.0.entry(memory).or_default() += 1;
    }

    /// Returns the current version of the contents of `memory`.
    pub fn version(&self, memory: Memory) -> Version {
        Version(self.0.get(&memory).map_or(0, |writes| *writes))
    }
}
