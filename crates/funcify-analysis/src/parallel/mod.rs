//! Finds an axis that stays parallel through a whole program, bodies included.
//!
//! Different threads can process different parts of this axis without waiting for each other. The axis passes through
//! elementwise ops, matrix products (as the rows of the left matrix or the columns of the right one), reductions over
//! other axes, the rows of sequences, and ops that only move axes.
//!
//! A sum over the axis leaves each part with a partial sum, and the partial sums are added up at the end. Until then,
//! partial sums may be added and scaled. Every divisor, and every factor inside a loop, must depend only on constants
//! and sizes, and have a moderate magnitude. Other numbers (0, an infinity, a very large number) could turn partial
//! sums into infinities of opposite signs even if the total is finite. A loop must not scale a partial sum that it
//! carries: repeated scaling could make the partial sums overflow even if the total does not. The search fails at any
//! op that mixes the indices of the axis in a way other than a sum.

mod checks;

use std::collections::HashMap;

use funcify_core::graph::{GraphId, Node, ValueId};
use funcify_core::ops::scan::{Scan, Start};
use funcify_core::ops::{
    self, Along, Control, Creation, Elementwise, Indexing, Movement, Op, OpClass, Product, ReduceKind,
};

use funcify_core::types::Sizes;
use funcify_core::{DType, Graph};

/// The position of the parallel axis in a value, or the role of a value without the axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// The label is not known yet.
    Unknown,
    /// The value does not have the axis and is the same in all parts.
    None,
    /// The value has the axis at this position.
    Axis(usize),
    /// The value does not have the axis. Each part computes a partial sum of the value.
    Share,
}

/// An axis that stays parallel through a whole program, and its position in each value of the graph and its bodies.
///
/// The default represents a program without such an axis: its size is 0, and no value has it.
///
/// ```
/// use funcify_analysis::{Label, ParallelAxis};
/// use funcify_core::types::Sizes;
/// use funcify_core::{DType, Graph, scan};
///
/// // Each step scales the columns of a state; their total mixes them.
/// let graph = Graph::build("columns", |g| {
///     let (xs, init) = (g.input("xs", "f32[9,4]"), g.input("init", "f32[4]"));
///     let (last, rows) = scan(init, xs, |state, x| (state * x, state * x));
///     (last, rows.sum([1]))
/// })?;
/// let axis = ParallelAxis::find(&graph, &Sizes::new(), Some(DType::F32)).expect("the columns are independent");
/// let [last, total] = [0, 1].map(|output| graph.outputs()[output].value);
/// assert_eq!(axis.of(&graph, last), Label::Axis(0));
/// // Each part has a share of the totals.
/// assert_eq!(axis.of(&graph, total), Label::Share);
/// # Ok::<(), funcify_core::Error>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct ParallelAxis {
    graphs: HashMap<GraphId, Vec<Label>>,
    size: usize,
    /// The element type of the engine, if the engine computes in a single type.
    element: Option<DType>,
}

/// The error for a candidate axis that is not parallel, because an op mixes its indices.
struct Mixed;

/// Returns `true` if the graph or one of its bodies contains a conditional branch or a loop with a condition.
fn has_conditions(graph: &Graph) -> bool {
    let ends = |op: &Op| {
        let is_conditional = match op.class() {
            OpClass::Control(Control::While(_) | Control::Switch(_)) => true,
            OpClass::Control(Control::Scan(scan)) => scan.until.is_some(),
            OpClass::Control(Control::AssociativeScan(_) | Control::Call(_)) => false,
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => false,
            OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) => false,
            OpClass::Binding(_) | OpClass::Custom(_) => false,
        };
        is_conditional || op.bodies().into_iter().any(|body| has_conditions(body))
    };
    graph.nodes().iter().any(|node| ends(&node.op))
}

