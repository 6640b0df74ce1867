//! Plans each op on the views of its operands.

mod bodies;
mod elementwise;
mod joins;
mod order;
mod patches;
mod places;
mod positions;
mod products;
mod readers;
mod statics;
mod typed;

use bodies::{OpenBody, Pending};
use elementwise::cast_kernel;
use funcify_analysis::{ReadOrder, in_order};
use funcify_core::graph::Node;
use funcify_core::ops::{self, Control, Op as GraphOp, OpRules, ReduceKind, ScatterMode};
use joins::Joins;
use order::Operands;
use patches::Patches;
use products::Products;
use readers::Readers;

use super::view::View;
use super::*;

/// The planned form of a value.
#[derive(Clone, Debug)]
enum Value {
    /// A tensor in memory.
    Tensor(View),
    /// A tensor of static integers, which are known when the plan is built.
    Static(HostTensor),
    /// A sum of matrix products, deferred until its consumer is known.
    Products(Products),
    /// An elementwise product, deferred to be fused into a sum.
    ElementProduct(View, View),
    /// The product AᵀB of a matrix A `[k, m]` and a matrix B `[k, n]`, deferred to be fused into a sum.
    Outer(View, View),
    /// The concatenated rows of several tensors, which the steps of loops read in place.
    Rows(Vec<View>),
    /// A value of an open body, which has no memory yet.
    Pending(Pending),
    /// A tensor that consists of several views side by side, which bodies read in place.
    Patches(Patches),
}

impl Value {
    /// Returns the views from which the value is read or computed.
    fn views(&self) -> impl Iterator<Item = &View> {
        let views: Vec<&View> = match self {
            Value::Tensor(view) => vec![view],
            Value::Static(_) => vec![],
            Value::Products(products) => products.views().collect(),
            Value::ElementProduct(x, y) | Value::Outer(x, y) => vec![x, y],
            Value::Rows(parts) => parts.iter().collect(),
            Value::Pending(pending) => pending.views.iter().collect(),
            Value::Patches(patches) => patches.views().collect(),
        };
        views.into_iter()
    }
}

/// The planned form of a graph's input.
#[derive(Clone, Debug)]
pub(super) enum Argument {
    /// A tensor in memory.
    Tensor(View),
    /// A tensor of static integers, which are known when the plan is built.
    Static(HostTensor),
    /// A sequence for a loop: the concatenated rows of several tensors.
    Rows(Vec<View>),
}

impl Argument {
    /// Returns the tensors whose rows form the argument, or an error for static integers. The returned list is never
    /// empty.
    pub(super) fn parts(&self) -> Result<Vec<View>> {
        match self {
            Argument::Rows(parts) => Ok(parts.clone()),
            other => Ok(vec![other.view()?.clone()]),
        }
    }

    /// Returns the tensor, or an error for any other kind of argument.
    pub(super) fn view(&self) -> Result<&View> {
        match self {
            Argument::Tensor(view) => Ok(view),
            Argument::Rows(_) => Err(Declined::new("concat", "rows of several tensors")),
            Argument::Static(tensor) => Err(Declined::new("scan", format!("values of {}", tensor.dtype()))),
        }
    }
}

/// A graph whose nodes are being planned.
pub(super) struct Scope<'p, 'g> {
    pub(super) planner: &'p mut Planner,
    graph: &'g Graph,
    values: Vec<Option<Value>>,
    /// The remaining reads of each value, and the values that occupy each register or region.
    order: ReadOrder<'g>,
    /// The assigned destination of each value, if any.
    places: Vec<Option<View>>,
    /// For each value that becomes a state in the next step: that state, and its register.
    next_of: Vec<Option<(ValueId, View)>>,
    /// The concatenations whose parts are written directly to their final position.
    joins: Joins,
    /// The bodies to which elementwise ops are added.
    bodies: Vec<OpenBody>,
    /// The kinds of ops that read each value.
    readers: Readers,
}

