//! Gives a capacity to each size that a step of a loop computes, so that a plan has memory for its rows.
//!
//! An example is the gradient of a while loop inside a loop: each step saves as many rows as the while loop ran steps.
//! In the plan, such a tensor has a fixed number of rows, of which the last ones are padding. The batching rules of `vmap`
//! ensure that padding is never visible, so the body is batched over a single lane. The plan rejects a call in which a
//! size exceeds its capacity.

use std::collections::HashMap;
use std::sync::Arc;

use funcify_analysis::Possible;
use funcify_body::{Body, Compare, IntBinary, Op as BodyOp};
use funcify_core::error::{Result as CoreResult, Site};
use funcify_core::graph::{
    Failed, Graph, GraphCopy, Input, Node, Replay, ValueId, emit, inline, integer_bounds, tracer,
};
use funcify_core::ops::scan::{Buffer, Returned, Scan, Start};
use funcify_core::ops::{Binary as GraphBinary, BindSize, ReduceKind, Size};
use funcify_core::tree::Named;
use funcify_core::types::{Dim, Symbol, TensorType};
use funcify_core::vmap::{Batched, inline as inline_batched};
use funcify_core::{Value, bind_size, cond, full, select, size};

use super::buffers::{last_rows_of_end, returning_all_rows, steps_of_returned_rows};
use super::conditions::{Conditions, Ranges};
use super::*;

/// Returns the graph with padding for all sizes that the bodies of its loops compute, and `sizes` with the capacities of
/// these sizes. Returns `None` if there are no such sizes, if an op may fail for small sizes, or if an op has no rule
/// for padding.
pub(super) fn with_capacities(graph: &Graph, sizes: &Sizes) -> Option<(Graph, Sizes)> {
    let bound = graph.bound_symbols();
    if !graph.nodes().iter().any(|node| node.op.bodies().into_iter().any(|body| body.binds_any())) {
        return None;
    }
    let known = sizes.iter().filter(|(symbol, _)| !bound.contains(symbol));
    let graph = graph.resized(&known.map(|(symbol, size)| (symbol.clone(), Dim::from(size))).collect());
    let graph = ascending::with_ascending_loops(&graph)?;
    let ranges = Conditions::of(&graph)?.ranges()?;
    let padded = Padding { whole: &graph, ranges, built: Vec::new() }.bodies(&graph)?;
    let mut sizes = without_computed_sizes(&padded, sizes);
    let mut bodies = padded.nodes().iter().flat_map(|node| node.op.bodies());
    bodies.try_for_each(|body| assign_capacities(body, &mut sizes))?;
    Some((padded, sizes))
}

/// Returns `sizes` without the sizes that the graph computes: each step of a loop may bind other sizes. The size of a
/// loop that ends early outside of all other loops is the caller's capacity for its trace.
pub(super) fn without_computed_sizes(graph: &Graph, sizes: &Sizes) -> Sizes {
    let mut sizes = sizes.clone();
    for node in graph.nodes() {
        if let GraphOp::BindSize(op) = &node.op {
            sizes.remove(&op.size);
        }
        let bodies = node.op.bodies().into_iter();
        bodies.flat_map(|body| body.bound_symbols()).for_each(|symbol| sizes.remove(&symbol));
    }
    sizes
}

/// Returns the symbols of the loops that end early, except those in bodies.
pub(super) fn symbols_of_ends(graph: &Graph) -> Vec<Symbol> {
    let symbol = |node: &Node| match &node.op {
        GraphOp::Scan(scan) => scan.until.clone(),
        _ => None,
    };
    graph.nodes().iter().filter_map(symbol).collect()
}

/// Returns `true` if the graph or a nested body contains a while loop without a bound, binds a size, or contains a loop
/// with early exit that may end before it has written the rows that it returns.
pub(super) fn has_unbounded(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| {
        matches!(&node.op, GraphOp::BindSize(_))
            || matches!(&node.op, GraphOp::Scan(scan) if scan.until.is_some() && steps_of_returned_rows(scan) > 1)
            || matches!(&node.op, GraphOp::While(op) if op.bound.is_none())
            || node.op.bodies().into_iter().any(|body| has_unbounded(body))
    })
}

