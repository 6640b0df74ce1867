//! Runs scans whose body is a closure on Burn tensors.

use funcify_core::graph::at_site;
use funcify_core::{CheckpointPolicy, Dim};
use funcify_runtime::CompileOptions;

use super::import::import;
use super::inner::{self, InnerLoop};
use super::record::{Record, device_of, type_of};
use super::recorded::Closure;
use super::sequence::{Sequences, Stacked};
use super::trace::Trace;
use super::weights::{Weights, check_training};
use super::*;

/// Runs `body` over the rows of `xs`, carrying a state: `(carry, y) = body(weights, carry, x)` for each row `x`, from
/// the first to the last. Returns the last carry and all `y` stacked along axis 0.
///
/// The body may use any Burn ops and modules. Burn's graph capture records one step, which becomes the body of a
/// funcify loop. The loop is one op of Burn's autodiff: `backward()` runs a backward loop, which computes the gradients
/// of `init`, `xs` and `weights`. The backward loop recomputes no steps, unless [`Scan::policy`] selects a policy that
/// recomputes them to save memory. `scan` calls the body only to record it: twice in the first call from a source line,
/// and once in each later call from that line. The first call caches its compiled function, and later calls reuse it.
///
/// A `scan` in the body becomes a nested loop of the graph. Its body may use values that the outer body has computed.
/// The options [`Scan::compile`] and [`Scan::policy`] of the outermost loop apply to all nested loops.
///
/// Gradients stop where they stop in Burn: `detach`, `set_require_grad(false)` and `no_grad` in the body become
/// `stop_gradient` in the graph. A tensor without a differentiable path to a result has no gradient. With autodiff, the
/// gradients of a new body are compared with those of Burn's own backward pass, on arguments from several ranges. The
/// comparison is skipped if that pass contains an op without a translation to funcify's ops.
///
/// The body must not capture a module. It receives the module as an argument instead, because Burn's graph capture
/// records only ops on tensors of its own device: the body is called with a copy of the module whose parameters are on
/// that device. See [`Weights`] for the types that `weights` may have.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::nn::{Linear, LinearConfig};
/// use burn::tensor::{Device, Distribution, Tensor};
///
/// let device = Device::flex().autodiff();
/// let linear = LinearConfig::new(4, 4).init(&device);
/// let xs = Tensor::<3>::random([100, 2, 4], Distribution::Default, &device);
/// let h = Tensor::<2>::zeros([2, 4], &device);
///
/// // for x in xs.iter_dim(0) { h = (linear.forward(h) + x.squeeze_dim(0)).tanh(); }
/// let (h, _hs) = funcify_burn::scan(&linear, h, xs, |linear, h, x| {
///     let h = (linear.forward(h) + x).tanh();
///     (h.clone(), h)
/// })?;
///
/// let gradients = h.sum().backward();
/// assert!(linear.weight.grad(&gradients).is_some());
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
///
/// # Errors
/// Returns `Unsupported` for a body that cannot be recorded:
///
/// - It uses a Burn op without a translation; the error names the op.
/// - It reads elements of its tensors (`into_scalar`, `into_data`, printing), draws random numbers, or uses tensors
///   that were not passed to it.
/// - It moves tensors (`to_device`), or removes or adds autodiff (`inner`, `from_inner`, `backward`).
/// - It has layers in training mode (see [`Scan::inference`]).
/// - Its gradients in Burn differ from those of the recorded ops, because a Burn op (for example `batch_norm_train`)
///   has its own derivative rule.
///
/// Returns `Type` if the types of the next carry and of `init` differ. Also returns the errors of running a
/// [`Differentiable`](crate::Differentiable).
#[track_caller]
pub fn scan<W: Weights, C: Tensors, X: Sequences, Y: Stacked>(
    weights: W,
    init: C,
    xs: X,
    body: impl Fn(W::Inside, C, X::Row) -> (C, Y),
) -> Result<(C, Y::Stack)> {
    Scan::new().run(weights, init, xs, body)
}

/// A scan with options: its direction, number of steps, checkpoint policy and compile options.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use funcify_burn::Scan;
///
/// let xs = Tensor::<1>::from_data([1.0, 2.0, 3.0], &Device::flex());
/// let sum = Tensor::<1>::zeros([1], &Device::flex());
/// let (_, sums) = Scan::new().reverse().run((), sum, xs, |(), sum, x| (sum.clone() + x.clone(), sum + x))?;
/// assert_eq!(sums.into_data().try_into_vec::<f32>().unwrap(), [6.0, 5.0, 3.0]);
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scan {
    length: Option<usize>,
    is_reversed: bool,
    is_inference: bool,
    function: DifferentiableOptions,
}

impl Scan {
    /// Creates a scan from the first row to the last, with default options.
    pub fn new() -> Self {
        Scan::default()
    }

