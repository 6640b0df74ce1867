//! Ragged values: values whose size differs between lanes, because a loop has a different number of steps in each
//! lane, or because `bind_size` binds different sizes.
//!
//! - **ragged-c1** a ragged value is stored with the largest size of all lanes. A lane's own elements come first along
//!   the ragged axis. The elements after them are padding, whose values are never visible.
//! - **ragged-c2** padding does not contribute to values that are not ragged: reductions, products and ops that shift
//!   elements mask the padding, and no cotangent flows from padding to values without padding.
//! - **ragged-c3** each lane has all the elements that an op reads. The types of the operands must prove this, because
//!   padding would hide missing elements at run time.
//!
//! This module contains the batching rules of ops on ragged values, except for loops. The rules of a loop op are in the
//! module of that op. An op without a rule for ragged values rejects them. The outputs of a batched graph must not be
//! ragged, because all lanes of a tensor have the same size.

use std::collections::BTreeMap;

use super::{Batched, batch_node, checked_all};
use crate::error::{Result, Site};
use crate::graph::tracer::{SizeByLane, lane_masks, sizes_by_lane};
use crate::graph::{Failed, Graph, Node, emit, emit_value, fail};
use crate::host::HostTensor;
use crate::ops::scan::{Returned, Scan, Start};
use crate::ops::{
    Along, Broadcast, Creation, Indexing, Iota, Movement, Op, OpClass, OpRules, Pad, Product, Reduce, Reshape, Select,
    Slice, Take,
};
use crate::types::{DType, Dim, Shape, Symbol, TensorType};
use crate::value::{Value, concat, constant, iota, select, size};

/// Returns a symbol in `dim` whose size differs between lanes, or `None` if there is none.
pub(crate) fn ragged_symbol(dim: &Dim) -> Option<Symbol> {
    let sizes = sizes_by_lane();
    dim.symbols().into_iter().find(|symbol| sizes.iter().any(|size| size.symbol == **symbol)).cloned()
}

pub(crate) fn is_ragged(dim: &Dim) -> bool {
    ragged_symbol(dim).is_some()
}

/// Returns `true` if `larger` is provably greater than or equal to `smaller` in each lane.
fn is_certainly_at_least(larger: &Dim, smaller: &Dim) -> bool {
    let mut difference = larger.clone() - smaller;
    for SizeByLane { symbol, at_most, at_least, .. } in sizes_by_lane() {
        if let Some(at_most) = at_most.filter(|_| slope(&difference, &symbol).is_at_least(&Dim::from(0)) == Some(false))
        {
            difference = difference.replaced(&BTreeMap::from([(symbol, at_most)]));
        } else if at_least > 0 {
            let more = Dim::symbol(&symbol) + at_least as i64;
            difference = difference.replaced(&BTreeMap::from([(symbol, more)]));
        }
    }
    difference.is_at_least(&Dim::from(0)) == Some(true)
}

/// Returns the amount by which a dimension increases when a symbol increases by 1.
fn slope(dim: &Dim, symbol: &Symbol) -> Dim {
    dim.replaced(&BTreeMap::from([(symbol.clone(), Dim::symbol(symbol) + 1)])) - dim
}

/// Returns an upper bound on the dimension over all lanes (ragged-c1). Replaces each ragged symbol with its largest
/// size if the dimension increases with the symbol, and with 0 if the dimension decreases. Returns `None` if the
/// direction is unknown.
pub(crate) fn padded(dim: &Dim) -> Option<Dim> {
    let mut sizes = BTreeMap::new();
    for SizeByLane { symbol, largest, .. } in sizes_by_lane() {
        if dim.symbols().contains(&&symbol) {
            let (slope, zero) = (slope(dim, &symbol), Dim::from(0));
            let grows = slope.is_at_least(&zero) == Some(true);
            if !grows && zero.is_at_least(&slope) != Some(true) {
                return None;
            }
            sizes.insert(symbol, if grows { largest } else { zero });
        }
    }
    Some(if sizes.is_empty() { dim.clone() } else { dim.replaced(&sizes) })
}

pub(crate) fn padded_shape(shape: &Shape) -> Option<Shape> {
    Some(Shape::new(shape.dims().iter().map(padded).collect::<Option<Vec<Dim>>>()?))
}

