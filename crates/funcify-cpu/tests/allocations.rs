//! Tests that a call on slices allocates no memory after the first one, and that a call on tensors allocates only its
//! results. The tests count only allocations on the calling thread, so other threads do not affect the result.

#[allow(unreachable_pub, dead_code, unused_imports, reason = "benches and other tests share these files")]
mod plans;

use std::sync::Arc;

use allocation_counter::measure;
use funcify::dispatch::Function;
use funcify::{DType, GradOptions, Graph, HostTensor, full, map, scan, select};
use funcify_cpu::{Cpu, Machine, OnSlices};
use plans::{Channels, Sizes};

#[test]
fn a_call_allocates_nothing_after_the_first() {
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
    // All calls run on the only thread of a rayon pool, so no call hands its work over to another thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| {
        for workload in &workloads {
            let mut ready = workload.ready::<f32>(Machine::detect());
            let counted = ready.with(|executor, inputs, outputs| {
                // The first program of a thread reserves memory for the positions of operands.
                executor.call(inputs, outputs).unwrap();
                measure(|| executor.call(inputs, outputs).unwrap())
            });
            assert_eq!(counted.count_total, 0, "{}: {counted:?}", workload.name);
        }
    });
}

#[test]
fn a_call_on_slices_allocates_nothing_after_the_first() {
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
    let counts = pool.install(|| {
        let mut call = || program.call(&[&x, &h, &w], &mut [&mut loss, &mut of_h, &mut of_w]).unwrap();
        [(); 3].map(|()| measure(&mut call).count_total)
    });
    assert_eq!(counts[1..], [0, 0]);
    assert!(loss[0] > 0.0 && of_w.iter().chain(&of_h).all(|each| *each != 0.0));
}

/// Checking integer arguments and correcting integer results (-0.0 becomes 0) must not allocate memory.
#[test]
fn a_call_on_slices_of_integers_allocates_nothing_after_the_first() {
    let graph = Graph::build("masked", |g| {
        let [n, p, x] = [g.input("n", "u8[T]"), g.input("p", "bool[T]"), g.input("x", "f32[T]")];
        let ys = map((n, p, x), |(n, p, x)| select(p, x * n.cast(DType::F32), -x));
        (ys, n % 7)
    });
    let program = OnSlices::compile(&graph.unwrap(), &[&[100], &[100], &[100]]).unwrap();
    let (n, p, x) = ([3.0f32; 100], [1.0f32; 100], [0.5f32; 100]);
    let (mut ys, mut rests) = ([0.0f32; 100], [0.0f32; 100]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let counts = pool.install(|| {
        let mut call = || program.call(&[&n, &p, &x], &mut [&mut ys, &mut rests]).unwrap();
        [(); 3].map(|()| measure(&mut call).count_total)
    });
    assert_eq!(counts[1..], [0, 0]);
    assert_eq!((ys, rests), ([1.5; 100], [3.0; 100]));
}

/// A call must not copy its inputs, whether they are floats or integers.
#[test]
fn a_call_on_tensors_allocates_little_more_than_its_results() {
    let graph = Graph::build("table", |g| {
        let (words, xs) = (g.input("words", "u32[T,1000]"), g.input("xs", "f32[T,1000]"));
        let step = |(hash, total): (funcify::Value, funcify::Value), (word, x)| (((hash ^ word) * 31, total + x), ());
        scan((full([1000], DType::U32, 0.0), full([1000], DType::F32, 0.0)), (words, xs), step).0
    });
    let function = Function::compile(&graph.unwrap(), &Cpu::default()).unwrap();
    let words = HostTensor::from_vec(vec![7u32; 100_000], [100, 1000]).unwrap();
    let xs = HostTensor::from_vec(vec![1.0f32; 100_000], [100, 1000]).unwrap();
    let inputs = [Arc::new(words), Arc::new(xs)];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let bytes = pool.install(|| {
        let call = || drop(function.call(&inputs).unwrap());
        [(); 3].map(|()| measure(call).bytes_max)
    });
    assert!((8000..16_000).contains(&bytes[2]), "the results have 8000 bytes: {bytes:?}");
}
