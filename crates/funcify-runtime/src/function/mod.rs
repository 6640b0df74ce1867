//! A graph compiled for a backend, and called on the backend's own tensors.
//!
//! `prepare.rs` rewrites the graph and checks it against the backend. `programs.rs` builds its program, or waits for
//! the first call if the program depends on the sizes of the call or its static inputs. `call.rs` checks a call, gets
//! its program, and runs it.

mod call;
mod prepare;
mod programs;
pub(crate) mod report;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::graph::Graph;
use funcify_core::types::{Sizes, TensorType};
use funcify_rewrite::Patched;

use self::call::LastCall;
use self::prepare::prepare;
use self::programs::{Signature, Variant};
use self::report::{CompileCounts, Report};
use crate::backend::{Backend, CompileOptions, Compiled, Declined};
use crate::cache::Cache;
use crate::lower::{Notes, Settings};

/// A graph compiled for a backend.
///
/// A program whose loops run natively serves every call, and is made by [`compile`](Function::compile). A program
/// that is laid out for the sizes of a call is made on the first call with those sizes, and cached for later ones.
/// The same holds for the values of static inputs that decide how a program is laid out.
/// [`specialization`](Function::specialization) says which of these applies.
///
/// ```
/// use funcify::dispatch::{Function, Reference};
/// use funcify::{Graph, HostTensor, scan};
///
/// let sum = Graph::build("sum", |g| {
///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[T]")];
///     scan(start, xs, |sum, x| (sum + x, ())).0
/// })?;
/// let sum = Function::compile(&sum, &Reference)?;
/// let start = HostTensor::scalar(0f32);
/// assert_eq!(sum.call_host(&[start.clone(), [1f32, 2.0].into()])?, [HostTensor::scalar(3f32)]);
/// assert_eq!(sum.call_host(&[start, [1f32, 2.0, 3.0].into()])?, [HostTensor::scalar(6f32)]);
/// assert!(sum.specialization().is_none()); // one program served both calls
/// # Ok::<(), funcify::Error>(())
/// ```
pub struct Function<B: Backend> {
    graph: Arc<Graph>,
    /// The graph that programs are built from: without derivative rules, rewritten.
    runnable: Arc<Graph>,
    /// The patches that rewrote it.
    patches: Vec<Patched>,
    backend: B,
    options: CompileOptions,
    specialization: Specialization,
    programs: Cache<Signature, Arc<Variant<B>>>,
    last: Mutex<Option<LastCall<B>>>,
    made: AtomicUsize,
    reused: AtomicUsize,
    /// The state that the backend keeps for calls with tracked tensors.
    tracked: B::Tracked,
}

/// The properties of a call that a function's programs depend on.
///
/// ```
/// use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
/// use funcify::{Graph, scan};
///
/// let sum = Graph::build("sum", |g| {
///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[T]")];
///     scan(start, xs, |sum, x| (sum + x, ())).0
/// })?;
/// let options = CompileOptions { strategy: LoopStrategy::Unroll, ..CompileOptions::default() };
/// let specialization = Function::compile_with(&sum, &Reference, options)?.specialization();
/// assert!(specialization.by_sizes && !specialization.by_static_inputs);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Specialization {
    /// `true` if programs are built for the sizes of a call: the graph has inputs of open sizes, and a loop is
    /// unrolled or compiled for its sizes, or the whole program is.
    pub by_sizes: bool,
    /// `true` if programs may be built for the values of static inputs.
    pub by_static_inputs: bool,
}

impl Specialization {
    /// Returns whether one program serves all calls. If so, [`Function::compile`] has already built it.
    pub fn is_none(self) -> bool {
        self == Specialization::default()
    }
}

impl<B: Backend> Function<B> {
    /// Compiles a graph with the default [options](CompileOptions).
    ///
    /// Does all work that does not depend on a call: checks and rewrites the graph, and verifies that every op has a
    /// lowering rule and every type fits the device. If nothing depends on a call ([`Specialization::is_none`]), as
    /// for a graph whose sizes are all static or whose loops run natively, the program is built here. Otherwise the
    /// first call with new sizes builds one.
    ///
    /// ```
    /// use funcify::dispatch::{Function, Reference};
    /// use funcify::{Graph, HostTensor};
    ///
    /// let twice = Graph::build("twice", |g| g.input("x", "f32[N]") * 2.0)?;
    /// let twice = Function::compile(&twice, &Reference)?;
    /// assert_eq!(twice.call_host(&[[1f32, 2.0].into()])?, [HostTensor::from([2f32, 4.0])]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of the checks and, if the program is built here, of its compilation.
    #[track_caller]
    pub fn compile(graph: &Graph, backend: &B) -> Result<Self> {
        Self::compile_with(graph, backend, CompileOptions::default())
    }

