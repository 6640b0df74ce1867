//! Compiles a graph into the forward and backward programs of an op in a framework's autograd. The residuals have the
//! memory layout that the planned loops use.

use funcify_core::derivative::{BackwardInput, GradOptions, Pullback, Wrt};
use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::graph::bind_sizes;
use funcify_core::types::TensorType;
use funcify_core::{CheckpointPolicy, Graph};
use funcify_runtime::{Backend, CompileOptions, Function};

use crate::planner::innermost_axes;

/// A forward program that saves residuals, and a backward program that computes gradients with respect to some of the
/// graph's inputs.
pub struct DerivativePrograms<B: Backend> {
    /// The program that computes the graph's outputs, followed by the residuals.
    pub forward: Function<B>,
    /// The program that computes the gradients.
    pub backward: Function<B>,
    /// The source of each input of the backward program.
    pub backward_inputs: Vec<BackwardInput>,
    /// For each input of the graph, `true` if its gradient was requested and the input has a differentiable path to a
    /// result.
    pub differentiated: Vec<bool>,
}

impl<B: Backend> DerivativePrograms<B> {
    /// Compiles the forward program of a graph, and the backward program that computes the gradients of the inputs
    /// marked in `wrt`. Omits inputs without a differentiable path to a result, and returns `None` if no input remains.
    /// The memory layout of the residuals is optimised for arguments of the given sizes.
    ///
    /// # Errors
    /// Returns the errors of [`Graph::pullback`] and of [`Function::compile_with`].
    #[track_caller]
    pub fn compile(
        graph: &Graph,
        backend: &B,
        wrt: &[bool],
        sizes: &[Vec<usize>],
        compile: &CompileOptions,
        policy: Option<&CheckpointPolicy>,
    ) -> Result<Option<Self>> {
        let options = compile.grad_options(backend, policy.cloned());
        let Some((differentiated, mut pullback)) = connected_pullback(graph, wrt, &options)? else { return Ok(None) };
        if compile.compiles_loops_on(backend) {
            pullback = lay_out_residuals(pullback, graph.outputs().len(), sizes)?;
        }
        let forward = Function::compile_with(&pullback.forward, backend, compile.clone())?;
        let backward = Function::compile_with(&pullback.backward, backend, compile.clone())?;
        Ok(Some(DerivativePrograms { forward, backward, backward_inputs: pullback.backward_inputs, differentiated }))
    }
}

/// Finds the inputs marked in `wrt` that have a differentiable path to a result. Returns a mask of these inputs, and
/// the forward and backward graphs for their gradients. Returns `None` if no input has such a path.
#[track_caller]
fn connected_pullback(graph: &Graph, wrt: &[bool], options: &GradOptions) -> Result<Option<(Vec<bool>, Pullback)>> {
    let mut connected = wrt.to_vec();
    match pullback(graph, wrt, options) {
        Err(Error::Disconnected { .. }) => {}
        other => return Ok(Some((connected, other?))),
    }
    for index in (0..wrt.len()).filter(|index| wrt[*index]) {
        let only: Vec<bool> = (0..wrt.len()).map(|other| other == index).collect();
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
fn pullback(graph: &Graph, wrt: &[bool], options: &GradOptions) -> Result<Pullback> {
    let names = wrt.iter().enumerate().filter(|(_, wrt)| **wrt).map(|(index, _)| graph.input_name(index).into());
    graph.pullback(Wrt::Names(names.collect()), options.clone())
}

/// Changes the memory layout of the residuals that a forward program saves for a backward program. Uses the layout in
/// which the loops of the forward plan store the residuals, for arguments of the given sizes. Neither the forward plan
/// nor the backward plan then has to transpose the residuals. The change is safe, because no other code reads the
/// residuals. The first `outputs` outputs of the forward graph are the results of the original graph, and keep their
/// layout. The programs also support other sizes, and compute the same values as before.
pub fn lay_out_residuals(pullback: Pullback, outputs: usize, arguments: &[Vec<usize>]) -> Result<Pullback> {
    let at = Place::new(pullback.forward.name(), Site::Unknown);
    let inputs = pullback.forward.inputs().iter().map(|input| pullback.forward.ty(input.value));
    let arguments: Vec<TensorType> =
        inputs.zip(arguments).map(|(input, sizes)| input.with_shape(sizes.as_slice())).collect();
    // Invalid arguments are reported when the program is called.
    let Ok(sizes) = bind_sizes(&at, &pullback.forward, &arguments) else { return Ok(pullback) };
    let innermost = innermost_axes(&pullback.forward, &sizes);
    if innermost[outputs..].iter().all(Option::is_none) {
        Ok(pullback)
    } else {
        pullback.with_layouts(outputs, &innermost)
    }
}
