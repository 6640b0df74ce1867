//! Compiles loops and groups of ops at run time, once their sizes are known. They are compiled late if their number of
//! steps or rows depends on data, or if they have integer operands. Compiled code represents integers as floats, and
//! rejects operands that floats cannot represent.
//!
//! A loop with early exit is compiled for its maximum number of steps. The compiled code returns the actual number of
//! steps as an additional result, and the traces are truncated to that many rows. If the traces could be very long, the
//! loop runs natively instead.
//!
//! The decision to compile depends only on the sizes, never on earlier calls, so that repeated calls return
//! bit-identical results. Planning takes a few tenths of a millisecond, so the plans for the most recent sizes are
//! cached. A loop that cannot be compiled runs natively.

use std::collections::{BTreeSet, HashSet};

use funcify_core::error::Progress;
use funcify_core::graph::{Graph, Node, cannot_fail};
use funcify_core::ops::scan::{Returned, Scan};
use funcify_core::ops::{Op, OpRules};
use funcify_core::types::Symbol;

use super::whole::{run_compiled, with_placeholders};
use super::*;
use crate::backend::{CompileResult, Declined, WholeRequest};
use crate::cache::Cache;
use crate::prepare::request_whole;

/// The number of plans that a loop or a group caches, each for different sizes.
const CACHED_PLANS: usize = 64;

/// The maximum number of rows in a trace of a compiled loop with early exit.
pub(crate) const MAX_TRACE_ROWS: usize = 1 << 16;

/// A graph that is compiled at run time, once its sizes are known.
pub(crate) struct LateGraph<B: Backend> {
    pub(crate) graph: Graph,
    /// The symbols that the graph uses, except those that the bodies of its ops bind: their sizes may differ from step to
    /// step.
    symbols: Vec<Symbol>,
    memory_budget: u64,
    cached: Cache<Sizes, CachedPlan<B>>,
}

/// A loop that is compiled at run time, once its sizes are known.
pub(crate) struct LateLoop<B: Backend> {
    /// A graph whose only op is the loop. Its inputs are the loop's operands except the number of steps. Its outputs
    /// are the used results, and, for a loop with early exit, the number of steps that ran.
    pub(crate) late: LateGraph<B>,
    pub(crate) scan: Scan,
    pub(crate) used: Vec<bool>,
}

/// A while loop that is compiled at run time, once its sizes are known.
pub(crate) struct LateWhile<B: Backend> {
    /// A graph whose only op is the loop. Its outputs are the used results.
    pub(crate) late: LateGraph<B>,
    pub(crate) used: Vec<bool>,
}

/// A group of ops that is compiled at run time. If the compiled code cannot run, the program runs the ops one by one.
pub(crate) struct GroupNode<B: Backend> {
    pub(crate) late: LateGraph<B>,
    pub(crate) program: Arc<Program<B>>,
    pub(crate) outputs: Vec<TensorType>,
    pub(crate) at: Place,
}

/// A cached plan for the given sizes. `plan` is `None` if the backend declined to compile the loop for these sizes.
pub(crate) struct CachedPlan<B: Backend> {
    pub(crate) sizes: Sizes,
    pub(crate) plan: CompiledLoop<B>,
}

pub(crate) type CompiledLoop<B> = Option<Arc<dyn Compiled<<B as Backend>::Tensor>>>;

impl<B: Backend> Clone for CachedPlan<B> {
    fn clone(&self) -> Self {
        CachedPlan { sizes: self.sizes.clone(), plan: self.plan.clone() }
    }
}

impl<B: Backend> LateGraph<B> {
    pub(crate) fn new(graph: Graph, memory_budget: u64) -> Self {
        let bodies = graph.nodes().iter().flat_map(|node| node.op.bodies());
        let bound: HashSet<Symbol> = bodies.flat_map(|body| body.bound_symbols()).collect();
        let mut symbols = BTreeSet::new();
        graph.visit_symbols(&mut |symbol| _ = (!bound.contains(symbol)).then(|| symbols.insert(symbol.clone())));
        let symbols = symbols.into_iter().collect();
        LateGraph { graph, symbols, memory_budget, cached: Cache::new(CACHED_PLANS) }
    }

