//! The batching rule of the call. The rule batches each graph of the call, so the batched function keeps a derivative
//! rule.
//!
//! A result has lanes if the function or the rule returns it with lanes. An argument without lanes has a single
//! cotangent: the sum of the cotangents of all lanes. `backward` must run for each lane before the lanes' cotangents
//! are summed. All float results therefore have lanes if any cotangent that `backward` returns has lanes. If a rule
//! calls its own function, all operands and results have lanes, because the inner call must have the same types as the
//! outer one.

use super::*;

use crate::vmap::inline;

pub(super) fn batch(call: &Call, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let is_recursive = call.is_recursive();
    let spread: Vec<Batched> = match is_recursive {
        true => operands.iter().map(|operand| Batched::mapped(operand.materialized(size))).collect(),
        false => operands.to_vec(),
    };
    let operands = spread.as_slice();
    let has_lanes: Vec<bool> = operands.iter().map(|operand| operand.mapped).collect();
    let guess = call.reached(ReachKind::Lanes, &has_lanes, &mut [Reach::of(&call.function)]);
    let guess = guess.into_iter().map(|reached| reached || is_recursive).collect::<Vec<bool>>();
    let guess = Guess::new(vec![is_recursive; guess.len()], guess);
    let (results, bodies) = guess.confirm(|results, found| {
        let mut lanes = Lanes { call, size, operands, found: found.to_vec(), results: results.to_vec() };
        let bodies = lanes.bodies()?;
        found.copy_from_slice(&lanes.found);
        Ok(bodies)
    })?;
    let values = operands[..call.arguments].iter().map(|operand| operand.value);
    let captures = bodies.iter().flat_map(|body| body.captures.clone());
    let values: Vec<Value> = values.chain(captures).collect();
    let graphs = bodies.into_iter().map(|body| Arc::new(body.graph)).collect();
    let values = emit(call.with_graphs(graphs), &values)?.into_iter();
    Ok(values.zip(results).map(|(value, mapped)| Batched { value, mapped }).collect())
}

struct Lanes<'a> {
    call: &'a Call,
    size: &'a Dim,
    operands: &'a [Batched],
    /// Marks the results that get lanes.
    results: Vec<bool>,
    /// Marks the results that tracing found to need lanes.
    found: Vec<bool>,
}

impl Lanes<'_> {
    /// Traces the batched graphs of the call: the function, followed by the graphs of the rule.
    fn bodies(&mut self) -> Result<Vec<ClosedBody>, Failed> {
        let call = self.call;
        let parts = call.parts();
        let arguments: Vec<bool> = self.operands[..call.arguments].iter().map(|operand| operand.mapped).collect();
        let results = self.results.clone();
        let function = self.trace(&parts[0], &arguments, |lanes, values| lanes.spread_results(values))?;
        let pick =
            |flags: &[bool], which: Vec<usize>| which.into_iter().map(|index| flags[index]).collect::<Vec<bool>>();
        let of_arguments = pick(&arguments, call.float_arguments());
        let of_results = pick(&results, call.float_results());
        match &call.rule {
            Rule::Vjp { .. } => {
                let mut residuals = Vec::new();
                let forward = self.trace(&parts[1], &arguments, |lanes, mut values| {
                    let rest = values.split_off(results.len());
                    residuals = rest.iter().map(|residual| residual.mapped).collect();
                    let rest = rest.into_iter().map(|residual| residual.value);
                    lanes.spread_results(values).into_iter().chain(rest).collect()
                })?;
                let params = [residuals, of_results].concat();
                let backward = self.trace(&parts[2], &params, |lanes, values| {
                    if values.iter().any(|cotangent| cotangent.mapped) {
                        call.float_results().into_iter().for_each(|index| lanes.found[index] = true);
                    }
                    let cotangents = values.into_iter().zip(of_arguments);
                    let fitted = |(cotangent, mapped): (Batched, bool)| match (cotangent.mapped, mapped) {
                        (true, false) => cotangent.value.sum(0),
                        _ => cotangent.materialized_if(mapped, lanes.size).value,
                    };
                    cotangents.map(fitted).collect()
                })?;
                Ok(vec![function, forward, backward])
            }
            Rule::Jvp { .. } => {
                let params = [arguments, results, of_arguments].concat();
                let tangent = self.trace(&parts[1], &params, |lanes, values| {
                    let tangents = values.into_iter().zip(call.float_results());
                    tangents.map(|(tangent, index)| lanes.spread_result(index, tangent)).collect()
                })?;
                Ok(vec![function, tangent])
            }
            Rule::Itself => Ok(vec![function]),
        }
    }

    /// Traces the batched form of a graph of the call. `mapped` marks the parameters that have lanes, and has no
    /// entries for captured values.
    fn trace(
        &mut self,
        part: &CallBody<'_>,
        mapped: &[bool],
        finish: impl FnOnce(&mut Self, Vec<Batched>) -> Vec<Value>,
    ) -> Result<ClosedBody, Failed> {
        let graph: &Graph = part.graph;
        trace_lanes(self.call.name(), graph, mapped, &[], self.size, |own| {
            let results = inline(graph, self.size, &[own, &self.operands[part.captured.clone()]].concat())?;
            Ok(graph.named_outputs(finish(self, results)))
        })
    }

    fn spread_results(&mut self, values: Vec<Batched>) -> Vec<Value> {
        values.into_iter().enumerate().map(|(index, value)| self.spread_result(index, value)).collect()
    }

    /// Returns `value`, broadcast to all lanes if the result at `index` gets lanes. Marks this result in `found` if
    /// `value` already has lanes.
    fn spread_result(&mut self, index: usize, value: Batched) -> Value {
        self.found[index] |= value.mapped;
        value.materialized_if(self.results[index], self.size).value
    }
}
