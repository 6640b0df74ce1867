//! Benchmarks whole loops and kernels: `cargo bench -p funcify-cpu [-- loops kernels planning dispatch plain avx2]`.
//!
//! Without arguments, the benchmark times loops and kernels with the widest instruction set. `plain` and `avx2` select
//! another instruction set, `planning` times the compilation and planning of programs, and `dispatch` runs a loop for
//! use with a profiler.
//!
//! For each kernel, the benchmark prints the minimum time over many runs. For each loop, it prints the minimum and
//! median wall time, and the minimum CPU time, which is less sensitive to other load on the machine.

mod kernels;

#[allow(unreachable_pub, dead_code, reason = "tests share these files")]
#[path = "../tests/plans/mod.rs"]
mod plans;

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use funcify::dispatch::{Function, WholeRequest};
use funcify::error::{Place, Site};
use funcify::graph::bind_sizes;
use funcify::rewrite::Rewrite;
use funcify::{HostTensor, TensorType};
use funcify_cpu::{Cpu, Division, Engine, Machine};
use plans::{Channels, Sizes, Workload};

/// Measures the wall time of each of `runs` calls. Returns the minimum and the median, in milliseconds.
fn time(mut call: impl FnMut(), runs: usize) -> [f64; 2] {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    [times[0], times[times.len() / 2]]
}

/// Measures the CPU time of this thread in each of `runs` calls. Returns the minimum, in milliseconds.
fn processor_time(mut call: impl FnMut(), runs: usize) -> f64 {
    let once = |_| {
        let start = ThreadTime::now();
        call();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..runs).map(once).fold(f64::INFINITY, f64::min)
}

fn loops(machine: Machine) {
    let rnn = |steps, batch, width, rows, strip| Sizes { steps, batch, width, rows, strip };
    let ssm = Channels { steps: 1024, channels: 256, states: 16, tile: 128, segment: 16 };
    let workloads: Vec<(Workload, usize)> = vec![
        (plans::rnn(rnn(1000, 1, 32, 1, 200)), 2000),
        (plans::rnn_training(rnn(1000, 1, 32, 1, 200)), 1000),
        (plans::rnn(rnn(1000, 32, 128, 16, 10)), 30),
        (plans::rnn_training(rnn(1000, 32, 128, 16, 20)), 20),
        (plans::rnn(rnn(200, 64, 256, 16, 10)), 30),
        (plans::rnn_training(rnn(200, 64, 256, 16, 20)), 20),
        (plans::lstm(rnn(1000, 1, 32, 1, 200)), 1000),
        (plans::lstm(rnn(200, 32, 128, 16, 10)), 30),
        (plans::ssm(ssm), 200),
        (plans::ssm_training(ssm), 100),
        (plans::running_sum(10_000, 256, 256), 200),
        (plans::running_sum(10_000, 256, 128), 200),
        (plans::running_sum_of_one(100_000), 500),
    ];
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    println!("ms per call, f32, {}: processor time and wall time of one thread, wall time of two", machine.name());
    println!("{:<36}{:>8} {:>8} {:>8} {:>8} {:>8}", "", "low", "low", "median", "low", "median");
    for (workload, runs) in workloads {
        let mut ready = workload.ready::<f32>(machine);
        let mut call = || {
            if let Err(error) = ready.call() {
                panic!("{}: {error}", workload.name);
            }
        };
        let processor = one.install(|| processor_time(&mut call, runs));
        let [low, median] = one.install(|| time(&mut call, runs));
        let [low2, median2] = two.install(|| time(&mut call, runs));
        println!("{:<36}{processor:8.3} {low:8.3} {median:8.3} {low2:8.3} {median2:8.3}", workload.name);
    }
}

/// Times the compilation of each program of the conformance suite, and the planning of each rewritten program that
/// contains a loop. Prints the longest times.
fn planning() {
    let (mut in_all, mut planned) = (Vec::new(), Vec::new());
    for case in funcify_conformance::all_cases().unwrap_or_default() {
        let compiled = || {
            let function = Function::compile(&case.graph, &Cpu::default()).ok()?;
            function.call_host(&case.inputs).ok()?;
            Some(function.report().compile_time)
        };
        in_all.extend(shortest(compiled).map(|time| (time, case.name.clone())));
        let rewritten = case.graph.rewritten();
        if !rewritten.nodes().iter().any(|node| !node.op.bodies().is_empty()) {
            continue;
        }
        let types: Vec<TensorType> = case.inputs.iter().map(HostTensor::ty).collect();
        let Ok(sizes) = bind_sizes(&Place::new("planning", Site::caller()), &rewritten, &types) else { continue };
        let whole = WholeRequest {
            graph: &rewritten,
            sizes: &sizes,
            is_program: true,
            memory_budget: u64::MAX,
            may_refuse: true,
        };
        let plan = || {
            let start = Instant::now();
            let engine = Engine::compile(whole, Division::Worthwhile, Machine::detect()).ok();
            let time = start.elapsed();
            engine.map(|_| time)
        };
        planned.extend(shortest(plan).map(|time| (time, case.name)));
    }
    for (what, mut times) in [("make a program", in_all), ("plan a program with loops", planned)] {
        times.sort_by(|(left, _), (right, _)| right.cmp(left));
        let slow = times.iter().filter(|(time, _)| time.as_millis() >= 2).count();
        println!("ms to {what} of the suite, minimum of three; {slow} of {} take 2 ms or more", times.len());
        for (time, name) in times.iter().take(12) {
            println!("{:8.3} {name}", time.as_secs_f64() * 1e3);
        }
    }
}

/// Returns the minimum of three measurements, or `None` if all of them failed.
fn shortest(time: impl Fn() -> Option<Duration>) -> Option<Duration> {
    (0..3).filter_map(|_| time()).min()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let has = |what: &str| words.iter().any(|word| word == what);
    let all = !["loops", "kernels", "planning", "dispatch"].into_iter().any(has);
    let named = Machine::all().into_iter().find(|machine| has(&machine.name().to_lowercase()));
    let machine = named.unwrap_or_else(Machine::detect);
    if all || has("loops") {
        loops(machine);
    }
    if all || has("kernels") {
        kernels::print::<f32>(machine);
        kernels::print::<f64>(machine);
    }
    if has("planning") {
        planning();
    }
    if has("dispatch") {
        kernels::dispatch(machine);
    }
}
