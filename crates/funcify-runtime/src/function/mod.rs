//! [`Function`], a graph compiled for a backend.
//!
//! `prepare.rs` rewrites the graph and checks that the backend supports it. `programs.rs` builds programs. A program
//! that depends on sizes or static inputs is built by the first call that needs it. `call.rs` checks the arguments of a
//! call and runs the program.

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
/// One program serves every call if the graph has no static inputs, and either all sizes are static, or all loops run
/// natively and nothing is compiled as a whole. In this case, [`compile`](Function::compile) builds that program.
/// Otherwise, programs are specialised for sizes and for the values of the static inputs on which they depend. The
/// first call with new sizes or new values of static inputs builds a program and caches it.
/// [`specialization`](Function::specialization) reports which case applies.
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
    /// The graph from which programs are built: `graph` with function calls inlined and rewrites applied.
    runnable: Arc<Graph>,
    /// The patches that rewriting applied.
    patches: Vec<Patched>,
    backend: B,
    options: CompileOptions,
    specialization: Specialization,
    programs: Cache<Signature, Arc<Variant<B>>>,
    last: Mutex<Option<LastCall<B>>>,
    made: AtomicUsize,
    reused: AtomicUsize,
    /// The state that the backend keeps between calls with tracked tensors.
    tracked: B::Tracked,
}

/// The call properties for which a function's programs are specialised: sizes, static inputs, both or neither.
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
    /// `true` if programs are specialised for sizes: some input has a symbolic size, and either a loop is unrolled or
    /// compiled, or the whole program is compiled.
    pub by_sizes: bool,
    /// `true` if programs may be specialised for the values of static inputs.
    pub by_static_inputs: bool,
}

impl Specialization {
    /// Returns `true` if a single program serves all calls. In this case, [`Function::compile`] has already built that
    /// program.
    pub fn is_none(self) -> bool {
        self == Specialization::default()
    }
}

impl<B: Backend> Function<B> {
    /// Compiles a graph with the default [options](CompileOptions).
    ///
    /// Checks and rewrites the graph, and verifies that every op has a lowering rule and that the device supports every
    /// type. If one program serves all calls ([`Specialization::is_none`]), also builds that program. A single program
    /// suffices if the graph has no static inputs, and either all sizes are static, or all loops run natively and
    /// nothing is compiled as a whole. Otherwise, the first call with new sizes or new values of static inputs builds a
    /// program.
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
    /// Returns an error if a check fails, or if the program cannot be built.
    #[track_caller]
    pub fn compile(graph: &Graph, backend: &B) -> Result<Self> {
        Self::compile_with(graph, backend, CompileOptions::default())
    }

    /// Compiles a graph like [`compile`](Function::compile), but with the given options.
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

    /// Returns the graph as it was passed to [`compile`](Function::compile).
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the backend for which the function was compiled.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// Returns the options with which the function was compiled.
    pub fn options(&self) -> &CompileOptions {
        &self.options
    }

    /// Returns the call properties for which programs are specialised.
    pub fn specialization(&self) -> Specialization {
        self.specialization
    }

    /// Returns the number of programs built so far, and the number of calls that reused one.
    pub fn counts(&self) -> CompileCounts {
        CompileCounts { made: self.made.load(Ordering::Relaxed), reused: self.reused.load(Ordering::Relaxed) }
    }

    /// Returns the compiled code for calls with the given sizes. Used by backends that also run the code on data other
    /// than their own tensors. If the program is not compiled as a whole, the error names the op that prevents it.
    #[doc(hidden)]
    pub fn whole(&self, at: &Place, sizes: &Sizes) -> Result<Arc<dyn Compiled<B::Tensor>>> {
        // A program built without the values of static inputs cannot serve later calls, so it is not cached.
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

    /// Returns the number of instructions in the program of the last call, including those in bodies of native loops.
    /// Returns 0 if no program has been built.
    pub fn instructions(&self) -> usize {
        self.programs.last().map_or(0, |variant| variant.program.len())
    }

    /// Returns a report on the compiled program: its size, its loops, and the memory that its plan needs.
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
