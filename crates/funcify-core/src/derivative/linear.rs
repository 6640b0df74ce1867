//! Transposes programs that are linear in some of their inputs.
//!
//! Applying reverse mode to a linear program yields its transpose, which does not depend on the values of the linear
//! inputs. While the transpose is traced, placeholder parameters therefore stand for these inputs. If a node of the
//! finished transpose uses a placeholder, the derivative depends on the value of that input, and the program is not
//! linear.

use super::*;

/// The transpose of a graph with respect to some of its inputs, called the linear inputs.
pub(super) struct Transpose {
    /// The transposed graph. Its inputs are the `params` of [`Transpose::of`], followed by the values that it captures
    /// from the enclosing graph (`captures`).
    pub(super) graph: Graph,
    pub(super) captures: Vec<Value>,
    /// For each linear input, `true` if it receives a cotangent. The outputs of `graph` are these cotangents.
    pub(super) passes: Vec<bool>,
}

impl Transpose {
    /// Transposes `graph` with respect to the inputs that are `None` in `inputs`. `params` are the names and types of
    /// the parameters of the transpose. `cotangents` receives the values of these parameters and returns the cotangents
    /// of the outputs of `graph`. Returns `None` if the derivative shows that the graph is not linear in these inputs.
    /// Does not detect discontinuities, such as the jump of `sign`.
    pub(super) fn of(
        graph: &Graph,
        inputs: &[Option<Value>],
        params: &[(String, TensorType)],
        vjp_options: &VjpOptions,
        cotangents: impl FnOnce(&[Value]) -> Vec<Option<Value>>,
    ) -> Result<Option<Transpose>, Failed> {
        let linear: Vec<usize> = (0..inputs.len()).filter(|index| inputs[*index].is_none()).collect();
        let absent = |index: &usize| (graph.input_name(*index).to_string(), graph.input_type(*index).clone());
        let all: Vec<(String, TensorType)> = params.iter().cloned().chain(linear.iter().map(absent)).collect();
        let mut passes = vec![false; linear.len()];
        let mut is_linear = true;
        let closed = trace_body("transpose", "", &all, |values| {
            let (params, absent) = values.split_at(params.len());
            let mut absent = absent.iter().copied();
            let wrt: Vec<bool> = inputs.iter().map(Option::is_none).collect();
            let inputs: Vec<Value> = inputs.iter().filter_map(|input| input.or_else(|| absent.next())).collect();
            let given = cotangents(params);
            let pulled = Tape::record(graph, &inputs, &wrt, vjp_options)?.pull(&given)?;
            let needed = graph.needed_inputs(&given.iter().map(Option::is_some).collect::<Vec<bool>>());
            let mut outputs = Vec::new();
            for (passes, index) in passes.iter_mut().zip(&linear) {
                *passes = pulled[*index].is_some();
                is_linear &= *passes || !needed[*index];
                outputs.extend(pulled[*index].map(|value| (format!("ct_{}", graph.input_name(*index)), value)));
            }
            Ok(outputs)
        })?;
        let graph = closed.graph.pruned_without(params.len()..all.len()).filter(|_| is_linear);
        Ok(graph.map(|graph| Transpose { graph, captures: closed.captures, passes }))
    }
}

/// Adds the transpose of `graph`, with respect to the inputs that are `None` in `inputs`, to the open graph. Returns
/// the cotangents of these inputs, computed from the `cotangents` of the outputs; the entry of an input that receives
/// no cotangent is `None`. Returns `None` if the graph is not linear in these inputs.
pub(crate) fn emit_transpose(
    graph: &Graph,
    inputs: &[Option<Value>],
    cotangents: &[Option<Value>],
    vjp_options: &VjpOptions,
) -> Result<Option<Cotangents>, Failed> {
    let transpose = Transpose::of(graph, inputs, &[], vjp_options, |_| cotangents.to_vec())?;
    let Some(Transpose { graph, captures, passes }) = transpose else { return Ok(None) };
    Ok(Some(place_marked(&passes, inline(&graph, &captures)?)))
}
