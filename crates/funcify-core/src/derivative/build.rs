//! The entry points inside a trace: `grad(xs, |xs| loss)` and its family.

use super::disconnected::disconnected;
use super::*;
use crate::host::HostTensor;
use crate::ops::switch::switch;
use crate::tree;
use crate::value::constant;
use crate::vmap::vmap;

/// What a gradient is where no path leads from the result to an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Disconnected {
    /// [`Error::Disconnected`](crate::Error::Disconnected): as a rule it is a mistake to ask for it.
    #[default]
    Error,
    /// Zeros of the input's type.
    Zeros,
}

/// How gradients are taken.
#[derive(Clone, Debug, Default)]
pub struct GradOptions {
    pub(super) disconnected: Disconnected,
    pub(super) of: Option<String>,
    pub(super) choices: Choices,
}

impl GradOptions {
    /// A disconnected input is an error.
    pub fn new() -> Self {
        GradOptions::default()
    }

    /// What a gradient is where no path leads to an input.
    pub fn disconnected(mut self, disconnected: Disconnected) -> Self {
        self.disconnected = disconnected;
        self
    }

    /// What loops keep for their backward loops, if they say nothing themselves.
    pub fn policy(mut self, policy: CheckpointPolicy) -> Self {
        self.choices.policy = policy;
        self
    }

    /// Goes back over associative scans step by step, as over loops, also where a derivative of logarithmic depth is known.
    /// Where loops are compiled that is less work; the plug-ins ask for it there.
    pub fn stepwise(mut self, stepwise: bool) -> Self {
        self.choices.stepwise = stepwise;
        self
    }

    /// Of a graph with several outputs, the one that is the loss.
    pub fn of(mut self, output: &str) -> Self {
        self.of = Some(output.to_string());
        self
    }
}

/// The gradient of `loss`, a float scalar, with respect to each leaf of `xs`, in its type.
///
/// `xs` is any [`Tree`] of floats. Values of the enclosing graph that the closure uses are constants. The gradient is part
/// of the program, and may be differentiated, batched, and put into loops. A leaf on which the loss does not depend is
/// an error; [`grad_with`] gives zeros on request.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, grad};
///
/// let slope = Graph::build("slope", |g| {
///     let x = g.input("x", "f64[]");
///     grad(x, |x| grad(x, |x| x.square() * x))
/// })?;
/// assert_eq!(evaluate(&slope, &[HostTensor::scalar(2f64)])?[0], HostTensor::scalar(12f64));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn grad<X: Tree>(xs: X, loss: impl FnOnce(X) -> Value) -> X {
    grad_with(GradOptions::new(), xs, loss)
}

/// [`grad`] with options.
#[track_caller]
pub fn grad_with<X: Tree>(options: GradOptions, xs: X, loss: impl FnOnce(X) -> Value) -> X {
    gradient(&Place::new("grad", Site::caller()), &options, xs, loss).1
}

/// The loss and its gradient, as [`grad`].
#[track_caller]
pub fn value_and_grad<X: Tree>(xs: X, loss: impl FnOnce(X) -> Value) -> (Value, X) {
    gradient(&Place::new("value_and_grad", Site::caller()), &GradOptions::new(), xs, loss)
}

fn gradient<X: Tree>(at: &Place, options: &GradOptions, xs: X, loss: impl FnOnce(X) -> Value) -> (Value, X) {
    let checked = |xs: X| {
        let loss = loss(xs);
        check_loss(at, "the loss", loss);
        loss
    };
    pull_back(at, options, xs, checked, |loss| loss.ones_like())
}

/// The loss is a float scalar.
pub(super) fn check_loss(at: &Place, component: &str, loss: Value) {
    let ty = loss.ty();
    if !loss.is_failed() && (!ty.dtype.is_float() || ty.rank() != 0) {
        let fix = "reduce it with `sum(..)` or `mean(..)`; `vjp` takes results of any shape, with cotangents";
        fail_mismatch(at, &[loss], component, "a float scalar", &ty, fix);
    }
}

