//! Implements [`Stepper`], which runs a single-step program and keeps its states as tensors of the backend.

use std::collections::BTreeMap;
use std::path::Path;

use funcify_core::graph::call_error;
use funcify_core::tree::Named;
use funcify_core::{HostTensor, Value, concat};
use funcify_rewrite::{Rewrite, RewriteOptions};

use super::*;
use crate::backend::{Backend, CompileOptions, execution_error};

use crate::function::Function;
use crate::host::files::{read_safetensors, write_safetensors};

/// Runs a sequence program, such as a filter, a controller or a generative model, one step at a time.
///
/// [`Steppable::stepped`] describes the supported programs. The initial states and the values that are the same in each
/// step are computed once and stay on the device. Each step is a single call of a program that is compiled once ([as a
/// whole](CompileOptions::whole) if the backend compiles loops). On backends that run loops natively or compile entire
/// programs, the results are bit-identical to those of the sequence program, provided that the ops outside the loop
/// compute the same bits for one row as for many.
///
/// ```
/// use funcify::dispatch::{Reference, Stepper};
/// use funcify::{Graph, HostTensor, scan};
///
/// let average = Graph::build("average", |g| {
///     let [xs, start, decay] = [g.input("xs", "f32[T]"), g.input("start", "f32[]"), g.input("decay", "f32[]")];
///     scan(start, xs, |mean, x| {
///         let next = mean * decay + x * (1.0 - decay);
///         (next, next)
///     }).1
/// })?;
/// let fixed = [HostTensor::scalar(0f32), HostTensor::scalar(0.5f32)];
/// let mut stepper = Stepper::with_host(&average, &Reference, &fixed)?;
/// assert_eq!(stepper.step_host(&[HostTensor::scalar(4f32)])?, [HostTensor::scalar(2f32)]);
/// assert_eq!(stepper.step_host(&[HostTensor::scalar(4f32)])?, [HostTensor::scalar(3f32)]);
/// assert_eq!(stepper.state()?["start"], HostTensor::scalar(3f32));
/// # Ok::<(), funcify::Error>(())
/// ```
///
/// # Many streams
///
/// If the states have an axis of symbolic size, such as `B`, the stepper runs `B` streams at once.
/// [`streams`](Stepper::streams) changes the set of streams, by gathering along that axis of the states.
///
/// ```
/// use funcify::dispatch::{Reference, Stepper};
/// use funcify::{Graph, HostTensor, scan};
///
/// let sums = Graph::build("sums", |g| {
///     let [xs, start] = [g.input("xs", "f32[T,B]"), g.input("start", "f32[B]")];
///     scan(start, xs, |sum, x| (sum + x, sum + x)).1
/// })?;
/// let mut stepper = Stepper::with_host(&sums, &Reference, &[HostTensor::from([0f32, 0.0])])?;
/// stepper.step_host(&[HostTensor::from([1f32, 2.0])])?;
/// // Stream 0 leaves, stream 1 stays, and two begin.
/// stepper.streams("B", &[Some(1), None, None])?;
/// assert_eq!(stepper.step_host(&[HostTensor::from([10f32, 20.0, 30.0])])?[0], HostTensor::from([12f32, 20.0, 30.0]));
/// # Ok::<(), funcify::Error>(())
/// ```
///
/// A state without an axis of size `B`, such as a step counter, is shared by all streams. If the steps change a shared
/// state, a new stream cannot join running ones, because resetting the state would disturb them. To let new streams
/// join, give the state an axis of size `B`: for example, use a counter of type `f32[B]` instead of `f32[]`.
pub struct Stepper<B: Backend> {
    stepped: Stepped,
    /// The compiled step, without duplicate outputs.
    step: Function<B>,
    /// For each output of [`Stepped::step`], the index of the corresponding result of `step`.
    results: Vec<usize>,
    /// For each state, `true` if steps change it.
    changes: Vec<bool>,
    /// `true` if the states still have their initial values: neither a step nor `set_state` has replaced them.
    is_at_start: bool,
    /// The initial states of the streams with which the stepper was created, then the values that are the same in each
    /// step.
    original: Vec<B::Tensor>,
    /// The initial states of the current streams, then the values that are the same in each step.
    initial: Vec<B::Tensor>,
    /// The current states, then the values that are the same in each step.
    current: Vec<B::Tensor>,
    /// The most recently used program that gathers streams.
    gather: Option<Gather<B>>,
    /// For each symbol passed to [`streams`](Stepper::streams), lists the current streams: each entry is the index in
    /// `original` of the stream that provided the current stream's initial states.
    origins: BTreeMap<Symbol, Vec<i64>>,
}