impl<'p, 'g> Scope<'p, 'g> {
    /// Creates a scope for a graph with the given inputs.
    pub(super) fn new(planner: &'p mut Planner, graph: &'g Graph, inputs: Vec<Argument>) -> Result<Self> {
        let count = graph.values().count();
        let (joins, order, readers) = (Joins::of(planner, graph), ReadOrder::of(graph), Readers::of(graph));
        let (values, places, next_of) = (vec![None; count], vec![None; count], vec![None; count]);
        let mut scope = Scope { planner, graph, values, order, places, next_of, joins, bodies: Vec::new(), readers };
        for (input, argument) in graph.inputs().iter().zip(inputs) {
            let dtype = graph.ty(input.value).dtype;
            let is_read = scope.order.remaining_reads(input.value) > 0;
            let value = match argument {
                Argument::Tensor(_) if is_read && !scope.planner.supports(graph, input.value) => {
                    return Err(Declined::new("scan", format!("a value of {dtype} that changes in each step")));
                }
                Argument::Tensor(view) => Value::Tensor(view),
                Argument::Static(tensor) if scope.planner.is_number(dtype) => {
                    Value::Tensor(scope.planner.constant(&tensor, Label::None)?)
                }
                Argument::Static(tensor) => Value::Static(tensor),
                Argument::Rows(parts) => Value::Rows(parts),
            };
            scope.set(input.value, Some(value));
        }
        Ok(scope)
    }

    /// Plans all nodes that contribute to an output.
    pub(super) fn nodes(&mut self) -> Result<()> {
        let graph = self.graph;
        let live = graph.live_nodes();
        for (node, _) in graph.nodes().iter().zip(live).filter(|(_, live)| *live) {
            // Users do not see this error, because the caller reports the cancellation.
            if self.planner.watch.is_cancelled() {
                return Err(Declined::new(node.op.name(), "the call was cancelled"));
            }
            for output in &node.outputs {
                self.place_part(*output)?;
            }
            // The trace of a loop with early exit has memory for the maximum number of steps, but its number of rows is
            // known only at run time. Ops that read such a trace are rejected here.
            for input in &node.inputs {
                self.planner.whole_shape(graph, *input)?;
            }
            self.order.begin(node);
            let results = self.node(node)?;
            for (output, value) in node.outputs.iter().zip(results) {
                self.set(*output, value);
            }
            for input in self.order.end() {
                self.set(input, None);
            }
        }
        Ok(())
    }

    /// Returns the outputs as tensors. Must be called after [`nodes`](Scope::nodes).
    pub(super) fn outputs(&mut self) -> Result<Vec<View>> {
        (0..self.graph.outputs().len()).map(|index| self.output(index)).collect()
    }

    /// Returns an output as a tensor.
    pub(super) fn output(&mut self, index: usize) -> Result<View> {
        self.planner.whole_shape(self.graph, self.graph.outputs()[index].value)?;
        self.tensor(self.graph.outputs()[index].value)
    }

    /// Returns a value as a tensor, and computes it first if it was deferred.
    fn tensor(&mut self, value: ValueId) -> Result<View> {
        let view = match &self.values[value.index()] {
            Some(Value::Tensor(view)) => return Ok(view.clone()),
            Some(Value::Products(products)) => {
                let products = products.clone();
                self.finish(products, None, value)?
            }
            Some(Value::ElementProduct(x, y)) => {
                let (x, y) = (x.clone(), y.clone());
                self.emit_elementwise(Op::Binary(Binary::Mul), &[x, y], value)?
            }
            Some(Value::Outer(left, right)) => {
                let (left, right) = (left.clone(), right.clone());
                let shape = self.shape_of(value)?;
                let to = self.target(value, &shape, left.level.max(right.level));
                self.planner.emitter.outer(&to, (&left, &right))?;
                to
            }
            Some(Value::Rows(parts)) => {
                let parts = parts.clone();
                self.concat(0, parts, value)?
            }
            Some(Value::Pending(pending)) => {
                let body = pending.body;
                return self.close_body(body, value);
            }
            Some(Value::Patches(patches)) => {
                let patches = patches.clone();
                self.assemble(&patches, value)?
            }
            // The value remains static in `self.values`, for consumers that need its integers.
            Some(Value::Static(tensor)) if self.planner.ranges.is_tensor_exact(tensor) => {
                let (tensor, label) = (tensor.clone(), self.planner.label(self.graph, value));
                return self.planner.constant(&tensor, label);
            }
            Some(Value::Static(tensor)) if self.planner.is_typed => {
                let (tensor, label) = (tensor.clone(), self.planner.label(self.graph, value));
                return self.planner.integer_constant(&tensor, label);
            }
            Some(Value::Static(tensor)) => {
                return Err(Declined::new("scan", format!("values of {}", tensor.dtype())));
            }
            None => return Err(Declined::new("scan", "a value that was not planned")),
        };
        self.set(value, Some(Value::Tensor(view.clone())));
        Ok(view)
    }

