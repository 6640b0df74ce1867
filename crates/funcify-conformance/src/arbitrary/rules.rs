//! Adds calls to random functions with custom derivative rules (`custom_vjp`, `custom_jvp`) to a random program.
//!
//! In most programs, the rules compute the true derivatives, by differentiating the graphs of their functions, so all
//! properties of derivatives hold. In some programs, the rules compute something else, and may even be nonlinear. These
//! programs show whether and how often the rules are applied.

use funcify::prelude::*;
use funcify::{Disconnected, Shape, custom_jvp, custom_vjp, vjp_with};

use super::program_builder::{Entry, MAX_FLOAT, ProgramBuilder};

/// The kind of custom derivative rules in a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rules {
    /// The rules compute the true derivatives.
    Derivatives,
    /// The rules are linear but wrong: forward and reverse mode agree with each other, but not with finite differences.
    Linear,
    /// Some rules are nonlinear. Forward mode rejects them.
    Any,
}

impl Rules {
    /// Returns [`Rules::Derivatives`] for the numbers 0 to 5, [`Rules::Linear`] for 6, and [`Rules::Any`] for 7.
    pub(super) fn from_choice(number: usize) -> Self {
        [Rules::Derivatives, Rules::Linear, Rules::Any][number.saturating_sub(5).min(2)]
    }
}

/// Adds a call to a function with a custom derivative rule.
pub(super) fn function(builder: &mut ProgramBuilder<'_>) {
    match builder.choices.below(3) {
        2 if builder.rules == Rules::Any && !builder.is_linear => nonlinear_vjp_part(builder),
        2 => custom_jvp_part(builder),
        _ => custom_vjp_part(builder),
    }
}

/// Adds an identity function with a nonlinear rule. The rule clamps the cotangent, or adds a multiple of the
/// cotangent's square and applies `tanh`.
fn nonlinear_vjp_part(builder: &mut ProgramBuilder<'_>) {
    builder.count("custom_vjp that is not linear");
    let x = builder.float();
    let limit = builder.choices.pick(&[0.5, 0.1, 2.0]);
    let value = match builder.choices.below(2) {
        0 => custom_vjp(x.value, |x| x, |x| (x, ()), |(), ct| ct.clamp(-limit, limit)),
        _ => custom_vjp(x.value, |x| x, |x| (x, x), |x, ct| (ct + ct * ct * limit * x).tanh()),
    };
    builder.add(value, x.bound);
}

/// Returns `true` if every dimension of a type is a constant or a single symbol, such as `T` but not `T+1`. An argument
/// of this type then determines the symbols.
fn determines_its_symbols(ty: &TensorType) -> bool {
    ty.shape.dims().iter().all(|dim| dim.constant().is_some() || dim.as_symbol().is_some())
}

/// Builds a random function of a few floats as a separate graph. Returns the graph, the arguments, and bounds on the
/// magnitudes of the results, or `None` if the graph is rejected.
fn random_function(builder: &mut ProgramBuilder<'_>) -> Option<(Graph, Vec<Value>, Vec<f64>)> {
    let mut arguments: Vec<Entry> = Vec::new();
    for _ in 0..1 + builder.choices.below(2) {
        arguments.extend(builder.float_of_rank(0).filter(|entry| determines_its_symbols(&entry.value.ty())));
    }
    // The function's ops may use the symbols T and N, so one argument binds both.
    arguments.push(builder.float_of_shape(&Shape::from([Dim::from("T"), Dim::from("N")])));
    let outside = std::mem::take(&mut builder.scope);
    let is_separate_graph = std::mem::replace(&mut builder.is_separate_graph, true);
    let is_linear = std::mem::replace(&mut builder.is_linear, true);
    let declared: Vec<_> = arguments.iter().map(|entry| (entry.value.ty(), entry.bound)).collect();
    let mut bounds = Vec::new();
    let graph = Graph::build("function", |g| {
        let inputs = declared.into_iter().enumerate();
        let inputs: Vec<Entry> = inputs
            .map(|(index, (ty, bound))| ProgramBuilder::entry(g.input(&format!("a{index}"), ty), bound))
            .collect();
        builder.build_body(inputs.clone(), |builder| {
            // The first result depends on every argument.
            let mut shares = builder.number();
            for input in &inputs {
                shares = ProgramBuilder::entry(shares.value + input.value.sin().sum(..), shares.bound + 3.0);
            }
            let (sum, bound) = builder.limit_magnitude(shares.value, shares.bound, MAX_FLOAT);
            let mut results = vec![ProgramBuilder::entry(sum, bound)];
            if builder.choices.one_in(2) {
                results.extend(builder.float_of_rank(1));
            }
            if builder.choices.one_in(4) {
                results.push(ProgramBuilder::entry(builder.integer(), 9.0));
            }
            bounds = results.iter().map(|entry| entry.bound).collect();
            results.iter().map(|entry| entry.value).collect::<Vec<_>>()
        })
    });
    builder.scope = outside;
    (builder.is_separate_graph, builder.is_linear) = (is_separate_graph, is_linear);
    match graph {
        Ok(graph) => Some((graph, arguments.iter().map(|entry| entry.value).collect(), bounds)),
        Err(error) => {
            builder.error = Some(error);
            None
        }
    }
}

