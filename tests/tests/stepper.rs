//! Tests steppers on every backend in host memory: agreement with the program on the whole sequence, saving states to
//! files, streams that join and leave, and the memory of a step.

use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy, Reference, Stepper};
use funcify::nn::{Cell, Mamba2, Minimal, MinimalCell, Recurrent, RgLru, SelectiveScan};
use funcify::{DType, Graph, HostTensor, Scalar, scan};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_cpu::Cpu;
use funcify_tests::{built, traced};

/// Calls a generic function with each backend in host memory.
macro_rules! on_every_backend {
    ($check:ident) => {
        $check(&Reference);
        $check(&Cpu::default());
        $check(&Candle::cpu());
        $check(&Burn::flex());
        $check(&Burn::ndarray());
    };
}

fn numbers(dtype: DType, shape: &[usize], seed: u64) -> HostTensor {
    let mut next = seed;
    HostTensor::from_fn(dtype, shape, |_| {
        next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Scalar::Float((next >> 40) as f64 / (1 << 24) as f64 - 0.5)
    })
}

/// Builds the recurrent network `h = tanh(x w + h u)`. The product `x w` is computed before the loop, and the weights
/// `v` map states to outputs.
fn network() -> Graph {
    built("network", |g| {
        let [xs, h] = [g.input("xs", "f32[T,B,24]"), g.input("h", "f32[B,32]")];
        let [w, u, v] = [g.input("w", "f32[24,32]"), g.input("u", "f32[32,32]"), g.input("v", "f32[32,5]")];
        let hs = scan(h, xs.dot_general(w, &[(2, 0)], &[]), |h, x| traced((x + h.matmul(u)).tanh()));
        hs.1.dot_general(v, &[(2, 0)], &[])
    })
}

/// Builds the recurrent network `h = tanh(x w + h a)`, where each stream has its own `a`, and `v` maps states to
/// outputs.
fn streams() -> Graph {
    built("streams", |g| {
        let [xs, h, a] = [g.input("xs", "f64[T,B,3]"), g.input("h", "f64[B,2]"), g.input("a", "f64[B,2]")];
        let [w, v] = [g.input("w", "f64[3,2]"), g.input("v", "f64[2,2]")];
        let hs = scan(h, xs.dot_general(w, &[(2, 0)], &[]), |h, x| traced((x + h * a).tanh()));
        hs.1.dot_general(v, &[(2, 0)], &[])
    })
}

/// Returns the graphs to test: a handwritten network, and several layers of `funcify::nn`.
fn graphs() -> Vec<Graph> {
    vec![
        network(),
        Recurrent { batch_first: false, ..Recurrent::new(Cell::Rnn, 6, 20) }.layer().unwrap().graph,
        Recurrent { batch_first: false, ..Recurrent::new(Cell::Lstm, 6, 20) }.layer().unwrap().graph,
        Recurrent { batch_first: false, ..Recurrent::new(Cell::Gru, 6, 20) }.layer().unwrap().graph,
        Minimal { batch_first: false, associative: false, ..Minimal::new(MinimalCell::Gru, 6, 20) }
            .layer()
            .unwrap()
            .graph,
        SelectiveScan { batch_first: false, ..SelectiveScan::new(24) }.layer().unwrap().graph,
        RgLru { batch_first: false, associative: false, ..RgLru::new(16, 2) }.layer().unwrap().graph,
        Mamba2 { batch_first: false, states: 8, ..Mamba2::new(8) }.layer().unwrap().graph,
    ]
}

/// Returns inputs for `steps` steps of `streams` streams.
fn inputs(graph: &Graph, steps: usize, streams: usize) -> Vec<HostTensor> {
    let mut sizes = funcify::Sizes::new();
    for (name, size) in [("T", steps), ("B", streams)] {
        sizes.set(&funcify::Symbol::new(name), size);
    }
    let types = (0..graph.inputs().len()).map(|input| graph.input_type(input));
    types.zip(0..).map(|(ty, seed)| numbers(ty.dtype, &ty.shape.value(&sizes).unwrap(), seed)).collect()
}

/// Returns the largest difference between two tensors: relative to the expected element if its magnitude exceeds 1, and
/// absolute otherwise.
fn largest_difference(found: &HostTensor, expected: &HostTensor) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    let pairs = found.to_f64_vec().into_iter().zip(expected.to_f64_vec());
    pairs.map(|(found, expected)| (found - expected).abs() / expected.abs().max(1.0)).fold(0.0, f64::max)
}

fn stepper<B: Backend>(graph: &Graph, backend: &B, options: CompileOptions, inputs: &[HostTensor]) -> Stepper<B> {
    let fixed: Vec<B::Tensor> = inputs[1..].iter().map(|input| backend.upload(input).unwrap()).collect();
    Stepper::with_options(graph, backend, options, &fixed).unwrap()
}

