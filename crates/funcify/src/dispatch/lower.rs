//! Lowering: from a graph to the instructions of a program.
//!
//! A loop's body is looked at once: nodes that depend on invariants only run once, before the loop; the others are
//! the step, which either strategy repeats.
//!
//! A loop whose number of steps follows from values cannot be laid out. With an `until` or a bound, one program of its
//! body that is run again until the condition ends it is what laying it out with early exits would be, so it runs from the
//! host in either strategy; a forced [`LoopStrategy::Unroll`] asks that the largest number of steps is known.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use smallvec::SmallVec;

use super::associative::AssociativeNode;
use super::backend::{Backend, Compiled, Compiles, Declined, LoopStrategy};
use super::eager::execution_error;
use super::program::{Action, Instruction, KernelNode, Operand, Program, Slot, too_large};
use super::registry::{Conversion, Conversions};
use super::report::{LoopReport, Steps};
use super::switch::ChoiceNode;
use super::while_loop::WhileNode;
use super::whole::used_results;
use super::{native, unroll};
use crate::cancel::{Ran, Watch};
use crate::error::{Error, Place, Result};
use crate::graph::{Graph, Node, ValueId, is_certain, uses_any, work};
use crate::host::HostTensor;
use crate::memory::over_budget;
use crate::ops::scan::Scan;
use crate::ops::{AssociativeScan, Constant, EvalContext, Halves, Op, OpRules, Switch, While};
use crate::types::{DType, Dim, Sizes, Symbol, TensorType};

/// What a lowering is given.
pub(super) struct Settings<'a, B: Backend> {
    pub(super) backend: &'a B,
    pub(super) conversions: &'a Conversions<B>,
    /// The strategy that the user forces on all loops.
    pub(super) strategy: Option<LoopStrategy>,
    pub(super) max_kernels: usize,
    pub(super) memory_budget: u64,
}

impl<B: Backend> Clone for Settings<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Settings<'_, B> {}

impl<B: Backend> Settings<'_, B> {
    /// Refuses what a program would take more memory for than the budget.
    pub(super) fn afford(&self, at: &Place, what: impl FnOnce() -> String, bytes: u64) -> Result<()> {
        match bytes > self.memory_budget {
            true => Err(over_budget(at, what(), bytes, 0, self.memory_budget)),
            false => Ok(()),
        }
    }

    /// What the backend is asked to compile as a whole.
    pub(super) fn compiles(&self) -> Compiles {
        match (self.strategy, self.backend.compiles()) {
            // It is asked, and says why not.
            (Some(LoopStrategy::Compiled), Compiles::Nothing) => Compiles::Loops,
            (strategy, own) => strategy.unwrap_or_default().compiled(own),
        }
    }

    /// The strategy of loops that are not compiled: what is forced, else what their conversion names.
    pub(super) fn strategy_of(&self, scan: &Scan, at: &Place) -> Result<LoopStrategy> {
        let conversion = self.conversions.get(scan.name(), at)?;
        Ok(self.forced().or(conversion.strategy()).unwrap_or(LoopStrategy::Native))
    }

    /// The strategy that loops must take which are not compiled.
    pub(super) fn forced(&self) -> Option<LoopStrategy> {
        match self.strategy {
            Some(LoopStrategy::Compiled) => Some(LoopStrategy::Native),
            strategy => strategy,
        }
    }
}

/// A program in the making.
pub(super) struct Lowering<'a, B: Backend> {
    pub(super) settings: Settings<'a, B>,
    /// The sizes that are known: those of a call that the program is specialised to, or none.
    pub(super) sizes: Sizes,
    /// Registers whose integer or truth value is known: constants, static inputs, known sizes, and what follows from
    /// them.
    pub(super) known: HashMap<Slot, Known>,
    /// What may stop it: unrolling may take long.
    watch: Watch,
    /// What was found on the way.
    findings: Findings,
    instructions: Vec<Instruction<B>>,
    registers: usize,
    /// The kernels of nodes that were met before, by the graph's address and the node's index.
    nodes: HashMap<(usize, usize), Arc<KernelNode<B>>>,
    /// The programs of bodies that were met before.
    programs: HashMap<ProgramKey, Arc<Program<B>>>,
    /// What the associative scans that were met before consist of, by their address.
    halves: HashMap<usize, Arc<Halves>>,
    /// What the backend made of the loops that were met before, by the node's address and the sizes.
    pub(super) compiled: HashMap<(usize, Sizes), Whole<B::Tensor>>,
}

