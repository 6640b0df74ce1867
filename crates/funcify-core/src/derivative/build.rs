//! Derivatives of closures inside a trace: `grad(xs, |xs| loss)` and similar functions.

use super::disconnected::disconnected;
use super::*;
use crate::host::HostTensor;
use crate::ops::switch::switch;
use crate::tree;
use crate::value::constant;
use crate::vmap::vmap;

/// The behaviour for inputs that the result does not depend on: an error, or a gradient of zeros.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Disconnected, Error, GradOptions, Graph, evaluate};
///
/// let square = Graph::build("square", |g| {
///     g.input("unused", "f64[]");
///     g.input("x", "f64[]").square()
/// })?;
/// assert!(matches!(square.grad(.., GradOptions::new()), Err(Error::Disconnected { .. })));
/// let gradients = square.grad(.., GradOptions::new().disconnected(Disconnected::Zeros))?;
/// assert_eq!(evaluate(&gradients, &[1f64.into(), 3f64.into()])?, [0f64.into(), 6f64.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Disconnected {
    /// Reports [`Error::Disconnected`](crate::Error::Disconnected), because differentiating with respect to a
    /// disconnected input is usually a mistake.
    #[default]
    Error,
    /// Returns zeros of the input's type.
    Zeros,
}

/// Options for computing gradients, such as the checkpoint policy and the treatment of disconnected inputs.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{CheckpointPolicy, GradOptions, Graph, evaluate};
///
/// let both = Graph::build("both", |g| {
///     let x = g.input("x", "f64[]");
///     (x.square(), x.exp())
/// })?;
/// let gradient = both.grad("x", GradOptions::new().of("out_0").policy(CheckpointPolicy::SaveAll))?;
/// assert_eq!(evaluate(&gradient, &[3f64.into()])?, [6f64.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GradOptions {
    pub(super) disconnected: Disconnected,
    pub(super) of: Option<String>,
    pub(super) vjp_options: VjpOptions,
}

impl GradOptions {
    /// Creates the default options: a disconnected input is an error.
    pub fn new() -> Self {
        GradOptions::default()
    }

    /// Sets the behaviour for inputs that the result does not depend on: an error, or a gradient of zeros.
    pub fn disconnected(mut self, disconnected: Disconnected) -> Self {
        self.disconnected = disconnected;
        self
    }

    /// Sets the checkpoint policy of loops that do not specify their own.
    pub fn policy(mut self, policy: CheckpointPolicy) -> Self {
        self.vjp_options.policy = policy;
        self
    }

    /// Sets whether associative scans are differentiated step by step, like loops, even if a derivative of logarithmic
    /// depth is known. Compiled loops do less work this way, so the plug-ins set this option when they compile loops.
    pub fn stepwise(mut self, stepwise: bool) -> Self {
        self.vjp_options.stepwise = stepwise;
        self
    }

    /// Selects the output to use as the loss of a graph with several outputs.
    pub fn of(mut self, output: &str) -> Self {
        self.of = Some(output.to_string());
        self
    }
}

/// Computes the gradient of `loss`, a float scalar, with respect to each leaf of `xs`. Each gradient has the type of
/// its leaf.
///
/// `xs` can be any [`Tree`] of floats. Values that the closure captures from the enclosing graph are treated as
/// constants. The gradient is part of the program, and can itself be differentiated, batched, and used in loops. A
/// leaf that the loss does not depend on is an error; [`grad_with`] can return zeros instead.
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

/// Like [`grad`], but takes options.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Disconnected, GradOptions, Graph, evaluate, grad_with};
///
/// let gradients = Graph::build("gradients", |g| {
///     let options = GradOptions::new().disconnected(Disconnected::Zeros);
///     grad_with(options, (g.input("x", "f64[]"), g.input("unused", "f64[]")), |(x, _)| x.square())
/// })?;
/// assert_eq!(evaluate(&gradients, &[3f64.into(), 1f64.into()])?, [6f64.into(), 0f64.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn grad_with<X: Tree>(options: GradOptions, xs: X, loss: impl FnOnce(X) -> Value) -> X {
    gradient(&Place::new("grad", Site::caller()), &options, xs, loss).1
}