    /// Compiles a graph like [`compile`](Function::compile), with the given options.
    ///
    /// ```
    /// use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
    /// use funcify::{Graph, HostTensor};
    ///
    /// let twice = Graph::build("twice", |g| g.input("x", "f32[N]") * 2.0)?;
    /// let options = CompileOptions { strategy: LoopStrategy::Native, ..CompileOptions::default() };
    /// let twice = Function::compile_with(&twice, &Reference, options)?;
    /// assert_eq!(twice.options().strategy, LoopStrategy::Native);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn compile_with(graph: &Graph, backend: &B, options: CompileOptions) -> Result<Self> {
        let at = Place::new("compile", Site::caller());
        let graph = Arc::new(graph.clone());
        let prepared = prepare(&graph, backend, &options, &at)?;
        let has_open_sizes =
            |index: usize| graph.input_type(index).shape.dims().iter().any(|dim| dim.constant().is_none());
        let specialization = Specialization {
            by_sizes: prepared.is_laid_out && (0..graph.inputs().len()).any(has_open_sizes),
            by_static_inputs: graph.inputs().iter().any(|input| input.is_static),
        };
        let function = Function {
            graph,
            runnable: prepared.graph,
            patches: prepared.patches,
            backend: backend.clone(),
            specialization,
            programs: Cache::new(options.max_programs),
            options,
            last: Mutex::new(None),
            made: AtomicUsize::new(0),
            reused: AtomicUsize::new(0),
            tracked: B::Tracked::default(),
        };
        if specialization.is_none() {
            function.pick_program(&at, &Sizes::new(), || Ok(Vec::new()))?;
        }
        Ok(function)
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the options that the function was compiled with.
    pub fn options(&self) -> &CompileOptions {
        &self.options
    }

    /// Returns the properties of a call that its programs depend on.
    pub fn specialization(&self) -> Specialization {
        self.specialization
    }

    /// Returns the number of programs built, and the number of calls that reused one.
    pub fn counts(&self) -> CompileCounts {
        CompileCounts { made: self.made.load(Ordering::Relaxed), reused: self.reused.load(Ordering::Relaxed) }
    }

    /// Returns the program for calls of these sizes if the backend compiles it as a whole, for backends that also run
    /// it on other data than their tensors. The error names the op that prevents it.
    #[doc(hidden)]
    pub fn whole(&self, at: &Place, sizes: &Sizes) -> Result<Arc<dyn Compiled<B::Tensor>>> {
        // A program built without the values of static inputs serves no calls, so it is not cached.
        let variant = match self.specialization.by_static_inputs {
            true => Arc::new(self.make_program(sizes.clone(), &[])?),
            false => self.pick_program(at, sizes, || Ok(Vec::new()))?,
        };
        let declined = || variant.notes.declined.as_ref().map(Declined::to_string);
        variant.whole().cloned().ok_or_else(|| Error::Unsupported {
            at: at.boxed(),
            backend: self.backend.name().to_string(),
            what: "this program as a whole".into(),
            reason: declined().unwrap_or_else(|| "it compiles only loops".into()),
            fix: "call the function on tensors, which runs the parts that are not compiled op by op".into(),
        })
    }

    /// Counts the instructions of the program for the last call, including those in bodies of native loops; 0 before
    /// the first call.
    pub fn instructions(&self) -> usize {
        self.programs.last().map_or(0, |variant| variant.program.len())
    }

    /// Reports the size of the compiled program, how its loops run, and the memory of its plan.
    pub fn report(&self) -> Report {
        let last = self.last_call().as_ref().map(|last| (last.variant.clone(), last.sizes.clone()));
        let latest = last.as_ref().map(|(variant, _)| variant.clone()).or_else(|| self.programs.last());
        let mut report = Report::of_graph(&self.graph, &self.patches, self.counts());
        if let Some(variant) = latest {
            report.add_program(&variant.program, &variant.notes, &self.patches);
            report.compile_time = variant.time;
        }
        report.peak_bytes = last.and_then(|(variant, sizes)| Some(variant.program.peak_bytes(&sizes)?.0));
        report
    }

    fn last_call(&self) -> MutexGuard<'_, Option<LastCall<B>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
