//! Batching of closures, `vmap(xs, |x| y)`, and of complete graphs, `Graph::vmap`.

use super::ragged::reject_ragged_outputs;
use super::{Batched, inline};
use crate::error::{Error, Place, Result, Site};
use crate::graph::tracer::{self, BodyTrace, ClosedBody};
use crate::graph::{Failed, Graph, Output, at_site, fail, fail_value};
use crate::tree::{self, Named, Tree};
use crate::types::{Dim, TensorType};
use crate::value::Value;

/// Options that select the batch axes of [`vmap_with`] and [`Graph::vmap`].
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, VmapOptions};
///
/// let one = Graph::build("one", |g| g.input("x", "f32[3]") * g.input("scale", "f32[]"))?;
/// let all = one.vmap("B", VmapOptions::new().in_axes([Some(1), None]).out_axis(-1))?;
/// assert_eq!(all.input_type(0).to_string(), "f32[3,B]");
/// assert_eq!(all.output_type(0).to_string(), "f32[3,B]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VmapOptions {
    in_axes: InAxes,
    out_axis: i64,
}

/// The batch axes of the leaves that [`vmap_with`] maps over, or of the inputs of a graph in [`Graph::vmap`].
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::vmap::InAxes;
///
/// assert!(matches!(InAxes::from(1), InAxes::All(1)));
/// assert!(matches!(InAxes::from([Some(0), None]), InAxes::Each(_)));
/// assert!(matches!(InAxes::from([("x", 0)]), InAxes::Named(_)));
/// ```
#[derive(Clone, Debug)]
pub enum InAxes {
    /// The same axis for all leaves.
    All(i64),
    /// An axis for each leaf, in order. A leaf with `None` is shared by all lanes.
    Each(Vec<Option<i64>>),
    /// An axis for each named leaf. The other leaves are shared by all lanes. The leaves of a [`Graph`] are its
    /// inputs.
    Named(Vec<(String, i64)>),
}

impl Default for InAxes {
    fn default() -> Self {
        InAxes::All(0)
    }
}

impl From<i64> for InAxes {
    fn from(axis: i64) -> Self {
        InAxes::All(axis)
    }
}

impl<const N: usize> From<[Option<i64>; N]> for InAxes {
    fn from(axes: [Option<i64>; N]) -> Self {
        InAxes::Each(axes.to_vec())
    }
}

impl From<&[Option<i64>]> for InAxes {
    fn from(axes: &[Option<i64>]) -> Self {
        InAxes::Each(axes.to_vec())
    }
}

impl<const N: usize> From<[(&str, i64); N]> for InAxes {
    fn from(axes: [(&str, i64); N]) -> Self {
        InAxes::Named(axes.map(|(name, axis)| (name.to_string(), axis)).to_vec())
    }
}

impl From<Vec<(String, i64)>> for InAxes {
    fn from(axes: Vec<(String, i64)>) -> Self {
        InAxes::Named(axes)
    }
}

impl From<Vec<Option<i64>>> for InAxes {
    fn from(axes: Vec<Option<i64>>) -> Self {
        InAxes::Each(axes)
    }
}

impl VmapOptions {
    /// Creates the default options: the batch axis is axis 0 of each leaf and of each result.
    pub fn new() -> Self {
        VmapOptions::default()
    }

    /// Sets the batch axes: one number for all leaves, an `Option` for each leaf, or a list such as `[("x", 0), ("y",
    /// 1)]` that names the leaves to batch. Negative axes count from the end.
    pub fn in_axes(mut self, axes: impl Into<InAxes>) -> Self {
        self.in_axes = axes.into();
        self
    }

    /// Sets the batch axis of each result. A negative axis counts from the end.
    pub fn out_axis(mut self, axis: i64) -> Self {
        self.out_axis = axis;
        self
    }

