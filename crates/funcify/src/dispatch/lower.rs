//! Lowering: from a graph to the instructions of a program.
//!
//! A loop's body is looked at once: nodes that depend on invariants only run once, before the loop; the others are
//! the step, which either strategy repeats.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::associative::AssociativeNode;
use super::backend::{Backend, LoopStrategy};
use super::eager::execution_error;
use super::program::{Action, Instruction, KernelNode, Operand, Program, Slot, too_large};
use super::registry::{Conversion, Conversions};
use super::switch::ChoiceNode;
use super::while_loop::WhileNode;
use super::{native, unroll};
use crate::error::{Error, Place, Result};
use crate::graph::{Graph, Node};
use crate::host::HostTensor;
use crate::ops::scan::Scan;
use crate::ops::{AssociativeScan, Attribute, Constant, EvalContext, Op, OpRules, Switch, While};
use crate::types::{DType, Dim, Sizes, Symbol, TensorType};

/// What a lowering is given.
pub(super) struct Settings<'a, B: Backend> {
    pub(super) backend: &'a B,
    pub(super) conversions: &'a Conversions<B>,
    /// The strategy that the user forces on all loops.
    pub(super) strategy: Option<LoopStrategy>,
    pub(super) max_kernels: usize,
}

impl<B: Backend> Clone for Settings<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Settings<'_, B> {}

impl<B: Backend> Settings<'_, B> {
    /// The strategy of loops: what is forced, else what the loop's conversion names.
    pub(super) fn strategy_of(&self, scan: &Scan, at: &Place) -> Result<LoopStrategy> {
        let conversion = self.conversions.get(scan.name(), at)?;
        Ok(self.strategy.or(conversion.strategy()).unwrap_or(LoopStrategy::Native))
    }
}

/// A program in the making.
pub(super) struct Lowering<'a, B: Backend> {
    pub(super) settings: Settings<'a, B>,
    /// The sizes that are known: those of a call that the program is specialised to, or none.
    pub(super) sizes: Sizes,
    /// Registers whose integer or truth value is known: constants, static inputs, known sizes, and what follows from
    /// them.
    pub(super) known: HashMap<Slot, i64>,
    instructions: Vec<Instruction<B>>,
    registers: usize,
    /// The kernels of nodes that were met before, by the graph's address and the node's index.
    nodes: HashMap<(usize, usize), Arc<KernelNode<B>>>,
}

/// The registers of a graph's values.
pub(super) type Registers = Vec<Option<Slot>>;

impl<'a, B: Backend> Lowering<'a, B> {
    pub(super) fn new(settings: Settings<'a, B>, sizes: Sizes) -> Self {
        Lowering {
            settings,
            sizes,
            known: HashMap::new(),
            instructions: Vec::new(),
            registers: 0,
            nodes: HashMap::new(),
        }
    }

    /// Lowers a whole graph. `statics` are the numbers of its static inputs, by input.
    pub(super) fn program(mut self, graph: &Graph, statics: &HashMap<usize, i64>) -> Result<Program<B>> {
        let inputs: Vec<Slot> = graph.inputs().iter().map(|_| self.register()).collect();
        for (index, number) in statics {
            self.known.insert(inputs[*index], *number);
        }
        let mut registers = bind_inputs(graph, &inputs);
        let live = live_nodes(graph);
        self.lower_nodes(graph, &mut registers, |index| live[index])?;
        let outputs = output_registers(graph, &registers);
        Ok(self.finish(&inputs, &outputs))
    }

    /// The program of what was lowered.
    pub(super) fn finish(self, inputs: &[Slot], outputs: &[Slot]) -> Program<B> {
        Program::plan(self.instructions, self.registers, inputs, outputs)
    }

    /// A new register.
    pub(super) fn register(&mut self) -> Slot {
        self.registers += 1;
        (self.registers - 1) as Slot
    }

    /// Lowers the nodes that `wanted` names by index, in order.
    pub(super) fn lower_nodes(
        &mut self,
        graph: &Graph,
        registers: &mut Registers,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<()> {
        for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| wanted(*index)) {
            let operands: Vec<Slot> = node.inputs.iter().filter_map(|input| registers[input.index()]).collect();
            let results = match &node.op {
                Op::Scan(scan) => self.lower_scan(graph, node, scan, &operands)?,
                Op::While(op) => self.lower_while(node, op, &operands)?,
                Op::Switch(switch) => self.lower_switch(graph, node, switch, &operands)?,
                Op::AssociativeScan(op) => self.lower_associative(graph, node, op, &operands)?,
                Op::Constant(constant) => vec![self.lower_constant(node, constant)?],
                _ => self.lower_kernel(graph, index, &operands)?,
            };
            for (output, register) in node.outputs.iter().zip(results) {
                registers[output.index()] = Some(register);
            }
        }
        Ok(())
    }

