//! Runs a compiled graph as one op of Burn's autodiff.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::backend::{DispatchAutodiffContext, GradientCheckpointingStrategy};
use burn::tensor::Device;
use funcify_core::Graph;
use funcify_core::cancel::{self, ActiveHandles};
use funcify_core::error::{Place, Result, Site};
use funcify_runtime::{Backend, Cache, Report};

use super::any::{AnyTensor, without_autodiff};
use super::derivative::Derivative;
use super::node::{Pull, TapeOp, add_to_tape, is_tracked};
use super::options::DifferentiableOptions;
use super::tensors::{Tensors, leaves_of, structure};
use super::{device_error, for_caller, misfit};
use crate::device::Burn;
use crate::kinds::{self, Tensor};

/// A graph that can be called on Burn tensors, as one op of Burn's autodiff.
///
/// The graph runs on the device of its arguments, and is compiled on the first call for each device. If an argument is
/// tracked, `backward()` runs funcify's own backward program. Each call adds only a few nodes to the tape, however many
/// steps the graph's loops run. An untracked argument is a constant, and if no argument is tracked, nothing is
/// recorded. As in Burn, a tracked argument has no gradient if it has no differentiable path to a result, for example
/// if only comparisons use it.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use funcify::{Graph, scan};
/// use funcify_burn::Differentiable;
///
/// let decay = Graph::build("decay", |g| {
///     let (xs, a) = (g.input("xs", "f32[T,2]"), g.input("a", "f32[2]"));
///     scan(xs.index(0, 0).zeros_like(), xs, |sum, x| (sum * a + x, ()))
/// })
/// .unwrap();
/// let decay = Differentiable::new(&decay);
///
/// let device = Device::flex().autodiff();
/// let a = Tensor::<1>::from_data([0.5, 0.5], &device).require_grad();
/// let xs = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 4.0]], &device);
/// let last: Tensor<1> = decay.call((xs, a.clone())).unwrap();
/// let gradients = last.sum().backward();
/// let gradient = a.grad(&gradients).unwrap();
/// assert_eq!(gradient.into_data().try_into_vec::<f32>().unwrap(), [1.0, 2.0]);
/// # }
/// ```
///
/// Burn's autodiff supports only first-order derivatives, and its `backward()` consumes the tape. For higher-order
/// derivatives, differentiate the graph itself (`Graph::grad`, `Graph::vjp`), and create a `Differentiable` from the
/// new graph.
#[derive(Debug)]
pub struct Differentiable {
    graph: Arc<Graph>,
    options: DifferentiableOptions,
    devices: Mutex<Vec<Arc<OnDevice>>>,
    last: Mutex<LastPrograms>,
}

/// The programs of the last call, or `None` before the first call.
#[derive(Default)]
struct LastPrograms(Option<CalledPrograms>);

impl std::fmt::Debug for LastPrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastPrograms").finish_non_exhaustive()
    }
}

/// The programs compiled for one device.
struct OnDevice {
    burn: Burn,
    /// The program without derivatives, or `None` until a call needs it.
    forward: Mutex<Option<Arc<funcify_runtime::Function<Burn>>>>,
    /// The forward and backward programs for each set of tracked inputs.
    derivatives: Cache<Vec<bool>, Tracked>,
}

/// A set of tracked inputs, as one flag per input, and the derivative for this set. The derivative is `None` if no
/// input has a gradient.
type Tracked = (Vec<bool>, Option<Arc<Derivative>>);

/// The maximum number of derivatives to cache for a device.
const MAX_CACHED: usize = 64;

/// The programs of a call: the program without derivatives, or a forward program and a backward program.
#[derive(Clone)]
enum CalledPrograms {
    Forward(Arc<funcify_runtime::Function<Burn>>),
    Derivative(Arc<Derivative>),
}