    /// Returns the batch axis of each leaf as a nonnegative index, or `None` for a shared leaf. `rank` returns the rank
    /// of a leaf of the given type, including the batch axis.
    fn axes<'a>(
        &self,
        at: &Place,
        leaves: impl ExactSizeIterator<Item = (&'a str, &'a TensorType)>,
        rank: impl Fn(&TensorType) -> usize,
    ) -> Result<Vec<Option<usize>>> {
        let (count, leaves) = (leaves.len(), leaves.collect::<Vec<_>>());
        let axes = match &self.in_axes {
            InAxes::All(axis) => vec![Some(*axis); count],
            InAxes::Each(axes) => axes.clone(),
            InAxes::Named(named) => axes_by_name(at, named, &leaves)?,
        };
        if axes.len() != count {
            let (expected, found) = (format!("{count} axes, one for each leaf"), format!("{} axes", axes.len()));
            return Err(at.mismatch("`in_axes`", expected, found, "pass one `Option` per leaf, in order"));
        }
        if axes.iter().all(Option::is_none) {
            let fix = "map a leaf, or call the body without `vmap`";
            return Err(at.mismatch("`in_axes`", "at least one leaf with a batch axis", "none", fix));
        }
        let normal = |(axis, (name, ty)): (Option<i64>, (&str, &TensorType))| {
            let Some(axis) = axis else { return Ok(None) };
            if rank(ty) == 0 {
                let fix = "give the leaf a batch axis, or pass `None` in `in_axes` if all lanes share it";
                return Err(at.mismatch(format!("leaf `{name}`"), "rank 1 or more, for the batch axis", ty, fix));
            }
            normal_axis(axis, rank(ty)).map(Some).ok_or_else(|| bad_axis(at, name, axis, rank(ty), ty))
        };
        axes.into_iter().zip(leaves).map(normal).collect()
    }

    /// Moves the batch axis of a result to the position that the options request.
    fn move_batch_axis(&self, at: &Place, name: &str, result: Batched, size: &Dim) -> Value {
        let value = result.materialized(size);
        if value.is_failed() {
            return value;
        }
        match normal_axis(self.out_axis, value.rank()) {
            Some(_) => value.move_axis(0, self.out_axis),
            None => {
                let error = bad_axis(at, name, self.out_axis, value.rank(), &value.ty());
                fail_value(&at.op, at.site, &[value], |_| error)
            }
        }
    }
}

/// Returns the batch axis of each leaf: its axis in `named`, or `None` if `named` does not contain the leaf.
fn axes_by_name(at: &Place, named: &[(String, i64)], leaves: &[(&str, &TensorType)]) -> Result<Vec<Option<i64>>> {
    let mut axes = vec![None; leaves.len()];
    for (name, axis) in named {
        let index = leaves.iter().position(|(leaf, _)| leaf == name);
        let Some(slot) = index.map(|index| &mut axes[index]) else {
            let names: Vec<&str> = leaves.iter().map(|(leaf, _)| *leaf).collect();
            let expected = format!("names among {}", names.join(", "));
            return Err(at.mismatch("`in_axes`", expected, format!("`{name}`"), "use the name of a leaf"));
        };
        if slot.replace(*axis).is_some() {
            return Err(at.mismatch("`in_axes`", "each name once", format!("`{name}` twice"), "remove one of them"));
        }
    }
    Ok(axes)
}

fn normal_axis(axis: i64, rank: usize) -> Option<usize> {
    let normal = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(normal).ok().filter(|axis| *axis < rank)
}

fn bad_axis(at: &Place, name: &str, axis: i64, rank: usize, ty: &TensorType) -> Error {
    let (expected, found) = (format!("an axis below {rank}"), format!("axis {axis} of {ty}"));
    at.mismatch(format!("the batch axis of leaf `{name}`"), expected, found, "use an axis of the leaf")
}

