//! Helpers for tests of the engine: reproducible pseudorandom numbers, and comparisons of results.
#![allow(dead_code, reason = "each test program uses a part")]

use funcify::types::{Sizes, Symbol};
use funcify::{Builder, DType, Graph, HostTensor, Scalar, Tree};

/// Builds a program, and panics if it is invalid.
#[track_caller]
pub(crate) fn built<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) -> Graph {
    Graph::build(name, program).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns pseudorandom numbers between -1 and 1.
pub(crate) fn numbers(shape: &[usize], seed: u64) -> HostTensor {
    let mut state = seed;
    HostTensor::from_fn(DType::F32, shape, |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Scalar::Float((state >> 40) as f64 / (1u64 << 23) as f64 - 1.0)
    })
}

/// Returns a tensor of pseudorandom numbers for each shape.
pub(crate) fn inputs(shapes: &[&[usize]]) -> Vec<HostTensor> {
    shapes.iter().zip(0..).map(|(shape, seed)| numbers(shape, seed)).collect()
}

/// Binds the symbols with the given names to the given sizes.
pub(crate) fn sizes(named: &[(&str, usize)]) -> Sizes {
    let mut sizes = Sizes::new();
    named.iter().for_each(|(name, size)| sizes.set(&Symbol::new(name), *size));
    sizes
}

/// Asserts that each element is close to the expected one. `tolerance` is both the absolute and the relative tolerance.
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

/// Returns `next` as both the next state and the output of a step.
pub(crate) fn traced<T: Copy>(next: T) -> (T, T) {
    (next, next)
}
