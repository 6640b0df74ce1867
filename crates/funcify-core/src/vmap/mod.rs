//! Batching: a program on one lane becomes a program on many.
//!
//! Each op has a rule, [`OpRules::batch`], beside its type rule. Lanes lie along axis 0
//! of a value inside of a batched program; the entry points, [`vmap`], [`vmap_with`] and
//! [`Graph::vmap`](crate::Graph::vmap), move the axes that the user names there and back. What no lane differs in is
//! computed once. The meaning is that of JAX's `vmap`.

mod build;
pub(crate) mod ragged;

pub(crate) use build::trace_lane;
pub use build::{InAxes, VmapOptions, vmap, vmap_with};

use crate::error::{Result, Site};
use crate::graph::tracer::{check, keep_names, remove_size_by_lane, where_running};
use crate::graph::{Failed, Graph, Replay, at_site, emit, emit_value};
use crate::ops::{Op, OpRules, Select};
use crate::types::{Dim, TensorType};
use crate::value::Value;

/// A value of a batched program: one slice a lane along axis 0, or the same for all lanes.
#[derive(Clone, Copy, Debug)]
pub struct Batched {
    /// The value.
    pub value: Value,
    /// Whether axis 0 is that of the lanes.
    pub mapped: bool,
}

impl Batched {
    /// A value with one slice a lane along axis 0.
    pub fn mapped(value: Value) -> Self {
        Batched { value, mapped: true }
    }

    /// A value that is the same for all lanes.
    pub fn unmapped(value: Value) -> Self {
        Batched { value, mapped: false }
    }

    /// The rank that one lane has.
    pub fn lane_rank(&self) -> usize {
        self.value.rank().saturating_sub(usize::from(self.mapped))
    }

    /// With one slice for each of `size` lanes along axis 0: repeated, if all share it.
    pub fn materialized(&self, size: &Dim) -> Value {
        match self.mapped {
            true => self.value,
            false => self.value.broadcast_to(self.value.shape().with_inserted(0, size.clone())),
        }
    }

    /// With lanes, if `mapped` or if it has them already.
    pub(crate) fn materialized_if(self, mapped: bool, size: &Dim) -> Self {
        if mapped { Batched::mapped(self.materialized(size)) } else { self }
    }
}

/// The type of a value with lanes, from that of one lane; as it is if all lanes share it. Padded, if it is ragged.
pub(crate) fn lanes_type(ty: &TensorType, mapped: bool, size: &Dim) -> TensorType {
    let ty = ragged::padded_shape(&ty.shape).map_or_else(|| ty.clone(), |shape| ty.with_shape(shape));
    if mapped { ty.stacked(size) } else { ty }
}

/// For each lane `yes` where the mask, a boolean a lane, is true, else `no`.
pub(crate) fn select_lanes(mask: Value, size: &Dim, yes: Batched, no: Batched) -> Batched {
    let (yes, no) = (yes.materialized(size), no.materialized(size));
    let others = std::iter::repeat_n(Dim::from(1), yes.rank().saturating_sub(1));
    let dims: Vec<Dim> = std::iter::once(size.clone()).chain(others).collect();
    let mask = mask.reshape(dims).broadcast_to(yes.shape());
    Batched::mapped(emit_value(Select, &[mask, yes, no], Site::Unknown))
}

/// A value of what only some lanes run: no derivative comes back from the others, where the program may be undefined.
pub(crate) fn guarded(mask: Value, size: &Dim, value: Batched) -> Batched {
    if !value.value.dtype().is_float() {
        return value;
    }
    let stopped = Batched { value: value.value.stop_gradient(), ..value };
    select_lanes(mask, size, value, stopped)
}

/// Adds the nodes of `graph` to the open trace, for `size` lanes; gives its outputs. Nodes whose operands all lanes
/// share are added as they are, nodes that no output needs are not.
pub fn inline(graph: &Graph, size: &Dim, inputs: &[Batched]) -> Result<Vec<Batched>, Failed> {
    let graph = &*graph.with_free_symbols();
    let replayed = Replay::new(graph, inputs.iter().copied()).live(|_, node, operands| {
        node.op.binds().for_each(remove_size_by_lane);
        let results = at_site(node.site, || match ragged::symbol_in(graph, node) {
            None => batch_node(&node.op, size, &operands),
            Some(symbol) => checked_all(&node.op, ragged::batch(graph, node, &symbol, size, &operands)?),
        })?;
        keep_names(graph, node, results.iter().map(|result| result.value));
        Ok::<_, Failed>(results)
    })?;
    Ok(replayed.outputs()?)
}

/// [`inline`], of a body that only the lanes run where the mask is true: the sizes that others would give do not count.
pub(crate) fn inline_where(
    mask: Option<Value>,
    graph: &Graph,
    size: &Dim,
    inputs: &[Batched],
) -> Result<Vec<Batched>, Failed> {
    match mask {
        Some(mask) => where_running(mask, || inline(graph, size, inputs)),
        None => inline(graph, size, inputs),
    }
}

/// Applies the rule of one op, if any operand has lanes. It is given values that have not failed, and gives such.
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

/// Values of which none has failed.
fn checked_all<V: AsRef<[Batched]>>(op: &Op, values: V) -> Result<V, Failed> {
    check(op.name(), Site::Unknown, values.as_ref().iter().map(|value| value.value)).map(|()| values)
}
