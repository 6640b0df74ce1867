//! Linearisation: computes a function at a point, and its derivative at that point as a linear function that can be
//! applied many times.
//!
//! Reverse mode saves residuals for its backward pass, which is linear in the cotangents. The transpose of the backward
//! pass therefore maps tangents to tangents. The transpose needs only the residuals, and does not run the function
//! again. Nodes of the transpose that do not depend on the tangents are computed only once. JAX instead partially
//! evaluates the JVP. In funcify, partial evaluation would require splitting loops.

use std::collections::BTreeSet;

use super::build::{check_tangents, derive_separately, trace_function};
use super::linear::Transpose;
use super::*;
use crate::tree::{self, Named};

/// The derivative of a graph at a point, split into nodes that run once and nodes that run for each tangent.
pub(super) struct Split {
    /// The derivative. Its inputs are the tangents of the inputs in `wrt`, followed by values of the forward pass. It
    /// returns the tangents of the outputs.
    graph: Graph,
    /// The values of `graph` that are computed once and saved as residuals.
    saved: Vec<ValueId>,
    /// For each node, `true` if it is computed once per tangent.
    per_tangent: Vec<bool>,
    /// For each float output of the function, `true` if it depends on an input in `wrt`. `graph` returns tangents
    /// only for the outputs marked `true`.
    depends_on_inputs: Vec<bool>,
}

/// A recorded graph and its derivative, returned by [`Split::record`].
pub(super) struct RecordedSplit {
    /// The outputs of the recorded graph.
    pub(super) outputs: Vec<Value>,
    /// The residuals of the derivative.
    pub(super) saved: Vec<Value>,
    pub(super) split: Split,
}

impl Split {
    /// Adds a graph to the open graph, and splits the graph's derivative with respect to the inputs in `wrt`.
    /// `is_apart` is `true` if the derivative will be applied in a different trace.
    pub(super) fn record(
        at: &Place,
        graph: &Graph,
        inputs: &[Value],
        wrt: &[bool],
        vjp_options: &VjpOptions,
        is_apart: bool,
    ) -> Result<RecordedSplit, Failed> {
        let tape = Tape::record(graph, inputs, wrt, vjp_options)?;
        let is_float = |output: &&Output| graph.ty(output.value).dtype.is_float();
        let typed = |output: &Output| (output.name.clone(), graph.ty(output.value).clone());
        let floats: Vec<(String, TensorType)> = graph.outputs().iter().filter(is_float).map(typed).collect();
        let directions: Vec<usize> = (0..inputs.len()).filter(|index| wrt[*index]).collect();
        // The positions in `directions` of the inputs that receive a cotangent.
        let mut reached: Vec<usize> = Vec::new();
        let pull = trace_body(&at.op, "", &floats, |cotangents| {
            let has_cotangent: Vec<bool> = graph.outputs().iter().map(|output| is_float(&output)).collect();
            let pulled = tape.pull(&place_marked(&has_cotangent, cotangents.iter().copied()))?;
            reached.extend((0..directions.len()).filter(|place| pulled[directions[*place]].is_some()));
            let named = directions.iter().filter_map(|index| Some((format!("ct_{index}"), pulled[*index]?)));
            Ok(named.collect())
        })?;
        let direction = |index: &usize| (format!("tan_{}", graph.input_name(*index)), graph.input_type(*index).clone());
        let params: Vec<(String, TensorType)> = directions.iter().map(direction).collect();
        let absent = floats.iter().map(|_| None);
        let given: Vec<Option<Value>> = absent.chain(pull.captures.iter().copied().map(Some)).collect();
        let along = |tangents: &[Value]| reached.iter().map(|place| Some(tangents[*place])).collect();
        let Some(transpose) = Transpose::of(&pull.graph.pruned(), &given, &params, vjp_options, along)? else {
            let reason = "a rule of a `custom_vjp` in it is not linear in the cotangents";
            let fix = "use `vjp`, which does not need a linear rule";
            return Err(no_derivative(&at.op, &[], "the function", reason, fix));
        };
        let (split, saved) = Split::of(transpose, params.len(), is_apart)?;
        Ok(RecordedSplit { outputs: tape.outputs()?, saved, split })
    }

