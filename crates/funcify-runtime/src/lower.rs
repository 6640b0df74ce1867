//! Lowering: from a graph to the instructions of a program.
//!
//! A loop's body is looked at once: nodes that depend on invariants only run once, before the loop; the others are
//! the step, which either strategy repeats.
//!
//! A loop whose number of steps follows from values cannot be laid out. With an `until` or a bound, one program of its
//! body that is run again until the condition ends it is what laying it out with early exits would be, so it runs from the
//! host in either strategy; a forced [`LoopStrategy::Unroll`] asks that the largest number of steps is static, as it is of the
//! loop that goes back over such a loop (`statics.rs`).

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use funcify_core::cancel::{Ran, Watch};
use funcify_core::element_count;
use funcify_core::error::{Error, Place, Result};
use funcify_core::graph::{Graph, Input, Node, Replay, work};
use funcify_core::memory::over_budget;
use funcify_core::ops::scan::Scan;
use funcify_core::ops::{AssociativeScan, Constant, Op, OpRules, Sweeps, Switch, While};
use funcify_core::types::{DType, Dim, Sizes, TensorType};
use smallvec::SmallVec;

use super::associative::AssociativeNode;
use super::backend::{Backend, Compiled, Compiles, Declined, LoopStrategy};
use super::body::{Parameter, ProgramKey};
use super::eager::execution_error;
use super::function::CompileOptions;
use super::program::{Action, Argument, Instruction, KernelNode, Operand, Program, Slot, too_large};
use super::registry::{has_rule, kernel_of, rule_of};
use super::report::{LoopReport, Steps, count_kernels};
use super::statics::{Bounded, StaticNumber};
use super::switch::ChoiceNode;
use super::while_loop::WhileNode;
use super::whole::{Attempt, used_results, uses};
use super::{native, unroll};

/// Of how many elements an op is compiled alone: fewer are not worth it, more are beyond what memory holds.
const WORTH_COMPILING: Range<usize> = 64..1 << 36;

/// What a lowering is given.
#[derive(Clone)]
pub(super) struct Settings<'a, B: Backend> {
    pub(super) backend: &'a B,
    /// The strategy that the user forces on all loops.
    pub(super) strategy: Option<LoopStrategy>,
    /// Whether a backend that compiles loops is asked for all of the program.
    whole: bool,
    pub(super) max_kernels: usize,
    pub(super) memory_budget: u64,
}

impl<'a, B: Backend> Settings<'a, B> {
    pub(super) fn new(backend: &'a B, options: &CompileOptions) -> Self {
        let (strategy, max_kernels) = (options.strategy.forced(), options.max_kernels);
        Settings { backend, strategy, whole: options.whole, max_kernels, memory_budget: options.budget() }
    }

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
            (strategy, own) => match strategy.unwrap_or_default().compiled(own) {
                Compiles::Loops if self.whole => Compiles::Programs,
                asked => asked,
            },
        }
    }

    /// The strategy of loops that are not compiled: what is forced, else what their lowering rule names.
    pub(super) fn strategy_of(&self, scan: &Scan, at: &Place) -> Result<LoopStrategy> {
        let rule = rule_of(self.backend, scan.name(), at)?;
        Ok(self.forced().or(rule.strategy()).unwrap_or(LoopStrategy::Native))
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
    /// The sizes of the call that the program is specialised to, or none.
    pub(super) sizes: Sizes,
    /// Registers whose integer or truth value is static: constants, static inputs, sizes of the call, and what follows from
    /// them.
    pub(super) statics: HashMap<Slot, StaticNumber>,
    /// What has a largest number that is static.
    pub(super) bounded: Bounded,
    /// What may stop it: unrolling may take long.
    watch: Watch,
    /// What is reported of the program.
    pub(super) notes: Notes,
    pub(super) instructions: Vec<Instruction<B>>,
    pub(super) registers: usize,
    /// The kernels of nodes that were met before, by the graph's address and the node's index.
    nodes: HashMap<(usize, usize), Arc<KernelNode<B>>>,
    /// The programs of bodies that were met before.
    pub(super) programs: HashMap<ProgramKey, Arc<Program<B>>>,
    /// The two sweeps of the associative scans that were met before, by their address.
    sweeps: HashMap<usize, Arc<Sweeps>>,
    /// Which values the graphs that were met before use, by their address.
    uses: HashMap<usize, Arc<[bool]>>,
    /// What the backend made of the loops that were met before, by the node's address and the sizes.
    pub(super) compiled: HashMap<(usize, Sizes), Whole<B::Tensor>>,
}

