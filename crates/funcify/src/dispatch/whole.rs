//! What a backend compiles as a whole: the program, or loops of it.

use super::backend::{Backend, Compiles, Declined, LoopStrategy, Tensors, Whole};
use super::lower::{self, Lowering};
use super::program::{Action, Run, Slot, WholeNode};
use super::report::{LoopReport, Steps};
use super::stepwise::stepwise;
use crate::cancel::Ran;
use crate::error::{Place, Result, Site};
use crate::graph::{Graph, Node, Output};
use crate::ops::{Op, OpRules};

impl<B: Backend> Lowering<'_, B> {
    /// The whole program, if all its loops are to be compiled and the backend can compile it.
    pub(super) fn lower_whole(&mut self, graph: &Graph, inputs: &[Slot]) -> Result<Option<Vec<Slot>>> {
        match self.settings.compiles() {
            Compiles::Loops if is_made_of_loops(graph) => {}
            Compiles::Programs => {}
            Compiles::Loops | Compiles::Nothing => return Ok(None),
        }
        let compiled = match self.compile_whole(graph, true) {
            Ok(compiled) => compiled,
            Err(declined) => {
                self.declined(declined);
                return Ok(None);
            }
        };
        let at = only_loop(graph).map_or_else(|| Place::new(graph.name(), Site::Unknown), Node::place);
        self.report_loops(graph);
        let outputs: Vec<_> = (0..graph.outputs().len()).map(|index| graph.output_type(index).clone()).collect();
        let node = WholeNode { compiled, outputs: outputs.clone(), at: at.clone() };
        self.push(&at, Action::Whole(node), inputs, outputs.len()).map(Some)
    }

    /// Notes that the loops of a graph are compiled.
    fn report_loops(&mut self, graph: &Graph) {
        let live = graph.live_nodes();
        for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
            self.report_compiled(graph, node);
            node.op.bodies().into_iter().for_each(|body| self.report_loops(body));
        }
    }

    /// Notes that a node is compiled, if it is a loop.
    fn report_compiled(&mut self, graph: &Graph, node: &Node) {
        let steps = match &node.op {
            Op::Scan(scan) => Some(&scan.steps),
            Op::AssociativeScan(_) => Some(&graph.ty(node.inputs[0]).shape[0]),
            Op::While(op) => op.bound.as_ref(),
            _ => return,
        };
        let steps = steps.and_then(|steps| usize::try_from(steps.value(&self.sizes).ok()?).ok());
        let steps = match (steps, &node.op) {
            (None, _) => Steps::AtRunTime,
            (Some(steps), Op::While(_)) => Steps::AtMost(steps),
            (Some(steps), _) => Steps::Exactly(steps),
        };
        let (op, strategy) = (node.op.name(), LoopStrategy::Compiled);
        self.report_loop(LoopReport { op, site: node.site, strategy, declined: None, steps });
    }

    /// A loop or an associative scan, if the backend can compile it; else why it cannot, if it compiles any.
    pub(super) fn lower_whole_loop(
        &mut self,
        graph: &Graph,
        node: &Node,
        operands: &[Slot],
    ) -> Result<std::result::Result<Vec<Slot>, Option<Declined>>> {
        if self.settings.compiles() == Compiles::Nothing {
            return Ok(Err(None));
        }
        let at = node.place();
        if let Op::Scan(scan) = &node.op
            && scan.binds().next().is_some()
        {
            // What comes after the loop uses it.
            return Ok(Err(Some(Declined::new(scan.name(), "its number of steps follows from values"))));
        }
        let (alone, used) = alone(graph, node)?;
        let key = (std::ptr::from_ref(node) as usize, self.sizes.clone());
        if !self.compiled.contains_key(&key) {
            let compiled = self.compile_whole(&alone, false);
            self.compiled.insert(key.clone(), compiled);
        }
        let compiled = match self.compiled[&key].clone() {
            Ok(compiled) => compiled,
            Err(declined) => return Ok(Err(Some(declined))),
        };
        self.report_compiled(graph, node);
        let outputs: Vec<_> = (0..alone.outputs().len()).map(|index| alone.output_type(index).clone()).collect();
        let count = outputs.len();
        let whole = WholeNode { compiled, outputs, at: at.clone() };
        let results = self.push(&at, Action::Whole(whole), operands, count)?;
        Ok(Ok(self.registers(results, used.into_iter())))
    }

    fn compile_whole(&self, graph: &Graph, is_program: bool) -> lower::Whole<B::Tensor> {
        let memory_budget = self.settings.memory_budget;
        let graph = &*stepwise(graph, &self.sizes)
            .map_err(|error| Declined::new("associative_scan", format!("as a loop: {error}")))?;
        self.settings.backend.compile(Whole { graph, sizes: &self.sizes, is_program, memory_budget })
    }
}

impl<T> WholeNode<T> {
    /// Runs what was compiled, unless it is cancelled.
    pub(super) fn run<B: Backend<Tensor = T>>(&self, run: &Run<'_, B>, operands: &[T]) -> Result<Tensors<T>> {
        let ran = || run.watch.check(&self.at, Ran::Part);
        loop {
            if let Some(results) = run.fail(&self.at, self.compiled.run(operands, &|| ran().is_err()))? {
                return Ok(results);
            }
            ran()?;
        }
    }
}

/// Whether a backend that compiles loops compiles all of a program: it has loops, and no products of matrices outside them,
/// which are the library's.
fn is_made_of_loops(graph: &Graph) -> bool {
    let live = graph.live_nodes();
    let mut ops = graph.nodes().iter().zip(live).filter(|(_, live)| *live).map(|(node, _)| &node.op);
    ops.clone().any(is_loop) && !ops.any(|op| matches!(op, Op::MatMul(_) | Op::Conv(_)))
}

/// The loop of a program that has one: where a run is that is stopped.
fn only_loop(graph: &Graph) -> Option<&Node> {
    let live = graph.live_nodes();
    let mut loops = graph.nodes().iter().zip(live).filter(|(node, live)| *live && is_loop(&node.op));
    loops.next().map(|(node, _)| node).filter(|_| loops.next().is_none())
}

/// Whether an op is a loop, as a backend compiles it.
fn is_loop(op: &Op) -> bool {
    matches!(op, Op::Scan(_) | Op::AssociativeScan(_) | Op::While(_))
}

/// A graph of one node: its inputs are the node's operands, its outputs those results that the graph uses. Tells which
/// they are.
fn alone(graph: &Graph, node: &Node) -> Result<(Graph, Vec<bool>)> {
    let used = used_results(graph, node);
    let mut alone = Graph::new(node.op.name());
    let inputs: Vec<_> = node
        .inputs
        .iter()
        .enumerate()
        .map(|(index, input)| alone.push_input(&format!("operand{index}"), graph.ty(*input).clone(), false))
        .collect();
    let results = alone.push_node(node.op.clone(), &inputs, node.site)?;
    let outputs = results.into_iter().enumerate().filter(|(index, _)| used[*index]);
    let outputs = outputs.map(|(index, value)| Output { name: format!("result{index}"), value }).collect();
    Ok((alone.with_outputs(outputs), used))
}

/// Which results of a node the graph uses.
pub(super) fn used_results(graph: &Graph, node: &Node) -> Vec<bool> {
    let live = graph.live_nodes();
    let uses = |value| {
        let users = graph.nodes().iter().zip(&live).filter(|(_, live)| **live);
        graph.outputs().iter().any(|output| output.value == value)
            || users.flat_map(|(node, _)| &node.inputs).any(|input| *input == value)
    };
    node.outputs.iter().map(|output| uses(*output)).collect()
}
