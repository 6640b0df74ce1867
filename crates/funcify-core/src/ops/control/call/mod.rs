//! The call of a function with a user-defined derivative rule, like JAX's `custom_vjp` and `custom_jvp`.
//!
//! - **call-c1** the function takes the arguments and its captured values, and returns the results.
//! - **call-c2** `forward` takes the arguments and its captured values. It returns results with the types of the
//!   function's results, followed by residuals. `backward` takes the residuals, a cotangent for each float result, and
//!   its captured values. It returns a cotangent for each float argument, of exactly the argument's type.
//! - **call-c3** `tangent` takes the arguments, the results, a tangent for each float argument, and its captured
//!   values. It returns a tangent for each float result, of exactly the result's type.
//! - **call-c4** derivatives with respect to values that the function, `forward` or `tangent` captures are rejected,
//!   rather than returned as zeros, because the rule does not define them.
//! - **call-c5** `backward` is linear in the cotangents if forward mode uses it, and `tangent` is linear in the
//!   tangents if reverse mode uses it. A mode that requires a linear rule rejects a rule that is not linear.
//! - **call-c6** no result or residual has a size that is bound in the graph that computes it, such as the number of
//!   steps of a loop with an early exit.
//! - **call-c7** in the graphs of a rule, `itself` calls the function with the same rule. For example, `forward` can
//!   compute the function's results with `itself`, so that the rule also defines second derivatives. The arguments and
//!   results of `itself` have the function's types. If a rule uses `itself`, neither the function nor the rule captures
//!   any values.
//!
//! Operands, in order: the arguments, the values that the function captures, and the values that each graph of the rule
//! captures. A value that two graphs capture appears twice among the operands. Results: the results of the function.
//!
//! The reference evaluator runs the function. No backend has a lowering rule for the op: `Graph::without_rules`
//! inlines the function's nodes before a program is built.

mod batch;
mod bodied;
mod grad;
mod rules;
mod text;

use super::*;

use crate::ops::OpText;

/// The call of a function that has a user-defined derivative rule.
#[derive(Clone, Debug)]
pub struct Call {
    /// The graph of the function.
    pub function: Arc<Graph>,
    /// The derivative rule of the function.
    pub rule: Rule,
    /// The number of arguments. The remaining operands are the captured values.
    pub arguments: usize,
}

/// A user-defined derivative rule.
#[derive(Clone, Debug)]
pub enum Rule {
    /// A reverse-mode rule (call-c2).
    Vjp {
        /// The graph that computes the results of the function, and the residuals.
        forward: Arc<Graph>,
        /// The graph that computes the cotangents of the arguments from the residuals and the cotangents of the
        /// results.
        backward: Arc<Graph>,
    },
    /// A forward-mode rule (call-c3).
    Jvp {
        /// The graph that computes the tangents of the results from the arguments, the results, and the tangents of the
        /// arguments.
        tangent: Arc<Graph>,
    },
    /// The innermost rule that contains this call. The call is then a use of `itself` (call-c7).
    Itself,
}

impl Rule {
    /// Returns a copy of the rule, with each graph replaced by the result of calling `graph` on it.
    fn map(&self, mut graph: impl FnMut(&Arc<Graph>) -> Arc<Graph>) -> Rule {
        match self {
            Rule::Vjp { forward, backward } => Rule::Vjp { forward: graph(forward), backward: graph(backward) },
            Rule::Jvp { tangent } => Rule::Jvp { tangent: graph(tangent) },
            Rule::Itself => Rule::Itself,
        }
    }
}

/// A graph of a call: the function, or a graph of its rule.
pub(crate) struct CallBody<'a> {
    /// The graph's name in the text form and in errors.
    pub(crate) name: &'static str,
    pub(crate) graph: &'a Arc<Graph>,
    /// The number of parameters, not counting the captured values that follow them.
    pub(crate) params: usize,
    /// The indices of the operands that the graph captures.
    pub(crate) captured: Range<usize>,
}

