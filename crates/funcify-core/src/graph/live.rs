//! Finds the values and nodes that the outputs of a graph depend on, through operands or through sizes that nodes bind.

use super::*;

/// Flags for the values and nodes of a graph: `true` for those that an output depends on.
pub(super) struct Live {
    pub(super) values: Vec<bool>,
    pub(super) nodes: Vec<bool>,
}

impl Node {
    /// Returns the operands needed to run the node. A call needs only the operands of its function, because only
    /// derivatives use the operands of its derivative rule.
    pub(crate) fn run_operands(&self) -> &[ValueId] {
        match &self.op {
            Op::Call(call) => &self.inputs[..call.function.inputs().len()],
            _ => &self.inputs,
        }
    }

    /// Returns `true` if running the node needs the size of one of the given symbols.
    fn runs_with(&self, graph: &Graph, symbols: &[&Symbol]) -> bool {
        match &self.op {
            // call-c6: no result of a call has a size that only a loop determines, so it suffices to check the nodes of
            // the function.
            Op::Call(call) => {
                let function = &call.function;
                function.nodes().iter().any(|node| node.runs_with(function, symbols))
            }
            _ => uses_any(graph, self, symbols),
        }
    }
}

impl Live {
    pub(super) fn of(graph: &Graph) -> Live {
        Live::with(graph, |node| &node.inputs, |node, symbol| uses_any(graph, node, &[symbol]))
    }

    /// Like [`Live::of`], but excludes values and nodes that only derivative rules use.
    pub(super) fn of_run(graph: &Graph) -> Live {
        Live::with(graph, Node::run_operands, |node, symbol| node.runs_with(graph, &[symbol]))
    }

    fn with(graph: &Graph, operands: impl Fn(&Node) -> &[ValueId], uses: impl Fn(&Node, &Symbol) -> bool) -> Live {
        let mut values = vec![false; graph.values.len()];
        let mut nodes = vec![false; graph.nodes.len()];
        for output in &graph.outputs {
            values[output.value.index()] = true;
        }
        let mut bound: Vec<&Symbol> = graph.nodes.iter().flat_map(|node| node.op.binds()).collect();
        let mut needed: Vec<&Symbol> = Vec::new();
        for (index, node) in graph.nodes.iter().enumerate().rev() {
            let is_used = node.outputs.iter().any(|output| values[output.index()]);
            if is_used || node.op.binds().any(|symbol| needed.contains(&symbol)) {
                nodes[index] = true;
                operands(node).iter().for_each(|input| values[input.index()] = true);
                let (used, rest): (Vec<_>, Vec<_>) = bound.into_iter().partition(|symbol| uses(node, symbol));
                needed.extend(used);
                bound = rest;
            }
        }
        Live { values, nodes }
    }
}

/// Returns `true` if a node uses the size of one of the given symbols in its attributes, its number of steps, its
/// results, or its bodies.
pub fn uses_any(graph: &Graph, node: &Node, symbols: &[&Symbol]) -> bool {
    let uses = |dim: &Dim| dim.symbols().iter().any(|symbol| symbols.contains(symbol));
    if symbols.is_empty() {
        return false;
    }
    let in_attributes = node.op.attributes().iter().any(|(_, attribute)| attribute.dims().iter().any(uses));
    let in_results = node.outputs.iter().any(|output| graph.ty(*output).shape.dims().iter().any(uses));
    let in_steps = node.op.sizes().dim.is_some_and(|(_, dim)| uses(dim));
    let mut bodies = node.op.bodies().into_iter();
    let in_bodies = bodies.any(|body| body.nodes().iter().any(|node| uses_any(body, node, symbols)));
    in_attributes || in_results || in_steps || in_bodies
}

#[cfg(test)]
mod tests {
    use crate::{DType, Graph, HostTensor, Recurrence, evaluate, size};

    #[test]
    fn a_loop_of_which_only_the_number_of_steps_is_used_runs() {
        let graph = Graph::build("count", |g| {
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
            let done = loop_.run(|step| {
                let [x] = step.read(&x);
                step.until(x.lt(0.0));
                x
            });
            (done.steps() * 2, size(done.ys.dim(0), DType::I64), done.ys.ones_like().sum(0))
        });
        let results = evaluate(&graph.unwrap(), &[HostTensor::from([1f32, 2., -1., 4.])]).unwrap();
        assert_eq!(results, [HostTensor::scalar(6i64), HostTensor::scalar(3i64), HostTensor::scalar(3f32)]);
    }
}
