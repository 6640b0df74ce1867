//! `threefry`: random bits from a key and a counter, the same on every backend.
//!
//! The generator is Threefry-2x32 with 20 rounds (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011). It
//! computes a block of two random words from a key and a counter. Element `i` of the result, in row-major order, comes
//! from the block for `counter + i`. With a counter of zero, the bits therefore equal the bits that JAX generates with
//! `jax_threefry_partitionable` (JAX's default). User programs call [`random`](crate::random) instead.

use std::iter;

use crate::ops::rules::*;

/// Random bits computed from the operands `key` and `counter`. Both have the type `u32[.., 2]`, with the high word
/// first. The result is `u32[.., shape]`, or `u32[.., shape, 2]` with both words of each block. Each index along the
/// leading axes has its own key and counter.
#[derive(Clone, Debug)]
pub struct Threefry {
    /// The shape of the random bits for each key.
    pub shape: Shape,
    /// The words that the op returns for each block.
    pub words: Words,
}

op_text!("threefry" => Threefry { shape, words });

/// The output of the op for each block of two random words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Words {
    /// One word: the bitwise exclusive or of the two words.
    Mixed,
    /// Both words, along a new last axis.
    Both,
}

impl Words {
    pub(in crate::ops) fn name(self) -> &'static str {
        match self {
            Words::Mixed => "mixed",
            Words::Both => "both",
        }
    }
}

impl OpRules for Threefry {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [key, counter] = arity(at, inputs)?;
        if key.dtype != DType::U32 || key.shape.dims().last().and_then(Dim::constant) != Some(2) {
            return Err(at.mismatch("the key", "u32[2], or keys in u32[.., 2]", key, "make it with `random::key`"));
        }
        if counter != key {
            let fix = "pass two u32 words per key";
            return Err(at.mismatch("the counter", format!("{key}, like the key"), counter, fix));
        }
        if let Some(dim) = self.shape.dims().iter().find(|dim| dim.is_at_least(&Dim::from(0)) == Some(false)) {
            let fix = "give a size that is not negative";
            return Err(at.mismatch("attribute `shape`", "sizes of 0 or more", dim, fix));
        }
        let lanes = &key.shape.dims()[..key.rank() - 1];
        let last = (self.words == Words::Both).then(|| Dim::from(2));
        Ok(vec![key.with_shape(Shape::new(lanes.iter().cloned().chain(self.shape.dims().iter().cloned()).chain(last)))])
    }

    fn eval(
        &self,
        context: &mut EvalContext<'_>,
        inputs: &[HostTensor],
        outputs: &[TensorType],
    ) -> Result<Vec<HostTensor>> {
        let size = context.shape(&self.shape)?.iter().product();
        let words = |tensor: &HostTensor| tensor.scalars().map(|scalar| scalar.as_i64() as u32).collect::<Vec<u32>>();
        let bits = threefry_bits(&words(&inputs[0]), &words(&inputs[1]), size, self.words);
        Ok(HostTensor::from_vec(bits, context.shape(&outputs[0].shape)?).into_iter().collect())
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        let operands: Vec<_> = operands.iter().map(|operand| operand.materialized(size)).collect();
        emit_lanes(self.clone(), &operands)
    }

    no_derivative_rules!();
}

/// Computes the random bits of `size` blocks for each key. `keys` and `counters` hold pairs of words, high word first,
/// with one counter for each key. The kernels of all backends call this function.
#[doc(hidden)]
pub fn threefry_bits(keys: &[u32], counters: &[u32], size: usize, words: Words) -> Vec<u32> {
    let (keys, _) = keys.as_chunks::<2>();
    let (counters, _) = counters.as_chunks::<2>();
    let mut bits = Vec::with_capacity(keys.len() * size * 2);
    for (key, counter) in keys.iter().zip(counters) {
        bits.extend(threefry_words(*key, *counter, size, words));
    }
    bits
}

/// The number of blocks that [`threefry_words`] computes at once.
const BLOCKS: usize = 8;

/// Returns the words of `blocks` consecutive blocks for a key, starting at `counter`.
#[doc(hidden)]
pub fn threefry_words(key: [u32; 2], counter: [u32; 2], blocks: usize, words: Words) -> impl Iterator<Item = u32> {
    let first = (u64::from(counter[0]) << 32) | u64::from(counter[1]);
    (0..blocks).step_by(BLOCKS).flat_map(move |index| {
        let [x, y] = threefry_blocks::<BLOCKS>(key, first.wrapping_add(index as u64));
        let made = x.into_iter().zip(y).take(blocks - index);
        made.flat_map(move |(x, y)| {
            let (one, other) = if words == Words::Both { (x, Some(y)) } else { (x ^ y, None) };
            iter::once(one).chain(other)
        })
    })
}