impl std::fmt::Debug for OnDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnDevice").field("burn", &self.burn).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Differentiable {
    /// Creates a function that runs a graph. The graph is compiled on the first call.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use funcify::Graph;
    /// use funcify_burn::Differentiable;
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f32[N]").square())?;
    /// let square = Differentiable::new(&square);
    /// let y: Tensor<1> = square.call(Tensor::<1>::from_data([3.0], &Device::flex()))?;
    /// assert_eq!(y.into_scalar::<f32>(), 9.0);
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn new(graph: &Graph) -> Self {
        Differentiable::with_options(graph, DifferentiableOptions::default())
    }

    /// Creates a function that runs a graph with the given options.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use funcify::Graph;
    /// use funcify::dispatch::CompileOptions;
    /// use funcify_burn::{Differentiable, DifferentiableOptions};
    ///
    /// let square = Graph::build("square", |g| g.input("x", "f32[N]").square())?;
    /// // The program is compiled as a whole, though it has no loop.
    /// let compile = CompileOptions { whole: true, ..CompileOptions::default() };
    /// let square = Differentiable::with_options(&square, DifferentiableOptions { compile, ..Default::default() });
    /// assert_eq!(square.graph().name(), "square");
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn with_options(graph: &Graph, options: DifferentiableOptions) -> Self {
        Differentiable {
            graph: Arc::new(graph.clone()),
            options,
            devices: Mutex::new(Vec::new()),
            last: Mutex::default(),
        }
    }

    /// Returns the graph that this function runs.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Runs the graph on a structure of tensors. The tensors must be in the order of the graph's inputs. Returns the
    /// results as a structure of type `R`. Burn has no scalars, so a scalar is passed and returned as a vector of one
    /// element.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use funcify::Graph;
    /// use funcify_burn::Differentiable;
    ///
    /// let parts = Graph::build("parts", |g| {
    ///     let x = g.input("x", "f32[N]");
    ///     (x.square(), x.sum(0))
    /// })?;
    /// let device = Device::flex().autodiff();
    /// let x = Tensor::<1>::from_data([3.0, 4.0], &device).require_grad();
    /// let (squares, sum): (Tensor<1>, Tensor<1>) = Differentiable::new(&parts).call(x.clone())?;
    /// let gradients = (squares.sum() + sum).backward();
    /// assert_eq!(x.grad(&gradients).unwrap().into_data().try_into_vec::<f32>().unwrap(), [7.0, 9.0]);
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Call`](funcify_core::Error::Call) if arguments or results do not match the graph, or if
    /// arguments are on different devices. Returns [`Error::NoDerivative`](funcify_core::Error::NoDerivative) if the
    /// gradient of a tracked argument passes through an op without a derivative. Also returns any error from compiling
    /// or running the graph.
    ///
    /// # Panics
    /// Burn's `backward()` cannot return an error, so it panics if the backward program fails. The panic message is the
    /// text of the error.
    #[track_caller]
    pub fn call<R: Tensors>(&self, arguments: impl Tensors) -> Result<R> {
        let at = Place::new(self.graph.name(), Site::caller());
        let results = self.run(&at, leaves_of(arguments))?;
        structure(&at, "result", results)
    }

    /// Returns reports on the programs of the last call: how their loops run, how much memory they use, and why a loop
    /// is not compiled. The first report is on the forward program. If an argument was tracked, a second report is on
    /// the backward program. Before the first call, the list is empty.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use funcify::dispatch::LoopStrategy;
    /// use funcify::{Graph, scan};
    /// use funcify_burn::Differentiable;
    ///
    /// let sums = Graph::build("sums", |g| {
    ///     let (xs, a) = (g.input("xs", "f32[T,2]"), g.input("a", "f32[2]"));
    ///     scan(a, xs, |sum, x| (sum * a + x, sum)).1
    /// })?;
    /// let sums = Differentiable::new(&sums);
    /// assert!(sums.report().is_empty());
    ///
    /// let device = Device::flex().autodiff();
    /// let a = Tensor::<1>::ones([2], &device).require_grad();
    /// let _: Tensor<2> = sums.call((Tensor::<2>::ones([5, 2], &device), a))?;
    /// let [forward, _backward] = sums.report().try_into().unwrap();
    /// assert_eq!(forward.loops[0].strategy, LoopStrategy::Compiled);
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn report(&self) -> Vec<Report> {
        match &lock(&self.last).0 {
            None => Vec::new(),
            Some(CalledPrograms::Forward(function)) => vec![function.report()],
            Some(CalledPrograms::Derivative(derivative)) => derivative.reports(),
        }
    }

    pub(crate) fn run(&self, at: &Place, arguments: Vec<AnyTensor>) -> Result<Vec<AnyTensor>> {
        self.run_on(at, arguments).map_err(|error| for_caller(at, error))
    }

    fn run_on(&self, at: &Place, arguments: Vec<AnyTensor>) -> Result<Vec<AnyTensor>> {
        let (device, strategy) = self.device_of(at, &arguments)?;
        let tracked: Vec<bool> = arguments.iter().map(|argument| is_tracked(argument.as_dispatch())).collect();
        let of_tracked = arguments.iter().enumerate().filter(|(index, _)| tracked[*index]);
        let of_tracked = of_tracked.map(|(index, argument)| (index, argument.as_dispatch().clone()));
        let of_tracked: Vec<(usize, Tensor)> = of_tracked.collect();
        let plain = arguments.into_iter().map(|argument| without_autodiff(argument.into_dispatch())).enumerate();
        let plain = plain
            .map(|(index, argument)| self.with_input_rank(at, index, argument))
            .collect::<Result<Vec<Tensor>>>()?;
        let burn = &device.burn;
        // If the number of arguments is wrong, the program without derivatives reports the error.
        let derivative = match of_tracked.is_empty() || plain.len() != self.graph.inputs().len() {
            true => None,
            false => self.derivative(at, &device, &tracked, &plain)?,
        };
        let Some(derivative) = derivative else {
            let forward = self.forward(&device)?;
            let results = forward.call(&plain)?;
            lock(&self.last).0 = Some(CalledPrograms::Forward(forward));
            let results =
                results.into_iter().map(|result| scalar_to_vector(at, burn, result)).collect::<Result<_>>()?;
            return self.put_on_tape(at, burn, strategy, Vec::new(), results, Box::new(|_| Vec::new()));
        };
        let operands = of_tracked.into_iter().filter(|(index, _)| derivative.programs.differentiated[*index]);
        let operands: Vec<Tensor> = operands.map(|(_, operand)| operand).collect();
        let (results, saved) = derivative.forward(plain)?;
        lock(&self.last).0 = Some(CalledPrograms::Derivative(derivative.clone()));
        let results = results.into_iter().map(|result| scalar_to_vector(at, burn, result)).collect::<Result<_>>()?;
        let sizes: Vec<Vec<usize>> = operands.iter().map(kinds::sizes).collect();
        let of_call = at.clone();
        let pull: Pull = Box::new(move |cotangents| match derivative.backward(saved, cotangents, &sizes) {
            Ok(gradients) => gradients,
            Err(error) => panic!("{}", for_caller(&of_call, error)),
        });
        self.put_on_tape(at, burn, strategy, operands, results, pull)
    }

    /// Puts the results on the tape if `strategy` is `Some`, which means that an argument has autodiff enabled.
    /// Otherwise returns the results unchanged.
    fn put_on_tape(
        &self,
        at: &Place,
        burn: &Burn,
        strategy: Option<GradientCheckpointingStrategy>,
        operands: Vec<Tensor>,
        results: Vec<Tensor>,
        pull: Pull,
    ) -> Result<Vec<AnyTensor>> {
        let results = match strategy {
            None => results,
            Some(strategy) => add_to_tape(TapeOp { strategy, operands, results, pull })
                .map_err(|source| device_error(at, burn.name(), source))?,
        };
        Ok(results.into_iter().map(AnyTensor::new).collect())
    }

    /// Returns the device of the arguments, and the checkpointing strategy if an argument has autodiff enabled. Returns
    /// an error if the arguments have different devices or checkpointing strategies.
    fn device_of(
        &self,
        at: &Place,
        arguments: &[AnyTensor],
    ) -> Result<(Arc<OnDevice>, Option<GradientCheckpointingStrategy>)> {
        let Some(first) = arguments.first().map(AnyTensor::device) else {
            let (expected, found) = ("a tensor that determines the device", "no tensors");
            return Err(misfit(at, "the argument list", expected, found, "add an input to the graph"));
        };
        let mut strategy = None;
        for (index, argument) in arguments.iter().enumerate() {
            let component = || format!("argument {index} (`{}`)", self.input_name(index));
            let device = argument.device();
            if device.as_dispatch() != first.as_dispatch() {
                let (expected, found) = (format!("a tensor on {first:?}"), format!("one on {device:?}"));
                return Err(misfit(at, component(), expected, found, "move the arguments to one device"));
            }
            match (argument.as_dispatch().autodiff, strategy) {
                (DispatchAutodiffContext::Disabled, _) => {}
                (DispatchAutodiffContext::Enabled(found), Some(expected)) if found != expected => {
                    let (expected, found) = (format!("gradient checkpointing {expected:?}"), format!("{found:?}"));
                    let fix = "use one gradient checkpointing strategy for all arguments";
                    return Err(misfit(at, component(), expected, found, fix));
                }
                (DispatchAutodiffContext::Enabled(found), _) => strategy = Some(found),
            }
        }
        Ok((self.on_device(&first)?, strategy))
    }

    fn on_device(&self, device: &Device) -> Result<Arc<OnDevice>> {
        let mut devices = lock(&self.devices);
        let on_device = devices.iter().find(|each| each.burn.device().as_dispatch() == device.as_dispatch());
        if let Some(on_device) = on_device {
            return Ok(on_device.clone());
        }
        let (forward, derivatives) = (Mutex::new(None), Cache::new(MAX_CACHED));
        let new = Arc::new(OnDevice { burn: Burn::of(device)?, forward, derivatives });
        devices.push(new.clone());
        Ok(new)
    }

    fn forward(&self, device: &OnDevice) -> Result<Arc<funcify_runtime::Function<Burn>>> {
        let mut forward = lock(&device.forward);
        if let Some(forward) = &*forward {
            return Ok(forward.clone());
        }
        let options = self.options.compile.clone();
        let compiled = Arc::new(funcify_runtime::Function::compile_with(&self.graph, &device.burn, options)?);
        *forward = Some(compiled.clone());
        Ok(compiled)
    }

    fn derivative(
        &self,
        at: &Place,
        device: &OnDevice,
        tracked: &[bool],
        arguments: &[Tensor],
    ) -> Result<Option<Arc<Derivative>>> {
        let sizes = || arguments.iter().map(kinds::sizes).collect::<Vec<Vec<usize>>>();
        let make = || {
            let new = Derivative::new(at, &self.graph, &device.burn, tracked, &sizes(), &self.options)?;
            Ok((tracked.to_vec(), new.map(Arc::new)))
        };
        let goes_on = || ActiveHandles::current().check(at, cancel::Progress::Uncounted);
        Ok(device.derivatives.find_or_make(&tracked.to_vec(), |(by, _)| by == tracked, goes_on, make)?.1)
    }

    fn input_name(&self, index: usize) -> &str {
        if index < self.graph.inputs().len() { self.graph.input_name(index) } else { "" }
    }

    /// Converts an argument of one element to a scalar if the graph's input `index` is a scalar.
    fn with_input_rank(&self, at: &Place, index: usize, argument: Tensor) -> Result<Tensor> {
        let is_scalar = index < self.graph.inputs().len() && self.graph.input_type(index).rank() == 0;
        if !is_scalar || kinds::sizes(&argument) != [1] {
            return Ok(argument);
        }
        kinds::resized(argument, &[]).map_err(|source| device_error(at, "burn", source))
    }
}

/// Converts a scalar result to a vector of one element, because Burn has no scalars.
fn scalar_to_vector(at: &Place, burn: &Burn, result: Tensor) -> Result<Tensor> {
    match kinds::rank(&result) {
        0 => kinds::resized(result, &[1]).map_err(|source| device_error(at, burn.name(), source)),
        _ => Ok(result),
    }
}
