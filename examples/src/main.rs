//! Examples of funcify on every backend: `cargo xtask examples [NAME ..] [--backend NAME] [--quick] [--compare]`.
//!
//! Each example prints its results and checks them. [`graphs`] contains small programs for any backend. [`models`]
//! contains models that are trained in Candle and in Burn, with funcify's loop in place of the framework's own.

mod burn;
mod candle;
mod graphs;
mod models;
mod training;

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use funcify::dispatch::{Executor, backend_names, open_backend};
use peak_alloc::PeakAlloc;

use crate::graphs::{chunked_loss, clamp_invalid, derivatives, early_stopping, rnn, s5, shape_dependent};
use crate::models::{adding, burn_model, characters, clamping, large_vocabulary, neural_ode, nile};
use crate::training::Comparison;

/// The global allocator, which counts the bytes that `--compare` reports.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[derive(Parser)]
#[command(name = "cargo xtask examples", about = "Runs examples of funcify on every backend")]
struct Arguments {
    /// The names of the examples to run. By default, all examples run.
    names: Vec<String>,
    /// The backends to use: reference, candle, burn-flex, burn-ndarray or burn-wgpu. By default, all available ones are
    /// used.
    #[arg(long)]
    backend: Vec<String>,
    /// Use small settings. All examples then run on all backends in a few minutes.
    #[arg(long)]
    quick: bool,
    /// Do not train. Instead, measure a training step with funcify's loop and with the framework's own.
    #[arg(long)]
    compare: bool,
}

/// An example: its name, its description, and its kind.
type Example = (&'static str, &'static str, Kind);

enum Kind {
    /// A graph for any backend.
    Graph(fn(&dyn Executor) -> Result<()>),
    /// A model for Candle and for Burn.
    Model(fn(&Run) -> Result<()>),
    /// A model for Burn only.
    BurnModel(fn(&::burn::tensor::Device) -> Result<()>),
}

use Kind::{BurnModel, Graph, Model};

const EXAMPLES: &[Example] = &[
    ("derivatives", "gradients through loops, second-order, per lane, and as text", Graph(derivatives::show)),
    ("rnn", "one scan for sequences of any length", Graph(rnn::show)),
    ("s5", "a state space layer as a scan, and as an associative scan", Graph(s5::show)),
    ("early_stopping", "greedy decoding that stops at the end token", Graph(early_stopping::show)),
    (
        "shape_dependent",
        "a branch on a size: attention masks a prompt but not a single token",
        Graph(shape_dependent::show),
    ),
    ("chunked_loss", "cross-entropy whose logits never exist at once, and its memory", Graph(chunked_loss::show)),
    ("clamp_invalid", "clamps values that overflowed and leaves others alone", Graph(clamp_invalid::show)),
    ("burn_model", "a Burn module whose loop is replaced by one line", BurnModel(burn_model::run)),
    (
        "characters",
        "an LSTM trained on sums answers new ones, letter by letter to the end of the line",
        Model(characters::run),
    ),
    ("adding", "S5 remembers two marked numbers among a thousand, and adds them", Model(adding::run)),
    ("nile", "a Kalman filter fitted to a century of floods by the gradient of its likelihood", Model(nile::run)),
    (
        "large_vocabulary",
        "a language model whose logits never exist at once, and the memory of its training",
        Model(large_vocabulary::run),
    ),
    ("neural_ode", "a vector field learnt from a spiral, through a Runge-Kutta loop", Model(neural_ode::run)),
    (
        "clamping",
        "a fit that survives overflowing readings: only the taken branch runs, also backward",
        Model(clamping::run),
    ),
];

/// A framework that trains models, and the device on which it trains them.
pub(crate) enum Framework {
    Candle(candle_core::Device),
    Burn(::burn::tensor::Device),
}

/// The settings for running a model example, and the comparisons measured so far.
pub(crate) struct Run {
    framework: Framework,
    quick: bool,
    compare: bool,
    comparisons: RefCell<Vec<Comparison>>,
}

impl Run {
    fn new(framework: Framework, arguments: &Arguments) -> Self {
        let (quick, compare) = (arguments.quick, arguments.compare);
        Run { framework, quick, compare, comparisons: RefCell::default() }
    }