    /// Sets the number of steps. Required for a loop without sequences.
    pub fn length(mut self, steps: usize) -> Self {
        self.length = Some(steps);
        self
    }

    /// Runs the loop from the last row to the first. Row `i` of the ys still belongs to row `i` of the xs.
    pub fn reverse(mut self) -> Self {
        self.is_reversed = true;
        self
    }

    /// Runs layers that behave differently in training (dropout and batch normalisation) in inference mode. Without
    /// this option, a module with such layers is rejected under autodiff, because Burn's capture cannot record training
    /// mode.
    pub fn inference(mut self) -> Self {
        self.is_inference = true;
        self
    }

    /// Selects the residuals that the loop saves for its backward loop. See [`DifferentiableOptions::policy`] for the
    /// default.
    pub fn policy(mut self, policy: CheckpointPolicy) -> Self {
        self.function.policy = Some(policy);
        self
    }

    /// Sets the options for compiling the loop's programs.
    pub fn compile(mut self, options: CompileOptions) -> Self {
        self.function.compile = options;
        self
    }

    /// Runs the loop with these options: see [`scan`].
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use funcify_burn::Scan;
    ///
    /// // Two to the power of ten, without sequences.
    /// let one = Tensor::<1>::ones([1], &Device::flex());
    /// let (power, ()) = Scan::new().length(10).run((), one, (), |(), power, ()| (power * 2.0, ()))?;
    /// assert_eq!(power.into_scalar::<f32>(), 1024.0);
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`scan`].
    #[track_caller]
    pub fn run<W: Weights, C: Tensors, X: Sequences, Y: Stacked>(
        &self,
        weights: W,
        init: C,
        xs: X,
        body: impl Fn(W::Inside, C, X::Row) -> (C, Y),
    ) -> Result<(C, Y::Stack)> {
        let line = Location::caller();
        let at = Place::new("scan", Site::Rust(line));
        let operands = Operands::new(&at, &weights, init, xs)?;
        if operands.all().any(inner::is_recorded) {
            return self.record_inner::<W, C, X, Y>(&at, &weights, operands, body);
        }
        let recorded = self.record_loop::<W, C, X, Y>(line, &at, &weights, operands, false, body)?;
        let mut results = recorded.function.run(&at, recorded.arguments)?;
        let stacks = results.split_off(recorded.carry);
        Ok((structure(&at, "part of the carry", results)?, structure(&at, "result", stacks)?))
    }

    /// Returns the loop as a graph. Its inputs are the weights that the body uses, under their own names, followed by
    /// the carries `init`, `init_1` and so on, and the sequences `xs`, `xs_1` and so on. The number of steps is the
    /// symbol `T`, unless [`Scan::length`] sets it. The outputs are those of [`scan`].
    ///
    /// The elements of `init` and `xs`, and the number of rows, are ignored.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use funcify_burn::Scan;
    ///
    /// let xs = Tensor::<2>::ones([5, 3], &Device::flex());
    /// let sum = Tensor::<1>::zeros([3], &Device::flex());
    /// let traced = Scan::new().trace((), sum, xs, |(), sum, x| (sum + x, ()))?;
    /// assert_eq!(traced.graph().input_type(1).to_string(), "f32[T,3]");
    /// # }
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`scan`].
    #[track_caller]
    pub fn trace<W: Weights, C: Tensors, X: Sequences, Y: Stacked>(
        &self,
        weights: W,
        init: C,
        xs: X,
        body: impl Fn(W::Inside, C, X::Row) -> (C, Y),
    ) -> Result<Trace> {
        let line = Location::caller();
        let at = Place::new("scan", Site::Rust(line));
        let operands = Operands::new(&at, &weights, init, xs)?;
        let recorded = self.record_loop::<W, C, X, Y>(line, &at, &weights, operands, true, body)?;
        Ok(Trace::new(recorded.function, recorded.used))
    }

    fn record_loop<W: Weights, C: Tensors, X: Sequences, Y: Stacked>(
        &self,
        line: &'static Location<'static>,
        at: &Place,
        weights: &W,
        operands: Operands,
        is_traced: bool,
        body: impl Fn(W::Inside, C, X::Row) -> (C, Y),
    ) -> Result<RecordedLoop> {
        let counts = operands.counts();
        let types = operands.types(at)?;
        if !self.is_inference {
            let fix = "draw masks before the loop and pass them as a sequence, or use `Scan::new().inference()`";
            check_training(at, weights, operands.all(), fix)?;
        }
        let device = device_of(operands.all()).ok_or_else(|| no_tensors_error(at))?;
        let Operands { weights: given, carry, sequences } = operands;
        let body = |device: &Device, tensors: Vec<AnyTensor>| {
            let mut tensors = tensors.into_iter();
            let inside = weights.inside(at, device, &mut tensors)?;
            let before = structure(at, "part of the carry", tensors.by_ref().take(counts.carry).collect())?;
            let row = structure(at, "row", tensors.collect())?;
            let (after, y) = body(inside, before, row);
            collect_results(at, counts.carry, after, y)
        };
        let closure = Closure { line, at, device: &device, types: &types, body: &body };
        let device = if is_traced { closure.device_for_graph()? } else { device.clone() };
        let closure = Closure { device: &device, ..closure };
        let named: Vec<String> = given.iter().map(|(name, _)| name.clone()).collect();
        let key = format!("{self:?}, {} of carry, weights {named:?}", counts.carry);
        let graph = |record: &Record| self.graph(at, record, &types, &counts, named);
        let function = closure.function(key, &self.function, graph);
        let (function, used) = function.map_err(|error| for_caller(at, error))?;
        let weights = given.into_iter().zip(&used).filter_map(|((_, tensor), used)| used.then_some(tensor));
        let arguments = weights.chain(carry).chain(sequences).collect();
        Ok(RecordedLoop { function, used, arguments, carry: counts.carry })
    }

    /// Records the loop as an inner loop of a closure that is itself being recorded.
    fn record_inner<W: Weights, C: Tensors, X: Sequences, Y: Stacked>(
        &self,
        at: &Place,
        weights: &W,
        operands: Operands,
        body: impl Fn(W::Inside, C, X::Row) -> (C, Y),
    ) -> Result<(C, Y::Stack)> {
        operands.types(at)?;
        let like = operands.first(at)?.clone();
        let Operands { weights: given, carry, sequences } = operands;
        let steps = self.steps(at, &sequences)?;
        let (carries, before) = (carry.len(), carry.iter().map(inner::type_of).collect::<Vec<_>>());
        let mut params = before.clone();
        params.extend(sequences.iter().map(inner::type_of).map(|(dtype, shape)| (dtype, shape[1..].to_vec())));
        let inner = InnerLoop { is_reversed: self.is_reversed, steps, carries };
        let mut params = inner::begin(at, &like, &inner, &[carry, sequences].concat(), &params)?.into_iter();
        let mut given = given.into_iter().map(|(_, tensor)| tensor).collect::<Vec<_>>().into_iter();
        let inside = weights.inside(at, &like.device(), &mut given)?;
        let state = structure(at, "part of the carry", params.by_ref().take(carries).collect())?;
        let row = structure(at, "row", params.collect())?;
        let (after, y) = body(inside, state, row);
        let results = collect_results(at, carries, after, y)?;
        for (index, (result, ty)) in results.iter().zip(&before).enumerate() {
            if inner::type_of(result) != *ty {
                let (component, fix) = (format!("part {index} of the next carry"), "return the type that `init` has");
                return Err(at.mismatch(component, format!("{:?}{:?}", ty.0, ty.1), result.describe(), fix));
            }
        }
        let mut outputs = before;
        let ys = results[carries..].iter().map(inner::type_of);
        outputs.extend(ys.map(|(dtype, shape)| (dtype, [&[steps], shape.as_slice()].concat())));
        let mut outputs = inner::end(at, &like, &results, &outputs)?;
        let stacks = outputs.split_off(carries);
        Ok((structure(at, "part of the carry", outputs)?, structure(at, "result", stacks)?))
    }

    /// Returns the number of steps, after checking that the sequences and [`Scan::length`] agree.
    fn steps(&self, at: &Place, sequences: &[AnyTensor]) -> Result<usize> {
        let rows = sequences.iter().filter_map(|tensor| tensor.shape().first().copied());
        let mut counts = self.length.into_iter().chain(rows);
        let step_count_error = |reason: String| Error::StepCount {
            at: at.boxed(),
            reason,
            fix: "set the number of steps with `Scan::length`, or pass sequences with that many rows".into(),
        };
        let steps = counts.next().ok_or_else(|| step_count_error("neither sequences nor a length are given".into()))?;
        match counts.find(|count| *count != steps) {
            None => Ok(steps),
            Some(other) => {
                Err(step_count_error(format!("{steps} steps are requested, but a sequence has {other} rows")))
            }
        }
    }

    fn graph(
        &self,
        at: &Place,
        record: &Record,
        types: &[TensorType],
        counts: &Counts,
        weights: Vec<String>,
    ) -> Result<Graph> {
        let (mut names, deferred) = (distinct_names(weights), DeferredError::default());
        let mut options = ScanOptions::new();
        if self.is_reversed {
            options = options.reverse();
        }
        if let Some(length) = self.length {
            options = options.length(length);
        }
        let used = record.used_inputs();
        let graph = Graph::build("scan", |g| {
            let mut types = types.iter();
            let mut weights = Vec::with_capacity(counts.weights);
            for (index, ty) in types.by_ref().take(counts.weights).enumerate() {
                // Unused weights are not inputs, because they have no gradient in Burn either.
                weights.push(used[index].then(|| g.input(&names.0[index], ty)));
            }
            let of = |kind: &str, names: &mut DistinctNames| names.add(kind);
            let init = types.by_ref().take(counts.carry).map(|ty| g.input(&of("init", &mut names), ty));
            let init: Vec<Value> = init.collect();
            let steps = match self.length {
                Some(length) => Dim::from(length),
                None => Dim::from("T"),
            };
            let xs = types.map(|ty| {
                let shape = ty.shape.with_inserted(0, steps.clone());
                g.input(&of("xs", &mut names), ty.with_shape(shape))
            });
            let xs: Vec<Value> = xs.collect();
            at_site(at.site, || {
                scan_with(options, init, xs, |carry: Vec<Value>, row: Vec<Value>| {
                    // The record has an input for every weight. An unused weight gets an arbitrary value.
                    let any = weights.iter().flatten().chain(&carry).chain(&row).next().copied();
                    let weights = weights.iter().map(|weight| weight.or(any));
                    let Some(mut inputs) = weights.collect::<Option<Vec<Value>>>() else {
                        return (carry, Vec::new());
                    };
                    inputs.extend(carry.iter().chain(&row));
                    let results = import(at, record, &inputs).map(|results| split_carry(results, counts.carry));
                    deferred.unwrap_or_keep(results, || (carry, Vec::new()))
                })
            })
        });
        deferred.into_result(graph)
    }
}

