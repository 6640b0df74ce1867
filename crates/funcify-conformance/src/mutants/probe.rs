//! Checks how the parser and the reference backend handle a mutated text.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use funcify::derivative::Wrt;
use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::memory::set_memory_budget;
use funcify::prelude::*;
use funcify::rewrite::{RULES, RewriteOptions};
use funcify::{Cancellation, CheckpointPolicy, Disconnected, Sizes, VmapOptions, to_dot};

use super::count_ops;
use crate::arbitrary::{arguments, splitmix64};
use crate::runner::MODES;

/// The last stage that a text reached. The variants are in the order of the stages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reached {
    /// The text does not parse, or a type rule rejects it.
    Refused,
    /// The text parses, but `Graph::check` rejects the program.
    Unsound,
    /// The program is sound, but did not run because its arguments would be too large.
    Checked,
    /// The reference evaluator rejected the program, or exceeded the time limit.
    Stopped,
    /// The program ran to the end.
    Ran,
}

/// The memory budget of a run, in bytes.
pub const MEMORY_BUDGET: u64 = 64 << 20;

/// The time limit of a run.
const TIME_LIMIT: Duration = Duration::from_millis(100);

/// The maximum number of ops up to which a program is also differentiated and batched.
const MAX_OPS: usize = 150;

/// The maximum total number of elements in the arguments of a program.
const MAX_ELEMENTS: usize = 1 << 14;

/// The message and location of the last panic.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Sets the memory budget of the process, and installs a hook that records panics instead of printing them.
pub fn set_up() {
    set_memory_budget(MEMORY_BUDGET);
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut panic) = PANIC.lock() {
            *panic = info.to_string();
        }
    }));
}

/// Runs all checks on a text. Returns the stage that the text reached, or a description of the failure.
pub fn probe(text: &str, seed: u64) -> Result<Reached, String> {
    catch_unwind(AssertUnwindSafe(|| examine(text, seed))).unwrap_or_else(|_| {
        let panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Err(format!("panic: {panic}"))
    })
}

fn examine(text: &str, seed: u64) -> Result<Reached, String> {
    let graph = match Graph::parse(text) {
        Ok(graph) => graph,
        Err(error) => return check_parse_error(&error).map(|()| Reached::Refused),
    };
    let printed = graph.to_string();
    if let Err(errors) = graph.check() {
        errors.iter().try_for_each(|error| check_message("check", error))?;
        return Ok(Reached::Unsound);
    }
    check_round_trip(&graph, &printed)?;
    let _ = to_dot(&graph);

    let Some(inputs) = small_arguments(&graph, seed) else { return Ok(Reached::Checked) };
    let reached = check_runs(&graph, &inputs)?;
    if count_ops(&graph) <= MAX_OPS {
        check_transforms(&graph, seed)?;
    }
    Ok(reached)
}

/// Checks that a parse error has a message that names a line.
fn check_parse_error(error: &Error) -> Result<(), String> {
    check_message("parse", error)?;
    let shown = error.to_string();
    if !shown.contains("line ") {
        return Err(format!("the error names no line: {shown}"));
    }
    Ok(())
}

fn check_message(step: &str, error: &Error) -> Result<(), String> {
    let shown = error.to_string();
    if shown.trim().is_empty() || shown.len() > 100_000 {
        return Err(format!("{step}: an error of {} characters", shown.len()));
    }
    Ok(())
}

/// Checks that the printed text parses to the same graph, and that the parsed graph prints as the same text.
fn check_round_trip(graph: &Graph, printed: &str) -> Result<(), String> {
    let parsed =
        Graph::parse(printed).map_err(|error| format!("the printed program does not parse: {error}\n{printed}"))?;
    if let Some(difference) = graph.difference(&parsed) {
        return Err(format!("the printed program differs: {difference}\n{printed}"));
    }
    let again = parsed.to_string();
    if again != printed { Err(format!("printed again, it differs:\n{printed}\n{again}")) } else { Ok(()) }
}

/// Returns arguments for the program, with sizes below 5 for its symbols, or `None` if the arguments would be too
/// large.
fn small_arguments(graph: &Graph, seed: u64) -> Option<Vec<HostTensor>> {
    let types: Vec<_> = (0..graph.inputs().len()).map(|index| graph.input_type(index).clone()).collect();
    let mut sizes = Sizes::new();
    let symbols = types.iter().flat_map(|ty| ty.shape.dims()).flat_map(|dim| dim.symbols());
    for (index, symbol) in symbols.enumerate() {
        if sizes.get(symbol).is_none() {
            sizes.set(symbol, (splitmix64(seed.wrapping_add(index as u64)) % 5) as usize);
        }
    }
    let mut elements = 0usize;
    for ty in &types {
        let shape = ty.shape.value(&sizes).ok()?;
        elements = elements
            .checked_add(shape.iter().try_fold(1usize, |product, size| product.checked_mul((*size).max(1)))?)?;
    }
    if elements > MAX_ELEMENTS {
        return None;
    }
    arguments(&types, &sizes, seed).ok()
}