/// Returns the size of a dimension in each lane, or a single size if it is the same in all lanes. Returns `None` if the
/// dimension is not linear in the ragged symbols.
pub(crate) fn sizes_of_lanes(dim: &Dim) -> Option<Batched> {
    let sizes = sizes_by_lane();
    let Some(by_lane) = sizes.iter().rev().find(|size| dim.symbols().contains(&&size.symbol)) else {
        return Some(Batched::unmapped(size(dim, DType::I64)));
    };
    let slope = slope(dim, &by_lane.symbol);
    if is_ragged(&slope) {
        return None;
    }
    let counts = if slope == Dim::from(1) { by_lane.counts } else { by_lane.counts * size(&slope, DType::I64) };
    let rest = dim.replaced(&BTreeMap::from([(by_lane.symbol.clone(), Dim::from(0))]));
    Some(Batched::mapped(if rest == Dim::from(0) { counts } else { counts + sizes_of_lanes(&rest)?.value }))
}

/// Returns a mask of shape `shape` that is `true` for the first `own` elements of each lane along `axis`. `shape`
/// includes the batch axis, but `axis` does not count it.
fn own_elements_mask(own: Batched, axis: usize, shape: &Shape, lanes: &Dim) -> Value {
    let rows = [lanes, &shape[axis + 1]];
    let positions = iota(rows[1], DType::I64).broadcast_to(rows);
    along(own.materialized(lanes).unsqueeze(1).broadcast_to(rows).gt(positions), axis, shape)
}

/// Broadcasts `rows`, which contains one row per lane, to `shape`. Each row extends along `axis`. `shape` includes the
/// batch axis, but `axis` does not count it.
fn along(rows: Value, axis: usize, shape: &Shape) -> Value {
    let mut dims = vec![Dim::from(1); shape.rank()];
    (dims[0], dims[axis + 1]) = (shape[0].clone(), shape[axis + 1].clone());
    rows.reshape(dims).broadcast_to(shape)
}

/// Broadcasts a number of each lane to `shape`, which includes the batch axis.
fn of_lanes(number: Batched, shape: &Shape) -> Value {
    let mut dims = vec![Dim::from(1); shape.rank()];
    dims[0] = shape[0].clone();
    number.materialized(&shape[0]).reshape(dims).broadcast_to(shape)
}

/// Replaces each lane's elements after the first `own` positions along `axis` with the scalar `fill`.
fn fill_padding(value: Batched, axis: usize, own: Batched, fill: Value, lanes: &Dim) -> Result<Batched, Failed> {
    let value = value.materialized(lanes).checked()?;
    let shape = value.shape();
    Ok(select_values(own_elements_mask(own, axis, &shape, lanes), value, fill.broadcast_to(&shape)))
}

/// Selects the element of `yes` where the mask is `true`, and the element of `no` elsewhere. All three operands have
/// the same shape.
fn select_values(mask: Value, yes: Value, no: Value) -> Batched {
    Batched::mapped(emit_value(Select, &[mask, yes, no], Site::Unknown))
}

/// Returns the largest count of all lanes, or 0 if there are no lanes. If a count is negative, returns the smallest
/// count instead. The negative count is then rejected, as it would be without batching.
pub(crate) fn largest(counts: Value) -> Value {
    let counts = concat(&[counts, constant(HostTensor::from([0i64]))], 0);
    let (smallest, largest) = (counts.min(0), counts.max(0));
    select(smallest.lt(0), smallest, largest)
}

/// Returns the size that each lane binds, as `i64[lanes]`. The size is 0 for lanes that do not run the op that binds
/// it.
pub(crate) fn counts_of_running_lanes(counts: Value) -> Value {
    let of_lanes = lane_masks().into_iter().filter(|mask| mask.shape() == counts.shape());
    of_lanes.fold(counts, |counts, mask| select(mask, counts, 0))
}

/// Returns `count`, a size that all lanes share, or 0 if no lane runs the op that binds the size.
pub(crate) fn count_if_any_runs(count: Value) -> Value {
    let mask = lane_masks().into_iter().reduce(|all, mask| all & mask);
    mask.map_or(count, |mask| select(mask.any(0), count, 0))
}