/// Returns a function that scales a derivative. If the rules may be wrong, the factor may differ from 1 and may depend
/// on the result of the differentiated function.
fn factor(builder: &mut ProgramBuilder<'_>) -> impl Fn(Value, Value) -> Value + use<> {
    let (by, of_value) = match builder.rules {
        Rules::Derivatives => (1.0, 0.0),
        _ => (builder.choices.pick(&[2.0, 0.5, -1.0, 1.0]), builder.choices.pick(&[0.0, 0.5, -0.3])),
    };
    move |derivative: Value, result: Value| match (derivative.dtype() == DType::F64, by, of_value) {
        (false, ..) | (true, 1.0, 0.0) => derivative,
        _ => derivative * (result.tanh() * of_value + by),
    }
}

fn custom_vjp_part(builder: &mut ProgramBuilder<'_>) {
    let Some((graph, xs, bounds)) = random_function(builder) else { return };
    let is_recursive = builder.choices.one_in(3);
    builder.count(match (builder.rules, is_recursive) {
        (Rules::Derivatives, false) => "custom_vjp",
        (Rules::Derivatives, true) => "custom_vjp that calls itself",
        (_, false) => "custom_vjp that is no derivative",
        (_, true) => "custom_vjp that calls itself and is no derivative",
    });
    let factor = factor(builder);
    let ys = call_with_vjp_rule(&graph, xs, &factor, is_recursive);
    ys.into_iter().zip(bounds).for_each(|(y, bound)| builder.add(y, bound));
}

/// Calls the function that `graph` computes, with a custom derivative rule. The rule's `forward` evaluates the graph
/// or, if `is_recursive` is set, calls the function with the same rule.
fn call_with_vjp_rule(
    graph: &Graph,
    xs: Vec<Value>,
    factor: &impl Fn(Value, Value) -> Value,
    is_recursive: bool,
) -> Vec<Value> {
    let f = |xs: Vec<Value>| graph.apply(&xs);
    let forward = |xs: Vec<Value>| {
        let ys = if is_recursive { call_with_vjp_rule(graph, xs.clone(), factor, true) } else { f(xs.clone()) };
        (ys.clone(), (xs, ys))
    };
    let backward = |(xs, ys): (Vec<Value>, Vec<Value>), cts: Vec<Value>| {
        let cts: Vec<Value> = cts.into_iter().zip(ys).map(|(ct, y)| factor(ct, y)).collect();
        let zeros = GradOptions::new().disconnected(Disconnected::Zeros);
        vjp_with(zeros, xs, f, |_| cts).1
    };
    custom_vjp(xs, f, forward, backward)
}

fn custom_jvp_part(builder: &mut ProgramBuilder<'_>) {
    let Some((graph, xs, bounds)) = random_function(builder) else { return };
    builder.count(if builder.rules == Rules::Derivatives { "custom_jvp" } else { "custom_jvp that is no derivative" });
    let factor = factor(builder);
    let f = |xs: Vec<Value>| graph.apply(&xs);
    let tangent = |xs: Vec<Value>, ys: Vec<Value>, tangents: Vec<Value>| {
        let pushed = jvp(xs, tangents, f).1;
        pushed.into_iter().zip(ys).map(|(tangent, y)| factor(tangent, y)).collect::<Vec<Value>>()
    };
    let ys = custom_jvp(xs, f, tangent);
    ys.into_iter().zip(bounds).for_each(|(y, bound)| builder.add(y, bound));
}