impl Call {
    /// Returns the graphs of the call: the function, followed by the graphs of the rule.
    pub(crate) fn parts(&self) -> Vec<CallBody<'_>> {
        let (results, floats) = (self.function.outputs().len(), self.float_results().len());
        let of_rule: Vec<(&'static str, &Arc<Graph>, usize)> = match &self.rule {
            Rule::Vjp { forward, backward } => {
                let residuals = forward.outputs().len().saturating_sub(results);
                vec![("forward", forward, self.arguments), ("backward", backward, residuals + floats)]
            }
            Rule::Jvp { tangent } => {
                vec![("tangent", tangent, self.arguments + results + self.float_arguments().len())]
            }
            Rule::Itself => Vec::new(),
        };
        let mut next = self.arguments;
        let body = |(name, graph, params): (&'static str, _, usize)| {
            let graph: &Arc<Graph> = graph;
            let start = next;
            next += graph.inputs().len().saturating_sub(params);
            CallBody { name, graph, params, captured: start..next }
        };
        std::iter::once(("function", &self.function, self.arguments)).chain(of_rule).map(body).collect()
    }

    /// Returns a copy of the call with its graphs replaced by `graphs`, which are in the order of
    /// [`parts`](Call::parts).
    pub(crate) fn with_graphs(&self, graphs: Vec<Arc<Graph>>) -> Call {
        let mut graphs = graphs.into_iter();
        let mut next = |old: &Arc<Graph>| graphs.next().unwrap_or_else(|| old.clone());
        Call { function: next(&self.function), rule: self.rule.map(next), arguments: self.arguments }
    }

    /// Returns the rule, with this call substituted for `itself`.
    pub(crate) fn unfolded_rule(&self) -> Rule {
        self.rule.map(|graph| graph.substitute_itself(self).map_or_else(|| graph.clone(), Arc::new))
    }

    /// Returns `true` if the rule is [`Rule::Itself`] or uses `itself`.
    pub(crate) fn is_recursive(&self) -> bool {
        let says = |part: &CallBody<'_>| part.name != "function" && !part.graph.calls_of_itself().is_empty();
        matches!(self.rule, Rule::Itself) || self.parts().iter().any(says)
    }

    /// Returns the indices of the float arguments. Only these have tangents and cotangents.
    pub(crate) fn float_arguments(&self) -> Vec<usize> {
        let count = self.arguments.min(self.function.inputs().len());
        (0..count).filter(|index| self.function.input_type(*index).dtype.is_float()).collect()
    }

    /// Returns the indices of the float results. Only these have tangents and cotangents.
    pub(crate) fn float_results(&self) -> Vec<usize> {
        let count = self.function.outputs().len();
        (0..count).filter(|index| self.function.output_type(*index).dtype.is_float()).collect()
    }

    /// Returns the number of operands.
    fn operands(&self) -> usize {
        self.parts().last().map_or(self.arguments, |part| part.captured.end)
    }

    /// Returns the number of operands, excluding the trailing operands that only `backward` captures.
    pub(crate) fn inputs(&self) -> usize {
        let parts = self.parts();
        parts.iter().rfind(|part| part.name != "backward").map_or(self.arguments, |part| part.captured.end)
    }
}

/// Keeps all operands and results of a call, because the parameters and results of the rule's graphs correspond to all
/// of them.
impl Prunable for Call {
    fn needed_operands(&self, _: &[bool], _: &mut [Need]) -> Vec<bool> {
        vec![true; self.operands()]
    }

    fn pruned_for(&self, results: &[bool], _: &[Need]) -> Option<PrunedOp> {
        let operands = (0..self.operands()).collect();
        Some(PrunedOp { op: self.clone().into(), operands, results: (0..results.len()).collect() })
    }
}

impl OpText for Call {
    fn text_name(&self) -> &'static str {
        match self.rule {
            Rule::Vjp { .. } | Rule::Itself => "custom_vjp",
            Rule::Jvp { .. } => "custom_jvp",
        }
    }

    fn text_attributes(&self) -> Attributes {
        Attributes::new()
    }
}

impl OpRules for Call {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let outputs = |graph: &Graph| output_types(graph).cloned().collect::<Vec<TensorType>>();
        check_itself(at, self, inputs.len())?;
        let results = outputs(&self.function);
        let mut residuals = Vec::new();
        if let Rule::Vjp { forward, .. } = &self.rule {
            residuals = outputs(forward);
            let rest = residuals.split_off(results.len().min(residuals.len()));
            check_results(at, "forward", "result", &results, &residuals)?;
            residuals = rest;
        }
        let parts = self.parts();
        let count = self.operands();
        if inputs.len() != count || self.function.inputs().len() < self.arguments {
            let captured = count.saturating_sub(self.arguments);
            let expected = format!("{count} operands: {} arguments, {captured} captured values", self.arguments);
            let fix = "pass the arguments, and the values that the function and its rule capture";
            return Err(at.mismatch("the operand list", expected, format!("{} operands", inputs.len()), fix));
        }
        let arguments = inputs[..self.arguments].to_vec();
        let pick = |types: &[TensorType], which: Vec<usize>| -> Vec<TensorType> {
            which.into_iter().map(|index| types[index].clone()).collect()
        };
        check_params(at, &parts[0], arguments.clone(), inputs)?;
        let of_arguments = pick(&arguments, self.float_arguments());
        let of_results = pick(&results, self.float_results());
        match &self.rule {
            // call-c2
            Rule::Vjp { backward, .. } => {
                check_params(at, &parts[1], arguments, inputs)?;
                check_params(at, &parts[2], [residuals, of_results].concat(), inputs)?;
                check_results(at, "backward", "cotangent", &of_arguments, &outputs(backward))?;
            }
            // call-c3
            Rule::Jvp { tangent } => {
                check_params(at, &parts[1], [arguments, results.clone(), of_arguments].concat(), inputs)?;
                check_results(at, "tangent", "tangent", &of_results, &outputs(tangent))?;
            }
            Rule::Itself => {}
        }
        parts.iter().try_for_each(|part| check_sizes(at, part.name, part.graph))?;
        Ok(results)
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        // The function's captured values follow the arguments directly.
        evaluate_in(&self.function, inputs[..self.function.inputs().len()].to_vec(), context.sizes)
    }

    rules_of_modules!(batch, grad, grad);
}

