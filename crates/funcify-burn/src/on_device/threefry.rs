//! Implements the `threefry` random number generator on the device, in wrapping u32 arithmetic.

use burn::tensor::IntDType;
use funcify_core::ops::Words;

use super::*;
use crate::data::from_elements;
use crate::kinds::{expand, reshape};

/// Returns random bits for each key. The result has the shape `[keys, size]`, or `[keys, size, 2]` if `words` requests
/// both words of each block. The bits are equal to those of `funcify::ops::threefry_bits`. `size` must be below 2^32.
pub(crate) fn threefry(burn: &Burn, keys: Tensor, counters: Tensor, size: usize, words: Words) -> Outcome {
    let shape = [sizes(&keys).iter().product::<usize>() / 2, size];
    let [high_key, low_key] = split_words(keys, &shape)?;
    let [high, low] = split_words(counters, &shape)?;
    let indices = expand(from_elements(burn, (0..size).map(|index| index as u32).collect(), &[1, size]), &shape);
    let low = Dispatch::int_add(low, indices.clone());
    let carry = Dispatch::int_lower(low.clone(), indices, burn.bool_dtype());
    let high = Dispatch::int_add(high, Dispatch::bool_into_int(carry, IntDType::U32));
    let [x, y] = encrypt([high_key, low_key], [high, low]);
    match words {
        Words::Mixed => Ok(Dispatch::bitwise_xor(x, y)),
        Words::Both => {
            let column = [shape[0], size, 1];
            Ok(join(vec![reshape(x, &column)?, reshape(y, &column)?], 2))
        }
    }
}

/// Splits pairs of words into their first and second words, and expands both to `[pairs, size]`.
fn split_words(pairs: Tensor, shape: &[usize; 2]) -> Outcome<[Tensor; 2]> {
    let words = [shape[0], 2];
    let pairs = reshape(pairs, &words)?;
    Ok([0, 1].map(|word| expand(slice(pairs.clone(), &slices_along(&words, 1, word, word + 1, 1)), shape)))
}

/// Encrypts each counter with its key, using Threefry-2x32 with 20 rounds.
fn encrypt(key: [Tensor; 2], counter: [Tensor; 2]) -> [Tensor; 2] {
    const ROTATIONS: [[i64; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    const PARITY: i64 = 0x1bd1_1bda;
    let [high_key, low_key] = key;
    let parity = Dispatch::bitwise_xor(high_key.clone(), low_key.clone());
    let schedule = [high_key, low_key, Dispatch::bitwise_xor_scalar(parity, Scalar::from(PARITY))];
    let [high, low] = counter;
    let mut x = Dispatch::int_add(high, schedule[0].clone());
    let mut y = Dispatch::int_add(low, schedule[1].clone());
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x = Dispatch::int_add(x, y.clone());
            y = Dispatch::bitwise_xor(rotate_left(y, rotation), x.clone());
        }
        x = Dispatch::int_add(x, schedule[(group + 1) % 3].clone());
        y = Dispatch::int_add(y, schedule[(group + 2) % 3].clone());
        y = Dispatch::int_add_scalar(y, Scalar::from(group as i64 + 1));
    }
    [x, y]
}

fn rotate_left(x: Tensor, amount: i64) -> Tensor {
    let left = Dispatch::bitwise_left_shift_scalar(x.clone(), Scalar::from(amount));
    Dispatch::bitwise_or(left, Dispatch::bitwise_right_shift_scalar(x, Scalar::from(32 - amount)))
}
