//! A graph compiled for a backend, and called on the backend's own tensors.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use funcify_core::HostTensor;
use funcify_core::cancel::Watch;
use funcify_core::derivative::GradOptions;
use funcify_core::error::{Error, Place, Ran, Result, Site};
use funcify_core::graph::{Graph, bind_sizes, call_error};
use funcify_core::memory::memory_budget;
use funcify_core::ops::scan::CheckpointPolicy;
use funcify_core::ops::{Op, OpRules, While};
use funcify_core::types::{DType, Shape, Sizes, TensorType};
use funcify_rewrite::{Patched, RewriteOptions, counts, rewritten_at};

use super::backend::{self, Backend, Compiles, Declined, LoopStrategy, TrackedCall};
use super::cache::Cache;
use super::composed::composed;
use super::eager::execution_error;
use super::ledger::Memory;
use super::lower::{Lowering, Notes, Settings};
use super::profile::{Profile, Profiler};
use super::program::{Program, Run};
use super::registry::{check_rules, has_kernel, rule_of};
use super::report::{Report, count_ops};
use super::whole::run_watched;

/// How a graph is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The strategy of all loops, left to the backend by default. Forced to be unrolled, a loop whose number of steps is not
    /// static (does not follow from sizes, constants and static inputs) is an error, `StepCountNotStatic`; one that ends early,
    /// by an `until` or a condition, needs a static largest number. Forced to be compiled, a loop that the backend cannot compile runs natively, and
    /// [`Function::report`] says why.
    pub strategy: LoopStrategy,
    /// How many instructions an unrolled program may have before it is an error.
    pub max_kernels: usize,
    /// How many specialised programs are cached; the one unused for longest goes first.
    pub max_programs: usize,
    /// How many bytes of tensors a call may hold at once before it is an error, `OverBudget`; without a number, as many as
    /// [`memory_budget`](funcify_core::memory::memory_budget) says.
    pub memory_budget: Option<u64>,
    /// How the graph is [rewritten](funcify_rewrite) before it is compiled, by default by all rules. Where loops are compiled as a
    /// whole, `hoisting`, `sums_over_steps` and `cumulative` are left out: that does their work for some steps at a time, which
    /// stay in the processor's caches. Where they [tolerate](RewriteOptions::tolerance) reassociation and the [device prefers depth](Backend::parallel),
    /// loops that are affine in their states become associative scans. `None` compiles the graph as it is.
    pub rewrites: Option<RewriteOptions>,
    /// Whether a backend that compiles loops as a whole is to compile all of the program, if it can: products of matrices
    /// outside of loops, which are the library's otherwise, and what has no loop. For programs that are small and called
    /// often, as a step that is served.
    pub whole: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            strategy: LoopStrategy::Auto,
            max_kernels: 1 << 20,
            max_programs: 32,
            memory_budget: None,
            rewrites: Some(RewriteOptions::from_environment()),
            whole: false,
        }
    }
}

impl CompileOptions {
    /// How gradients are best taken of what is compiled like this for a backend, for plug-ins: where loops are compiled,
    /// [step by step](GradOptions::stepwise), and what is not [costly](CheckpointPolicy::SaveCostly) is computed again; else all is saved
    /// that they need. What loops are to save may be given.
    pub fn grad_options<B: Backend>(&self, backend: &B, policy: Option<CheckpointPolicy>) -> GradOptions {
        let is_compiled = self.compiles_loops_on(backend);
        let own = if is_compiled { CheckpointPolicy::SaveCostly } else { CheckpointPolicy::SaveAll };
        GradOptions::new().policy(policy.unwrap_or(own)).stepwise(is_compiled)
    }

    /// Whether what is compiled like this for a backend has compiled loops, where they can be.
    pub fn compiles_loops_on<B: Backend>(&self, backend: &B) -> bool {
        self.strategy.compiled(backend.compiles()) != Compiles::Nothing
    }

    /// The memory budget, in bytes.
    pub(super) fn budget(&self) -> u64 {
        self.memory_budget.unwrap_or_else(memory_budget)
    }
}

