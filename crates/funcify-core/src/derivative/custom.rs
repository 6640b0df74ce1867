//! The entry points of functions with derivative rules of their own: `custom_vjp` and `custom_jvp`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::build::trace_function;
use super::*;
use crate::graph::emit_at;
use crate::graph::rules::OpenRule;
use crate::graph::tracer::{self, depth};
use crate::ops::call::check_sizes;
use crate::ops::leaves::{check_type, have_names, listed};
use crate::ops::{Call, Rule};
use crate::tree;

/// How many bodies may be open where a rule is traced. More means that a rule calls the function that it is the rule of.
const MAX_DEPTH: usize = 64;

/// In how many rules of one function, in one another, the function is traced before its call is taken for `itself`. The rules
/// are compared.
const COMPARED_RULES: usize = 2;

/// What `function` gives for `xs`, with a reverse rule in place of its derivative, as JAX's `custom_vjp`.
///
/// When it is differentiated, `forward` runs instead of `function`: it gives the same results, and residuals. `backward`
/// is given the residuals and the cotangents of the results, and gives those of `xs`. All are traced at once.
///
/// A rule may call the function that it is the rule of, as in JAX's idiom: `fn f(x)` is `custom_vjp(x, .., |x| (f(x), x), ..)`.
/// The call there has this rule too, in derivatives of every order. It is known by its line and by what the function
/// computes; the rule is traced twice, and it is an error if it is not the same both times. Such a function and its rule
/// capture no values of the enclosing graph.
///
/// - `xs`, the results and the residuals are any [`Tree`]s, of any dtypes. The results of `forward` have the structure and
///   exactly the types of those of `function`. A size that only a loop inside determines is in none of them.
/// - `backward` gives a cotangent for each leaf of `xs` that is a float, at the same path, of exactly its type. Elsewhere
///   it may give anything, such as `()`. The cotangents that it is given of results that are no floats are zeros.
/// - It is linear in the cotangents, if [`jvp`](crate::jvp) is to go through the function: forward mode is its transpose.
///   One that is not, such as the example's, has reverse mode alone, and [`Error::NoDerivative`](crate::Error::NoDerivative)
///   in forward mode.
/// - Values of the enclosing graph that `function` and `forward` use are constants: if one is differentiated, that is an
///   error, never a derivative of zero. Pass it in `xs`.
/// - The derivative of the derivative is that of the nodes of `forward` and `backward`, in the bodies of loops as outside of
///   them.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, custom_vjp, evaluate, grad};
///
/// // Gives x; what comes back is kept between -1 and 1.
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

/// What `function` gives for `xs`, with a forward rule in place of its derivative, as JAX's `custom_jvp` with
/// `defjvps`.
///
/// `tangent` is given `xs`, the results and the tangents of `xs`, and gives the tangents of the results. It is traced at
/// once. As it is given the results, it need not call the function that it is the rule of; it may, as [`custom_vjp`]
/// says.
///
/// - `xs` and the results are any [`Tree`]s, of any dtypes; a size that only a loop inside determines is in none of them.
/// - `tangent` gives a tangent for each result that is a float, at the same path, of exactly its type. Elsewhere it may
///   give anything, such as `()`. The tangents that it is given of leaves that are no floats are zeros.
/// - It is linear in the tangents, if [`grad`](crate::grad()) or [`vjp`](crate::vjp()) are to go through the function: reverse
///   mode is its transpose. One that is not is [`Error::NoDerivative`](crate::Error::NoDerivative) there.
/// - Values of the enclosing graph that `function` and `tangent` use are constants: if one is differentiated, that is an
///   error, never a derivative of zero. Pass it in `xs`.
/// - The derivative of the derivative is that of the nodes of `tangent`; the results in it have this rule.
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

/// Without what a rule was offered and does not use.
fn pruned(graph: Graph) -> Arc<Graph> {
    Arc::new(graph.pruned())
}

/// Names with types.
type Typed = Vec<(String, TensorType)>;

/// A function whose rule is being traced.
struct Tracing<X, Y> {
    at: Place,
    xs: X,
    /// What the function gave.
    ys: Y,
    leaves: Vec<(String, Value)>,
    arguments: Typed,
    results: Typed,
    function: ClosedBody,
    /// Where the rule is known by the calls in it.
    rule: Rc<OpenRule>,
}

