//! A call allocates nothing: its memory is the executor's, and the caller's slices.

#[allow(unreachable_pub, dead_code, unused_imports, reason = "benches and other tests share these files")]
mod plans;

use std::sync::Mutex;

use funcify::{GradOptions, Graph, scan};
use funcify_cpu::{Machine, OnSlices};
use peak_alloc::PeakAlloc;
use plans::{Channels, Sizes};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// One test at a time: the heap is that of all.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_call_allocates_nothing() {
    let _alone = ALONE.lock();
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

#[test]
fn a_call_on_slices_allocates_nothing_after_the_first() {
    let _alone = ALONE.lock();
    let graph = Graph::build("network", |g| {
        let [x, h, w] = [g.input("x", "f32[T,B,3]"), g.input("h", "f32[B,3]"), g.input("w", "f32[3,3]")];
        let step = |h: funcify::Value, x: funcify::Value| {
            let next = (x + h.matmul(w)).tanh();
            (next, next)
        };
        scan(h, x, step).1.square().sum(..)
    });
    let training = graph.unwrap().value_and_grad(&["w", "h"][..], GradOptions::new()).unwrap();
    let program = OnSlices::compile(&training, &[&[40, 4, 3], &[4, 3], &[3, 3]]).unwrap();
    let (x, h, w) = ([0.25f32; 480], [0.5f32; 12], [0.125f32; 9]);
    let (mut loss, mut of_w, mut of_h) = ([0.0f32], [0.0f32; 9], [0.0f32; 12]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let peaks = pool.install(|| {
        [(); 3].map(|()| {
            HEAP.reset_peak_usage();
            let before = HEAP.current_usage();
            program.call(&[&x, &h, &w], &mut [&mut loss, &mut of_h, &mut of_w]).unwrap();
            HEAP.peak_usage() - before
        })
    });
    assert_eq!(peaks[1..], [0, 0]);
    assert!(loss[0] > 0.0 && of_w.iter().chain(&of_h).all(|each| *each != 0.0));
}
