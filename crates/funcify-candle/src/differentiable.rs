//! Runs a compiled graph as a single op of Candle's autodiff.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use candle_core::{DType, Result, Shape, Tensor};
use funcify_core::cancel::{ActiveHandles, Progress};
use funcify_core::derivative::BackwardInput;
use funcify_core::error::Place;
use funcify_core::graph::Node;
use funcify_core::ops::Op;
use funcify_core::{CheckpointPolicy, Graph};
use funcify_cpu::DerivativePrograms;
use funcify_runtime::{Cache, CompileOptions, Function, LoopStrategy, Report, TrackedCall};

use crate::autodiff::node::{attach, place};
use crate::autodiff::storage::Elements;
use crate::device::Candle;
use crate::errors;

/// A compiled graph that acts as a single node of Candle's graph: `backward` runs funcify's own backward program.
///
/// A call takes any number of arguments and returns any number of results, of mixed types. Gradients are computed for
/// tracked arguments. The programs are specialised to the set of tracked inputs, so that untracked inputs cost
/// nothing. A policy selects the residuals that the forward pass saves for the backward pass
/// ([`DifferentiableOptions::policy`]). `backward` may be repeated, and may run in several threads. Calling
/// `backward` on a gradient, to compute a second derivative, is an error: differentiate the graph instead.
///
/// ```
/// use candle_core::{Device, Tensor, Var};
/// use funcify::{Graph, scan};
/// use funcify_candle::{Candle, Differentiable};
///
/// let leaky = Graph::build("leaky", |g| {
///     let (xs, start, decay) = (g.input("xs", "f32[T]"), g.input("start", "f32[]"), g.input("decay", "f32[]"));
///     scan(start, xs, |sum, x| (sum * decay + x, ())).0
/// })?;
/// let leaky = Differentiable::compile(&leaky, &Candle::cpu())?;
///
/// let xs = Tensor::new(&[1f32, 2.0, 3.0], &Device::Cpu)?;
/// let decay = Var::new(0.5f32, &Device::Cpu)?;
/// let last = &leaky.call(&[xs, Tensor::new(0f32, &Device::Cpu)?, decay.as_tensor().clone()])?[0];
/// let gradients = last.backward()?; // d(decay^2 + 2 decay + 3)
/// assert_eq!(gradients.get(&decay).unwrap().to_scalar::<f32>()?, 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Differentiable {
    /// The program for calls without tracked arguments.
    primal: Function<Candle>,
    policy: Option<CheckpointPolicy>,
    tracked: TrackedPrograms,
}

/// One flag per input (`true` if the input is tracked), and the programs for these flags. The programs are `None` if no
/// gradient can reach a tracked input.
type ProgramsForInputs = (Vec<bool>, Option<Arc<Programs>>);

/// The cached programs of a graph for calls with tracked arguments.
pub struct TrackedPrograms {
    by_inputs: Cache<Vec<bool>, ProgramsForInputs>,
    /// The programs of the last call, or `None` if that call had no tracked results.
    last: Mutex<Option<Arc<Programs>>>,
}

impl Default for TrackedPrograms {
    fn default() -> Self {
        TrackedPrograms { by_inputs: Cache::new(MAX_CACHED), last: Mutex::default() }
    }
}

/// A graph to compile and differentiate, with its options.
struct ProgramSource<'a> {
    graph: &'a Graph,
    candle: &'a Candle,
    compile: &'a CompileOptions,
    policy: Option<&'a CheckpointPolicy>,
}

/// The maximum number of sets of tracked inputs for which programs are cached.
const MAX_CACHED: usize = 64;

/// Options for compiling a [`Differentiable`].
///
/// ```
/// use candle_core::{Device, Tensor, Var};
/// use funcify::{CheckpointPolicy, Graph, scan};
/// use funcify_candle::{Candle, Differentiable, DifferentiableOptions};
///
/// let power = Graph::build("power", |g| {
///     let (xs, start) = (g.input("xs", "f32[T]"), g.input("start", "f32[]"));
///     scan(start, xs, |product, x| (product * x, ())).0
/// })?;
/// let options = DifferentiableOptions::new().policy(CheckpointPolicy::Recompute);
/// let power = Differentiable::compile_with(&power, &Candle::cpu(), options)?;
/// let start = Var::new(2f32, &Device::Cpu)?;
/// let xs = Tensor::new(&[3f32, 4.0], &Device::Cpu)?;
/// let product = &power.call(&[xs, start.as_tensor().clone()])?[0];
/// assert_eq!(product.backward()?.get(&start).unwrap().to_scalar::<f32>()?, 12.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DifferentiableOptions {
    compile: CompileOptions,
    policy: Option<CheckpointPolicy>,
}

