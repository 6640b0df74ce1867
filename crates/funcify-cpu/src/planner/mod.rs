//! The planner: compiles a checked graph with known sizes to a [`Plan`].
//!
//! `boundary` moves reshapes out of the program. `loops` plans scans: sequences, carries and steps. `buffers` plans the
//! memory for their traces. `counted` turns scans whose number of steps follows from values into while loops. `capacity`
//! pads sizes that steps compute, within the ranges of `conditions`, after `ascending` has turned loops in descending
//! order around. `while_loop` plans while loops, and `choice` plans switches. `ops` implements each op on [`View`]s.
//! `emit` converts ops on views to instructions over rows and lanes, `blocks` collects the instructions in nested loops,
//! and `memory` allocates registers. Transposes, slices, broadcasts and reads of a sequence's rows only change addresses.
//! The elements are copied only if an instruction requires another layout. Loop-invariant values are hoisted out of
//! the loops.
//!
//! A matrix product is deferred until its consumer is known, so that a sum of products, a bias and an activation become
//! one instruction. An elementwise product is deferred in the same way, to be fused into a sum.
//!
//! The planner first tries to represent all values as floats, which are exact for small integers. If that is not
//! possible, it plans the graph again and stores integers as integers: see `ops/typed.rs`.
//!
//! The planner rejects unsupported ops by name, before anything runs.

mod ascending;
mod blocks;
mod boundary;
mod buffers;
mod capacity;
mod choice;
mod conditions;
mod copies;
mod cost;
mod counted;
mod division;
mod emit;
mod loops;
mod memory;
mod ops;
mod recurrence;
mod strips;
mod view;
mod while_loop;

pub use division::Division;

use std::collections::HashSet;
use std::rc::Rc;

use emit::Emitter;
use funcify_analysis::{Contents, Label, ParallelAxis, Ranges};
use funcify_body::Type;
use funcify_core::cancel::ActiveHandles;
use funcify_core::graph::{GraphId, Output, Source, ValueId};
use funcify_core::ops::Op as GraphOp;
use funcify_core::types::{Sizes, Symbol};
use funcify_core::{DType, Graph, HostTensor};
use funcify_runtime::Declined;
use ops::{Argument, Scope};

use crate::fired::Transformation;
use crate::kernels::{Binary, Fold, Recurrence, Ternary, Unary};
use crate::plan::{Across, DEPTH, Node, Op, Operand, Plan, Region, Split, Storage};
use funcify_core::ops::{Movement, OpClass};
use view::View;

/// The result of planning. The error is the reason why the graph is not supported.
type Result<T, E = Declined> = std::result::Result<T, E>;

/// The maximum sizes of a matrix product that is computed with the parallel axis innermost, in multiplications per
/// index of this axis. The first size applies if each index has its own pair of matrices. The second size applies if
/// all indices share one of the matrices. It is smaller, because the columns of the shared matrix could be the lanes
/// instead.
const MAX_TERMS: [usize; 2] = [64, 32];

/// The maximum number of elements of a tensor in a plan.
const MAX_ELEMENTS: usize = 1 << 40;

/// A plan for a graph, and the types of its inputs and results.
#[derive(Clone, Debug)]
pub struct GraphPlan {
    /// The plan. Its inputs are the graph's inputs, followed by the constants. Its outputs are the graph's outputs.
    pub plan: Plan,
    /// The element type of the plan: the widest float type of the graph, and at least f32. This type also represents
    /// narrower floats, booleans (as 1 and 0), and integers small enough to be represented exactly.
    pub dtype: DType,
    /// The dtype of each input that the plan reads, or `None` for an input that it does not read.
    pub reads: Vec<Option<DType>>,
    /// The types in which the plan holds the inputs, and the types in which it holds the results.
    pub types: [Vec<Type>; 2],
    /// The constant tensors of the graph, stored in the plan's element type or, for integers that it cannot represent,
    /// in their own type.
    pub constants: Vec<HostTensor>,
    /// The dtype and shape of each result.
    pub results: Vec<(DType, Vec<usize>)>,
    /// `true` if the plan has an additional output: an element that is nonzero if a loop reached the bound that the
    /// planner assumed for this loop. If the element is nonzero, the other results are invalid.
    pub refuses: bool,
}

