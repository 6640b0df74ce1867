//! Calls functions: checks and converts the arguments, selects and runs the program, and returns the results.
//!
//! If the backend compiled the program as a whole, a call that repeats the argument types and sizes of the last call
//! takes a fast path.

use std::borrow::Cow;

use funcify_core::HostTensor;
use funcify_core::cancel::ActiveHandles;
use funcify_core::graph::{bind_sizes, call_error};
use funcify_core::types::{DType, Shape};

use super::programs::{StaticInputs, Variant};
use super::*;
use crate::backend::{TrackedCall, execution_error};
use crate::run::interpret::Run;
use crate::run::profile::{Profile, Profiler};
use crate::run::whole::run_compiled;
use crate::run::{Memory, span};

/// The program and the sizes of the last call.
pub(super) struct LastCall<B: Backend> {
    pub(super) variant: Arc<Variant<B>>,
    pub(super) sizes: Sizes,
    repeat: Option<Arc<RepeatCall<B::Tensor>>>,
}

/// The fast path for calls that repeat the argument types and sizes of the last call. Exists only for programs that the
/// backend compiled as a whole.
struct RepeatCall<T> {
    program: Arc<dyn Compiled<T>>,
    arguments: Vec<(DType, Vec<usize>)>,
    /// A memory budget that the program is known not to exceed.
    budget: u64,
}

impl<T> RepeatCall<T> {
    /// Returns `true` if the arguments have the recorded types and sizes.
    fn serves<B: Backend<Tensor = T>>(&self, backend: &B, arguments: &[T]) -> bool {
        let is_alike = |(tensor, (dtype, sizes)): (&T, &(DType, Vec<usize>))| {
            backend.has_dtype(tensor, *dtype) && backend.has_shape(tensor, sizes)
        };
        arguments.len() == self.arguments.len() && arguments.iter().zip(&self.arguments).all(is_alike)
    }
}