impl Default for DifferentiableOptions {
    fn default() -> Self {
        DifferentiableOptions::new()
    }
}

impl DifferentiableOptions {
    /// Creates the default options. Loops are compiled if possible; otherwise, they run step by step. Compiled loops
    /// save only the values that are expensive to recompute ([`CheckpointPolicy::SaveCostly`]). Other loops save
    /// everything that their backward loops need ([`CheckpointPolicy::SaveAll`]), which is still less than Candle's
    /// graph would hold.
    pub fn new() -> Self {
        let compile = CompileOptions { strategy: LoopStrategy::Compiled, ..CompileOptions::default() };
        DifferentiableOptions { compile, policy: None }
    }

    /// Sets the options for compiling the programs.
    pub fn compile(mut self, options: CompileOptions) -> Self {
        self.compile = options;
        self
    }

    /// Sets the policy for the residuals that loops save for their backward loops.
    pub fn policy(mut self, policy: CheckpointPolicy) -> Self {
        self.policy = Some(policy);
        self
    }
}

/// The forward and backward programs for one set of tracked inputs.
struct Programs {
    pair: DerivativePrograms<Candle>,
    /// The number of elements of the largest constant in either program.
    largest_constant: usize,
}

enum BackwardArgument {
    Value(Tensor),
    /// The cotangent of an output: the output's index among the float outputs, its shape and its dtype.
    Cotangent(usize, Shape, DType),
}

impl Differentiable {
    /// Compiles a graph with the default options.
    ///
    /// ```
    /// use funcify::Graph;
    /// use funcify_candle::{Candle, Differentiable};
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
    /// let square = Differentiable::compile(&square, &Candle::cpu())?;
    /// assert_eq!(square.graph().name(), "square");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn compile(graph: &Graph, candle: &Candle) -> funcify_core::Result<Self> {
        Self::compile_with(graph, candle, DifferentiableOptions::new())
    }

    /// Compiles a graph with the given options.
    ///
    /// ```
    /// use funcify::Graph;
    /// use funcify::dispatch::CompileOptions;
    /// use funcify_candle::{Candle, Differentiable, DifferentiableOptions};
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
    /// // The program is compiled as a whole, though it has no loop.
    /// let options = DifferentiableOptions::new().compile(CompileOptions { whole: true, ..CompileOptions::default() });
    /// let square = Differentiable::compile_with(&square, &Candle::cpu(), options)?;
    /// assert_eq!(square.graph().name(), "square");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn compile_with(graph: &Graph, candle: &Candle, options: DifferentiableOptions) -> funcify_core::Result<Self> {
        let primal = Function::compile_with(graph, candle, options.compile)?;
        Ok(Differentiable { primal, policy: options.policy, tracked: TrackedPrograms::default() })
    }

    /// Returns the graph that was compiled.
    pub fn graph(&self) -> &Graph {
        self.primal.graph()
    }

    /// Returns reports on the programs of the last call: the strategy of each loop, the memory use, and the reasons why
    /// loops are not compiled. If that call had tracked results, returns a report on the forward program and one on the
    /// backward program. Otherwise, and before the first call, returns only a report on the program without
    /// derivatives.
    ///
    /// ```
    /// use candle_core::{Device, Tensor, Var};
    /// use funcify::dispatch::LoopStrategy;
    /// use funcify::{Graph, scan};
    /// use funcify_candle::{Candle, Differentiable};
    ///
    /// let sums = Graph::build("sums", |g| {
    ///     let (xs, a) = (g.input("xs", "f32[T,2]"), g.input("a", "f32[2]"));
    ///     scan(a, xs, |sum, x| (sum * a + x, sum)).1
    /// })?;
    /// let sums = Differentiable::compile(&sums, &Candle::cpu())?;
    /// assert_eq!(sums.report().len(), 1);
    ///
    /// let a = Var::new(&[0.5f32, 0.25], &Device::Cpu)?;
    /// let xs = Tensor::ones((5, 2), candle_core::DType::F32, &Device::Cpu)?;
    /// sums.call(&[xs, a.as_tensor().clone()])?;
    /// let [forward, _backward] = sums.report().try_into().unwrap();
    /// assert_eq!(forward.loops[0].strategy, LoopStrategy::Compiled);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report(&self) -> Vec<Report> {
        match &*lock(&self.tracked.last) {
            None => vec![self.primal.report()],
            Some(programs) => vec![programs.pair.forward.report(), programs.pair.backward.report()],
        }
    }

    /// Runs the graph on arguments in the order of its inputs. If there is a differentiable path from a tracked
    /// argument to any result, all float results are tracked. As in Candle, a tracked argument without such a path, for
    /// example one that is only compared, has no gradient. If such a path contains an op without a derivative, the call
    /// returns an error.
    ///
    /// ```
    /// use candle_core::{Device, Tensor, Var};
    /// use funcify::Graph;
    /// use funcify_candle::{Candle, Differentiable};
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f32[]").square())?;
    /// let square = Differentiable::compile(&square, &Candle::cpu())?;
    /// let x = Var::new(3f32, &Device::Cpu)?;
    /// let y = &square.call(&[x.as_tensor().clone()])?[0];
    /// assert_eq!(y.backward()?.get(&x).unwrap().to_scalar::<f32>()?, 6.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn call(&self, arguments: &[Tensor]) -> Result<Vec<Tensor>> {
        let at = place(self.graph().name());
        let (graph, candle, compile) = (self.graph(), self.primal.backend(), self.primal.options());
        let results = self.tracked.run_tracked(
            &at,
            ProgramSource { graph, candle, compile, policy: self.policy.as_ref() },
            arguments,
        );
        let results = results.unwrap_or_else(|| {
            let values: Vec<Tensor> = arguments.iter().map(Tensor::detach).collect();
            self.primal.call(&values)
        });
        results.map_err(|error| errors::into_candle(errors::for_caller(&at, error)))
    }
}