fn zero(dtype: DType) -> Value {
    constant(HostTensor::zeros(dtype, &[]))
}

/// Shifts each lane's own elements along `axis` by `offset`. The result has size `rows` along `axis`. Position `i` of
/// the result is position `i - offset` of the operand, or zero if `i - offset` is not among the operand's first `own`
/// positions.
pub(crate) fn shift_rows(
    value: Batched,
    axis: usize,
    rows: &Dim,
    offset: Batched,
    own: Batched,
    lanes: &Dim,
) -> Result<Batched, Failed> {
    let shape = [lanes.clone(), rows.clone()];
    let positions = iota(rows, DType::I64).broadcast_to(shape.clone()) - spread(offset, &shape);
    rows_at(value, axis, positions, own, lanes)
}

/// Reverses each lane's own elements along `axis`, which are the first `own` elements.
fn reverse_rows(value: Batched, axis: usize, own: Batched, lanes: &Dim) -> Result<Batched, Failed> {
    let shape = [lanes.clone(), value.materialized(lanes).checked()?.shape()[axis + 1].clone()];
    let positions = spread(own, &shape) - 1 - iota(&shape[1], DType::I64).broadcast_to(shape.clone());
    rows_at(value, axis, positions, own, lanes)
}

/// Broadcasts a number of each lane to `shape`, which consists of the lanes and another axis.
fn spread(of_lane: Batched, shape: &[Dim; 2]) -> Value {
    of_lane.materialized(&shape[0]).unsqueeze(1).broadcast_to(shape.clone())
}

/// Takes the elements at `positions` along `axis`, an `i64[lanes,rows]`. The result is zero at positions that are not
/// among the operand's first `own` positions.
fn rows_at(value: Batched, axis: usize, positions: Value, own: Batched, lanes: &Dim) -> Result<Batched, Failed> {
    let (dtype, shape) = (value.value.dtype(), positions.checked()?.shape());
    // Pad by one element, so that the axis is not empty.
    let more = Op::from(Pad { axis, low: 0.into(), high: 1.into(), interior: 0 });
    let longer = batch_node(&more, lanes, &[value, Batched::unmapped(zero(dtype))])?[0];
    let own = spread(own, &[shape[0].clone(), shape[1].clone()]);
    let is_own = positions.ge(0) & own.gt(positions);
    let taken = batch_node(&Take { axis }.into(), lanes, &[longer, Batched::mapped(positions)])?[0].materialized(lanes);
    let mask = along(is_own, axis, &taken.checked()?.shape());
    Ok(select_values(mask, taken, zero(dtype).broadcast_to(taken.shape())))
}

/// Returns a ragged symbol that the node's operands, attributes, results or bodies use, or `None` if there is none.
pub(super) fn ragged_symbol_of_node(graph: &Graph, node: &Node) -> Option<Symbol> {
    let uses = |size: &SizeByLane| {
        let of_operands = node.inputs.iter().flat_map(|input| graph.ty(*input).shape.dims());
        of_operands.flat_map(Dim::symbols).any(|symbol| *symbol == size.symbol)
            || crate::graph::uses_any(graph, node, &[&size.symbol])
    };
    sizes_by_lane().into_iter().find(uses).map(|size| size.symbol)
}