/// The rules whose work compiled loops do themselves.
const OF_COMPILED_LOOPS: &[&str] = &["hoisting", "interchanged_loops", "sums_over_steps", "cumulative"];

/// What a function has compiled so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompileCounts {
    /// How many programs were compiled.
    pub compiled: usize,
    /// How many calls had a cached program.
    pub reused: usize,
}

/// A graph compiled for a backend.
///
/// A program whose loops run natively serves every size. One with unrolled loops is compiled anew for the sizes of a
/// call that it has not met, and cached for the next call with them. The same holds for the values of those static inputs
/// that decide how a program is laid out.
pub struct Function<B: Backend> {
    graph: Arc<Graph>,
    /// What is compiled: the graph without derivative rules, rewritten.
    runnable: Arc<Graph>,
    /// How it was rewritten.
    patches: Vec<Patched>,
    backend: B,
    options: CompileOptions,
    /// Whether programs depend on the sizes of a call.
    unrolls: bool,
    cache: Cache<Signature, Arc<Entry<B>>>,
    last: Mutex<Option<Last<B>>>,
    compiled: AtomicUsize,
    reused: AtomicUsize,
    /// What the backend made for calls with tracked tensors.
    tracked: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

/// The last call: its program, and the sizes that it bound.
struct Last<B: Backend> {
    compiled: Arc<Compiled<B>>,
    sizes: Sizes,
    again: Option<Arc<Again<B::Tensor>>>,
}

/// What calls with arguments of certain types and sizes are: one program that the backend compiled as a whole.
struct Again<T> {
    program: Arc<dyn backend::Compiled<T>>,
    arguments: Vec<(DType, Vec<usize>)>,
    /// The memory budget that the program is known to stay within.
    budget: u64,
}

impl<T> Again<T> {
    /// Whether it is a call with these arguments.
    fn is_of<B: Backend<Tensor = T>>(&self, backend: &B, arguments: &[T]) -> bool {
        let is_alike = |(tensor, (dtype, sizes)): (&T, &(DType, Vec<usize>))| {
            backend.has_dtype(tensor, *dtype) && backend.has_shape(tensor, sizes)
        };
        arguments.len() == self.arguments.len() && arguments.iter().zip(&self.arguments).all(is_alike)
    }
}

/// The sizes of a call, and the numbers of its static inputs.
type Signature = (Sizes, Vec<(usize, i64)>);

/// A program, and what it is compiled for.
struct Entry<B: Backend> {
    sizes: Sizes,
    /// The numbers of the static inputs that it depends on.
    statics: Vec<(usize, i64)>,
    compiled: Arc<Compiled<B>>,
}

impl<B: Backend> Entry<B> {
    /// Whether the program serves calls of these sizes whose static inputs have these numbers.
    fn serves(&self, sizes: &Sizes, statics: &[(usize, i64)]) -> bool {
        self.sizes == *sizes && self.statics.iter().all(|it| statics.contains(it))
    }
}

/// A program with what is told about it.
struct Compiled<B: Backend> {
    program: Program<B>,
    notes: Notes,
    time: Duration,
    /// The most that its plan holds at once with the sizes of the last call, if the plan gives it.
    peak: Mutex<Option<(Sizes, Option<u64>)>>,
}

impl<B: Backend> Compiled<B> {
    /// What it is, if the backend compiled all of it.
    fn whole(&self) -> Option<&Arc<dyn backend::Compiled<B::Tensor>>> {
        self.program.whole().filter(|_| self.notes.declined.is_none())
    }

