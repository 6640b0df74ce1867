//! What a compiled function is made of: its size, its loops, the memory that its plan needs.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::mem::size_of;
use std::sync::Arc;
use std::time::Duration;

use funcify_core::error::Site;
use funcify_core::graph::Graph;
use funcify_core::ops::StepCount;
use funcify_core::types::{Dim, Sizes, TensorType};

use super::backend::{Backend, Declined, LoopStrategy};
use super::function::CompileCounts;
use super::program::{Action, Instruction, KernelNode, Operand, Program, Slot, with_slots};

/// What became of a graph: of the program for the last call, as far as there is one. A function whose program depends
/// on the sizes of a call has none before the first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The ops of the graph, those of bodies, branches and conditions included.
    pub graph_ops: usize,
    /// How often each rule rewrote the graph before it was compiled, by the rules' names.
    pub rewrites: BTreeMap<&'static str, usize>,
    /// The instructions of the program. A body that a native loop runs counts once, one that is unrolled for each step;
    /// what steps share counts for each of them.
    pub instructions: usize,
    /// The loops of the program, each once; those of which all is the same, line and numbers, are one.
    pub loops: Vec<LoopReport>,
    /// Why the program is not compiled as a whole, if it was to be.
    pub declined: Option<Declined>,
    /// How long the program took to make from the graph.
    pub compile_time: Duration,
    /// The bytes that the program's instructions take in host memory. What is shared counts once; the elements of
    /// constants, which lie on the device, are not counted.
    pub program_bytes: usize,
    /// The largest number of bytes of tensors that the plan keeps at once, for the sizes of the last call: arguments,
    /// results, and what is between. Each tensor counts with all its elements, also where a backend shares them (views,
    /// broadcasts) or works in place; a kernel's own temporaries are not counted. The rows of a native loop's traces count
    /// from its start, once. `None` before the first call, and if the size of some tensor follows from data.
    pub peak_bytes: Option<usize>,
    /// How often the function was compiled, and how often a cached program was used.
    pub counts: CompileCounts,
}

/// How one loop of a program runs.
#[derive(Clone, PartialEq, Debug)]
pub struct LoopReport {
    /// The op: `scan`, `while`; `associative_scan`, where it is compiled as a loop.
    pub op: &'static str,
    /// The user's line.
    pub site: Site,
    /// Laid out, run from the host, or compiled.
    pub strategy: LoopStrategy,
    /// Why it is not compiled, if it was to be.
    pub declined: Option<Declined>,
    /// How many steps it runs.
    pub steps: Steps,
    /// How many kernels a step runs, those of all loops and branches in it once each. What is compiled in it counts as one; what
    /// no step changes runs before the loop, and does not count. `None` of a loop that is compiled itself, and of one that is laid
    /// out for no step.
    pub kernels: Option<usize>,
    /// How often each rule rewrote the loop, by the rules' names: the patches at its line, which the loops of
    /// its derivatives share. Those at the lines of its body are not among them, nor are those of a program without lines.
    pub rewrites: BTreeMap<&'static str, usize>,
}

/// A loop's number of steps, as far as it is static.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steps {
    /// The number.
    Exactly(usize),
    /// The largest number: the loop ends when a condition says so.
    AtMost(usize),
    /// Nothing: it follows from the sizes of a call, or from values.
    AtRunTime,
}

