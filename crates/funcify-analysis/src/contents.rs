//! Tracks what memory holds: each write gives it other contents, so a copy of it is good as long as their number is the same.

use std::collections::HashMap;

use crate::occupants::Memory;

/// The contents of some memory: those after so many writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(usize);

/// Counts how often each allocation, and each region without allocations, was written (order-c4 of [`ReadOrder`](crate::ReadOrder)).
///
/// ```
/// use funcify_analysis::{Contents, Memory};
///
/// let memory = Memory { region: 0, allocation: Some(3) };
/// let mut contents = Contents::default();
/// let copied = contents.version(memory);
/// assert_eq!(contents.version(memory), copied);
/// contents.written(memory);
/// assert_ne!(contents.version(memory), copied);
/// ```
#[derive(Clone, Default, Debug)]
pub struct Contents(HashMap<Memory, usize>);

impl Contents {
    /// Counts a write.
    pub fn written(&mut self, memory: Memory) {
        *self.0.entry(memory).or_default() += 1;
    }

    /// Returns what some memory holds now.
    pub fn version(&self, memory: Memory) -> Version {
        // Memory that was not written yet has its first contents.
        Version(self.0.get(&memory).map_or(0, |writes| *writes))
    }
}