/// The results of `f`, and the cotangents of `xs` that `cotangents` of the results lead to: the product of the transposed
/// Jacobian and a vector.
///
/// `xs` and the results are any [`Tree`]; the cotangents have the structure and the types of the results. Cotangents of
/// integers are not looked at. A leaf of `xs` that is no float, or to which no path leads, is an error.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, vjp};
///
/// let pulled = Graph::build("pulled", |g| {
///     let [x, ct] = [g.input("x", "f64[2]"), g.input("ct", "f64[2]")];
///     vjp(x, |x| x.square(), |_| ct).1
/// })?;
/// let inputs = [HostTensor::from([1f64, 2.]), HostTensor::from([1f64, 10.])];
/// assert_eq!(evaluate(&pulled, &inputs)?[0], HostTensor::from([2f64, 40.]));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn vjp<X: Tree, Y: Tree>(xs: X, f: impl FnOnce(X) -> Y, cotangents: impl FnOnce(&Y) -> Y) -> (Y, X) {
    vjp_with(GradOptions::new(), xs, f, cotangents)
}

/// [`vjp`] with options.
#[track_caller]
pub fn vjp_with<X: Tree, Y: Tree>(
    options: GradOptions,
    xs: X,
    f: impl FnOnce(X) -> Y,
    cotangents: impl FnOnce(&Y) -> Y,
) -> (Y, X) {
    pull_back(&Place::new("vjp", Site::caller()), &options, xs, f, cotangents)
}

fn pull_back<X: Tree, Y: Tree>(
    at: &Place,
    options: &GradOptions,
    xs: X,
    f: impl FnOnce(X) -> Y,
    cotangents: impl FnOnce(&Y) -> Y,
) -> (Y, X) {
    let leaves = tree::leaves(&xs, "x");
    leaves.iter().for_each(|(name, value)| check_float(at, name, *value));
    let (closed, ys) = trace_function(at, &leaves, &xs, f);
    let pulled = closed.and_then(|function| {
        let sweep = Sweep::open(at, options, &leaves, &function)?;
        let results = tree::rebuild(&ys, &sweep.results);
        let given = at_site(at.site, || tree::leaves(&cotangents(&results), "y"));
        sweep.close(&given)
    });
    let (values, gradients) = pulled.unwrap_or_default();
    (tree::rebuild(&ys, &values), tree::rebuild(&xs, &gradients))
}

/// A function in a trace of its own, which waits for the cotangents of its results.
struct Sweep<'a> {
    at: &'a Place,
    options: &'a GradOptions,
    leaves: &'a [(String, Value)],
    function: &'a Graph,
    trace: BodyTrace,
    tape: Tape<'a>,
    results: Vec<Value>,
}

impl<'a> Sweep<'a> {
    fn open(
        at: &'a Place,
        options: &'a GradOptions,
        leaves: &'a [(String, Value)],
        function: &'a ClosedBody,
    ) -> Result<Self, Failed> {
        let (trace, _) = BodyTrace::open(at, "", &[]);
        let inputs: Vec<Value> = leaves.iter().map(|(_, value)| *value).chain(function.captures.clone()).collect();
        let wrt: Vec<bool> = (0..inputs.len()).map(|index| index < leaves.len()).collect();
        let tape = at_site(at.site, || Tape::record(&function.graph, &inputs, &wrt, &options.choices))?;
        Ok(Sweep { at, options, leaves, function: &function.graph, trace, results: tape.outputs()?, tape })
    }

    /// The results of the function, and the cotangents of the leaves.
    fn close(self, cotangents: &[(String, Value)]) -> Result<(Vec<Value>, Vec<Value>), Failed> {
        let Sweep { at, leaves, .. } = self;
        let count = self.results.len();
        let pulled = at_site(at.site, || {
            check_cotangents(at, &self.results, cotangents);
            let floats = cotangents.iter().map(|(_, value)| Some(*value).filter(|value| value.dtype().is_float()));
            self.tape.pull(&floats.collect::<Vec<_>>())
        })?;
        let or_zeros =
            |(cotangent, (_, leaf)): (&Option<Value>, &(String, Value))| cotangent.unwrap_or_else(|| leaf.zeros_like());
        let gradients: Vec<Value> = at_site(at.site, || pulled.iter().zip(leaves).map(or_zeros).collect());
        let mut results = add_pruned(self.trace, &[self.results, gradients].concat())?;
        for (index, ((name, value), cotangent)) in leaves.iter().zip(pulled).enumerate() {
            if cotangent.is_none() && self.options.disconnected == Disconnected::Error {
                let component = format!("leaf `{name}`");
                return Err(fail(&at.op, at.site, &[*value], |at| disconnected(at, &component, self.function, index)));
            }
        }
        let gradients = results.split_off(count);
        Ok((results, gradients))
    }
}

