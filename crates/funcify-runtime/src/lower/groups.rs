//! Compiles the ops between loops in groups, for backends that compile entire programs but have declined this one.
//!
//! A group consists of consecutive ops without bodies. If one of its sizes depends on data, it is compiled at run time.
//! An op that the backend cannot compile divides its group in two, and runs as a kernel. So does an op with a kernel of
//! its own, such as a custom op.

use funcify_core::graph::ValueMap;

use super::late::TRIAL_SIZES;
use super::*;
use crate::run::late::{GroupNode, LateGraph};

/// The maximum number of elements of a constant that a group contains. A larger constant is an operand of the group.
const MAX_CONSTANT: usize = 64;

/// When groups of ops are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grouping {
    /// When the program is built, or when they run if one of their sizes depends on data.
    AtOnce,
    /// When they run. This is for the steps of a compiled loop, which run only if the compiled code rejects its operands.
    WhenRun,
    /// Never. This is for the ops of a group, which run one by one if the code of the group cannot run.
    Never,
}

/// The ops of a group as a graph.
struct Outline {
    graph: Graph,
    /// The values of the original graph that are the inputs of the group.
    inputs: Vec<ValueId>,
    /// The values of the original graph that are the outputs of the group.
    outputs: Vec<ValueId>,
}

impl<B: Backend> Lowering<'_, B> {
    /// Returns `true` if ops between loops are compiled in groups.
    pub(super) fn compiles_groups(&self) -> bool {
        let is_all = |compiles| compiles == Compiles::Programs;
        self.grouping != Grouping::Never && is_all(self.settings.compiles()) && is_all(self.settings.backend.compiles())
    }

    /// Like [`lower_nodes`](Lowering::lower_nodes), but lowers consecutive ops as a group.
    pub(super) fn lower_groups<'g>(
        &mut self,
        graph: &'g Graph,
        mut registers: Replay<'g, Slot>,
        marked: &[bool],
    ) -> Result<Replay<'g, Slot>> {
        let uses = count_uses(graph);
        let mut group: Vec<usize> = Vec::new();
        // The values that the ops of the group compute.
        let mut pending: HashSet<ValueId> = HashSet::new();
        for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| marked[*index]) {
            if node.inputs.iter().any(|input| registers.get(*input).is_none() && !pending.contains(input)) {
                continue;
            }
            let is_constant = matches!(node.op, Op::Constant(_));
            let stays =
                node.op.bodies().is_empty() && !matches!(node.op, Op::BindSize(_)) && !self.has_own_kernel(node);
            if stays && !is_constant {
                if !self.lower_static(graph, index, &mut registers)? {
                    group.push(index);
                    pending.extend(&node.outputs);
                }
                continue;
            }
            if !is_constant {
                self.lower_group(graph, &uses, &std::mem::take(&mut group), &mut registers)?;
                pending.clear();
            }
            self.lower_into(graph, index, &mut registers)?;
        }
        self.lower_group(graph, &uses, &group, &mut registers)?;
        Ok(registers)
    }

    /// Calls `lower` and returns its result. If `is_fallback` is `true`, the ops that it lowers run only if compiled code
    /// rejects its operands, so their groups are compiled when they run, and the report does not list them.
    pub(super) fn lower_fallback<R>(
        &mut self,
        is_fallback: bool,
        lower: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        if !is_fallback {
            return lower(self);
        }
        let (grouping, fallback) = (self.grouping, self.notes.fallback.clone());
        if grouping == Grouping::AtOnce {
            self.grouping = Grouping::WhenRun;
        }
        let lowered = lower(self);
        (self.grouping, self.notes.fallback) = (grouping, fallback);
        lowered
    }

    /// Returns `true` if the backend has a kernel for a custom op. Such an op always runs that kernel.
    fn has_own_kernel(&self, node: &Node) -> bool {
        matches!(node.op, Op::Custom(_)) && has_rule::<B>(node.op.name())
    }

    /// Lowers a node alone, and records the registers of its results.
    fn lower_into(&mut self, graph: &Graph, index: usize, registers: &mut Replay<'_, Slot>) -> Result<()> {
        let node = &graph.nodes()[index];
        let operands: Option<Vec<Slot>> = node.inputs.iter().map(|input| registers.get(*input)).collect();
        let operands = operands.expect("the operands have registers");
        let results = self.lower_node(NodeCall { graph, index, node, operands: &operands })?;
        node.outputs.iter().zip(results).for_each(|(output, register)| registers.set(*output, register));
        Ok(())
    }

    /// Lowers a node as a constant if its result is static. Returns `false` if it is not.
    fn lower_static(&mut self, graph: &Graph, index: usize, registers: &mut Replay<'_, Slot>) -> Result<bool> {
        let node = &graph.nodes()[index];
        let operands: Option<Vec<Slot>> = node.inputs.iter().map(|input| registers.get(*input)).collect();
        let Some(operands) = operands else { return Ok(false) };
        let kernel = self.kernel(graph, index)?;
        let Some(number) = self.static_result(&kernel, &operands) else { return Ok(false) };
        let register = self.push_constant(&kernel.at, &number.tensor(kernel.outputs[0].dtype))?;
        self.statics.insert(register, number);
        registers.set(node.outputs[0], register);
        Ok(true)
    }

    /// Lowers a group of nodes. Divides it if the backend cannot compile all of its ops. `uses` is the number of uses of each
    /// value.
    fn lower_group(
        &mut self,
        graph: &Graph,
        uses: &[usize],
        group: &[usize],
        registers: &mut Replay<'_, Slot>,
    ) -> Result<()> {
        let Some(first) = group.first() else { return Ok(()) };
        let at = graph.nodes()[*first].place();
        let outline = outline(graph, uses, group)?;
        let inputs: Option<Vec<Slot>> = outline.inputs.iter().map(|input| registers.get(*input)).collect();
        let inputs = inputs.expect("the operands of a group have registers");
        let declined = match self.compile_group(&outline, &at, &inputs)? {
            Ok(results) => {
                outline.outputs.iter().zip(results).for_each(|(output, register)| registers.set(*output, register));
                return Ok(());
            }
            Err(declined) => declined,
        };
        if group.len() == 1 {
            return self.lower_into(graph, *first, registers);
        }
        let is_declined = |index: &usize| graph.nodes()[*index].op.name() == declined.op;
        if !group.iter().any(is_declined) {
            let (front, back) = group.split_at(group.len() / 2);
            self.lower_group(graph, uses, front, registers)?;
            return self.lower_group(graph, uses, back, registers);
        }
        for part in group.chunk_by(|one, next| !is_declined(one) && !is_declined(next)) {
            self.lower_group(graph, uses, part, registers)?;
        }
        Ok(())
    }

    /// Compiles a group, at once or at run time, and returns the registers of its outputs.
    fn compile_group(
        &mut self,
        Outline { graph, .. }: &Outline,
        at: &Place,
        operands: &[Slot],
    ) -> Result<Result<Vec<Slot>, Declined>> {
        let backend = self.settings.backend;
        let late = LateGraph::new(graph.clone(), self.settings.memory_budget);
        let (own, unknown) = late.own_sizes(&self.sizes);
        if self.grouping == Grouping::AtOnce {
            if unknown.is_empty()
                && let Ok(compiled) = late.compile(backend, &own, false)
            {
                return Ok(Ok(self.push_whole(graph, compiled, at.clone(), operands)?));
            }
            if let Err(declined) = try_sizes(&late, backend, &own, &unknown) {
                return Ok(Err(declined.unless_fault(at, backend.name())?));
            }
        }
        let mut inner = Lowering::new(self.settings.clone(), self.sizes.clone());
        inner.grouping = Grouping::Never;
        let parameters: Vec<_> = graph.inputs().iter().map(|input| Parameter::new(input.value)).collect();
        let (program, _) = inner.lower_body(graph, &parameters, &graph.live_nodes())?;
        let outputs: Vec<_> = (0..graph.outputs().len()).map(|index| graph.output_type(index).clone()).collect();
        let count = outputs.len();
        let node = GroupNode { late, program: Arc::new(program), outputs, at: at.clone() };
        Ok(Ok(self.push(at, Action::Group(Box::new(node)), operands, count)?))
    }
}

