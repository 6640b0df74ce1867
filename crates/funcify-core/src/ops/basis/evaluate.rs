//! The reference evaluator: evaluates the nodes of a graph and of its bodies, with each op's own evaluation rule.

use crate::cancel::{ActiveHandles, Progress};
use crate::graph::{Graph, Node, Replay};
use crate::memory::MemoryReservation;
use crate::ops::no_size;
use crate::ops::rules::*;
use crate::types::{SizeError, Sizes};

/// The context in which the reference evaluator runs an op: the bound sizes, and the op's place for error messages.
pub struct EvalContext<'a> {
    /// The op's name, and the site of the user's call that recorded it.
    pub at: Place,
    /// The bound sizes. A loop whose number of steps is known only at run time adds a binding for this number.
    pub sizes: &'a mut Sizes,
}

impl EvalContext<'_> {
    /// Returns the value of a dimension, or an error if one of its symbols is unbound or the value does not fit in 64
    /// bits.
    pub fn dim(&self, dim: &Dim) -> Result<i64> {
        dim.value(self.sizes).map_err(|error| no_size(&self.at, error))
    }

    /// Returns the value of a dimension as a size, or an error if it is negative.
    pub fn size(&self, dim: &Dim) -> Result<usize> {
        let value = self.dim(dim)?;
        usize::try_from(value).map_err(|_| no_size(&self.at, SizeError::Negative(dim.clone(), value)))
    }

    /// Returns the values of a shape's dimensions as sizes.
    pub fn shape(&self, shape: &Shape) -> Result<Vec<usize>> {
        shape.value(self.sizes).map_err(|error| no_size(&self.at, error))
    }
}

/// Evaluates a graph. `sizes` must bind the size symbols that the graph uses but does not bind itself.
pub(crate) fn evaluate_in(graph: &Graph, inputs: Vec<HostTensor>, sizes: &mut Sizes) -> Result<Vec<HostTensor>> {
    let (mut held, watch, mut ran) = (MemoryReservation::empty(), ActiveHandles::current(), 0);
    let replay = Replay::new(graph, inputs);
    let evaluated = replay.walk_marked_with(&graph.run_nodes(), Node::run_operands, |_, node, operands| {
        watch.check_at(|| node.place(), Progress::Ops(ran))?;
        ran += 1;
        let (at, types) = (node.place(), graph.types(&node.outputs));
        // Ops with bodies reserve the memory for their own results, because the size of a loop's results may depend on
        // the number of steps that the loop runs.
        for ty in types.iter().filter(|_| node.op.bodies().is_empty()) {
            held.add(&at, 1, ty, sizes)?;
        }
        let mut context = EvalContext { at, sizes };
        node.op.eval(&mut context, &operands, &types)
    })?;
    evaluated.outputs()
}
