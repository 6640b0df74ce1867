//! Lowers a program, or its loops, to code that the backend compiles as a whole.

use funcify_core::graph::{Output, ValueMap};
use funcify_core::ops::{Control, Movement, no_size};
use funcify_core::types::SizeError;

use super::report::Steps;
use super::*;
use crate::backend::{Compiled, WholeRequest};
use crate::prepare::compositions::composition;
use crate::prepare::request_whole;
use crate::prepare::sizes::with_known_sizes;
use crate::run::program::WholeNode;

/// The outcome of trying to compile a node as a whole.
pub(crate) enum Attempt {
    /// The node was compiled. Contains the registers of its results.
    Compiled(Vec<Slot>),
    /// The node has data-dependent sizes, so it can only be compiled at run time.
    AtRunTime,
    /// The node was not compiled. Contains the backend's reason, or `None` if the backend was not asked.
    Declined(Option<Declined>),
}

impl Attempt {
    /// Returns the registers of the results, or the reason why the node was not compiled. Used for ops that cannot be
    /// compiled at run time.
    pub(crate) fn into_results(self, op: &str) -> Result<Vec<Slot>, Option<Declined>> {
        match self {
            Attempt::Compiled(results) => Ok(results),
            Attempt::AtRunTime => Err(Some(Declined::new(op, "one of its sizes depends on data"))),
            Attempt::Declined(declined) => Err(declined),
        }
    }
}