impl<X: Tree, Y: Tree> Tracing<X, Y> {
    /// Traces the function. The results themselves if it is called by its own rule, in a rule of the same function; or after
    /// a failure.
    fn function(op: &str, site: Site, xs: X, function: impl FnOnce(X) -> Y) -> Result<Self, Y> {
        let at = Place::new(op, site);
        let leaves = tree::leaves(&xs, "x");
        let arguments: Typed = leaves.iter().map(|(name, value)| (name.clone(), value.ty())).collect();
        let (closed, ys) = trace_function(&at, &leaves, &xs, function);
        let names = tree::leaves(&ys, "y");
        let checked = closed.and_then(|function| {
            let sizes = check_sizes(&at, "function", &function.graph);
            sizes.map_err(|error| fail(&at.op, at.site, &[], |_| error))?;
            if depth() <= MAX_DEPTH {
                return Ok(function);
            }
            let fix = "write the function's formula in the rule, or use the results that the rule is given";
            let found = format!("rules in rules, {MAX_DEPTH} deep: it calls the function that it is the rule of");
            Err(fail_mismatch(&at, &[], "the rule", "one that is traced and ends", found, fix))
        });
        let function = checked.map_err(|failed| tree::rebuild_or_failed(&ys, Err(failed)))?;
        let typed =
            |(index, (name, _)): (usize, &(String, Value))| (name.clone(), function.graph.output_type(index).clone());
        let results = names.iter().enumerate().map(typed).collect();
        let text = function.graph.text_to_compare();
        let around = tracer::open_rule().filter(|around| around.site == site && around.function == text);
        let level = around.as_ref().map_or(0, |around| around.level + 1);
        let rule = OpenRule { site, function: text, level, says_itself: Cell::default(), inner: RefCell::default() };
        let tracing = Tracing { at, xs, ys, leaves, arguments, results, function, rule: Rc::new(rule) };
        match around {
            Some(around) if around.level + 1 == COMPARED_RULES => {
                Err(tree::rebuild_or_failed(&tracing.ys, tracing.itself(&around, Vec::new())))
            }
            _ => Ok(tracing),
        }
    }

    /// Adds the call with a rule for reverse mode.
    fn with_vjp<R: Tree, C: Tree>(
        &self,
        forward: impl FnOnce(X) -> (Y, R),
        backward: impl FnOnce(R, Y) -> C,
    ) -> Result<Vec<Value>, Failed> {
        let (forward, residuals) = self.forward(forward)?;
        let backward = self.backward(&forward.graph, &residuals, backward)?;
        let captures = [forward.captures, backward.captures].concat();
        self.finish(Rule::Vjp { forward: pruned(forward.graph), backward: pruned(backward.graph) }, captures)
    }

    /// Adds the call with a rule for forward mode.
    fn with_jvp<T: Tree>(&self, tangent: impl FnOnce(X, Y, X) -> T) -> Result<Vec<Value>, Failed> {
        let tangent = self.tangent(tangent)?;
        self.finish(Rule::Jvp { tangent: pruned(tangent.graph) }, tangent.captures)
    }

    /// Adds the call of the function in its own rule.
    fn itself(&self, around: &OpenRule, captures: Vec<Value>) -> Result<Vec<Value>, Failed> {
        around.says_itself.set(true);
        self.call(Rule::Itself, captures)
    }

    /// Traces `forward`, and gives the structure of its residuals.
    fn forward<R: Tree>(&self, forward: impl FnOnce(X) -> (Y, R)) -> Result<(ClosedBody, R), Failed> {
        let (trace, values) = self.open(&self.arguments);
        let (ys, residuals) = forward(tree::rebuild(&self.xs, &values));
        let found = tree::leaves(&ys, "y");
        self.check_structure("what `forward` gives", &self.results, &found);
        for ((name, expected), (_, value)) in self.results.iter().zip(&found) {
            self.check_type(&format!("result `{name}` of `forward`"), expected, *value);
        }
        let outputs = [found, tree::leaves(&residuals, "r")].concat();
        Ok((trace.close(&outputs)?, residuals))
    }

    /// Traces `backward`.
    fn backward<R: Tree, C: Tree>(
        &self,
        forward: &Graph,
        residuals: &R,
        backward: impl FnOnce(R, Y) -> C,
    ) -> Result<ClosedBody, Failed> {
        let names = tree::leaves(residuals, "r").into_iter().map(|(name, _)| name);
        let residual = |(index, name)| (name, forward.output_type(self.results.len() + index).clone());
        let residuals_typed: Typed = names.enumerate().map(residual).collect();
        let count = residuals_typed.len();
        let params = [residuals_typed, prefixed("ct", &self.results)].concat();
        let (trace, values) = self.open(&params);
        let cotangents = self.derivatives(&self.ys, &self.results, &values[count..]);
        let given = backward(tree::rebuild(residuals, &values[..count]), cotangents);
        let outputs = self.check_derivatives("the cotangent of leaf", &self.arguments, &tree::leaves(&given, "x"));
        trace.close(&renamed("ct", outputs))
    }

