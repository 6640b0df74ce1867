//! Lowers a graph to the instructions of a program.
//!
//! The body of a loop is split into two parts. Nodes that depend only on invariants run once, before the loop. All
//! other nodes run in every step, whether the loop is unrolled or not.
//!
//! A loop with a data-dependent number of steps cannot be unrolled. A loop with early exit is not unrolled either:
//! since the host must check the condition after each step anyway, unrolling would have no advantage over a native
//! loop. If the user forces [`LoopStrategy::Unroll`], such loops still run natively, but their maximum number of steps
//! must be static. The same rule applies to their backward loops (`statics.rs`).

mod body;
mod control;
mod groups;
mod late;
mod native;
pub(crate) mod report;
mod scan;
mod statics;
mod unroll;
mod whole;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use funcify_core::HostTensor;
use funcify_core::cancel::{ActiveHandles, Progress};
use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::graph::{Graph, GraphId, Input, Node, Replay, ValueId, work};
use funcify_core::memory::over_budget;
use funcify_core::ops::scan::Scan;
use funcify_core::ops::{Constant, Elementwise, Op, OpClass, OpRules, StepCount, Sweeps, While};
use funcify_core::types::{DType, Dim, Sizes, Symbol, TensorType};
use smallvec::SmallVec;

use self::body::{Parameter, ProgramKey};
use self::groups::Grouping;
use self::report::LoopReport;
use self::scan::ScanCall;
use self::statics::{Bounded, StaticNumber};
use self::whole::{Attempt, uses};
use crate::backend::registry::{has_rule, kernel_of, rule_of};
use crate::backend::{Backend, CompileOptions, CompileResult, Compiles, Declined, LoopStrategy, execution_error};
use crate::prepare::sizes::is_number;
use crate::run::program::{Action, Argument, Instruction, KernelNode, Operand, Program, Slot, too_large};

/// The backend and the compile options that affect lowering.
#[derive(Clone)]
pub(crate) struct Settings<'a, B: Backend> {
    pub(crate) backend: &'a B,
    /// The strategy that the user forces on all loops, if any.
    pub(crate) strategy: Option<LoopStrategy>,
    /// `true` if a backend that compiles loops should try to compile the entire program.
    whole: bool,
    pub(crate) max_kernels: usize,
    pub(crate) memory_budget: u64,
}

impl<'a, B: Backend> Settings<'a, B> {
    pub(crate) fn new(backend: &'a B, options: &CompileOptions) -> Self {
        let (strategy, max_kernels) = (options.strategy.unless_auto(), options.max_kernels);
        Settings { backend, strategy, whole: options.whole, max_kernels, memory_budget: options.budget() }
    }

    /// Returns an error if `bytes` exceeds the memory budget.
    pub(crate) fn check_budget(&self, at: &Place, what: impl FnOnce() -> String, bytes: u64) -> Result<()> {
        match bytes > self.memory_budget {
            true => Err(over_budget(at, what(), bytes, 0, self.memory_budget)),
            false => Ok(()),
        }
    }

    /// Returns the parts of the program that the backend is asked to compile.
    pub(crate) fn compiles(&self) -> Compiles {
        match (self.strategy, self.backend.compiles()) {
            // Ask even a backend that compiles nothing, so that the report contains its reason.
            (Some(LoopStrategy::Compiled), Compiles::Nothing) => Compiles::Loops,
            (strategy, own) => match strategy.unwrap_or_default().restrict(own) {
                Compiles::Loops if self.whole => Compiles::Programs,
                asked => asked,
            },
        }
    }

    /// Returns the strategy for loops that are not compiled: the forced strategy, or the one from the lowering rule.
    pub(crate) fn strategy_of(&self, scan: &Scan, at: &Place) -> Result<LoopStrategy> {
        let rule = rule_of(self.backend, scan.name(), at)?;
        Ok(self.forced_strategy().or(rule.strategy()).unwrap_or(LoopStrategy::Native))
    }

    /// Returns the strategy that the user forces on loops that are not compiled, if any.
    pub(crate) fn forced_strategy(&self) -> Option<LoopStrategy> {
        match self.strategy {
            Some(LoopStrategy::Compiled) => Some(LoopStrategy::Native),
            strategy => strategy,
        }
    }
}

