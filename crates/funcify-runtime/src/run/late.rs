//! Compiles loops at run time, once their sizes are known. Two kinds of loops are compiled late: loops whose number of
//! steps or rows depends on data, and loops with integer operands. Compiled code represents integers as floats, and
//! rejects operands that floats cannot represent.
//!
//! A loop with early exit is compiled for its maximum number of steps. The compiled code returns the actual number of
//! steps as an additional result, and the traces are truncated to that many rows. If the traces could be very long, the
//! loop runs natively instead.
//!
//! The decision to compile depends only on the sizes, never on earlier calls, so that repeated calls return
//! bit-identical results. Planning takes a few tenths of a millisecond, so the plans for the most recent sizes are
//! cached. A loop that cannot be compiled runs natively.

use funcify_core::error::Progress;
use funcify_core::graph::Graph;
use funcify_core::ops::scan::{Returned, Scan};
use funcify_core::types::Symbol;

use super::whole::{run_compiled, with_placeholders};
use super::*;
use crate::backend::{CompileResult, WholeRequest};
use crate::cache::Cache;
use crate::prepare::request_whole;

/// The maximum number of rows in a trace of a compiled loop with early exit.
pub(crate) const MAX_TRACE_ROWS: usize = 1 << 16;

/// A loop that is compiled at run time, once its sizes are known.
pub(crate) struct LateLoop<B: Backend> {
    /// A graph whose only op is the loop. Its inputs are the loop's operands except the number of steps. Its outputs
    /// are the used results, and, for a loop with early exit, the number of steps that ran.
    pub(crate) graph: Graph,
    pub(crate) scan: Scan,
    pub(crate) used: Vec<bool>,
    /// The symbols that the body binds. Their sizes may differ from step to step.
    pub(crate) bound: Vec<Symbol>,
    pub(crate) memory_budget: u64,
    pub(crate) cached: Cache<Sizes, CachedPlan<B>>,
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

impl<B: Backend> LateLoop<B> {
    /// Compiles the loop for the given sizes. The compiled code may reject the loop's operands.
    pub(crate) fn compile_late(&self, backend: &B, sizes: &Sizes) -> CompileResult<B::Tensor> {
        let (graph, memory_budget) = (&self.graph, self.memory_budget);
        request_whole(backend, WholeRequest { graph, sizes, is_program: false, memory_budget, may_refuse: true })
    }

    /// Returns the sizes of the symbols that the loop uses, except those that its body binds.
    pub(crate) fn own_sizes(&self, all: &Sizes) -> Sizes {
        let mut sizes = Sizes::new();
        self.graph.visit_symbols(&mut |symbol| {
            if let Some(size) = all.get(symbol).filter(|_| !self.bound.contains(symbol)) {
                sizes.set(symbol, size);
            }
        });
        sizes
    }

    /// Returns the plan for the current sizes and number of steps, or `None` if the backend declines to compile the
    /// loop.
    fn plan(&self, run: &Run<'_, B>, at: &Place, steps: usize) -> Result<CompiledLoop<B>> {
        let mut sizes = self.own_sizes(&run.sizes);
        if let Some(symbol) = &self.scan.until {
            sizes.set(symbol, steps);
        }
        let cached = self.cached.find_or_make(
            &sizes,
            |cached| cached.sizes == sizes,
            || run.watch.check(at, Progress::Uncounted),
            || {
                let plan = match self.compile_late(run.backend, &sizes) {
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
