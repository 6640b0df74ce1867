//! Determines which loops can be compiled at run time: loops with data-dependent sizes, once the sizes are known, and
//! loops with integer operands, once the values of these operands can be checked.

use funcify_core::ops::Size;

use super::whole::{isolate_node, used_results};
use super::*;
use crate::run::late::{LateGraph, LateLoop, MAX_TRACE_ROWS};

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
        let (own, unknown) = late.late.own_sizes(&self.sizes);
        let mut reason: Option<Declined> = None;
        for size in TRIAL_SIZES {
            let sizes = trial_sizes(&late, &own, &unknown, size)?;
            // An op of the body that prevents compilation prevents it for all sizes, although a plan without steps lacks
            // this op.
            let is_in_body = reason.as_ref().is_some_and(|declined| declined.op != "scan");
            if is_in_body && late.scan.steps.value(&sizes) == Ok(0) {
                continue;
            }
            // Symbols may depend on each other, so that no trial has possible sizes.
            if !unknown.is_empty() && late.late.check_sizes(&sizes).is_err() {
                continue;
            }
            match late.late.try_compile(self.settings.backend, sizes, unknown.is_empty()) {
                Ok(()) => return Ok(late),
                Err(declined) => reason = reason.or(Some(declined)),
            }
            if unknown.is_empty() {
                break;
            }
        }
        reason.map_or(Ok(late), Err)
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