    /// Emits an elementwise op whose result is `value`.
    fn emit_elementwise(&mut self, op: Op, from: &[View], value: ValueId) -> Result<View> {
        let shape = self.shape_of(value)?;
        let own = self.own_state(value, &Operands { elementwise: from, others: &[] });
        let own = own.filter(|state| from.iter().any(|view| view.is_same_view(state)));
        own.iter().for_each(|_| self.planner.emitter.fired.note(Transformation::InPlace));
        let to = own.unwrap_or_else(|| self.target_like(value, &shape, level_of(from), from));
        self.planner.emitter.map(op, &to, &from.iter().collect::<Vec<_>>())?;
        Ok(to)
    }

    fn shape_of(&self, value: ValueId) -> Result<Vec<usize>> {
        self.planner.shape(self.graph, value)
    }

    fn node(&mut self, node: &Node) -> Result<Vec<Option<Value>>> {
        let name = node.op.name();
        if !node.op.bodies().is_empty() {
            let results = self.with_bodies(node)?;
            return Ok(results.into_iter().map(|view| view.map(Value::Tensor)).collect());
        }
        let [value] = node.outputs.as_slice() else {
            return self.evaluate(node);
        };
        if let Some(value) = self.static_value(node, *value)? {
            return Ok(vec![Some(value)]);
        }
        if let OpClass::Elementwise(op) = node.op.class()
            && self.belongs_in_body(node, *value)?
            && let Some(pending) = self.add_to_body(op, node, *value)?
        {
            return Ok(vec![Some(Value::Pending(pending))]);
        }
        if self.planner.is_typed {
            return self.typed_node(node, *value);
        }
        if !self.planner.can_represent(self.graph, *value) {
            return Err(Declined::new(name, format!("a result of {}", self.graph.ty(*value).dtype)));
        }
        let is_taken =
            |input: &ValueId| self.planner.can_represent(self.graph, *input) || matches!(node.op, GraphOp::Take(_));
        if let Some(input) = node.inputs.iter().find(|input| !is_taken(input)) {
            return Err(Declined::new(name, format!("an operand of {}", self.graph.ty(*input).dtype)));
        }
        let result = self.single_result(node, *value, name)?;
        Ok(vec![Some(self.round_result(node, *value, result)?)])
    }

    /// Plans an op with bodies (a loop or a switch), and returns its results, with `None` for each unused result.
    fn with_bodies(&mut self, node: &Node) -> Result<Vec<Option<View>>> {
        let used: Vec<bool> = node.outputs.iter().map(|output| self.order.remaining_reads(*output) > 0).collect();
        // In a loop, only the invariant operands may be static.
        let tensors = match &node.op {
            GraphOp::Scan(scan) => 0..scan.operands().invariants.start,
            GraphOp::While(op) => op.operands().carries,
            GraphOp::Switch(_) => 0..0,
            op => return Err(Declined::new(op.name(), "no instruction implements it yet")),
        };
        let mut operands = Vec::with_capacity(node.inputs.len());
        for (index, input) in node.inputs.iter().enumerate() {
            let is_sequence = matches!(&node.op, GraphOp::Scan(scan) if scan.operands().sequences.contains(&index));
            operands.push(match (self.static_tensor(*input), &self.values[input.index()]) {
                (Some(tensor), _) if !tensors.contains(&index) => Argument::Static(tensor),
                (_, Some(Value::Rows(parts))) if is_sequence => Argument::Rows(parts.clone()),
                _ => Argument::Tensor(self.tensor(*input)?),
            });
        }
        match &node.op {
            GraphOp::Scan(scan) => {
                let places = node.outputs.iter().map(|output| self.places[output.index()].clone()).collect();
                let is_share = |output: &ValueId| self.planner.label(self.graph, *output) == Label::Share;
                let shares: Vec<bool> = node.outputs.iter().map(is_share).collect();
                self.planner.scan(node, scan, operands, &used, places, &shares)
            }
            GraphOp::While(op) => self.planner.while_loop(op, &operands, &used),
            GraphOp::Switch(switch) => {
                let dtype = self.graph.ty(node.inputs[0]).dtype;
                self.planner.choice(switch, dtype, &operands, &used)
            }
            op => Err(Declined::new(op.name(), "no instruction implements it yet")),
        }
    }

