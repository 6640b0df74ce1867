//! Determines which loops can be compiled at run time: loops with data-dependent sizes, once the sizes are known, and
//! loops with integer operands, once the values of these operands can be checked.

use funcify_core::ops::Size;

use super::whole::{isolate_node, used_results};
use super::*;
use crate::run::late::{LateGraph, LateLoop, LateWhile, MAX_TRACE_ROWS};

/// The sizes that trial compilations assume for each unknown symbol. The first successful trial ends the search. A trial
/// reveals early whether an op prevents compilation. The smaller sizes are for loops whose sequences have few rows.
pub(super) const TRIAL_SIZES: [usize; 3] = [8, 1, 0];

impl<B: Backend> Lowering<'_, B> {
    /// Returns the loop in a form that can be compiled at run time, once its sizes are known. Declines a loop whose
    /// traces may be too long, and a loop that the backend cannot compile.
    pub(crate) fn late_loop(&self, graph: &Graph, node: &Node, scan: &Scan) -> Result<LateLoop<B>, Declined> {
        let declined = |reason: &str| Declined::new("scan", reason);
        // By the time the loop is compiled, its number of steps is a known size, so the operand that holds the number
        // is not needed.
        let own = usize::from(scan.steps_operand);
        let scan = Scan { steps_operand: false, ..scan.clone() };
        let op = scan.clone().into();
        let sized = Node { op, inputs: node.inputs[own..].to_vec(), outputs: node.outputs.clone(), site: node.site };
        let used = used_results(&uses(graph), &sized);
        let mut loop_graph = isolate_node(graph, &sized, &used).map_err(|error| declined(&error.to_string()))?;
        if let Some(symbol) = &scan.until {
            let count = Size { dim: Dim::symbol(symbol), dtype: DType::I64 };
            let count =
                loop_graph.push_node(count.into(), &[], node.site).map_err(|error| declined(&error.to_string()))?;
            loop_graph.push_output("steps", count[0]);
        }
        let late = LateLoop { late: LateGraph::new(loop_graph, self.settings.memory_budget), scan, used };
        self.try_sizes(&late.late, |own, unknown, size, reason| {
            let sizes = trial_sizes(&late, own, unknown, size)?;
            // An op of the body that prevents compilation prevents it for all sizes, although a plan without steps lacks
            // this op.
            let is_in_body = reason.is_some_and(|declined| declined.op != "scan");
            Ok((!is_in_body || late.scan.steps.value(&sizes) != Ok(0)).then_some(sizes))
        })?;
        Ok(late)
    }

    /// Returns a while loop in a form that can be compiled at run time, once its sizes are known. Declines a loop that
    /// the backend cannot compile.
    pub(crate) fn late_while(&self, graph: &Graph, node: &Node) -> Result<LateWhile<B>, Declined> {
        let used = used_results(&uses(graph), node);
        let loop_graph = isolate_node(graph, node, &used)
            .map_err(|error| Declined::new(node.op.name(), format!("alone: {error}")))?;
        let late = LateWhile { late: LateGraph::new(loop_graph, self.settings.memory_budget), used };
        self.try_sizes(&late.late, |own, unknown, size, _| {
            let mut sizes = own.clone();
            unknown.iter().for_each(|symbol| sizes.set(symbol, size));
            Ok(Some(sizes))
        })?;
        Ok(late)
    }

    /// Compiles a graph for trial sizes, until a trial succeeds. Returns the reason of the first trial if all fail.
    /// `sizes` receives the graph's known sizes, its unknown symbols, the size to try for these, and the reason so far. It
    /// returns the sizes for the trial, or `None` to skip it.
    fn try_sizes(
        &self,
        late: &LateGraph<B>,
        sizes: impl Fn(&Sizes, &[Symbol], usize, Option<&Declined>) -> Result<Option<Sizes>, Declined>,
    ) -> Result<(), Declined> {
        let (own, unknown) = late.own_sizes(&self.sizes);
        let mut reason: Option<Declined> = None;
        for size in TRIAL_SIZES {
            let Some(sizes) = sizes(&own, &unknown, size, reason.as_ref())? else { continue };
            // Symbols may depend on each other, so that no trial has possible sizes.
            if !unknown.is_empty() && late.check_sizes(&sizes).is_err() {
                continue;
            }
            match late.try_compile(self.settings.backend, sizes, unknown.is_empty()) {
                Ok(()) => return Ok(()),
                Err(declined) => reason = reason.or(Some(declined)),
            }
            if unknown.is_empty() {
                break;
            }
        }
        reason.map_or(Ok(()), Err)
    }
}

/// Returns the known sizes `own` of a loop, with `size` for each unknown symbol, and with the maximum number of steps
/// for a loop with early exit. Declines a loop with early exit whose traces may be too long.
fn trial_sizes<B: Backend>(
    late: &LateLoop<B>,
    own: &Sizes,
    unknown: &[Symbol],
    size: usize,
) -> Result<Sizes, Declined> {
    let declined = |reason: &str| Declined::new("scan", reason);
    let mut sizes = own.clone();
    unknown.iter().for_each(|symbol| sizes.set(symbol, size));
    if let (Some(symbol), Ok(most)) = (&late.scan.until, late.scan.steps.value(&sizes)) {
        // Treat a negative number of steps as 0 here. The loop rejects such a number at run time.
        let most =
            usize::try_from(most.max(0)).map_err(|_| declined("it may run more steps than memory can hold rows"))?;
        if most > MAX_TRACE_ROWS && late.has_traces() {
            return Err(declined("it ends early, and its traces may be long"));
        }
        sizes.set(symbol, most);
    }
    Ok(sizes)
}