impl GraphPlan {
    /// Returns the total size of the scratch memory and the constants, in bytes.
    pub(crate) fn working_bytes(&self) -> u64 {
        let constants: usize = self.constants.iter().map(|constant| constant.len() * constant.dtype().size()).sum();
        self.plan.scratch_bytes(self.dtype.size()).saturating_add(constants as u64)
    }
}

/// Plans a graph for the given sizes. With `may_refuse`, the plan may reject a call at run time, and the caller must
/// check that the plan's element type can represent the integers in the inputs.
pub fn plan_graph(graph: &Graph, sizes: &Sizes, division: Division, may_refuse: bool) -> Result<GraphPlan, Declined> {
    let counted = counted::with_while_loops(graph, sizes);
    let (graph, sizes) = (counted.as_ref().unwrap_or(graph), &capacity::without_computed_sizes(graph, sizes));
    let declined = match plan_at_boundary(graph, sizes, division, may_refuse) {
        Err(declined) => declined,
        planned => return planned,
    };
    match capacity::with_capacities(graph, sizes) {
        Some((padded, sizes)) => plan_at_boundary(&padded, &sizes, division, may_refuse),
        None => Err(declined),
    }
}

/// Plans a graph without the reshapes of its inputs and outputs, which need no code.
fn plan_at_boundary(graph: &Graph, sizes: &Sizes, division: Division, may_refuse: bool) -> Result<GraphPlan, Declined> {
    let Some(inner) = boundary::without_boundary_reshapes(graph) else {
        return plan_in_any_type(graph, sizes, division, may_refuse);
    };
    let mut planned = plan_in_any_type(&inner, sizes, division, may_refuse)?;
    for ((_, shape), output) in planned.results.iter_mut().zip(graph.outputs()) {
        let size_unknown = |_| Declined::new("output", "a size that follows from values");
        *shape = graph.ty(output.value).shape.value(sizes).map_err(size_unknown)?;
    }
    Ok(planned)
}

/// Plans a graph with floats only or, if that fails, with integers stored as integers. If both fail, returns the reason
/// of the second attempt, because the first one fails at any op on integers.
fn plan_in_any_type(graph: &Graph, sizes: &Sizes, division: Division, may_refuse: bool) -> Result<GraphPlan, Declined> {
    let declined = match plan_with(graph, sizes, (division, false), may_refuse) {
        Err(declined) => declined,
        floats => return floats,
    };
    match plan_with(graph, sizes, (division, true), may_refuse) {
        // Decline, because the surrounding tensor library has kernels for the ops that this engine could only run in
        // the reference evaluator.
        Ok(typed) if division == Division::BesideLibrary && !typed.plan.evaluated_ops().is_empty() => Err(declined),
        typed => typed,
    }
}

/// Plans a graph. With `is_typed`, the plan may store integers as integers; otherwise, all values are floats.
fn plan_with(
    graph: &Graph,
    sizes: &Sizes,
    (division, is_typed): (Division, bool),
    may_refuse: bool,
) -> Result<GraphPlan, Declined> {
    let element = match element_type(graph) {
        Err(_) if is_typed => DType::F32,
        element => element?,
    };
    let ranges = Rc::new(Ranges::find(graph, sizes, element, may_refuse));
    let single = (!is_typed).then_some(element);
    if let Some(axis) = ParallelAxis::find(graph, sizes, single) {
        let is_innermost = division.lays_innermost(graph, sizes, &axis);
        let parts = match division {
            Division::Worthwhile | Division::BesideLibrary => cost::parts(graph, sizes, &axis, is_innermost),
            Division::Always => {
                let size = axis.size();
                (2..=size).find(|parts| size.is_multiple_of(*parts)).expect("`ParallelAxis::find` skips axes of size 1")
            }
        };
        if (parts > 1 || is_innermost)
            && let Ok(plan) = plan_parts(graph, sizes, &ranges, (axis, is_innermost), parts, (division, is_typed))
        {
            return Ok(plan);
        }
    }
    let planned = plan_parts(graph, sizes, &ranges, (ParallelAxis::default(), false), 1, (division, is_typed));
    let unsupported = || if is_typed { None } else { ops::find_unsupported_op(graph) };
    planned.map_err(|declined| unsupported().unwrap_or(declined))
}

