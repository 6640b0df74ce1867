//! Runs hand-written plans of whole loops, and compares the results with those of plain loops in f64.

#[allow(unreachable_pub, reason = "benches and other tests share these files")]
mod plans;

use funcify_cpu::{Element, Machine};
use plans::{Channels, Sizes, Workload};

fn check<T: Element>(workload: &Workload, tolerance: f64) {
    let expected = workload.expected::<T>();
    for machine in Machine::all() {
        let mut ready = workload.ready::<T>(machine);
        ready.call().unwrap();
        let error = ready.error(&expected);
        assert!(error <= tolerance, "{} on {}: off by {error:.2e}", workload.name, machine.name());
        // The contents of scratch memory after the first call must not affect the second call.
        let first = ready.outputs().to_vec();
        ready.call().unwrap();
        assert_eq!(ready.outputs(), first, "{} on {}: a different answer", workload.name, machine.name());
    }
}

fn both(workload: &Workload) {
    check::<f32>(workload, 2e-5);
    check::<f64>(workload, 1e-13);
}

#[test]
fn running_sums() {
    both(&plans::running_sum(50, 256, 256));
    both(&plans::running_sum(33, 39, 13));
    both(&plans::running_sum_of_one(1000));
}

#[test]
fn recurrent_networks() {
    both(&plans::rnn(Sizes { steps: 24, batch: 1, width: 32, rows: 1, strip: 8 }));
    both(&plans::rnn(Sizes { steps: 12, batch: 32, width: 128, rows: 16, strip: 4 }));
    both(&plans::rnn(Sizes { steps: 9, batch: 27, width: 21, rows: 9, strip: 3 }));
    both(&plans::rnn(Sizes { steps: 9, batch: 3, width: 21, rows: 3, strip: 3 }));
}

#[test]
fn gradients_of_recurrent_networks() {
    both(&plans::rnn_training(Sizes { steps: 24, batch: 1, width: 32, rows: 1, strip: 8 }));
    both(&plans::rnn_training(Sizes { steps: 12, batch: 32, width: 64, rows: 16, strip: 4 }));
    both(&plans::rnn_training(Sizes { steps: 9, batch: 27, width: 21, rows: 9, strip: 3 }));
}

#[test]
fn long_short_term_memories() {
    both(&plans::lstm(Sizes { steps: 24, batch: 1, width: 32, rows: 1, strip: 8 }));
    both(&plans::lstm(Sizes { steps: 12, batch: 32, width: 64, rows: 16, strip: 4 }));
    both(&plans::lstm(Sizes { steps: 9, batch: 27, width: 21, rows: 9, strip: 3 }));
}

#[test]
fn state_space_models() {
    for (steps, channels, states, tile, segment) in [(40, 256, 16, 128, 8), (20, 39, 5, 13, 5)] {
        let sizes = Channels { steps, channels, states, tile, segment };
        both(&plans::ssm(sizes));
        both(&plans::ssm_training(sizes));
    }
}