/// A compiled program that gathers streams along the axis whose size is `symbol`.
struct Gather<B: Backend> {
    symbol: Symbol,
    /// The other symbols that were passed to [`streams`](Stepper::streams).
    others: Vec<Symbol>,
    program: Function<B>,
}

impl<B: Backend> Stepper<B> {
    /// Creates a stepper for a sequence program. `fixed` contains the inputs of [`Stepped::start`], in order: usually
    /// the inputs of the program that are not sequences.
    ///
    /// # Errors
    /// Returns `NotSteppable` if the program has no single-step form ([`Steppable::stepped`]), and the errors of
    /// [`Function::compile`] and [`Function::call`].
    #[track_caller]
    pub fn new(graph: &Graph, backend: &B, fixed: &[B::Tensor]) -> Result<Self> {
        Self::with_options(graph, backend, CompileOptions::default(), fixed)
    }

    /// Creates a stepper like [`new`](Stepper::new), with options for compiling the two graphs.
    #[track_caller]
    pub fn with_options(graph: &Graph, backend: &B, options: CompileOptions, fixed: &[B::Tensor]) -> Result<Self> {
        let stepped = graph.stepped()?;
        // Compile both graphs as a whole. The start graph then returns contiguous tensors. Otherwise, each step might
        // have to read the values that are the same in each step through strided views.
        let options = CompileOptions { whole: true, ..options };
        let Outputs { distinct, results, changes } = Outputs::of(&stepped, options.rewrites.as_ref())?;
        let step = Function::compile_with(&distinct, backend, options.clone())?;
        let original = Function::compile_with(&stepped.start, backend, options)?.call(fixed)?;
        let (initial, current) = (original.clone(), original.clone());
        let (is_at_start, gather, origins) = (true, None, BTreeMap::new());
        Ok(Stepper { stepped, step, results, changes, is_at_start, initial, current, original, gather, origins })
    }

    /// Creates a stepper like [`new`](Stepper::new), with inputs in host memory.
    #[track_caller]
    pub fn with_host(graph: &Graph, backend: &B, fixed: &[HostTensor]) -> Result<Self> {
        let at = Place::new("stepper", Site::caller());
        let uploaded = fixed.iter().map(|tensor| upload(backend, &at, tensor)).collect::<Result<Vec<_>>>()?;
        Self::new(graph, backend, &uploaded)
    }

