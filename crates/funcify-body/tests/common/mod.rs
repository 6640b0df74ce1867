//! Provides helpers for the tests: memory for streams, and a random number generator.

use funcify_body::Streams;
use pulp::bytemuck::{Pod, cast_slice, cast_slice_mut};

/// The memory of all streams, each aligned to 8 bytes.
pub(crate) struct Memory(pub(crate) Vec<Vec<u64>>);

impl Memory {
    /// Creates a stream that holds `elements`.
    pub(crate) fn stream<E: Pod>(elements: &[E]) -> Vec<u64> {
        let mut stream = vec![0; size_of_val(elements).div_ceil(8)];
        cast_slice_mut(&mut stream)[..elements.len()].copy_from_slice(elements);
        stream
    }

    /// Returns the elements of a stream.
    pub(crate) fn elements<E: Pod>(&self, stream: usize) -> &[E] {
        cast_slice(&self.0[stream])
    }
}

impl Streams for Memory {
    fn read(&self, stream: usize) -> &[u8] {
        cast_slice(&self.0[stream])
    }

    fn write(&mut self, stream: usize) -> &mut [u8] {
        cast_slice_mut(&mut self.0[stream])
    }

    fn write_beside(&mut self, stream: usize, read: [Option<usize>; 4], run: impl FnOnce(&mut [u8], &[&[u8]; 4])) {
        let mut written = std::mem::take(&mut self.0[stream]);
        run(cast_slice_mut(&mut written), &read.map(|read| read.map_or(&[][..], |read| self.read(read))));
        self.0[stream] = written;
    }
}

/// A SplitMix64 random number generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns an integer less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }
}
