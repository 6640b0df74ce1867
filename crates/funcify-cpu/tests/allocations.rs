//! A call allocates nothing: its memory is the executor's, and the caller's slices.

#[allow(unreachable_pub, dead_code, unused_imports, reason = "benches and other tests share these files")]
mod plans;

use funcify_cpu::Machine;
use peak_alloc::PeakAlloc;
use plans::{Channels, Sizes};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

#[test]
fn a_call_allocates_nothing() {
    let sizes = Sizes { steps: 12, batch: 32, width: 32, rows: 16, strip: 4 };
    let channels = Channels { steps: 12, channels: 64, states: 4, tile: 32, segment: 4 };
    let workloads = [
        plans::rnn(sizes),
        plans::rnn_training(sizes),
        plans::lstm(sizes),
        plans::ssm(channels),
        plans::ssm_training(channels),
        plans::running_sum(100, 40, 20),
        plans::running_sum_of_one(1000),
    ];
    // One thread, and the calls on it: rayon's queues are its own.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| {
        for workload in &workloads {
            let mut ready = workload.ready::<f32>(Machine::detect());
            let (before, peak) = ready.with(|executor, inputs, outputs| {
                HEAP.reset_peak_usage();
                let before = HEAP.current_usage();
                executor.call(inputs, outputs).unwrap();
                (before, HEAP.peak_usage())
            });
            assert_eq!(peak, before, "{}", workload.name);
        }
    });
}
