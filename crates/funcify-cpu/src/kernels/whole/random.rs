//! Random bits.

use funcify_core::ops::{Words, threefry_blocks};

use super::*;

/// The random bits of blocks, separately for each key.
#[derive(Clone, Debug)]
pub(crate) struct RandomBits {
    /// The number of blocks per key.
    pub(super) blocks: usize,
    pub(super) words: Words,
}

/// The number of blocks that are computed together.
const BLOCKS: usize = 32;

impl RandomBits {
    pub(super) fn run<S: Simd>(&self, simd: S, to: &mut [u32], keys: &[u32], counters: &[u32]) {
        simd.vectorize(
            #[inline(always)]
            || self.generate(to, keys.as_chunks::<2>().0, counters.as_chunks::<2>().0),
        );
    }

    #[inline(always)]
    fn generate(&self, to: &mut [u32], keys: &[[u32; 2]], counters: &[[u32; 2]]) {
        let per_block = if self.words == Words::Both { 2 } else { 1 };
        let of_keys = to.chunks_exact_mut((self.blocks * per_block).max(1));
        for ((to, key), [high, low]) in of_keys.zip(keys).zip(counters) {
            let first = u64::from(*high) << 32 | u64::from(*low);
            for (index, to) in to.chunks_mut(BLOCKS * per_block).enumerate() {
                let [x, y] = threefry_blocks::<BLOCKS>(*key, first.wrapping_add((index * BLOCKS) as u64));
                match self.words {
                    Words::Mixed => to.iter_mut().zip(x).zip(y).for_each(|((to, x), y)| *to = x ^ y),
                    Words::Both => {
                        to.as_chunks_mut::<2>().0.iter_mut().zip(x).zip(y).for_each(|((to, x), y)| *to = [x, y]);
                    }
                }
            }
        }
    }
}