/// Calls a plain function as a single op of Candle's autodiff. Returns `None` if no argument can have a gradient.
pub(crate) fn call_tracked(
    call: &TrackedCall<'_, Candle>,
    candle: &Candle,
    arguments: &[Tensor],
) -> Option<funcify_core::Result<Vec<Tensor>>> {
    let source = ProgramSource { graph: call.graph, candle, compile: call.options, policy: None };
    let results = call.tracked.run_tracked(call.at, source, arguments);
    results.map(|results| results.map_err(|error| errors::for_caller(call.at, error)))
}

impl TrackedPrograms {
    /// Calls a graph as a single node of Candle's graph. Returns `None` if no argument can have a gradient.
    fn run_tracked(
        &self,
        at: &Place,
        source: ProgramSource<'_>,
        arguments: &[Tensor],
    ) -> Option<funcify_core::Result<Vec<Tensor>>> {
        let tracked: Vec<bool> = arguments.iter().map(is_tracked).collect();
        // If the number of arguments is wrong, the program without derivatives reports the error.
        if !tracked.contains(&true) || arguments.len() != source.graph.inputs().len() {
            *lock(&self.last) = None;
            return None;
        }
        let values: Vec<Tensor> = arguments.iter().map(Tensor::detach).collect();
        let programs = match self.find_or_make_programs(at, &source, tracked, &values) {
            Ok(programs) => programs,
            Err(error) => return Some(Err(error)),
        };
        lock(&self.last).clone_from(&programs);
        programs.map(|programs| forward(at, programs, arguments, values, source.graph.outputs().len()))
    }

    /// Returns the programs for a set of tracked inputs, or `None` if no gradient can reach these inputs. Compiles the
    /// programs on first use, and optimises the layout of the residuals for the sizes of the first call's arguments.
    fn find_or_make_programs(
        &self,
        at: &Place,
        source: &ProgramSource<'_>,
        tracked: Vec<bool>,
        arguments: &[Tensor],
    ) -> funcify_core::Result<Option<Arc<Programs>>> {
        let goes_on = || ActiveHandles::current().check(at, Progress::Uncounted);
        let make = || Ok((tracked.clone(), source.make_programs(&tracked, arguments)?));
        Ok(self.by_inputs.find_or_make(&tracked, |(of, _)| *of == tracked, goes_on, make)?.1)
    }
}

/// Runs the forward program, and attaches its results to Candle's graph as one node.
fn forward(
    at: &Place,
    programs: Arc<Programs>,
    arguments: &[Tensor],
    values: Vec<Tensor>,
    count: usize,
) -> funcify_core::Result<Vec<Tensor>> {
    let results = programs.pair.forward.call(&values)?;
    let inputs = arguments.iter().zip(&programs.pair.differentiated).filter(|(_, by)| **by);
    let inputs: Vec<Tensor> = inputs.map(|(tensor, _)| tensor.clone()).collect();
    attach_results(at, programs, &inputs, values, results, count).map_err(|error| errors::execution_error(at, error))
}

