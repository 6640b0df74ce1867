//! Fills inputs with distinct elements where possible, so that tests notice reads of the wrong element.

use super::*;

/// The kind of elements of an input.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fill {
    /// Floats between -1 and 1, but not close to 0. They are distinct if the type has enough values.
    Floats,
    /// Integers between these two numbers, inclusive.
    Integers(i64, i64),
    /// Booleans.
    Booleans,
}

impl Fill {
    /// Creates a tensor with elements of this kind.
    pub(super) fn tensor(self, dtype: DType, shape: &[usize], seed: u64) -> HostTensor {
        let mut index = 0u64;
        // The magnitudes of the floats are points of a regular grid. The seed determines their order.
        let count = shape.iter().product::<usize>().max(1) as u64;
        let grid = count.next_power_of_two().max(64);
        let (odd, shift) = (splitmix64(seed) | 1, splitmix64(seed ^ 0x5eed));
        HostTensor::from_fn(dtype, shape, |_| {
            let bits = splitmix64(seed.wrapping_mul(0x9e37_79b9).wrapping_add(index));
            let place = index.wrapping_mul(odd).wrapping_add(shift) % grid;
            index += 1;
            match self {
                Fill::Booleans => Scalar::Bool(bits & 1 == 1),
                Fill::Integers(low, high) => {
                    let count = (i128::from(high) - i128::from(low) + 1) as u128;
                    Scalar::Int((i128::from(low) + (u128::from(bits) % count) as i128) as i64)
                }
                Fill::Floats => {
                    let magnitude = 0.0625 + 0.875 * (place as f64 + 0.5) / grid as f64;
                    Scalar::Float(if bits & 1 == 1 { -magnitude } else { magnitude })
                }
            }
        })
    }
}