impl ParallelAxis {
    /// Finds an axis of the program that stays parallel. The candidates come from the carries, buffer rows and sequence
    /// rows of the outermost loops: in each of these, the first axis whose size is greater than 1. Returns the first
    /// candidate for which the labels of all values are consistent. Returns `None` if no candidate is consistent, if
    /// `sizes` does not determine the shape of a candidate, or if the program contains a conditional branch or a loop
    /// with a condition.
    ///
    /// `element` is the engine's element type ([`element_type`](crate::element_type)), if the engine holds all values
    /// in a single float type. Casts of integers to this type are assumed to be exact, and integers are assumed not to
    /// wrap.
    pub fn find(graph: &Graph, sizes: &Sizes, element: Option<DType>) -> Option<Self> {
        // A condition applies to all indices of the axis at once, so it would make the parts depend on each other.
        if has_conditions(graph) {
            return None;
        }
        let mut tried = Vec::new();
        for node in graph.nodes() {
            let Op::Scan(scan) = &node.op else { continue };
            let params = scan.params();
            let rows = params.buffers.iter().chain(&params.sequences).cloned().flatten();
            for param in params.carries.clone().chain(rows) {
                let shape = scan.body.input_type(param).shape.value(sizes).ok()?;
                let Some(axis) = shape.iter().position(|size| *size > 1) else { continue };
                let size = shape[axis];
                if tried.contains(&(param, size)) {
                    continue;
                }
                tried.push((param, size));
                let mut labels = ParallelAxis { size, element, ..ParallelAxis::default() };
                labels.start(graph);
                labels.set(&scan.body, scan.body.inputs()[param].value, Label::Axis(axis));
                if labels.propagate(graph, sizes).is_ok() {
                    return Some(labels);
                }
            }
        }
        None
    }

    /// Returns the size of the axis.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the label of a value of the graph or of a body. Returns [`Label::None`] if the value has no label.
    pub fn of(&self, graph: &Graph, value: ValueId) -> Label {
        match self.graphs.get(&graph.id()).map(|labels| labels[value.index()]) {
            Some(Label::Unknown) | None => Label::None,
            Some(label) => label,
        }
    }

    fn start(&mut self, graph: &Graph) {
        self.graphs.entry(graph.id()).or_insert_with(|| vec![Label::Unknown; graph.values().count()]);
        for body in graph.nodes().iter().flat_map(|node| node.op.bodies()) {
            self.start(body);
        }
    }

    fn get(&self, graph: &Graph, value: ValueId) -> Label {
        self.graphs[&graph.id()][value.index()]
    }

    fn set(&mut self, graph: &Graph, value: ValueId, label: Label) {
        self.graphs.get_mut(&graph.id()).expect("`start` labels every body")[value.index()] = label;
    }

    /// Propagates labels between operands and results until nothing changes, and then checks them.
    fn propagate(&mut self, graph: &Graph, sizes: &Sizes) -> Result<(), Mixed> {
        loop {
            let before = self.graphs.clone();
            self.propagate_once(graph, sizes)?;
            if before == self.graphs {
                break;
            }
        }
        self.check(graph, sizes)
    }

    fn propagate_once(&mut self, graph: &Graph, sizes: &Sizes) -> Result<(), Mixed> {
        for node in graph.nodes() {
            self.node(graph, node, sizes)?;
        }
        for node in graph.nodes().iter().rev() {
            self.node(graph, node, sizes)?;
        }
        Ok(())
    }

    /// Gives two values of a graph the same label. Does nothing if both are unlabelled, and fails if they already have
    /// different labels.
    fn unify(&mut self, graph: &Graph, one: ValueId, other: ValueId) -> Result<(), Mixed> {
        match (self.get(graph, one), self.get(graph, other)) {
            (Label::Unknown, label) => self.set(graph, one, label),
            (label, Label::Unknown) => self.set(graph, other, label),
            (one, other) if one == other => {}
            _ => return Err(Mixed),
        }
        Ok(())
    }

    /// Labels a value. Fails if the value already has a different label.
    fn require_label(&mut self, graph: &Graph, value: ValueId, label: Label) -> Result<(), Mixed> {
        match self.get(graph, value) {
            Label::Unknown => self.set(graph, value, label),
            own if own == label => {}
            _ => return Err(Mixed),
        }
        Ok(())
    }

    /// Labels two values. Fails if either already has a different label.
    fn require_labels(&mut self, graph: &Graph, labels: [(ValueId, Label); 2]) -> Result<(), Mixed> {
        labels.into_iter().try_for_each(|(value, label)| self.require_label(graph, value, label))
    }