impl ProgramSource<'_> {
    /// Compiles the programs for a set of tracked inputs. Returns `None` if no gradient can reach these inputs.
    fn make_programs(&self, tracked: &[bool], arguments: &[Tensor]) -> funcify_core::Result<Option<Arc<Programs>>> {
        // Do not check the types of the arguments here, because the forward program reports a mismatch when it is
        // called.
        let is_differentiable = |index: usize| tracked[index] && self.graph.input_type(index).dtype.is_float();
        let by: Vec<bool> = (0..tracked.len()).map(is_differentiable).collect();
        let sizes: Vec<Vec<usize>> = arguments.iter().map(|tensor| tensor.dims().to_vec()).collect();
        let pair = DerivativePrograms::compile(self.graph, self.candle, &by, &sizes, self.compile, self.policy)?;
        Ok(pair.map(|pair| {
            let [forward, backward] = [&pair.forward, &pair.backward].map(|program| largest_constant(program.graph()));
            Arc::new(Programs { pair, largest_constant: forward.max(backward) })
        }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `true` if Candle tracks a tensor and its elements are floats. Other tensors have no gradient.
pub(crate) fn is_tracked(tensor: &Tensor) -> bool {
    tensor.track_op() && tensor.dtype().is_float()
}

/// Attaches the results of a forward program to Candle's graph as one node. The first `count` results are the graph's
/// results, and all others are residuals.
fn attach_results(
    at: &Place,
    programs: Arc<Programs>,
    inputs: &[Tensor],
    values: Vec<Tensor>,
    results: Vec<Tensor>,
    count: usize,
) -> Result<Vec<Tensor>> {
    let floats: Vec<usize> = (0..count).filter(|index| results[*index].dtype().is_float()).collect();
    if floats.is_empty() {
        return Ok(results.into_iter().take(count).collect());
    }
    let saved: Arc<OnceLock<Vec<BackwardArgument>>> = Arc::default();
    let pull = {
        let (programs, saved, at) = (programs.clone(), saved.clone(), at.clone());
        move |cotangents: &[Option<Tensor>]| {
            let Some(saved) = saved.get() else {
                crate::errors::bail!("{}: backward ran before the forward pass had finished", at.op);
            };
            let arguments = saved.iter().map(|argument| match argument {
                BackwardArgument::Value(tensor) => Ok(tensor.clone()),
                BackwardArgument::Cotangent(index, shape, dtype) => match &cotangents[*index] {
                    Some(cotangent) => Ok(cotangent.clone()),
                    None => {
                        let given = cotangents.iter().flatten().next();
                        let given = given.expect("backward runs only if an output has a cotangent");
                        Tensor::zeros(shape, *dtype, given.device())
                    }
                },
            });
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let gradients = programs.pair.backward.call(&arguments);
            let gradients = gradients.map_err(|error| errors::into_candle(errors::for_caller(&at, error)))?;
            let gradients = Elements::from_results(gradients, arguments.iter(), programs.largest_constant);
            Ok(gradients.into_iter().map(Some).collect())
        }
    };
    let others = results.iter().enumerate().filter(|(index, _)| !floats.contains(index)).map(|(_, result)| result);
    let outputs = floats.iter().map(|index| results[*index].clone()).collect();
    let outputs = Elements::from_results(outputs, others.chain(&values), programs.largest_constant);
    let mut results = results;
    for (index, tracked) in floats.iter().zip(attach(at, inputs, &outputs, Box::new(pull))?) {
        results[*index] = tracked;
    }
    let takes = programs.pair.backward_inputs.iter().map(|input| match input {
        BackwardInput::Input(index) => BackwardArgument::Value(values[*index].clone()),
        // `detach` does not copy: the saved tensor shares its storage with the output.
        BackwardInput::Output(index) => BackwardArgument::Value(results[*index].detach()),
        BackwardInput::Cotangent(index) => {
            let (result, number) = (&results[*index], floats.iter().position(|float| float == index));
            BackwardArgument::Cotangent(
                number.expect("only float outputs have cotangents"),
                result.shape().clone(),
                result.dtype(),
            )
        }
    });
    // `set` cannot fail, because the cell is set only here.
    let _ = saved.set(takes.collect());
    results.truncate(count);
    Ok(results)
}

/// Returns the number of elements of the largest constant of a graph and its bodies.
fn largest_constant(graph: &Graph) -> usize {
    let of = |node: &Node| match &node.op {
        Op::Constant(constant) => constant.value.len(),
        op => op.bodies().into_iter().map(|body| largest_constant(body)).max().unwrap_or(0),
    };
    graph.nodes().iter().map(of).max().unwrap_or(0)
}