/// Applies `body`, which is written for one lane, to all lanes of `xs` at once. The batch axis is axis 0 of each leaf
/// and of each result.
///
/// `xs` and the results can be any [`Tree`]. Values that the body captures from the enclosing graph are shared by all
/// lanes. The body is traced once. Each op in the body, including loops, becomes an op on all lanes. Values shared by
/// all lanes are computed once. A [`cond`](crate::cond) whose predicate differs between lanes runs both branches and
/// selects the result for each lane. A [`while_loop`](crate::while_loop) whose condition differs between lanes runs
/// until the last lane is done; a lane that is done keeps its carry.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, vmap};
///
/// let products = Graph::build("products", |g| {
///     let [xs, w] = [g.input("xs", "f32[B,2]"), g.input("w", "f32[2]")];
///     vmap(xs, |x| (x * w).sum(0))
/// })?;
/// let inputs = [HostTensor::from([[1f32, 2.], [3., 4.]]), HostTensor::from([10f32, 1.])];
/// assert_eq!(evaluate(&products, &inputs)?[0], HostTensor::from([12f32, 34.]));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn vmap<X: Tree, Y: Tree>(xs: X, body: impl FnOnce(X) -> Y) -> Y {
    vmap_with(VmapOptions::new(), xs, body)
}

/// Like [`vmap`], with batch axes selected by `options`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, VmapOptions, vmap_with};
///
/// let products = Graph::build("products", |g| {
///     let [a, b] = [g.input("a", "f32[3,B]"), g.input("b", "f32[3,2]")];
///     let options = VmapOptions::new().in_axes([Some(-1), None]).out_axis(-1);
///     vmap_with(options, (a, b), |(a, b)| a.matmul(b))
/// })?;
/// assert_eq!(products.output_type(0).to_string(), "f32[2,B]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn vmap_with<X: Tree, Y: Tree>(options: VmapOptions, xs: X, body: impl FnOnce(X) -> Y) -> Y {
    let at = Place::new("vmap", Site::caller());
    let leaves = tree::leaves(&xs, "x");
    let (size, values) = match lanes(&at, &options, &leaves) {
        Ok(lanes) => lanes,
        Err(failed) => return tree::rebuild_or_failed(&body(tree::rebuild_or_failed(&xs, Err(failed))), Err(failed)),
    };
    let (closed, ys) = trace_lane(&at, &values, &xs, body);
    let batched = closed.and_then(|ClosedBody { graph, captures }| {
        let mapped = values.into_iter().filter(|leaf| leaf.mapped);
        let inputs: Vec<Batched> = mapped.chain(captures.into_iter().map(Batched::unmapped)).collect();
        at_site(at.site, || {
            let results = inline(&graph, &size, &inputs)?.into_iter().zip(tree::leaves(&ys, "y"));
            reject_ragged_outputs(&graph, &at.op, at.site)?;
            Ok(results.map(|(result, (name, _))| options.move_batch_axis(&at, &name, result, &size)).collect())
        })
    });
    tree::rebuild_or_failed(&ys, batched)
}

/// Traces `body` on one lane of the given leaves. Returns the graph and the result of the body. The inputs of the graph
/// are one lane of each mapped leaf, followed by the values that `body` captures.
pub(crate) fn trace_lane<X: Tree, Y: Tree>(
    at: &Place,
    leaves: &[Batched],
    xs: &X,
    body: impl FnOnce(X) -> Y,
) -> (Result<ClosedBody, Failed>, Y) {
    let (trace, arguments) = open_lane(at, leaves, &tree::leaves(xs, "x"));
    let ys = body(tree::rebuild(xs, &arguments));
    (trace.close(&tree::leaves(&ys, "y")), ys)
}

/// Opens a trace of one lane. Returns the trace, and the value that represents each leaf in the trace: a parameter of
/// the trace for a mapped leaf, and the leaf itself for a shared one.
fn open_lane(at: &Place, leaves: &[Batched], names: &[(String, Value)]) -> (BodyTrace, Vec<Value>) {
    let mapped = names.iter().zip(leaves).filter(|(_, leaf)| leaf.mapped);
    let params: Vec<(String, TensorType)> =
        mapped.map(|((name, _), leaf)| (name.clone(), leaf.value.row_type())).collect();
    let (trace, lanes) = BodyTrace::open(at, "", &params);
    let mut lanes = lanes.into_iter();
    let argument = |leaf: &Batched| if leaf.mapped { lanes.next() } else { Some(leaf.value) };
    (trace, leaves.iter().filter_map(argument).collect())
}