/// Batches a node that uses the ragged symbol `symbol`. Rejects the node if its op has no rule for ragged values.
pub(super) fn batch(
    graph: &Graph,
    node: &Node,
    symbol: &Symbol,
    lanes: &Dim,
    operands: &[Batched],
) -> Result<Vec<Batched>, Failed> {
    let operands = checked_all(&node.op, operands)?;
    let refused = || reject_ragged(node.op.name(), node.site, symbol);
    let lane_sizes = |dim: &Dim| sizes_of_lanes(dim).ok_or_else(refused);
    let padded = |dim: &Dim| padded(dim).ok_or_else(refused);
    let types = Types {
        operands: node.inputs.iter().map(|input| graph.ty(*input)).collect(),
        results: node.outputs.iter().map(|output| graph.ty(*output)).collect(),
    };
    // ragged-c1: the padded sizes of the results must be known.
    if types.results.iter().any(|ty| padded_shape(&ty.shape).is_none()) {
        return Err(refused());
    }
    if let Some(op) = node.op.bodied() {
        return if op.batches_ragged(&types) { node.op.batch(lanes, operands) } else { Err(refused()) };
    }
    let plain = || batch_node(&node.op, lanes, operands);
    match node.op.class() {
        OpClass::Elementwise(_) | OpClass::Movement(Movement::Transpose(_) | Movement::Bitcast(_)) => plain(),
        OpClass::Creation(Creation::Size(op)) => {
            let size = lane_sizes(&op.dim)?;
            Ok(vec![Batched { value: size.value.cast(op.dtype), mapped: size.mapped }])
        }
        OpClass::Creation(Creation::Iota(op)) => {
            batch_node(&Iota { size: padded(&op.size)?, dtype: op.dtype }.into(), lanes, operands)
        }
        OpClass::Movement(Movement::Broadcast(op)) => {
            let op = Broadcast { shape: padded_shape(&op.shape).ok_or_else(refused)? };
            let mut result = batch_node(&op.into(), lanes, operands)?[0];
            let is_constant = matches!(graph.node_of(node.inputs[0]), Some(Node { op: Op::Constant(_), .. }));
            if is_constant || !result.value.dtype().is_float() {
                return Ok(vec![result]);
            }
            // ragged-c2: no cotangent flows from padding to the operand.
            for axis in (0..types.results[0].rank()).filter(|axis| is_ragged(&types.results[0].shape[*axis])) {
                let own = lane_sizes(&types.results[0].shape[axis])?;
                let value = result.materialized(lanes).checked()?;
                result =
                    select_values(own_elements_mask(own, axis, &value.shape(), lanes), value, value.stop_gradient());
            }
            Ok(vec![result])
        }
        OpClass::Movement(Movement::Reshape(op)) if types.keeps_prefixes() => {
            batch_node(&Reshape { shape: padded_shape(&op.shape).ok_or_else(refused)? }.into(), lanes, operands)
        }
        OpClass::Movement(Movement::Slice(op)) if op.step == 1 => {
            let (dim, rows) = (&types.operands[0].shape[op.axis], &types.results[0].shape[op.axis]);
            if ![dim, &op.start, &op.limit].into_iter().any(is_ragged) {
                return plain();
            }
            // ragged-c3: each lane has the elements that the slice reads.
            let is_there = is_certainly_at_least(dim, &op.limit)
                && is_certainly_at_least(&op.limit, &op.start)
                && is_certainly_at_least(&op.start, &Dim::from(0));
            if !is_there {
                return Err(refused());
            }
            let rows = padded(rows)?;
            if is_ragged(&op.start) {
                let offset = lane_sizes(&(Dim::from(0) - &op.start))?;
                return Ok(vec![shift_rows(operands[0], op.axis, &rows, offset, lane_sizes(dim)?, lanes)?]);
            }
            let op = Slice { limit: op.start.clone() + rows, ..op.clone() };
            batch_node(&op.into(), lanes, operands)
        }
        OpClass::Movement(Movement::Reverse(op)) if is_ragged(&types.operands[0].shape[op.axis]) => {
            let own = lane_sizes(&types.operands[0].shape[op.axis])?;
            Ok(vec![reverse_rows(operands[0], op.axis, own, lanes)?])
        }
        OpClass::Movement(Movement::Pad(op)) => {
            let dim = &types.operands[0].shape[op.axis];
            if ![dim, &op.low, &op.high].into_iter().any(is_ragged) {
                return plain();
            }
            if op.interior > 0 || !is_zero(graph, node) {
                return Err(refused());
            }
            let rows = padded(&types.results[0].shape[op.axis])?;
            Ok(vec![shift_rows(operands[0], op.axis, &rows, lane_sizes(&op.low)?, lane_sizes(dim)?, lanes)?])
        }
        OpClass::Movement(Movement::Concat(op)) => {
            let axis = op.axis;
            let dims: Vec<&Dim> = types.operands.iter().map(|ty| &ty.shape[axis]).collect();
            if !dims[..dims.len().saturating_sub(1)].iter().any(|dim| is_ragged(dim)) {
                return plain();
            }
            let rows = padded(&types.results[0].shape[axis])?;
            let mut start = Dim::from(0);
            let mut all: Option<Batched> = None;
            for (operand, dim) in operands.iter().zip(dims) {
                let next = start.clone() + dim;
                let part = shift_rows(*operand, axis, &rows, lane_sizes(&start)?, lane_sizes(dim)?, lanes)?;
                all = Some(match all {
                    None => part,
                    Some(before) => {
                        let shape = part.value.checked()?.shape();
                        select_values(
                            own_elements_mask(lane_sizes(&start)?, axis, &shape, lanes),
                            before.value,
                            part.value,
                        )
                    }
                });
                start = next;
            }
            Ok(all.into_iter().collect())
        }
        OpClass::Along(Along::Reduce(op)) => {
            let mut operand = operands[0];
            for axis in op.axes.iter().copied().filter(|axis| types.is_ragged_along(0, *axis)) {
                // The result of reducing no elements is the identity of the reduction, so filling the padding with it
                // does not change the result.
                let nothing = constant(HostTensor::zeros(operand.value.dtype(), &[0]));
                let nothing = emit(Reduce { kind: op.kind, axes: vec![0] }, &[nothing])?[0];
                operand = fill_padding(operand, axis, lane_sizes(&types.operands[0].shape[axis])?, nothing, lanes)?;
            }
            batch_node(&node.op, lanes, &[operand])
        }
        OpClass::Product(Product::MatMul(_)) => {
            let rank = types.operands[0].rank();
            let inner = &types.operands[0].shape[rank - 1];
            if !is_ragged(inner) {
                return plain();
            }
            let own = lane_sizes(inner)?;
            let zero = || zero(types.operands[0].dtype);
            let left = fill_padding(operands[0], rank - 1, own, zero(), lanes)?;
            let right = fill_padding(operands[1], rank - 2, own, zero(), lanes)?;
            batch_node(&node.op, lanes, &[left, right])
        }
        OpClass::Indexing(Indexing::Take(op)) if types.is_ragged_along(0, op.axis) => {
            let dim = &types.operands[0].shape[op.axis];
            // ragged-c3: each lane has an element, to which indices out of range are clamped.
            if !is_certainly_at_least(dim, &Dim::from(1)) {
                return Err(refused());
            }
            let indices = operands[1].materialized(lanes).checked()?;
            let last = of_lanes(lane_sizes(dim)?, &indices.shape()) - 1;
            let clamped = Batched::mapped(indices.cast(DType::I64).minimum(last));
            batch_node(&node.op, lanes, &[operands[0], clamped])
        }
        OpClass::Indexing(Indexing::Scatter(op)) => {
            let indices = operands[1].materialized(lanes).checked()?;
            let mut indices = Batched::mapped(indices.cast(DType::I64));
            let [of_x, of_indices] = [0, 1].map(|operand| &types.operands[operand].shape[op.axis]);
            // The index -1 skips an update.
            let skipped = || constant(HostTensor::scalar(-1i64));
            if is_ragged(of_indices) {
                indices = fill_padding(indices, op.axis, lane_sizes(of_indices)?, skipped(), lanes)?;
            }
            if is_ragged(of_x) {
                let shape = indices.value.checked()?.shape();
                let is_own = of_lanes(lane_sizes(of_x)?, &shape).gt(indices.value);
                indices = select_values(is_own, indices.value, skipped().broadcast_to(&shape));
            }
            batch_node(&node.op, lanes, &[operands[0], indices, operands[2]])
        }
        OpClass::Indexing(Indexing::Take(_) | Indexing::Gather(_)) | OpClass::Movement(Movement::Reverse(_))
            if types.works_on_whole_axes(&node.op) =>
        {
            plain()
        }
        OpClass::Along(Along::Sort(_) | Along::Cumulative(_) | Along::ArgMax(_))
            if types.works_on_whole_axes(&node.op) =>
        {
            plain()
        }
        OpClass::Creation(_) | OpClass::Movement(_) | OpClass::Indexing(_) | OpClass::Along(_) => Err(refused()),
        OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => Err(refused()),
        OpClass::Control(_) | OpClass::Custom(_) => Err(refused()),
    }
}