/// Returns, for each output of a graph, the axis that the plan's loops lay out innermost. The entry is `None` if the
/// output has no such axis, or if the axis is already the last one. If a plan writes an output with this axis
/// innermost, a plan that reads the output needs no transpose.
pub(crate) fn innermost_axes(graph: &Graph, sizes: &Sizes) -> Vec<Option<usize>> {
    let none = || vec![None; graph.outputs().len()];
    let Some(labels) = ParallelAxis::find(graph, sizes, funcify_analysis::element_type(graph)) else { return none() };
    if !Division::default().lays_innermost(graph, sizes, &labels) {
        return none();
    }
    let innermost = |output: &Output| match labels.of(graph, output.value) {
        Label::Axis(axis) if axis + 1 < graph.ty(output.value).rank() => Some(axis),
        _ => None,
    };
    graph.outputs().iter().map(innermost).collect()
}

/// Plans a graph, divided into `parts` parts. If steps of loops copy large carries, plans the graph again, with two
/// registers for each of these carries.
fn plan_parts(
    graph: &Graph,
    sizes: &Sizes,
    ranges: &Rc<Ranges>,
    (labels, is_innermost): (ParallelAxis, bool),
    parts: usize,
    policy: (Division, bool),
) -> Result<GraphPlan> {
    let plan = |swapped: HashSet<(GraphId, usize)>| {
        plan_with_swaps(graph, sizes, ranges, (labels.clone(), is_innermost), parts, policy, swapped)
    };
    let (planned, moved) = plan(HashSet::new())?;
    if moved.is_empty() {
        return Ok(planned);
    }
    Ok(plan(moved).map_or(planned, |(planned, _)| planned))
}

/// Plans a graph, divided into `parts` parts. `swapped` contains the carries with two registers: the body of each loop,
/// and the number of the carry. Also returns the carries that steps copy, and that could have two registers.
fn plan_with_swaps(
    graph: &Graph,
    sizes: &Sizes,
    ranges: &Rc<Ranges>,
    (labels, is_innermost): (ParallelAxis, bool),
    parts: usize,
    (division, is_typed): (Division, bool),
    swapped: HashSet<(GraphId, usize)>,
) -> Result<(GraphPlan, HashSet<(GraphId, usize)>)> {
    let dtype = element_type(graph).or_else(|declined| if is_typed { Ok(DType::F32) } else { Err(declined) })?;
    let mut planner = Planner {
        emitter: Emitter::new(dtype.size()),
        sizes: sizes.clone(),
        dtype,
        ranges: ranges.clone(),
        refusal: None,
        integers: HashSet::new(),
        swapped,
        moved: HashSet::new(),
        counts: Vec::new(),
        outer_ends: capacity::symbols_of_ends(graph),
        constants: Vec::new(),
        inputs: graph.inputs().len(),
        part: labels.size() / parts,
        is_divided: parts > 1,
        division,
        is_typed,
        strip: None,
        labels,
        is_innermost,
        watch: ActiveHandles::current(),
    };
    let input_type = |input: &funcify_core::graph::Input| planner.representation(graph, input.value);
    let output_type = |output: &Output| planner.representation(graph, output.value);
    let types = [graph.inputs().iter().map(input_type).collect(), graph.outputs().iter().map(output_type).collect()];
    let mut views = Vec::with_capacity(graph.inputs().len());
    let mut reads = Vec::with_capacity(views.len());
    let live = graph.live_values();
    for (index, input) in graph.inputs().iter().enumerate() {
        let is_read = live[input.value.index()] && planner.supports(graph, input.value);
        reads.push(is_read.then(|| graph.ty(input.value).dtype));
        views.push(Argument::Tensor(match is_read {
            true => planner.caller_view(graph, input.value, Storage::Input(index))?,
            false => View::whole(usize::MAX, 0, &planner.shape(graph, input.value)?, 0),
        }));
    }
    let mut outputs = Vec::with_capacity(graph.outputs().len());
    let mut results = Vec::with_capacity(graph.outputs().len());
    for (index, output) in graph.outputs().iter().enumerate() {
        let dtype = graph.ty(output.value).dtype;
        if !planner.supports(graph, output.value) {
            return Err(Declined::new("output", format!("elements of {dtype}")));
        }
        outputs.push(planner.caller_view(graph, output.value, Storage::Output(index))?);
        results.push((dtype, planner.whole_shape(graph, output.value)?));
    }
    planner.reserve_refusal(graph)?;
    let mut scope = Scope::new(&mut planner, graph, views)?;
    for (output, place) in graph.outputs().iter().zip(&outputs) {
        scope.place(output.value, place.clone());
    }
    scope.nodes()?;
    let values = scope.outputs()?;
    for (output, (value, place)) in graph.outputs().iter().zip(values.iter().zip(&outputs)) {
        planner.write_output(graph, output.value, value, place, parts)?;
    }
    let refusal = planner.refusal.take();
    if let Some(refusal) = &refusal {
        let place = planner.region(Storage::Output(results.len()), &[], Label::None);
        planner.emitter.copy(&place, refusal)?;
    }
    if planner.is_divided {
        planner.emitter.fired.note(Transformation::Parts);
    }
    if planner.is_innermost {
        planner.emitter.fired.note(Transformation::Innermost);
    }
    let Planner { emitter, constants, part, moved, .. } = planner;
    emitter.fired.count();
    let plan = emitter.finish(parts, part.max(1))?;
    Ok((GraphPlan { plan, dtype, reads, types, constants, results, refuses: refusal.is_some() }, moved))
}