pub(super) fn check_float(at: &Place, name: &str, value: Value) {
    let ty = value.ty();
    if !value.is_failed() && !ty.dtype.is_float() {
        let fix = "let the closure capture it instead: what is no float has no derivative";
        fail_mismatch(at, &[value], format!("leaf `{name}`"), "a float tensor", &ty, fix);
    }
}

/// Cotangents have the types of the results.
fn check_cotangents(at: &Place, results: &[Value], given: &[(String, Value)]) {
    if results.len() != given.len() {
        let (expected, found) = (format!("{} leaves", results.len()), format!("{} leaves", given.len()));
        let fix = "give one cotangent for each result";
        fail_mismatch(at, &[], "the structure of the cotangents", expected, found, fix);
    }
    for (result, (name, value)) in results.iter().zip(given) {
        check_same_type(at, &format!("the cotangent of result `{name}`"), *result, *value);
    }
}

fn check_same_type(at: &Place, component: &str, value: Value, derivative: Value) {
    let (expected, found) = (value.ty(), derivative.ty());
    if !value.is_failed() && !derivative.is_failed() && expected != found {
        let fix = "give it the type of the value that it belongs to";
        fail_mismatch(at, &[derivative], component, expected, found, fix);
    }
}

/// The results of `f`, and their derivative along `tangents`: the product of the Jacobian and a vector.
///
/// `xs` and the results are any [`Tree`]; the tangents have the structure and the types of `xs`. The tangent of an
/// integer is not looked at. A result that does not depend on `xs`, or is no float, has a tangent of zeros.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, jvp};
///
/// let pushed = Graph::build("pushed", |g| {
///     let [x, v] = [g.input("x", "f64[]"), g.input("v", "f64[]")];
///     jvp(x, v, |x| x.square()).1
/// })?;
/// let inputs = [HostTensor::scalar(3f64), HostTensor::scalar(10f64)];
/// assert_eq!(evaluate(&pushed, &inputs)?[0], HostTensor::scalar(60f64));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn jvp<X: Tree, Y: Tree>(xs: X, tangents: X, f: impl FnOnce(X) -> Y) -> (Y, Y) {
    let at = Place::new("jvp", Site::caller());
    let leaves = tree::leaves(&xs, "x");
    let tangents = tree::leaves(&tangents, "x");
    check_tangents(&at, &leaves, &tangents);
    let dual = |((_, primal), (_, tangent)): (&(String, Value), &(String, Value))| Dual {
        primal: *primal,
        tangent: Some(*tangent).filter(|_| primal.dtype().is_float()),
    };
    let duals = leaves.iter().zip(&tangents).map(dual).collect();
    let (closed, ys) = trace_function(&at, &leaves, &xs, f);
    let pushed = closed.and_then(|function| pushed(&at, &function, duals));
    let (values, tangents) = pushed.unwrap_or_default();
    (tree::rebuild(&ys, &values), tree::rebuild(&ys, &tangents))
}

/// Tangents have the types of the leaves.
pub(super) fn check_tangents(at: &Place, leaves: &[(String, Value)], tangents: &[(String, Value)]) {
    if leaves.len() != tangents.len() {
        let (expected, found) = (format!("{} leaves", leaves.len()), format!("{} leaves", tangents.len()));
        let fix = "give one tangent for each leaf";
        fail_mismatch(at, &[], "the structure of the tangents", expected, found, fix);
    }
    for ((name, value), (_, tangent)) in leaves.iter().zip(tangents) {
        check_same_type(at, &format!("the tangent of leaf `{name}`"), *value, *tangent);
    }
}

/// The results of a function of these leaves, and their tangents.
fn pushed(at: &Place, function: &ClosedBody, leaves: Vec<Dual>) -> Result<(Vec<Value>, Vec<Value>), Failed> {
    let captured = function.captures.iter().map(|value| Dual::constant(*value));
    let inputs: Vec<Dual> = leaves.into_iter().chain(captured).collect();
    let (mut values, ()) = derived(at, || {
        let results = push_forward(&function.graph, &inputs)?;
        let tangents = results.iter().map(Dual::tangent_or_zeros);
        Ok((primals(&results).into_iter().chain(tangents).collect(), ()))
    })?;
    let tangents = values.split_off(function.graph.outputs().len());
    Ok((values, tangents))
}

