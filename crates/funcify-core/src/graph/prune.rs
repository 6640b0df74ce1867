//! Removes dead code: nodes that no output needs, and unused results of loops and switches, together with the states
//! and operands that contribute only to those results.
//!
//! The forward loop of a derivative saves all its states; pruning keeps only those that the backward loop reads.
//! Pruning never changes a value that an output needs, and never removes a row that is read.

use std::ops::Range;

use super::certain::{cannot_fail, certain_values};
use super::live::uses_any;
use super::*;

impl Graph {
    /// Returns a copy of the graph without dead code. The inputs and outputs stay the same.
    #[doc(hidden)]
    pub fn pruned(&self) -> Graph {
        self.pruned_without(0..0).unwrap_or_else(|| self.clone())
    }

    /// Like [`pruned`](Graph::pruned), but keeps a loop or switch unchanged, with all its operands, if it may fail at
    /// run time. Pruning therefore does not hide the failure. Returns `None` if nothing can be removed.
    #[doc(hidden)]
    pub fn pruned_strict(&self) -> Option<Graph> {
        let keep = Keep { inputs: vec![true; self.inputs.len()], outputs: vec![true; self.outputs.len()] };
        let mut need = Need::of(self, true);
        need.add(self, &keep.outputs);
        if need.is_all(self) { None } else { self.restricted_to(&keep, &need) }
    }

    /// Returns the total number of inputs, outputs, nodes, operands and results, including those in bodies. Removing
    /// dead code reduces this number.
    fn total_size(&self) -> usize {
        let of_node = |node: &Node| {
            let bodies = node.op.bodies().into_iter().map(|body| body.total_size());
            1 + node.inputs.len() + node.outputs.len() + bodies.sum::<usize>()
        };
        self.inputs.len() + self.outputs.len() + self.nodes.iter().map(of_node).sum::<usize>()
    }

    /// Like [`pruned`](Graph::pruned), but also removes the given inputs. Returns `None` if an output needs one of
    /// them.
    pub(crate) fn pruned_without(&self, inputs: Range<usize>) -> Option<Graph> {
        let inputs = (0..self.inputs.len()).map(|index| !inputs.contains(&index)).collect();
        let keep = Keep { inputs, outputs: vec![true; self.outputs.len()] };
        let mut need = Need::of(self, false);
        need.add(self, &keep.outputs);
        self.restricted_to(&keep, &need)
    }

    /// Returns, for each input, whether the outputs marked in `outputs` need it.
    pub(crate) fn needed_inputs(&self, outputs: &[bool]) -> Vec<bool> {
        Need::of(self, false).add(self, outputs)
    }

    /// Returns a copy of the graph with only the inputs and outputs in `keep` and the nodes in `need`. Returns `None`
    /// if an output needs a removed input.
    pub(crate) fn restricted_to(&self, keep: &Keep, need: &Need) -> Option<Graph> {
        let (mut graph, mut copied) = (Graph::new(self.name()), ValueMap::new(self));
        for (input, _) in self.inputs.iter().zip(&keep.inputs).filter(|(_, keep)| **keep) {
            let name = self.value_name(input.value).expect("every input has a name");
            copied.set(input.value, graph.push_input(name, self.ty(input.value).clone(), input.is_static));
        }
        for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| need.nodes[*index]) {
            let results: Vec<bool> = node.outputs.iter().map(|output| need.values[output.index()]).collect();
            let pruned = match node.op.bodied() {
                Some(op) if !need.whole[index] => op.pruned_for(&results, &need.bodies[index])?,
                _ => {
                    let operands: Option<Vec<ValueId>> = node.inputs.iter().map(|input| copied.get(*input)).collect();
                    let types = self.types(&node.outputs);
                    let results = graph.push_typed(node.op.clone(), &operands?, types, node.site).ok()?;
                    let outputs = node.outputs.iter().zip(results);
                    outputs.for_each(|(output, id)| copied.set_named(&mut graph, *output, id));
                    continue;
                }
            };
            let operands = pruned.operands.iter().map(|operand| copied.get(node.inputs[*operand]));
            let results = graph.push_node(pruned.op, &operands.collect::<Option<Vec<_>>>()?, node.site).ok()?;
            for (result, id) in pruned.results.into_iter().zip(results) {
                copied.set_named(&mut graph, node.outputs[result], id);
            }
        }
        for (output, _) in self.outputs.iter().zip(&keep.outputs).filter(|(_, keep)| **keep) {
            graph.push_output(&output.name, copied.get(output.value)?);
        }
        Some(graph)
    }
}

/// The inputs and outputs to keep in a restricted graph.
pub(crate) struct Keep {
    pub(crate) inputs: Vec<bool>,
    pub(crate) outputs: Vec<bool>,
}

/// A pruned op, with the indices that its operands and results have in the original op.
pub(crate) struct PrunedOp {
    pub(crate) op: Op,
    pub(crate) operands: Vec<usize>,
    pub(crate) results: Vec<usize>,
}

/// The parts of a graph that a set of outputs needs. A body is visited again only if more of its outputs are needed,
/// because unconditional visits would make the work grow exponentially with the nesting depth.
pub(crate) struct Need {
    values: Vec<bool>,
    nodes: Vec<bool>,
    /// For each node, the needed parts of its bodies.
    bodies: Vec<Vec<Need>>,
    is_visited: bool,
    /// `true` to keep an op with bodies unchanged if it may fail.
    is_strict: bool,
    /// For each node, `true` if it is kept unchanged.
    whole: Vec<bool>,
}