/// Returns the memory order of the axes, outermost first, of the first operand that has the shape `shape` and is not
/// broadcast. Returns `None` if there is no such operand, or if any such operand is in row-major order.
fn common_order(shape: &[usize], operands: &[View]) -> Option<Vec<usize>> {
    let long = |axis: &usize| shape[*axis] > 1;
    let is_full =
        |view: &&View| view.shape == shape && (0..shape.len()).filter(long).all(|axis| view.strides[axis] != 0);
    let is_turned = |order: &Vec<usize>| !order.iter().filter(|axis| long(axis)).is_sorted();
    let orders: Vec<Vec<usize>> = operands.iter().filter(is_full).map(emit::order_of).collect();
    orders.iter().all(is_turned).then(|| orders.first().cloned())?
}

/// Returns the type in which a plan holds integers of type `dtype`, or `Type::Float` for any other dtype.
fn type_of(dtype: DType) -> Type {
    match dtype {
        DType::I64 => Type::I64,
        DType::I32 => Type::I32,
        DType::U32 => Type::U32,
        DType::U8 => Type::U8,
        DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Type::Float,
    }
}

/// Returns the element type of a plan for the graph, or an error if the graph has no floats.
fn element_type(graph: &Graph) -> Result<DType> {
    funcify_analysis::element_type(graph).ok_or_else(|| Declined::new("input", "no floats"))
}

/// The state of the planner while it builds a plan.
struct Planner {
    emitter: Emitter,
    sizes: Sizes,
    dtype: DType,
    /// The possible ranges of the graph's integers.
    ranges: Rc<Ranges>,
    /// The element that is nonzero if a loop reached a bound that the planner assumed, or `None` if the planner assumed
    /// no bound.
    refusal: Option<View>,
    /// The next values of carries that are stored as integers. They are integers, too, so that no step converts them.
    integers: HashSet<(GraphId, ValueId)>,
    /// The carries that have two registers: the body of the loop, and the number of the carry.
    swapped: HashSet<(GraphId, usize)>,
    /// The carries that steps copy, and that could have two registers.
    moved: HashSet<(GraphId, usize)>,
    /// The elements that count the steps of loops with early exit, keyed by the loop's symbol.
    counts: Vec<(Symbol, View)>,
    /// The symbols of the loops with early exit that are outside of all bodies.
    outer_ends: Vec<Symbol>,
    constants: Vec<HostTensor>,
    /// The number of inputs of the graph.
    inputs: usize,
    /// The position of the parallel axis in each value.
    labels: ParallelAxis,
    /// The number of indices of the parallel axis in each part.
    part: usize,
    is_divided: bool,
    /// `true` if values in loops are laid out with the parallel axis innermost.
    is_innermost: bool,
    division: Division,
    /// `true` if the plan may store integers as integers. Otherwise, all values are floats.
    is_typed: bool,
    /// The strip of steps being planned, if any.
    strip: Option<strips::Strip>,
    /// The handles through which the caller may cancel planning.
    watch: ActiveHandles,
}

