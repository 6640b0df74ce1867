//! What a compiled function is made of: its size, its loops, the memory that its plan needs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

use funcify_rewrite::counts;

use super::*;
use crate::lower::report::LoopReport;
use crate::run::program::Program;

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
    /// The ops that the program runs by their reference evaluation, as the backend has no kernel for them, nor compiled them.
    pub fallback: BTreeSet<&'static str>,
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
    /// The programs that were made, and the calls that had one of them.
    pub counts: CompileCounts,
}

/// Counts the programs of a function so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompileCounts {
    /// How many programs were made.
    pub made: usize,
    /// How many calls had one that was there.
    pub reused: usize,
}

impl Report {
    /// Reports a graph without a program.
    pub(super) fn of_graph(graph: &Graph, patches: &[Patched], made: CompileCounts) -> Self {
        Report { graph_ops: count_ops(graph), rewrites: counts(patches), counts: made, ..Report::default() }
    }

    /// Adds the graph's program.
    pub(super) fn add_program<B: Backend>(&mut self, program: &Program<B>, notes: &Notes, patches: &[Patched]) {
        self.instructions = program.len();
        self.loops.clone_from(&notes.loops);
        for each in self.loops.iter_mut().filter(|each| each.site != Site::Unknown) {
            each.rewrites = counts(patches.iter().filter(|patch| patch.site == each.site));
        }
        self.fallback.clone_from(&notes.fallback);
        self.declined.clone_from(&notes.declined);
        self.program_bytes = program.bytes(&mut HashSet::new());
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
        writeln!(f, "programs, reused       {}, {}", self.counts.made, self.counts.reused)?;
        if !self.fallback.is_empty() {
            let ops: Vec<&str> = self.fallback.iter().copied().collect();
            writeln!(f, "by reference           {}", ops.join(", "))?;
        }
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

/// How many ops a graph has, those of its bodies included.
fn count_ops(graph: &Graph) -> usize {
    let bodies = graph.nodes().iter().flat_map(|node| node.op.bodies());
    graph.nodes().len() + bodies.map(|body| count_ops(body)).sum::<usize>()
}