/// Computes the loss and its gradient. See [`grad`].
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, value_and_grad};
///
/// let both = Graph::build("both", |g| value_and_grad(g.input("x", "f64[]"), |x| x.square()))?;
/// assert_eq!(evaluate(&both, &[3f64.into()])?, [9f64.into(), 6f64.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
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

/// Checks that the loss is a float scalar.
pub(super) fn check_loss(at: &Place, component: &str, loss: Value) {
    let ty = loss.ty();
    if !loss.is_failed() && (!ty.dtype.is_float() || ty.rank() != 0) {
        let fix = "reduce it with `sum(..)` or `mean(..)`; `vjp` takes results of any shape, with cotangents";
        fail_mismatch(at, &[loss], component, "a float scalar", &ty, fix);
    }
}

/// Computes the results of `f`, and the vector-Jacobian product: the cotangents of `xs` for given cotangents of the
/// results. `cotangents` receives the results and returns their cotangents.
///
/// `xs` and the results can be any [`Tree`]; the cotangents have the structure and the types of the results. Cotangents
/// of integer results are ignored. It is an error if a leaf of `xs` is not a float, or if the results do not depend on
/// it.
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

/// Like [`vjp`], but takes options.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{CheckpointPolicy, GradOptions, Graph, evaluate, vjp_with};
///
/// let both = Graph::build("both", |g| {
///     let options = GradOptions::new().policy(CheckpointPolicy::SaveAll);
///     vjp_with(options, g.input("x", "f64[2]"), |x| x.square(), |y| y.ones_like())
/// })?;
/// assert_eq!(evaluate(&both, &[[3f64, 4.0].into()])?, [[9f64, 16.0].into(), [6f64, 8.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
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

/// A reverse sweep in progress. The differentiated function is recorded in a separate trace, which stays open until the
/// cotangents of the results are known.
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
        let tape = at_site(at.site, || Tape::record(&function.graph, &inputs, &wrt, &options.vjp_options))?;
        Ok(Sweep { at, options, leaves, function: &function.graph, trace, results: tape.outputs()?, tape })
    }

    /// Closes the trace. Returns the results of the function and the cotangents of the leaves.
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
        let fix = "let the closure capture it instead: only floats have derivatives";
        fail_mismatch(at, &[value], format!("leaf `{name}`"), "a float tensor", &ty, fix);
    }
}

/// Checks that each result has one cotangent, with the type of the result.
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
        let fix = "give it the type of the corresponding value";
        fail_mismatch(at, &[derivative], component, expected, found, fix);
    }
}

/// Computes the results of `f`, and the Jacobian-vector product: the derivatives of the results along `tangents`.
///
/// `xs` and the results can be any [`Tree`]; the tangents have the structure and the types of `xs`. Tangents of
/// integers are ignored. A result that does not depend on `xs`, or is not a float, has a zero tangent.
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
    let pushed = closed.and_then(|function| push_tangents(&at, &function, duals));
    let (values, tangents) = pushed.unwrap_or_default();
    (tree::rebuild(&ys, &values), tree::rebuild(&ys, &tangents))
}

/// Checks that each leaf has one tangent, with the type of the leaf.
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

/// Applies a traced function to leaves with tangents. Returns the function's results with their tangents.
fn push_tangents(at: &Place, function: &ClosedBody, leaves: Vec<Dual>) -> Result<(Vec<Value>, Vec<Value>), Failed> {
    let captured = function.captures.iter().map(|value| Dual::constant(*value));
    let inputs: Vec<Dual> = leaves.into_iter().chain(captured).collect();
    let (mut values, ()) = derive_separately(at, || {
        let results = push_forward(&function.graph, &inputs)?;
        let tangents = results.iter().map(Dual::tangent_or_zeros);
        Ok((primals(&results).into_iter().chain(tangents).collect(), ()))
    })?;
    let tangents = values.split_off(function.graph.outputs().len());
    Ok((values, tangents))
}

