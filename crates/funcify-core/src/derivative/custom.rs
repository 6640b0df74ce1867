//! Functions with custom derivative rules: `custom_vjp` and `custom_jvp`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::build::trace_function;
use super::*;
use crate::graph::emit_at;
use crate::graph::rules::OpenRule;
use crate::graph::tracer::{self, depth};
use crate::ops::call::check_sizes;
use crate::ops::leaves::{check_names, check_type, listed};
use crate::ops::{Call, Rule};
use crate::tree;

/// The maximum number of open bodies while a rule is traced. A rule that exceeds this limit is assumed to recurse
/// infinitely.
const MAX_DEPTH: usize = 64;

/// The number of times that a rule is traced if it calls its own function. In the last trace, the recursive call
/// becomes `Rule::Itself`. The traces must be equal.
const COMPARED_RULES: usize = 2;

/// Applies `function` to `xs`, with a custom reverse rule instead of its derivative, like JAX's `custom_vjp`.
///
/// When the call is differentiated, `forward` runs instead of `function`, and returns the same results together with
/// residuals. `backward` receives the residuals and the cotangents of the results, and returns the cotangents of `xs`.
/// All three closures are traced immediately.
///
/// A rule may call its own function, as in JAX's idiom: `fn f(x)` is `custom_vjp(x, .., |x| (f(x), x), ..)`. The inner
/// call has the same rule, in derivatives of every order. The inner call is recognised by its source line and by the
/// graph of the function. The rule is traced twice, and it is an error if the two traces differ. If a rule calls its
/// own function, neither the rule nor the function may capture values of the enclosing graph.
///
/// - `xs`, the results and the residuals can be any [`Tree`]s, with leaves of any dtype. The results of `forward`
///   must have the same structure and types as the results of `function`. The size of a result must not
///   depend on how many steps a loop inside the closure runs.
/// - `backward` returns a cotangent for each float leaf of `xs`, with the path and the type of the leaf. For other
///   leaves it may return anything, such as `()`. `backward` receives zeros as the cotangents of non-float results.
/// - `backward` must be linear in the cotangents if [`jvp`](crate::jvp) is to be applied, because forward mode
///   transposes it. A nonlinear rule, such as the one in the example, supports only reverse mode; forward mode reports
///   [`Error::NoDerivative`](crate::Error::NoDerivative).
/// - Values that `function` and `forward` capture from the enclosing graph are constants. Differentiating with respect
///   to a captured value is an error, not a silent zero. Pass the value in `xs` instead.
/// - Higher-order derivatives differentiate the nodes of `forward` and `backward`, including those in loop bodies.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, custom_vjp, evaluate, grad};
///
/// // Returns x; clips the gradient to [-1, 1].
/// let clipped = Graph::build("clipped", |g| {
///     let x = g.input("x", "f64[2]");
///     grad(x, |x| {
///         let y = custom_vjp(x, |x| x, |x| (x, ()), |(), ct| ct.clamp(-1.0, 1.0));
///         (y * y).sum(0)
///     })
/// })?;
/// let slope = evaluate(&clipped, &[HostTensor::from([0.25, 8.0])])?;
/// assert_eq!(slope[0], HostTensor::from([0.5, 1.0]));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn custom_vjp<X: Tree, Y: Tree, R: Tree, C: Tree>(
    xs: X,
    function: impl FnOnce(X) -> Y,
    forward: impl FnOnce(X) -> (Y, R),
    backward: impl FnOnce(R, Y) -> C,
) -> Y {
    let tracing = match Tracing::function("custom_vjp", Site::caller(), xs, function) {
        Ok(tracing) => tracing,
        Err(done) => return done,
    };
    tree::rebuild_or_failed(&tracing.ys, tracing.with_vjp(forward, backward))
}

