//! Times of whole loops and of kernels.

#[path = "../tests/plans/mod.rs"]
mod plans;

use std::time::Instant;

use funcify_cpu::Machine;
use plans::{Sizes, Workload};

/// Low and median of many runs, in milliseconds.
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

fn main() {
    let rnn = |steps, batch, width, rows, strip| Sizes { steps, batch, width, rows, strip };
    let workloads: Vec<(Workload, usize)> = vec![
        (plans::rnn(rnn(1000, 1, 32, 1, 200)), 2000),
        (plans::rnn_training(rnn(1000, 1, 32, 1, 200)), 1000),
        (plans::rnn(rnn(1000, 32, 128, 16, 10)), 30),
        (plans::rnn_training(rnn(1000, 32, 128, 16, 20)), 20),
        (plans::rnn(rnn(200, 64, 256, 16, 10)), 30),
        (plans::rnn_training(rnn(200, 64, 256, 16, 20)), 20),
        (plans::lstm(rnn(1000, 1, 32, 1, 200)), 1000),
        (plans::lstm(rnn(200, 32, 128, 16, 10)), 30),
        (plans::ssm(1024, 256, 16, 128), 200),
        (plans::running_sum(10_000, 256, 256), 200),
        (plans::running_sum(10_000, 256, 128), 200),
        (plans::running_sum_of_one(100_000), 500),
    ];
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let machine = Machine::detect();
    println!("{}", machine.name());
    for (workload, runs) in workloads {
        let mut ready = workload.ready::<f32>(machine);
        let [low, median] = one.install(|| time(|| ready.call().unwrap(), runs));
        let [low2, median2] = two.install(|| time(|| ready.call().unwrap(), runs));
        println!("{:<36} {low:8.3} {median:8.3}   {low2:8.3} {median2:8.3}", workload.name);
    }
}
