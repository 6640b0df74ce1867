//! The two programs of a framework's op, and how what the forward pass saves lies in memory: as the loops of its plan have it.

use funcify_core::derivative::{BackwardInput, GradOptions, Pullback, Wrt};
use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::graph::bind_sizes;
use funcify_core::types::TensorType;
use funcify_core::{CheckpointPolicy, Graph};
use funcify_runtime::{Backend, CompileOptions, Function};

use crate::planner::innermost_axes;

/// A forward program that saves what its backward program needs, for the derivatives by some of a graph's inputs.
pub struct DerivativePrograms<B: Backend> {
    /// Gives the graph's outputs, and after them what is saved.
    pub forward: Function<B>,
    /// Gives the gradients.
    pub backward: Function<B>,
    /// What each input of the backward program is.
    pub takes: Vec<BackwardInput>,
    /// By which inputs: those that were asked for and to which gradients flow.
    pub by: Vec<bool>,
}

impl<B: Backend> DerivativePrograms<B> {
    /// Compiles the programs for the derivatives by the inputs that `by` marks, but for those that lead to no result by a
    /// differentiable path; `None` if no input is left. Between the programs tensors lie as is best for arguments of these sizes.
    ///
    /// # Errors
    /// Those of [`Graph::pullback`] and of [`Function::compile_with`].
    #[track_caller]
    pub fn compile(
        graph: &Graph,
        backend: &B,
        by: &[bool],
        sizes: &[Vec<usize>],
        compile: &CompileOptions,
        policy: Option<&CheckpointPolicy>,
    ) -> Result<Option<Self>> {
        let options = compile.grad_options(backend, policy.cloned());
        let Some((by, mut pullback)) = connected_pullback(graph, by, &options)? else { return Ok(None) };
        if compile.compiles_loops_on(backend) {
            pullback = with_residuals_as_planned(pullback, graph.outputs().len(), sizes)?;
        }
        let forward = Function::compile_with(&pullback.forward, backend, compile.clone())?;
        let backward = Function::compile_with(&pullback.backward, backend, compile.clone())?;
        Ok(Some(DerivativePrograms { forward, backward, takes: pullback.takes, by }))
    }
}

/// The two graphs for the gradients by these inputs, but for those that lead to no result by a differentiable path, and by
/// which inputs they are; `None` if none is left.
#[track_caller]
fn connected_pullback(graph: &Graph, by: &[bool], options: &GradOptions) -> Result<Option<(Vec<bool>, Pullback)>> {
    let mut connected = by.to_vec();
    match pullback(graph, by, options) {
        Err(Error::Disconnected { .. }) => {}
        other => return Ok(Some((connected, other?))),
    }
    for index in (0..by.len()).filter(|index| by[*index]) {
        let only: Vec<bool> = (0..by.len()).map(|other| other == index).collect();
        connected[index] = match pullback(graph, &only, options) {
            Err(Error::Disconnected { .. }) => false,
            other => other.map(|_| true)?,
        };
    }
    if !connected.contains(&true) {
        return Ok(None);
    }
    let pullback = pullback(graph, &connected, options)?;
    Ok(Some((connected, pullback)))
}

#[track_caller]
fn pullback(graph: &Graph, by: &[bool], options: &GradOptions) -> Result<Pullback> {
    let names = by.iter().enumerate().filter(|(_, by)| **by).map(|(index, _)| graph.input_name(index).into());
    graph.pullback(Wrt::Names(names.collect()), options.clone())
}

/// The two programs of a framework's op, whose residuals lie as the loops of the forward plan have them for arguments of these
/// sizes: nobody else looks at them, and so neither plan moves their elements. The graph has so many `outputs` of its own. For
/// other sizes the programs give the same values.
pub fn with_residuals_as_planned(pullback: Pullback, outputs: usize, arguments: &[Vec<usize>]) -> Result<Pullback> {
    let at = Place::new(pullback.forward.name(), Site::Unknown);
    let inputs = pullback.forward.inputs().iter().map(|input| pullback.forward.ty(input.value));
    let arguments: Vec<TensorType> =
        inputs.zip(arguments).map(|(input, sizes)| input.with_shape(sizes.as_slice())).collect();
    // That arguments do not fit the call itself says.
    let Ok(sizes) = bind_sizes(&at, &pullback.forward, &arguments) else { return Ok(pullback) };
    let innermost = innermost_axes(&pullback.forward, &sizes);
    if innermost[outputs..].iter().all(Option::is_none) { Ok(pullback) } else { pullback.laid_out(outputs, &innermost) }
}