/// Assigns a capacity to each size that a padded body binds: the largest number that it binds. A loop that ends early
/// has the capacity of its maximum number of steps.
fn assign_capacities(graph: &Graph, sizes: &mut Sizes) -> Option<()> {
    for node in graph.nodes() {
        if let GraphOp::BindSize(op) = &node.op {
            sizes.set(&op.size, usize::try_from(integer_bounds(graph, node.inputs[0]).high?).ok()?);
        }
        if let GraphOp::Scan(Scan { until: Some(symbol), steps, .. }) = &node.op {
            sizes.set(symbol, usize::try_from(steps.value(sizes).ok()?).ok()?);
        }
        node.op.bodies().into_iter().try_for_each(|body| assign_capacities(body, sizes))?;
    }
    Some(())
}

/// Pads bodies of loops. A size has the same capacity wherever it occurs in the whole graph, so each padded body has
/// symbols of its own.
struct Padding<'g> {
    whole: &'g Graph,
    /// The ranges of the sizes that numbers determine, by the symbols of the whole graph.
    ranges: Ranges,
    /// The graphs that were built from bodies.
    built: Vec<Graph>,
}

impl Padding<'_> {
    /// Copies a graph, with padding in the bodies of its ops.
    fn bodies(&mut self, graph: &Graph) -> Option<Graph> {
        let mut copy = GraphCopy::with_inputs_of(graph);
        for node in graph.nodes() {
            let bodies = node.op.bodies().into_iter().map(|body| match body.binds_any() {
                true => self.body(body).map(Arc::new),
                false => Some(body.clone()),
            });
            let bodies = bodies.collect::<Option<Vec<_>>>()?;
            copy.node(node, node.op.with_bodies(bodies))?;
        }
        copy.finish()
    }

    /// Returns a body in which all sizes that it computes are padded: only `bind_size` binds them, and all values are
    /// correct if the size is larger than the number.
    fn body(&mut self, body: &Graph) -> Option<Graph> {
        let body = self.bodies(body)?;
        if body.nodes().iter().all(|node| node.op.binds().next().is_none()) {
            return Some(body);
        }
        if may_hang(&body) {
            return None;
        }
        let guarded = self.guarded(&body)?;
        let batched = self.batched(&guarded)?;
        self.with_rows_by_capacity(&batched)
    }

    /// Copies a body so that it binds -1 instead of a number outside of the range of its size. Binding -1 rejects the call.
    /// The batching rules use the largest number to prove that all lanes have the rows that ops read.
    ///
    /// The copy has an additional input, the lane 0. All sizes that the body binds depend on it, so that batching pads
    /// them even if a size depends on constants only.
    fn guarded(&mut self, body: &Graph) -> Option<Graph> {
        let ranges = self.ranges.clone();
        let ending = body.nodes().iter().map(|node| self.ending_by_lane(node)).collect::<Option<Vec<_>>>()?;
        self.rebuild(body, || {
            let inputs = inputs_of(body);
            let lane = tracer::input("lane", TensorType::scalar(DType::I64), false, Site::Unknown);
            let guarded = Replay::new(body, inputs).walk_live(|index, node, mut operands| {
                if let Some((low, high)) = node.op.bound_to_number().and_then(|symbol| ranges.get(symbol)) {
                    let number = operands[0].cast(DType::I64) + lane;
                    let (low, high) = (*low as i64, *high as i64);
                    operands[0] = match low {
                        0 => select(number.gt(high), -1, number).minimum(high),
                        _ => {
                            let checked = bind_size(select(number.gt(high) | number.lt(low), -1, 0));
                            select(size(checked, DType::I64).ge(0), number.maximum(low).minimum(high), low)
                        }
                    };
                }
                operands.extend(ending[index].as_ref().map(|_| lane));
                let op = ending[index].clone().map_or_else(|| node.op.clone(), GraphOp::from);
                let GraphOp::Scan(scan) = &op else { return emit(op, &operands) };
                let all_rows = returning_all_rows(scan, |buffer| last_rows_of(scan, buffer));
                let mut results = emit(all_rows, &operands)?;
                for (rows, buffer) in results.iter_mut().zip(&scan.buffers) {
                    if let Some(last) = last_rows_of(scan, buffer) {
                        let may_lack_rows = last_rows_of_end(scan, buffer).is_some();
                        *rows = last_rows(*rows, last, scan.reverse, may_lack_rows);
                    }
                }
                Ok(results)
            })?;
            Ok(guarded.outputs()?)
        })
    }

    /// Returns a loop that ends early with an additional invariant, the lane 0, on which its end depends. Returns
    /// `Some(None)` for any other op.
    fn ending_by_lane(&mut self, node: &Node) -> Option<Option<Scan>> {
        let GraphOp::Scan(scan) = &node.op else { return Some(None) };
        let Some(until) = scan.results().until else { return Some(None) };
        let body = self.rebuild(&scan.body, || {
            let inputs = inputs_of(&scan.body);
            let lane = tracer::input("lane", TensorType::scalar(DType::I64), false, Site::Unknown);
            let mut outputs = inline(&scan.body, &inputs)?;
            outputs[until] = outputs[until] | lane.ne(0);
            Ok(outputs)
        })?;
        Some(Some(Scan { body: Arc::new(body), invariants: scan.invariants + 1, ..scan.clone() }))
    }

    /// Builds a graph with the outputs of `graph`. Its new symbols occur neither in the whole graph nor in another
    /// padded body.
    fn rebuild(&mut self, graph: &Graph, outputs: impl FnOnce() -> Result<Vec<Value>, Failed>) -> Option<Graph> {
        let built: CoreResult<Graph> = tracer::rebuild(graph, Site::Unknown, |_| {
            [graph, self.whole].into_iter().chain(&self.built).for_each(tracer::reserve_symbols);
            let outputs = outputs()?.into_iter().enumerate();
            Ok::<_, Failed>(Named(outputs.map(|(index, output)| (format!("r{index}"), output)).collect()))
        });
        let built = built.ok()?;
        self.built.push(built.clone());
        Some(built)
    }

    /// Batches a guarded body over a single lane. Returns `None` if an op has no batching rule for sizes that differ between
    /// lanes, or if a loop that ends early is not padded.
    fn batched(&mut self, body: &Graph) -> Option<Graph> {
        let (own, lanes) = (body.inputs().len() - 1, Dim::from(1));
        let built = self.rebuild(body, || {
            let inputs = body.inputs()[..own].iter().enumerate().map(|(index, input)| input_of(body, index, input));
            let lane = Batched::mapped(full([lanes.clone()], DType::I64, 0.0));
            let inputs: Vec<Batched> = inputs.map(Batched::unmapped).chain([lane]).collect();
            let outputs = inline_batched(body, &lanes, &inputs)?;
            let single = |output: Batched| if output.mapped { output.value.squeeze(0) } else { output.value };
            Ok(outputs.into_iter().map(single).collect())
        })?;
        // A loop that ends early is only padded if it has two additional carries: a flag, and the number of steps that ran.
        let ending = |graph: &Graph| -> Vec<(usize, bool)> {
            let ends_early = |node: &Node| match &node.op {
                GraphOp::Scan(scan) if scan.until.is_some() => Some((scan.carries, scan.reverse)),
                _ => None,
            };
            graph.live().filter_map(ends_early).collect()
        };
        let (before, after) = (ending(body), ending(&built));
        let mut pairs = before.iter().zip(&after);
        let are_padded = before.len() == after.len()
            && pairs.all(|((before, is_reverse), (after, _))| !is_reverse && before + 2 <= *after);
        let built = self.with_live_sizes(&built)?.pruned();
        (are_padded && count_bound(&built) == count_bound(body)).then_some(built)
    }

    /// Copies a batched body so that an output depends on each size that the body binds. Otherwise, an op that binds a
    /// size that no type has would be dead code, and would not reject the call. An example is the size `n` of a slice
    /// `n..`, which has as many rows as the operand after padding.
    fn with_live_sizes(&mut self, body: &Graph) -> Option<Graph> {
        // Pruning also removes carries that only they themselves depend on.
        let pruned = body.pruned();
        let kept: Vec<&Symbol> = pruned.nodes().iter().filter_map(|node| node.op.bound_to_number()).collect();
        let nodes = body.nodes().iter().zip(body.live_nodes());
        let bound = nodes.filter_map(|(node, live)| Some((node.op.bound_to_number()?, live)));
        let dead = bound.filter(|(symbol, live)| !live || !kept.contains(symbol)).map(|(symbol, _)| symbol);
        let dead: Vec<&Symbol> = dead.collect();
        if dead.is_empty() {
            return Some(body.clone());
        }
        self.rebuild(body, || {
            let every = vec![true; body.nodes().len()];
            let copied = Replay::new(body, inputs_of(body))
                .walk_marked(&every, |_, node, operands| emit(node.op.clone(), &operands))?;
            let mut outputs = copied.outputs()?;
            if let Some(output) = outputs.iter_mut().min_by_key(|output| output.rank()) {
                for symbol in dead {
                    let is_size = size(Dim::symbol(symbol), DType::I64).ge(0);
                    *output = select(is_size, *output, output.zeros_like());
                }
            }
            Ok(outputs)
        })
    }

    /// Copies a batched graph so that only `bind_size` binds sizes. Loops run as many steps as the size's capacity, and skip
    /// the body in the steps beyond the number that is bound to the size. Returns `None` if a size is not padded.
    fn with_rows_by_capacity(&mut self, graph: &Graph) -> Option<Graph> {
        let (mut copy, mut numbers) = (GraphCopy::with_inputs_of(graph), HashMap::new());
        for node in graph.nodes() {
            if node.op.bound_to_number().is_some() && !is_largest_of_lanes(graph, node.inputs[0]) {
                return None;
            }
            if let GraphOp::BindSize(op) = &node.op {
                numbers.insert(op.size.clone(), copy.get(node.inputs[0])?);
                copy.node(node, node.op.clone())?;
                continue;
            }
            let bodies = node.op.bodies().into_iter().map(|body| self.with_rows_by_capacity(body).map(Arc::new));
            let op = node.op.with_bodies(bodies.collect::<Option<Vec<_>>>()?);
            let GraphOp::Scan(scan) = op else {
                copy.node(node, op)?;
                continue;
            };
            let mut inputs = &node.inputs[..];
            if scan.steps_operand {
                // A loop in descending order has already computed its first position from the number.
                if scan.reverse {
                    return None;
                }
                let (number, size) = (copy.get(inputs[0])?, scan.steps.as_symbol()?.clone());
                copy.graph.push_node(BindSize { size: size.clone() }.into(), &[number], node.site).ok()?;
                let dtype = graph.ty(inputs[0]).dtype;
                let rows = Size { dim: Dim::symbol(&size), dtype };
                let rows = copy.graph.push_node(rows.into(), &[], node.site).ok()?[0];
                copy.set(inputs[0], rows);
                numbers.insert(size, number);
                inputs = &inputs[1..];
            }
            let scan = Scan { steps_operand: false, ..scan };
            let mut operands = inputs.iter().map(|input| copy.get(*input)).collect::<Option<Vec<ValueId>>>()?;
            let number = scan.steps.as_symbol().filter(|_| scan.until.is_none()).and_then(|symbol| numbers.get(symbol));
            let skipping = number.and_then(|number| Some((*number, self.skipping(&scan, copy.graph.ty(*number))?)));
            let scan = match skipping {
                Some((number, body)) => {
                    operands.push(number);
                    Scan { body: Arc::new(body), invariants: scan.invariants + 1, ..scan }
                }
                None => scan,
            };
            let results = copy.graph.push_node(scan.into(), &operands, node.site).ok()?;
            node.outputs.iter().zip(results).for_each(|(output, result)| copy.set(*output, result));
        }
        copy.finish()
    }

    /// Returns the body of a batched loop with an additional invariant, the number of steps. In the steps beyond this
    /// number, it only counts. Returns `None` if no carry holds the index of the step.
    fn skipping(&mut self, scan: &Scan, number: &TensorType) -> Option<Graph> {
        let (body, params, results) = (&scan.body, scan.params(), scan.results());
        let counters: Vec<Option<i64>> = params
            .carries
            .clone()
            .zip(results.carries.clone())
            .map(|(param, result)| counts_by(body, body.inputs()[param].value, body.outputs()[result].value))
            .collect();
        let step = counters.iter().position(|by| *by == Some(if scan.reverse { -1 } else { 1 }))?;
        self.rebuild(body, || {
            let inputs = inputs_of(body);
            let number = tracer::input("number", number.clone(), false, Site::Unknown);
            let index = inputs[params.carries.start + step];
            let outputs = cond(
                number.cast(index.dtype()).gt(index),
                || inline(body, &inputs).unwrap_or_default(),
                || {
                    let mut skipped = Vec::with_capacity(results.count);
                    for (buffer, (params, written)) in
                        scan.buffers.iter().zip(params.buffers.iter().zip(&results.buffers))
                    {
                        let rows = written.clone().zip(&buffer.writes);
                        skipped.extend(rows.map(|(row, offset)| match old_row(buffer, *offset) {
                            Some(read) => inputs[params.start + read],
                            None => {
                                let ty = body.ty(body.outputs()[row].value);
                                full(ty.shape.clone(), ty.dtype, 0.0)
                            }
                        }));
                    }
                    skipped.extend(params.carries.clone().zip(&counters).map(|(param, by)| match by {
                        Some(by) => inputs[param] + *by,
                        None => inputs[param],
                    }));
                    skipped
                },
            );
            Ok(outputs)
        })
    }
}