/// Applies `function` to `xs`, with a custom forward rule instead of its derivative, like JAX's `custom_jvp` with
/// `defjvps`.
///
/// `tangent` receives `xs`, the results and the tangents of `xs`, and returns the tangents of the results. `tangent` is
/// traced immediately. Because it receives the results, it does not need to call the function again, but it may, as
/// described at [`custom_vjp`].
///
/// - `xs` and the results can be any [`Tree`]s, with leaves of any dtype. The size of a result must not
///   depend on how many steps a loop inside the closure runs.
/// - `tangent` returns a tangent for each float result, with the path and the type of the result. For other results it
///   may return anything, such as `()`. `tangent` receives zeros as the tangents of non-float leaves.
/// - `tangent` must be linear in the tangents if [`grad`](crate::grad()) or [`vjp`](crate::vjp()) is to be applied,
///   because reverse mode transposes it. For a nonlinear rule, reverse mode reports
///   [`Error::NoDerivative`](crate::Error::NoDerivative).
/// - Values that `function` and `tangent` capture from the enclosing graph are constants. Differentiating with respect
///   to a captured value is an error, not a silent zero. Pass the value in `xs` instead.
/// - Higher-order derivatives differentiate the nodes of `tangent`, and apply the rule again to the results that
///   `tangent` receives.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, custom_jvp, evaluate, grad};
///
/// // log(1 + exp(x)), whose derivative would be infinity / infinity for large x.
/// let slope = Graph::build("slope", |g| {
///     let x = g.input("x", "f64[]");
///     grad(x, |x| custom_jvp(x, |x| x.exp().log1p(), |x, _, tangent| tangent * x.sigmoid()))
/// })?;
/// assert_eq!(evaluate(&slope, &[HostTensor::scalar(1000f64)])?[0], HostTensor::scalar(1f64));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn custom_jvp<X: Tree, Y: Tree, T: Tree>(
    xs: X,
    function: impl FnOnce(X) -> Y,
    tangent: impl FnOnce(X, Y, X) -> T,
) -> Y {
    let tracing = match Tracing::function("custom_jvp", Site::caller(), xs, function) {
        Ok(tracing) => tracing,
        Err(done) => return done,
    };
    tree::rebuild_or_failed(&tracing.ys, tracing.with_jvp(tangent))
}

/// Removes the dead nodes of a rule's graph.
fn prune_rule(graph: Graph) -> Arc<Graph> {
    Arc::new(graph.pruned())
}

/// A list of names with their types.
type NamedTypes = Vec<(String, TensorType)>;

/// A call to a function with a custom rule, while the rule is being traced.
struct Tracing<X, Y> {
    at: Place,
    xs: X,
    /// The results of the function.
    ys: Y,
    leaves: Vec<(String, Value)>,
    arguments: NamedTypes,
    results: NamedTypes,
    function: ClosedBody,
    /// The rule being traced. Its site and its function's text identify recursive calls inside the rule.
    rule: Rc<OpenRule>,
}

impl<X: Tree, Y: Tree> Tracing<X, Y> {
    /// Traces the function. Returns `Err` with the function's results if there is no rule to trace: either the function
    /// failed, or the call is recursive and has become `Rule::Itself`.
    fn function(op: &str, site: Site, xs: X, function: impl FnOnce(X) -> Y) -> Result<Self, Y> {
        let at = Place::new(op, site);
        let leaves = tree::leaves(&xs, "x");
        let arguments: NamedTypes = leaves.iter().map(|(name, value)| (name.clone(), value.ty())).collect();
        let (closed, ys) = trace_function(&at, &leaves, &xs, function);
        let names = tree::leaves(&ys, "y");
        let checked = closed.and_then(|function| {
            let sizes = check_sizes(&at, "function", &function.graph);
            sizes.map_err(|error| fail(&at.op, at.site, &[], |_| error))?;
            if depth() <= MAX_DEPTH {
                return Ok(function);
            }
            let fix = "write the function's formula in the rule, or use the results that the rule receives";
            let found = format!("rules nested {MAX_DEPTH} deep: the rule calls its own function");
            Err(fail_mismatch(&at, &[], "the rule", "a rule whose tracing terminates", found, fix))
        });
        let function = checked.map_err(|failed| tree::rebuild_or_failed(&ys, Err(failed)))?;
        let typed =
            |(index, (name, _)): (usize, &(String, Value))| (name.clone(), function.graph.output_type(index).clone());
        let results = names.iter().enumerate().map(typed).collect();
        let text = function.graph.text_to_compare();
        let around = tracer::open_rule().filter(|around| around.site == site && around.function == text);
        let level = around.as_ref().map_or(0, |around| around.level + 1);
        let rule = OpenRule { site, function: text, level, uses_itself: Cell::default(), inner: RefCell::default() };
        let tracing = Tracing { at, xs, ys, leaves, arguments, results, function, rule: Rc::new(rule) };
        match around {
            Some(around) if around.level + 1 == COMPARED_RULES => {
                Err(tree::rebuild_or_failed(&tracing.ys, tracing.itself(&around, Vec::new())))
            }
            _ => Ok(tracing),
        }
    }