/// Checks the calls that a rule makes to its own function (call-c7).
fn check_itself(at: &Place, call: &Call, operands: usize) -> Result<()> {
    if !call.is_recursive() {
        return Ok(());
    }
    if operands > call.arguments {
        let found = format!("{} captured values", operands - call.arguments);
        let fix = "pass them as arguments, and give their derivatives in the rule";
        return Err(at.mismatch("a rule that calls its own function", "no captured values", found, fix));
    }
    let types = |graph: &Graph| input_types(graph).chain(output_types(graph)).cloned().collect::<Vec<TensorType>>();
    let rule = call.parts().into_iter().filter(|part| part.name != "function");
    let inner: Vec<Call> = rule.flat_map(|part| part.graph.calls_of_itself()).collect();
    if inner.iter().any(|inner| types(&inner.function) != types(&call.function)) {
        let fix = "call the function on values of the same types as outside of its rule";
        return Err(at.mismatch("a rule that calls its own function", "the function's types", "others", fix));
    }
    Ok(())
}

/// Checks that the parameter types of a graph are the types in `own`, followed by the types of its captured values.
fn check_params(at: &Place, part: &CallBody<'_>, own: Vec<TensorType>, inputs: &[TensorType]) -> Result<()> {
    let expected = [own.as_slice(), &inputs[part.captured.clone()]].concat();
    let (name, graph) = (part.name, part.graph);
    if graph.inputs().len() != expected.len() {
        let (expected, found) = (expected.len(), graph.inputs().len());
        let component = format!("the parameter list of `{name}`");
        let fix = "give it the parameters of the rule, then the captured values";
        return Err(at.mismatch(component, format!("{expected} parameters"), format!("{found} parameters"), fix));
    }
    let component = |index| format!("parameter {index} of `{name}`");
    let fix = "give the parameter the type of the value that is passed";
    check_types(at, &expected, input_types(graph), component, fix)
}

/// Checks that the graph named `of` (a derivative rule's `forward`, `backward` or `tangent`) returns results of the
/// expected types.
fn check_results(at: &Place, of: &str, what: &str, expected: &[TensorType], found: &[TensorType]) -> Result<()> {
    if expected.len() != found.len() {
        let component = format!("the list of {what}s of `{of}`");
        let (expected, found) = (format!("{} values", expected.len()), format!("{} values", found.len()));
        let fix = "return one for each float value, or for each result";
        return Err(at.mismatch(component, expected, found, fix));
    }
    let fix = "make the types equal, by a cast, a reshape or a broadcast";
    check_types(at, expected, found, |index| format!("{what} {index} of `{of}`"), fix)
}

/// Checks call-c6 and bind-c1: no result of a body has a size that is bound in the body.
pub(crate) fn check_sizes(at: &Place, name: &str, graph: &Graph) -> Result<()> {
    let bound: Vec<&Symbol> = graph.nodes().iter().flat_map(|node| node.op.binds()).collect();
    for (index, output) in graph.outputs().iter().enumerate() {
        let ty = graph.ty(output.value);
        let mut symbols = ty.shape.dims().iter().flat_map(Dim::symbols);
        if let Some(symbol) = symbols.find(|symbol| bound.contains(symbol)) {
            let found = format!("{ty}, where `{name}` itself binds `{symbol}`");
            let fix = "reduce it, or write it into rows of a known size";
            let expected = "sizes that are known before it runs";
            return Err(at.mismatch(format!("result {index} of `{name}`"), expected, found, fix));
        }
    }
    Ok(())
}