    /// Compiles the graph for the given sizes. With `may_refuse`, the compiled code may reject the operands. Declines a graph
    /// in which an op fails for these sizes, because only a kernel reports the error.
    pub(crate) fn compile(&self, backend: &B, sizes: &Sizes, may_refuse: bool) -> CompileResult<B::Tensor> {
        let (graph, memory_budget) = (&self.graph, self.memory_budget);
        self.check_sizes(sizes)?;
        request_whole(backend, WholeRequest { graph, sizes, is_program: false, memory_budget, may_refuse })
    }

    /// Declines sizes for which an op of the graph fails, or for which an earlier op fails instead of computing an operand.
    pub(crate) fn check_sizes(&self, sizes: &Sizes) -> Result<(), Declined> {
        let graph = &self.graph;
        if let Some(node) = graph.nodes().iter().find(|node| fails(graph, node, sizes)) {
            return Err(Declined::new(node.op.name(), "it fails for these sizes"));
        }
        let mut operands = graph.inputs().iter().flat_map(|input| graph.ty(input.value).shape.dims());
        match operands.any(|dim| dim.value(sizes).is_ok_and(|size| size < 0)) {
            true => Err(Declined::new("input", "it has a negative size")),
            false => Ok(()),
        }
    }

    /// Returns the sizes of the symbols that the graph uses, except those that the bodies bind, and the symbols without
    /// a size.
    pub(crate) fn own_sizes(&self, all: &Sizes) -> (Sizes, Vec<Symbol>) {
        let (mut sizes, mut unknown) = (Sizes::new(), Vec::new());
        for symbol in &self.symbols {
            match all.get(symbol) {
                Some(size) => sizes.set(symbol, size),
                None => unknown.push(symbol.clone()),
            }
        }
        (sizes, unknown)
    }

    /// Compiles the graph for sizes that serve as a trial. If the graph uses no other sizes, keeps the code.
    pub(crate) fn try_compile(&self, backend: &B, sizes: Sizes, is_final: bool) -> Result<(), Declined> {
        let plan = Some(self.compile(backend, &sizes, true)?);
        if is_final {
            self.cached.add(CachedPlan { sizes, plan });
        }
        Ok(())
    }

    /// Returns the size of the working memory of the cached plan for the given sizes, or 0 if no plan is cached.
    pub(crate) fn working_bytes(&self, sizes: &Sizes) -> usize {
        let (own, _) = self.own_sizes(sizes);
        let cached = self.cached.find(|cached| cached.sizes == own);
        cached.and_then(|cached| cached.plan).map_or(0, |plan| plan.working_bytes())
    }

    /// Returns the plan for the given sizes, or `None` if the backend declines to compile the graph.
    fn plan(&self, run: &Run<'_, B>, at: &Place, sizes: &Sizes) -> Result<CompiledLoop<B>> {
        let cached = self.cached.find_or_make(
            sizes,
            |cached| cached.sizes == *sizes,
            || run.watch.check(at, Progress::Uncounted),
            || {
                let plan = match self.compile(run.backend, sizes, true) {
                    Ok(compiled) => Some(compiled),
                    Err(declined) => declined.unless_fault(at, run.backend.name()).map(|_| None)?,
                };
                // Do not cache the plan if planning was cancelled.
                run.watch.check(at, Progress::Uncounted)?;
                Ok(CachedPlan { sizes: sizes.clone(), plan })
            },
        )?;
        Ok(cached.plan)
    }
}