impl Planner {
    /// Adds a region for an input or output to the plan, and returns a part's view of this region.
    fn caller_view(&mut self, graph: &Graph, value: ValueId, place: Storage) -> Result<View> {
        let (whole, label) = (self.whole_shape(graph, value)?, self.label(graph, value));
        if matches!(label, Label::Axis(_)) && whole.contains(&0) {
            return Err(Declined::new("input", "parts without elements"));
        }
        let ty = self.representation(graph, value);
        Ok(self.typed_region(place, &whole, label, ty))
    }

    fn region(&mut self, place: Storage, whole: &[usize], label: Label) -> View {
        self.typed_region(place, whole, label, Type::Float)
    }

    fn typed_region(&mut self, place: Storage, whole: &[usize], label: Label, ty: Type) -> View {
        let plan = &mut self.emitter.plan;
        // In an undivided plan, nothing runs before the parts, so the level is 1.
        let level = usize::from(!self.is_divided);
        let Label::Axis(axis) = label else {
            let region = plan.typed_region(place, whole.iter().product(), 1, Split::Whole, ty);
            return View::whole(region, 0, whole, level);
        };
        let (units, width) = (whole[..axis].iter().product(), whole[axis + 1..].iter().product());
        let region = plan.typed_region(place, units, whole[axis] * width, Split::Columns(width), ty);
        let mut view = View::whole(region, 0, whole, 1);
        view.shape[axis] = self.part;
        view
    }

    /// Reserves the element that marks the call as rejected, if a loop of the graph may set it. The element is
    /// initialised here rather than at the loop, because code in a branch might not run.
    fn reserve_refusal(&mut self, graph: &Graph) -> Result<()> {
        if self.ranges.max_checked_steps().is_some() && capacity::has_unbounded(graph) {
            let refusal = self.emitter.reserve(&[], 1);
            self.emitter.fill(&refusal, 0.0)?;
            self.refusal = Some(refusal);
        }
        Ok(())
    }

    /// Emits code that marks the call as rejected if the element in `holds` is nonzero.
    fn record_refusal(&mut self, holds: &View) -> Result<()> {
        let level = self.emitter.blocks.depth();
        let here = |view: &View| View { level, ..view.clone() };
        let refusal = self.refusal.as_ref().map(here);
        let refusal = refusal.ok_or_else(|| Declined::new("while", "a refusal without an element to record it"))?;
        self.emitter.map(Op::Binary(Binary::Max), &refusal, &[&refusal, &here(holds)])
    }

    /// Returns the position of the parallel axis in a value, or `Label::None` if the plan is not divided.
    fn label(&self, graph: &Graph, value: ValueId) -> Label {
        if self.is_divided { self.labels.of(graph, value) } else { Label::None }
    }

    /// Returns the axis that is innermost in memory for a value in a loop, or `None` if the value is laid out in
    /// row-major order.
    fn innermost(&self, graph: &Graph, value: ValueId) -> Option<usize> {
        match self.labels.of(graph, value) {
            Label::Axis(axis) if self.is_innermost => Some(axis),
            _ => None,
        }
    }

    /// Reserves memory for a value that instructions at `level` write. `operands` are the operands that the op reads
    /// elementwise. If they are not in row-major order, the value gets their memory order.
    fn reserve(&mut self, graph: &Graph, value: ValueId, shape: &[usize], level: usize, operands: &[View]) -> View {
        let innermost = if level > 1 { self.innermost(graph, value) } else { None };
        let ty = self.representation(graph, value);
        match common_order(shape, operands).filter(|_| innermost.is_none()) {
            Some(order) => {
                self.emitter.fired.note(Transformation::OrderOfOperands);
                self.emitter.reserve_ordered(shape, level, &order, ty)
            }
            None => self.emitter.reserve_as(shape, level, innermost, ty),
        }
    }

    /// Emits code that writes a result to an output.
    fn write_output(&mut self, graph: &Graph, output: ValueId, value: &View, place: &View, parts: usize) -> Result<()> {
        let label = self.label(graph, output);
        if label == Label::Share {
            let mut share = value.clone();
            if !share.is_in_order() || share.register.is_none() {
                share = self.emitter.copied(&View { level: 1, ..share })?;
            }
            let ty = self.emitter.ty(place);
            if self.emitter.ty(&share) != ty {
                let converted = self.emitter.reserve_typed(&share.shape, 1, ty);
                self.emitter.copy(&converted, &View { level: 1, ..share })?;
                share = converted;
            }
            self.emitter.fired.note(Transformation::Share);
            self.emitter.sum_shares(place, &share);
            return Ok(());
        }
        if parts > 1 && label == Label::None && value.level > 0 {
            return Err(Declined::new("output", "a result that each part computes"));
        }
        if value.is_same_view(place) { Ok(()) } else { self.emitter.copy(place, value) }
    }

