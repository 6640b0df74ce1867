//! Generates random bits with 20 rounds of Threefry-2x32, several blocks at a time. The bits are the same as those of
//! the reference implementation ([`Threefry`](funcify_core::ops::Threefry)).

use funcify_core::ops::Words;

use super::*;

/// A kernel that generates the same number of random blocks for each key.
#[derive(Clone, Debug)]
pub(crate) struct RandomBits {
    /// The number of blocks per key.
    pub(super) blocks: usize,
    pub(super) words: Words,
}

/// The number of blocks that are computed at once. It is a multiple of the lane count of every vector type.
const BLOCKS: usize = 32;

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
const PARITY: u32 = 0x1bd1_1bda;

impl RandomBits {
    pub(super) fn run<S: Simd>(&self, simd: S, to: &mut [u32], keys: &[u32], counters: &[u32]) {
        let (keys, counters) = (keys.as_chunks::<2>().0, counters.as_chunks::<2>().0);
        simd.vectorize(LoopCall(self, (simd, to, keys, counters)));
    }
}

/// The arguments of the inner loop: the instruction set, the destination, the keys and the counters.
type Arguments<'a, S> = (S, &'a mut [u32], &'a [[u32; 2]], &'a [[u32; 2]]);

impl<S: Simd> InnerLoop<Arguments<'_, S>> for RandomBits {
    #[inline(always)]
    fn run_loop(&self, (simd, to, keys, counters): Arguments<'_, S>) {
        let per_block = if self.words == Words::Both { 2 } else { 1 };
        let of_keys = to.chunks_exact_mut((self.blocks * per_block).max(1));
        for ((to, key), [high, low]) in of_keys.zip(keys).zip(counters) {
            let mut counter = u64::from(*high) << 32 | u64::from(*low);
            for to in to.chunks_mut(BLOCKS * per_block) {
                let [mut x, mut y] = [[0; BLOCKS]; 2];
                for (x, y) in x.iter_mut().zip(&mut y) {
                    (*x, *y) = ((counter >> 32) as u32, counter as u32);
                    counter = counter.wrapping_add(1);
                }
                let (xs, ys) = (S::as_mut_simd_u32s(&mut x).0, S::as_mut_simd_u32s(&mut y).0);
                for (x, y) in xs.iter_mut().zip(ys) {
                    (*x, *y) = encrypt(simd, *key, [*x, *y]);
                }
                match self.words {
                    Words::Mixed => to.iter_mut().zip(&x).zip(&y).for_each(|((to, x), y)| *to = x ^ y),
                    Words::Both => {
                        let pairs = to.as_chunks_mut::<2>().0.iter_mut();
                        pairs.zip(&x).zip(&y).for_each(|((to, x), y)| *to = [*x, *y]);
                    }
                }
            }
        }
    }
}

/// Encrypts blocks with a key. The two vectors hold the first and the second word of each block.
#[inline(always)]
fn encrypt<S: Simd>(simd: S, key: [u32; 2], [x, y]: [S::u32s; 2]) -> (S::u32s, S::u32s) {
    let schedule = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let (mut x, mut y) = (add(simd, x, schedule[0]), add(simd, y, schedule[1]));
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x = simd.add_u32s(x, y);
            y = simd.xor_u32s(rotate(simd, y, rotation), x);
        }
        x = add(simd, x, schedule[(group + 1) % 3]);
        y = add(simd, y, schedule[(group + 2) % 3].wrapping_add(group as u32 + 1));
    }
    (x, y)
}

#[inline(always)]
fn add<S: Simd>(simd: S, x: S::u32s, number: u32) -> S::u32s {
    simd.add_u32s(x, simd.splat_u32s(number))
}

#[inline(always)]
fn rotate<S: Simd>(simd: S, x: S::u32s, by: u32) -> S::u32s {
    let low = simd.wrapping_dyn_shr_u32s(x, simd.splat_u32s(32 - by));
    simd.or_u32s(simd.wrapping_dyn_shl_u32s(x, simd.splat_u32s(by)), low)
}