    /// Traces a reverse rule and adds a call that uses it.
    fn with_vjp<R: Tree, C: Tree>(
        &self,
        forward: impl FnOnce(X) -> (Y, R),
        backward: impl FnOnce(R, Y) -> C,
    ) -> Result<Vec<Value>, Failed> {
        let (forward, residuals) = self.forward(forward)?;
        let backward = self.backward(&forward.graph, &residuals, backward)?;
        let captures = [forward.captures, backward.captures].concat();
        self.finish(Rule::Vjp { forward: prune_rule(forward.graph), backward: prune_rule(backward.graph) }, captures)
    }

    /// Traces a forward rule and adds a call that uses it.
    fn with_jvp<T: Tree>(&self, tangent: impl FnOnce(X, Y, X) -> T) -> Result<Vec<Value>, Failed> {
        let tangent = self.tangent(tangent)?;
        self.finish(Rule::Jvp { tangent: prune_rule(tangent.graph) }, tangent.captures)
    }

    /// Adds a recursive call from a rule to its own function.
    fn itself(&self, around: &OpenRule, captures: Vec<Value>) -> Result<Vec<Value>, Failed> {
        around.uses_itself.set(true);
        self.call(Rule::Itself, captures)
    }

    /// Traces `forward`. Returns its graph and the tree of residuals to pass to `backward`.
    fn forward<R: Tree>(&self, forward: impl FnOnce(X) -> (Y, R)) -> Result<(ClosedBody, R), Failed> {
        let (trace, values) = self.open(&self.arguments);
        let (ys, residuals) = forward(tree::rebuild(&self.xs, &values));
        let found = tree::leaves(&ys, "y");
        self.check_structure("the results of `forward`", &self.results, &found);
        for ((name, expected), (_, value)) in self.results.iter().zip(&found) {
            self.check_type(&format!("result `{name}` of `forward`"), expected, *value);
        }
        let outputs = [found, tree::leaves(&residuals, "r")].concat();
        Ok((trace.close(&outputs)?, residuals))
    }

    /// Traces `backward` with the residuals of `forward` and the cotangents of the results as parameters.
    fn backward<R: Tree, C: Tree>(
        &self,
        forward: &Graph,
        residuals: &R,
        backward: impl FnOnce(R, Y) -> C,
    ) -> Result<ClosedBody, Failed> {
        let names = tree::leaves(residuals, "r").into_iter().map(|(name, _)| name);
        let residual = |(index, name)| (name, forward.output_type(self.results.len() + index).clone());
        let residuals_typed: NamedTypes = names.enumerate().map(residual).collect();
        let count = residuals_typed.len();
        let params = [residuals_typed, with_prefix("ct", &self.results)].concat();
        let (trace, values) = self.open(&params);
        let cotangents = self.derivatives(&self.ys, &self.results, &values[count..]);
        let given = backward(tree::rebuild(residuals, &values[..count]), cotangents);
        let outputs = self.check_derivatives("the cotangent of leaf", &self.arguments, &tree::leaves(&given, "x"));
        trace.close(&rename_with_prefix("ct", outputs))
    }

    /// Traces `tangent` with the arguments, the results and the tangents of the arguments as parameters.
    fn tangent<T: Tree>(&self, tangent: impl FnOnce(X, Y, X) -> T) -> Result<ClosedBody, Failed> {
        let params = [self.arguments.clone(), self.results.clone(), with_prefix("tan", &self.arguments)].concat();
        let (trace, values) = self.open(&params);
        let (arguments, rest) = values.split_at(self.arguments.len());
        let (results, tangents) = rest.split_at(self.results.len());
        let given = tangent(
            tree::rebuild(&self.xs, arguments),
            tree::rebuild(&self.ys, results),
            self.derivatives(&self.xs, &self.arguments, tangents),
        );
        let outputs = self.check_derivatives("the tangent of result", &self.results, &tree::leaves(&given, "y"));
        trace.close(&rename_with_prefix("tan", outputs))
    }

    /// Opens a body with the given parameters, in which a closure of the rule is traced.
    fn open(&self, params: &NamedTypes) -> (BodyTrace, Vec<Value>) {
        let opened = BodyTrace::open(&self.at, "", params);
        tracer::set_rule(&self.rule);
        opened
    }

