//! What tests of the engine share: numbers that look random, the same in each run, and how near results are.
#![allow(dead_code, reason = "each test program uses a part")]

use funcify::{DType, HostTensor, Scalar};

/// Between -1 and 1.
pub(crate) fn numbers(shape: &[usize], seed: u64) -> HostTensor {
    let mut state = seed;
    HostTensor::from_fn(DType::F32, shape, |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Scalar::Float((state >> 40) as f64 / (1u64 << 23) as f64 - 1.0)
    })
}

/// A tensor of such numbers for each input, by its sizes.
pub(crate) fn inputs(shapes: &[&[usize]]) -> Vec<HostTensor> {
    shapes.iter().zip(0..).map(|(shape, seed)| numbers(shape, seed)).collect()
}

/// Asserts that each element is near the expected one: by `tolerance`, and by that share of it.
#[track_caller]
pub(crate) fn assert_near(found: &[HostTensor], expected: &[HostTensor], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.shape(), expected.shape(), "{what}");
        for (x, y) in found.to_f64_vec().into_iter().zip(expected.to_f64_vec()) {
            assert!((x - y).abs() < tolerance * (1.0 + y.abs()), "{what}: {x} and {y}");
        }
    }
}

/// Returns what a step gives whose next state is also its output.
pub(crate) fn traced<T: Copy>(next: T) -> (T, T) {
    (next, next)
}