/// A loop with a recorded body.
struct RecordedLoop {
    function: Arc<Differentiable>,
    /// One flag per weight: `true` if the body uses it.
    used: Vec<bool>,
    /// The arguments of the call to `function`.
    arguments: Vec<AnyTensor>,
    /// The number of carries, which are the first results of `function`.
    carry: usize,
}

/// The number of weights and the number of carries. A body receives the weights, the carries, and then the rows.
struct Counts {
    weights: usize,
    carry: usize,
}

/// The operands of a loop.
struct Operands {
    /// The weights, each with its name.
    weights: Vec<(String, AnyTensor)>,
    carry: Vec<AnyTensor>,
    sequences: Vec<AnyTensor>,
}

impl Operands {
    fn new<C: Tensors, X: Sequences>(at: &Place, weights: &impl Weights, init: C, xs: X) -> Result<Self> {
        let mut sequences = Vec::new();
        xs.into_leaves(&mut sequences);
        Ok(Operands { weights: weights.tensors(at)?, carry: leaves_of(init), sequences })
    }

    fn all(&self) -> impl Iterator<Item = &AnyTensor> + Clone {
        self.weights.iter().map(|(_, weight)| weight).chain(&self.carry).chain(&self.sequences)
    }

    fn first(&self, at: &Place) -> Result<&AnyTensor> {
        self.all().next().ok_or_else(|| no_tensors_error(at))
    }

