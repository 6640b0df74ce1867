//! Tests that a thousand training steps use no more memory than the first steps.

use funcify_tests::training::{WIDTH, subjects};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// The allowed growth of the heap: enough for the threads' queues, but too little to hide a leak of one loop's states
/// per call.
const SLACK: usize = 16 << 10;

#[test]
fn a_thousand_training_steps_do_not_grow() {
    for (name, step) in subjects(100) {
        let mut weights = vec![0.9f32; WIDTH];
        let mut train = |count: usize| {
            for _ in 0..count {
                let (_, gradient) = step(&weights);
                weights.iter_mut().zip(gradient).for_each(|(weight, gradient)| *weight -= 0.01 * gradient);
            }
            HEAP.current_usage()
        };
        let (before, after) = (train(100), train(1000));
        assert!(after <= before + SLACK, "{name}: from {before} to {after} bytes");
    }
}
