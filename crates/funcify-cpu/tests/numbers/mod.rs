//! Numbers that look random, the same in each run.

use funcify::{DType, HostTensor, Scalar};

/// Between -1 and 1.
pub(crate) fn numbers(shape: &[usize], seed: u64) -> HostTensor {
    let mut state = seed;
    HostTensor::from_fn(DType::F32, shape, |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Scalar::Float((state >> 40) as f64 / (1u64 << 23) as f64 - 1.0)
    })
}