    /// Creates a stepper for the graph of a function, with the function's backend and options.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use funcify::dispatch::{Function, Reference, Stepper};
    /// use funcify::{Graph, HostTensor, scan};
    ///
    /// let sums = Graph::build("sums", |g| {
    ///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[T]")];
    ///     scan(start, xs, |h, x| (h + x, h + x)).1
    /// })?;
    /// let sums = Function::compile(&sums, &Reference)?;
    /// let mut stepper = Stepper::of(&sums, &[Arc::new(HostTensor::scalar(1f32))])?;
    /// assert_eq!(stepper.step_host(&[2f32.into()])?, [HostTensor::scalar(3f32)]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn of(function: &Function<B>, fixed: &[B::Tensor]) -> Result<Self> {
        Self::with_options(function.graph(), function.backend(), function.options().clone(), fixed)
    }

    /// Runs one step and returns the outputs. `rows` contains one row of each sequence, in the order of the program's
    /// inputs, without the step axis. If the step fails, the states are unchanged.
    #[track_caller]
    pub fn step(&mut self, rows: &[B::Tensor]) -> Result<Vec<B::Tensor>> {
        if rows.len() != self.stepped.rows {
            let at = Place::new(self.stepped.step.name(), Site::caller());
            let names: Vec<&str> = self.row_inputs().map(|input| self.stepped.step.input_name(input)).collect();
            let expected = format!("one row of each of {} sequences ({})", names.len(), names.join(", "));
            let fix = "pass one tensor per sequence, in the order of the program's inputs";
            return Err(call_error(&at, "the argument list", expected, format!("{} tensors", rows.len()), fix));
        }
        let inputs = self.row_inputs();
        self.current.splice(inputs.start..inputs.start, rows.iter().cloned());
        let results = self.step.call(&self.current);
        self.current.drain(inputs);
        let results = results?;
        self.is_at_start = false;
        let (states, outputs) = self.results.split_at(self.stepped.states);
        self.current.iter_mut().zip(states).for_each(|(state, next)| state.clone_from(&results[*next]));
        Ok(outputs.iter().map(|output| results[*output].clone()).collect())
    }

    /// Runs one step like [`step`](Stepper::step), on rows in host memory.
    #[track_caller]
    pub fn step_host(&mut self, rows: &[HostTensor]) -> Result<Vec<HostTensor>> {
        let at = Place::new(self.stepped.step.name(), Site::caller());
        let backend = self.step.backend();
        let uploaded = rows.iter().map(|row| upload(backend, &at, row)).collect::<Result<Vec<_>>>()?;
        let outputs = self.step(&uploaded)?;
        let graph = &self.stepped.step;
        let types = (self.stepped.states..).map(|output| graph.output_type(output));
        outputs.iter().zip(types).map(|(tensor, ty)| download(self.step.backend(), &at, tensor, ty)).collect()
    }

    /// Resets the states of all streams to their initial values.
    pub fn reset(&mut self) {
        self.current.clone_from(&self.initial);
        self.is_at_start = true;
    }

    /// Returns the two graphs that the stepper runs.
    pub fn stepped(&self) -> &Stepped {
        &self.stepped
    }

    /// Returns the compiled step. Unlike [`Stepped::step`], it has no duplicate outputs.
    pub fn function(&self) -> &Function<B> {
        &self.step
    }

    /// Returns the states as tensors of the backend, in the order of the inputs of [`Stepped::step`].
    pub fn tensors(&self) -> &[B::Tensor] {
        &self.current[..self.stepped.states]
    }

    /// Downloads the states and returns them keyed by name.
    #[track_caller]
    pub fn state(&self) -> Result<BTreeMap<String, HostTensor>> {
        let at = Place::new("state", Site::caller());
        let graph = &self.stepped.step;
        let named = self.tensors().iter().enumerate().map(|(index, tensor)| {
            let tensor = download(self.step.backend(), &at, tensor, graph.input_type(index))?;
            Ok((graph.input_name(index).to_string(), tensor))
        });
        named.collect()
    }

    /// Replaces all states. Returns an error, and leaves the states unchanged, if a name is missing or unknown, or if
    /// the type or the sizes of a state differ from the current ones. To restore states for a different number of
    /// streams, first call [`streams`](Stepper::streams) to change the number.
    ///
    /// ```
    /// use funcify::dispatch::{Reference, Stepper};
    /// use funcify::{Graph, HostTensor, scan};
    ///
    /// let sums = Graph::build("sums", |g| {
    ///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[T]")];
    ///     scan(start, xs, |h, x| (h + x, h + x)).1
    /// })?;
    /// let mut stepper = Stepper::with_host(&sums, &Reference, &[0f32.into()])?;
    /// stepper.step_host(&[2f32.into()])?;
    /// let state = stepper.state()?;
    /// stepper.step_host(&[5f32.into()])?;
    /// stepper.set_state(&state)?; // as before the last step
    /// assert_eq!(stepper.step_host(&[1f32.into()])?, [HostTensor::scalar(3f32)]);
    /// stepper.reset();
    /// assert_eq!(stepper.step_host(&[1f32.into()])?, [HostTensor::scalar(1f32)]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn set_state(&mut self, states: &BTreeMap<String, HostTensor>) -> Result<()> {
        self.replace_states(&Place::new("set_state", Site::caller()), states)
    }

    /// Writes the states to a safetensors file.
    ///
    /// ```
    /// use funcify::dispatch::{Reference, Stepper};
    /// use funcify::{Graph, HostTensor, scan};
    ///
    /// let sums = Graph::build("sums", |g| {
    ///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[T]")];
    ///     scan(start, xs, |h, x| (h + x, h + x)).1
    /// })?;
    /// let mut stepper = Stepper::with_host(&sums, &Reference, &[0f32.into()])?;
    /// stepper.step_host(&[2f32.into()])?;
    /// let path = std::env::temp_dir().join("funcify-state.safetensors");
    /// stepper.save_state(&path)?;
    /// stepper.reset();
    /// stepper.load_state(&path)?;
    /// assert_eq!(stepper.step_host(&[1f32.into()])?, [HostTensor::scalar(3f32)]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn save_state(&self, path: impl AsRef<Path>) -> Result<()> {
        write_safetensors(path, &self.state()?)
    }

    /// Replaces the states with those in a safetensors file, like [`set_state`](Stepper::set_state).
    #[track_caller]
    pub fn load_state(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let at = Place::new("load_state", Site::caller());
        let states = read_safetensors(path)?;
        self.replace_states(&at, &states)
    }

    /// Changes the set of streams along the axis whose size is the symbol `streams`. For each new batch index, `from`
    /// contains the index of the current stream that continues there, or `None` for a new stream. A stream may continue
    /// at several indices.
    ///
    /// The stepper keeps the initial states of the streams with which it was created, and their slices of the values
    /// that are the same in each step. A new stream starts with the states and slices of its own batch index, or of
    /// index 0 if the stepper was created with fewer streams. States without a stream axis are unchanged, unless
    /// all streams are new. In that case, they are reset to their initial values.
    ///
    /// # Errors
    /// Returns an error, and leaves the states unchanged, if:
    ///
    /// - `from` contains the index of a stream that does not exist;
    /// - no state has an axis of this size;
    /// - the type of a state, or of a value that is the same in each step, uses the symbol in two axes or in a formula;
    /// - a new stream would join running ones, and the steps change a state without a stream axis.
    #[track_caller]
    pub fn streams(&mut self, streams: &str, from: &[Option<usize>]) -> Result<()> {
        let at = Place::new("streams", Site::caller());
        let symbol = Symbol::new(streams);
        let axes = self.stream_axes(&at, &symbol)?;
        let others: Vec<Symbol> = self.origins.keys().filter(|it| **it != symbol).cloned().collect();
        if self.gather.as_ref().is_none_or(|gather| gather.symbol != symbol || gather.others != others) {
            let program = Function::compile(&self.gather_graph(&at, &symbol, &others)?, self.step.backend())?;
            self.gather = Some(Gather { symbol: symbol.clone(), others: others.clone(), program });
        }
        let (rows, origins) = self.rows_and_origins(&at, &symbol, &axes, from)?;
        let (begins, goes_on) = (from.contains(&None), from.iter().any(Option::is_some));
        if begins && goes_on && !self.is_at_start {
            self.check_shared(&at, &symbol, &axes)?;
        }
        let backend = self.step.backend();
        let chosen = std::iter::once(&rows).chain(others.iter().map(|other| &self.origins[other]));
        let chosen = chosen.map(|rows| {
            let rows =
                HostTensor::from_vec(rows.clone(), [rows.len()]).expect("the shape matches the number of elements");
            upload(backend, &at, &rows)
        });
        let mut arguments = chosen.collect::<Result<Vec<_>>>()?;
        for (index, _) in axes.iter().enumerate().filter(|(_, axis)| axis.is_some()) {
            arguments.extend([&self.current[index], &self.initial[index], &self.original[index]].map(Clone::clone));
        }
        let gather = self.gather.as_ref().expect("the program for this symbol was made above");
        let mut gathered = gather.program.call(&arguments)?.into_iter();
        for (index, _) in axes.iter().enumerate().filter(|(_, axis)| axis.is_some()) {
            if let (Some(current), Some(initial)) = (gathered.next(), gathered.next()) {
                (self.current[index], self.initial[index]) = (current, initial);
            }
        }
        self.origins.insert(symbol, origins);
        if begins && !goes_on {
            self.reset();
        }
        Ok(())
    }

    /// Returns two lists with one entry per new batch index: the row to gather from the concatenation of the current
    /// and the original streams, and the index of the original stream that provides the initial states for this batch
    /// index.
    fn rows_and_origins(
        &self,
        at: &Place,
        symbol: &Symbol,
        axes: &[Option<usize>],
        from: &[Option<usize>],
    ) -> Result<(Vec<i64>, Vec<i64>)> {
        let count = |tensors: &[B::Tensor]| {
            let backend = self.step.backend();
            let counted = axes.iter().zip(tensors).find_map(|(axis, tensor)| Some(backend.shape(tensor)[(*axis)?]));
            counted.expect("checked by `stream_axes`: a state has the axis of the streams")
        };
        let (current, original) = (count(&self.current), count(&self.original));
        let began = self.origins.get(symbol).cloned().unwrap_or_else(|| (0..original as i64).collect());
        let (mut rows, mut origins) = (Vec::with_capacity(from.len()), Vec::with_capacity(from.len()));
        for (index, stream) in from.iter().enumerate() {
            let (row, origin) = match stream {
                Some(stream) if *stream < current => (*stream, began[*stream]),
                None if original > 0 => {
                    let origin = if index < original { index } else { 0 };
                    (current + origin, origin as i64)
                }
                _ => {
                    let found =
                        stream.map_or("a stepper that was created without streams".into(), |it| format!("stream {it}"));
                    let fix = "use the index of a current stream, or `None` for a new one";
                    let expected = format!("one of {current} streams");
                    return Err(call_error(at, &format!("batch index {index}"), expected, found, fix));
                }
            };
            rows.push(row as i64);
            origins.push(origin);
        }
        Ok((rows, origins))
    }

    /// Returns an error if steps change a state that all streams share, because a new stream could not start from the
    /// initial value of that state.
    fn check_shared(&self, at: &Place, symbol: &Symbol, axes: &[Option<usize>]) -> Result<()> {
        let is_shared = |index: &usize| self.changes[*index] && axes[*index].is_none();
        let Some(index) = (0..self.stepped.states).find(is_shared) else { return Ok(()) };
        let (name, ty) = (self.stepped.step.input_name(index), self.kept_type(index));
        let with_axis = ty.shape.dims().iter().cloned();
        let with_axis = ty.with_shape(std::iter::once(Dim::symbol(symbol)).chain(with_axis).collect::<Vec<_>>());
        let expected = format!("an axis of {symbol} streams, because a new stream joins running ones");
        let found = format!("{ty}, which the steps so far have changed for all streams");
        let fix = format!("carry one state per stream, as `{with_axis}`; or start all streams anew");
        Err(at.mismatch(format!("state `{name}`"), expected, found, fix))
    }

    /// Returns the indices of the step's inputs that are rows of sequences.
    fn row_inputs(&self) -> std::ops::Range<usize> {
        self.stepped.states..self.stepped.states + self.stepped.rows
    }

    /// Returns the index of the step's input that receives entry `index` of `current`.
    fn kept_input(&self, index: usize) -> usize {
        if index < self.stepped.states { index } else { index + self.stepped.rows }
    }

    /// Returns the type of entry `index` of `current`, which is a state or a value that is the same in each step.
    fn kept_type(&self, index: usize) -> &TensorType {
        self.stepped.step.input_type(self.kept_input(index))
    }

    fn replace_states(&mut self, at: &Place, states: &BTreeMap<String, HostTensor>) -> Result<()> {
        let graph = &self.stepped.step;
        let names: Vec<&str> = (0..self.stepped.states).map(|index| graph.input_name(index)).collect();
        if let Some(name) = states.keys().find(|name| !names.contains(&name.as_str())) {
            let fix = "pass the states that `state` returned for the same program";
            return Err(call_error(at, &format!("state `{name}`"), names.join(", "), name.clone(), fix));
        }
        let mut tensors = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            // The sizes must not change, because the other states, and the values that are the same in each step, use
            // them too.
            let shape = self.step.backend().shape(&self.current[index]);
            let ty = TensorType::new(graph.input_type(index).dtype, shape.as_slice());
            let found = states.get(*name);
            let Some(tensor) = found.filter(|tensor| tensor.ty() == ty) else {
                let found = found.map_or_else(|| "nothing".to_string(), |tensor| tensor.ty().to_string());
                let fix = "pass the states that `state` returned for the same program and number of streams";
                return Err(call_error(at, &format!("state `{name}`"), ty.to_string(), found, fix));
            };
            tensors.push(upload(self.step.backend(), at, tensor)?);
        }
        self.current.iter_mut().zip(tensors).for_each(|(state, tensor)| *state = tensor);
        self.is_at_start = false;
        Ok(())
    }

    /// Returns the axis of the streams for each entry of `current`, or `None` for entries without such an axis. Returns
    /// an error if no state has such an axis, or if an entry uses the symbol in two axes or in a formula.
    fn stream_axes(&self, at: &Place, symbol: &Symbol) -> Result<Vec<Option<usize>>> {
        let streams = Dim::symbol(symbol);
        let mut axes = Vec::with_capacity(self.current.len());
        for index in 0..self.current.len() {
            let ty = self.kept_type(index);
            let mut counted = (0..ty.rank()).filter(|axis| ty.shape[*axis].symbols().contains(&symbol));
            let axis = counted.next();
            if counted.next().is_some() || axis.is_some_and(|axis| ty.shape[axis] != streams) {
                let kind = if index < self.stepped.states { "state" } else { "input" };
                let component = format!("{kind} `{}`", self.stepped.step.input_name(self.kept_input(index)));
                let (expected, fix) = (format!("one axis of {symbol} streams"), "give the streams one axis");
                return Err(at.mismatch(component, expected, ty, fix));
            }
            axes.push(axis);
        }
        if axes[..self.stepped.states].iter().all(Option::is_none) {
            let types: Vec<String> = (0..self.stepped.states).map(|index| self.kept_type(index).to_string()).collect();
            let (expected, fix) =
                (format!("an axis of {symbol} streams"), "use the symbol of the batch in their types");
            return Err(at.mismatch("the states", expected, types.join(", "), fix));
        }
        Ok(axes)
    }

    /// Builds the program that selects streams. For each entry with a stream axis, the program receives the tensors
    /// from `current`, `initial` and `original`. First, it gathers the original tensor along the axes of `others`, the
    /// other symbols that were passed to [`streams`](Stepper::streams). Then it appends the result to the current
    /// tensor and to the initial tensor, and gathers rows from both.
    fn gather_graph(&self, at: &Place, symbol: &Symbol, others: &[Symbol]) -> Result<Graph> {
        let axes = self.stream_axes(at, symbol)?;
        let other_axes = others.iter().map(|other| self.stream_axes(at, other)).collect::<Result<Vec<_>>>()?;
        let input = |name: String, ty: TensorType| tracer::input(&name, ty, false, at.site);
        tracer::build("streams", at.site, |_| {
            tracer::reserve_symbols(&self.stepped.step);
            let [current_count, original_count, new_count] = [(); 3].map(|()| Dim::symbol(&tracer::fresh_symbol()));
            let rows = input("rows".into(), TensorType::new(DType::I64, [new_count]));
            let origins = others.iter().map(|other| {
                let ty = TensorType::new(DType::I64, [Dim::symbol(other)]);
                (input(format!("origins_{other}"), ty), Dim::symbol(&tracer::fresh_symbol()))
            });
            let origins: Vec<(Value, Dim)> = origins.collect();
            let mut outputs = Vec::new();
            for (index, axis) in axes.iter().enumerate() {
                let Some(axis) = *axis else { continue };
                let ty = self.kept_type(index);
                let of = |streams: &Dim| ty.shape.with_dim(axis, streams.clone());
                let current = input(format!("now_{index}"), ty.with_shape(of(&current_count)));
                let initial = input(format!("initial_{index}"), ty.with_shape(of(&current_count)));
                let chosen = origins.iter().zip(&other_axes).filter_map(|(of, axes)| Some((of, axes[index]?)));
                let chosen: Vec<(&(Value, Dim), usize)> = chosen.collect();
                let shape = chosen
                    .iter()
                    .fold(of(&original_count), |shape, ((_, count), axis)| shape.with_dim(*axis, count.clone()));
                let original = input(format!("made_{index}"), ty.with_shape(shape));
                let original =
                    chosen.iter().fold(original, |tensor, ((rows, _), axis)| tensor.take(*axis as i64, *rows));
                let gathered = |kept: Value| concat(&[kept, original], axis as i64).take(axis as i64, rows);
                outputs.push((format!("now_{index}"), gathered(current)));
                outputs.push((format!("initial_{index}"), gathered(initial)));
            }
            Ok(Named(outputs))
        })
    }
}

