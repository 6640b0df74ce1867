//! Loops whose sizes follow from values: how many steps they run, or how many rows they read, only a running program knows.
//! They are compiled when they run, for the sizes that they have then. So are loops that take integers: what is compiled holds
//! them as floats, and refuses those that floats do not hold.
//!
//! A loop that ends early is compiled for all steps that it may run, with the number of those that ran as one more result: its
//! traces are cut to their rows. One whose traces could then be very long runs natively.
//!
//! Whether such a loop is compiled follows from its sizes alone, never from earlier calls: a call that is repeated gives the same bits.
//! A plan takes some tenths of a millisecond, so those for the sizes used last are cached. What cannot be compiled runs natively.

use funcify_core::error::Ran;
use funcify_core::graph::Graph;
use funcify_core::ops::scan::{Returned, Scan};

use super::whole::{run_compiled, with_stand_ins};
use super::*;
use crate::backend::{CompileResult, WholeRequest};
use crate::cache::Cache;
use crate::prepare::request_whole;

/// How many rows the traces of a loop that ends early may have at most.
pub(crate) const MOST_ROWS: usize = 1 << 16;

/// A loop that is compiled when it runs.
pub(crate) struct LateLoop<B: Backend> {
    /// The loop alone; its inputs are its operands without the number of steps, its outputs those results that are used.
    pub(crate) alone: Graph,
    pub(crate) scan: Scan,
    pub(crate) used: Vec<bool>,
    pub(crate) memory_budget: u64,
    pub(crate) cached: Cache<Sizes, Cached<B>>,
}

/// The plan for some sizes, or none if it was declined.
pub(crate) struct Cached<B: Backend> {
    pub(crate) sizes: Sizes,
    pub(crate) plan: CompiledLoop<B>,
}

pub(crate) type CompiledLoop<B> = Option<Arc<dyn Compiled<<B as Backend>::Tensor>>>;

impl<B: Backend> Clone for Cached<B> {
    fn clone(&self) -> Self {
        Cached { sizes: self.sizes.clone(), plan: self.plan.clone() }
    }
}

impl<B: Backend> LateLoop<B> {
    /// Compiles the loop for these sizes.
    pub(crate) fn compile_late(&self, backend: &B, sizes: &Sizes) -> CompileResult<B::Tensor> {
        let (graph, memory_budget) = (&self.alone, self.memory_budget);
        request_whole(backend, WholeRequest { graph, sizes, is_program: false, memory_budget, may_refuse: true })
    }

    /// Those of the sizes that the loop uses.
    pub(crate) fn own_sizes(&self, all: &Sizes) -> Sizes {
        let mut sizes = Sizes::new();
        self.alone.visit_symbols(&mut |symbol| {
            if let Some(size) = all.get(symbol) {
                sizes.set(symbol, size);
            }
        });
        sizes
    }

    /// The plan for the sizes of this run, unless it is declined.
    fn plan(&self, run: &Run<'_, B>, at: &Place, steps: usize) -> Result<CompiledLoop<B>> {
        let mut sizes = self.own_sizes(&run.sizes);
        if let Some(symbol) = &self.scan.until {
            sizes.set(symbol, steps);
        }
        let cached = self.cached.find_or_make(
            &sizes,
            |cached| cached.sizes == sizes,
            || run.watch.check(at, Ran::Part),
            || {
                let plan = match self.compile_late(run.backend, &sizes) {
                    Ok(compiled) => Some(compiled),
                    Err(declined) => declined.unless_fault(at, run.backend.name()).map(|_| None)?,
                };
                // A plan that was stopped says nothing of the next call.
                run.watch.check(at, Ran::Part)?;
                Ok(Cached { sizes: sizes.clone(), plan })
            },
        )?;
        Ok(cached.plan)
    }

    /// Runs at most so many steps of the loop, on its operands without their number, if there is a plan for its sizes. Gives the
    /// results and how many steps ran.
    pub(crate) fn run_planned(
        &self,
        run: &Run<'_, B>,
        at: &Place,
        steps: usize,
        operands: &[B::Tensor],
    ) -> Result<Option<(Tensors<B::Tensor>, usize)>> {
        if self.scan.until.is_some() && steps > MOST_ROWS && self.has_traces() {
            return Ok(None);
        }
        let Some(compiled) = self.plan(run, at, steps)? else { return Ok(None) };
        let results = run_compiled(&*compiled, &run.watch, || at.clone(), run.backend.name(), operands)?;
        let Some(mut results) = results else { return Ok(None) };
        let mut ran = steps;
        if self.scan.until.is_some() {
            let count = results.pop().expect("the number of steps that ran is its last result");
            let count = run.fail(at, run.backend.download(&count, DType::I64))?;
            ran = self.scan.check_count(at, count.get(0).as_i64())?;
        }
        let mut all = with_stand_ins(results, &self.used, operands);
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

    /// Whether a trace is a result.
    pub(crate) fn has_traces(&self) -> bool {
        self.scan.buffers.iter().zip(&self.used).any(|(buffer, used)| *used && buffer.returned == Returned::All)
    }
}