    /// Plans an op with one result.
    fn single_result(&mut self, node: &Node, value: ValueId, name: &str) -> Result<Value> {
        let shape = self.shape_of(value)?;
        let declined = || Declined::new(name, "no instruction implements it yet");
        let view = match &node.op {
            GraphOp::Constant(constant) => {
                let label = self.planner.label(self.graph, value);
                self.planner.constant(&constant.value, label)?
            }
            GraphOp::Unary(op) => return self.unary(*op, node, value),
            GraphOp::Binary(op) => return self.binary(*op, node, value),
            GraphOp::MatMul(_) => return self.matmul(node, value),
            GraphOp::Compare(op) => {
                let [x, y] = self.two_operands(node)?;
                let (op, operands) = match op {
                    ops::Compare::Eq => (Binary::Equal, [x, y]),
                    ops::Compare::Ne => (Binary::NotEqual, [x, y]),
                    ops::Compare::Lt => (Binary::Less, [x, y]),
                    ops::Compare::Le => (Binary::LessEqual, [x, y]),
                    ops::Compare::Gt => (Binary::Less, [y, x]),
                    ops::Compare::Ge => (Binary::LessEqual, [y, x]),
                };
                self.emit_elementwise(Op::Binary(op), &operands, value)?
            }
            GraphOp::Predicate(op) => {
                let x = self.tensor(node.inputs[0])?;
                match op {
                    ops::Predicate::IsNan => {
                        self.emit_elementwise(Op::Binary(Binary::NotEqual), &[x.clone(), x], value)?
                    }
                    ops::Predicate::IsFinite => {
                        let size = self.planner.emitter.reserve(&shape, x.level);
                        self.planner.emitter.map(Op::Unary(Unary::Abs), &size, &[&x])?;
                        let infinity = self.planner.emitter.number(f64::INFINITY)?.broadcast(&shape);
                        self.emit_elementwise(Op::Binary(Binary::Less), &[size, infinity], value)?
                    }
                }
            }
            GraphOp::Select(_) => {
                let operands = node.inputs.iter().map(|input| self.tensor(*input)).collect::<Result<Vec<_>>>()?;
                self.emit_elementwise(Op::Ternary(Ternary::Select), &operands, value)?
            }
            GraphOp::Cast(cast) => {
                let x = self.tensor(node.inputs[0])?;
                match cast_kernel(self.graph.ty(node.inputs[0]).dtype, cast.dtype) {
                    Some(kernel) => {
                        let zero = self.planner.emitter.number(0.0)?.broadcast(&shape);
                        self.emit_elementwise(Op::Binary(kernel), &[x, zero], value)?
                    }
                    None => x,
                }
            }
            GraphOp::Take(op) => {
                // Each part reads its own indices if they have the parallel axis.
                let is_same_in_parts = self.planner.label(self.graph, node.inputs[1]) == Label::None;
                match self.static_tensor(node.inputs[1]).filter(|_| is_same_in_parts) {
                    Some(indices) => self.take_static(op.axis, node, value, &indices)?,
                    None => self.take(op.axis, node, value)?,
                }
            }
            GraphOp::DynamicSlice(op) => self.dynamic_slice(op.axis, node, value)?,
            GraphOp::DynamicUpdate(op) => self.dynamic_update(op.axis, node, value)?,
            GraphOp::Gather(op) => self.gather(op.axis, node, value)?,
            GraphOp::Scatter(op) => self.scatter(op, node, value)?,
            GraphOp::ArgMax(op) => self.argmax(op.axis, node, value)?,
            GraphOp::Reduce(reduce) => self.reduce(reduce, node, value)?,
            GraphOp::Broadcast(_) => self.tensor(node.inputs[0])?.broadcast(&shape),
            GraphOp::Transpose(op) => self.tensor(node.inputs[0])?.transposed(&op.axes),
            GraphOp::Reshape(_) => return self.reshape(node, &shape),
            GraphOp::Slice(op) => {
                let x = self.patches(node.inputs[0])?;
                let bound = |dim: &funcify_core::Dim| dim.value(&self.planner.sizes).map_err(|_| declined());
                let (start, limit) = (bound(&op.start)?, bound(&op.limit)?);
                // A slice that extends past the end is an error in the user's program. Decline, so that this error is
                // reported at run time.
                if start < 0 || start > limit || limit > x.shape[op.axis] as i64 {
                    return Err(Declined::new(name, "bounds beyond the operand"));
                }
                return match x.as_view() {
                    Some(x) => Ok(Value::Tensor(x.part(op.axis, start as usize, shape[op.axis], op.step))),
                    None if op.step == 1 => Ok(x.slice(op.axis, start as usize, shape[op.axis]).into_value()),
                    None => {
                        let x = self.tensor(node.inputs[0])?;
                        Ok(Value::Tensor(x.part(op.axis, start as usize, shape[op.axis], op.step)))
                    }
                };
            }
            GraphOp::Reverse(op) => {
                self.planner.emitter.fired.note(Transformation::Reversed);
                self.tensor(node.inputs[0])?.reversed(op.axis)
            }
            GraphOp::Concat(op) => {
                if self.is_read_in_place(value)? {
                    let parts = node.inputs.iter().map(|input| self.patches(*input)).collect::<Result<Vec<_>>>()?;
                    return self.side_by_side(op.axis, &parts, value);
                }
                let parts = node.inputs.iter().map(|input| self.tensor(*input)).collect::<Result<Vec<_>>>()?;
                if op.axis == 0 && self.is_read_by_steps(value, &parts) {
                    self.planner.emitter.fired.note(Transformation::JoinedRows);
                    return Ok(Value::Rows(parts));
                }
                self.concat(op.axis, parts, value)?
            }
            GraphOp::Pad(op) => {
                let [x, number] = self.two_operands(node)?;
                let low = op.low.value(&self.planner.sizes).map_err(|_| declined())?;
                let low = usize::try_from(low).map_err(|_| declined())?;
                if op.interior == 0 && self.is_read_in_place(value)? {
                    let x = self.patches(node.inputs[0])?;
                    let high = shape[op.axis].checked_sub(low + x.shape[op.axis]).ok_or_else(declined)?;
                    let border = |count: usize| {
                        let mut shape = shape.clone();
                        shape[op.axis] = count;
                        Patches::of(number.broadcast(&shape))
                    };
                    let parts = [border(low), x, border(high)];
                    return self.side_by_side(op.axis, &parts, value);
                }
                let to = self.target(value, &shape, level_of(&[x.clone(), number.clone()]));
                self.planner.emitter.copy(&to, &number.broadcast(&shape))?;
                let inside = to.part(op.axis, low, x.shape[op.axis], op.interior + 1);
                self.planner.emitter.copy(&inside, &x)?;
                to
            }
            _ => return Err(declined()),
        };
        Ok(Value::Tensor(view))
    }