    /// Returns the full shape of a value, even if the plan divides the value into parts.
    fn whole_shape(&self, graph: &Graph, value: ValueId) -> Result<Vec<usize>> {
        let ty = graph.ty(value);
        let shape =
            ty.shape.value(&self.sizes).map_err(|_| Declined::new("scan", "a size that follows from values"))?;
        // Count sizes of 0 as 1: an empty tensor may still have large strides, which are products of its other sizes.
        let elements = shape.iter().try_fold(1usize, |product, size| product.checked_mul((*size).max(1)));
        match elements.filter(|elements| *elements <= MAX_ELEMENTS) {
            Some(_) => Ok(shape),
            None => Err(Declined::new("input", format!("the number of elements of {ty}"))),
        }
    }

    /// Returns the shape of a value within a part.
    fn shape(&self, graph: &Graph, value: ValueId) -> Result<Vec<usize>> {
        let mut shape = self.whole_shape(graph, value)?;
        if let Label::Axis(axis) = self.label(graph, value) {
            shape[axis] = self.part;
        }
        Ok(shape)
    }

    /// Adds a constant tensor to the plan, with its elements converted to the plan's float type, and returns a view of
    /// it.
    fn constant(&mut self, tensor: &HostTensor, label: Label) -> Result<View> {
        if tensor.len() == 1 {
            let view = self.emitter.number(tensor.get(0).as_f64())?;
            return Ok(view.with_axes(tensor.shape().to_vec(), vec![0; tensor.shape().len()]));
        }
        self.constants.push(tensor.cast(self.dtype));
        Ok(self.region(Storage::Input(self.inputs + self.constants.len() - 1), tensor.shape(), label))
    }

    /// Returns `true` if the plan can represent a value as floats: a float, a boolean, or an integer whose range is
    /// small enough to be represented exactly.
    fn can_represent(&self, graph: &Graph, value: ValueId) -> bool {
        let dtype = graph.ty(value).dtype;
        self.is_number(dtype) || self.ranges.is_exact(graph, value)
    }

    /// Returns `true` if the plan supports a value: as floats if [`can_represent`](Planner::can_represent) returns
    /// `true`, and as integers if the plan may store integers as integers.
    fn supports(&self, graph: &Graph, value: ValueId) -> bool {
        self.is_typed || self.can_represent(graph, value)
    }

    /// Returns the type in which the plan holds the elements of a value.
    fn representation(&self, graph: &Graph, value: ValueId) -> Type {
        // A vector holds four times as many bytes as floats.
        let is_byte = self.is_typed && graph.ty(value).dtype == DType::U8;
        let is_integer = is_byte || self.integers.contains(&(graph.id(), value));
        match self.can_represent(graph, value) && !is_integer {
            true => Type::Float,
            false => type_of(graph.ty(value).dtype),
        }
    }

    /// Adds a constant tensor to the plan, with its elements stored as integers instead of floats, and returns a view
    /// of it.
    fn integer_constant(&mut self, tensor: &HostTensor, label: Label) -> Result<View> {
        self.constants.push(tensor.clone());
        let place = Storage::Input(self.inputs + self.constants.len() - 1);
        Ok(self.typed_region(place, tensor.shape(), label, type_of(tensor.dtype())))
    }

    /// Returns `true` if the plan represents all values of this dtype as floats, regardless of their range.
    fn is_number(&self, dtype: DType) -> bool {
        dtype.is_float() || dtype == DType::Bool
    }

    /// Returns the op that rounds numbers of the plan to the type `dtype`, or `None` if `dtype` is not a narrower float
    /// type. The planner rounds each result of such a type. Despite the double rounding, the result is correctly
    /// rounded, because the plan's type has more than twice as many significant bits (Figueroa, When is double rounding
    /// innocuous?, 1995).
    fn rounding(&self, dtype: DType) -> Option<Unary> {
        match dtype {
            DType::F16 => Some(Unary::ToF16),
            DType::BF16 => Some(Unary::ToBf16),
            DType::F32 if self.dtype == DType::F64 => Some(Unary::ToF32),
            _ => None,
        }
    }
}