    fn peak(&self) -> MutexGuard<'_, Option<(Sizes, Option<u64>)>> {
        self.peak.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> Function<B> {
    /// Compiles a graph. An op without a lowering rule, and a type that the device cannot hold, are errors here.
    #[track_caller]
    pub fn compile(graph: &Graph, backend: &B) -> Result<Self> {
        Self::compile_with(graph, backend, CompileOptions::default())
    }

    /// Compiles a graph with options.
    #[track_caller]
    pub fn compile_with(graph: &Graph, backend: &B, options: CompileOptions) -> Result<Self> {
        let at = Place::new("compile", Site::caller());
        graph.checked()?;
        check_rules(backend, &at)?;
        let settings = Settings::new(backend, &options);
        let stored = Arc::new(graph.clone());
        let plain = graph.without_rules()?.map_or_else(|| stored.clone(), Arc::new);
        // Checks all compositions, those inside of others, too.
        composed(&plain, &|_| true)?;
        // A custom op that the backend has no kernel for is its composition, if it has one.
        let plain = match composed(&plain, &|custom| !has_kernel(backend, custom.name()))? {
            Cow::Owned(composed) => Arc::new(composed),
            Cow::Borrowed(_) => plain,
        };
        let own = if options.compiles_loops_on(backend) { OF_COMPILED_LOOPS } else { &[] };
        let rewrites = options
            .rewrites
            .clone()
            .map(|all| own.iter().fold(all.or_parallel(backend.parallel()), |rewrites, rule| rewrites.without(rule)));
        let rewritten = rewrites.map(|rewrites| rewritten_at(&at, &plain, &rewrites)).transpose()?;
        let rewritten = rewritten.filter(|rewritten| !rewritten.patches.is_empty());
        // What a device cannot hold or has no lowering rule for is asked of the graph as it was written.
        let arranged = rewritten.and_then(|rewritten| Some((validate(&settings, &rewritten.graph).ok()?, rewritten)));
        let (unrolls, runnable, patches) = match arranged {
            Some((unrolls, rewritten)) => (unrolls, Arc::new(rewritten.graph), rewritten.patches),
            None => {
                let unrolls = validate(&settings, &plain).map_err(|error| graph.explain(error))?;
                (unrolls, plain, Vec::new())
            }
        };
        let function = Function {
            graph: stored,
            runnable,
            patches,
            backend: backend.clone(),
            unrolls,
            cache: Cache::new(options.max_programs),
            options,
            last: Mutex::new(None),
            compiled: AtomicUsize::new(0),
            reused: AtomicUsize::new(0),
            tracked: Mutex::new(None),
        };
        if !unrolls && !function.has_statics() {
            function.compiled(&at, Sizes::new(), &[])?;
        }
        Ok(function)
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    /// How it is compiled.
    pub fn options(&self) -> &CompileOptions {
        &self.options
    }

    /// How often this function was compiled, and how often a cached program was used.
    pub fn counts(&self) -> CompileCounts {
        CompileCounts { compiled: self.compiled.load(Ordering::Relaxed), reused: self.reused.load(Ordering::Relaxed) }
    }

    /// Runs the function on the backend's own tensors, in the order of the graph's inputs. Sizes are bound from their
    /// shapes. If the library's autodiff tracks an argument, and the backend can say how, the call is one op of it.
    #[track_caller]
    pub fn call(&self, arguments: &[B::Tensor]) -> Result<Vec<B::Tensor>> {
        let site = Site::caller();
        let at = || Place::new(self.graph.name(), site);
        if arguments.iter().any(|tensor| self.backend.is_tracked(tensor)) {
            let call = TrackedCall { at: &at(), graph: &self.graph, options: &self.options, made: &self.tracked };
            if let Some(results) = self.backend.call_tracked(&call, arguments) {
                return results;
            }
        } else if let Some(results) = self.again(at, arguments)? {
            return Ok(results);
        }
        Ok(self.admitted(&at(), arguments, false)?.0)
    }

    /// Calls the program of the last call, if that is all there is to it.
    fn again(&self, at: impl Fn() -> Place + Sync, arguments: &[B::Tensor]) -> Result<Option<Vec<B::Tensor>>> {
        let again = self.last().as_ref().and_then(|last| last.again.clone());
        let is_it =
            |again: &Arc<Again<_>>| again.budget <= self.options.budget() && again.is_of(&self.backend, arguments);
        let Some(again) = again.filter(is_it) else { return Ok(None) };
        let _span = super::span::call(self.graph.name(), self.backend.name());
        let typed = || arguments.iter().zip(&again.arguments).map(|(tensor, (dtype, _))| (tensor, *dtype));
        let admitted = || {
            let admitted = typed().map(|(tensor, dtype)| self.backend.admit(tensor.clone(), dtype));
            let admitted = admitted.collect::<Result<Vec<_>, _>>();
            admitted.map_err(|error| execution_error(&at(), self.backend.name(), error))
        };
        let as_they_are = typed().all(|(tensor, dtype)| self.backend.is_admitted(tensor, dtype));
        let admitted = if as_they_are { Cow::Borrowed(arguments) } else { Cow::Owned(admitted()?) };
        let results = run_watched(&*again.program, &Watch::current(), at, self.backend.name(), &admitted);
        let results = results.map_err(|error| self.graph.explain(error))?;
        self.reused.fetch_add(1, Ordering::Relaxed);
        Ok(results)
    }

    /// Calls the function, and tells what the call spent, instruction by instruction. What a framework tracks, it does not
    /// follow through such a call.
    #[track_caller]
    pub fn profile(&self, arguments: &[B::Tensor]) -> Result<(Vec<B::Tensor>, Profile)> {
        self.admitted(&Place::new(self.graph.name(), Site::caller()), arguments, true)
    }

    /// The program for calls of these sizes, if the backend compiles it as a whole: for backends that also run it on something else
    /// than their tensors. The error says which op stands in the way.
    pub fn whole(&self, at: &Place, sizes: &Sizes) -> Result<Arc<dyn backend::Compiled<B::Tensor>>> {
        // A program that does not know the numbers of static inputs serves no calls.
        let compiled = match self.has_statics() {
            true => self.lowered(sizes.clone(), &[])?.compiled.clone(),
            false => self.compiled(at, sizes.clone(), &[])?,
        };
        let declined = || compiled.notes.declined.as_ref().map(Declined::to_string);
        compiled.whole().cloned().ok_or_else(|| Error::Unsupported {
            at: at.boxed(),
            backend: self.backend.name().to_string(),
            what: "this program as a whole".into(),
            reason: declined().unwrap_or_else(|| "it compiles loops alone".into()),
            fix: "call the function on tensors, which runs what is not compiled in another way".into(),
        })
    }

    /// Checks the arguments, makes them the backend's own, and runs the function on them.
    fn admitted(&self, at: &Place, arguments: &[B::Tensor], is_profiled: bool) -> Result<(Vec<B::Tensor>, Profile)> {
        let types = self.argument_types(at, arguments)?;
        let sizes = bind_sizes(at, &self.graph, &types)?;
        let admitted = arguments.iter().zip(&types).map(|(tensor, ty)| self.backend.admit(tensor.clone(), ty.dtype));
        let admitted = admitted.collect::<Result<Vec<_>, _>>();
        let admitted = admitted.map_err(|error| execution_error(at, self.backend.name(), error))?;
        self.run(at, sizes, admitted, is_profiled)
    }

    /// What calls with such arguments are, if that is one program: one that read no static input, and stays within the memory
    /// budget.
    fn all_of(
        &self,
        compiled: &Compiled<B>,
        memory: Option<&Memory>,
        arguments: &[B::Tensor],
    ) -> Option<Arc<Again<B::Tensor>>> {
        let program = compiled.whole().filter(|_| !self.has_statics() && memory.is_none())?.clone();
        let arguments = arguments.iter().enumerate();
        let arguments =
            arguments.map(|(index, tensor)| (self.graph.input_type(index).dtype, self.backend.shape(tensor)));
        Some(Arc::new(Again { program, arguments: arguments.collect(), budget: self.options.budget() }))
    }

    fn last(&self) -> MutexGuard<'_, Option<Last<B>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the function on arguments that fit.
    fn run(
        &self,
        at: &Place,
        sizes: Sizes,
        arguments: Vec<B::Tensor>,
        is_profiled: bool,
    ) -> Result<(Vec<B::Tensor>, Profile)> {
        let _span = super::span::call(self.graph.name(), self.backend.name());
        let compiled = self.compiled_for(at, &sizes, &arguments)?;
        let memory = self.checked_memory(&compiled, &sizes);
        let again = self.all_of(&compiled, memory.as_ref(), &arguments);
        let profiler = is_profiled.then(Profiler::new);
        let mut run = Run { backend: &self.backend, sizes, watch: Watch::current(), memory, profiler };
        let results = compiled.program.run(&mut run, arguments);
        *self.last() = Some(Last { compiled, sizes: run.sizes, again });
        let profile = run.profiler.map(Profiler::finish).unwrap_or_default();
        Ok((results.map_err(|error| self.graph.explain(error))?, profile))
    }

    /// Runs the function on host tensors: uploads them, runs, and downloads the results.
    #[track_caller]
    pub fn call_host(&self, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
        self.on_host(&Place::new(self.graph.name(), Site::caller()), arguments, false).map(|(results, _)| results)
    }

    /// [`profile`](Function::profile) on host tensors. Uploads and downloads are not part of it.
    #[track_caller]
    pub fn profile_host(&self, arguments: &[HostTensor]) -> Result<(Vec<HostTensor>, Profile)> {
        let at = Place::new(self.graph.name(), Site::caller());
        self.on_host(&at, arguments, true)
    }

    fn on_host(&self, at: &Place, arguments: &[HostTensor], is_profiled: bool) -> Result<(Vec<HostTensor>, Profile)> {
        let failed = |error| execution_error(at, self.backend.name(), error);
        let types: Vec<TensorType> = arguments.iter().map(HostTensor::ty).collect();
        let sizes = bind_sizes(at, &self.graph, &types)?;
        let uploaded = arguments.iter().map(|tensor| self.backend.upload(tensor).map_err(failed));
        let (results, profile) = self.run(at, sizes, uploaded.collect::<Result<Vec<_>>>()?, is_profiled)?;
        let typed = results.iter().enumerate().map(|(index, tensor)| (tensor, self.graph.output_type(index).dtype));
        let results = typed.map(|(tensor, dtype)| self.backend.download(tensor, dtype).map_err(failed));
        Ok((results.collect::<Result<_>>()?, profile))
    }

    /// The budget, unless the program's plan stays within it whatever happens.
    fn checked_memory(&self, compiled: &Compiled<B>, sizes: &Sizes) -> Option<Memory> {
        let budget = self.options.budget();
        let known = compiled.peak().as_ref().and_then(|(of, peak)| (of == sizes).then_some(*peak));
        let peak = known.unwrap_or_else(|| {
            let elements = compiled.program.peak_bytes(sizes).map(|(peak, _)| peak as u64);
            // The plan counts the elements as they are stored.
            let factor =
                DType::ALL.map(|dtype| self.backend.element_bytes(dtype).div_ceil(dtype.size())).into_iter().max();
            let peak = elements.map(|peak| peak.saturating_mul(factor.unwrap_or(1) as u64));
            *compiled.peak() = Some((sizes.clone(), peak));
            peak
        });
        let is_within = peak.is_some_and(|peak| peak <= budget);
        (!is_within).then_some(Memory { budget, held: 0 })
    }

    fn argument_types(&self, at: &Place, arguments: &[B::Tensor]) -> Result<Vec<TensorType>> {
        let mut types = Vec::with_capacity(arguments.len());
        for (index, tensor) in arguments.iter().enumerate() {
            let shape = Shape::from(self.backend.shape(tensor).as_slice());
            let expected = self.graph.inputs().get(index).map(|_| self.graph.input_type(index).dtype);
            let own = expected.filter(|dtype| self.backend.has_dtype(tensor, *dtype));
            let dtype = own.or_else(|| DType::ALL.into_iter().find(|dtype| self.backend.has_dtype(tensor, *dtype)));
            types.push(TensorType::new(dtype.unwrap_or(DType::Bool), shape));
            if let (Some(expected), None) = (expected, dtype) {
                let component = format!("argument {index} (`{}`)", self.graph.input_name(index));
                let (found, fix) = ("a dtype without a name here".to_string(), "convert the tensor to that dtype");
                return Err(call_error(at, &component, expected.to_string(), found, fix));
            }
        }
        Ok(types)
    }

    /// The numbers of the static inputs.
    fn statics(&self, at: &Place, arguments: &[B::Tensor]) -> Result<Vec<(usize, i64)>> {
        let inputs = self.graph.inputs().iter().enumerate().filter(|(_, input)| input.is_static);
        let number = |index: usize| {
            let number = self.backend.download(&arguments[index], self.graph.input_type(index).dtype);
            let number = number.map_err(|error| execution_error(at, self.backend.name(), error))?;
            Ok((index, number.get(0).as_i64()))
        };
        inputs.map(|(index, _)| number(index)).collect()
    }

    fn has_statics(&self) -> bool {
        self.graph.inputs().iter().any(|input| input.is_static)
    }

    /// The program for a call, compiled if none serves it. Static inputs are read only if a program may depend on them.
    fn compiled_for(&self, at: &Place, sizes: &Sizes, arguments: &[B::Tensor]) -> Result<Arc<Compiled<B>>> {
        let sizes = if self.unrolls { sizes.clone() } else { Sizes::new() };
        if let Some(entry) = self.cache.find(|entry| entry.serves(&sizes, &[])) {
            self.reused.fetch_add(1, Ordering::Relaxed);
            return Ok(entry.compiled.clone());
        }
        let statics = self.statics(at, arguments)?;
        self.compiled(at, sizes, &statics)
    }

    /// The program that serves these sizes and these numbers of static inputs: compiled here if no other call does so.
    fn compiled(&self, at: &Place, sizes: Sizes, statics: &[(usize, i64)]) -> Result<Arc<Compiled<B>>> {
        let (signature, watch) = ((sizes, statics.to_vec()), Watch::current());
        let mut is_new = false;
        let entry = self.cache.find_or_make(
            &signature,
            |entry| entry.serves(&signature.0, statics),
            || watch.check(at, Ran::Ops(0)),
            || {
                is_new = true;
                self.lowered(signature.0.clone(), statics).map(Arc::new)
            },
        )?;
        let count = if is_new { &self.compiled } else { &self.reused };
        count.fetch_add(1, Ordering::Relaxed);
        Ok(entry.compiled.clone())
    }

    /// Compiles the program for these sizes and these numbers of static inputs.
    fn lowered(&self, sizes: Sizes, statics: &[(usize, i64)]) -> Result<Entry<B>> {
        let _span = super::span::compile(self.graph.name());
        let start = Instant::now();
        let lowering = Lowering::new(Settings::new(&self.backend, &self.options), sizes.clone());
        let lowered = lowering.program(&self.runnable, statics);
        let (program, notes) = lowered.map_err(|error| self.graph.explain(error))?;
        let is_needed = |(input, _): &&(usize, i64)| notes.statics.contains(input);
        let statics = statics.iter().filter(is_needed).copied().collect();
        let compiled = Arc::new(Compiled { program, notes, time: start.elapsed(), peak: Mutex::new(None) });
        Ok(Entry { sizes, statics, compiled })
    }

    /// How many instructions the program for the last call has, those of native loops' bodies included.
    pub fn instructions(&self) -> usize {
        self.cache.last().map_or(0, |entry| entry.compiled.program.len())
    }

    /// What the graph became: its size as a program, how its loops run, the memory of its plan.
    pub fn report(&self) -> Report {
        let mut report = Report {
            graph_ops: count_ops(&self.graph),
            rewrites: counts(&self.patches),
            counts: self.counts(),
            ..Report::default()
        };
        let last = self.last().as_ref().map(|last| (last.compiled.clone(), last.sizes.clone()));
        let made = self.cache.last().map(|entry| entry.compiled.clone());
        if let Some(compiled) = last.as_ref().map(|(compiled, _)| compiled.clone()).or(made) {
            report.instructions = compiled.program.len();
            report.loops = compiled.notes.loops.clone();
            for each in report.loops.iter_mut().filter(|each| each.site != Site::Unknown) {
                each.rewrites = counts(self.patches.iter().filter(|patch| patch.site == each.site));
            }
            report.declined = compiled.notes.declined.clone();
            report.compile_time = compiled.time;
            report.program_bytes = compiled.program.bytes(&mut HashSet::new());
        }
        report.peak_bytes = last.and_then(|(compiled, sizes)| Some(compiled.program.peak_bytes(&sizes)?.0));
        report
    }
}

/// Checks that every op has a lowering rule and every type fits the device; tells whether programs are made for sizes: where a
/// loop is unrolled or compiled, or the program as a whole.
fn validate<B: Backend>(settings: &Settings<'_, B>, graph: &Graph) -> Result<bool> {
    let mut unrolls = settings.compiles() == Compiles::Programs;
    for input in graph.inputs() {
        check_type(settings.backend, &Place::new(graph.name(), Site::Unknown), graph.ty(input.value))?;
    }
    for node in graph.live() {
        let at = node.place();
        for output in &node.outputs {
            check_type(settings.backend, &at, graph.ty(*output))?;
        }
        match &node.op {
            Op::Constant(_) | Op::BindSize(_) => {}
            Op::Scan(scan) => {
                // A loop that ends early runs from the host; forced to be unrolled, it asks for its largest count.
                let is_laid_out = scan.until.is_none() || settings.forced().is_some();
                let strategy = settings.strategy_of(scan, &at)?;
                unrolls |= is_laid_out && strategy == LoopStrategy::Unroll;
                unrolls |= settings.compiles() == Compiles::Loops;
                unrolls |= validate(settings, &scan.body)?;
            }
            Op::Switch(_) | Op::While(_) => {
                if let Op::While(While { bound: Some(bound), .. }) = &node.op {
                    unrolls |= settings.strategy == Some(LoopStrategy::Unroll) && bound.constant().is_none();
                }
                unrolls |= settings.compiles() == Compiles::Loops;
                for body in node.op.bodies() {
                    unrolls |= validate(settings, body)?;
                }
            }
            Op::AssociativeScan(op) => {
                unrolls |= settings.compiles() == Compiles::Loops;
                let sweeps = op.sweeps(&at, &graph.types(&node.inputs), &vec![true; op.leaves])?;
                for program in [&sweeps.up, &sweeps.down] {
                    unrolls |= validate(settings, program)?;
                }
            }
            op if !has_kernel(settings.backend, op.name()) => _ = rule_of(settings.backend, op.name(), &at)?,
            _ => {}
        }
    }
    Ok(unrolls)
}

fn check_type<B: Backend>(backend: &B, at: &Place, ty: &TensorType) -> Result<()> {
    match backend.unsupported(ty.dtype, ty.rank()) {
        None => Ok(()),
        Some(reason) => Err(Error::Unsupported {
            at: at.boxed(),
            backend: backend.name().to_string(),
            what: format!("tensors of type {ty}"),
            reason,
            fix: "use another dtype or fewer axes, or another backend".into(),
        }),
    }
}

/// Host tensors by name, in the order of a graph's inputs.
pub fn ordered_inputs(at: &Place, graph: &Graph, named: &BTreeMap<String, HostTensor>) -> Result<Vec<HostTensor>> {
    let names: Vec<&str> = (0..graph.inputs().len()).map(|index| graph.input_name(index)).collect();
    if let Some(name) = named.keys().find(|name| !names.contains(&name.as_str())) {
        let fix = "remove it, or name it as an input of the program";
        return Err(call_error(at, &format!("argument `{name}`"), names.join(", "), name.clone(), fix));
    }
    let argument = |(index, name): (usize, &&str)| {
        let (expected, fix) = (graph.input_type(index).to_string(), "pass a tensor of that name");
        let missing = || call_error(at, &format!("argument `{name}`"), expected, "nothing".into(), fix);
        named.get(*name).cloned().ok_or_else(missing)
    };
    names.iter().enumerate().map(argument).collect()
}