    /// Returns both operands of a node as tensors.
    fn two_operands(&mut self, node: &Node) -> Result<[View; 2]> {
        Ok([self.tensor(node.inputs[0])?, self.tensor(node.inputs[1])?])
    }

    /// Returns a value as a tensor without reversed axes.
    fn without_reversed_axes(&mut self, value: ValueId) -> Result<View> {
        let view = self.tensor(value)?;
        self.planner.emitter.without_reversed_axes(&view)
    }

    /// Returns `true` if exactly one read of the value remains.
    fn is_used_once(&self, value: ValueId) -> bool {
        self.order.remaining_reads(value) == 1
    }

    fn is_output(&self, value: ValueId) -> bool {
        self.graph.outputs().iter().any(|output| output.value == value)
    }

    fn reduce(&mut self, reduce: &ops::Reduce, node: &Node, value: ValueId) -> Result<View> {
        let input = node.inputs[0];
        let fold = match reduce.kind {
            ReduceKind::Sum => Fold::Sum,
            ReduceKind::Prod => Fold::Product,
            ReduceKind::Max | ReduceKind::Any => Fold::Max,
            ReduceKind::Min | ReduceKind::All => Fold::Min,
        };
        let shape = self.shape_of(value)?;
        let from = match (&self.values[input.index()], fold) {
            (Some(Value::ElementProduct(x, y)), Fold::Sum) if self.is_used_once(input) => {
                self.planner.emitter.fired.note(Transformation::FoldOfProduct);
                vec![x.clone(), y.clone()]
            }
            _ => vec![self.tensor(input)?],
        };
        let left: Vec<isize> = (0..from[0].shape.len())
            .filter(|axis| !reduce.axes.contains(axis))
            .map(|axis| from[0].strides[axis])
            .collect();
        let like = from[0].with_axes(shape.clone(), left);
        let to = self.target_like(value, &shape, level_of(&from), &[like]);
        let is_empty = reduce.axes.iter().any(|axis| from[0].shape[*axis] == 0);
        match reduce.kind {
            ReduceKind::Any if is_empty => self.planner.emitter.fill(&to, 0.0)?,
            ReduceKind::All if is_empty => self.planner.emitter.fill(&to, 1.0)?,
            _ => self.planner.emitter.fold(fold, &to, &from.iter().collect::<Vec<_>>(), &reduce.axes)?,
        }
        Ok(to)
    }