/// Returns the number of last rows that a loop returns of a buffer, if padding could hide them: if an early exit
/// determines how many rows there are, or if the buffer is full.
fn last_rows_of(scan: &Scan, buffer: &Buffer) -> Option<usize> {
    match buffer.returned {
        Returned::Last(last) if buffer.start == Start::Full => Some(last),
        _ => last_rows_of_end(scan, buffer),
    }
}

/// Returns the last rows of a buffer, which are the first ones in descending order. If the buffer may have fewer rows,
/// binds -1 in that case, which rejects the call.
fn last_rows(rows: Value, last: usize, is_descending: bool, may_lack_rows: bool) -> Value {
    let count = rows.dim(0);
    // The additional rows prove that the slice has its rows.
    let filled = match is_descending {
        true => rows.pad(0, 0, last, 0.0).slice(0, 0..last as i64),
        false => rows.pad(0, last, 0, 0.0).slice(0, count.clone()..count.clone() + last),
    };
    if !may_lack_rows {
        return filled;
    }
    let checked = bind_size(select(size(count, DType::I64).lt(last as i64), -1, 0));
    select(size(checked, DType::I64).ge(0), filled, filled.zeros_like())
}

/// Returns `true` if a branch of a switch in a body has a while loop. The batched body may run all branches, and the
/// loop might not end in a branch that is not taken.
fn may_hang(body: &Graph) -> bool {
    fn repeats(graph: &Graph) -> bool {
        let mut nodes = graph.live();
        nodes.any(|node| matches!(node.op, GraphOp::While(_)) || node.op.bodies().into_iter().any(|body| repeats(body)))
    }
    body.live().any(|node| {
        let is_switch = matches!(node.op, GraphOp::Switch(_));
        node.op.bodies().into_iter().any(|body| if is_switch { repeats(body) } else { may_hang(body) })
    })
}

