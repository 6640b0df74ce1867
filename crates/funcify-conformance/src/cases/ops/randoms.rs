//! Random bits: single keys and batches of keys, counters that carry into the second word, and shapes of every rank.

use funcify::ops::{Threefry, Words};

use super::values::{SHAPES, cycle_values};
use super::*;

pub(super) fn cases() -> Cases {
    let kind = |name: &str, words: Words| on_dtypes(name, &[DType::U32], 0.0, |_| uses(words));
    Ok([kind("threefry_mixed", Words::Mixed)?, kind("threefry_both", Words::Both)?].concat())
}

fn uses(words: Words) -> Vec<OpUse> {
    let op = |shape: &[usize]| Threefry { shape: Shape::from(shape), words };
    // The result has the axes of the keys, the axes of the shape, and possibly an axis for the two words. At most six
    // axes are supported, so use only shapes with fewer than five axes.
    let shapes = SHAPES.into_iter().filter(|shape| shape.len() < 5);
    let key = || cycle_values(DType::U32, &[2], 6);
    let mut uses: Vec<OpUse> =
        shapes.map(|shape| OpUse::new(op(shape), [key(), HostTensor::from([0u32, 0])])).collect();
    for keys in [&[3, 2][..], &[0, 2], &[2, 3, 2]] {
        uses.push(OpUse::new(op(&[2, 2]), [cycle_values(DType::U32, keys, 1), cycle_values(DType::U32, keys, 4)]));
        uses.push(OpUse::new(op(&[]), [cycle_values(DType::U32, keys, 1), cycle_values(DType::U32, keys, 4)]));
    }
    uses.push(OpUse::new(op(&[5]), [key(), HostTensor::from([7u32, u32::MAX - 1])]));
    uses.push(OpUse::new(op(&[5]), [key(), HostTensor::from([u32::MAX, u32::MAX - 1])]));
    uses
}