/// Returns the largest difference between the results of a stepper and the results of the program on the whole
/// sequence, compiled with the same options.
fn largest_step_difference<B: Backend>(graph: &Graph, backend: &B, options: CompileOptions) -> f64 {
    let steps = 40;
    let inputs = inputs(graph, steps, 3);
    let whole = Function::compile_with(graph, backend, options.clone()).unwrap().call_host(&inputs).unwrap();
    let mut stepper = stepper(graph, backend, options, &inputs);
    let mut largest = 0f64;
    for step in 0..steps {
        let outputs = stepper.step_host(&[inputs[0].row(step)]).unwrap();
        largest = largest.max(largest_difference(&outputs[0], &whole[0].row(step)));
        if step + 1 == steps {
            let last = outputs[1..].iter().zip(&whole[1..]);
            largest = last.map(|(found, expected)| largest_difference(found, expected)).fold(largest, f64::max);
        }
    }
    assert_eq!(stepper.function().counts().made, 1, "{}", graph.name());
    largest
}

/// Checks that the steps agree with the program on the whole sequence: bit for bit with the option `whole`, and
/// otherwise up to rounding differences in the tensor library's matrix products and elementwise functions.
#[test]
fn steps_have_the_numbers_of_the_sequence() {
    fn check<B: Backend>(backend: &B) {
        let auto = CompileOptions::default();
        let native = CompileOptions { strategy: LoopStrategy::Native, rewrites: None, ..auto.clone() };
        let whole = CompileOptions { whole: true, ..auto.clone() };
        for graph in graphs() {
            let of = |options: &CompileOptions| largest_step_difference(&graph, backend, options.clone());
            let [auto, native, whole] = [&auto, &native, &whole].map(of);
            println!("{} {}: auto {auto:.1e}, native {native:.1e}, whole {whole:.1e}", backend.name(), graph.name());
            let at = format!("{} {}", backend.name(), graph.name());
            assert_eq!(whole, 0.0, "{at}");
            assert!(auto < 1e-5 && native < 1e-5, "{at}: {auto} and {native}");
        }
    }
    on_every_backend!(check);
}

/// Checks that a value that is both an output and the next state is computed only once, and that the step returns the
/// same tensor for both.
#[test]
fn outputs_that_are_one_value_are_one_tensor() {
    let graph = built("both", |g| {
        let [xs, start] = [g.input("xs", "f32[T]"), g.input("start", "f32[]")];
        let (last, sums) = scan(start, xs, |sum, x| (sum + x, sum + x));
        (last, sums, xs * 2.0)
    });
    let number = |value: f32| Arc::new(HostTensor::scalar(value));
    let mut stepper = Stepper::new(&graph, &Reference, &[number(1.0)]).unwrap();
    let (outputs, results) = (stepper.stepped().step.outputs().len(), stepper.function().graph().outputs().len());
    assert_eq!((outputs, results), (4, 2), "{}", stepper.function().graph());
    for expected in [[3f32, 3.0, 4.0], [5.0, 5.0, 4.0]] {
        let given = stepper.step(&[number(2.0)]).unwrap();
        assert_eq!(given.iter().map(|tensor| tensor.get(0).as_f64() as f32).collect::<Vec<_>>(), expected);
        assert!(Arc::ptr_eq(&given[0], &given[1]) && Arc::ptr_eq(&given[0], &stepper.tensors()[0]));
    }
    let options = CompileOptions { rewrites: None, ..CompileOptions::default() };
    let stepper = Stepper::with_options(&graph, &Reference, options, &[number(1.0)]).unwrap();
    assert_eq!(stepper.function().graph().outputs().len(), 4);
}

