//! Inlines a graph into the open graph.

use super::tracer::keep_names;
use super::*;

/// Adds the live nodes of `graph` to the open graph, with `inputs` as the values of its inputs. Returns the outputs.
pub fn inline(graph: &Graph, inputs: &[Value]) -> Result<Vec<Value>, Failed> {
    let graph = &*graph.with_free_symbols();
    let replayed = Replay::new(graph, inputs.iter().copied()).walk_live(|_, node, operands| {
        let results = at_site(node.site, || emit(node.op.clone(), &operands))?;
        keep_names(graph, node, results.iter().copied());
        Ok::<_, Failed>(results)
    })?;
    Ok(replayed.outputs()?)
}