/// Returns `true` if a `pad` node pads with a constant zero.
fn is_zero(graph: &Graph, node: &Node) -> bool {
    match node.inputs.get(1).and_then(|fill| graph.node_of(*fill)) {
        Some(Node { op: Op::Constant(fill), .. }) => fill.value.to_f64_vec().iter().all(|number| *number == 0.0),
        _ => false,
    }
}

/// The types of a node's operands and results in one lane.
pub(crate) struct Types<'a> {
    operands: Vec<&'a TensorType>,
    results: Vec<&'a TensorType>,
}

impl Types<'_> {
    pub(crate) fn is_ragged_along(&self, operand: usize, axis: usize) -> bool {
        self.operands[operand].shape.dims().get(axis).is_some_and(is_ragged)
    }

    /// Checks ragged-c3: returns `true` if, in each lane, the ragged sequences and buffers of `scan` have the rows that
    /// its steps access.
    pub(crate) fn have_rows(&self, scan: &Scan) -> bool {
        let places = scan.operands();
        let has = |operand: usize, reach: usize| {
            let rows = &self.operands[operand].shape[0];
            !is_ragged(rows) || is_certainly_at_least(rows, &(scan.steps.clone() + reach))
        };
        let sequences = scan.sequences.iter().zip(places.sequences);
        let buffers = scan.buffers.iter().zip(places.buffers);
        let mut full = buffers.filter(|(buffer, _)| buffer.start == Start::Full).filter_map(|(b, at)| Some((b, at?)));
        sequences.into_iter().all(|(sequence, operand)| has(operand, sequence.reads.iter().copied().max().unwrap_or(0)))
            && full.all(|(buffer, operand)| {
                let returns_own = match buffer.returned {
                    Returned::All => true,
                    // In descending order, the last rows are the first ones of the buffer, which come before the padding.
                    Returned::Last(count) => {
                        let rows = &self.operands[operand].shape[0];
                        !is_ragged(rows) || scan.reverse && is_certainly_at_least(rows, &Dim::from(count))
                    }
                };
                has(operand, buffer.reach()) && returns_own
            })
    }

    /// Returns `true` if an op has no ragged attribute, and combines elements only along an axis that is not ragged.
    fn works_on_whole_axes(&self, op: &Op) -> bool {
        let attributes = op.attributes();
        if attributes.iter().any(|(_, attribute)| attribute.dims().iter().any(is_ragged)) {
            return false;
        }
        let axis = attributes.iter().find(|(key, _)| *key == "axis");
        let axis = axis.and_then(|(_, axis)| axis.dims().first()?.constant());
        axis.is_some_and(|axis| !self.is_ragged_along(0, axis as usize))
    }

    /// Returns `true` if a reshape keeps each lane's own elements in front of the padding. This holds if both shapes
    /// have exactly one ragged axis, and the product of the sizes of the axes before it is the same in both shapes.
    fn keeps_prefixes(&self) -> bool {
        let ragged_axis = |shape: &Shape| {
            let mut axes = (0..shape.rank()).filter(|axis| is_ragged(&shape[*axis]));
            let axis = axes.next()?;
            axes.next().is_none().then(|| Shape::new(&shape.dims()[..axis]).elements())
        };
        let before = ragged_axis(&self.operands[0].shape);
        before.is_some() && before == ragged_axis(&self.results[0].shape)
    }
}

/// Records an error for an op that does not support ragged values.
pub(crate) fn reject_ragged(op: &str, site: Site, symbol: &Symbol) -> Failed {
    let reason = format!(
        "the size `{symbol}` depends on values and differs between lanes: a tensor of that size would be ragged"
    );
    let fix = "reduce it over that axis, keep what you need in a carry, or write into a full buffer (mit-mot) of a fixed size";
    fail(op, site, &[], |at| at.step_count(reason, fix))
}

/// Returns an error if an output of `graph` is ragged, because all lanes of a tensor have the same size.
pub(crate) fn reject_ragged_outputs(graph: &Graph, op: &str, site: Site) -> Result<(), Failed> {
    for output in graph.outputs() {
        let dims = graph.ty(output.value).shape.dims();
        if let Some(symbol) = dims.iter().find_map(ragged_symbol) {
            let of_node = graph.node_of(output.value).map(|node| node.site).filter(|site| *site != Site::Unknown);
            return Err(reject_ragged(op, of_node.unwrap_or(site), &symbol));
        }
    }
    Ok(())
}
