//! Opens backends by name, and runs graphs on host tensors through an interface that is not generic over the backend.

use std::collections::BTreeMap;
use std::sync::Arc;

use funcify_core::HostTensor;
use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::graph::{Graph, call_error};
use funcify_core::types::DType;

use crate::backend::registry::{lowered_ops, registered_strategy};
use crate::backend::{Backend, CompileOptions, Compiles, LoopStrategy};
use crate::function::Function;
use crate::function::report::{CompileCounts, Report};
use crate::run::profile::Profile;

/// A type-erased [`Backend`]. Implemented for every backend.
///
/// ```
/// use funcify::dispatch::{CompileOptions, Executor, Reference};
/// use funcify::{Graph, HostTensor};
///
/// fn square(backend: &dyn Executor, x: f32) -> funcify::Result<HostTensor> {
///     let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
///     Ok(backend.compile(&square, CompileOptions::default())?.call(&[x.into()])?.remove(0))
/// }
/// assert_eq!(square(&Reference, 3.0)?, HostTensor::scalar(9f32));
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Executor: Send + Sync {
    /// Returns the backend's name.
    fn name(&self) -> &'static str;

    /// Compiles a graph with the given options.
    fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Box<dyn Executable>>;

    /// Returns the names of the ops for which the backend has lowering rules, in alphabetical order.
    fn lowered_ops(&self) -> Vec<&'static str>;

    /// Returns the default strategy for loops that are not compiled.
    fn loop_strategy(&self) -> LoopStrategy;

    /// Returns the parts of a program that the backend compiles as a whole.
    fn compiles(&self) -> Compiles;

    /// Returns `true` if the backend has a fallback kernel for ops without a lowering rule.
    fn has_fallback(&self) -> bool;

    /// Returns the reason why the device cannot store tensors of this dtype and rank, or `None` if it can.
    fn unsupported(&self, dtype: DType, rank: usize) -> Option<String>;
}

/// A type-erased [`Function`], called on host tensors. Implemented for every function.
///
/// ```
/// use funcify::dispatch::{Executable, Function, Reference};
/// use funcify::{Graph, HostTensor};
///
/// let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
/// let square: Box<dyn Executable> = Box::new(Function::compile(&square, &Reference)?);
/// assert_eq!(square.call(&[3f32.into()])?, [HostTensor::scalar(9f32)]);
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Executable: Send + Sync {
    /// Runs the graph on host tensors. The arguments are in the order of the graph's inputs.
    fn call(&self, arguments: &[HostTensor]) -> Result<Vec<HostTensor>>;

    /// Runs the graph on host tensors and records the time and the result size of each instruction.
    fn profile(&self, arguments: &[HostTensor]) -> Result<(Vec<HostTensor>, Profile)>;

    /// Returns the number of programs built so far, and the number of calls that reused one.
    fn counts(&self) -> CompileCounts;

    /// Returns the number of instructions in the program of the last call.
    fn instructions(&self) -> usize;

    /// Returns a report on the compiled graph.
    fn report(&self) -> Report;
}

impl<B: Backend> Executor for B {
    fn name(&self) -> &'static str {
        Backend::name(self)
    }

    fn compile(&self, graph: &Graph, options: CompileOptions) -> Result<Box<dyn Executable>> {
        Ok(Box::new(Function::compile_with(graph, self, options)?))
    }

    fn lowered_ops(&self) -> Vec<&'static str> {
        lowered_ops::<B>()
    }

    fn loop_strategy(&self) -> LoopStrategy {
        registered_strategy::<B>().unwrap_or(LoopStrategy::Native)
    }

    fn compiles(&self) -> Compiles {
        Backend::compiles(self)
    }

    fn has_fallback(&self) -> bool {
        self.fallback().is_some()
    }

    fn unsupported(&self, dtype: DType, rank: usize) -> Option<String> {
        Backend::unsupported(self, dtype, rank)
    }
}

impl<B: Backend> Executable for Function<B> {
    fn call(&self, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
        self.call_host(arguments)
    }

    fn profile(&self, arguments: &[HostTensor]) -> Result<(Vec<HostTensor>, Profile)> {
        self.profile_host(arguments)
    }

    fn counts(&self) -> CompileCounts {
        Function::counts(self)
    }

    fn instructions(&self) -> usize {
        Function::instructions(self)
    }

    fn report(&self) -> Report {
        Function::report(self)
    }
}