    /// Labels an operand and a result whose axes correspond. `there` maps an axis of the operand to the corresponding
    /// axis of the result, and `back` maps an axis of the result to that of the operand. Each function returns `None`
    /// if the other value has no corresponding axis. If the operand has the parallel axis and the result does not, the
    /// result is labelled `lost`.
    fn map(
        &mut self,
        graph: &Graph,
        (operand, result): (ValueId, ValueId),
        there: impl Fn(usize) -> Option<usize>,
        back: impl Fn(usize) -> Option<usize>,
        lost: Label,
    ) -> Result<(), Mixed> {
        match self.get(graph, operand) {
            Label::Axis(axis) => {
                self.require_label(graph, result, there(axis).map_or(lost, Label::Axis))?;
            }
            Label::Share => self.require_label(graph, result, Label::Share)?,
            Label::None | Label::Unknown => {}
        }
        match self.get(graph, result) {
            Label::Axis(axis) => self.require_label(graph, operand, back(axis).map_or(Label::None, Label::Axis)),
            _ => Ok(()),
        }
    }

    fn node(&mut self, graph: &Graph, node: &Node, sizes: &Sizes) -> Result<(), Mixed> {
        if let Op::Scan(scan) = &node.op {
            return self.scan(graph, node, scan, sizes);
        }
        let inputs = &node.inputs;
        let Some(result) = node.outputs.first().copied() else {
            return inputs.iter().try_for_each(|input| self.require_label(graph, *input, Label::None));
        };
        let shape = |value: ValueId| graph.ty(value).shape.value(sizes).map_err(|_| Mixed);
        match node.op.class() {
            OpClass::Elementwise(Elementwise::Unary(ops::Unary::Neg | ops::Unary::StopGradient)) => {
                self.unify(graph, inputs[0], result)?
            }
            OpClass::Elementwise(Elementwise::Cast(cast)) => {
                self.unify(graph, inputs[0], result)?;
                if !self.is_linear(graph.ty(inputs[0]).dtype, cast.dtype) {
                    self.reject_share(graph, result)?;
                }
            }
            OpClass::Elementwise(Elementwise::Binary(ops::Binary::Add | ops::Binary::Sub)) => {
                for input in inputs {
                    self.unify(graph, *input, result)?;
                }
            }
            OpClass::Elementwise(Elementwise::Binary(ops::Binary::Mul | ops::Binary::Div)) => {
                self.scale(graph, node)?;
            }
            OpClass::Elementwise(_) | OpClass::Movement(Movement::Bitcast(_)) => self.elementwise(graph, node)?,
            OpClass::Movement(Movement::Broadcast(_)) => {
                let (from, to) = (shape(inputs[0])?, shape(result)?);
                let added = to.len() - from.len();
                let back = |axis: usize| axis.checked_sub(added).filter(|own| from[*own] == to[axis]);
                self.map(graph, (inputs[0], result), |axis| Some(axis + added), back, Label::None)?;
            }
            OpClass::Movement(Movement::Transpose(op)) => {
                let there = |axis: usize| op.axes.iter().position(|from| *from == axis);
                self.map(graph, (inputs[0], result), there, |axis| Some(op.axes[axis]), Label::None)?;
            }
            OpClass::Movement(Movement::Reshape(_)) => {
                let (from, to) = (shape(inputs[0])?, shape(result)?);
                let there = |axis: usize| same_axis(&from, &to, axis);
                let back = |axis: usize| same_axis(&to, &from, axis);
                for (value, way) in [(inputs[0], &there as &dyn Fn(usize) -> Option<usize>), (result, &back)] {
                    if let Label::Axis(axis) = self.get(graph, value) {
                        way(axis).ok_or(Mixed)?;
                    }
                }
                self.map(graph, (inputs[0], result), there, back, Label::None)?;
            }
            OpClass::Indexing(Indexing::Take(op)) => {
                self.take(graph, node, op.axis, (shape(inputs[0])?.iter().product(), shape(inputs[1])?.len()))?
            }
            OpClass::Indexing(
                Indexing::Gather(ops::Gather { axis }) | Indexing::Scatter(ops::Scatter { axis, .. }),
            ) => {
                self.elementwise(graph, node)?;
                self.reject_axis(graph, result, *axis)?;
            }
            OpClass::Movement(Movement::Slice(ops::Slice { axis, .. }) | Movement::Reverse(ops::Reverse { axis })) => {
                self.unify(graph, inputs[0], result)?;
                self.reject_axis(graph, result, *axis)?;
            }
            OpClass::Movement(Movement::Pad(op)) => {
                self.unify(graph, inputs[0], result)?;
                self.require_label(graph, inputs[1], Label::None)?;
                self.reject_axis(graph, result, op.axis)?;
                self.reject_share(graph, result)?;
            }
            OpClass::Movement(Movement::Concat(op)) => {
                for input in inputs {
                    self.unify(graph, *input, result)?;
                }
                self.reject_axis(graph, result, op.axis)?;
            }
            OpClass::Along(Along::Reduce(op)) => {
                let there = |axis: usize| {
                    (!op.axes.contains(&axis)).then(|| axis - op.axes.iter().filter(|folded| **folded < axis).count())
                };
                let rank = shape(inputs[0])?.len();
                let back = |axis: usize| (0..rank).filter(|axis| !op.axes.contains(axis)).nth(axis);
                let is_folded = matches!(self.get(graph, inputs[0]), Label::Axis(axis) if op.axes.contains(&axis));
                if op.kind != ReduceKind::Sum {
                    if is_folded {
                        return Err(Mixed);
                    }
                    self.reject_share(graph, inputs[0])?;
                }
                self.map(graph, (inputs[0], result), there, back, Label::Share)?;
            }
            OpClass::Product(Product::MatMul(_)) => self.matmul(graph, node, shape(result)?.len())?,
            OpClass::Creation(Creation::Constant(_)) => {}
            // These ops create their result, compute along axes, or contain code that is not analysed. No operand or
            // result of such an op may have the parallel axis.
            OpClass::Creation(_) | OpClass::Indexing(_) | OpClass::Along(_) => self.require_no_axis(graph, node)?,
            OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => self.require_no_axis(graph, node)?,
            OpClass::Control(_) | OpClass::Custom(_) => self.require_no_axis(graph, node)?,
        }
        Ok(())
    }