    /// Splits a transpose whose first `tangents` inputs are the tangents. Adds the nodes that do not depend on the
    /// tangents to the open graph, and returns the split with the saved values.
    fn of(transpose: Transpose, tangents: usize, is_apart: bool) -> Result<(Split, Vec<Value>), Failed> {
        let Transpose { graph, captures, passes: depends_on_inputs } = transpose;
        let count = graph.values().count();
        let (mut linear, mut fixed) = (vec![false; count], vec![false; count]);
        graph.inputs()[..tangents].iter().for_each(|input| linear[input.value.index()] = true);
        graph.inputs()[tangents..].iter().for_each(|input| fixed[input.value.index()] = true);
        let live = graph.live_nodes();
        let (mut once, mut per_tangent) = (vec![false; live.len()], vec![false; live.len()]);
        for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            per_tangent[index] = node.inputs.iter().any(|input| linear[input.index()]);
            // A node that binds a size must run only once.
            let depends = node.inputs.iter().any(|input| fixed[input.index()]) || node.op.binds().next().is_some();
            once[index] = depends && !per_tangent[index];
            node.outputs.iter().for_each(|output| linear[output.index()] = per_tangent[index]);
            node.outputs.iter().for_each(|output| fixed[output.index()] = once[index]);
        }
        // A value that depends on no input is constant, and is recomputed where it is used instead of being saved.
        let (mut used_once, mut used_per_tangent) = (vec![false; count], vec![false; count]);
        graph.outputs().iter().for_each(|output| used_per_tangent[output.value.index()] = true);
        for (index, node) in graph.nodes().iter().enumerate().rev().filter(|(index, _)| live[*index]) {
            let is_used = |flags: &[bool]| node.outputs.iter().any(|output| flags[output.index()]);
            if !once[index] && !per_tangent[index] {
                (once[index], per_tangent[index]) = (is_used(&used_once), is_used(&used_per_tangent));
            }
            for input in &node.inputs {
                used_once[input.index()] |= once[index];
                used_per_tangent[input.index()] |= per_tangent[index];
            }
        }
        let saved: Vec<ValueId> =
            graph.values().filter(|value| fixed[value.index()] && used_per_tangent[value.index()]).collect();
        let mut values = Replay::new(&graph, []);
        graph.inputs()[tangents..].iter().zip(&captures).for_each(|(input, value)| values.set(input.value, *value));
        let values = emit_marked_nodes(values, &graph, &once)?;
        let mut results = saved.iter().map(|id| values.value(*id)).collect::<Result<Vec<Value>>>()?;
        // For each size that a loop binds and the derivative uses, save a vector of that length, so that the loop is
        // not removed as dead code. If the derivative is a separate graph, save such a vector for every size that the
        // derivative uses, except the sizes in the types of the tangents.
        let sizes = sizes(&graph, tangents, &per_tangent);
        let sizes = sizes.iter().filter(|size| is_apart || size.name().starts_with('$'));
        results.extend(sizes.map(|symbol| iota(Dim::symbol(symbol), DType::U8)));
        Ok((Split { graph, saved, per_tangent, depends_on_inputs }, results))
    }

    /// Adds the tangents of the float outputs to the open graph and returns them. The tangent is `None` for an output
    /// that does not depend on the inputs in `wrt`.
    pub(super) fn apply(&self, tangents: &[Value], saved: &[Value]) -> Result<Vec<Option<Value>>, Failed> {
        let graph = &self.graph;
        let mut values = Replay::new(graph, tangents.iter().copied());
        self.saved.iter().zip(saved).for_each(|(id, value)| values.set(*id, *value));
        let values = emit_marked_nodes(values, graph, &self.per_tangent)?;
        Ok(place_marked(&self.depends_on_inputs, values.outputs()?))
    }
}

/// Returns the symbols that the nodes marked in `which` use, except those in the types of the first `tangents` inputs.
fn sizes(graph: &Graph, tangents: usize, which: &[bool]) -> BTreeSet<Symbol> {
    let mut symbols = BTreeSet::new();
    graph.visit_symbols(&mut |symbol| _ = symbols.insert(symbol.clone()));
    let dims = (0..tangents).flat_map(|index| graph.input_type(index).shape.dims());
    dims.flat_map(Dim::symbols).for_each(|symbol| _ = symbols.remove(symbol));
    let nodes = || graph.nodes().iter().zip(which).filter(|(_, which)| **which).map(|(node, _)| node);
    symbols.retain(|symbol| nodes().any(|node| uses_any(graph, node, &[symbol])));
    symbols
}

/// Adds the nodes of `graph` marked in `which` to the open graph, and their results to `values`.
fn emit_marked_nodes<'g>(
    values: Replay<'g, Value>,
    graph: &Graph,
    which: &[bool],
) -> Result<Replay<'g, Value>, Failed> {
    values.walk_marked(which, |_, node, operands| {
        let results = at_site(node.site, || emit(node.op.clone(), &operands))?;
        keep_names(graph, node, results.iter().copied());
        Ok(results)
    })
}

