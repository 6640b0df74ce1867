//! Measures how long a cancelled call takes to return: `cargo xtask bench --cancel [--quick]`.
//!
//! A second thread cancels each program after various delays, so that the cancellations hit different parts of the
//! program. A call must return within 100 ms plus the time of one instruction. For a loop that runs op by op, one
//! instruction means a whole step, whose time is listed in a separate column.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use burn::tensor::Tensor as BurnTensor;
use candle_core::{DType as CandleDType, Device as CandleDevice, Tensor as CandleTensor, Var};
use clap::Parser;
use funcify::dispatch::{Backend, CompileOptions, Function, LoopStrategy, Reference};
use funcify::{Cancellation, DType, GradOptions, Graph, HostTensor, Scalar, ScanOptions, Value, scan_with};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_cpu::Cpu;

/// A function that computes the next state of a loop from the current state and a captured value.
type StepOf = fn(Value, Value) -> Value;

/// The maximum time that a cancelled call may take to return, in addition to the time of one instruction.
const ALLOWED: Duration = Duration::from_millis(100);

/// A function that runs the program to be cancelled.
type Run = Box<dyn FnMut() -> Result<()>>;

/// A function that builds a program of a given size.
type Make<'a> = &'a dyn Fn(Size) -> Result<Run>;

/// The size of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// A single step, to measure how long an uninterruptible step takes.
    Step,
    /// Enough steps to run for several seconds.
    Large,
}

impl Size {
    /// Returns the number of steps for this size: 1 for `Step`, and `steps` for `Large`.
    fn of(self, steps: usize) -> usize {
        if self == Size::Step { 1 } else { steps }
    }
}

/// Prints a row for each program and backend. Fails if a cancelled call takes longer than 100 ms plus the time of one
/// step to return.
#[derive(Parser)]
#[command(name = "cargo xtask bench --cancel", about = "Measures how long cancelled calls take to return")]
struct Arguments {
    /// Cancel each program only once.
    #[arg(long)]
    quick: bool,
    /// Run only rows whose program or backend name contains this text.
    #[arg(long)]
    only: Option<String>,
}

fn main() -> ExitCode {
    match print(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a table with a row for each program and backend. Returns `false` if a call took too long to return, or if no
/// call of a row was cancelled before it ended.
fn print(arguments: &Arguments) -> Result<bool> {
    let after: &[u64] = if arguments.quick { &[150] } else { &[10, 50, 150, 400, 1000, 2500] };
    println!("| program | backend | cancelled | step | returned within | |");
    println!("|---|---|--:|--:|--:|---|");
    let mut table = Table { after, only: arguments.only.as_deref(), is_met: true };
    // Burn's backward pass reports a cancellation by panicking. The panic message must not appear in the middle of the
    // table.
    std::panic::set_hook(Box::new(|_| {}));
    on_backend(&mut table, &Reference)?;
    on_backend(&mut table, &Cpu::default())?;
    on_backend(&mut table, &Candle::cpu())?;
    on_backend(&mut table, &Burn::flex())?;
    on_backend(&mut table, &Burn::ndarray())?;
    match Burn::wgpu() {
        Ok(wgpu) => on_backend(&mut table, &wgpu)?,
        Err(reason) => eprintln!("burn-wgpu is skipped: {reason}"),
    }
    table.row("differentiating a large program", "core", false, &|size| {
        let graph = program_without_loops(size.of(40_000))?;
        Ok(Box::new(move || Ok(graph.grad("x", GradOptions::new()).map(drop)?)))
    })?;
    table.row("a loop over a closure", "candle", true, &candle_closure)?;
    table.row("its backward pass", "candle", true, &candle_backward)?;
    let devices = [("burn-flex", Burn::flex()), ("burn-ndarray", Burn::ndarray())];
    for (name, burn) in &devices {
        table.row("a loop over a closure", name, true, &|size| burn_closure(burn, size))?;
        table.row("its backward pass", name, true, &|size| burn_backward(burn, size))?;
    }
    Ok(table.is_met)
}

struct Table<'a> {
    /// The delays before cancellation, in milliseconds.
    after: &'a [u64],
    /// The filter, if any: only rows whose program or backend name contains this text are measured.
    only: Option<&'a str>,
    /// `true` if every cancelled call returned in time, and each row has at least one cancelled call.
    is_met: bool,
}

impl Table<'_> {
    /// Cancels a program after each delay, and prints a row. `has_steps` is `true` if the program runs in
    /// uninterruptible steps. In that case, a cancelled call may take one step longer to return.
    fn row(&mut self, program: &str, backend: &str, has_steps: bool, make: Make<'_>) -> Result<()> {
        if self.only.is_some_and(|only| !format!("{program}, {backend}").contains(only)) {
            return Ok(());
        }
        let step = if has_steps { duration(make)? } else { Duration::ZERO };
        let (mut cancelled, mut longest) = (0, Duration::ZERO);
        for after in self.after {
            // Wait until the memory of the previous call is freed.
            std::thread::sleep(Duration::from_millis(300));
            if let Some(delay) = delay_after_cancellation(make(Size::Large)?, Duration::from_millis(*after))? {
                cancelled += 1;
                longest = longest.max(delay);
            }
        }
        let is_met = longest <= ALLOWED + step;
        self.is_met &= is_met && cancelled > 0;
        let verdict = match (cancelled, is_met) {
            (0, _) => "ended before it was cancelled",
            (_, true) => "",
            (_, false) => "too long",
        };
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let of = self.after.len();
        println!("| {program} | {backend} | {cancelled} of {of} | {} | {} | {verdict} |", ms(step), ms(longest));
        Ok(())
    }
}