impl<B: Backend> Lowering<'_, B> {
    /// Lowers the entire program to compiled code, and returns the registers of its results. Returns `None` if the
    /// settings do not request whole programs, or if the backend declines.
    pub(crate) fn lower_whole_program(&mut self, graph: &Graph, inputs: &[Slot]) -> Result<Option<Vec<Slot>>> {
        match self.settings.compiles() {
            Compiles::Loops if is_made_of_loops(graph) => {}
            Compiles::Programs => {}
            Compiles::Loops | Compiles::Nothing => return Ok(None),
        }
        let graph = &*with_known_sizes(graph, &self.sizes);
        let at = only_loop(graph).map_or_else(|| Place::new(graph.name(), Site::Unknown), Node::place);
        let compiled = match request_whole(self.settings.backend, self.request(graph, true, false)) {
            Ok(compiled) => compiled,
            Err(declined) => {
                let declined = declined.unless_fault(&at, self.settings.backend.name())?;
                self.notes.declined =
                    Some(self.reason_for_declining(graph, declined).unless_fault(&at, self.settings.backend.name())?);
                return Ok(None);
            }
        };
        self.report_loops(graph);
        self.push_whole(graph, compiled, at, inputs).map(Some)
    }

    /// Appends an instruction that runs the compiled code of a graph.
    pub(super) fn push_whole(
        &mut self,
        graph: &Graph,
        compiled: Arc<dyn Compiled<B::Tensor>>,
        at: Place,
        operands: &[Slot],
    ) -> Result<Vec<Slot>> {
        self.notes.fallback.extend(compiled.evaluated_ops());
        let outputs: Vec<_> = (0..graph.outputs().len()).map(|index| graph.output_type(index).clone()).collect();
        let count = outputs.len();
        self.push(&at.clone(), Action::Whole(WholeNode { compiled, outputs, at }), operands, count)
    }

    /// Reports each loop of a graph, including nested loops, as compiled.
    fn report_loops(&mut self, graph: &Graph) {
        for node in graph.live() {
            let place = self.notes.loops.len();
            self.report_loop(place, graph, node, LoopStrategy::Compiled, None, None);
            node.op.bodies().into_iter().for_each(|body| self.report_loops(body));
        }
    }

    /// Inserts a report at index `place` of the list of loops, if the node is a loop.
    pub(crate) fn report_loop(
        &mut self,
        place: usize,
        graph: &Graph,
        node: &Node,
        strategy: LoopStrategy,
        declined: Option<Declined>,
        kernels: Option<usize>,
    ) {
        if let Some(count) = steps(graph, node) {
            let steps = Steps::of(&count, &self.sizes);
            let (op, site, rewrites) = (node.op.name(), node.site, Default::default());
            self.notes.add_loop(place, LoopReport { op, site, strategy, declined, steps, kernels, rewrites });
        }
    }

    /// Tries to lower a single node, such as a loop, to compiled code.
    pub(crate) fn lower_whole_node(&mut self, graph: &Graph, index: usize, operands: &[Slot]) -> Result<Attempt> {
        if self.settings.compiles() == Compiles::Nothing {
            return Ok(Attempt::Declined(None));
        }
        let node = &graph.nodes()[index];
        let used = used_results(&self.uses(graph), node);
        let node_graph = isolate_node(graph, node, &used)?;
        let node_graph = &*with_known_sizes(&node_graph, &self.sizes_outside_bodies(&node_graph).0);
        let (sizes, bound) = self.sizes_outside_bodies(node_graph);
        let mut has_sizes = true;
        node_graph.visit_symbols(&mut |symbol| has_sizes &= sizes.get(symbol).is_some() || bound.contains(symbol));
        if !has_sizes {
            return Ok(Attempt::AtRunTime);
        }
        let key = ((graph.id(), index), sizes.clone());
        if !self.compiled.contains_key(&key) {
            let whole = WholeRequest { sizes: &sizes, ..self.request(node_graph, false, false) };
            let compiled = request_whole(self.settings.backend, whole);
            self.compiled.insert(key.clone(), compiled);
        }
        let compiled = match self.compiled[&key].clone() {
            Ok(compiled) => compiled,
            Err(declined) => {
                let declined = declined.unless_fault(&node.place(), self.settings.backend.name())?;
                return Ok(match bound.is_empty() {
                    true => Attempt::Declined(Some(declined)),
                    false => Attempt::AtRunTime,
                });
            }
        };
        self.report_loop(self.notes.loops.len(), graph, node, LoopStrategy::Compiled, None, None);
        let results = self.push_whole(node_graph, compiled, node.place(), operands)?;
        self.bind_known_steps(node, node_graph)?;
        Ok(Attempt::Compiled(self.registers_of_all_results(results, used.into_iter())))
    }

    /// Binds the number of steps of a compiled loop if an operand of the loop held this number. `resolved` is the
    /// loop's graph, with known sizes.
    fn bind_known_steps(&mut self, node: &Node, resolved: &Graph) -> Result<()> {
        let (Op::Scan(scan), Some(Node { op: Op::Scan(known), .. })) = (&node.op, resolved.nodes().last()) else {
            return Ok(());
        };
        let Some(symbol) = scan.steps.as_symbol().filter(|_| scan.steps_operand) else { return Ok(()) };
        let at = node.place();
        let count = known.steps.value(&self.sizes).map_err(|error| no_size(&at, error))?;
        let size = usize::try_from(count).map_err(|_| no_size(&at, SizeError::Negative(known.steps.clone(), count)))?;
        self.sizes.set(symbol, size);
        self.push(&at, Action::Bind { symbol: symbol.clone(), size }, &[], 0).map(drop)
    }

    /// Returns the reason why a program is not compiled as a whole. If the program has integers, `declined` may state
    /// merely that an integer can exceed the range in which floats are exact. For any program with integers, asks the
    /// backend for code that may reject its operands. If the backend declines again, returns the new reason.
    fn reason_for_declining(&self, graph: &Graph, declined: Declined) -> Declined {
        if !has_integers(graph) {
            return declined;
        }
        request_whole(self.settings.backend, self.request(graph, true, true)).err().unwrap_or(declined)
    }

    /// Returns the current sizes except those that the graph binds, and the symbols that the bodies of its ops bind. Such
    /// sizes are unknown, even if `self.sizes` still has their values from the previous step of an unrolled loop.
    fn sizes_outside_bodies(&self, graph: &Graph) -> (Sizes, HashSet<Symbol>) {
        let bodies = graph.nodes().iter().flat_map(|node| node.op.bodies());
        let bound: HashSet<Symbol> = bodies.flat_map(|body| body.bound_symbols()).collect();
        let mut sizes = self.sizes.clone();
        let own = graph.nodes().iter().flat_map(|node| node.op.binds());
        own.chain(&bound).for_each(|symbol| sizes.remove(symbol));
        (sizes, bound)
    }

    /// Returns a request to compile a graph for the current sizes.
    fn request<'r>(&'r self, graph: &'r Graph, is_program: bool, may_refuse: bool) -> WholeRequest<'r> {
        WholeRequest { graph, sizes: &self.sizes, is_program, memory_budget: self.settings.memory_budget, may_refuse }
    }
}

/// Returns `true` if a backend that compiles loops should compile the entire program: the program has loops or
/// switches, but no matrix products outside of loops. Such products are left to the library.
fn is_made_of_loops(graph: &Graph) -> bool {
    let is_control = |node: &Node| steps(graph, node).is_some() || matches!(node.op, Op::Switch(_));
    graph.live().any(is_control) && !has_products(graph)
}