/// A program under construction.
pub(crate) struct Lowering<'a, B: Backend> {
    pub(crate) settings: Settings<'a, B>,
    /// The sizes for which the program is specialised. Empty for a program that serves all sizes.
    pub(crate) sizes: Sizes,
    /// The integers and booleans that are known when the program is built, by register: constants, static inputs,
    /// sizes, and values computed from them.
    pub(crate) statics: HashMap<Slot, StaticNumber>,
    /// The sizes and registers that are bounded but not static.
    pub(crate) bounded: Bounded,
    /// The cancellation handles. Lowering checks them, because unrolling may take a long time.
    watch: ActiveHandles,
    /// The facts about the program that its report needs.
    pub(crate) notes: Notes,
    pub(crate) instructions: Vec<Instruction<B>>,
    pub(crate) registers: usize,
    /// The kernel nodes created so far. Unrolled steps share them.
    nodes: HashMap<NodeKey, Arc<KernelNode<B>>>,
    /// The programs built for bodies so far.
    pub(crate) programs: HashMap<ProgramKey, Arc<Program<B>>>,
    /// The sweeps built for associative scans so far.
    sweeps: HashMap<NodeKey, Arc<Sweeps>>,
    /// For each graph seen so far, one flag per value: `true` if the graph uses the value.
    uses: HashMap<GraphId, Arc<[bool]>>,
    /// When groups of ops are compiled.
    grouping: Grouping,
    /// The outcome of each compilation of a single node for given sizes: the compiled code, or the reason why the
    /// backend declined.
    compiled: HashMap<(NodeKey, Sizes), CompileResult<B::Tensor>>,
}

/// The identity of a node: its graph and its index in that graph.
pub(crate) type NodeKey = (GraphId, usize);

/// A node to lower, with the registers that hold its operands.
#[derive(Clone, Copy)]
pub(crate) struct NodeCall<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) index: usize,
    pub(crate) node: &'a Node,
    pub(crate) operands: &'a [Slot],
}

/// Facts about a lowered program that its report needs.
#[derive(Default)]
pub(crate) struct Notes {
    /// The indices of the static inputs on whose values the program depends.
    pub(crate) statics: BTreeSet<usize>,
    /// The reports on the loops of the program.
    pub(crate) loops: Vec<LoopReport>,
    /// The ops that the program runs with the fallback kernel.
    pub(crate) fallback: BTreeSet<&'static str>,
    /// The reason why the program is not compiled as a whole, if compilation was requested.
    pub(crate) declined: Option<Declined>,
}

impl Notes {
    /// Inserts a loop's report at index `place` of the list, before the reports on nested loops. Does nothing if the
    /// list already has an equal report.
    pub(crate) fn add_loop(&mut self, place: usize, each: LoopReport) {
        if !self.loops.contains(&each) {
            self.loops.insert(place, each);
        }
    }
}

impl<'a, B: Backend> Lowering<'a, B> {
    pub(crate) fn new(settings: Settings<'a, B>, sizes: Sizes) -> Self {
        Lowering {
            settings,
            sizes,
            statics: HashMap::new(),
            bounded: Bounded::default(),
            watch: ActiveHandles::current(),
            notes: Notes::default(),
            instructions: Vec::new(),
            registers: 0,
            nodes: HashMap::new(),
            programs: HashMap::new(),
            sweeps: HashMap::new(),
            uses: HashMap::new(),
            grouping: Grouping::AtOnce,
            compiled: HashMap::new(),
        }
    }

    /// Lowers a whole graph. `statics` contains the index and the value of each static input.
    pub(crate) fn lower_graph(mut self, graph: &Graph, statics: &[(usize, i64)]) -> Result<(Program<B>, Notes)> {
        let argument = |input: &Input| {
            let (register, ty) = (self.register(), graph.ty(input.value).clone());
            Argument { register, ty, stays: false }
        };
        let inputs: Vec<Argument> = graph.inputs().iter().map(argument).collect();
        let slots: Vec<Slot> = inputs.iter().map(|input| input.register).collect();
        if let Some(outputs) = self.lower_whole_program(graph, &slots)? {
            return Ok((Program::plan(self.instructions, self.registers, inputs, &outputs), self.notes));
        }
        self.registers = 0;
        let mut parameters: Vec<_> = graph.inputs().iter().map(|input| Parameter::new(input.value)).collect();
        for (index, number) in statics {
            parameters[*index].number = Some(StaticNumber::of_input(*index, *number));
        }
        self.lower_body(graph, &parameters, &graph.live_nodes())
    }

    /// Allocates a new register.
    pub(crate) fn register(&mut self) -> Slot {
        self.registers += 1;
        (self.registers - 1) as Slot
    }