/// The derivative of the gradient of `loss` along `vs`: the product of the Hessian and a vector, without the Hessian.
#[track_caller]
pub fn hvp<X: Tree>(xs: X, vs: X, loss: impl FnOnce(X) -> Value) -> X {
    let zeros = GradOptions::new().disconnected(Disconnected::Zeros);
    jvp(xs, vs, |xs| grad_with(zeros, xs, loss)).1
}

/// The Jacobian of `f`, whose shape is that of the result and then that of `x`: by forward mode along all axes at once.
#[track_caller]
pub fn jacobian(x: Value, f: impl FnOnce(Value) -> Value) -> Value {
    check_float(&Place::new("jacobian", Site::caller()), "x", x);
    if x.is_failed() {
        return x;
    }
    let (shape, dtype) = (x.shape(), x.dtype());
    let count = shape.elements();
    let numbers = iota(&count, DType::I64);
    let one_hot = numbers.unsqueeze(1).eq(numbers.unsqueeze(0)).cast(dtype);
    let basis = one_hot.reshape(shape.with_leading(count));
    let columns = vmap(basis, |direction| jvp(x, direction, f).1);
    let rows = columns.move_axis(0, -1);
    if rows.is_failed() {
        return rows;
    }
    let of_result = rows.shape();
    let dims: Vec<Dim> = of_result.dims()[..of_result.rank() - 1].iter().chain(shape.dims()).cloned().collect();
    rows.reshape(Shape::from(dims))
}

/// The Hessian of `loss`, a float scalar: second derivatives by each pair of elements of `x`.
#[track_caller]
pub fn hessian(x: Value, loss: impl FnOnce(Value) -> Value) -> Value {
    let zeros = GradOptions::new().disconnected(Disconnected::Zeros);
    jacobian(x, |x| grad_with(zeros, x, loss))
}

/// What `f` gives. In reverse mode nothing that it computes is kept: the backward pass computes it again.
///
/// The results are any [`Tree`]; the closure captures what it needs.
#[track_caller]
pub fn checkpoint<Y: Tree>(f: impl Fn() -> Y) -> Y {
    // A choice without an alternative: its reverse rule computes the branch again.
    switch(constant(HostTensor::scalar(0i64)), [&f])
}

/// Traces `f` on these leaves: its graph, whose inputs are the leaves and what it captures, and what it gave.
pub(super) fn trace_function<X: Tree, Y: Tree>(
    at: &Place,
    leaves: &[(String, Value)],
    xs: &X,
    f: impl FnOnce(X) -> Y,
) -> (Result<ClosedBody, Failed>, Y) {
    let (trace, values) = open_function(at, leaves);
    let ys = f(tree::rebuild(xs, &values));
    let closed = trace.close(&tree::leaves(&ys, "y"));
    (check(&at.op, at.site, leaves.iter().map(|(_, value)| *value)).and(closed), ys)
}

fn open_function(at: &Place, leaves: &[(String, Value)]) -> (BodyTrace, Vec<Value>) {
    let params: Vec<(String, TensorType)> = leaves.iter().map(|(name, value)| (name.clone(), value.ty())).collect();
    BodyTrace::open(at, "", &params)
}

/// Traces a derivative on its own, leaves out what is not needed, and adds the rest to the open trace.
/// `f` may give something beside it.
pub(super) fn derived<T>(
    at: &Place,
    f: impl FnOnce() -> Result<(Vec<Value>, T), Failed>,
) -> Result<(Vec<Value>, T), Failed> {
    let (trace, _) = BodyTrace::open(at, "", &[]);
    let (values, beside) = at_site(at.site, f)?;
    Ok((add_pruned(trace, &values)?, beside))
}

/// Closes a trace with these results, leaves out what is not needed, and adds the rest to the enclosing one.
fn add_pruned(trace: BodyTrace, results: &[Value]) -> Result<Vec<Value>, Failed> {
    let named = results.iter().enumerate().map(|(index, value)| (format!("r{index}"), *value));
    let closed = trace.close(&named.collect::<Vec<_>>())?;
    inline(&closed.graph.pruned(), &closed.captures)
}