/// What a backend made of a program or a loop as a whole, or why it did not.
pub(super) type Whole<T> = std::result::Result<Arc<dyn Compiled<T>>, Declined>;

/// A number that is known when a program is made.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Known {
    number: i64,
    /// The static inputs that it follows from.
    inputs: BTreeSet<usize>,
}

/// What a lowering finds beside the program.
#[derive(Default)]
pub(super) struct Findings {
    /// The static inputs whose numbers the program depends on.
    pub(super) statics: BTreeSet<usize>,
    /// How each loop runs.
    pub(super) loops: Vec<LoopReport>,
    /// Why the program is not compiled as a whole, if it was to be.
    pub(super) declined: Option<Declined>,
}

impl Findings {
    fn add(&mut self, other: Findings) {
        self.statics.extend(other.statics);
        other.loops.into_iter().for_each(|each| self.add_loop(each));
    }

    fn add_loop(&mut self, each: LoopReport) {
        if !self.loops.contains(&each) {
            self.loops.push(each);
        }
    }
}

/// What the program of a body depends on: the body, by its address, what is known of its arguments, and the sizes.
type ProgramKey = (usize, Vec<Option<Known>>, Sizes);

/// The registers of a graph's values.
pub(super) type Registers = Vec<Option<Slot>>;

impl<'a, B: Backend> Lowering<'a, B> {
    pub(super) fn new(settings: Settings<'a, B>, sizes: Sizes) -> Self {
        Lowering {
            settings,
            sizes,
            known: HashMap::new(),
            watch: Watch::current(),
            findings: Findings::default(),
            instructions: Vec::new(),
            registers: 0,
            nodes: HashMap::new(),
            programs: HashMap::new(),
            halves: HashMap::new(),
            compiled: HashMap::new(),
        }
    }

    /// Lowers a whole graph. `statics` are the numbers of its static inputs, by input.
    pub(super) fn program(mut self, graph: &Graph, statics: &[(usize, i64)]) -> Result<(Program<B>, Findings)> {
        let inputs: Vec<_> =
            graph.inputs().iter().map(|input| (self.register(), graph.ty(input.value).clone())).collect();
        let slots: Vec<Slot> = inputs.iter().map(|(slot, _)| *slot).collect();
        if let Some(outputs) = self.lower_whole(graph, &slots)? {
            return Ok((Program::plan(self.instructions, self.registers, inputs, &outputs), self.findings));
        }
        self.registers = 0;
        let mut arguments: Vec<_> = graph.inputs().iter().map(|input| (input.value, None)).collect();
        for (index, number) in statics {
            arguments[*index].1 = Some(Known { number: *number, inputs: BTreeSet::from([*index]) });
        }
        let live = graph.live_nodes();
        self.program_of(graph, &arguments, |index| live[index])
    }