    /// Returns `quick` in a quick run, and `full` otherwise.
    fn quick_or_full<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Returns `true` if tensors are in host memory. Memory is measured only in that case, because the counting
    /// allocator sees only host allocations.
    fn is_on_host(&self) -> bool {
        match &self.framework {
            Framework::Candle(device) => device.is_cpu(),
            Framework::Burn(device) => device.memory_pool_usage().is_none(),
        }
    }
}

fn main() -> ExitCode {
    // This thread needs a large stack: for a handwritten loop, the depth of the recorded graph grows with the length of
    // the sequence, and Candle frees that graph recursively.
    let all = std::thread::Builder::new().stack_size(1 << 30).spawn(|| examples(&Arguments::parse()));
    match all.map(|thread| thread.join()) {
        Ok(Ok(Ok(true))) => ExitCode::SUCCESS,
        Ok(Ok(Ok(false))) => ExitCode::FAILURE,
        Ok(Ok(Err(error))) => failure(&format!("{error:#}")),
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => failure(&error.to_string()),
    }
}

fn failure(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::FAILURE
}

/// Runs the requested examples. Returns `false` if one failed.
fn examples(arguments: &Arguments) -> Result<bool> {
    let exists = |name: &String| EXAMPLES.iter().any(|(own, ..)| own == name);
    if let Some(name) = arguments.names.iter().find(|name| !exists(name)) {
        let names: Vec<&str> = EXAMPLES.iter().map(|(name, ..)| *name).collect();
        return Err(anyhow!("there is no example `{name}`; available: {}", names.join(", ")));
    }
    let is_named = |(own, ..): &&Example| arguments.names.is_empty() || arguments.names.iter().any(|name| name == own);
    let backends = backends(&arguments.backend)?;
    let (mut failures, mut comparisons) = (Vec::new(), Vec::new());
    for (name, shows, run) in EXAMPLES.iter().filter(is_named) {
        println!("\n# {name}: {shows}");
        for (backend, executor) in &backends {
            let (start, begin) = (Instant::now(), || println!("on {backend}"));
            let outcome = match (run, framework(backend)?) {
                (Graph(show), _) if !arguments.compare => {
                    begin();
                    show(&**executor)
                }
                (Model(run), Some(framework)) => {
                    begin();
                    let how = Run::new(framework, arguments);
                    let outcome = run(&how);
                    comparisons.extend(how.comparisons.take().into_iter().map(|row| (*name, backend, row)));
                    outcome
                }
                (BurnModel(run), Some(Framework::Burn(device))) if !arguments.compare => {
                    begin();
                    run(&device)
                }
                _ => continue,
            };
            match outcome {
                Ok(()) => println!("  passed in {:.1} s", start.elapsed().as_secs_f64()),
                Err(error) => {
                    println!("  FAILED: {error:#}");
                    failures.push(format!("{name} on {backend}"));
                }
            }
        }
    }
    if !comparisons.is_empty() {
        println!("\n{}", training::table(&comparisons));
    }
    match failures.len() {
        0 => println!("\nall examples passed"),
        _ => println!("\nfailed: {}", failures.join(", ")),
    }
    Ok(failures.is_empty())
}

/// Opens the named backends, or all available ones.
fn backends(named: &[String]) -> Result<Vec<(String, std::sync::Arc<dyn Executor>)>> {
    let mut opened = Vec::new();
    for name in backend_names() {
        if !named.is_empty() && !named.iter().any(|other| other == name) {
            continue;
        }
        match open_backend(name) {
            Ok(executor) => opened.push((name.to_string(), executor)),
            Err(absent @ funcify::Error::Unavailable { .. }) if named.is_empty() => println!("{absent}"),
            Err(error) => return Err(error).with_context(|| format!("the backend `{name}`")),
        }
    }
    match named.iter().find(|name| !opened.iter().any(|(opened, _)| opened == *name)) {
        Some(name) => Err(anyhow!("there is no backend `{name}`; available: {}", backend_names().join(", "))),
        None => Ok(opened),
    }
}

/// Returns the framework of a backend, or `None` if the backend cannot train models.
fn framework(backend: &str) -> Result<Option<Framework>> {
    let burn = match backend {
        "candle" => return Ok(Some(Framework::Candle(candle_core::Device::Cpu))),
        "burn-flex" => funcify_burn::Burn::flex(),
        "burn-ndarray" => funcify_burn::Burn::ndarray(),
        "burn-wgpu" => funcify_burn::Burn::wgpu()?,
        _ => return Ok(None),
    };
    Ok(Some(Framework::Burn(burn.device().clone())))
}