    /// Requires that no operand or result has the axis.
    fn require_no_axis(&mut self, graph: &Graph, node: &Node) -> Result<(), Mixed> {
        node.inputs.iter().chain(&node.outputs).try_for_each(|value| self.require_label(graph, *value, Label::None))
    }

    /// Requires that all operands and the result have the same label, and that no operand is a partial sum.
    fn elementwise(&mut self, graph: &Graph, node: &Node) -> Result<(), Mixed> {
        for input in &node.inputs {
            self.reject_share(graph, *input)?;
            self.unify(graph, *input, node.outputs[0])?;
        }
        Ok(())
    }

    /// Labels a product or quotient. A partial sum may be multiplied or divided by a value that is the same in all
    /// parts. Fails for an integer quotient of a partial sum, because integer division truncates.
    fn scale(&mut self, graph: &Graph, node: &Node) -> Result<(), Mixed> {
        if matches!(node.op, Op::Binary(ops::Binary::Div)) && graph.ty(node.outputs[0]).dtype.is_int() {
            return self.elementwise(graph, node);
        }
        let [left, right, result] = [node.inputs[0], node.inputs[1], node.outputs[0]];
        let is_product = matches!(node.op, Op::Binary(ops::Binary::Mul));
        match (self.get(graph, left), self.get(graph, right)) {
            (Label::Share, _) => self.require_labels(graph, [(right, Label::None), (result, Label::Share)]),
            (_, Label::Share) if is_product => {
                self.require_labels(graph, [(left, Label::None), (result, Label::Share)])
            }
            (_, Label::Share) => Err(Mixed),
            _ if self.get(graph, result) == Label::Share => Ok(()),
            // The unlabelled operand, and therefore the result, may still become a partial sum.
            (Label::Unknown, Label::None) | (Label::None, Label::Unknown)
                if self.get(graph, result) == Label::Unknown =>
            {
                Ok(())
            }
            _ => self.elementwise(graph, node),
        }
    }

    /// Returns `true` if casting a sum is equivalent to casting its partial sums. This is not the case if the cast
    /// rounds or truncates, if it is a cast to `bool`, which compares with 0, or if a sum of integers may have wrapped
    /// before it is cast to a wider type. Integers that are held in floats do not wrap.
    fn is_linear(&self, from: DType, to: DType) -> bool {
        let is_wide = to.is_int() && (to.size() <= from.size() || self.element.is_some());
        from == to || (from.is_int() && (is_wide || Some(to) == self.element))
    }

