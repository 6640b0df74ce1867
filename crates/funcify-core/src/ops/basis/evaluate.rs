//! The reference evaluation of a graph whose sizes are bound: node after node, by each op's own rule, bodies included.

use crate::cancel::{Ran, Watch};
use crate::graph::{Graph, Node, Replay};
use crate::memory::Held;
use crate::ops::no_size;
use crate::ops::rules::*;
use crate::types::{SizeError, Sizes};

/// What the reference evaluation of an op may use: the sizes of the call, and its own place for errors.
pub struct EvalContext<'a> {
    /// The op and its line.
    pub at: Place,
    /// The sizes of the call. A loop with a run-time number of steps binds its symbol here.
    pub sizes: &'a mut Sizes,
}

impl EvalContext<'_> {
    /// The number that a dimension has in this call.
    pub fn dim(&self, dim: &Dim) -> Result<i64> {
        dim.value(self.sizes).map_err(|error| no_size(&self.at, error))
    }

    /// The size that a dimension is in this call: not negative.
    pub fn size(&self, dim: &Dim) -> Result<usize> {
        let value = self.dim(dim)?;
        usize::try_from(value).map_err(|_| no_size(&self.at, SizeError::Negative(dim.clone(), value)))
    }

    /// The sizes that a shape has in this call.
    pub fn shape(&self, shape: &Shape) -> Result<Vec<usize>> {
        shape.value(self.sizes).map_err(|error| no_size(&self.at, error))
    }
}

/// Evaluates a graph whose sizes are bound.
pub(crate) fn evaluate_in(graph: &Graph, inputs: Vec<HostTensor>, sizes: &mut Sizes) -> Result<Vec<HostTensor>> {
    let (mut held, watch, mut ran) = (Held::nothing(), Watch::current(), 0);
    let replay = Replay::new(graph, inputs);
    let evaluated = replay.some_with(&graph.run_nodes(), Node::run_operands, |_, node, operands| {
        watch.check_at(|| node.place(), Ran::Ops(ran))?;
        ran += 1;
        let (at, types) = (node.place(), graph.types(&node.outputs));
        // Loops hold what they give against the budget themselves, once their steps are known.
        for ty in types.iter().filter(|_| node.op.bodies().is_empty()) {
            held.add(&at, 1, ty, sizes)?;
        }
        let mut context = EvalContext { at, sizes };
        node.op.eval(&mut context, &operands, &types)
    })?;
    evaluated.outputs()
}
