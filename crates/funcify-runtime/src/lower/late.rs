//! Checks which loops can be compiled at run time.

use funcify_core::ops::Size;

use super::whole::{isolate_node, used_results};
use super::*;
use crate::cache::Cache;
use crate::run::late::{Cached, LateLoop, MOST_ROWS};

/// The number of sizes for which plans are cached.
const CACHED: usize = 64;

/// The size given to all symbols in a trial plan, which shows whether an op prevents compilation.
const TRIED: usize = 8;

impl<B: Backend> Lowering<'_, B> {
    /// Returns a loop with data-dependent sizes, if it can be compiled once they are known. Loops whose body binds
    /// sizes are declined, because those differ between steps.
    pub(crate) fn late_loop(&self, graph: &Graph, node: &Node, scan: &Scan) -> Result<LateLoop<B>, Declined> {
        let declined = |reason: &str| Declined::new("scan", reason);
        if scan.body.binds_any() {
            return Err(declined("one of its sizes depends on data"));
        }
        // The number of steps is a known size when the loop is compiled.
        let own = usize::from(scan.steps_operand);
        let scan = Scan { steps_operand: false, ..scan.clone() };
        let op = scan.clone().into();
        let sized = Node { op, inputs: node.inputs[own..].to_vec(), outputs: node.outputs.clone(), site: node.site };
        let used = used_results(&uses(graph), &sized);
        let mut alone = isolate_node(graph, &sized, &used).map_err(|error| declined(&error.to_string()))?;
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
            // A negative count is rejected when the loop runs.
            let most = usize::try_from(most.max(0))
                .map_err(|_| declined("it may run more steps than memory can hold rows"))?;
            if most > MOST_ROWS && late.has_traces() {
                return Err(declined("it ends early, and its traces may be long"));
            }
            sizes.set(symbol, most);
        }
        let plan = Some(late.compile_late(self.settings.backend, &sizes)?);
        if are_known {
            late.cached.add(Cached { sizes, plan });
        }
        Ok(late)
    }
}