/// What a backend made of a program or a loop as a whole, or why it did not.
pub(super) type Whole<T> = std::result::Result<Arc<dyn Compiled<T>>, Declined>;

/// What a lowering tells beside the program.
#[derive(Default)]
pub(super) struct Notes {
    /// The static inputs whose numbers the program depends on.
    pub(super) statics: BTreeSet<usize>,
    /// How each loop runs.
    pub(super) loops: Vec<LoopReport>,
    /// Why the program is not compiled as a whole, if it was to be.
    pub(super) declined: Option<Declined>,
}

impl Notes {
    /// Adds a loop before those that were added since there were so many: a loop comes before those in it.
    pub(super) fn add_loop(&mut self, place: usize, each: LoopReport) {
        if !self.loops.contains(&each) {
            self.loops.insert(place, each);
        }
    }
}

impl<'a, B: Backend> Lowering<'a, B> {
    pub(super) fn new(settings: Settings<'a, B>, sizes: Sizes) -> Self {
        Lowering {
            settings,
            sizes,
            statics: HashMap::new(),
            bounded: Bounded::default(),
            watch: Watch::current(),
            notes: Notes::default(),
            instructions: Vec::new(),
            registers: 0,
            nodes: HashMap::new(),
            programs: HashMap::new(),
            sweeps: HashMap::new(),
            uses: HashMap::new(),
            compiled: HashMap::new(),
        }
    }

    /// Lowers a whole graph. `statics` are the numbers of its static inputs, by input.
    pub(super) fn program(mut self, graph: &Graph, statics: &[(usize, i64)]) -> Result<(Program<B>, Notes)> {
        let argument = |input: &Input| {
            let (register, ty) = (self.register(), graph.ty(input.value).clone());
            Argument { register, ty, stays: false }
        };
        let inputs: Vec<Argument> = graph.inputs().iter().map(argument).collect();
        let slots: Vec<Slot> = inputs.iter().map(|input| input.register).collect();
        if let Some(outputs) = self.lower_whole(graph, &slots)? {
            return Ok((Program::plan(self.instructions, self.registers, inputs, &outputs), self.notes));
        }
        self.registers = 0;
        let mut parameters: Vec<_> = graph.inputs().iter().map(|input| Parameter::new(input.value)).collect();
        for (index, number) in statics {
            parameters[*index].number = Some(StaticNumber::of_input(*index, *number));
        }
        self.program_of(graph, &parameters, &graph.live_nodes())
    }

    /// A new register.
    pub(super) fn register(&mut self) -> Slot {
        self.registers += 1;
        (self.registers - 1) as Slot
    }

