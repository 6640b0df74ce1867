//! The forward sweep: adds a graph to the open graph together with the tangents of its values.

use super::*;

/// Adds the live nodes of `graph`, and the tangents of their results, to the open graph. Returns the outputs with their
/// tangents.
pub(crate) fn jvp(graph: &Graph, inputs: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let graph = &*graph.with_free_symbols();
    let replayed = Replay::new(graph, inputs.iter().copied()).walk_live(|_, node, operands| {
        let results = at_site(node.site, || jvp_node(&node.op, &operands))?;
        keep_names(graph, node, results.iter().map(|result| result.primal));
        Ok::<_, Failed>(results)
    })?;
    Ok(replayed.outputs()?)
}

/// Applies the forward rule of an op, or only adds the op if no operand has a tangent. Fails if an operand or a result
/// has failed.
fn jvp_node(op: &Op, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    check(op.name(), Site::Unknown, values(operands))?;
    if operands.iter().all(|operand| operand.tangent.is_none()) {
        return Ok(emit(op.clone(), &primals(operands))?.into_iter().map(Dual::constant).collect());
    }
    let results = op.jvp(operands)?;
    check(op.name(), Site::Unknown, values(&results))?;
    Ok(results)
}

/// Iterates over the values, each followed by its tangent if it has one.
fn values(duals: &[Dual]) -> impl Iterator<Item = Value> {
    duals.iter().flat_map(|dual| [Some(dual.primal), dual.tangent]).flatten()
}