/// Returns `true` if a graph has matrix products outside of loops, including products in the branches of switches.
fn has_products(graph: &Graph) -> bool {
    graph.live().any(|node| match node.op.class() {
        OpClass::Product(_) => true,
        // `function/prepare.rs` reports errors in compositions, so they are ignored here.
        OpClass::Custom(custom) => {
            composition(graph, node, custom).is_ok_and(|it| it.is_some_and(|it| has_products(&it)))
        }
        OpClass::Control(op) => match op {
            Control::Switch(switch) => switch.branches.iter().any(|branch| has_products(branch)),
            Control::Scan(_) | Control::While(_) | Control::AssociativeScan(_) | Control::Call(_) => false,
        },
        OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => false,
        OpClass::Along(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => false,
    })
}

/// Returns `true` if a graph or one of its bodies has integer values.
fn has_integers(graph: &Graph) -> bool {
    let bodies = || graph.nodes().iter().flat_map(|node| node.op.bodies());
    graph.values().any(|value| graph.ty(value).dtype.is_int()) || bodies().any(|body| has_integers(body))
}

/// Returns the only loop of a program, or `None` if the program has no loop or more than one. Cancellation errors point
/// to this loop.
fn only_loop(graph: &Graph) -> Option<&Node> {
    let mut loops = graph.live().filter(|node| steps(graph, node).is_some());
    loops.next().filter(|_| loops.next().is_none())
}

/// Returns the number of steps of a loop, or `None` if the node is not a loop.
fn steps(graph: &Graph, node: &Node) -> Option<StepCount> {
    let operands: Vec<&TensorType> = node.inputs.iter().map(|input| graph.ty(*input)).collect();
    node.op.steps(&operands)
}

/// Builds a graph of a single node. Its inputs are the node's operands, and its outputs are the `used` results. Integer
/// operands that cheap ops compute from constants and sizes alone are recomputed inside the graph, so that the backend
/// knows their ranges.
pub(crate) fn isolate_node(graph: &Graph, node: &Node, used: &[bool]) -> Result<Graph> {
    let mut node_graph = Graph::new(node.op.name());
    let mut inputs: Vec<_> = node
        .inputs
        .iter()
        .enumerate()
        .map(|(index, input)| node_graph.push_input(&format!("operand{index}"), graph.ty(*input).clone(), false))
        .collect();
    if node.inputs.iter().any(|input| graph.ty(*input).dtype.is_int()) {
        let integers = copy_integers(graph, &node.inputs, &mut node_graph);
        for (operand, input) in inputs.iter_mut().zip(&node.inputs) {
            *operand = integers.get(*input).unwrap_or(*operand);
        }
    }
    let results = node_graph.push_node(node.op.clone(), &inputs, node.site)?;
    let outputs = results.into_iter().enumerate().filter(|(index, _)| used[*index]);
    let outputs = outputs.map(|(index, value)| Output { name: format!("result{index}"), value }).collect();
    Ok(node_graph.with_outputs(outputs))
}

/// Copies into the graph `to` the ops that compute the integers in `values`, if these ops are cheap and depend only on
/// constants and sizes. Returns a map from the original values to the copies.
fn copy_integers<'g>(graph: &'g Graph, values: &[ValueId], to: &mut Graph) -> ValueMap<'g> {
    let mut copied = ValueMap::new(graph);
    let mut follows = vec![false; graph.values().count()];
    for node in graph.nodes() {
        let is_cheap = match node.op.class() {
            OpClass::Creation(_) | OpClass::Elementwise(Elementwise::Unary(_) | Elementwise::Binary(_)) => true,
            OpClass::Movement(Movement::Broadcast(_) | Movement::Reshape(_)) => true,
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Indexing(_) | OpClass::Along(_) => false,
            OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => false,
            OpClass::Control(_) | OpClass::Custom(_) => false,
        };
        let is_one = is_cheap && node.inputs.iter().all(|input| follows[input.index()]);
        for output in &node.outputs {
            follows[output.index()] = is_one && graph.ty(*output).dtype.is_int();
        }
    }
    let mut needed = vec![false; follows.len()];
    values.iter().for_each(|value| needed[value.index()] = follows[value.index()]);
    for node in graph.nodes().iter().rev().filter(|node| node.outputs.len() == 1) {
        if needed[node.outputs[0].index()] {
            node.inputs.iter().for_each(|input| needed[input.index()] = true);
        }
    }
    for node in graph.nodes().iter().filter(|node| node.outputs.iter().any(|output| needed[output.index()])) {
        copied.node(to, node, node.op.clone());
    }
    copied
}

/// Returns a flag for each value of a graph: `true` if the value is an output of the graph, or an operand of a live
/// node.
pub(crate) fn uses(graph: &Graph) -> Vec<bool> {
    let mut used = vec![false; graph.values().count()];
    graph.outputs().iter().for_each(|output| used[output.value.index()] = true);
    graph.live().flat_map(|node| &node.inputs).for_each(|value| used[value.index()] = true);
    used
}

/// Returns a flag for each result of a node: `true` if the graph [`uses`] it.
pub(crate) fn used_results(uses: &[bool], node: &Node) -> Vec<bool> {
    node.outputs.iter().map(|output| uses[output.index()]).collect()
}