    /// Labels a lookup along `axis` of a table of `count` elements, with an index of `rank` axes, which replace this axis
    /// in the result. The table may have the parallel axis if the index has one axis. If the table is so small that it
    /// stays in the cache of each part, the index may have it instead.
    fn take(&mut self, graph: &Graph, node: &Node, axis: usize, (count, rank): (usize, usize)) -> Result<(), Mixed> {
        /// The maximum number of elements of a table that every part reads.
        const MAX_TABLE: usize = 1 << 12;
        let [table, index, result] = [node.inputs[0], node.inputs[1], node.outputs[0]];
        self.reject_share(graph, index)?;
        let of_index = match (self.get(graph, index), self.get(graph, result)) {
            (Label::Axis(own), _) => Some(own),
            (_, Label::Axis(own)) if (axis..axis + rank).contains(&own) => Some(own - axis),
            _ => None,
        };
        if let Some(own) = of_index {
            if count > MAX_TABLE {
                return Err(Mixed);
            }
            self.require_label(graph, table, Label::None)?;
            return self.require_labels(graph, [(index, Label::Axis(own)), (result, Label::Axis(axis + own))]);
        }
        self.reject_axis(graph, table, axis)?;
        match (self.get(graph, table), self.get(graph, result)) {
            (Label::None | Label::Unknown, Label::None | Label::Unknown) => Ok(()),
            _ if rank == 1 => {
                self.unify(graph, table, result)?;
                self.require_label(graph, index, Label::None)
            }
            _ => Err(Mixed),
        }
    }

    fn reject_axis(&self, graph: &Graph, value: ValueId, axis: usize) -> Result<(), Mixed> {
        if self.get(graph, value) == Label::Axis(axis) { Err(Mixed) } else { Ok(()) }
    }

    fn reject_share(&self, graph: &Graph, value: ValueId) -> Result<(), Mixed> {
        if self.get(graph, value) == Label::Share { Err(Mixed) } else { Ok(()) }
    }

    fn matmul(&mut self, graph: &Graph, node: &Node, rank: usize) -> Result<(), Mixed> {
        let [left, right, result] = [node.inputs[0], node.inputs[1], node.outputs[0]];
        let (rows, columns) = (rank - 2, rank - 1);
        match self.get(graph, left) {
            Label::Axis(axis) if axis < rows => {
                self.require_labels(graph, [(right, Label::Axis(axis)), (result, Label::Axis(axis))])?
            }
            Label::Axis(axis) if axis == rows => {
                self.require_labels(graph, [(right, Label::None), (result, Label::Axis(rows))])?
            }
            Label::Axis(_) => self.require_labels(graph, [(right, Label::Axis(rows)), (result, Label::Share)])?,
            Label::Share => self.require_labels(graph, [(right, Label::None), (result, Label::Share)])?,
            Label::None | Label::Unknown => {}
        }
        match self.get(graph, right) {
            Label::Axis(axis) if axis < rows => self.require_label(graph, left, Label::Axis(axis))?,
            Label::Axis(axis) if axis == columns => {
                self.require_labels(graph, [(left, Label::None), (result, Label::Axis(columns))])?
            }
            Label::Axis(_) => self.require_label(graph, left, Label::Axis(columns))?,
            Label::Share => self.require_labels(graph, [(left, Label::None), (result, Label::Share)])?,
            Label::None | Label::Unknown => {}
        }
        match self.get(graph, result) {
            Label::Axis(axis) if axis < rows => self.require_label(graph, left, Label::Axis(axis)),
            Label::Axis(axis) if axis == rows => self.require_label(graph, left, Label::Axis(rows)),
            Label::Axis(_) => self.require_label(graph, right, Label::Axis(columns)),
            _ => Ok(()),
        }
    }