    /// Lowers the nodes that are marked, in order; gives the registers of the values.
    pub(super) fn lower_nodes<'g>(
        &mut self,
        graph: &Graph,
        registers: Replay<'g, Slot>,
        marked: &[bool],
    ) -> Result<Replay<'g, Slot>> {
        registers.some(marked, |index, node, operands| {
            work::count();
            match &node.op {
                Op::Scan(scan) => self.lower_scan(graph, node, scan, &operands),
                Op::While(op) => self.lower_while(graph, node, op, &operands),
                Op::Switch(switch) => self.lower_switch(graph, node, switch, &operands),
                Op::AssociativeScan(op) => self.lower_associative(graph, node, op, &operands),
                Op::Constant(constant) => self.lower_constant(node, constant),
                Op::BindSize(op) => self.lower_bind(graph, node, op, &operands),
                _ => self.lower_kernel(graph, index, &operands),
            }
        })
    }

    /// Which values a graph uses.
    pub(super) fn uses(&mut self, graph: &Graph) -> Arc<[bool]> {
        let address = std::ptr::from_ref(graph) as usize;
        self.uses.entry(address).or_insert_with(|| uses(graph).into()).clone()
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
        let number = self.static_result(&kernel, operands);
        if number.is_none()
            && self.is_worth_compiling(&kernel)
            && let Attempt::Compiled(results) = self.lower_whole_node(graph, &graph.nodes()[index], operands)?
        {
            return Ok(results);
        }
        let results = self.push(&kernel.at, Action::Kernel(kernel.clone()), operands, kernel.outputs.len())?;
        match number {
            Some(number) => _ = self.statics.insert(results[0], number),
            None => self.note_bounded_result(&kernel, operands, results[0]),
        }
        Ok(results)
    }

    /// Whether a backend that compiles programs is to compile this op alone, in one that it declined. What it does to a few
    /// numbers, or where it moves nothing, costs less as it is; a custom op with a kernel of its own is that.
    fn is_worth_compiling(&self, node: &KernelNode<B>) -> bool {
        let elements = |ty: &TensorType| element_count(&ty.shape.value(&self.sizes).ok()?);
        let mut types = node.inputs.iter().chain(&node.outputs);
        let most = types.try_fold(0, |most, ty| Some(elements(ty)?.max(most)));
        let has_own_kernel = matches!(node.op, Op::Custom(_)) && has_rule::<B>(node.op.name());
        self.settings.compiles() == Compiles::Programs
            && self.settings.backend.compiles() == Compiles::Programs
            && !matches!(node.op, Op::Reshape(_))
            && !has_own_kernel
            && most.is_some_and(|most| WORTH_COMPILING.contains(&most))
    }

    fn kernel_node(&self, graph: &Graph, node: &Node) -> Result<KernelNode<B>> {
        let at = node.place();
        let kernel = kernel_of(self.settings.backend, node.op.name(), &at)?.ok_or_else(|| {
            let fix = "register a kernel for it: only `scan` is a loop";
            at.mismatch("the lowering rule", "a kernel", "a loop strategy", fix)
        })?;
        let (inputs, outputs) = (graph.types(&node.inputs), graph.types(&node.outputs));
        Ok(KernelNode { kernel, op: node.op.clone(), inputs, outputs, at })
    }

    fn lower_constant(&mut self, node: &Node, constant: &Constant) -> Result<Vec<Slot>> {
        let at = node.place();
        let backend = self.settings.backend;
        let tensor = backend.upload(&constant.value).map_err(|error| execution_error(&at, backend.name(), error))?;
        let ty = constant.value.ty();
        let registers = self.push(&at, Action::Constant { tensor, ty }, &[], 1)?;
        if is_number(&constant.value.ty()) {
            let number = StaticNumber::constant(constant.value.get(0).as_i64());
            self.statics.insert(registers[0], number);
        }
        Ok(registers)
    }

    /// A choice: of a static index, its branch alone.
    fn lower_switch(&mut self, graph: &Graph, node: &Node, switch: &Switch, operands: &[Slot]) -> Result<Vec<Slot>> {
        let places = switch.operands();
        if let Some(index) = self.static_number(operands[0]) {
            let chosen = switch.chosen(index);
            let branch = &switch.branches[chosen];
            let inputs = Replay::new(branch, operands[places[chosen].clone()].iter().copied());
            return self.lower_nodes(branch, inputs, &branch.live_nodes())?.outputs();
        }
        let branches = switch.branches.iter().zip(&places);
        let branches = branches.map(|(branch, place)| self.sub_program(branch, 0, &operands[place.clone()], false));
        let branches = branches.collect::<Result<Vec<_>>>()?;
        let (at, index, outputs) = (node.place(), graph.ty(node.inputs[0]).dtype, graph.types(&node.outputs));
        let choice = ChoiceNode { switch: switch.clone(), at: at.clone(), branches, places, index, outputs };
        self.push(&at, Action::Choice(Box::new(choice)), operands, node.outputs.len())
    }

    /// A conditional loop. Unrolling it needs a static bound.
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
        let declined = match self.lower_whole_node(graph, node, operands)?.before_it_runs("while") {
            Ok(results) => return Ok(results),
            Err(declined) => declined,
        };
        let (compiled, declined) = match declined.map(|_| self.refusing(graph, node)) {
            Some(Ok(compiled)) => (Some(compiled), None),
            Some(Err(furthest)) => (None, Some(furthest.unless_fault(&node.place(), self.settings.backend.name())?)),
            None => (None, None),
        };
        let reported = self.notes.loops.len();
        let places = op.operands();
        let carries = places.carries.len();
        let condition = self.sub_program(&op.condition, carries, &operands[places.condition], true)?;
        let body = self.sub_program(&op.body, carries, &operands[places.body], true)?;
        match &compiled {
            Some(_) => self.report_loop(reported, graph, node, LoopStrategy::Compiled, None, None),
            None => {
                let kernels = count_kernels(&condition.instructions) + count_kernels(&body.instructions);
                self.report_loop(reported, graph, node, LoopStrategy::Native, declined, Some(kernels));
            }
        }
        let outputs = graph.types(&node.outputs);
        let node = WhileNode { op: op.clone(), at: at.clone(), condition, body, outputs, compiled };
        let results = self.push(&at, Action::While(Box::new(node)), operands, carries)?;
        self.note_bounded_carries(op, operands, &results);
        Ok(results)
    }

    /// An associative scan: compiled as a loop, else its two sweeps, for any number of elements.
    fn lower_associative(
        &mut self,
        graph: &Graph,
        node: &Node,
        op: &AssociativeScan,
        operands: &[Slot],
    ) -> Result<Vec<Slot>> {
        if let Attempt::Compiled(results) = self.lower_whole_node(graph, node, operands)? {
            return Ok(results);
        }
        let at = node.place();
        let types = graph.types(&node.inputs);
        let used = used_results(&self.uses(graph), node);
        let sweeps = self.sweeps(&at, op, &types, &used)?;
        let (captured, needed) = (&operands[op.leaves..], sweeps.needed.clone());
        let up_sweep = self.sub_program(&sweeps.up, op.leaves, captured, false)?;
        let down_sweep = self.sub_program(&sweeps.down, needed.len() + op.leaves, captured, false)?;
        let (pairs, leaves) = (sweeps.pairs.clone(), types[..op.leaves].to_vec());
        let outputs = needed.iter().map(|leaf| types[*leaf].clone()).collect();
        let reverse = op.reverse;
        let node = AssociativeNode { at: at.clone(), reverse, leaves, needed, outputs, pairs, up_sweep, down_sweep };
        let results = self.push(&at, Action::Associative(Box::new(node)), operands, sweeps.needed.len())?;
        Ok(self.registers(results, (0..op.leaves).map(|leaf| sweeps.needed.contains(&leaf))))
    }

    /// The two sweeps of an associative scan, made once for all steps of the loops around it.
    fn sweeps(&mut self, at: &Place, op: &AssociativeScan, types: &[TensorType], used: &[bool]) -> Result<Arc<Sweeps>> {
        let address = std::ptr::from_ref(op) as usize;
        Ok(match self.sweeps.entry(address) {
            Entry::Occupied(sweeps) => sweeps.get().clone(),
            Entry::Vacant(entry) => entry.insert(Arc::new(op.sweeps(at, types, used)?)).clone(),
        })
    }

    fn lower_scan(&mut self, graph: &Graph, node: &Node, scan: &Scan, operands: &[Slot]) -> Result<Vec<Slot>> {
        let (at, types) = (node.place(), graph.types(&node.inputs));
        let call = ScanCall { scan, at: &at, operands, types: &types };
        let strategy = self.scan_strategy(call)?;
        self.note_bounded_sizes(scan.binds());
        let (late, declined) = match self.lower_whole_node(graph, node, operands)? {
            Attempt::Compiled(results) => return Ok(results),
            Attempt::AtRunTime if strategy == LoopStrategy::Native => match self.late_loop(graph, node, scan) {
                Ok(late) => (Some(late), None),
                Err(declined) => (None, Some(declined.unless_fault(&at, self.settings.backend.name())?)),
            },
            Attempt::Declined(Some(_))
                if strategy == LoopStrategy::Native && types.iter().any(|ty| ty.dtype.is_int()) =>
            {
                // That one takes integers: what stands in its way is the reason.
                match self.late_loop(graph, node, scan) {
                    Ok(late) => (Some(late), None),
                    Err(furthest) => (None, Some(furthest.unless_fault(&at, self.settings.backend.name())?)),
                }
            }
            attempt => (None, attempt.before_it_runs("scan").err().flatten()),
        };
        let steps = match strategy {
            LoopStrategy::Unroll => unroll::static_steps(self, call).ok(),
            _ if scan.steps_operand => None,
            _ => scan.steps.value(&self.sizes).ok().and_then(|steps| usize::try_from(steps).ok()),
        };
        let kind = if scan.until.is_none() { Steps::Exactly } else { Steps::AtMost };
        let steps = steps.map_or(Steps::AtRunTime, kind);
        let (is_late, place) = (late.is_some(), self.notes.loops.len());
        let body = self.lower_invariants(call)?;
        let before = self.instructions.len();
        let results = match strategy {
            LoopStrategy::Unroll => unroll::lower(self, call, body)?,
            _ => native::lower(self, call, body, graph.types(&node.outputs), late)?,
        };
        let laid_out = count_kernels(&self.instructions[before..]);
        let kernels = match (strategy, steps) {
            _ if is_late => None,
            (LoopStrategy::Unroll, Steps::Exactly(steps) | Steps::AtMost(steps)) => laid_out.checked_div(steps),
            (LoopStrategy::Unroll, Steps::AtRunTime) => None,
            _ => Some(laid_out),
        };
        let strategy = if is_late { LoopStrategy::Compiled } else { strategy };
        let (op, site, rewrites) = ("scan", at.site, Default::default());
        self.notes.add_loop(place, LoopReport { op, site, strategy, declined, steps, kernels, rewrites });
        Ok(results)
    }

    /// How a loop runs. What is forced is an error if it cannot be; what the backend's lowering rule names gives way.
    fn scan_strategy(&mut self, call: ScanCall<'_>) -> Result<LoopStrategy> {
        let (scan, forced) = (call.scan, self.settings.forced());
        match self.settings.strategy_of(scan, call.at)? {
            LoopStrategy::Unroll if scan.until.is_some() && forced.is_none() => Ok(LoopStrategy::Native),
            LoopStrategy::Unroll => {
                let steps = unroll::static_steps(self, call);
                match steps.and_then(|_| unroll::static_rows(self, call)) {
                    Err(Error::StepCountNotStatic { .. }) if self.is_bounded_loop(call) => Ok(LoopStrategy::Native),
                    Err(error) if forced.is_some() => Err(error),
                    Ok(_) if scan.until.is_none() => Ok(LoopStrategy::Unroll),
                    _ => Ok(LoopStrategy::Native),
                }
            }
            _ if self.is_laid_out(call) => Ok(LoopStrategy::Unroll),
            _ => Ok(LoopStrategy::Native),
        }
    }

    /// Whether the loop's `unroll` hint covers all its steps, and its rows are static.
    fn is_laid_out(&self, ScanCall { scan, types, .. }: ScanCall<'_>) -> bool {
        let is_static = |dim: Option<&Dim>| dim.is_none_or(|dim| dim.value(&self.sizes).is_ok());
        let steps = scan.steps.value(&self.sizes);
        let covered = steps.is_ok_and(|steps| scan.unroll > 1 && steps <= scan.unroll as i64);
        covered
            && !scan.steps_operand
            && scan.until.is_none()
            && types.iter().all(|ty| is_static(ty.shape.dims().first()))
    }
}

/// A loop that is lowered.
#[derive(Clone, Copy)]
pub(super) struct ScanCall<'a> {
    pub(super) scan: &'a Scan,
    pub(super) at: &'a Place,
    pub(super) operands: &'a [Slot],
    /// The types of the operands.
    pub(super) types: &'a [TensorType],
}

/// Whether a tensor of this type is one integer or truth value.
pub(super) fn is_number(ty: &TensorType) -> bool {
    ty.rank() == 0 && (ty.dtype.is_int() || ty.dtype == DType::Bool)
}