    /// Adds a call to the function with the given rule. `captures` holds the values that the rule captures. If the call
    /// is inside a rule of the same function, and `rule` is recursive, adds a recursive call instead. Reports an error
    /// if the traces of a recursive rule differ.
    fn finish(&self, rule: Rule, captures: Vec<Value>) -> Result<Vec<Value>, Failed> {
        let graphs = match &rule {
            Rule::Vjp { forward, backward } => vec![forward, backward],
            Rule::Jvp { tangent } => vec![tangent],
            Rule::Itself => Vec::new(),
        };
        let text = || graphs.iter().map(|graph| graph.text_to_compare()).collect::<String>();
        match tracer::open_rule() {
            Some(around) if self.rule.level > 0 && self.rule.uses_itself.get() => {
                around.inner.borrow_mut().push(text());
                self.itself(&around, captures)
            }
            _ => {
                let inner = self.rule.inner.borrow();
                if !inner.is_empty() && inner.iter().any(|inner| *inner != text()) {
                    let (expected, found) = ("the same rule at each call of the function", "another one in the rule");
                    let fix = "let the rule follow from its arguments alone, or name the other function differently";
                    let component = "a rule that calls its own function";
                    return Err(fail_mismatch(&self.at, &[], component, expected, found, fix));
                }
                self.call(rule, captures)
            }
        }
    }

    /// Adds a call of the function, with this rule, to the open graph. The last operands of the call are the captured
    /// values of the function and of the rule.
    fn call(&self, rule: Rule, captures: Vec<Value>) -> Result<Vec<Value>, Failed> {
        let arguments = self.leaves.len();
        let values = self.leaves.iter().map(|(_, value)| *value);
        let operands: Vec<Value> = values.chain(self.function.captures.clone()).chain(captures).collect();
        let call = Call { function: Arc::new(self.function.graph.clone()), rule, arguments };
        emit_at(call, &operands, self.at.site)
    }

    /// Builds a tree with the structure of `of`, with the given derivatives at float leaves and zeros at the other
    /// leaves.
    fn derivatives<T: Tree>(&self, of: &T, types: &NamedTypes, given: &[Value]) -> T {
        let mut given = given.iter().copied();
        at_site(self.at.site, || {
            let derivative = |(_, ty): &(String, TensorType)| match ty.dtype.is_float() {
                true => given.next(),
                false => Some(full(ty.shape.clone(), ty.dtype, 0.0)),
            };
            tree::rebuild(of, &types.iter().filter_map(derivative).collect::<Vec<_>>())
        })
    }

    /// Checks that the results of a rule have the same structure as those of the function.
    fn check_structure(&self, component: &str, expected: &NamedTypes, found: &[(String, Value)]) {
        if !found.iter().any(|(_, value)| value.is_failed()) {
            let fix = "return values with the structure of the function's results";
            check_names(&self.at, &format!("the structure of {component}"), expected, found, fix);
        }
    }

    fn check_type(&self, component: &str, expected: &TensorType, value: Value) {
        let fixes = ["it", "reshape it, or sum over the axes that were broadcast", "return a value of that type"];
        check_type(&self.at, component, expected, value, fixes);
    }

    /// Finds the derivative of each float leaf by its path, and checks its type. Ignores derivatives of other leaves.
    /// Reports missing derivatives and unknown paths.
    fn check_derivatives(&self, component: &str, of: &NamedTypes, found: &[(String, Value)]) -> Vec<(String, Value)> {
        let mut derivatives = Vec::new();
        for (name, expected) in of.iter().filter(|(_, ty)| ty.dtype.is_float()) {
            match found.iter().find(|(other, _)| other == name) {
                Some((_, value)) => {
                    self.check_type(&format!("{component} `{name}`"), expected, *value);
                    derivatives.push((name.clone(), *value));
                }
                None => {
                    let fix = "return one for each float, at the same path; zeros if there is none";
                    fail_mismatch(&self.at, &[], format!("{component} `{name}`"), expected, listed(found), fix);
                }
            }
        }
        let unknown = found.iter().find(|(name, _)| of.iter().all(|(other, _)| other != name));
        if let Some((name, value)) = unknown.filter(|(_, value)| !value.is_failed()) {
            let fix = "return one for each float, at the same path, and nothing else";
            fail_mismatch(&self.at, &[*value], format!("{component} `{name}`"), listed(of), value.ty(), fix);
        }
        derivatives
    }
}

/// Returns the entries with float types, with a prefix added to their names.
fn with_prefix(prefix: &str, typed: &NamedTypes) -> NamedTypes {
    let floats = typed.iter().filter(|(_, ty)| ty.dtype.is_float());
    floats.map(|(name, ty)| (format!("{prefix}_{name}"), ty.clone())).collect()
}

fn rename_with_prefix(prefix: &str, values: Vec<(String, Value)>) -> Vec<(String, Value)> {
    values.into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value)).collect()
}