/// The outputs of a step, after common subexpression elimination has merged duplicates.
struct Outputs {
    /// The step without duplicate outputs.
    distinct: Graph,
    /// For each output of the step, the index of the equal output of `distinct`.
    results: Vec<usize>,
    /// For each state, `true` if the next state may differ from the current one.
    changes: Vec<bool>,
}

impl Outputs {
    fn of(stepped: &Stepped, rewrites: Option<&RewriteOptions>) -> Result<Outputs> {
        let step = &stepped.step;
        let changes = |step: &Graph| {
            let states = step.inputs().iter().zip(step.outputs()).take(stepped.states);
            states.map(|(state, next)| state.value != next.value).collect()
        };
        let Some(rewrites) = rewrites else {
            let results = (0..step.outputs().len()).collect();
            return Ok(Outputs { distinct: step.clone(), results, changes: changes(step) });
        };
        let rewritten = step.rewritten_with(rewrites)?.graph;
        let (mut values, mut outputs, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for (rewritten, output) in rewritten.outputs().iter().zip(step.outputs()) {
            let before = values.iter().position(|value| *value == rewritten.value);
            results.push(before.unwrap_or(values.len()));
            if before.is_none() {
                values.push(rewritten.value);
                outputs.push(output.clone());
            }
        }
        Ok(Outputs { distinct: step.with_outputs(outputs), results, changes: changes(&rewritten) })
    }
}

fn upload<B: Backend>(backend: &B, at: &Place, tensor: &HostTensor) -> Result<B::Tensor> {
    backend.upload(tensor).map_err(|error| execution_error(at, backend.name(), error))
}

fn download<B: Backend>(backend: &B, at: &Place, tensor: &B::Tensor, ty: &TensorType) -> Result<HostTensor, Error> {
    backend.download(tensor, ty.dtype).map_err(|error| execution_error(at, backend.name(), error))
}