/// The derivative of a function at a point, returned by [`linearize`].
///
/// The map is valid only in the trace that created it, including the bodies of loops in that trace.
pub struct LinearMap<X, Y> {
    /// The leaves of the point `xs`, with their paths.
    leaves: Vec<(String, Value)>,
    /// The results of the function, in the structure that the function returned.
    ys: Y,
    results: Vec<Value>,
    saved: Vec<Value>,
    split: Result<Split, Failed>,
    of: std::marker::PhantomData<fn(X)>,
}

impl<X: Tree, Y: Tree> LinearMap<X, Y> {
    /// Computes the derivative of the results along `tangents`, which have the structure and the types of `xs`.
    ///
    /// Tangents of integers are ignored. A result that does not depend on `xs`, or is not a float, has a zero tangent.
    #[track_caller]
    pub fn apply(&self, tangents: X) -> Y {
        let at = Place::new("linearize", Site::caller());
        let given = tree::leaves(&tangents, "x");
        check_tangents(&at, &self.leaves, &given);
        let floats = self.leaves.iter().zip(&given).filter(|((_, value), _)| value.dtype().is_float());
        let floats: Vec<Value> = floats.map(|(_, (_, tangent))| *tangent).collect();
        let pushed = at_site(at.site, || {
            let mut pushed = self.split.as_ref().map_err(|failed| *failed)?.apply(&floats, &self.saved)?.into_iter();
            let tangent = |result: &Value| {
                let tangent = if result.dtype().is_float() { pushed.next().flatten() } else { None };
                tangent.unwrap_or_else(|| result.zeros_like())
            };
            Ok(self.results.iter().map(tangent).collect())
        });
        tree::rebuild_or_failed(&self.ys, pushed)
    }
}

/// Computes the results of `f` at `xs`, and the derivative of `f` at that point as a function of tangents, like JAX's
/// `linearize`.
///
/// This call computes `f` once. Each [`LinearMap::apply`] then evaluates only the derivative. Loops save all values
/// that their derivatives read; [`linearize_with`] can save fewer. Every op in `f` needs a reverse rule.
///
/// `xs` and the results can be any [`Tree`]. Values that the closure captures from the enclosing graph are treated as
/// constants.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, linearize};
///
/// let pushed = Graph::build("pushed", |g| {
///     let x = g.input("x", "f64[2]");
///     let (y, derivative) = linearize(x, |x| x.square() * x);
///     (y, derivative.apply(x.ones_like()), derivative.apply(x))
/// })?;
/// let results = evaluate(&pushed, &[HostTensor::from([1f64, 2.])])?;
/// assert_eq!(results[1], HostTensor::from([3f64, 12.]));
/// assert_eq!(results[2], HostTensor::from([3f64, 24.]));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn linearize<X: Tree, Y: Tree>(xs: X, f: impl FnOnce(X) -> Y) -> (Y, LinearMap<X, Y>) {
    let vjp_options = VjpOptions { policy: CheckpointPolicy::SaveAll, ..VjpOptions::default() };
    linearize_at(Place::new("linearize", Site::caller()), &vjp_options, xs, f)
}

/// Like [`linearize`], with options. Only [`GradOptions::policy`] and [`GradOptions::stepwise`] have an effect.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{CheckpointPolicy, GradOptions, Graph, evaluate, linearize_with};
///
/// let pushed = Graph::build("pushed", |g| {
///     let options = GradOptions::new().policy(CheckpointPolicy::Recompute);
///     let (_, derivative) = linearize_with(options, g.input("x", "f64[]"), |x| x.square());
///     derivative.apply(g.input("tangent", "f64[]"))
/// })?;
/// assert_eq!(evaluate(&pushed, &[3f64.into(), 10f64.into()])?, [60f64.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn linearize_with<X: Tree, Y: Tree>(options: GradOptions, xs: X, f: impl FnOnce(X) -> Y) -> (Y, LinearMap<X, Y>) {
    linearize_at(Place::new("linearize", Site::caller()), &options.vjp_options, xs, f)
}