    /// Lowers the nodes that `wanted` names by index into a program whose arguments are these values.
    fn program_of(
        mut self,
        graph: &Graph,
        arguments: &[(ValueId, Option<Known>)],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(Program<B>, Findings)> {
        let mut registers: Registers = vec![None; graph.values().count()];
        let mut inputs = Vec::with_capacity(arguments.len());
        for (value, known) in arguments {
            let register = self.register();
            self.known.extend(known.clone().map(|known| (register, known)));
            registers[value.index()] = Some(register);
            inputs.push((register, graph.ty(*value).clone()));
        }
        self.lower_nodes(graph, &mut registers, wanted)?;
        let outputs = output_registers(graph, &registers);
        Ok((Program::plan(self.instructions, self.registers, inputs, &outputs), self.findings))
    }

    /// The program of a body. Steps that know as much of its arguments share it. `address` is that of what the body and
    /// `wanted` belong to.
    pub(super) fn shared(
        &mut self,
        address: usize,
        body: &Graph,
        arguments: &[(ValueId, Option<Known>)],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Arc<Program<B>>> {
        let key = (address, arguments.iter().map(|(_, known)| known.clone()).collect(), self.sizes.clone());
        if let Some(program) = self.programs.get(&key) {
            return Ok(program.clone());
        }
        let inner = Lowering::new(self.settings, self.sizes.clone());
        let (program, findings) = inner.program_of(body, arguments, wanted)?;
        self.findings.add(findings);
        let program = Arc::new(program);
        self.programs.insert(key, program.clone());
        Ok(program)
    }

    /// The number in a register, if it is known: the program then depends on it.
    pub(super) fn known_number(&mut self, register: Slot) -> Option<i64> {
        let known = self.known.get(&register)?;
        self.findings.statics.extend(&known.inputs);
        Some(known.number)
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
            work::count();
            let operands: Vec<Slot> = node.inputs.iter().filter_map(|input| registers[input.index()]).collect();
            let results = match &node.op {
                Op::Scan(scan) => self.lower_scan(graph, node, scan, &operands)?,
                Op::While(op) => self.lower_while(graph, node, op, &operands)?,
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

    /// Notes why the program is not compiled as a whole.
    pub(super) fn declined(&mut self, declined: Declined) {
        self.findings.declined = Some(declined);
    }

    /// Notes how a loop runs.
    pub(super) fn report_loop(&mut self, report: LoopReport) {
        self.findings.add_loop(report);
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
        self.watch.check(at, Ran::Ops(0))?;
        let results: Vec<Slot> = (0..results).map(|_| self.register()).collect();
        self.instructions.push(Instruction {
            action,
            operands: operands.iter().map(|slot| Operand { slot: *slot, last: false }).collect(),
            results: results.iter().copied().map(Some).collect::<SmallVec<_>>(),
        });
        Ok(results)
    }

    /// The registers of all results of a node, of which some are there. Nothing sets the others, which nobody uses.
    pub(super) fn registers(&mut self, results: Vec<Slot>, there: impl Iterator<Item = bool>) -> Vec<Slot> {
        let mut results = results.into_iter();
        let mut slot = |there: bool| if there { results.next() } else { None };
        there.map(|there| slot(there).unwrap_or_else(|| self.register())).collect()
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
        if let Some(known) = known {
            self.known.insert(results[0], known);
        }
        Ok(results)
    }

    /// The number that an integer or boolean scalar has, if it follows from sizes and numbers that are known.
    fn known_result(&self, kernel: &KernelNode<B>, operands: &[Slot]) -> Option<Known> {
        let is_scalar = |ty: &TensorType| ty.rank() == 0 && (ty.dtype.is_int() || ty.dtype == DType::Bool);
        let folds = matches!(
            kernel.op,
            Op::Size(_) | Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select(_) | Op::Cast(_)
        );
        if !folds || !kernel.inputs.iter().chain(&kernel.outputs).all(is_scalar) {
            return None;
        }
        let known: Vec<&Known> = operands.iter().map(|operand| self.known.get(operand)).collect::<Option<_>>()?;
        let number = |(known, ty): (&&Known, &TensorType)| HostTensor::scalar(known.number).cast(ty.dtype);
        let inputs: Vec<HostTensor> = known.iter().zip(&kernel.inputs).map(number).collect();
        let mut sizes = self.sizes.clone();
        let mut context = EvalContext { at: kernel.at.clone(), sizes: &mut sizes };
        let results = kernel.op.eval(&mut context, &inputs, &kernel.outputs).ok()?;
        let inputs = known.iter().flat_map(|known| &known.inputs).copied().collect();
        Some(Known { number: results.first()?.get(0).as_i64(), inputs })
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
        let register = self.push(&at, Action::Constant { tensor, ty: constant.value.ty() }, &[], 1)?[0];
        let dtype = constant.value.dtype();
        if constant.value.shape().is_empty() && (dtype.is_int() || dtype == DType::Bool) {
            self.known.insert(register, Known { number: constant.value.get(0).as_i64(), inputs: BTreeSet::new() });
        }
        Ok(register)
    }

    /// A choice: of a known index, its branch alone.
    fn lower_switch(&mut self, graph: &Graph, node: &Node, switch: &Switch, operands: &[Slot]) -> Result<Vec<Slot>> {
        let places = switch.operands();
        if let Some(index) = self.known_number(operands[0]) {
            let chosen = switch.chosen(index);
            let branch = &switch.branches[chosen];
            let mut registers = bind_inputs(branch, &operands[places[chosen].clone()]);
            let live = branch.live_nodes();
            self.lower_nodes(branch, &mut registers, |index| live[index])?;
            return Ok(output_registers(branch, &registers));
        }
        let branches = switch.branches.iter().zip(&places);
        let branches = branches.map(|(branch, place)| self.sub_program(branch, 0, &operands[place.clone()]));
        let branches = branches.collect::<Result<Vec<_>>>()?;
        let (at, index, outputs) = (node.place(), graph.ty(node.inputs[0]).dtype, graph.types(&node.outputs));
        let choice = ChoiceNode { switch: switch.clone(), at: at.clone(), branches, places, index, outputs };
        self.push(&at, Action::Choice(Box::new(choice)), operands, node.outputs.len())
    }

    /// A conditional loop. Unrolling it needs a bound that is known.
    fn lower_while(&mut self, graph: &Graph, node: &Node, op: &While, operands: &[Slot]) -> Result<Vec<Slot>> {
        let at = node.place();
        let bound = op.bound.as_ref().map(|bound| bound.value(&self.sizes).map_err(|error| (bound, error)));
        if self.settings.strategy == Some(LoopStrategy::Unroll) && !matches!(bound, Some(Ok(_))) {
            let reason = match bound {
                Some(Err((bound, error))) => format!("the bound is {bound}, and {error}"),
                _ => "the number of steps follows from values that the loop computes, and has no bound".to_string(),
            };
            return Err(Error::StepCountNotStatic {
                at: at.boxed(),
                backend: self.settings.backend.name().to_string(),
                reason,
                fix: "use `LoopStrategy::Auto`, or bound it: `while_loop_bounded`".into(),
            });
        }
        let declined = match self.lower_whole_loop(graph, node, operands)? {
            Ok(results) => return Ok(results),
            Err(declined) => declined,
        };
        let steps = match bound {
            Some(Ok(bound)) => Steps::AtMost(usize::try_from(bound).unwrap_or(0)),
            _ => Steps::AtRunTime,
        };
        let strategy = LoopStrategy::Native;
        self.findings.add_loop(LoopReport { op: "while", site: at.site, strategy, declined, steps });
        let places = op.operands();
        let carries = places.carries.len();
        let condition = self.sub_program(&op.condition, carries, &operands[places.condition])?;
        let body = self.sub_program(&op.body, carries, &operands[places.body])?;
        let node = WhileNode { op: op.clone(), at: at.clone(), condition, body, outputs: graph.types(&node.outputs) };
        self.push(&at, Action::While(Box::new(node)), operands, carries)
    }

    /// An associative scan: compiled as a loop, else the programs on whole halves, for any number of elements.
    fn lower_associative(
        &mut self,
        graph: &Graph,
        node: &Node,
        op: &AssociativeScan,
        operands: &[Slot],
    ) -> Result<Vec<Slot>> {
        if let Ok(results) = self.lower_whole_loop(graph, node, operands)? {
            return Ok(results);
        }
        let at = node.place();
        let types = graph.types(&node.inputs);
        let halves = self.halves(&at, op, &types, &used_results(graph, node))?;
        let (captured, needed) = (&operands[op.leaves..], halves.needed.clone());
        let combine = self.sub_program(&halves.combine, op.leaves, captured)?;
        let spread = self.sub_program(&halves.spread, needed.len() + op.leaves, captured)?;
        let (pairs, leaves) = (halves.pairs.clone(), types[..op.leaves].to_vec());
        let outputs = needed.iter().map(|leaf| types[*leaf].clone()).collect();
        let reverse = op.reverse;
        let node = AssociativeNode { at: at.clone(), reverse, leaves, needed, outputs, pairs, combine, spread };
        let results = self.push(&at, Action::Associative(Box::new(node)), operands, halves.needed.len())?;
        Ok(self.registers(results, (0..op.leaves).map(|leaf| halves.needed.contains(&leaf))))
    }

    /// The programs of an associative scan on whole halves, made once for all steps of the loops around it.
    fn halves(&mut self, at: &Place, op: &AssociativeScan, types: &[TensorType], used: &[bool]) -> Result<Arc<Halves>> {
        let address = std::ptr::from_ref(op) as usize;
        if let Some(halves) = self.halves.get(&address) {
            return Ok(halves.clone());
        }
        let halves = Arc::new(op.halves(at, types, used)?);
        self.halves.insert(address, halves.clone());
        Ok(halves)
    }

    /// The program of a body whose parameters after the first `carries` are these operands. What is known of them is
    /// known in it.
    fn sub_program(&mut self, body: &Arc<Graph>, carries: usize, operands: &[Slot]) -> Result<Arc<Program<B>>> {
        let of_operands = operands.iter().map(|operand| self.known.get(operand).cloned());
        let known = std::iter::repeat_n(None, carries).chain(of_operands);
        let arguments: Vec<_> = body.inputs().iter().map(|input| input.value).zip(known).collect();
        let live = body.live_nodes();
        self.shared(Arc::as_ptr(body) as usize, body, &arguments, |index| live[index])
    }

    fn lower_scan(&mut self, graph: &Graph, node: &Node, scan: &Scan, operands: &[Slot]) -> Result<Vec<Slot>> {
        let at = node.place();
        let types = graph.types(&node.inputs);
        let strategy = self.scan_strategy(scan, &at, operands, &types)?;
        let declined = match self.lower_whole_loop(graph, node, operands)? {
            Ok(results) => return Ok(results),
            Err(declined) => declined,
        };
        let steps = match strategy {
            LoopStrategy::Unroll => unroll::known_steps(self, scan, &at, operands).ok(),
            _ if scan.steps_operand => None,
            _ => scan.steps.value(&self.sizes).ok().and_then(|steps| usize::try_from(steps).ok()),
        };
        let steps = match (steps, &scan.until) {
            (Some(steps), None) => Steps::Exactly(steps),
            (Some(steps), Some(_)) => Steps::AtMost(steps),
            (None, _) => Steps::AtRunTime,
        };
        self.findings.add_loop(LoopReport { op: "scan", site: at.site, strategy, declined, steps });
        let body = self.lower_invariants(scan, operands)?;
        match strategy {
            LoopStrategy::Unroll => unroll::lower(self, scan, &at, operands, &types, body),
            _ => native::lower(self, scan, &at, operands, &types, graph.types(&node.outputs), body),
        }
    }

    /// How a loop runs. What is forced is an error if it cannot be; what the backend's conversion names gives way.
    fn scan_strategy(
        &mut self,
        scan: &Scan,
        at: &Place,
        operands: &[Slot],
        types: &[TensorType],
    ) -> Result<LoopStrategy> {
        let forced = self.settings.forced();
        match self.settings.strategy_of(scan, at)? {
            LoopStrategy::Unroll if scan.until.is_some() && forced.is_none() => Ok(LoopStrategy::Native),
            LoopStrategy::Unroll => {
                let known = unroll::known_steps(self, scan, at, operands);
                match known.and_then(|_| unroll::known_rows(self, scan, at, types)) {
                    Err(error) if forced.is_some() => Err(error),
                    Ok(_) if scan.until.is_none() => Ok(LoopStrategy::Unroll),
                    _ => Ok(LoopStrategy::Native),
                }
            }
            _ if self.is_laid_out(scan, types) => Ok(LoopStrategy::Unroll),
            _ => Ok(LoopStrategy::Native),
        }
    }

    /// Whether the loop's `unroll` hint covers all its steps, and its rows are known.
    fn is_laid_out(&self, scan: &Scan, types: &[TensorType]) -> bool {
        let known = |dim: Option<&Dim>| dim.is_none_or(|dim| dim.value(&self.sizes).is_ok());
        let steps = scan.steps.value(&self.sizes);
        let covered = steps.is_ok_and(|steps| scan.unroll > 1 && steps <= scan.unroll as i64);
        covered && !scan.steps_operand && scan.until.is_none() && types.iter().all(|ty| known(ty.shape.dims().first()))
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
        let live = body.live_nodes();
        let mut fixed = vec![false; body.nodes().len()];
        // The sizes that are not known before the loop: its own number of steps, if it is a value, and those of inner loops,
        // which each step gives anew.
        let mut stepwise: Vec<&Symbol> = scan.binds().collect();
        for (index, node) in body.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            let depends = node.inputs.iter().any(|input| !invariant[input.index()]);
            fixed[index] = !depends && !uses_any(body, node, &stepwise) && is_certain(body, node, &self.sizes);
            if let Op::Scan(inner) = &node.op
                && !fixed[index]
            {
                stepwise.extend(inner.binds());
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
