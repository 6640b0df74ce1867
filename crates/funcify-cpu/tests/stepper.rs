//! Programs one step at a time on `cpu`: the bits of the whole sequence, and a step on slices allocates nothing.

use std::sync::Mutex;

use funcify::dispatch::{Function, Stepper};
use funcify::nn::{Cell, Mamba2, Recurrent, RgLru, SelectiveScan};
use funcify::{DType, Graph, HostTensor, Scalar, scan};
use funcify_cpu::{Cpu, OnSlices};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// One test at a time: the heap is that of all.
static ALONE: Mutex<()> = Mutex::new(());

fn numbers(shape: &[usize], seed: u64) -> HostTensor {
    let mut next = seed;
    HostTensor::from_fn(DType::F32, shape, |_| {
        next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Scalar::Float((next >> 40) as f64 / (1 << 24) as f64 - 0.5)
    })
}

/// A network with its product before the loop, and a readout behind it.
fn network() -> Graph {
    let network = Graph::build("network", |g| {
        let [xs, h] = [g.input("xs", "f32[T,B,24]"), g.input("h", "f32[B,32]")];
        let [w, u, v] = [g.input("w", "f32[24,32]"), g.input("u", "f32[32,32]"), g.input("v", "f32[32,5]")];
        let hs = scan(h, xs.dot_general(w, &[(2, 0)], &[]), |h, x| {
            let next = (x + h.matmul(u)).tanh();
            (next, next)
        });
        hs.1.dot_general(v, &[(2, 0)], &[])
    });
    network.unwrap()
}

/// Sizes of an input for so many steps of 3 streams.
fn shape(graph: &Graph, input: usize, steps: usize) -> Vec<usize> {
    let mut sizes = funcify::Sizes::new();
    for (name, size) in [("T", steps), ("B", 3)] {
        sizes.set(&funcify::Symbol::new(name), size);
    }
    graph.input_type(input).shape.value(&sizes).unwrap()
}

#[test]
fn steps_have_the_bits_of_the_sequence() {
    let _alone = ALONE.lock();
    let steps = 40;
    let graphs = [
        network(),
        Recurrent { batch_first: false, ..Recurrent::new(Cell::Lstm, 6, 20) }.layer().unwrap().graph,
        SelectiveScan { batch_first: false, ..SelectiveScan::new(24) }.layer().unwrap().graph,
        RgLru { batch_first: false, associative: false, ..RgLru::new(16, 2) }.layer().unwrap().graph,
        Mamba2 { batch_first: false, states: 8, ..Mamba2::new(8) }.layer().unwrap().graph,
    ];
    for graph in graphs {
        let inputs: Vec<HostTensor> =
            (0..graph.inputs().len()).map(|input| numbers(&shape(&graph, input, steps), input as u64)).collect();
        let whole = Function::compile(&graph, &Cpu::default()).unwrap().call_host(&inputs).unwrap();
        let mut stepper = Stepper::with_host(&graph, &Cpu::default(), &inputs[1..]).unwrap();
        for step in 0..steps {
            let outputs = stepper.step_host(&[inputs[0].row(step)]).unwrap();
            assert_eq!(outputs[0], whole[0].row(step), "step {step} of {}", graph.name());
            if step + 1 == steps {
                assert_eq!(outputs[1..], whole[1..], "{}", graph.name());
            }
        }
        assert_eq!(stepper.function().counts().compiled, 1, "{}", graph.name());
    }
}

#[test]
fn a_step_on_slices_allocates_nothing_after_the_first() {
    let _alone = ALONE.lock();
    let stepped = network().stepped().unwrap();
    let names: Vec<&str> = (0..5).map(|input| stepped.step.input_name(input)).collect();
    assert_eq!(names, ["h", "xs", "w", "u", "v"]);
    let shapes: Vec<Vec<usize>> = (0..5).map(|input| shape(&stepped.step, input, 1)).collect();
    let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let step = OnSlices::compile(&stepped.step, &shapes).unwrap();
    let slice = |shape: &[usize], seed| numbers(shape, seed).as_slice::<f32>().unwrap().to_vec();
    let [x, w, u, v] =
        [(&shapes[1], 1), (&shapes[2], 2), (&shapes[3], 3), (&shapes[4], 4)].map(|(shape, seed)| slice(shape, seed));
    let (mut now, mut next, mut y) = (slice(shapes[0], 0), vec![0f32; 96], vec![0f32; 15]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let peaks = pool.install(|| {
        [(); 8].map(|()| {
            HEAP.reset_peak_usage();
            let before = HEAP.current_usage();
            step.call(&[&now, &x, &w, &u, &v], &mut [&mut next, &mut y]).unwrap();
            std::mem::swap(&mut now, &mut next);
            HEAP.peak_usage() - before
        })
    });
    assert_eq!(peaks[1..], [0; 7]);
    assert!(y.iter().all(|y| *y != 0.0));
}

/// The memory of steps on tensors is that of one step: the states of the step before are free again.
#[test]
fn steps_on_tensors_hold_the_memory_of_one() {
    let _alone = ALONE.lock();
    let fixed: Vec<HostTensor> = (1..5).map(|input| numbers(&shape(&network(), input, 1), input as u64)).collect();
    let mut stepper = Stepper::with_host(&network(), &Cpu::default(), &fixed).unwrap();
    let row = numbers(&[3, 24], 9);
    let held = [(); 20].map(|()| {
        stepper.step_host(std::slice::from_ref(&row)).unwrap();
        HEAP.current_usage()
    });
    // Other threads of the tests may give back a little meanwhile.
    assert!(held[19] <= held[4], "{held:?}");
}
