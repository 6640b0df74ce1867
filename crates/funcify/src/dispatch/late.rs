//! Loops whose sizes follow from values: how many steps they run, or how many rows they read, only a running program knows.
//! They are compiled when they run, for the sizes that they have then. So are loops that take integers: what is compiled holds
//! them as floats, and refuses those that floats do not hold.
//!
//! A loop that ends early is compiled for all steps that it may run, with the number of those that ran as one more result: its
//! traces are cut to their rows. One whose traces could then be very long runs natively.
//!
//! A plan takes some tenths of a millisecond, so one is made for a loop of many steps, or for sizes that come again; the last
//! ones are cached. What cannot be compiled, or is not worth it, runs natively.

use std::sync::{Arc, Mutex, PoisonError};

use super::backend::{Backend, Compiled, Declined, LoopStrategy, Tensors, Whole};
use super::lower::Lowering;
use super::program::Run;
use super::whole::{alone, compile, run_compiled};
use crate::error::{Place, Result};
use crate::graph::{Graph, Node};
use crate::ops::Size;
use crate::ops::scan::{Returned, Scan};
use crate::types::{DType, Dim, Sizes};

/// How many steps are worth a plan that may be used once, unless all loops are to be compiled.
const MANY_STEPS: usize = 64;

/// For how many sizes plans are cached.
const CACHED: usize = 8;

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
    /// How many steps are worth a plan that may be used once.
    many_steps: usize,
    memory_budget: u64,
    /// For the sizes that came last, the latest at the end.
    cached: Mutex<Vec<Cached<B>>>,
}

/// What there is for some sizes: nothing after they came once, then a plan, or none if it was declined.
struct Cached<B: Backend> {
    sizes: Sizes,
    plan: Option<Plan<B>>,
}

type Plan<B> = Option<Arc<dyn Compiled<<B as Backend>::Tensor>>>;

impl<B: Backend> Lowering<'_, B> {
    /// A loop whose sizes follow from values, if it can be compiled when they are there. The sizes that a step binds differ
    /// between steps.
    pub(super) fn late_loop(&self, graph: &Graph, node: &Node, scan: &Scan) -> Result<LateLoop<B>, Declined> {
        let declined = |reason: &str| Declined::new("scan", reason);
        if scan.body.binds_any() {
            return Err(declined("a loop in it has a number of steps that follows from values"));
        }
        // How many steps it runs is a size when it is compiled.
        let own = usize::from(scan.steps_operand);
        let scan = Scan { steps_operand: false, ..scan.clone() };
        let op = scan.clone().into();
        let sized = Node { op, inputs: node.inputs[own..].to_vec(), outputs: node.outputs.clone(), site: node.site };
        let (mut alone, used) = alone(graph, &sized).map_err(|error| declined(&error.to_string()))?;
        if let Some(symbol) = &scan.until {
            let count = Size { dim: Dim::symbol(symbol), dtype: DType::I64 };
            let count = alone.push_node(count.into(), &[], node.site).map_err(|error| declined(&error.to_string()))?;
            alone.push_output("steps", count[0]);
        }
        let is_forced = self.settings.strategy == Some(LoopStrategy::Compiled);
        let many_steps = if is_forced { 0 } else { MANY_STEPS };
        let memory_budget = self.settings.memory_budget;
        let late = LateLoop { alone, scan, used, many_steps, memory_budget, cached: Mutex::default() };
        let mut sizes = self.sizes.clone();
        late.alone.visit_symbols(&mut |symbol| {
            if sizes.get(symbol).is_none() {
                sizes.set(symbol, TRIED);
            }
        });
        if let (Some(symbol), Ok(most)) = (&late.scan.until, late.scan.steps.value(&sizes)) {
            let most = usize::try_from(most).unwrap_or(0);
            if most > MOST_ROWS && late.has_traces() {
                return Err(declined("it ends early, and its traces may be long"));
            }
            sizes.set(symbol, most);
        }
        late.compile(self.settings.backend, &sizes)?;
        Ok(late)
    }
}

impl<B: Backend> LateLoop<B> {
    fn compile(&self, backend: &B, sizes: &Sizes) -> Result<Arc<dyn Compiled<B::Tensor>>, Declined> {
        let (graph, memory_budget) = (&self.alone, self.memory_budget);
        compile(backend, Whole { graph, sizes, is_program: false, memory_budget, may_refuse: true })
    }

    /// The plan for the sizes of this run, if it has one, or if one is made.
    fn plan(&self, run: &Run<'_, B>, at: &Place, steps: usize) -> Result<Plan<B>> {
        let mut sizes = Sizes::new();
        self.alone.visit_symbols(&mut |symbol| {
            if let Some(size) = run.sizes.get(symbol) {
                sizes.set(symbol, size);
            }
        });
        if let Some(symbol) = &self.scan.until {
            sizes.set(symbol, steps);
        }
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let before = cached.iter().position(|entry| entry.sizes == sizes).map(|index| cached.remove(index));
        let plan = match before {
            Some(Cached { plan: Some(plan), .. }) => Some(plan),
            None if steps < self.many_steps => None,
            _ => Some(match self.compile(run.backend, &sizes) {
                Ok(compiled) => Some(compiled),
                Err(declined) => declined.unless_fault(at, run.backend.name()).map(|_| None)?,
            }),
        };
        if cached.len() == CACHED {
            cached.remove(0);
        }
        cached.push(Cached { sizes, plan: plan.clone() });
        Ok(plan.flatten())
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
                // Nobody looks at what stands for it.
                (None, _) => all.extend(operands.first().cloned()),
            }
        }
        Ok(Some((all, ran)))
    }

    /// Whether a trace is a result.
    fn has_traces(&self) -> bool {
        self.scan.buffers.iter().zip(&self.used).any(|(buffer, used)| *used && buffer.returned == Returned::All)
    }
}