impl Steps {
    /// Those of a loop at these sizes.
    pub(super) fn of(count: &StepCount, sizes: &Sizes) -> Self {
        let at = |dim: &Dim| dim.value(sizes).ok().map(|steps| usize::try_from(steps).unwrap_or(0));
        match count {
            StepCount::Exactly(dim) => at(dim).map_or(Steps::AtRunTime, Steps::Exactly),
            StepCount::AtMost(dim) => at(dim).map_or(Steps::AtRunTime, Steps::AtMost),
            StepCount::WhileItHolds => Steps::AtRunTime,
        }
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Steps::Exactly(steps) => write!(f, "{steps} steps"),
            Steps::AtMost(steps) => write!(f, "at most {steps} steps"),
            Steps::AtRunTime => f.write_str("steps known at run time"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ops in the graph       {}", self.graph_ops)?;
        if !self.rewrites.is_empty() {
            writeln!(f, "rewrites               {}", listed(&self.rewrites))?;
        }
        writeln!(f, "instructions           {}", self.instructions)?;
        writeln!(f, "program                {} bytes", self.program_bytes)?;
        match self.peak_bytes {
            Some(bytes) => writeln!(f, "tensors at once        {bytes} bytes")?,
            None => writeln!(f, "tensors at once        not known")?,
        }
        writeln!(f, "compile time           {:?}", self.compile_time)?;
        writeln!(f, "compiled, reused       {}, {}", self.counts.compiled, self.counts.reused)?;
        if let Some(declined) = &self.declined {
            writeln!(f, "not compiled as a whole: {declined}")?;
        }
        for each in &self.loops {
            write!(f, "{:<22} {}, {}", each.op, each.strategy.name(), each.steps)?;
            if let Some(kernels) = each.kernels {
                write!(f, ", kernels a step: {kernels}")?;
            }
            write!(f, " ({})", each.site)?;
            if !each.rewrites.is_empty() {
                write!(f, "; rewrites: {}", listed(&each.rewrites))?;
            }
            match &each.declined {
                Some(declined) => writeln!(f, "; not compiled: {declined}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// Rules, and how often each.
fn listed(rewrites: &BTreeMap<&'static str, usize>) -> String {
    rewrites.iter().map(|(rule, count)| format!("{rule} {count}")).collect::<Vec<_>>().join(", ")
}

/// How many kernels instructions run, those of the programs in them once each.
pub(super) fn count_kernels<B: Backend>(instructions: &[Instruction<B>]) -> usize {
    let of_one = |action: &Action<B>| match action {
        Action::Kernel(_) | Action::Whole(_) => 1,
        action => action.programs().into_iter().map(|program| count_kernels(&program.instructions)).sum(),
    };
    instructions.iter().map(|instruction| of_one(&instruction.action)).sum()
}

/// How many ops a graph has, those of its bodies included.
pub(super) fn count_ops(graph: &Graph) -> usize {
    let bodies = graph.nodes().iter().flat_map(|node| node.op.bodies());
    graph.nodes().len() + bodies.map(|body| count_ops(body)).sum::<usize>()
}

impl<B: Backend> Program<B> {
    /// The bytes that its instructions take. `seen` holds the addresses of what was counted before.
    pub(super) fn bytes(&self, seen: &mut HashSet<usize>) -> usize {
        let mut first = |address: usize, bytes: usize| if seen.insert(address) { bytes } else { 0 };
        let mut bytes = size_of::<Self>();
        let mut nested: Vec<&Arc<Program<B>>> = Vec::new();
        for instruction in &self.instructions {
            bytes += size_of::<Instruction<B>>();
            if instruction.operands.spilled() {
                bytes += instruction.operands.capacity() * size_of::<Operand>();
            }
            if instruction.results.spilled() {
                bytes += instruction.results.capacity() * size_of::<Option<Slot>>();
            }
            if let Action::Kernel(node) = &instruction.action {
                bytes += first(Arc::as_ptr(node) as usize, size_of::<KernelNode<B>>());
            }
            nested.extend(instruction.action.programs());
        }
        let nested =
            nested.into_iter().filter(|program| seen.insert(Arc::as_ptr(program) as usize)).collect::<Vec<_>>();
        bytes + nested.into_iter().map(|program| program.bytes(seen)).sum::<usize>()
    }

    /// The largest number of bytes of tensors in slots at once, and that of the arguments; `None` if a size follows from data.
    pub(super) fn peak_bytes(&self, sizes: &Sizes) -> Option<(usize, usize)> {
        let mut held = vec![0; self.slots];
        let (mut live, mut peak) = (0usize, 0usize);
        for (slot, ty) in with_slots(&self.inputs, &self.input_types) {
            held[slot] = bytes_of(ty, sizes)?;
            live = live.checked_add(held[slot])?;
        }
        let arguments = live;
        for instruction in &self.instructions {
            // What a kernel makes for nobody is there while it runs.
            let mut unused = 0usize;
            for (slot, ty) in instruction.results.iter().zip(instruction.action.output_types()) {
                if let Some(slot) = slot {
                    held[*slot as usize] = bytes_of(ty, sizes)?;
                    live = live.checked_add(held[*slot as usize])?;
                } else if matches!(instruction.action, Action::Kernel(_)) {
                    unused = unused.checked_add(bytes_of(ty, sizes)?)?;
                }
            }
            let mut inside = unused;
            let sizes = match &instruction.action {
                Action::Associative(node) => &node.largest_sizes(sizes),
                _ => sizes,
            };
            for program in instruction.action.programs() {
                let (peak, arguments) = program.peak_bytes(sizes)?;
                inside = inside.max(peak - arguments);
            }
            peak = peak.max(live.checked_add(inside)?);
            for operand in instruction.operands.iter().filter(|operand| operand.last) {
                live -= std::mem::take(&mut held[operand.slot as usize]);
            }
        }
        Some((peak.max(arguments), arguments))
    }
}

/// `None` also for more bytes than there are.
fn bytes_of(ty: &TensorType, sizes: &Sizes) -> Option<usize> {
    let sizes = ty.shape.value(sizes).ok()?;
    // As if no size were 0: strides are computed of the others, too.
    let bytes = sizes.iter().try_fold(ty.dtype.size(), |product, size| product.checked_mul((*size).max(1)))?;
    Some(if sizes.contains(&0) { 0 } else { bytes })
}