/// Returns the number of live ops in a graph and in its bodies that bind a number as a size.
fn count_bound(graph: &Graph) -> usize {
    let in_bodies = |node: &Node| node.op.bodies().into_iter().map(|body| count_bound(body)).sum::<usize>();
    graph.live().map(|node| usize::from(node.op.bound_to_number().is_some()) + in_bodies(node)).sum()
}

/// Declares the inputs of a graph in the open graph, with unique names.
fn inputs_of(graph: &Graph) -> Vec<Value> {
    graph.inputs().iter().enumerate().map(|(index, input)| input_of(graph, index, input)).collect()
}

/// Declares an input of a graph in the open graph.
fn input_of(graph: &Graph, index: usize, input: &Input) -> Value {
    tracer::input(&format!("x{index}"), graph.ty(input.value).clone(), false, Site::Unknown)
}

/// Returns `true` if a number is the largest size of all lanes, as the batching rules compute it. Only the sizes of such
/// numbers are padded: the others are the same in all lanes.
fn is_largest_of_lanes(graph: &Graph, number: ValueId) -> bool {
    let Some(Node { op: GraphOp::Select(_), inputs, .. }) = graph.node_of(number) else { return false };
    // A loop around the body selects 0 if no lane runs the step.
    if matches!(graph.node_of(inputs[2]), Some(Node { op: GraphOp::Constant(_), .. })) {
        return is_largest_of_lanes(graph, inputs[1]);
    }
    let Some(Node { op: GraphOp::Reduce(reduce), inputs, .. }) = graph.node_of(inputs[2]) else { return false };
    reduce.kind == ReduceKind::Max && matches!(graph.node_of(inputs[0]), Some(Node { op: GraphOp::Concat(_), .. }))
}

