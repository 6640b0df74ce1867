//! Measures how planning time grows with the number of ops: `--planning`.
//!
//! The benchmark repeatedly doubles the size of each kind of program. The planning time is the time of
//! `Function::compile` and the first call, minus the time of the second call. Compilation and the first call both
//! count, because a program of known sizes is planned when it is compiled, and any other program when it is first
//! called with new sizes. The time per op is not constant: a program that exceeds the engine's instruction limit is
//! planned loop by loop, and a routine that exceeds another limit is not compiled to machine code. Therefore, the time
//! per op in the largest program may be up to [`ALLOWED`] times that in the smallest one. If planning took quadratic
//! time, this ratio would be 64.

use std::time::{Duration, Instant};

use anyhow::Result;
use funcify::dispatch::Function;
use funcify::{DType, GradOptions, Graph, HostTensor, Scalar, ScanOptions, Value, cond, constant, scan_with, stack};
use funcify_cpu::Cpu;

/// The maximum allowed ratio of the planning time per op in the largest program to that in the smallest one.
const ALLOWED: f64 = 4.0;

/// The number of ops of the smallest program. In smaller programs, the time of the call itself would dominate.
const SMALLEST_OPS: usize = 500;

/// A function that builds a program with about the given number of ops from an input of type `f32[16]`.
type Make = fn(Value, usize) -> Value;

/// The kinds of programs, named after the part that grows.
const KINDS: [(&str, Make); 10] = [
    ("ops in a line", |x, ops| op_chain(x, x, ops)),
    ("ops in the body of a loop", |x, ops| in_loop(x, |h| op_chain(h, x, ops))),
    ("readers of one value", |x, ops| sum((0..ops / 3).map(|index| (x * factor(index)).sin()))),
    ("readers of a state", |x, ops| in_loop(x, |h| sum((0..ops / 3).map(|index| (h * factor(index)).sin())))),
    ("states", |x, ops| {
        let states: Vec<Value> = (0..ops / 3).map(|index| x * factor(index)).collect();
        let step = |states: Vec<Value>, ()| (states.into_iter().map(|h| (h + x).sin()).collect::<Vec<_>>(), ());
        sum(scan_with(ScanOptions::new().length(STEPS), states, (), step).0.into_iter())
    }),
    ("traces", |x, ops| {
        let step = |h: Value, ()| ((h + 1.0).sin(), (0..ops / 4).map(|index| h * factor(index)).collect::<Vec<_>>());
        let (last, traces) = scan_with(ScanOptions::new().length(STEPS), x, (), step);
        sum(traces.into_iter().map(|trace| trace.sum([0]))) + last
    }),
    ("loops in a row", |x, ops| (0..ops / 5).fold(x, |y, index| in_loop(y, |h| (h * factor(index) + x).sin()))),
    ("loops in a loop", |x, ops| {
        in_loop(x, |h| (0..ops / 5).fold(h, |y, index| in_loop(y, |h| (h * factor(index) + x).sin())))
    }),
    ("choices", |x, ops| {
        (0..ops / 6).fold(x, |y, index| cond(y.sum(..).lt(factor(index)), || y.sin() + factor(index), || y * 0.5))
    }),
    ("products", |x, ops| {
        let weights = stack(&[x; 16], 0) * 0.1;
        in_loop(x, |h| (0..ops / 3).fold(h, |h, index| (h.matmul(weights) + factor(index)).sin()))
    }),
];

/// The number of steps of each loop.
const STEPS: usize = 4;

fn factor(index: usize) -> f64 {
    0.5 + index as f64 * 1e-6
}

fn sum(terms: impl Iterator<Item = Value>) -> Value {
    terms.reduce(|sum, term| sum + term).unwrap_or_else(|| constant(0f32))
}

fn op_chain(start: Value, x: Value, ops: usize) -> Value {
    (0..ops / 3).fold(start, |y, index| (y * factor(index) + x).sin())
}

fn in_loop(start: Value, step: impl FnOnce(Value) -> Value) -> Value {
    scan_with(ScanOptions::new().length(STEPS), start, (), |h, ()| (step(h), ())).0
}

/// Prints a table with a row for each kind of program, or only for those in `only`. Returns `false` if planning time
/// grows too fast.
pub(crate) fn print(is_quick: bool, only: &[String]) -> Result<bool> {
    let sizes: &[usize] = if is_quick { &[1, 4] } else { &[1, 2, 4, 8, 16, 32, 64] };
    let columns: Vec<String> = sizes.iter().map(|size| format!("{} ops", size * SMALLEST_OPS)).collect();
    println!("| planning, µs per op; the program grows by | {} | | |", columns.join(" | "));
    println!("|---|{}--:|---|", "--:|".repeat(sizes.len()));
    let mut is_met = true;
    let is_asked = |kind: &str| only.is_empty() || only.iter().any(|name| kind.contains(name.as_str()));
    for (kind, make) in KINDS.into_iter().filter(|(kind, _)| is_asked(kind)) {
        for is_gradient in [false, true] {
            let mut costs = Vec::new();
            for size in sizes {
                costs.push(cost(make, size * SMALLEST_OPS, is_gradient, if is_quick { 2 } else { 4 })?);
            }
            let growth = costs[costs.len() - 1] / costs[0];
            is_met &= growth <= ALLOWED;
            let cells: Vec<String> = costs.iter().map(|cost| format!("{cost:.2}")).collect();
            let of = if is_gradient { ", gradient" } else { "" };
            let verdict = if growth <= ALLOWED { "" } else { "grows" };
            println!("| {kind}{of} | {} | {growth:.2} | {verdict} |", cells.join(" | "));
        }
    }
    Ok(is_met)
}

/// Returns the planning time per op, in microseconds: the lowest of `turns` measurements.
fn cost(make: Make, ops: usize, is_gradient: bool, turns: usize) -> Result<f64> {
    let mut graph = Graph::build("planned", |g| make(g.input("x", "f32[16]"), ops).sum(..))?;
    if is_gradient {
        graph = graph.grad("x", GradOptions::new())?;
    }
    let mut index = 0.0f64;
    let input = HostTensor::from_fn(DType::F32, &[16], |_| {
        index += 1.0;
        Scalar::Float(0.1 * index.sin())
    });
    let mut low = Duration::MAX;
    for _ in 0..turns {
        let start = Instant::now();
        let function = Function::compile(&graph, &Cpu::default())?;
        function.call_host(std::slice::from_ref(&input))?;
        let first = start.elapsed();
        let start = Instant::now();
        function.call_host(std::slice::from_ref(&input))?;
        low = low.min(first.saturating_sub(start.elapsed()));
    }
    Ok(low.as_secs_f64() * 1e6 / ops as f64)
}