    /// Lowers the marked nodes in order. Returns the registers of all values lowered so far.
    pub(crate) fn lower_nodes<'g>(
        &mut self,
        graph: &'g Graph,
        registers: Replay<'g, Slot>,
        marked: &[bool],
    ) -> Result<Replay<'g, Slot>> {
        if self.compiles_groups() {
            return self.lower_groups(graph, registers, marked);
        }
        registers.walk_marked(marked, |index, node, operands| {
            self.lower_node(NodeCall { graph, index, node, operands: &operands })
        })
    }

    fn lower_node(&mut self, call: NodeCall<'_>) -> Result<Vec<Slot>> {
        work::count();
        match &call.node.op {
            Op::Scan(scan) => self.lower_scan(call, scan),
            Op::While(op) => self.lower_while(call, op),
            Op::Switch(switch) => self.lower_switch(call, switch),
            Op::AssociativeScan(op) => self.lower_associative(call, op),
            Op::Constant(constant) => self.lower_constant(call.node, constant),
            Op::BindSize(op) => self.lower_bind(call, op),
            _ => self.lower_kernel(call.graph, call.index, call.operands),
        }
    }

    /// Returns a flag for each value of a graph: `true` if the graph uses the value.
    pub(crate) fn uses(&mut self, graph: &Graph) -> Arc<[bool]> {
        self.uses.entry(graph.id()).or_insert_with(|| uses(graph).into()).clone()
    }

    /// Appends an instruction and returns the registers of its results.
    pub(crate) fn push(&mut self, at: &Place, action: Action<B>, operands: &[Slot], count: usize) -> Result<Vec<Slot>> {
        if self.instructions.len() >= self.settings.max_kernels {
            let kernels = self.instructions.len() + 1;
            return Err(too_large(at, self.settings.backend.name(), kernels, self.settings.max_kernels));
        }
        self.watch.check(at, Progress::Ops(0))?;
        let results: Vec<Slot> = (0..count).map(|_| self.register()).collect();
        self.instructions.push(Instruction {
            action,
            operands: operands.iter().map(|slot| Operand { slot: *slot, last: false }).collect(),
            results: results.iter().copied().map(Some).collect::<SmallVec<_>>(),
        });
        Ok(results)
    }

    /// Returns a register for each result of a node: the next register of `results` if the result's flag in `present`
    /// is `true`, and otherwise a new register that is never set or read.
    pub(crate) fn registers_of_all_results(
        &mut self,
        results: Vec<Slot>,
        present: impl Iterator<Item = bool>,
    ) -> Vec<Slot> {
        let mut results = results.into_iter();
        let mut slot = |is_present: bool| if is_present { results.next() } else { None };
        present.map(|is_present| slot(is_present).unwrap_or_else(|| self.register())).collect()
    }

    /// Returns the kernel of a node. The steps of an unrolled loop share it.
    fn kernel(&mut self, graph: &Graph, index: usize) -> Result<Arc<KernelNode<B>>> {
        let key = (graph.id(), index);
        if let Some(kernel) = self.nodes.get(&key) {
            return Ok(kernel.clone());
        }
        let kernel = Arc::new(self.kernel_node(graph, &graph.nodes()[index])?);
        self.nodes.insert(key, kernel.clone());
        Ok(kernel)
    }

    fn lower_kernel(&mut self, graph: &Graph, index: usize, operands: &[Slot]) -> Result<Vec<Slot>> {
        let kernel = self.kernel(graph, index)?;
        let number = self.static_result(&kernel, operands);
        if !has_rule::<B>(kernel.op.name()) {
            self.notes.fallback.insert(kernel.op.name());
        }
        let results = self.push(&kernel.at, Action::Kernel(kernel.clone()), operands, kernel.outputs.len())?;
        match number {
            Some(number) => _ = self.statics.insert(results[0], number),
            None => self.note_bounded_result(&kernel, operands, results[0]),
        }
        Ok(results)
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
        let register = self.push_constant(&node.place(), &constant.value)?;
        if is_number(&constant.value.ty()) {
            let number = StaticNumber::constant(constant.value.get(0).as_i64());
            self.statics.insert(register, number);
        }
        Ok(vec![register])
    }

    /// Appends an instruction that returns a constant, and returns its register.
    fn push_constant(&mut self, at: &Place, value: &HostTensor) -> Result<Slot> {
        let backend = self.settings.backend;
        let tensor = backend.upload(value).map_err(|error| execution_error(at, backend.name(), error))?;
        Ok(self.push(at, Action::Constant { tensor, ty: value.ty() }, &[], 1)?[0])
    }
}
