//! Reports on a compiled function: its size, its loops, and the memory that its plan needs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

use funcify_rewrite::counts;

use super::*;
use crate::lower::report::LoopReport;
use crate::run::program::Program;

/// A report on a compiled function. Describes the program of the last call, or, before the first call, the program that
/// was built at compile time, if any.
///
/// ```
/// use funcify::dispatch::{Function, Reference};
/// use funcify::{Graph, HostTensor, scan};
///
/// let sum = Graph::build("sum", |g| {
///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[3]")];
///     scan(start, xs, |sum, x| (sum + x, ())).0
/// })?;
/// let report = Function::compile(&sum, &Reference)?.report();
/// assert_eq!(report.graph_ops, 2); // the loop, and the sum in its body
/// assert_eq!(report.loops.len(), 1);
/// println!("{report}");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The number of ops in the graph, including those of loop bodies, branches and conditions.
    pub graph_ops: usize,
    /// The number of patches that each rule applied to the graph before compilation, keyed by rule name.
    pub rewrites: BTreeMap<&'static str, usize>,
    /// The number of instructions in the program. The body of a native loop counts once. The body of an unrolled loop
    /// counts once per step, even if steps share instructions.
    pub instructions: usize,
    /// The loops of the program. Loops with identical reports, including the source line, are listed once.
    pub loops: Vec<LoopReport>,
    /// The ops that the program runs with the backend's fallback, usually the reference evaluator, because the backend
    /// has no kernel for them and did not compile them.
    pub fallback: BTreeSet<&'static str>,
    /// The reason why the program is not compiled as a whole, if compilation was requested.
    pub declined: Option<Declined>,
    /// The time taken to build the program from the graph.
    pub compile_time: Duration,
    /// The size of the program's instructions in host memory, in bytes. Shared instructions count once. The elements of
    /// constants do not count, because they are on the device.
    pub program_bytes: usize,
    /// The peak total size of the plan's tensors, in bytes, for the sizes of the last call. `None` before the first
    /// call, or if the size of a tensor depends on data.
    ///
    /// Includes arguments, results and intermediate values. Each tensor counts in full, even if the backend creates it
    /// as a view or in place. The traces of a native loop count in full from the start of the loop. The scratch
    /// memory of compiled code counts, but temporaries inside a kernel do not.
    pub peak_bytes: Option<usize>,
    /// The number of programs built so far, and the number of calls that reused one.
    pub counts: CompileCounts,
}

/// The number of programs that a function has built, and the number of calls that reused one.
///
/// ```
/// use funcify::dispatch::{CompileCounts, Function, Reference};
/// use funcify::{Graph, HostTensor};
///
/// let twice = Graph::build("twice", |g| g.input("x", "f32[N]") * 2.0)?;
/// let twice = Function::compile(&twice, &Reference)?;
/// twice.call_host(&[[1f32].into()])?;
/// assert_eq!(twice.counts(), CompileCounts { made: 1, reused: 1 });
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompileCounts {
    /// The number of programs built.
    pub made: usize,
    /// The number of calls that reused a program.
    pub reused: usize,
}

impl Report {
    /// Creates a report that describes the graph, but no program.
    pub(super) fn of_graph(graph: &Graph, patches: &[Patched], made: CompileCounts) -> Self {
        Report { graph_ops: count_ops(graph), rewrites: counts(patches), counts: made, ..Report::default() }
    }

    /// Adds the properties of the program that was built for the graph.
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

/// Formats the rule names with their patch counts, separated by commas.
fn listed(rewrites: &BTreeMap<&'static str, usize>) -> String {
    rewrites.iter().map(|(rule, count)| format!("{rule} {count}")).collect::<Vec<_>>().join(", ")
}

/// Counts the ops of a graph, including those in bodies.
fn count_ops(graph: &Graph) -> usize {
    let bodies = graph.nodes().iter().flat_map(|node| node.op.bodies());
    graph.nodes().len() + bodies.map(|body| count_ops(body)).sum::<usize>()
}
