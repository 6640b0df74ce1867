//! Tracks the contents of memory. Each write creates a new version; a copy is valid as long as the version is the same.

use std::collections::HashMap;

use crate::occupants::Memory;

/// A version of the contents of an allocation or a region: the number of writes so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(usize);

/// Counts the writes to each allocation, and to each region without allocations (order-c4 of
/// [`ReadOrder`](crate::ReadOrder)).
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
        // Memory that was never written is at version 0.
        Version(self.0.get(&memory).map_or(0, |writes| *writes))
    }
}