/// Returns the running time of a one-step program, as the lowest of three measurements.
fn duration(make: Make<'_>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let mut run = make(Size::Step)?;
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

/// Returns the time from the cancellation of a call to its return, or `None` if the call ended before it was
/// cancelled.
fn delay_after_cancellation(mut run: Run, after: Duration) -> Result<Option<Duration>> {
    let handle = Cancellation::new();
    let (ended, has_ended) = mpsc::channel::<()>();
    std::thread::scope(|threads| {
        let setting = &handle;
        let canceller = threads.spawn(move || match has_ended.recv_timeout(after) {
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let at = Instant::now();
                setting.cancel();
                Some(at)
            }
            _ => None,
        });
        // Catch panics, because Burn's own ops panic if the call is cancelled.
        let outcome = handle.scope(|| catch_unwind(AssertUnwindSafe(&mut run)));
        let end = Instant::now();
        drop(ended);
        let at = canceller.join().map_err(|_| anyhow!("the cancelling thread panicked"))?;
        let text = match outcome {
            Ok(Ok(())) => return Ok(None),
            Ok(Err(error)) => format!("{error:#}"),
            Err(panic) => match panic.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => panic.downcast_ref::<&str>().map_or("a panic without a message", |text| *text).to_string(),
            },
        };
        match at {
            Some(at) if text.contains("cancelled") => Ok(Some(end.saturating_duration_since(at))),
            _ => bail!("the call failed for another reason than cancellation: {text}"),
        }
    })
}

/// Prints the rows of one backend, for the programs that run on every backend.
fn on_backend<B: Backend>(table: &mut Table<'_>, backend: &B) -> Result<()> {
    let name = backend.name();
    for (kind, strategy, steps) in [
        ("native", LoopStrategy::Native, 200_000),
        ("unrolled", LoopStrategy::Unroll, 100_000),
        ("compiled", LoopStrategy::Auto, 1_000_000),
    ] {
        let loops: [(&str, usize, StepOf); 2] =
            [("products", 192, |h, w| h.matmul(w).tanh()), ("elements", 1000, |h, w| (h * w + 0.1).tanh())];
        for (of, width, step) in loops {
            table.row(&format!("a loop of {of}, {kind}"), name, true, &|size| {
                compiled_call(backend, &matrix_loop(size.of(steps), width, step)?, strategy, &[width, width])
            })?;
        }
    }
    for (kind, strategy) in
        [("native", LoopStrategy::Native), ("unrolled", LoopStrategy::Unroll), ("compiled", LoopStrategy::Auto)]
    {
        table.row(&format!("a loop with gigabytes of traces, {kind}"), name, true, &|size| {
            compiled_call(backend, &stacking_loop(size.of(20_000))?, strategy, &[192, 192])
        })?;
    }
    table.row("a loop of a number, compiled", name, false, &|size| {
        compiled_call(backend, &scalar_loop(size.of(1 << 36))?, LoopStrategy::Auto, &[])
    })?;
    table.row("the gradient of a loop", name, true, &|size| {
        let graph = matrix_loop(size.of(4000), 192, |h, w| h.matmul(w).tanh())?;
        let loss = Graph::build("loss", |g| {
            graph.apply(&[g.input("h", graph.input_type(0)), g.input("w", graph.input_type(1))])[0].sum(..)
        })?;
        let options = CompileOptions::default().grad_options(backend, None);
        compiled_call(backend, &loss.grad("w", options)?, LoopStrategy::Auto, &[192, 192])
    })?;
    table.row("planning a large program", name, false, &|size| {
        let (graph, backend) = (program_without_loops(size.of(20_000))?, backend.clone());
        Ok(Box::new(move || {
            let function = Function::compile(&graph, &backend)?;
            Ok(function.call_host(&[numbers(&[16])]).map(drop)?)
        }))
    })
}