/// Computes `N` blocks for a key, starting at the counter `first`. Returns the first words of all blocks, and then the
/// second words. A block is its counter, split into two words and encrypted with the key.
fn threefry_blocks<const N: usize>(key: [u32; 2], first: u64) -> [[u32; N]; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    const PARITY: u32 = 0x1bd1_1bda;
    let schedule = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let counters: [u64; N] = std::array::from_fn(|index| first.wrapping_add(index as u64));
    let mut x = counters.map(|counter| ((counter >> 32) as u32).wrapping_add(key[0]));
    let mut y = counters.map(|counter| (counter as u32).wrapping_add(key[1]));
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            for (x, y) in x.iter_mut().zip(&mut y) {
                *x = x.wrapping_add(*y);
                *y = y.rotate_left(rotation) ^ *x;
            }
        }
        x = x.map(|x| x.wrapping_add(schedule[(group + 1) % 3]));
        y = y.map(|y| y.wrapping_add(schedule[(group + 2) % 3]).wrapping_add(group as u32 + 1));
    }
    [x, y]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_op, eval_op, rejects};

    /// Checks blocks against the test vectors of Random123 (`kat_vectors`).
    #[test]
    fn known_answers() {
        assert_eq!(threefry_blocks([0, 0], 0), [[0x6b20_0159], [0x99ba_4efe]]);
        assert_eq!(threefry_blocks([u32::MAX; 2], u64::MAX), [[0x1cb9_96fc], [0xbb00_2be7]]);
        let (key, counter) = ([0x1319_8a2e, 0x0370_7344], 0x243f_6a88_85a3_08d3);
        assert_eq!(threefry_blocks(key, counter), [[0xc492_3a9c], [0x483d_f7a0]]);
    }

    /// Checks the bits against JAX's output for `jax.random.split(jax.random.key(42), 3)`.
    #[test]
    fn both_words_are_those_of_jax() {
        let keys = HostTensor::from([
            [1_832_780_943u32, 270_669_613],
            [64_467_757, 2_916_123_636],
            [2_465_931_498, 255_383_827],
        ]);
        check_op(
            "threefry {shape=[3], words=both}",
            &[HostTensor::from([0u32, 42]), HostTensor::from([0u32, 0])],
            keys.clone(),
        );
    }

    #[test]
    fn the_counter_carries_and_the_shape_is_row_major() {
        let key = || HostTensor::from([7u32, 9]);
        let after = eval_op("threefry {shape=[3], words=mixed}", &[key(), HostTensor::from([0u32, u32::MAX])]);
        let next = eval_op("threefry {shape=[1, 2], words=mixed}", &[key(), HostTensor::from([1u32, 0])]);
        assert_eq!(next.shape(), [1, 2]);
        assert_eq!([after.get(1), after.get(2)], [next.get(0), next.get(1)]);
        assert_ne!(after.get(0), after.get(1));
    }

    #[test]
    fn each_key_has_bits_of_its_own() {
        let keys = HostTensor::from([[0u32, 42], [5, 6]]);
        let counters = HostTensor::from([[0u32, 0], [0, 3]]);
        let both = eval_op("threefry {shape=[4], words=mixed}", &[keys.clone(), counters.clone()]);
        assert_eq!(both.shape(), [2, 4]);
        for row in 0..2 {
            check_op("threefry {shape=[4], words=mixed}", &[keys.row(row), counters.row(row)], both.row(row));
        }
    }

    #[test]
    fn keys_are_two_words() {
        let op = "threefry {shape=[4], words=mixed}";
        rejects(op, &["u32[3]", "u32[3]"], "u32[2], or keys in u32[.., 2]");
        rejects(op, &["u32[]", "u32[]"], "u32[2], or keys in u32[.., 2]");
        rejects(op, &["i32[2]", "i32[2]"], "u32[2], or keys in u32[.., 2]");
        rejects(op, &["u32[5,2]", "u32[2]"], "u32[5,2], like the key");
        rejects("threefry {shape=[-1], words=both}", &["u32[2]", "u32[2]"], "sizes of 0 or more");
    }
}