fn linearize_at<X: Tree, Y: Tree>(
    at: Place,
    vjp_options: &VjpOptions,
    xs: X,
    f: impl FnOnce(X) -> Y,
) -> (Y, LinearMap<X, Y>) {
    let leaves = tree::leaves(&xs, "x");
    let (closed, ys) = trace_function(&at, &leaves, &xs, f);
    let count = tree::leaves(&ys, "y").len();
    let recorded = closed.and_then(|closed| {
        derive_separately(&at, || {
            let inputs: Vec<Value> = leaves.iter().map(|(_, value)| *value).chain(closed.captures.clone()).collect();
            let is_in_wrt = |(index, value): (usize, &Value)| index < leaves.len() && value.dtype().is_float();
            let flags: Vec<bool> = inputs.iter().enumerate().map(is_in_wrt).collect();
            let recorded = Split::record(&at, &closed.graph, &inputs, &flags, vjp_options, false)?;
            Ok(([recorded.outputs, recorded.saved].concat(), recorded.split))
        })
    });
    let (mut results, split) = match recorded {
        Ok((results, split)) => (results, Ok(split)),
        Err(failed) => (or_failed(Err(failed), count), Err(failed)),
    };
    let saved = results.split_off(count);
    let (ys, kept) = (tree::rebuild(&ys, &results), tree::rebuild(&ys, &results));
    (ys, LinearMap { leaves, ys: kept, results, saved, split, of: std::marker::PhantomData })
}

impl Graph {
    /// Returns two graphs: this graph with the residuals of its derivative as additional outputs, and the derivative
    /// as a linear graph.
    ///
    /// The first graph has the inputs and outputs of this graph, and additional outputs `residual_0`, `residual_1`
    /// and so on. The second has an input `tan_x` for each input `x` in `wrt`, followed by the residuals, and an
    /// output `tan_y` for each output `y` of a float type. The second graph is linear in the inputs `tan_x`. An
    /// output that does not depend on the inputs in `wrt` has a zero tangent.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{GradOptions, Graph, HostTensor, evaluate};
    ///
    /// let cube = Graph::build("cube", |g| {
    ///     let x = g.input("x", "f64[]");
    ///     x.square() * x
    /// })?;
    /// let (forward, linear) = cube.linearize(.., GradOptions::new())?;
    /// let mut results = evaluate(&forward, &[HostTensor::scalar(2f64)])?;
    /// let residuals = results.split_off(1);
    /// let arguments = [&[HostTensor::scalar(10f64)], residuals.as_slice()].concat();
    /// assert_eq!(evaluate(&linear, &arguments)?[0], HostTensor::scalar(120f64));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn linearize(&self, wrt: impl Into<Wrt>, options: GradOptions) -> Result<(Graph, Graph)> {
        let at = Place::new("linearize", Site::caller());
        let wrt = wrt.into();
        let mut split = None;
        let forward = self.derive(&at, &wrt, |inputs, flags| {
            let recorded = Split::record(&at, self, inputs, flags, &options.vjp_options, true)?;
            split = Some(recorded.split);
            let residuals = recorded.saved.into_iter().enumerate();
            let residuals = residuals.map(|(index, value)| (format!("residual_{index}"), value));
            Ok(self.named_outputs(recorded.outputs).into_iter().chain(residuals).collect())
        })?;
        let split = split.ok_or_else(|| forward.undefined_value_error("the derivative".into()))?;
        let flags = self.wrt_flags(&at, &wrt)?;
        let linear = tracer::rebuild(self, at.site, |_| {
            tracer::reserve_symbols(&forward);
            let tangent = |index: usize| (format!("tan_{}", self.input_name(index)), self.input_type(index).clone());
            let tangents = (0..flags.len()).filter(|index| flags[*index]).map(tangent);
            let residual = |index: usize| (forward.outputs()[index].name.clone(), forward.output_type(index).clone());
            let residuals = (self.outputs().len()..forward.outputs().len()).map(residual);
            let declare = |(name, ty): (String, TensorType)| tracer::input(&name, ty, false, at.site);
            let tangents: Vec<Value> = tangents.map(declare).collect();
            let residuals: Vec<Value> = residuals.map(declare).collect();
            at_site(at.site, || {
                let floats = self.outputs().iter().filter(|output| self.ty(output.value).dtype.is_float());
                let named = floats.zip(split.apply(&tangents, &residuals)?).map(|(output, tangent)| {
                    let ty = self.ty(output.value);
                    let tangent = tangent.unwrap_or_else(|| full(ty.shape.clone(), ty.dtype, 0.0));
                    (format!("tan_{}", output.name), tangent)
                });
                Ok(Named(named.collect()))
            })
        })?;
        linear.checked()?;
        Ok((forward, linear))
    }
}