    /// Adds an instruction and gives its results' registers.
    pub(super) fn push(
        &mut self,
        at: &Place,
        action: Action<B>,
        operands: &[Slot],
        results: usize,
    ) -> Result<Vec<Slot>> {
        if self.instructions.len() >= self.settings.max_kernels {
            let count = self.instructions.len() + 1;
            return Err(too_large(at, self.settings.backend.name(), count, self.settings.max_kernels));
        }
        let results: Vec<Slot> = (0..results).map(|_| self.register()).collect();
        self.instructions.push(Instruction {
            action,
            operands: operands.iter().map(|slot| Operand { slot: *slot, last: false }).collect(),
            results: results.iter().copied().map(Some).collect::<SmallVec<_>>(),
        });
        Ok(results)
    }

    fn lower_kernel(&mut self, graph: &Graph, index: usize, operands: &[Slot]) -> Result<Vec<Slot>> {
        let key = (std::ptr::from_ref(graph) as usize, index);
        let kernel = match self.nodes.get(&key) {
            Some(kernel) => kernel.clone(),
            None => {
                let kernel = Arc::new(self.kernel_node(graph, &graph.nodes()[index])?);
                self.nodes.insert(key, kernel.clone());
                kernel
            }
        };
        let known = self.known_result(&kernel, operands);
        let results = self.push(&kernel.at, Action::Kernel(kernel.clone()), operands, kernel.outputs.len())?;
        if let Some(number) = known {
            self.known.insert(results[0], number);
        }
        Ok(results)
    }

    /// The number that an integer or boolean scalar has, if it follows from sizes and numbers that are known.
    fn known_result(&self, kernel: &KernelNode<B>, operands: &[Slot]) -> Option<i64> {
        let is_scalar = |ty: &TensorType| ty.rank() == 0 && (ty.dtype.is_int() || ty.dtype == DType::Bool);
        let folds = matches!(
            kernel.op,
            Op::Size(_) | Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select(_) | Op::Cast(_)
        );
        if !folds || !kernel.inputs.iter().chain(&kernel.outputs).all(is_scalar) {
            return None;
        }
        let number = |(slot, ty): (&Slot, &TensorType)| Some(HostTensor::scalar(*self.known.get(slot)?).cast(ty.dtype));
        let inputs: Vec<HostTensor> = operands.iter().zip(&kernel.inputs).map(number).collect::<Option<_>>()?;
        let mut sizes = self.sizes.clone();
        let mut context = EvalContext { at: kernel.at.clone(), sizes: &mut sizes };
        let results = kernel.op.eval(&mut context, &inputs, &kernel.outputs).ok()?;
        Some(results.first()?.get(0).as_i64())
    }

    fn kernel_node(&self, graph: &Graph, node: &Node) -> Result<KernelNode<B>> {
        let at = node.place();
        let kernel = match (self.settings.conversions.get(node.op.name(), &at), self.settings.backend.fallback()) {
            (Ok(Conversion::Kernel(kernel)), _) => *kernel,
            (_, Some(fallback)) => fallback,
            (Err(error), None) => return Err(error),
            (Ok(_), None) => {
                let fix = "register a kernel for it: only `scan` is a loop";
                return Err(at.mismatch("the conversion", "a kernel", "a loop strategy", fix));
            }
        };
        let (inputs, outputs) = (graph.types(&node.inputs), graph.types(&node.outputs));
        Ok(KernelNode { kernel, op: node.op.clone(), inputs, outputs, at })
    }

    fn lower_constant(&mut self, node: &Node, constant: &Constant) -> Result<Slot> {
        let at = node.place();
        let backend = self.settings.backend;
        let tensor = backend.upload(&constant.value).map_err(|error| execution_error(&at, backend.name(), error))?;
        let register = self.push(&at, Action::Constant(tensor), &[], 1)?[0];
        let dtype = constant.value.dtype();
        if constant.value.shape().is_empty() && (dtype.is_int() || dtype == DType::Bool) {
            self.known.insert(register, constant.value.get(0).as_i64());
        }
        Ok(register)
    }

