//! How long it takes to plan a program, by its number of ops: `--planning`.
//!
//! Each kind of program grows by doubling. What is timed is a function's first call, without the time of its second: the first plans
//! for the sizes that it is called with. The cost of an op is not the same everywhere: beyond the engine's most instructions a program
//! is planned loop by loop, beyond a routine's without machine code. So an op of the largest program may cost [`ALLOWED`] times what one
//! of the smallest costs. If planning took time in the square of the number of ops, it would cost 64 times as much.

use std::time::{Duration, Instant};

use anyhow::Result;
use funcify::dispatch::Function;
use funcify::{DType, GradOptions, Graph, HostTensor, Scalar, ScanOptions, Value, cond, constant, scan_with, stack};
use funcify_cpu::Cpu;

/// How much more than an op of the smallest program one of the largest may cost.
const ALLOWED: f64 = 4.0;

/// Ops of the smallest program, and of the smallest that is compared: below it a call's own cost shows.
const SMALLEST: usize = 500;

/// Makes a program of some number of ops from its input, `f32[16]`, by closures that each add some.
type Make = fn(Value, usize) -> Value;

/// The programs, by what there is more and more of.
const KINDS: [(&str, Make); 10] = [
    ("ops in a line", |x, ops| line(x, x, ops)),
    ("ops in the body of a loop", |x, ops| looped(x, |h| line(h, x, ops))),
    ("readers of one value", |x, ops| sum((0..ops / 3).map(|index| (x * constants(index)).sin()))),
    ("readers of a state", |x, ops| looped(x, |h| sum((0..ops / 3).map(|index| (h * constants(index)).sin())))),
    ("states", |x, ops| {
        let states: Vec<Value> = (0..ops / 3).map(|index| x * constants(index)).collect();
        let step = |states: Vec<Value>, ()| (states.into_iter().map(|h| (h + x).sin()).collect::<Vec<_>>(), ());
        sum(scan_with(ScanOptions::new().length(STEPS), states, (), step).0.into_iter())
    }),
    ("traces", |x, ops| {
        let step = |h: Value, ()| ((h + 1.0).sin(), (0..ops / 4).map(|index| h * constants(index)).collect::<Vec<_>>());
        let (last, traces) = scan_with(ScanOptions::new().length(STEPS), x, (), step);
        sum(traces.into_iter().map(|trace| trace.sum([0]))) + last
    }),
    ("loops in a row", |x, ops| (0..ops / 5).fold(x, |y, index| looped(y, |h| (h * constants(index) + x).sin()))),
    ("loops in a loop", |x, ops| {
        looped(x, |h| (0..ops / 5).fold(h, |y, index| looped(y, |h| (h * constants(index) + x).sin())))
    }),
    ("choices", |x, ops| {
        (0..ops / 6).fold(x, |y, index| cond(y.sum(..).lt(constants(index)), || y.sin() + constants(index), || y * 0.5))
    }),
    ("products", |x, ops| {
        let weights = stack(&[x; 16], 0) * 0.1;
        looped(x, |h| (0..ops / 3).fold(h, |h, index| (h.matmul(weights) + constants(index)).sin()))
    }),
];

/// The steps of each loop.
const STEPS: usize = 4;

fn constants(index: usize) -> f64 {
    0.5 + index as f64 * 1e-6
}

fn sum(terms: impl Iterator<Item = Value>) -> Value {
    terms.reduce(|sum, term| sum + term).unwrap_or_else(|| constant(0f32))
}

fn line(start: Value, x: Value, ops: usize) -> Value {
    (0..ops / 3).fold(start, |y, index| (y * constants(index) + x).sin())
}

fn looped(start: Value, step: impl FnOnce(Value) -> Value) -> Value {
    scan_with(ScanOptions::new().length(STEPS), start, (), |h, ()| (step(h), ())).0
}

/// Prints a table: a row for each kind of program, or those of these names. False if an op of a large program costs too much.
pub(crate) fn print(is_quick: bool, only: &[String]) -> Result<bool> {
    let sizes: &[usize] = if is_quick { &[1, 4] } else { &[1, 2, 4, 8, 16, 32, 64] };
    let columns: Vec<String> = sizes.iter().map(|size| format!("{} ops", size * SMALLEST)).collect();
    println!("| planning, µs an op: a program of more and more | {} | | |", columns.join(" | "));
    println!("|---|{}--:|---|", "--:|".repeat(sizes.len()));
    let mut is_met = true;
    let is_asked = |kind: &str| only.is_empty() || only.iter().any(|name| kind.contains(name.as_str()));
    for (kind, make) in KINDS.into_iter().filter(|(kind, _)| is_asked(kind)) {
        for is_gradient in [false, true] {
            let mut costs = Vec::new();
            for size in sizes {
                costs.push(cost(make, size * SMALLEST, is_gradient, if is_quick { 2 } else { 4 })?);
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

/// Microseconds an op, the lowest of some.
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
        let function = Function::compile(&graph, &Cpu::default())?;
        let call = || {
            let start = Instant::now();
            function.call_host(std::slice::from_ref(&input)).map(|_| start.elapsed())
        };
        let (first, second) = (call()?, call()?);
        low = low.min(first.saturating_sub(second));
    }
    Ok(low.as_secs_f64() * 1e6 / ops as f64)
}