/// Returns the number of lanes, and the leaves with their batch axes moved to the front.
fn lanes(at: &Place, options: &VmapOptions, leaves: &[(String, Value)]) -> Result<(Dim, Vec<Batched>), Failed> {
    let types: Vec<TensorType> = leaves.iter().map(|(_, value)| value.ty()).collect();
    let named = leaves.iter().zip(&types).map(|((name, _), ty)| (name.as_str(), ty));
    let all: Vec<Value> = leaves.iter().map(|(_, value)| *value).collect();
    let refused = |error: Error, about: &[Value]| {
        // If a leaf has failed, report the leaf's error instead of `error`.
        let earlier = tracer::check(&at.op, at.site, all.iter().copied()).err();
        earlier.unwrap_or_else(|| fail(&at.op, at.site, about, |_| error))
    };
    let axes = options.axes(at, named, TensorType::rank).map_err(|error| refused(error, &all))?;
    let mut first: Option<(&str, &Dim)> = None;
    for ((axis, (name, value)), ty) in axes.iter().zip(leaves).zip(&types) {
        let Some(axis) = axis else { continue };
        let size = &ty.shape[*axis];
        let (other, expected) = *first.get_or_insert((name.as_str(), size));
        if expected != size {
            let expected = format!("{expected} lanes along axis {axis}, like leaf `{other}`");
            let fix = "use the same number of lanes for all leaves, and `None` in `in_axes` for shared leaves";
            let error = at.mismatch(format!("leaf `{name}`"), expected, format!("{size} lanes in {ty}"), fix);
            return Err(refused(error, &[*value]));
        }
    }
    let size = first.map_or(Dim::from(0), |(_, size)| size.clone());
    let in_front = |(axis, (_, value)): (&Option<usize>, &(String, Value))| match axis {
        Some(axis) => Batched::mapped(value.move_axis(*axis as i64, 0)),
        None => Batched::unmapped(*value),
    };
    let values = at_site(at.site, || axes.iter().zip(leaves).map(in_front).collect());
    Ok((size, values))
}

impl Graph {
    /// Returns the graph batched over `lanes` lanes, for example `graph.vmap("B", VmapOptions::new())`. Inputs and
    /// outputs keep their names.
    ///
    /// The axes in `options` refer to the types of the batched graph, which include the batch axis. A static input that
    /// is batched is no longer static. If `lanes` is a symbol that the graph already uses, the number of lanes must
    /// equal the size that the symbol stands for.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, VmapOptions};
    ///
    /// let one = Graph::build("one", |g| g.input("x", "f32[3]").matmul(g.input("w", "f32[3,2]")))?;
    /// let all = one.vmap("B", VmapOptions::new().in_axes([("x", 0)]))?;
    /// assert_eq!(all.output_type(0).to_string(), "f32[B,2]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn vmap(&self, lanes: impl Into<Dim>, options: VmapOptions) -> Result<Graph> {
        let at = Place::new("vmap", Site::caller());
        self.checked()?;
        let lanes = lanes.into();
        let inputs = (0..self.inputs().len()).map(|index| (self.input_name(index), self.input_type(index)));
        let axes = options.axes(&at, inputs, |ty| ty.rank() + 1)?;
        tracer::rebuild(self, at.site, |_| {
            tracer::reserve_symbols(self);
            at_site(at.site, || {
                let input = |(index, axis): (usize, &Option<usize>)| {
                    let (name, ty) = (self.input_name(index), self.input_type(index));
                    let Some(axis) = axis else {
                        let is_static = self.inputs()[index].is_static;
                        return Batched::unmapped(tracer::input(name, ty.clone(), is_static, at.site));
                    };
                    let ty = ty.with_shape(ty.shape.with_inserted(*axis, lanes.clone()));
                    Batched::mapped(tracer::input(name, ty, false, at.site).move_axis(*axis as i64, 0))
                };
                let values: Vec<Batched> = axes.iter().enumerate().map(input).collect();
                let results = inline(self, &lanes, &values)?.into_iter().zip(self.outputs());
                reject_ragged_outputs(self, &at.op, at.site)?;
                let place = |(result, output): (Batched, &Output)| {
                    (output.name.clone(), options.move_batch_axis(&at, &output.name, result, &lanes))
                };
                Ok(Named(results.map(place).collect()))
            })
        })
    }
}