/// Compiles a group for one of the trial sizes, or for its own sizes if all of them are known.
fn try_sizes<B: Backend>(
    late: &LateGraph<B>,
    backend: &B,
    own: &Sizes,
    unknown: &[Symbol],
) -> std::result::Result<(), Declined> {
    if unknown.is_empty() {
        return late.try_compile(backend, own.clone(), true);
    }
    let at_size = |size: usize| {
        let mut sizes = own.clone();
        unknown.iter().for_each(|symbol| sizes.set(symbol, size));
        sizes
    };
    // Symbols may depend on each other, so that no trial has possible sizes.
    let mut trials = TRIAL_SIZES.into_iter().map(at_size).filter(|sizes| late.check_sizes(sizes).is_ok());
    trials.next().map_or(Ok(()), |sizes| late.try_compile(backend, sizes, false))
}

/// Returns the number of uses of each value: as an operand of a node, or as an output.
fn count_uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.values().count()];
    let outputs = graph.outputs().iter().map(|output| output.value);
    let operands = graph.nodes().iter().flat_map(|node| node.inputs.iter().copied());
    outputs.chain(operands).for_each(|value| uses[value.index()] += 1);
    uses
}

/// Returns the graph of a group: its nodes with the small constants that they use. Its outputs are the values that other
/// nodes or the outputs of the graph use.
fn outline(graph: &Graph, uses: &[usize], group: &[usize]) -> Result<Outline> {
    let nodes = || group.iter().map(|index| &graph.nodes()[*index]);
    let mut used_inside: HashMap<ValueId, usize> = HashMap::new();
    nodes().flat_map(|node| &node.inputs).for_each(|input| *used_inside.entry(*input).or_default() += 1);
    let (mut outlined, mut copied) = (Graph::new("group"), ValueMap::new(graph));
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for node in nodes() {
        for input in &node.inputs {
            if copied.get(*input).is_some() {
                continue;
            }
            match graph.node_of(*input) {
                Some(source @ Node { op: Op::Constant(constant), .. }) if constant.value.len() <= MAX_CONSTANT => {
                    copied.node(&mut outlined, source, source.op.clone());
                }
                _ => {
                    let name = format!("operand{}", inputs.len());
                    copied.set(*input, outlined.push_input(&name, graph.ty(*input).clone(), false));
                    inputs.push(*input);
                }
            }
        }
        let operands: Option<Vec<ValueId>> = node.inputs.iter().map(|input| copied.get(*input)).collect();
        let operands = operands.expect("each operand is copied or an input");
        let results = outlined.push_typed(node.op.clone(), &operands, graph.types(&node.outputs), node.site)?;
        node.outputs.iter().zip(results).for_each(|(output, result)| copied.set(*output, result));
        let is_output = |output: &&ValueId| uses[output.index()] > used_inside.get(output).copied().unwrap_or(0);
        outputs.extend(node.outputs.iter().filter(is_output));
    }
    for (number, output) in outputs.iter().enumerate() {
        let value = copied.get(*output).expect("each output of a group is a result of one of its nodes");
        outlined.push_output(&format!("result{number}"), value);
    }
    Ok(Outline { graph: outlined, inputs, outputs })
}