impl<B: Backend> Function<B> {
    /// Calls the function on tensors of the backend. The arguments are in the order of the graph's inputs, and their
    /// shapes determine the sizes. If the library's autodiff tracks an argument, a backend that supports autodiff
    /// records the call as a single op.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use funcify::dispatch::{Function, Reference};
    /// use funcify::{Graph, HostTensor};
    ///
    /// let twice = Graph::build("twice", |g| g.input("x", "f32[N]") * 2.0)?;
    /// let twice = Function::compile(&twice, &Reference)?;
    /// let x = Arc::new(HostTensor::from([1f32, 2.0])); // a tensor of the reference backend
    /// assert_eq!(*twice.call(&[x])?[0], HostTensor::from([2f32, 4.0]));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn call(&self, arguments: &[B::Tensor]) -> Result<Vec<B::Tensor>> {
        let site = Site::caller();
        let at = || Place::new(self.graph.name(), site);
        if arguments.iter().any(|tensor| self.backend.is_tracked(tensor)) {
            let call = TrackedCall { at: &at(), graph: &self.graph, options: &self.options, tracked: &self.tracked };
            if let Some(results) = self.backend.call_tracked(&call, arguments) {
                return results;
            }
        }
        if let Some(results) = self.repeat_call(at, arguments)? {
            return Ok(results);
        }
        let at = at();
        let (sizes, admitted) = self.admit_arguments(&at, arguments)?;
        Ok(self.run_call(&at, sizes, admitted, false)?.0)
    }

    /// Calls the function and records the time and the result size of each instruction. The library's autodiff does not
    /// record the call.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use funcify::dispatch::{Function, Reference};
    /// use funcify::{Graph, HostTensor};
    ///
    /// let twice = Graph::build("twice", |g| g.input("x", "f32[N]") * 2.0)?;
    /// let twice = Function::compile(&twice, &Reference)?;
    /// let (results, profile) = twice.profile(&[Arc::new(HostTensor::from([1f32, 2.0]))])?;
    /// assert_eq!(*results[0], HostTensor::from([2f32, 4.0]));
    /// assert!(profile.by_op().iter().any(|share| share.name == "mul"));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn profile(&self, arguments: &[B::Tensor]) -> Result<(Vec<B::Tensor>, Profile)> {
        let at = Place::new(self.graph.name(), Site::caller());
        let (sizes, admitted) = self.admit_arguments(&at, arguments)?;
        let (results, profile) = self.run_call(&at, sizes, admitted, true)?;
        Ok((results, profile.expect("the call was profiled")))
    }

    /// Calls the function on host tensors: uploads the arguments, runs the program, and downloads the results.
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
    #[track_caller]
    pub fn call_host(&self, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
        let at = Place::new(self.graph.name(), Site::caller());
        Ok(self.call_on_host(&at, arguments, false)?.0)
    }

    /// Profiles a call on host tensors, like [`profile`](Function::profile). Does not measure uploads and downloads.
    ///
    /// ```
    /// use funcify::dispatch::{Function, Reference};
    /// use funcify::{Graph, HostTensor};
    ///
    /// let twice = Graph::build("twice", |g| g.input("x", "f32[N]") * 2.0)?;
    /// let twice = Function::compile(&twice, &Reference)?;
    /// let (results, profile) = twice.profile_host(&[[1f32, 2.0].into()])?;
    /// assert_eq!(results, [HostTensor::from([2f32, 4.0])]);
    /// assert!(profile.by_op().iter().any(|share| share.name == "mul"));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn profile_host(&self, arguments: &[HostTensor]) -> Result<(Vec<HostTensor>, Profile)> {
        let at = Place::new(self.graph.name(), Site::caller());
        let (results, profile) = self.call_on_host(&at, arguments, true)?;
        Ok((results, profile.expect("the call was profiled")))
    }

    fn call_on_host(
        &self,
        at: &Place,
        arguments: &[HostTensor],
        is_profiled: bool,
    ) -> Result<(Vec<HostTensor>, Option<Profile>)> {
        let failed = |error| execution_error(at, self.backend.name(), error);
        let types: Vec<TensorType> = arguments.iter().map(HostTensor::ty).collect();
        let sizes = bind_sizes(at, &self.graph, &types)?;
        let uploaded = arguments.iter().map(|tensor| self.backend.upload(tensor).map_err(failed));
        let (results, profile) = self.run_call(at, sizes, uploaded.collect::<Result<Vec<_>>>()?, is_profiled)?;
        let typed = results.iter().enumerate().map(|(index, tensor)| (tensor, self.graph.output_type(index).dtype));
        let results = typed.map(|(tensor, dtype)| self.backend.download(tensor, dtype).map_err(failed));
        Ok((results.collect::<Result<_>>()?, profile))
    }

    /// Runs the program of the last call through its fast path. Returns `None` if the last call has no fast path, or if
    /// the arguments have other types or sizes.
    fn repeat_call(&self, at: impl Fn() -> Place + Sync, arguments: &[B::Tensor]) -> Result<Option<Vec<B::Tensor>>> {
        let repeat = self.last_call().as_ref().and_then(|last| last.repeat.clone());
        let serves = |repeat: &Arc<RepeatCall<_>>| {
            repeat.budget <= self.options.budget() && repeat.serves(&self.backend, arguments)
        };
        let Some(repeat) = repeat.filter(serves) else { return Ok(None) };
        let _span = span::of_call(self.graph.name(), self.backend.name());
        let typed = || arguments.iter().zip(&repeat.arguments).map(|(tensor, (dtype, _))| (tensor, *dtype));
        let admitted = || {
            let admitted = typed().map(|(tensor, dtype)| self.backend.admit(tensor.clone(), dtype));
            let admitted = admitted.collect::<Result<Vec<_>, _>>();
            admitted.map_err(|error| execution_error(&at(), self.backend.name(), error))
        };
        let are_admitted = typed().all(|(tensor, dtype)| self.backend.is_admitted(tensor, dtype));
        let admitted = if are_admitted { Cow::Borrowed(arguments) } else { Cow::Owned(admitted()?) };
        let results = run_compiled(&*repeat.program, &ActiveHandles::current(), at, self.backend.name(), &admitted);
        let results = results.map_err(|error| self.graph.explain(error))?;
        self.reused.fetch_add(1, Ordering::Relaxed);
        Ok(results)
    }

    /// Checks the arguments against the graph's inputs. Returns the sizes that they determine, and the arguments as
    /// converted by [`Backend::admit`].
    fn admit_arguments(&self, at: &Place, arguments: &[B::Tensor]) -> Result<(Sizes, Vec<B::Tensor>)> {
        let mut types = Vec::with_capacity(arguments.len());
        for (index, tensor) in arguments.iter().enumerate() {
            let shape = Shape::from(self.backend.shape(tensor).as_slice());
            let expected = self.graph.inputs().get(index).map(|_| self.graph.input_type(index).dtype);
            let own = expected.filter(|dtype| self.backend.has_dtype(tensor, *dtype));
            let dtype = own.or_else(|| DType::ALL.into_iter().find(|dtype| self.backend.has_dtype(tensor, *dtype)));
            if let (Some(expected), None) = (expected, dtype) {
                let component = format!("argument {index} (`{}`)", self.graph.input_name(index));
                let (found, fix) = ("an unsupported dtype".to_string(), "convert the tensor to that dtype");
                return Err(call_error(at, &component, expected.to_string(), found, fix));
            }
            // The dtype of a surplus argument does not matter, because `bind_sizes` rejects the argument.
            types.push(TensorType::new(dtype.unwrap_or(DType::Bool), shape));
        }
        let sizes = bind_sizes(at, &self.graph, &types)?;
        let admitted = arguments.iter().zip(&types).map(|(tensor, ty)| self.backend.admit(tensor.clone(), ty.dtype));
        let admitted = admitted.collect::<Result<Vec<_>, _>>();
        Ok((sizes, admitted.map_err(|error| execution_error(at, self.backend.name(), error))?))
    }

    /// Selects the program for admitted arguments and runs it. Returns the results and, if `is_profiled` is set, the
    /// profile.
    fn run_call(
        &self,
        at: &Place,
        sizes: Sizes,
        arguments: Vec<B::Tensor>,
        is_profiled: bool,
    ) -> Result<(Vec<B::Tensor>, Option<Profile>)> {
        let _span = span::of_call(self.graph.name(), self.backend.name());
        let variant = self.pick_program(at, &sizes, || self.read_statics(at, &arguments))?;
        let memory = self.memory_to_check(&variant, &sizes);
        let repeat = self.repeat_call_for(&variant, memory.as_ref(), &arguments);
        let profiler = is_profiled.then(Profiler::new);
        let mut run = Run { backend: &self.backend, sizes, watch: ActiveHandles::current(), memory, profiler };
        let results = variant.program.execute(&mut run, arguments);
        *self.last_call() = Some(LastCall { variant, sizes: run.sizes, repeat });
        let profile = run.profiler.map(Profiler::finish);
        Ok((results.map_err(|error| self.graph.explain(error))?, profile))
    }

    /// Downloads the values of the static inputs.
    fn read_statics(&self, at: &Place, arguments: &[B::Tensor]) -> Result<StaticInputs> {
        let inputs = self.graph.inputs().iter().enumerate().filter(|(_, input)| input.is_static);
        let number = |index: usize| {
            let number = self.backend.download(&arguments[index], self.graph.input_type(index).dtype);
            let number = number.map_err(|error| execution_error(at, self.backend.name(), error))?;
            Ok((index, number.get(0).as_i64()))
        };
        inputs.map(|(index, _)| number(index)).collect()
    }

    /// Returns the memory budget to enforce during the run, or `None` if the plan is known to stay within it.
    fn memory_to_check(&self, variant: &Variant<B>, sizes: &Sizes) -> Option<Memory> {
        let budget = self.options.budget();
        let known = variant.peak().as_ref().and_then(|(of, peak)| (of == sizes).then_some(*peak));
        let peak = known.unwrap_or_else(|| {
            let elements = variant.program.peak_bytes(sizes).map(|(peak, _)| peak as u64);
            // `peak_bytes` uses the element size of each dtype, but a backend may store the elements in a larger type.
            let factors = DType::ALL.map(|dtype| self.backend.element_bytes(dtype).div_ceil(dtype.size()));
            let factor = factors.into_iter().max().expect("`DType::ALL` is not empty");
            let peak = elements.map(|peak| peak.saturating_mul(factor as u64));
            *variant.peak() = Some((sizes.clone(), peak));
            peak
        });
        let is_within = peak.is_some_and(|peak| peak <= budget);
        (!is_within).then_some(Memory { budget, held: 0 })
    }

    /// Returns the fast path for calls that repeat the types and sizes of the given arguments. Returns `None` unless
    /// the program was compiled as a whole, reads no static inputs, and stays within the memory budget.
    fn repeat_call_for(
        &self,
        variant: &Variant<B>,
        memory: Option<&Memory>,
        arguments: &[B::Tensor],
    ) -> Option<Arc<RepeatCall<B::Tensor>>> {
        let is_one = !self.specialization.by_static_inputs && memory.is_none();
        let program = variant.whole().filter(|_| is_one)?.clone();
        let arguments = arguments.iter().enumerate();
        let arguments =
            arguments.map(|(index, tensor)| (self.graph.input_type(index).dtype, self.backend.shape(tensor)));
        Some(Arc::new(RepeatCall { program, arguments: arguments.collect(), budget: self.options.budget() }))
    }
}