#[test]
fn states_are_taken_put_and_kept_in_files() {
    fn check<B: Backend>(backend: &B) {
        let graph = network();
        let inputs = inputs(&graph, 6, 3);
        let row = |step: usize| [inputs[0].row(step)];
        let stepper = || stepper(&graph, backend, CompileOptions::default(), &inputs);
        let mut first = stepper();
        let begun = first.state().unwrap();
        assert_eq!(begun["h"], inputs[1], "{}", backend.name());
        let outputs: Vec<_> = (0..6).map(|step| first.step_host(&row(step)).unwrap()).collect();

        let path = std::env::temp_dir().join(format!("funcify-{}-{}.safetensors", backend.name(), std::process::id()));
        first.reset();
        assert_eq!(first.state().unwrap(), begun);
        for (step, expected) in outputs.iter().enumerate().take(3) {
            assert_eq!(&first.step_host(&row(step)).unwrap(), expected);
        }
        first.save_state(&path).unwrap();
        let mut second = stepper();
        second.load_state(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut third = stepper();
        third.step_host(&row(5)).unwrap();
        third.set_state(&first.state().unwrap()).unwrap();
        for (step, expected) in outputs.iter().enumerate().skip(3) {
            assert_eq!(&second.step_host(&row(step)).unwrap(), expected, "{}", backend.name());
            assert_eq!(&third.step_host(&row(step)).unwrap(), expected, "{}", backend.name());
        }
        // A stepper that is built from a compiled function has the function's options.
        let function = Function::compile(&graph, backend).unwrap();
        let fixed: Vec<B::Tensor> = inputs[1..].iter().map(|input| backend.upload(input).unwrap()).collect();
        assert_eq!(Stepper::of(&function, &fixed).unwrap().step_host(&row(0)).unwrap(), outputs[0]);
        // States and rows of the wrong size are rejected, and so are missing rows. The current state stays unchanged.
        let state = third.state().unwrap();
        assert!(third.set_state(&[("h".to_string(), numbers(DType::F32, &[3, 31], 1))].into()).is_err());
        assert!(third.step_host(&[numbers(DType::F32, &[3, 25], 1)]).is_err());
        assert!(third.step_host(&[]).unwrap_err().to_string().contains("one row of each of 1 sequences (xs)"));
        assert_eq!(third.state().unwrap(), state);
        assert_eq!(third.step_host(&row(0)).unwrap(), second.step_host(&row(0)).unwrap(), "{}", backend.name());
    }
    on_every_backend!(check);
}

/// Runs streams 0 and 1, and then stream 1 with two new streams. Each stream must have the same results as when it runs
/// alone.
#[test]
fn streams_come_and_go() {
    fn check<B: Backend>(backend: &B) {
        let graph = streams();
        let inputs = inputs(&graph, 1, 2);
        let one = |of: usize, tensor: &HostTensor| {
            let row = tensor.row(of);
            let sizes = [&[1], row.shape()].concat();
            HostTensor::from_vec(row.to_f64_vec(), sizes).unwrap()
        };
        let begin = |of: usize| {
            let [xs, h, a, w, v] = inputs.clone().try_into().unwrap();
            stepper(&graph, backend, CompileOptions::default(), &[xs, one(of, &h), one(of, &a), w, v])
        };
        let mut together = stepper(&graph, backend, CompileOptions::default(), &inputs);
        let mut apart_from_each_other = vec![begin(0), begin(1)];
        let step = |together: &mut Stepper<B>, each: &mut [Stepper<B>], seed: u64| {
            let xs = numbers(DType::F64, &[each.len(), 3], seed);
            let ys = together.step_host(std::slice::from_ref(&xs)).unwrap();
            for (place, stream) in each.iter_mut().enumerate() {
                let y = stream.step_host(&[one(place, &xs)]).unwrap();
                let difference = largest_difference(&one(place, &ys[0]), &y[0]);
                assert!(difference < 1e-14, "{} batch index {place}: {difference}", backend.name());
            }
        };
        (0..3).for_each(|seed| step(&mut together, &mut apart_from_each_other, seed));
        together.streams("B", &[Some(1), None, None]).unwrap();
        // A new stream at batch index 1 starts from the initial state of stream 1. A new stream at index 2, which had
        // no stream before, starts from the initial state of stream 0.
        apart_from_each_other = vec![apart_from_each_other.remove(1), begin(1), begin(0)];
        (3..6).for_each(|seed| step(&mut together, &mut apart_from_each_other, seed));
        together.reset();
        apart_from_each_other.iter_mut().for_each(Stepper::reset);
        step(&mut together, &mut apart_from_each_other, 6);
        assert!(together.streams("B", &[Some(3)]).unwrap_err().to_string().contains("one of 3 streams"));
        assert!(together.streams("T", &[Some(0)]).unwrap_err().to_string().contains("an axis of T streams"));
        together.streams("B", &[]).unwrap();
        assert_eq!(together.step_host(&[numbers(DType::F64, &[0, 3], 1)]).unwrap()[0].shape(), [0, 2]);
        together.streams("B", &[None]).unwrap();
        step(&mut together, &mut [begin(0)], 7);
    }
    on_every_backend!(check);
}

/// The number of bytes that a step may allocate in addition to its results, for tensor objects and lists of tensors.
const TENSOR_OVERHEAD: usize = 3 << 10;

/// Checks that a step needs little memory besides its results, frees the previous states, and does not grow the memory
/// of the stepper.
#[test]
fn a_step_on_tensors_holds_its_results_and_little_else() {
    fn check<B: Backend>(backend: &B) {
        let graph = network();
        let inputs = inputs(&graph, 1, 3);
        let mut stepper = stepper(&graph, backend, CompileOptions::default(), &inputs);
        let row = [backend.upload(&inputs[0].row(0)).unwrap()];
        // Count only the allocations of this thread, because other threads allocate at the same time.
        let counted = [(); 40].map(|()| measure(|| drop(stepper.step(&row).unwrap())));
        let results = 4 * (3 * 32 + 3 * 5);
        let (name, most) = (backend.name(), counted[39].bytes_max);
        println!("{name}: {most} bytes at most in a step, of which results are {results}");
        let grows = counted[4..].iter().filter(|each| each.bytes_current > 0).count();
        assert_eq!(grows, 0, "{}: {counted:?}", backend.name());
        // The memory of the reference evaluator is not checked, because it runs op by op.
        if backend.name() != Reference.name() {
            let is_little = |each: &AllocationInfo| each.bytes_max <= (results + TENSOR_OVERHEAD) as u64;
            assert!(counted[4..].iter().all(is_little), "{}: {counted:?}", backend.name());
        }
    }
    on_every_backend!(check);
}
