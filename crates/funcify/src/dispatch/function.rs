//! A graph compiled for a backend, and called on the backend's own tensors.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::backend::{Backend, LoopStrategy};
use super::eager::execution_error;
use super::lower::{Lowering, Settings, live_nodes};
use super::program::{Program, Run};
use super::registry::Conversions;
use super::sizes::{bind_sizes, call_error};
use crate::error::{Error, Place, Result, Site};
use crate::graph::Graph;
use crate::host::HostTensor;
use crate::ops::{Op, OpRules};
use crate::types::{DType, Shape, Sizes, TensorType};

/// How a graph is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// The strategy of all loops; without it, what the backend's conversion of the loop names.
    pub strategy: Option<LoopStrategy>,
    /// How many instructions an unrolled program may have before it is an error.
    pub max_kernels: usize,
    /// How many specialised programs are kept; the one unused for longest goes first.
    pub max_programs: usize,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions { strategy: None, max_kernels: 1 << 20, max_programs: 32 }
    }
}

/// What a function has compiled so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompileCounts {
    /// How many programs were compiled.
    pub compiled: usize,
    /// How many calls found their program.
    pub reused: usize,
}

/// A graph compiled for a backend.
///
/// A program whose loops run natively serves every size. One with unrolled loops is compiled anew for the sizes of a
/// call, and the values of static inputs, that it has not met, and kept for the next call with them.
pub struct Function<B: Backend> {
    graph: Arc<Graph>,
    backend: B,
    options: CompileOptions,
    conversions: Conversions<B>,
    specialised: bool,
    cache: Mutex<Vec<(Key, Arc<Program<B>>)>>,
    compiled: AtomicUsize,
    reused: AtomicUsize,
}

/// What a program is compiled for.
type Key = (Sizes, Vec<(usize, i64)>);

impl<B: Backend> Function<B> {
    /// Compiles a graph. An op without a conversion, and a type that the device cannot hold, are found here.
    #[track_caller]
    pub fn compile(graph: &Graph, backend: &B) -> Result<Self> {
        Self::compile_with(graph, backend, CompileOptions::default())
    }