    fn scan(&mut self, graph: &Graph, node: &Node, scan: &Scan, sizes: &Sizes) -> Result<(), Mixed> {
        let (places, params, results) = (scan.operands(), scan.params(), scan.results());
        let body = &*scan.body;
        let param = |index: usize| body.inputs()[index].value;
        let written = |index: usize| body.outputs()[index].value;
        if let Some(steps) = places.steps {
            self.require_label(graph, node.inputs[steps], Label::None)?;
        }
        for (operand, reads) in places.sequences.zip(&params.sequences) {
            for read in reads.clone() {
                self.row(graph, node.inputs[operand], body, param(read))?;
            }
        }
        for (index, buffer) in scan.buffers.iter().enumerate() {
            let whole = node.outputs[index];
            let rows: Vec<ValueId> =
                params.buffers[index].clone().map(param).chain(results.buffers[index].clone().map(written)).collect();
            for row in rows {
                self.row(graph, whole, body, row)?;
                if let Some(operand) = places.buffers[index] {
                    self.row(graph, node.inputs[operand], body, row)?;
                }
            }
            // If the initial rows became partial sums, they would be added once per part.
            if buffer.start != Start::Empty {
                self.reject_share(graph, whole)?;
            }
        }
        for (index, carry) in params.carries.clone().enumerate() {
            let (initial, last) = (node.inputs[places.carries.start + index], node.outputs[scan.buffers.len() + index]);
            let next = written(results.carries.start + index);
            for value in [next, param(carry)] {
                let (inside, outside) = (self.get(body, value), self.get(graph, last));
                match (inside, outside) {
                    (Label::Unknown, label) => self.set(body, value, label),
                    (label, Label::Unknown) => self.set(graph, last, label),
                    (inside, outside) if inside == outside => {}
                    (Label::None, Label::Share) | (Label::Share, Label::None) => return Err(Mixed),
                    _ => return Err(Mixed),
                }
            }
            match (self.get(graph, initial), self.get(graph, last)) {
                (_, Label::Share) => self.require_label(graph, initial, Label::None)?,
                // The carry may still become a partial sum, but its initial value cannot.
                (Label::None, Label::Unknown) => {}
                _ => self.unify(graph, initial, last)?,
            }
        }
        for (operand, index) in places.invariants.zip(params.invariants) {
            let (outside, inside) = (self.get(graph, node.inputs[operand]), self.get(body, param(index)));
            match (outside, inside) {
                (Label::Unknown, label) => self.set(graph, node.inputs[operand], label),
                (label, Label::Unknown) => self.set(body, param(index), label),
                (outside, inside) if outside == inside => {}
                _ => return Err(Mixed),
            }
        }
        if let Some(until) = results.until {
            self.require_label(body, written(until), Label::None)?;
        }
        self.propagate_once(body, sizes)
    }

    /// Gives a tensor and one of its rows along axis 0 consistent labels, or fails if this is impossible.
    fn row(&mut self, graph: &Graph, whole: ValueId, body: &Graph, row: ValueId) -> Result<(), Mixed> {
        match self.get(graph, whole) {
            Label::Axis(0) => return Err(Mixed),
            Label::Axis(axis) => self.require_label(body, row, Label::Axis(axis - 1))?,
            Label::Unknown => {}
            label => self.require_label(body, row, label)?,
        }
        match self.get(body, row) {
            Label::Axis(axis) => self.require_label(graph, whole, Label::Axis(axis + 1)),
            Label::Unknown => Ok(()),
            label => self.require_label(graph, whole, label),
        }
    }

    /// Treats unlabelled values as values without the axis, and checks that all labels are still consistent and all
    /// labelled axes have the right size.
    fn check(&mut self, graph: &Graph, sizes: &Sizes) -> Result<(), Mixed> {
        for labels in self.graphs.values_mut() {
            labels.iter_mut().filter(|label| **label == Label::Unknown).for_each(|label| *label = Label::None);
        }
        self.propagate_once(graph, sizes)?;
        if graph.inputs().iter().any(|input| self.get(graph, input.value) == Label::Share) {
            return Err(Mixed);
        }
        self.check_share_origins(graph)?;
        self.check_share_factors(graph, sizes, None)?;
        self.check_axis_sizes(graph, sizes)
    }
}

/// Returns the axis of the shape `to` that corresponds to `axis` of the shape `from`: it has the same size, and the
/// product of the sizes before it is the same. Returns `None` if `to` has no such axis.
fn same_axis(from: &[usize], to: &[usize], axis: usize) -> Option<usize> {
    let before: usize = from[..axis].iter().product();
    (0..to.len()).find(|other| to[*other] == from[axis] && to[..*other].iter().product::<usize>() == before)
}