    fn counts(&self) -> Counts {
        Counts { weights: self.weights.len(), carry: self.carry.len() }
    }

    /// Returns the types of a body's arguments: the weights, the carries, and a row of each sequence.
    fn types(&self, at: &Place) -> Result<Vec<TensorType>> {
        let weights = self.weights.iter().map(|(name, tensor)| type_of(at, &format!("weight `{name}`"), tensor, false));
        let carry = self.carry.iter().enumerate();
        let carry = carry.map(|(index, it)| type_of(at, &format!("part {index} of `init`"), it, false));
        let rows = self.sequences.iter().enumerate().map(|(index, tensor)| {
            let component = format!("sequence {index}");
            match tensor.shape().len() {
                0 | 1 => {
                    let (expected, fix) =
                        ("a tensor whose rows have rank 1 or more", "reshape it so that its rows are along axis 0");
                    Err(misfit(at, component, expected, tensor.describe(), fix))
                }
                _ => type_of(at, &component, tensor, true),
            }
        });
        weights.chain(carry).chain(rows).collect()
    }
}

fn no_tensors_error(at: &Place) -> Error {
    at.mismatch("the loop", "a weight, a carry or a sequence", "none", "pass a carry")
}

/// Returns the results of a body: the next carry, then the ys. Checks that the next carry has `carries` tensors.
fn collect_results<C: Tensors, Y: Stacked>(at: &Place, carries: usize, after: C, y: Y) -> Result<Vec<AnyTensor>> {
    let mut results = leaves_of(after);
    if results.len() != carries {
        let (expected, found) = (format!("{carries} tensors"), format!("{} tensors", results.len()));
        return Err(at.mismatch("the next carry", expected, found, "return as many as `init` has"));
    }
    y.into_leaves(&mut results);
    Ok(results)
}