    /// Compiles a graph with options.
    #[track_caller]
    pub fn compile_with(graph: &Graph, backend: &B, options: CompileOptions) -> Result<Self> {
        let at = Place::new("compile", Site::caller());
        if let Err(errors) = graph.check() {
            return errors.into_iter().next().map_or_else(|| Err(at.mismatch("the graph", "a graph", "none", "")), Err);
        }
        let conversions = Conversions::of(backend, &at)?;
        let settings = Settings {
            backend,
            conversions: &conversions,
            strategy: options.strategy,
            max_kernels: options.max_kernels,
        };
        let unrolls = validate(settings, graph).map_err(|error| error.in_graph(graph))?;
        let specialised = unrolls || graph.inputs().iter().any(|input| input.is_static);
        let function = Function {
            graph: Arc::new(graph.clone()),
            backend: backend.clone(),
            options,
            conversions,
            specialised,
            cache: Mutex::new(Vec::new()),
            compiled: AtomicUsize::new(0),
            reused: AtomicUsize::new(0),
        };
        if !specialised {
            function.program((Sizes::new(), Vec::new()))?;
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

    /// How often this function was compiled, and how often a compiled program was found.
    pub fn counts(&self) -> CompileCounts {
        CompileCounts { compiled: self.compiled.load(Ordering::Relaxed), reused: self.reused.load(Ordering::Relaxed) }
    }

    /// Runs the function on the backend's own tensors, in the order of the graph's inputs. Sizes are bound from their
    /// shapes.
    #[track_caller]
    pub fn call(&self, arguments: &[B::Tensor]) -> Result<Vec<B::Tensor>> {
        let at = Place::new(self.graph.name(), Site::caller());
        let types = self.argument_types(&at, arguments)?;
        let sizes = bind_sizes(&at, &self.graph, &types)?;
        let key = match self.specialised {
            true => (sizes.clone(), self.statics(&at, arguments)?),
            false => (Sizes::new(), Vec::new()),
        };
        let program = self.program(key)?;
        let results = program.run(&mut Run { backend: &self.backend, sizes }, arguments.to_vec());
        results.map_err(|error| error.in_graph(&self.graph))
    }

    /// Runs the function on host tensors: uploads them, runs, and downloads the results.
    #[track_caller]
    pub fn call_host(&self, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
        let at = Place::new(self.graph.name(), Site::caller());
        let failed = |error| execution_error(&at, self.backend.name(), error);
        let types: Vec<TensorType> = arguments.iter().map(HostTensor::ty).collect();
        bind_sizes(&at, &self.graph, &types)?;
        let uploaded = arguments.iter().map(|tensor| self.backend.upload(tensor).map_err(failed));
        let results = self.call(&uploaded.collect::<Result<Vec<_>>>()?)?;
        let typed = results.iter().enumerate().map(|(index, tensor)| (tensor, self.graph.output_type(index).dtype));
        typed.map(|(tensor, dtype)| self.backend.download(tensor, dtype).map_err(failed)).collect()
    }

    fn argument_types(&self, at: &Place, arguments: &[B::Tensor]) -> Result<Vec<TensorType>> {
        let mut types = Vec::with_capacity(arguments.len());
        for (index, tensor) in arguments.iter().enumerate() {
            let shape = Shape::from(self.backend.shape(tensor).as_slice());
            let expected = self.graph.inputs().get(index).map(|_| self.graph.input_type(index).dtype);
            let dtype = expected.filter(|dtype| self.backend.stores(tensor, *dtype));
            let found = dtype.or_else(|| DType::ALL.into_iter().find(|dtype| self.backend.stores(tensor, *dtype)));
            types.push(TensorType::new(found.unwrap_or(DType::Bool), shape));
            if let (Some(expected), None) = (expected, found) {
                let component = format!("argument {index} (`{}`)", self.graph.input_name(index));
                let fix = "convert the tensor to that dtype";
                return Err(call_error(
                    at,
                    &component,
                    expected.to_string(),
                    "a dtype without a name here".into(),
                    fix,
                ));
            }
        }
        Ok(types)
    }

    /// The numbers of the static inputs.
    fn statics(&self, at: &Place, arguments: &[B::Tensor]) -> Result<Vec<(usize, i64)>> {
        let inputs = self.graph.inputs().iter().enumerate().filter(|(_, input)| input.is_static);
        inputs
            .map(|(index, _)| {
                let dtype = self.graph.input_type(index).dtype;
                let number = self.backend.download(&arguments[index], dtype);
                let number = number.map_err(|error| execution_error(at, self.backend.name(), error))?;
                Ok((index, number.get(0).as_i64()))
            })
            .collect()
    }

    /// The program for a key, compiled if it was not met.
    fn program(&self, key: Key) -> Result<Arc<Program<B>>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = cache.iter().position(|(known, _)| *known == key) {
            self.reused.fetch_add(1, Ordering::Relaxed);
            let entry = cache.remove(index);
            let program = entry.1.clone();
            cache.push(entry);
            return Ok(program);
        }
        let settings = Settings {
            backend: &self.backend,
            conversions: &self.conversions,
            strategy: self.options.strategy,
            max_kernels: self.options.max_kernels,
        };
        let statics: HashMap<usize, i64> = key.1.iter().copied().collect();
        let program = Lowering::new(settings, key.0.clone()).program(&self.graph, &statics);
        let program = Arc::new(program.map_err(|error| error.in_graph(&self.graph))?);
        self.compiled.fetch_add(1, Ordering::Relaxed);
        if cache.len() >= self.options.max_programs.max(1) {
            cache.remove(0);
        }
        cache.push((key, program.clone()));
        Ok(program)
    }

    /// How many instructions the program for the last call has, those of native loops' bodies included.
    pub fn instructions(&self) -> usize {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.last().map_or(0, |(_, program)| program.len())
    }
}

/// Checks that every op has a conversion and every type fits the device; tells whether any loop is unrolled.
fn validate<B: Backend>(settings: Settings<'_, B>, graph: &Graph) -> Result<bool> {
    let mut unrolls = false;
    let inputs = graph.inputs().iter().map(|input| (Place::new(graph.name(), Site::Unknown), input.value));
    for (at, value) in inputs {
        check_type(settings.backend, &at, graph.ty(value))?;
    }
    let live = live_nodes(graph);
    for (_, node) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
        let at = node.place();
        for output in &node.outputs {
            check_type(settings.backend, &at, graph.ty(*output))?;
        }
        match &node.op {
            Op::Constant(_) => {}
            Op::Scan(scan) => {
                unrolls |= settings.strategy_of(scan, &at)? == LoopStrategy::Unroll;
                unrolls |= validate(settings, &scan.body)?;
            }
            Op::Switch(_) | Op::While(_) => {
                for body in node.op.bodies() {
                    unrolls |= validate(settings, body)?;
                }
            }
            Op::AssociativeScan(op) => {
                let halves = op.halves(&at, &graph.types(&node.inputs))?;
                for program in [&halves.combine, &halves.spread] {
                    unrolls |= validate(settings, program)?;
                }
            }
            op if settings.backend.fallback().is_none() => {
                settings.conversions.get(op.name(), &at)?;
            }
            _ => {}
        }
    }
    Ok(unrolls)
}

fn check_type<B: Backend>(backend: &B, at: &Place, ty: &TensorType) -> Result<()> {
    match backend.lacks(ty.dtype, ty.rank()) {
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
    names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            named.get(*name).cloned().ok_or_else(|| {
                let expected = graph.input_type(index).to_string();
                call_error(at, &format!("argument `{name}`"), expected, "nothing".into(), "pass a tensor of that name")
            })
        })
        .collect()
}