impl Need {
    fn of(graph: &Graph, is_strict: bool) -> Need {
        Need {
            values: vec![false; graph.values.len()],
            nodes: vec![false; graph.nodes.len()],
            bodies: graph.nodes.iter().map(|_| Vec::new()).collect(),
            is_visited: false,
            is_strict,
            whole: vec![false; graph.nodes.len()],
        }
    }

    /// Adds the parts of the graph that the outputs marked in `outputs` need. Returns, for each input, whether it is
    /// needed.
    pub(crate) fn add(&mut self, graph: &Graph, outputs: &[bool]) -> Vec<bool> {
        let mut is_new = !self.is_visited;
        for (output, _) in graph.outputs.iter().zip(outputs).filter(|(_, keep)| **keep) {
            is_new |= !std::mem::replace(&mut self.values[output.value.index()], true);
        }
        if is_new {
            self.is_visited = true;
            self.propagate(graph);
        }
        graph.inputs.iter().map(|input| self.values[input.value.index()]).collect()
    }

    /// Returns `true` if the whole graph is needed: all nodes, with all their operands and results.
    fn is_all(&self, graph: &Graph) -> bool {
        let mut nodes = graph.nodes.iter().enumerate();
        nodes.all(|(index, node)| {
            let results: Vec<bool> = node.outputs.iter().map(|output| self.values[output.index()]).collect();
            self.nodes[index] && (self.whole[index] || is_op_fully_needed(node, &results, &self.bodies[index]))
        })
    }

    fn propagate(&mut self, graph: &Graph) {
        // A node that binds a size is also needed if a later needed node uses this size.
        let bound: BTreeSet<&Symbol> = graph.nodes.iter().flat_map(|node| node.op.binds()).collect();
        let mut sizes: BTreeSet<&Symbol> = BTreeSet::new();
        let certain = if self.is_strict { certain_values(graph) } else { Vec::new() };
        for (index, node) in graph.nodes.iter().enumerate().rev() {
            work::count();
            let results: Vec<bool> = node.outputs.iter().map(|output| self.values[output.index()]).collect();
            if !results.contains(&true) && !node.op.binds().any(|symbol| sizes.contains(symbol)) {
                continue;
            }
            self.nodes[index] = true;
            sizes.extend(bound.iter().copied().filter(|symbol| uses_any(graph, node, &[*symbol])));
            node.op.binds().for_each(|symbol| _ = sizes.remove(symbol));
            let bodies = &mut self.bodies[index];
            if bodies.is_empty() {
                *bodies = node.op.bodies().into_iter().map(|body| Need::of(body, self.is_strict)).collect();
            }
            let mut operands = match node.op.bodied() {
                Some(op) => op.needed_operands(&results, bodies),
                None => vec![true; node.inputs.len()],
            };
            let is_lost = |(input, needed): (&ValueId, &bool)| !needed && !certain[input.index()];
            if self.is_strict
                && !node.op.bodies().is_empty()
                && (!cannot_fail(graph, node, &Sizes::new()) || node.inputs.iter().zip(&operands).any(is_lost))
            {
                self.whole[index] = true;
                operands.fill(true);
            }
            for (input, _) in node.inputs.iter().zip(operands).filter(|(_, needed)| *needed) {
                self.values[input.index()] = true;
            }
        }
    }

    /// Returns `true` if the input with index `input` is needed.
    pub(crate) fn has(&self, graph: &Graph, input: usize) -> bool {
        self.values[graph.inputs[input].value.index()]
    }

    /// Returns, for each input, whether it is needed.
    pub(crate) fn inputs(&self, graph: &Graph) -> Vec<bool> {
        (0..graph.inputs.len()).map(|input| self.has(graph, input)).collect()
    }
}

/// Returns `true` if pruning would leave an op unchanged, given the needed results and the needed parts of its bodies.
fn is_op_fully_needed(node: &Node, results: &[bool], bodies: &[Need]) -> bool {
    let Some(pruned) = node.op.bodied().and_then(|op| op.pruned_for(results, bodies)) else { return true };
    let pairs = node.op.bodies().into_iter().zip(pruned.op.bodies());
    pruned.operands.len() == node.inputs.len()
        && pruned.results.len() == node.outputs.len()
        && pairs.into_iter().all(|(before, after)| before.total_size() == after.total_size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostTensor, evaluate};

    /// Prunes an associative scan whose second leaf reads the first one, and whose third leaf is unused.
    #[test]
    fn an_associative_scan_keeps_the_leaves_that_are_read() {
        let text = "fn @f(%a: f64[3], %b: f64[3], %c: f64[3]) {
  %0: f64[3], %1: f64[3], %2: f64[3] = associative_scan %a, %b, %c {
    combine (%a1: f64[], %b1: f64[], %c1: f64[], %a2: f64[], %b2: f64[], %c2: f64[]) {
      %3: f64[] = mul %a1, %a2
      %4: f64[] = mul %b1, %a2
      %5: f64[] = add %4, %b2
      %6: f64[] = add %c1, %c2
      give %3, %5, %6
    }
  }
  return y=%1
}";
        let graph = Graph::parse(text).unwrap();
        let pruned = graph.pruned();
        let shown = pruned.to_string();
        assert!(shown.contains("= associative_scan %a, %b {"), "{shown}");
        assert!(!shown.contains("add %c"), "{shown}");
        let row = |numbers: [f64; 3]| HostTensor::from(numbers);
        let arguments = [row([2., 3., 4.]), row([1., 1., 1.]), row([5., 6., 7.])];
        assert_eq!(evaluate(&pruned, &arguments).unwrap(), [row([1., 4., 17.])]);
        assert_eq!(evaluate(&graph, &arguments).unwrap(), [row([1., 4., 17.])]);
    }
}