/// Returns the position of the row at `offset` among the rows that a step reads from a full buffer. Returns `None` for
/// any other buffer.
fn old_row(buffer: &Buffer, offset: usize) -> Option<usize> {
    buffer.reads.iter().position(|read| *read == offset).filter(|_| buffer.start == Start::Full)
}

/// Returns the constant that a step adds to an integer scalar `carry` to compute `next`.
fn counts_by(body: &Graph, carry: ValueId, next: ValueId) -> Option<i64> {
    let Node { op: GraphOp::Binary(op), inputs, .. } = body.node_of(next)? else { return None };
    let Node { op: GraphOp::Constant(constant), .. } = body.node_of(inputs[1])? else { return None };
    let ty = body.ty(carry);
    if inputs[0] != carry || !ty.dtype.is_int() || ty.rank() > 0 {
        return None;
    }
    let by = constant.value.get(0).as_i64();
    match op {
        GraphBinary::Add => Some(by),
        GraphBinary::Sub => Some(-by),
        _ => None,
    }
}

impl Planner {
    /// Plans a `bind_size` of the scalar `number`, whose range is `possible`: marks the call as rejected if the number
    /// is negative or exceeds the capacity of the size.
    pub(super) fn bind_size(&mut self, size: &Symbol, number: &View, possible: Possible) -> Result<()> {
        let declined = || Declined::new("bind_size", "a size that follows from values");
        let capacity = self.sizes.get(size).ok_or_else(declined)?;
        if let Possible::Within(low, high) = possible
            && low >= 0
            && high <= capacity as i128
        {
            return Ok(());
        }
        let ty = self.emitter.ty(number);
        let mut body = Body::default();
        let x = body.load(1, ty);
        let mut limit = |number: usize| match ty {
            Type::Float => body.number(number as f64),
            _ => body.integer(number as i64, ty),
        };
        let (zero, capacity) = (limit(0), limit(capacity));
        let is_negative = body.push(BodyOp::Compare(Compare::Less), Type::Mask, &[x, zero]);
        let is_beyond = body.push(BodyOp::Compare(Compare::Less), Type::Mask, &[capacity, x]);
        let is_outside = body.push(BodyOp::Int(IntBinary::Or), Type::Mask, &[is_negative, is_beyond]);
        let holds = body.push(BodyOp::Hold, Type::Float, &[is_outside]);
        body.store(holds, 0);
        let to = self.emitter.reserve(&[], number.level);
        self.emitter.fuse(body, &[&to], &[number])?;
        self.record_refusal(&to)
    }
}