/// Computes the Hessian-vector product: the derivative of the gradient of `loss` along `vs`, without building the
/// Hessian.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, hvp};
///
/// let product = Graph::build("product", |g| {
///     hvp(g.input("x", "f64[2]"), g.input("v", "f64[2]"), |x| (x * x * x).sum(..))
/// })?;
/// let results = evaluate(&product, &[[1f64, 2.0].into(), [10f64, 1.0].into()])?;
/// assert_eq!(results, [[60f64, 12.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn hvp<X: Tree>(xs: X, vs: X, loss: impl FnOnce(X) -> Value) -> X {
    let zeros = GradOptions::new().disconnected(Disconnected::Zeros);
    jvp(xs, vs, |xs| grad_with(zeros, xs, loss)).1
}

/// Computes the Jacobian of `f`. The shape of the Jacobian is the shape of the result followed by the shape of `x`.
/// Runs forward mode for all basis vectors in one batch.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, jacobian};
///
/// let squares = Graph::build("squares", |g| jacobian(g.input("x", "f64[2]"), |x| x.square()))?;
/// assert_eq!(evaluate(&squares, &[[3f64, 4.0].into()])?, [[[6f64, 0.0], [0.0, 8.0]].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
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

/// Computes the Hessian of `loss`, a float scalar: its second derivatives with respect to each pair of elements of
/// `x`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, hessian};
///
/// let cubes = Graph::build("cubes", |g| hessian(g.input("x", "f64[2]"), |x| (x * x * x).sum(..)))?;
/// assert_eq!(evaluate(&cubes, &[[1f64, 2.0].into()])?, [[[6f64, 0.0], [0.0, 12.0]].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn hessian(x: Value, loss: impl FnOnce(Value) -> Value) -> Value {
    let zeros = GradOptions::new().disconnected(Disconnected::Zeros);
    jacobian(x, |x| grad_with(zeros, x, loss))
}

/// Returns the results of `f`. Reverse mode recomputes `f` in the backward pass instead of saving its intermediate
/// values.
///
/// `f` may return any [`Tree`]. The inputs of `f` are the values that it captures.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, checkpoint, evaluate, grad};
///
/// let slope = Graph::build("slope", |g| grad(g.input("x", "f64[]"), |x| checkpoint(|| x.exp().exp())))?;
/// assert_eq!(evaluate(&slope, &[0f64.into()])?, [1f64.exp().into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn checkpoint<Y: Tree>(f: impl Fn() -> Y) -> Y {
    // The reverse rule of a switch recomputes the branch, so a switch with a single branch is a checkpoint.
    switch(constant(HostTensor::scalar(0i64)), [&f])
}

/// Traces `f` with the given leaves as parameters. Returns the traced graph and the result of `f`. The inputs of the
/// graph are the leaves, followed by the captured values.
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

/// Runs `f`, which computes a derivative, in a separate trace. Removes dead nodes, and adds the remaining nodes to the
/// open graph. Returns the values that `f` returned, translated to the open graph, and the second result of `f`
/// unchanged.
pub(super) fn derive_separately<T>(
    at: &Place,
    f: impl FnOnce() -> Result<(Vec<Value>, T), Failed>,
) -> Result<(Vec<Value>, T), Failed> {
    let (trace, _) = BodyTrace::open(at, "", &[]);
    let (values, beside) = at_site(at.site, f)?;
    Ok((add_pruned(trace, &values)?, beside))
}

/// Closes a trace with the given results, removes its dead nodes, and adds the remaining nodes to the enclosing trace.
/// Returns the results as values of the enclosing trace.
fn add_pruned(trace: BodyTrace, results: &[Value]) -> Result<Vec<Value>, Failed> {
    let named = results.iter().enumerate().map(|(index, value)| (format!("r{index}"), *value));
    let closed = trace.close(&named.collect::<Vec<_>>())?;
    inline(&closed.graph.pruned(), &closed.captures)
}
