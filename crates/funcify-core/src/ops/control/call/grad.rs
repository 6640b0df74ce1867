//! The derivatives of the call, computed by its rule.
//!
//! A rule for one mode also serves the other mode: the rule is transposed by differentiating it in reverse mode. The
//! rule must therefore be linear in the tangents or cotangents that it receives (call-c5). JAX also transposes a
//! `custom_jvp`, but rejects a `custom_vjp` in forward mode.
//!
//! The ops of the rule become ordinary nodes of the program, and second derivatives are computed by differentiating
//! these nodes. If the rule calls its own function, that call is one of these nodes.

use super::*;
use crate::derivative::{emit_transpose, no_derivative, no_record, primals};
use crate::graph::inline;

impl Call {
    /// Adds the call to a forward pass. If the call has a reverse-mode rule, inlines `forward` in place of the call,
    /// and saves the residuals that `forward` returns.
    pub(in crate::ops) fn forward_pass(&self, operands: &[Value]) -> Result<Forward, Failed> {
        let Rule::Vjp { forward, .. } = self.unfolded_rule() else {
            return Ok(Forward::of(emit(self.clone(), operands)?));
        };
        let inputs = [&operands[..self.arguments], &operands[self.parts()[1].captured.clone()]].concat();
        let mut results = inline(&forward, &inputs)?;
        let residuals = results.split_off(self.function.outputs().len());
        Ok(Forward { results, record: Record::Residuals(residuals) })
    }
}

/// Returns the residuals of `forward` that `record` holds, or an error if `record` holds none.
fn residuals(record: &Record) -> Result<&[Value], Failed> {
    if let Record::Residuals(residuals) = record { Ok(residuals) } else { Err(no_record("custom_vjp")) }
}

pub(super) fn vjp(call: &Call, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
    check_captures(call, context.operands, |operand| context.wrt[operand])?;
    let parts = call.parts();
    let captured = |part: usize| &context.operands[parts[part].captured.clone()];
    let given: Vec<Option<Value>> = call.float_results().into_iter().map(|index| cotangents[index]).collect();
    let of_arguments: Vec<Option<Value>> = match &call.unfolded_rule() {
        Rule::Vjp { backward, .. } => {
            let results = call.float_results().into_iter().map(|index| context.results[index]);
            let given = given.iter().zip(results).map(|(given, result)| given.unwrap_or_else(|| result.zeros_like()));
            let inputs = [residuals(context.record)?, &given.collect::<Vec<_>>(), captured(2)].concat();
            inline(backward, &inputs)?.into_iter().map(Some).collect()
        }
        Rule::Jvp { tangent } => {
            let known = [&context.operands[..call.arguments], context.results].concat();
            let linear = call.float_arguments().into_iter().map(|_| None);
            let inputs = known.into_iter().map(Some).chain(linear).chain(captured(1).iter().copied().map(Some));
            let inputs: Vec<Option<Value>> = inputs.collect();
            let transposed = emit_transpose(tangent, &inputs, &given, context.vjp_options)?;
            transposed.ok_or_else(|| not_linear(call, context.operands, "`tangent`", "reverse", "tangents"))?
        }
        Rule::Itself => return Err(without_rule(context.operands)),
    };
    let mut all = context.no_cotangents();
    for (index, cotangent) in call.float_arguments().into_iter().zip(of_arguments) {
        all[index] = cotangent;
    }
    Ok(all)
}

pub(super) fn jvp(call: &Call, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let values = primals(operands);
    check_captures(call, &values, |operand| operands[operand].tangent.is_some())?;
    let arguments = &operands[..call.arguments];
    let floats = call.float_arguments();
    if arguments.iter().all(|argument| argument.tangent.is_none()) {
        return Ok(emit(call.clone(), &values)?.into_iter().map(Dual::constant).collect());
    }
    let Forward { results, record } = call.forward_pass(&values)?;
    let parts = call.parts();
    let captured = |part: usize| &values[parts[part].captured.clone()];
    let of_results: Vec<Option<Value>> = match &call.unfolded_rule() {
        Rule::Vjp { backward, .. } => {
            let linear = call.float_results().into_iter().map(|_| None);
            let residuals = residuals(&record)?.iter().copied().map(Some);
            let inputs = residuals.chain(linear).chain(captured(2).iter().copied().map(Some));
            let tangents: Vec<Option<Value>> = floats.iter().map(|index| arguments[*index].tangent).collect();
            let inputs: Vec<Option<Value>> = inputs.collect();
            let transposed = emit_transpose(backward, &inputs, &tangents, &VjpOptions::default())?;
            transposed.ok_or_else(|| not_linear(call, &values, "`backward`", "forward", "cotangents"))?
        }
        Rule::Jvp { tangent } => {
            let tangents: Vec<Value> = floats.iter().map(|index| arguments[*index].tangent_or_zeros()).collect();
            let inputs = [&values[..call.arguments], &results, &tangents, captured(1)].concat();
            inline(tangent, &inputs)?.into_iter().map(Some).collect()
        }
        Rule::Itself => return Err(without_rule(&values)),
    };
    let mut all: Vec<Dual> = results.into_iter().map(Dual::constant).collect();
    for (index, tangent) in call.float_results().into_iter().zip(of_results) {
        all[index].tangent = tangent;
    }
    Ok(all)
}

/// Rejects derivatives with respect to captured values (call-c4). Values captured only by `backward` are exempt: they
/// are not inputs of the function, so they affect only second derivatives.
fn check_captures(call: &Call, operands: &[Value], is_differentiated: impl Fn(usize) -> bool) -> Result<(), Failed> {
    for part in call.parts().iter().filter(|part| part.name != "backward") {
        for (number, operand) in part.captured.clone().enumerate() {
            if is_differentiated(operand) {
                let name = part.graph.input_name(part.params + number);
                let component = format!("captured value `{name}` of `{}`", part.name);
                let reason = "a rule says how to differentiate with respect to the arguments only";
                let fix = "pass the value as an argument and give its derivative in the rule, or capture it with \
                           `stop_gradient()` if it has none";
                return Err(no_derivative(call.name(), &operands[operand..=operand], &component, reason, fix));
            }
        }
    }
    Ok(())
}

/// Returns the error for a violation of call-c7: a use of `itself` outside a rule.
fn without_rule(operands: &[Value]) -> Failed {
    let fix = "replace it by the function with its rule";
    no_derivative("custom_vjp", operands, "`itself`", "it is not inside a rule, so it refers to no function", fix)
}

/// Returns the error for a violation of call-c5: a rule that is not linear.
fn not_linear(call: &Call, operands: &[Value], graph: &str, mode: &str, what: &str) -> Failed {
    let reason =
        format!("{mode} mode transposes {graph}, which is not linear in the {what}: its derivative depends on them");
    let (other, door) = if mode == "forward" { ("reverse", "custom_jvp") } else { ("forward", "custom_vjp") };
    let fix = format!("differentiate in {other} mode, or give the function a rule for {mode} mode with `{door}`");
    no_derivative(call.name(), &operands[..call.arguments.min(operands.len())], "the function", &reason, &fix)
}
