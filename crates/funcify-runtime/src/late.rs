//! Loops whose sizes follow from values: how many steps they run, or how many rows they read, only a running program knows.
//! They are compiled when they run, for the sizes that they have then. So are loops that take integers: what is compiled holds
//! them as floats, and refuses those that floats do not hold.
//!
//! A loop that ends early is compiled for all steps that it may run, with the number of those that ran as one more result: its
//! traces are cut to their rows. One whose traces could then be very long runs natively.
//!
//! Whether such a loop is compiled follows from its sizes alone, never from earlier calls: a call that is repeated gives the same bits.
//! A plan takes some tenths of a millisecond, so those for the sizes used last are cached. What cannot be compiled runs natively.

use std::sync::Arc;

use funcify_core::error::{Place, Ran, Result};
use funcify_core::graph::{Graph, Node};
use funcify_core::ops::Size;
use funcify_core::ops::scan::{Returned, Scan};
use funcify_core::types::{DType, Dim, Sizes};

use super::backend::{Backend, Compiled, Declined, Tensors, Whole};
use super::cache::Cache;
use super::lower::Lowering;
use super::program::Run;
use super::whole::{alone, compile, run_compiled, used_results, uses};

/// The number of sizes for which plans are cached.
const CACHED: usize = 64;

/// How many rows the traces of a loop that ends early may have at most.
const MOST_ROWS: usize = 1 << 16;

/// The size that the symbols have in the plan that is made to see which op stands in the way.
const TRIED: usize = 8;

/// A loop that is compiled when it runs.
pub(super) struct LateLoop<B: Backend> {
    /// The loop alone; its inputs are its operands without the number of steps, its outputs those results that are used.
    alone: Graph,
    scan: Scan,
    used: Vec<bool>,
    memory_budget: u64,
    cached: Cache<Sizes, Cached<B>>,
}

/// The plan for some sizes, or none if it was declined.
struct Cached<B: Backend> {
    sizes: Sizes,
    plan: Plan<B>,
}

type Plan<B> = Option<Arc<dyn Compiled<<B as Backend>::Tensor>>>;

impl<B: Backend> Clone for Cached<B> {
    fn clone(&self) -> Self {
        Cached { sizes: self.sizes.clone(), plan: self.plan.clone() }
    }
}

impl<B: Backend> Lowering<'_, B> {
    /// A loop whose sizes follow from values, if it can be compiled when they are there. The sizes that a step binds differ
    /// between steps.
    pub(super) fn late_loop(&self, graph: &Graph, node: &Node, scan: &Scan) -> Result<LateLoop<B>, Declined> {
        let declined = |reason: &str| Declined::new("scan", reason);
        if scan.body.binds_any() {
            return Err(declined("a size in it follows from values"));
        }
        // How many steps it runs is a size when it is compiled.
        let own = usize::from(scan.steps_operand);
        let scan = Scan { steps_operand: false, ..scan.clone() };
        let op = scan.clone().into();
        let sized = Node { op, inputs: node.inputs[own..].to_vec(), outputs: node.outputs.clone(), site: node.site };
        let used = used_results(&uses(graph), &sized);
        let mut alone = alone(graph, &sized, &used).map_err(|error| declined(&error.to_string()))?;
        if let Some(symbol) = &scan.until {
            let count = Size { dim: Dim::symbol(symbol), dtype: DType::I64 };
            let count = alone.push_node(count.into(), &[], node.site).map_err(|error| declined(&error.to_string()))?;
            alone.push_output("steps", count[0]);
        }
        let (memory_budget, cached) = (self.settings.memory_budget, Cache::new(CACHED));
        let late = LateLoop { alone, scan, used, memory_budget, cached };
        let mut sizes = late.own_sizes(&self.sizes);
        let mut are_known = true;
        late.alone.visit_symbols(&mut |symbol| {
            if sizes.get(symbol).is_none() {
                sizes.set(symbol, TRIED);
                are_known = false;
            }
        });
        if let (Some(symbol), Ok(most)) = (&late.scan.until, late.scan.steps.value(&sizes)) {
            let most = usize::try_from(most).unwrap_or(0);
            if most > MOST_ROWS && late.has_traces() {
                return Err(declined("it ends early, and its traces may be long"));
            }
            sizes.set(symbol, most);
        }
        let plan = Some(late.compile(self.settings.backend, &sizes)?);
        if are_known {
            late.cached.add(Cached { sizes, plan });
        }
        Ok(late)
    }
}

impl<B: Backend> LateLoop<B> {
    fn compile(&self, backend: &B, sizes: &Sizes) -> Result<Arc<dyn Compiled<B::Tensor>>, Declined> {
        let (graph, memory_budget) = (&self.alone, self.memory_budget);
        compile(backend, Whole { graph, sizes, is_program: false, memory_budget, may_refuse: true })
    }

    /// Those of the sizes that the loop uses.
    fn own_sizes(&self, all: &Sizes) -> Sizes {
        let mut sizes = Sizes::new();
        self.alone.visit_symbols(&mut |symbol| {
            if let Some(size) = all.get(symbol) {
                sizes.set(symbol, size);
            }
        });
        sizes
    }

    /// The plan for the sizes of this run, unless it is declined.
    fn plan(&self, run: &Run<'_, B>, at: &Place, steps: usize) -> Result<Plan<B>> {
        let mut sizes = self.own_sizes(&run.sizes);
        if let Some(symbol) = &self.scan.until {
            sizes.set(symbol, steps);
        }
        let cached = self.cached.find_or_make(
            &sizes,
            |cached| cached.sizes == sizes,
            || run.watch.check(at, Ran::Part),
            || {
                let plan = match self.compile(run.backend, &sizes) {
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
    pub(super) fn run(
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
        let Some(mut results) = run_compiled(&*compiled, run, at, operands)? else { return Ok(None) };
        let mut ran = steps;
        if self.scan.until.is_some() {
            let count =
                results.pop().map(|count| run.fail(at, run.backend.download(&count, DType::I64))).transpose()?;
            ran = self.scan.check_count(at, count.map_or(0, |count| count.get(0).as_i64()))?;
        }
        // Nobody looks at what stands for a result that is not used.
        let stand_in = operands.first().or(results.first()).cloned();
        let mut results = results.into_iter();
        let mut all = Tensors::new();
        for (index, used) in self.used.iter().enumerate() {
            let result = if *used { results.next() } else { None };
            match (result, self.scan.buffers.get(index)) {
                (Some(trace), Some(buffer)) if ran < steps && buffer.returned == Returned::All => {
                    let rows = run.backend.shape(&trace)[0];
                    let rows = self.scan.returned_rows(buffer, rows, steps - ran);
                    all.push(run.fail(at, run.backend.rows(&trace, rows.start, rows.len()))?);
                }
                (Some(result), _) => all.push(result),
                (None, _) => all.extend(stand_in.clone()),
            }
        }
        Ok(Some((all, ran)))
    }

    /// Whether a trace is a result.
    fn has_traces(&self) -> bool {
        self.scan.buffers.iter().zip(&self.used).any(|(buffer, used)| *used && buffer.returned == Returned::All)
    }
}
