//! Batching: turns a graph for one lane into a graph for many lanes.
//!
//! Each op has a batching rule, [`OpRules::batch`], in addition to its type rule. Inside a batched graph, the batch
//! axis is axis 0 of each batched value. The entry points, [`vmap`], [`vmap_with`] and
//! [`Graph::vmap`](crate::Graph::vmap), move the batch axis of each input to the front, and the batch axis of each
//! result to the position that the user selects. Values that are the same for all lanes are computed once. The
//! semantics match JAX's `vmap`.

mod build;
pub(crate) mod ragged;

pub(crate) use build::trace_lane;
pub use build::{InAxes, VmapOptions, vmap, vmap_with};

use crate::error::{Result, Site};
use crate::graph::tracer::{check, keep_names, lane_masks, remove_size_by_lane, update_size_by_lane, with_lane_mask};
use crate::graph::{Bounds, Failed, Graph, Node, Replay, at_site, emit, emit_value, integer_bounds};
use crate::ops::{Op, OpRules, Select};
use crate::types::{Dim, TensorType};
use crate::value::Value;

/// A value of a batched graph. It either has one slice per lane along axis 0, or is shared by all lanes.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::vmap::Batched;
/// use funcify::{Dim, Graph};
///
/// let graph = Graph::build("lanes", |g| {
///     let shared = Batched::unmapped(g.input("x", "f32[3]"));
///     assert_eq!(shared.lane_rank(), 1);
///     shared.materialized(&Dim::from(2))
/// })?;
/// assert_eq!(graph.output_type(0).to_string(), "f32[2,3]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Batched {
    /// The value.
    pub value: Value,
    /// `true` if axis 0 is the batch axis, `false` if the value is shared by all lanes.
    pub mapped: bool,
}

impl Batched {
    /// Creates a batched value with one slice per lane along axis 0.
    pub fn mapped(value: Value) -> Self {
        Batched { value, mapped: true }
    }

    /// Creates a batched value that is shared by all lanes.
    pub fn unmapped(value: Value) -> Self {
        Batched { value, mapped: false }
    }

    /// Returns the rank of the value in one lane.
    pub fn lane_rank(&self) -> usize {
        self.value.rank().saturating_sub(usize::from(self.mapped))
    }

    /// Returns the value with a batch axis of size `size` as axis 0. A shared value is broadcast along this axis.
    pub fn materialized(&self, size: &Dim) -> Value {
        match self.mapped {
            true => self.value,
            false => self.value.broadcast_to(self.value.shape().with_inserted(0, size.clone())),
        }
    }

    /// Adds the batch axis if `mapped` is `true`, unless the value already has it.
    pub(crate) fn materialized_if(self, mapped: bool, size: &Dim) -> Self {
        if mapped { Batched::mapped(self.materialized(size)) } else { self }
    }
}

/// Returns the type of a batched value, given its type in one lane. A ragged dimension is padded to its largest size
/// over all lanes. If the value is mapped, a batch axis is added.
pub(crate) fn lanes_type(ty: &TensorType, mapped: bool, size: &Dim) -> TensorType {
    let ty = ragged::padded_shape(&ty.shape).map_or_else(|| ty.clone(), |shape| ty.with_shape(shape));
    if mapped { ty.stacked(size) } else { ty }
}

/// Selects `yes` in the lanes where the mask is `true`, and `no` in all other lanes. The mask contains one boolean per
/// lane.
pub(crate) fn select_lanes(mask: Value, size: &Dim, yes: Batched, no: Batched) -> Batched {
    let (yes, no) = (yes.materialized(size), no.materialized(size));
    let others = std::iter::repeat_n(Dim::from(1), yes.rank().saturating_sub(1));
    let dims: Vec<Dim> = std::iter::once(size.clone()).chain(others).collect();
    let mask = mask.reshape(dims).broadcast_to(yes.shape());
    Batched::mapped(emit_value(Select, &[mask, yes, no], Site::Unknown))
}

/// Stops the gradient of a value in the lanes where the mask is `false`. Without batching, the ops that use the value
/// would not run for these lanes, and their derivatives may be undefined there.
pub(crate) fn guarded(mask: Value, size: &Dim, value: Batched) -> Batched {
    if !value.value.dtype().is_float() {
        return value;
    }
    let stopped = Batched { value: value.value.stop_gradient(), ..value };
    select_lanes(mask, size, value, stopped)
}

/// Adds the live nodes of `graph` to the open graph, batched over `size` lanes. Returns the outputs. Nodes without
/// mapped operands are added unchanged.
#[doc(hidden)]
pub fn inline(graph: &Graph, size: &Dim, inputs: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let graph = &*graph.with_free_symbols();
    let replayed = Replay::new(graph, inputs.iter().copied()).walk_live(|_, node, operands| {
        node.op.binds().for_each(remove_size_by_lane);
        let results = at_site(node.site, || match ragged::ragged_symbol_of_node(graph, node) {
            None => batch_node(&node.op, size, &operands),
            Some(symbol) => checked_all(&node.op, ragged::batch(graph, node, &symbol, size, &operands)?),
        })?;
        bound_sizes(graph, node);
        keep_names(graph, node, results.iter().map(|result| result.value));
        Ok::<_, Failed>(results)
    })?;
    Ok(replayed.outputs()?)
}

/// Records the bounds on the number that a node binds as a size, if they follow from the ops that compute the number.
fn bound_sizes(graph: &Graph, node: &Node) {
    let Some(number) = node.op.bound_to_number() else { return };
    let Bounds { low, high } = integer_bounds(graph, node.inputs[0]);
    // Lanes that do not run the op have size 0.
    let low = low.filter(|_| lane_masks().is_empty()).and_then(|low| usize::try_from(low).ok());
    let high = high.and_then(|high| usize::try_from(high).ok());
    for symbol in node.op.binds() {
        update_size_by_lane(symbol, |size| {
            size.at_most = high.map_or(size.at_most.take(), |high| Some(Dim::from(high)));
            // A loop that ends early may run fewer steps than the number.
            size.at_least = low.filter(|_| symbol == number).unwrap_or(size.at_least);
        });
    }
}

/// Like [`inline`], for a body that runs only in the lanes where `mask` is `true`. In all other lanes, the sizes that
/// the body binds are 0.
pub(crate) fn inline_where(
    mask: Option<Value>,
    graph: &Graph,
    size: &Dim,
    inputs: &[Batched],
) -> Result<Vec<Batched>, Failed> {
    match mask {
        Some(mask) => with_lane_mask(mask, || inline(graph, size, inputs)),
        None => inline(graph, size, inputs),
    }
}

/// Applies the batching rule of an op, or adds the op unchanged if no operand is mapped. Fails if an operand or a
/// result has failed.
fn batch_node(op: &Op, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let operands = checked_all(op, operands)?;
    if operands.iter().all(|operand| !operand.mapped) {
        let mut values: Vec<Value> = operands.iter().map(|operand| operand.value).collect();
        if let Op::BindSize(_) = op {
            values = values.into_iter().map(ragged::count_if_any_runs).collect();
        }
        return Ok(emit(op.clone(), &values)?.into_iter().map(Batched::unmapped).collect());
    }
    checked_all(op, op.batch(size, operands)?)
}

/// Returns the values, or an error if one of them has failed.
fn checked_all<V: AsRef<[Batched]>>(op: &Op, values: V) -> Result<V, Failed> {
    check(op.name(), Site::Unknown, values.as_ref().iter().map(|value| value.value)).map(|()| values)
}