    /// Traces `tangent`.
    fn tangent<T: Tree>(&self, tangent: impl FnOnce(X, Y, X) -> T) -> Result<ClosedBody, Failed> {
        let params = [self.arguments.clone(), self.results.clone(), prefixed("tan", &self.arguments)].concat();
        let (trace, values) = self.open(&params);
        let (arguments, rest) = values.split_at(self.arguments.len());
        let (results, tangents) = rest.split_at(self.results.len());
        let given = tangent(
            tree::rebuild(&self.xs, arguments),
            tree::rebuild(&self.ys, results),
            self.derivatives(&self.xs, &self.arguments, tangents),
        );
        let outputs = self.check_derivatives("the tangent of result", &self.results, &tree::leaves(&given, "y"));
        trace.close(&renamed("tan", outputs))
    }

    /// Opens a graph of the rule.
    fn open(&self, params: &Typed) -> (BodyTrace, Vec<Value>) {
        let opened = BodyTrace::open(&self.at, "", params);
        tracer::set_rule(&self.rule);
        opened
    }

    /// Adds the call, with what its rule captures. In a rule of the same function, with a rule that says `itself`, it is
    /// that.
    fn finish(&self, rule: Rule, captures: Vec<Value>) -> Result<Vec<Value>, Failed> {
        let graphs = match &rule {
            Rule::Vjp { forward, backward } => vec![forward, backward],
            Rule::Jvp { tangent } => vec![tangent],
            Rule::Itself => Vec::new(),
        };
        let text = || graphs.iter().map(|graph| graph.text_to_compare()).collect::<String>();
        match tracer::open_rule() {
            Some(around) if self.rule.level > 0 && self.rule.says_itself.get() => {
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

    /// Adds the call.
    fn call(&self, rule: Rule, captures: Vec<Value>) -> Result<Vec<Value>, Failed> {
        let arguments = self.leaves.len();
        let values = self.leaves.iter().map(|(_, value)| *value);
        let operands: Vec<Value> = values.chain(self.function.captures.clone()).chain(captures).collect();
        let call = Call { function: Arc::new(self.function.graph.clone()), rule, arguments };
        emit_at(call, &operands, self.at.site)
    }

    /// A tree of the derivatives of float leaves, and zeros for the others.
    fn derivatives<T: Tree>(&self, of: &T, types: &Typed, given: &[Value]) -> T {
        let mut given = given.iter().copied();
        at_site(self.at.site, || {
            let derivative = |(_, ty): &(String, TensorType)| match ty.dtype.is_float() {
                true => given.next(),
                false => Some(full(ty.shape.clone(), ty.dtype, 0.0)),
            };
            tree::rebuild(of, &types.iter().filter_map(derivative).collect::<Vec<_>>())
        })
    }

    /// What a rule gives has the structure of the function's.
    fn check_structure(&self, component: &str, expected: &Typed, found: &[(String, Value)]) {
        if !found.iter().any(|(_, value)| value.is_failed()) {
            let fix = "return values of the structure that the function gives";
            have_names(&self.at, &format!("the structure of {component}"), expected, found, fix);
        }
    }

    fn check_type(&self, component: &str, expected: &TensorType, value: Value) {
        let fixes = ["it", "reshape it, or sum over the axes that were broadcast", "give a value of that type"];
        check_type(&self.at, component, expected, value, fixes);
    }

    /// The derivatives of the float leaves, found by their paths; the others are left out.
    fn check_derivatives(&self, component: &str, of: &Typed, found: &[(String, Value)]) -> Vec<(String, Value)> {
        let mut derivatives = Vec::new();
        for (name, expected) in of.iter().filter(|(_, ty)| ty.dtype.is_float()) {
            match found.iter().find(|(other, _)| other == name) {
                Some((_, value)) => {
                    self.check_type(&format!("{component} `{name}`"), expected, *value);
                    derivatives.push((name.clone(), *value));
                }
                None => {
                    let fix = "give one for each float, at the same path; zeros if it has none";
                    fail_mismatch(&self.at, &[], format!("{component} `{name}`"), expected, listed(found), fix);
                }
            }
        }
        let unknown = found.iter().find(|(name, _)| of.iter().all(|(other, _)| other != name));
        if let Some((name, value)) = unknown.filter(|(_, value)| !value.is_failed()) {
            let fix = "give one for each float, at the same path, and nothing else";
            fail_mismatch(&self.at, &[*value], format!("{component} `{name}`"), listed(of), value.ty(), fix);
        }
        derivatives
    }
}

/// The float ones, with a prefix to their names.
fn prefixed(prefix: &str, typed: &Typed) -> Typed {
    let floats = typed.iter().filter(|(_, ty)| ty.dtype.is_float());
    floats.map(|(name, ty)| (format!("{prefix}_{name}"), ty.clone())).collect()
}

fn renamed(prefix: &str, values: Vec<(String, Value)>) -> Vec<(String, Value)> {
    values.into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value)).collect()
}