    /// A choice: of a known index, its branch alone.
    fn lower_switch(&mut self, graph: &Graph, node: &Node, switch: &Switch, operands: &[Slot]) -> Result<Vec<Slot>> {
        let places = switch.operands();
        if let Some(index) = self.known.get(&operands[0]) {
            let chosen = switch.chosen(*index);
            let branch = &switch.branches[chosen];
            let mut registers = bind_inputs(branch, &operands[places[chosen].clone()]);
            let live = live_nodes(branch);
            self.lower_nodes(branch, &mut registers, |index| live[index])?;
            return Ok(output_registers(branch, &registers));
        }
        let branches = switch.branches.iter().zip(&places);
        let branches = branches.map(|(branch, place)| self.sub_program(branch, 0, &operands[place.clone()]));
        let branches = branches.collect::<Result<Vec<_>>>()?;
        let (at, index) = (node.place(), graph.ty(node.inputs[0]).dtype);
        let choice = ChoiceNode { switch: switch.clone(), at: at.clone(), branches, places, index };
        self.push(&at, Action::Choice(Box::new(choice)), operands, node.outputs.len())
    }

    /// A conditional loop, which no program lays out: how many steps it runs is known when it has run.
    fn lower_while(&mut self, node: &Node, op: &While, operands: &[Slot]) -> Result<Vec<Slot>> {
        let at = node.place();
        if self.settings.strategy == Some(LoopStrategy::Unroll) {
            return Err(Error::StepCountNotStatic {
                at: at.boxed(),
                backend: self.settings.backend.name().to_string(),
                reason: "the number of steps follows from values that the loop computes".into(),
                fix: "do not force a strategy, use `LoopStrategy::Native`, or count with `fori_loop`".into(),
            });
        }
        let places = op.operands();
        let carries = places.carries.len();
        let condition = self.sub_program(&op.condition, carries, &operands[places.condition])?;
        let body = self.sub_program(&op.body, carries, &operands[places.body])?;
        let node = WhileNode { op: op.clone(), at: at.clone(), condition, body };
        self.push(&at, Action::While(Box::new(node)), operands, carries)
    }

    /// An associative scan: the programs on whole halves, for any number of elements.
    fn lower_associative(
        &mut self,
        graph: &Graph,
        node: &Node,
        op: &AssociativeScan,
        operands: &[Slot],
    ) -> Result<Vec<Slot>> {
        let at = node.place();
        let types = graph.types(&node.inputs);
        let halves = op.halves(&at, &types)?;
        let captured = &operands[op.leaves..];
        let combine = self.sub_program(&halves.combine, op.leaves, captured)?;
        let spread = self.sub_program(&halves.spread, 2 * op.leaves, captured)?;
        let (pairs, leaves) = (halves.pairs, types[..op.leaves].to_vec());
        let node = AssociativeNode { at: at.clone(), reverse: op.reverse, leaves, pairs, combine, spread };
        self.push(&at, Action::Associative(Box::new(node)), operands, op.leaves)
    }

    /// The program of a body whose parameters after the first `carries` are these operands. What is known of them is
    /// known in it.
    fn sub_program(&self, body: &Graph, carries: usize, operands: &[Slot]) -> Result<Program<B>> {
        let mut inner = Lowering::new(self.settings, self.sizes.clone());
        let inputs: Vec<Slot> = body.inputs().iter().map(|_| inner.register()).collect();
        for (input, operand) in inputs.iter().skip(carries).zip(operands) {
            if let Some(number) = self.known.get(operand) {
                inner.known.insert(*input, *number);
            }
        }
        let mut registers = bind_inputs(body, &inputs);
        let live = live_nodes(body);
        inner.lower_nodes(body, &mut registers, |index| live[index])?;
        let outputs = output_registers(body, &registers);
        Ok(inner.finish(&inputs, &outputs))
    }

    fn lower_scan(&mut self, graph: &Graph, node: &Node, scan: &Scan, operands: &[Slot]) -> Result<Vec<Slot>> {
        let at = node.place();
        let types = graph.types(&node.inputs);
        let mut strategy = self.settings.strategy_of(scan, &at)?;
        if self.is_laid_out(scan, &types) {
            strategy = LoopStrategy::Unroll;
        }
        let body = self.lower_invariants(scan, operands)?;
        match strategy {
            LoopStrategy::Unroll => unroll::lower(self, scan, &at, operands, &types, body),
            LoopStrategy::Native => native::lower(self, scan, &at, operands, &types, node.outputs.len(), body),
        }
    }

