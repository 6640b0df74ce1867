//! Evaluates static integers, which are known when a plan is built: counters, indices, sizes, and values computed from
//! them.
//!
//! Values that depend only on constants and sizes are computed at planning time by the reference evaluator. If the
//! result is a float or a mask, it becomes a constant of the plan.

use funcify_analysis::greatest_integer;
use funcify_core::Scalar;
use funcify_core::ops::EvalContext;

use super::*;

/// The maximum number of elements of a value that is evaluated at planning time.
const MAX_ELEMENTS: usize = 1 << 20;
/// The maximum length of a range of integers that is stored as a constant of the plan. Longer ranges are computed at
/// run time.
const MAX_POSITIONS: usize = 1 << 16;
/// The maximum number of copies that may replace a `take`, one for each run of consecutive indices.
const MAX_COPIES: usize = 64;
/// The maximum number of copies that are always faster than an instruction that looks up each element.
const MAX_SHORT_COPIES: usize = 4;
/// The minimum average length of a run of consecutive indices for which copying is faster than looking up each element,
/// regardless of the number of copies.
const MIN_RUN: usize = 8;
/// The maximum number of elements of a result for which copying is faster than looking up each element, because such a
/// small result stays in registers.
const MAX_COPIED_ELEMENTS: usize = 256;

impl Planner {
    /// Returns a view of the numbers 0, 1, ..., `count` - 1. Returns an error if the plan cannot represent all these
    /// numbers exactly.
    pub(super) fn positions(&mut self, count: usize) -> Result<View> {
        if count > MAX_POSITIONS {
            let is_held = i64::try_from(count).is_ok_and(|count| count <= greatest_integer(self.dtype));
            let declined =
                || Declined::new("iota", format!("{count} positions, which {} cannot represent exactly", self.dtype));
            return is_held.then(|| self.emitter.iota(count)).ok_or_else(declined)?;
        }
        let positions = HostTensor::from_fn(DType::I64, &[count], |index| Scalar::Int(index[0] as i64));
        self.constant(&positions, Label::None)
    }
}

impl Scope<'_, '_> {
    /// Evaluates a small node at planning time if all its operands are static, and if the node is a creation op or has
    /// an integer operand or result. Also plans two kinds of nodes that are computed at run time: the step count of a
    /// loop with early exit, and long ranges of integers. Returns `None` for any other node.
    pub(super) fn static_value(&mut self, node: &Node, value: ValueId) -> Result<Option<Value>> {
        if let GraphOp::Size(size) = &node.op
            && let Some((_, count)) =
                self.planner.counts.iter().rev().find(|(symbol, _)| size.dim.as_symbol() == Some(symbol))
        {
            return Ok(self.planner.can_represent(self.graph, value).then(|| Value::Tensor(count.clone())));
        }
        let fits = |value: &ValueId| self.planner.is_number(self.graph.ty(*value).dtype);
        let is_made = matches!(node.op.class(), OpClass::Creation(_)) && !matches!(node.op, GraphOp::Constant(_));
        if (!is_made && node.inputs.iter().chain([&value]).all(fits)) || !node.op.bodies().is_empty() {
            return Ok(None);
        }
        if matches!(node.op, GraphOp::Iota(_)) && self.are_many_positions(value)? {
            let count = self.planner.whole_shape(self.graph, value)?[0];
            return Ok(Some(Value::Tensor(self.planner.positions(count)?)));
        }
        let inputs: Option<Vec<HostTensor>> = node.inputs.iter().map(|input| self.static_tensor(*input)).collect();
        let Some(inputs) = inputs else { return Ok(None) };
        let is_small = self.planner.whole_shape(self.graph, value)?.iter().product::<usize>() <= MAX_ELEMENTS;
        if !is_small && !matches!(node.op, GraphOp::Constant(_)) {
            return Ok(None);
        }
        let mut sizes = self.planner.sizes.clone();
        let mut context = EvalContext { at: node.place(), sizes: &mut sizes };
        // If evaluation fails, the program is invalid, and the error is reported at run time.
        let results = node.op.eval(&mut context, &inputs, std::slice::from_ref(self.graph.ty(value)));
        let Some(result) = results.ok().and_then(|results| results.into_iter().next()) else { return Ok(None) };
        let is_number = fits(&value);
        self.planner.emitter.fired.note(Transformation::StaticIntegers);
        if is_number {
            let label = self.planner.label(self.graph, value);
            return Ok(Some(Value::Tensor(self.planner.constant(&result, label)?)));
        }
        Ok(Some(Value::Static(result)))
    }

    /// Returns `true` if the result of an `iota` has too many positions to store as a constant, but the plan can
    /// represent them exactly.
    fn are_many_positions(&self, value: ValueId) -> Result<bool> {
        let dtype = self.graph.ty(value).dtype;
        let are_numbers = self.planner.can_represent(self.graph, value);
        let is_exact = self.planner.rounding(dtype).is_none();
        Ok(are_numbers && is_exact && self.planner.whole_shape(self.graph, value)?[0] > MAX_POSITIONS)
    }

    /// Returns the tensor of a static value, or `None` if the value is not static.
    pub(in super::super) fn static_tensor(&self, value: ValueId) -> Option<HostTensor> {
        match &self.values[value.index()] {
            Some(Value::Static(tensor)) => Some(tensor.clone()),
            _ => None,
        }
    }

    /// Plans a `take` at static indices as copies, one for each run of consecutive indices, unless a single instruction
    /// is faster. Returns an error if there are more than `MAX_COPIES` runs, and no instruction supports indexed reads
    /// of the tensor.
    pub(super) fn take_static(
        &mut self,
        axis: usize,
        node: &Node,
        value: ValueId,
        indices: &HostTensor,
    ) -> Result<View> {
        let x = self.tensor(node.inputs[0])?;
        let size = x.shape[axis];
        if size == 0 {
            return Err(Declined::new("take", "an axis without elements"));
        }
        let clamped = |index: funcify_core::Scalar| index.as_i64().clamp(0, size as i64 - 1) as usize;
        let indices: Vec<usize> = indices.scalars().map(clamped).collect();
        let shape = self.shape_of(value)?;
        // The start and the length of each run of consecutive indices.
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for index in &indices {
            match runs.last_mut() {
                Some((start, count)) if *start + *count == *index => *count += 1,
                _ => runs.push((*index, 1)),
            }
        }
        let are_short = runs.len() > MAX_SHORT_COPIES && indices.len() < MIN_RUN * runs.len();
        let is_long = are_short && shape.iter().product::<usize>() > MAX_COPIED_ELEMENTS;
        if (is_long || runs.len() > MAX_COPIES) && self.planner.emitter.unit(&x).is_none() {
            return self.take(axis, node, value);
        }
        if runs.len() > MAX_COPIES {
            return Err(Declined::new("take", "static indices in too many separate runs"));
        }
        let to = self.target(value, &shape, x.level);
        // Flatten the axes of the indices, which replace `axis` in the result, into one axis.
        let flat = [&shape[..axis], &[indices.len()], &shape[shape.len() - (x.shape.len() - axis - 1)..]].concat();
        let flat = to.reshaped(&flat).ok_or_else(|| Declined::new("take", "its result is not contiguous"))?;
        let mut at = 0;
        for (start, count) in runs {
            self.planner.emitter.copy(&flat.part(axis, at, count, 1), &x.part(axis, start, count, 1))?;
            at += count;
        }
        Ok(to)
    }
}
