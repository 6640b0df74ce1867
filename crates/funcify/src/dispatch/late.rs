//! Loops whose sizes follow from values: how many steps they run, or how many rows they read, only a running program knows.
//! They are compiled when they run, for the sizes that they have then.
//!
//! A plan takes some tenths of a millisecond, so one is made for a loop of many steps, or for sizes that come again; the last
//! ones are cached. What cannot be compiled, or is not worth it, runs natively.

use std::sync::{Arc, Mutex, PoisonError};

use super::backend::{Backend, Compiled, Declined, Tensors, Whole};
use super::lower::Lowering;
use super::program::{Run, WholeNode};
use super::whole::{alone, compile};
use crate::error::{Place, Result};
use crate::graph::{Graph, Node};
use crate::ops::scan::Scan;
use crate::types::Sizes;

/// How many steps are worth a plan that may be used once.
const MANY_STEPS: usize = 64;

/// For how many sizes plans are cached.
const CACHED: usize = 8;

/// The size that the symbols have in the plan that is made to see which op stands in the way.
const TRIED: usize = 8;

/// A loop that is compiled when it runs.
pub(super) struct LateLoop<B: Backend> {
    /// The loop alone; its inputs are its operands without the number of steps, its outputs those results that are used.
    alone: Graph,
    used: Vec<bool>,
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
    /// A loop whose sizes follow from values, if it can be compiled when they are there. An `until` ends it at a step that only
    /// its values know, and the sizes that a step binds differ between steps.
    pub(super) fn late_loop(&self, graph: &Graph, node: &Node, scan: &Scan) -> Result<LateLoop<B>, Declined> {
        let declined = |reason: &str| Declined::new("scan", reason);
        if scan.until.is_some() {
            return Err(declined("it ends early"));
        }
        if scan.body.binds_any() {
            return Err(declined("a loop in it has a number of steps that follows from values"));
        }
        // How many steps it runs is a size when it is compiled.
        let own = usize::from(scan.steps_operand);
        let op = Scan { steps_operand: false, ..scan.clone() }.into();
        let sized = Node { op, inputs: node.inputs[own..].to_vec(), outputs: node.outputs.clone(), site: node.site };
        let (alone, used) = alone(graph, &sized).map_err(|error| declined(&error.to_string()))?;
        let late = LateLoop { alone, used, memory_budget: self.settings.memory_budget, cached: Mutex::default() };
        let mut sizes = self.sizes.clone();
        late.alone.visit_symbols(&mut |symbol| {
            if sizes.get(symbol).is_none() {
                sizes.set(symbol, TRIED);
            }
        });
        late.compile(self.settings.backend, &sizes)?;
        Ok(late)
    }
}

impl<B: Backend> LateLoop<B> {
    fn compile(&self, backend: &B, sizes: &Sizes) -> Result<Arc<dyn Compiled<B::Tensor>>, Declined> {
        let whole = Whole { graph: &self.alone, sizes, is_program: false, memory_budget: self.memory_budget };
        compile(backend, whole)
    }

    /// The plan for the sizes of this run, if it has one, or if one is made.
    fn plan(&self, run: &Run<'_, B>, steps: usize) -> Plan<B> {
        let mut sizes = Sizes::new();
        self.alone.visit_symbols(&mut |symbol| {
            if let Some(size) = run.sizes.get(symbol) {
                sizes.set(symbol, size);
            }
        });
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let before = cached.iter().position(|entry| entry.sizes == sizes).map(|index| cached.remove(index));
        let plan = match before {
            Some(Cached { plan: Some(plan), .. }) => Some(plan),
            None if steps < MANY_STEPS => None,
            _ => Some(self.compile(run.backend, &sizes).ok()),
        };
        if cached.len() == CACHED {
            cached.remove(0);
        }
        cached.push(Cached { sizes, plan: plan.clone() });
        plan.flatten()
    }

    /// Runs the loop on its operands without the number of steps, if there is a plan for its sizes.
    pub(super) fn run(
        &self,
        run: &Run<'_, B>,
        at: &Place,
        steps: usize,
        operands: &[B::Tensor],
    ) -> Result<Option<Tensors<B::Tensor>>> {
        let Some(compiled) = self.plan(run, steps) else { return Ok(None) };
        let mut results = WholeNode { compiled, outputs: Vec::new(), at: at.clone() }.run(run, operands)?.into_iter();
        // Nobody looks at what stands for the others.
        let result = |used: &bool| if *used { results.next() } else { operands.first().cloned() };
        Ok(self.used.iter().map(result).collect())
    }
}