/// Compiles a graph whose inputs all have the same shape, and returns a closure that calls it.
fn compiled_call<B: Backend>(backend: &B, graph: &Graph, strategy: LoopStrategy, shape: &[usize]) -> Result<Run> {
    let options = CompileOptions { strategy, ..CompileOptions::default() };
    let function = Function::compile_with(graph, backend, options)?;
    let inputs = vec![numbers(shape); graph.inputs().len()];
    Ok(Box::new(move || Ok(function.call_host(&inputs).map(drop)?)))
}

fn numbers(shape: &[usize]) -> HostTensor {
    let mut index = 0.0f64;
    HostTensor::from_fn(DType::F32, shape, |_| {
        index += 1.0;
        Scalar::Float(0.05 * (index * 0.7).sin())
    })
}

/// Builds a loop of `steps` steps over a state of shape `[width, width]`, with a weight of the same shape.
fn matrix_loop(steps: usize, width: usize, step: fn(Value, Value) -> Value) -> Result<Graph> {
    Ok(Graph::build("repeated", |g| {
        let [h, w] = ["h", "w"].map(|name| g.input(name, funcify::TensorType::new(DType::F32, [width, width])));
        scan_with(ScanOptions::new().length(steps), h, (), |h, ()| (step(h, w), ())).0
    })?)
}

/// Builds a loop of `steps` steps that stacks its states of shape `[192, 192]`.
fn stacking_loop(steps: usize) -> Result<Graph> {
    Ok(Graph::build("traced", |g| {
        let [h, w] = ["h", "w"].map(|name| g.input(name, "f32[192,192]"));
        scan_with(ScanOptions::new().length(steps), h, (), |h, ()| (h * w + 0.1, h)).1
    })?)
}

/// Builds a loop of `steps` steps over a scalar.
fn scalar_loop(steps: usize) -> Result<Graph> {
    Ok(Graph::build("number", |g| {
        scan_with(ScanOptions::new().length(steps), g.input("h", "f32[]"), (), |h, ()| (h * 0.99 + 0.1, ())).0
    })?)
}

/// Builds a program of `ops` distinct ops, without loops.
fn program_without_loops(ops: usize) -> Result<Graph> {
    Ok(Graph::build("straight", |g| {
        let x = g.input("x", "f32[16]");
        (0..ops / 4).fold(x, |y, index| (y * (index as f64 * 1e-6) + x).sin()).sum(..)
    })?)
}

const WIDTH: usize = 192;

fn candle_inputs(steps: usize) -> Result<(Var, CandleTensor, CandleTensor)> {
    let device = CandleDevice::Cpu;
    let weights = Var::from_tensor(&CandleTensor::randn(0f32, 0.05, (WIDTH, WIDTH), &device)?)?;
    let start = CandleTensor::zeros((WIDTH, WIDTH), CandleDType::F32, &device)?;
    Ok((weights, start, CandleTensor::zeros((steps, 1, WIDTH), CandleDType::F32, &device)?))
}

fn candle_scan(weights: &Var, start: &CandleTensor, xs: &CandleTensor) -> candle_core::Result<CandleTensor> {
    let weights = weights.as_tensor().clone();
    let (last, ()) = funcify_candle::scan(start, xs, move |h: CandleTensor, x: CandleTensor| {
        Ok((h.matmul(&weights)?.broadcast_add(&x)?.tanh()?, ()))
    })?;
    last.sum_all()
}

fn candle_closure(size: Size) -> Result<Run> {
    let (weights, start, xs) = candle_inputs(size.of(50_000))?;
    Ok(Box::new(move || Ok(candle_scan(&weights, &start, &xs).map(drop)?)))
}

fn candle_backward(size: Size) -> Result<Run> {
    let (weights, start, xs) = candle_inputs(size.of(3000))?;
    let loss = candle_scan(&weights, &start, &xs)?;
    Ok(Box::new(move || Ok(loss.backward().map(drop)?)))
}

fn burn_loss(burn: &Burn, steps: usize) -> Result<BurnTensor<1>> {
    let device = burn.device().clone().autodiff();
    let weights = BurnTensor::<2>::full([WIDTH, WIDTH], 0.01, &device).require_grad();
    let start = BurnTensor::<2>::zeros([WIDTH, WIDTH], &device);
    let xs = BurnTensor::<3>::zeros([steps, 1, WIDTH], &device);
    let (last, ()) = funcify_burn::scan(weights, start, xs, |weights, h, x| ((h.matmul(weights) + x).tanh(), ()))?;
    Ok(last.sum())
}

fn burn_closure(burn: &Burn, size: Size) -> Result<Run> {
    let (burn, steps) = (burn.clone(), size.of(20_000));
    Ok(Box::new(move || burn_loss(&burn, steps).map(drop)))
}

fn burn_backward(burn: &Burn, size: Size) -> Result<Run> {
    let loss = burn_loss(burn, size.of(5000))?;
    Ok(Box::new(move || {
        loss.clone().backward();
        Ok(())
    }))
}