fn is_stopped(error: &Error) -> bool {
    matches!(error, Error::Cancelled { .. })
}

/// Runs the program with the reference evaluator, and on the reference backend with both loop strategies. Compares the
/// results, and returns the stage that the program reached.
fn check_runs(graph: &Graph, inputs: &[HostTensor]) -> Result<Reached, String> {
    let expected = Cancellation::after(TIME_LIMIT).scope(|| evaluate(graph, inputs));
    if let Err(error) = &expected {
        check_message("evaluate", error)?;
    }
    if expected.as_ref().is_err_and(is_stopped) {
        return Ok(Reached::Stopped);
    }
    // An associative scan may reassociate float operations, so only the types of the results are compared.
    let reassociates = graph.to_string().contains("associative_scan");
    let shown = |results: &[HostTensor]| match reassociates {
        true => format!("{:?}", results.iter().map(HostTensor::ty).collect::<Vec<_>>()),
        false => format!("{results:?}"),
    };
    for strategy in MODES {
        let rewrites = Some(exact_rules());
        let options = CompileOptions { strategy, max_kernels: 20_000, rewrites, ..CompileOptions::default() };
        let run = || Function::compile_with(graph, &Reference, options)?.call_host(inputs);
        match (Cancellation::after(TIME_LIMIT).scope(run), &expected) {
            (Ok(found), Ok(expected)) if shown(&found) != shown(expected) => {
                return Err(format!("{} returns {found:?} instead of {expected:?}", strategy.name()));
            }
            (Err(error), Ok(_)) if !may_be_refused(&error, strategy) => {
                return Err(format!(
                    "{} rejects a program that the reference evaluator runs: {error}",
                    strategy.name()
                ));
            }
            (Err(error), _) => check_message(strategy.name(), &error)?,
            _ => {}
        }
    }
    Ok(if expected.is_ok() { Reached::Ran } else { Reached::Stopped })
}

/// Returns rewrite options without the rules that reassociate sums. The remaining rules preserve results bit for bit.
fn exact_rules() -> RewriteOptions {
    let reordering = RULES.iter().filter(|rule| rule.reorders_sums);
    reordering.fold(RewriteOptions::new(), |rewrites, rule| rewrites.without(rule.name))
}

/// Returns `true` if the error reports a limit that the reference evaluator does not have. A backend may return such an
/// error for a program that the reference evaluator runs.
fn may_be_refused(error: &Error, strategy: LoopStrategy) -> bool {
    let is_unrolled = strategy == LoopStrategy::Unroll;
    match error {
        Error::StepCountNotStatic { .. } | Error::ProgramTooLarge { .. } | Error::Rows { .. } => is_unrolled,
        Error::StepCount { .. } => is_unrolled,
        Error::OverBudget { .. } | Error::Cancelled { .. } => true,
        // An associative scan combines pairs of rows. The size of a pair may overflow a 64-bit integer even if the size
        // of a row does not.
        _ => error.to_string().contains("sizes are 64-bit integers"),
    }
}

/// Checks that each transformation returns a typed error, or a sound program whose text round-trips.
fn check_transforms(graph: &Graph, seed: u64) -> Result<(), String> {
    let options = || {
        let policies = [
            CheckpointPolicy::Recompute,
            CheckpointPolicy::SaveAll,
            CheckpointPolicy::SaveDots,
            CheckpointPolicy::Segments(2),
        ];
        let policy = policies[(seed % 4) as usize].clone();
        GradOptions::new().disconnected(Disconnected::Zeros).policy(policy)
    };
    let all: [(&str, &dyn Fn() -> funcify::Result<Graph>); 3] = [
        ("vjp", &|| graph.vjp(Wrt::Floats, options())),
        ("jvp", &|| graph.jvp(Wrt::Floats)),
        ("vmap", &|| graph.vmap(2, VmapOptions::new())),
    ];
    for (name, derive) in all {
        let derived = match derive() {
            Ok(derived) => derived,
            Err(error) => {
                check_message(name, &error)?;
                continue;
            }
        };
        if let Err(errors) = derived.check() {
            return Err(format!("{name} is unsound: {}\n{derived}", errors[0]));
        }
        check_round_trip(&derived, &derived.to_string()).map_err(|wrong| format!("{name}: {wrong}"))?;
        if let Some(inputs) = small_arguments(&derived, seed)
            && let Err(error) = Cancellation::after(TIME_LIMIT).scope(|| evaluate(&derived, &inputs))
        {
            check_message(name, &error)?;
        }
    }
    Ok(())
}