/// The registration of a backend under a name, created by [`register_backend!`](crate::register_backend).
#[doc(hidden)]
pub struct BackendEntry {
    /// The backend's name.
    pub name: &'static str,
    /// Opens the device, or returns an error that explains why it is unavailable.
    pub open: fn() -> Result<Arc<dyn Executor>>,
}

inventory::collect!(BackendEntry);

/// Registers a backend under a name: `register_backend!("candle", || Ok(Candle::cpu()));`
///
/// ```
/// use funcify::dispatch::{Reference, backend_names};
///
/// funcify::register_backend!("mine", || funcify::Result::Ok(Reference));
/// assert!(backend_names().contains(&"mine"));
/// ```
#[macro_export]
macro_rules! register_backend {
    ($name:literal, || $open:expr) => {
        $crate::inventory::submit! {
            $crate::BackendEntry {
                name: $name,
                open: || {
                    let backend = $open?;
                    ::core::result::Result::Ok(::std::sync::Arc::new(backend))
                },
            }
        }
    };
}

/// Returns the names of all linked backends: `reference` first, then the others in alphabetical order.
///
/// ```
/// assert_eq!(funcify::dispatch::backend_names()[0], "reference");
/// ```
pub fn backend_names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = inventory::iter::<BackendEntry>().map(|entry| entry.name).collect();
    names.sort_unstable_by_key(|name| (*name != "reference", *name));
    names
}

/// Opens the backend with the given name.
///
/// ```
/// use funcify::dispatch::open_backend;
///
/// assert_eq!(open_backend("reference")?.name(), "reference");
/// assert!(open_backend("abacus").is_err());
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn open_backend(name: &str) -> Result<Arc<dyn Executor>> {
    let at = Place::new("open_backend", Site::caller());
    let mut entries = inventory::iter::<BackendEntry>().filter(|entry| entry.name == name);
    let (problem, fix) = match (entries.next(), entries.next()) {
        (Some(entry), None) => return (entry.open)(),
        (Some(_), Some(_)) => ("two linked crates register it", "remove one of them".to_string()),
        (None, _) => {
            let names = backend_names().join(", ");
            ("no linked crate registers it", format!("use one of these names: {names}; or link the backend's crate"))
        }
    };
    Err(Error::Registry { at: at.boxed(), backend: name.to_string(), problem: problem.to_string(), fix })
}

/// Runs a graph once on the backend with the given name. Inputs and outputs are keyed by name.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use funcify::dispatch::{CompileOptions, run_named};
/// use funcify::{Graph, HostTensor};
///
/// let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
/// let inputs = BTreeMap::from([("x".to_string(), HostTensor::scalar(3f32))]);
/// let outputs = run_named("reference", &square, &inputs, CompileOptions::default())?;
/// assert_eq!(outputs["out"], HostTensor::scalar(9f32));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn run_named(
    backend: &str,
    graph: &Graph,
    inputs: &BTreeMap<String, HostTensor>,
    options: CompileOptions,
) -> Result<BTreeMap<String, HostTensor>> {
    let at = Place::new(graph.name(), Site::caller());
    let inputs = ordered_inputs(&at, graph, inputs)?;
    let results = open_backend(backend)?.compile(graph, options)?.call(&inputs)?;
    let names = graph.outputs().iter().map(|output| output.name.clone());
    Ok(names.zip(results).collect())
}

/// Returns named tensors in the order of the graph's inputs. Returns an error if a name is missing or unknown.
#[doc(hidden)]
pub fn ordered_inputs(at: &Place, graph: &Graph, named: &BTreeMap<String, HostTensor>) -> Result<Vec<HostTensor>> {
    let names: Vec<&str> = (0..graph.inputs().len()).map(|index| graph.input_name(index)).collect();
    if let Some(name) = named.keys().find(|name| !names.contains(&name.as_str())) {
        let fix = "remove it, or give it the name of an input of the program";
        return Err(call_error(at, &format!("argument `{name}`"), names.join(", "), name.clone(), fix));
    }
    let argument = |(index, name): (usize, &&str)| {
        let (expected, fix) = (graph.input_type(index).to_string(), "pass a tensor of that name");
        let missing = || call_error(at, &format!("argument `{name}`"), expected, "nothing".into(), fix);
        named.get(*name).cloned().ok_or_else(missing)
    };
    names.iter().enumerate().map(argument).collect()
}