impl<B: Backend> GroupNode<B> {
    /// Runs the ops: as compiled code or, if that is not possible, one by one.
    pub(crate) fn run_group(&self, run: &mut Run<'_, B>, operands: Tensors<B::Tensor>) -> Result<Tensors<B::Tensor>> {
        let (sizes, _) = self.late.own_sizes(&run.sizes);
        if let Some(compiled) = self.late.plan(run, &self.at, &sizes)? {
            let at = || self.at.clone();
            if let Some(results) = run_compiled(&*compiled, &run.watch, at, run.backend.name(), &operands)? {
                return Ok(results.into());
            }
        }
        Ok(self.program.execute(run, operands.into_vec())?.into())
    }
}

impl<B: Backend> LateLoop<B> {
    /// Returns the plan for the current sizes and number of steps, or `None` if the backend declines to compile the
    /// loop.
    fn plan(&self, run: &Run<'_, B>, at: &Place, steps: usize) -> Result<CompiledLoop<B>> {
        let (mut sizes, _) = self.late.own_sizes(&run.sizes);
        if let Some(symbol) = &self.scan.until {
            sizes.set(symbol, steps);
        }
        self.late.plan(run, at, &sizes)
    }

    /// Runs the compiled loop for at most `steps` steps, and returns its results with the number of steps that ran.
    /// Returns `None` if the loop has no plan, its traces could be too long, or the compiled code rejects the operands.
    /// `operands` excludes the number of steps.
    pub(crate) fn run_planned(
        &self,
        run: &Run<'_, B>,
        at: &Place,
        steps: usize,
        operands: &[B::Tensor],
    ) -> Result<Option<(Tensors<B::Tensor>, usize)>> {
        if self.scan.until.is_some() && steps > MAX_TRACE_ROWS && self.has_traces() {
            return Ok(None);
        }
        let Some(compiled) = self.plan(run, at, steps)? else { return Ok(None) };
        let results = run_compiled(&*compiled, &run.watch, || at.clone(), run.backend.name(), operands)?;
        let Some(mut results) = results else { return Ok(None) };
        let mut ran = steps;
        if self.scan.until.is_some() {
            let count = results.pop().expect("a loop that ends early returns the number of steps as its last result");
            let count = run.fail(at, run.backend.download(&count, DType::I64))?;
            ran = self.scan.check_count(at, count.get(0).as_i64())?;
        }
        let mut all = with_placeholders(results, &self.used, operands);
        let traces = self.scan.buffers.iter().zip(&self.used).zip(&mut all);
        for ((buffer, _), trace) in traces.filter(|((_, used), _)| **used && ran < steps) {
            if buffer.returned == Returned::All {
                let rows = run.backend.shape(trace)[0];
                let rows = self.scan.returned_rows(buffer, rows, steps - ran);
                *trace = run.fail(at, run.backend.rows(trace, rows.start, rows.len()))?;
            }
        }
        Ok(Some((all, ran)))
    }

    /// Returns `true` if one of the used results is a trace.
    pub(crate) fn has_traces(&self) -> bool {
        self.scan.buffers.iter().zip(&self.used).any(|(buffer, used)| *used && buffer.returned == Returned::All)
    }
}

impl<B: Backend> LateWhile<B> {
    /// Runs the compiled loop, and returns its results. Returns `None` if the loop has no plan, or if the compiled code
    /// rejects the operands.
    pub(crate) fn run_planned(
        &self,
        run: &Run<'_, B>,
        at: &Place,
        operands: &[B::Tensor],
    ) -> Result<Option<Tensors<B::Tensor>>> {
        let (sizes, _) = self.late.own_sizes(&run.sizes);
        let Some(compiled) = self.late.plan(run, at, &sizes)? else { return Ok(None) };
        let results = run_compiled(&*compiled, &run.watch, || at.clone(), run.backend.name(), operands)?;
        Ok(results.map(|results| with_placeholders(results, &self.used, operands)))
    }
}

/// Returns `true` if an op without bodies fails for the given sizes.
fn fails(graph: &Graph, node: &Node, sizes: &Sizes) -> bool {
    let is_custom = matches!(node.op, Op::Custom(_));
    node.op.bodies().is_empty() && !is_custom && !cannot_fail(graph, node, sizes)
}