    /// Whether the loop's `unroll` hint covers all its steps, and its rows are known.
    fn is_laid_out(&self, scan: &Scan, types: &[TensorType]) -> bool {
        let known = |dim: Option<&Dim>| dim.is_none_or(|dim| dim.value(&self.sizes).is_ok());
        let steps = scan.steps.value(&self.sizes);
        let covered = steps.is_ok_and(|steps| scan.unroll > 1 && steps <= scan.unroll as i64);
        covered && !scan.steps_operand && types.iter().all(|ty| known(ty.shape.dims().first()))
    }

    /// Lowers what depends on the invariants only, once, before the loop.
    fn lower_invariants(&mut self, scan: &Scan, operands: &[Slot]) -> Result<Body> {
        let body = &scan.body;
        let mut registers: Registers = vec![None; body.values().count()];
        let mut invariant = vec![false; registers.len()];
        let places = scan.operands().invariants.zip(scan.params().invariants);
        for (operand, param) in places {
            let value = body.inputs()[param].value.index();
            registers[value] = Some(operands[operand]);
            invariant[value] = true;
        }
        let live = live_nodes(body);
        let mut fixed = vec![false; body.nodes().len()];
        // The sizes that each step gives anew: the numbers of steps of inner loops.
        let mut stepwise: Vec<&Symbol> = Vec::new();
        for (index, node) in body.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            let depends = node.inputs.iter().any(|input| !invariant[input.index()]);
            fixed[index] = !depends && !uses_any(body, node, &stepwise) && ends(&node.op);
            if let Op::Scan(inner) = &node.op
                && inner.steps_operand
                && !fixed[index]
            {
                stepwise.extend(inner.steps.as_symbol());
            }
            node.outputs.iter().for_each(|output| invariant[output.index()] = fixed[index]);
        }
        self.lower_nodes(body, &mut registers, |index| fixed[index])?;
        let step = (0..live.len()).map(|index| live[index] && !fixed[index]).collect();
        Ok(Body { registers, step })
    }
}

/// A loop's body whose invariant part is lowered.
pub(super) struct Body {
    /// The registers of the invariant values.
    pub(super) registers: Registers,
    /// Which nodes each step runs.
    pub(super) step: Vec<bool>,
}

/// Whether a node uses the size of one of these symbols: in its attributes, its results, or the body of a loop.
fn uses_any(graph: &Graph, node: &Node, symbols: &[&Symbol]) -> bool {
    let uses = |dim: &Dim| dim.symbols().iter().any(|symbol| symbols.contains(symbol));
    if symbols.is_empty() {
        return false;
    }
    let in_attributes = node.op.attributes().iter().any(|(_, attribute)| match attribute {
        Attribute::Dim(dim) => uses(dim),
        Attribute::List(dims) => dims.iter().any(uses),
    });
    let in_results = node.outputs.iter().any(|output| graph.ty(*output).shape.dims().iter().any(uses));
    let in_steps = match &node.op {
        Op::Scan(scan) => uses(&scan.steps),
        Op::While(op) => op.bound.as_ref().is_some_and(uses),
        _ => false,
    };
    let mut bodies = node.op.bodies().into_iter();
    let in_bodies = bodies.any(|body| body.nodes().iter().any(|node| uses_any(body, node, symbols)));
    in_attributes || in_results || in_steps || in_bodies
}

/// Whether an op certainly ends. One that may not must not run before a loop, which may have no steps.
fn ends(op: &Op) -> bool {
    let is_bounded = !matches!(op, Op::While(While { bound: None, .. }));
    is_bounded && op.bodies().iter().all(|body| body.nodes().iter().all(|node| ends(&node.op)))
}

/// Which nodes the outputs depend on.
pub(super) fn live_nodes(graph: &Graph) -> Vec<bool> {
    let live = graph.live_values();
    graph.nodes().iter().map(|node| node.outputs.iter().any(|output| live[output.index()])).collect()
}

/// The registers of a graph's values when those of its inputs are known.
pub(super) fn bind_inputs(graph: &Graph, inputs: &[Slot]) -> Registers {
    let mut registers = vec![None; graph.values().count()];
    for (input, register) in graph.inputs().iter().zip(inputs) {
        registers[input.value.index()] = Some(*register);
    }
    registers
}

/// The registers of a graph's outputs.
pub(super) fn output_registers(graph: &Graph, registers: &Registers) -> Vec<Slot> {
    graph.outputs().iter().filter_map(|output| registers[output.value.index()]).collect()
}

/// The type of a row of a stacked type.
pub(super) fn row_type(scan: &Scan, result: usize) -> &TensorType {
    scan.body.output_type(result)
}