    fn reshape(&mut self, node: &Node, shape: &[usize]) -> Result<Value> {
        let input = node.inputs[0];
        if let (Some(Value::Products(products)), true) = (&self.values[input.index()], self.is_used_once(input)) {
            return Ok(Value::Products(products.reshaped(shape)));
        }
        let x = self.tensor(input)?;
        if x.len() != shape.iter().product::<usize>() {
            return Err(Declined::new("reshape", "a different number of elements"));
        }
        let view = match x.reshaped(shape) {
            Some(view) => view,
            None => {
                let copy = self.planner.emitter.copied(&x)?;
                copy.with_axes(shape.to_vec(), in_order(shape))
            }
        };
        Ok(Value::Tensor(view))
    }
}

/// Returns the maximum level of the views, or 0 if there are none.
fn level_of(views: &[View]) -> usize {
    views.iter().map(|view| view.level).max().unwrap_or(0)
}

/// Returns an error that names the first op with several results and no bodies, or `None` if there is no such op. No
/// instruction computes such an op, so this error is more helpful than one about the type of a result.
pub(super) fn find_unsupported_op(graph: &Graph) -> Option<Declined> {
    let live = graph.live_values();
    let mut nodes = graph.nodes().iter().filter(|node| node.outputs.iter().any(|output| live[output.index()]));
    nodes.find_map(|node| match node.op.bodies() {
        bodies if bodies.is_empty() && node.outputs.len() > 1 => {
            Some(Declined::new(node.op.name(), "no instruction implements it yet"))
        }
        bodies => bodies.into_iter().find_map(|body| find_unsupported_op(body)),
    })
}

/// Returns `true` if an op writes its result row by row or operand by operand, so that each row or operand can be
/// written directly to its destination.
fn gives_parts(op: &GraphOp) -> bool {
    match op.class() {
        OpClass::Control(Control::Scan(_)) | OpClass::Movement(Movement::Concat(_)) => true,
        OpClass::Control(_) | OpClass::Movement(_) | OpClass::Elementwise(_) | OpClass::Creation(_) => false,
        OpClass::Indexing(_) | OpClass::Along(_) | OpClass::Product(_) => false,
        OpClass::RandomBits(_) | OpClass::Binding(_) | OpClass::Custom(_) => false,
    }
}
