//! Plans nodes with operands or results that the plan holds in an integer type rather than as floats. Elementwise ops
//! are added to fused bodies. Ops that have no instruction are computed as a whole: by a kernel, or by the reference
//! evaluator if there is no kernel.

use std::sync::Arc;

use funcify_body::Type;
use funcify_core::ops::{Along, Creation, EvalContext};
use funcify_core::{Shape, TensorType};

use super::super::type_of;
use super::*;
use crate::kernels::whole::WholeKernel;

/// The maximum number of elements in the operands and results of an op that the reference evaluator computes inside a
/// plan.
const MAX_EVALUATED: usize = 1 << 20;
/// The maximum size of an axis that a single fused body folds by loading all elements along the axis.
const MAX_UNROLLED: usize = 8;

impl Scope<'_, '_> {
    /// Plans a node with one result. The plan may hold the operands and the result of the node in integer types.
    pub(super) fn typed_node(&mut self, node: &Node, value: ValueId) -> Result<Vec<Option<Value>>> {
        let name = node.op.name();
        let is_float = self.planner.representation(self.graph, value) == Type::Float
            && node.inputs.iter().all(|input| self.is_float(*input));
        if is_float && let Ok(result) = self.single_result(node, value, name) {
            return Ok(vec![Some(self.round_result(node, value, result)?)]);
        }
        let result = match node.op.class() {
            // Bodies also compute bitwise ops on integers that the plan holds as floats, because no instruction
            // supports such ops.
            OpClass::Elementwise(op) if self.graph.ty(value).dtype.is_int() => {
                match self.add_to_body(op, node, value)? {
                    Some(pending) => return Ok(vec![Some(Value::Pending(pending))]),
                    None => None,
                }
            }
            OpClass::Elementwise(_) => None,
            OpClass::Movement(Movement::Bitcast(_)) => None,
            OpClass::Movement(_) => Some(self.single_result(node, value, name)?),
            OpClass::Indexing(_) => self.single_result(node, value, name).ok(),
            OpClass::Along(Along::Reduce(reduce)) => self.typed_reduce(reduce, node, value)?.map(Value::Tensor),
            OpClass::Along(_) | OpClass::Creation(_) | OpClass::Product(_) | OpClass::RandomBits(_) => None,
            OpClass::Binding(_) | OpClass::Control(_) | OpClass::Custom(_) => None,
        };
        match result {
            Some(result) => Ok(vec![Some(self.round_result(node, value, result)?)]),
            None => self.evaluate(node),
        }
    }

    /// Returns `true` if the plan holds all elements of a value as floats or, for a static value, can hold them as
    /// floats.
    pub(super) fn is_float(&self, value: ValueId) -> bool {
        match &self.values[value.index()] {
            Some(Value::Static(tensor)) => {
                self.planner.is_number(tensor.dtype()) || self.planner.ranges.is_tensor_exact(tensor)
            }
            Some(Value::Pending(_)) => self.planner.representation(self.graph, value) == Type::Float,
            Some(planned) => planned.views().all(|view| self.planner.emitter.ty(view) == Type::Float),
            None => true,
        }
    }

    /// Returns memory in which to compute a value with elements of type `ty`: the value's [`target`](Scope::target) if
    /// the plan holds the value in this type, and new memory otherwise. In the latter case, the caller must pass the
    /// result to [`held_as`](Scope::held_as).
    pub(super) fn typed_target(&mut self, value: ValueId, shape: &[usize], level: usize, ty: Type) -> View {
        match self.planner.representation(self.graph, value) == ty {
            true => self.target(value, shape, level),
            false => self.planner.emitter.reserve_typed(shape, level, ty),
        }
    }

    /// Returns `result` if it has the type in which the plan holds `value`, and a converted copy otherwise.
    pub(super) fn held_as(&mut self, value: ValueId, result: View) -> Result<View> {
        if self.planner.representation(self.graph, value) == self.planner.emitter.ty(&result) {
            return Ok(result);
        }
        let to = self.target(value, &result.shape.clone(), result.level);
        self.planner.emitter.copy(&to, &result)?;
        Ok(to)
    }

    /// Returns the tensor of a value, converted to elements of type `ty` if necessary.
    pub(super) fn tensor_of(&mut self, value: ValueId, ty: Type) -> Result<View> {
        let view = self.tensor(value)?;
        if self.planner.emitter.ty(&view) == ty {
            return Ok(view);
        }
        let copy = self.planner.emitter.reserve_typed(&view.shape, view.level, ty);
        self.planner.emitter.copy(&copy, &view)?;
        Ok(copy)
    }

    fn typed_reduce(&mut self, reduce: &ops::Reduce, node: &Node, value: ValueId) -> Result<Option<View>> {
        let fold = match reduce.kind {
            ReduceKind::Sum => Fold::Sum,
            ReduceKind::Prod => Fold::Product,
            ReduceKind::Max => Fold::Max,
            ReduceKind::Min => Fold::Min,
            ReduceKind::Any | ReduceKind::All => return Ok(None),
        };
        let ty = type_of(self.graph.ty(value).dtype);
        let x = self.tensor_of(node.inputs[0], ty)?;
        if ty == Type::Float || reduce.axes.iter().any(|axis| x.shape[*axis] == 0) {
            return Ok(None);
        }
        let shape = self.shape_of(value)?;
        let to = self.typed_target(value, &shape, x.level, ty);
        match reduce.axes[..] {
            [axis] if x.shape[axis] <= MAX_UNROLLED => self.planner.emitter.fold_unrolled(fold, &to, &x, axis)?,
            _ => self.planner.emitter.fold(fold, &to, &[&x], &reduce.axes)?,
        }
        self.held_as(value, to).map(Some)
    }

    /// Plans a `bind_size`, or an op that a kernel or the reference evaluator computes as a whole. Returns an error if
    /// neither supports the op.
    pub(super) fn evaluate(&mut self, node: &Node) -> Result<Vec<Option<Value>>> {
        if let GraphOp::BindSize(op) = &node.op {
            let possible = self.planner.ranges.of(self.graph, node.inputs[0]);
            let number = self.tensor(node.inputs[0])?;
            self.planner.bind_size(&op.size, &number, possible)?;
            return Ok(Vec::new());
        }
        let declined = || Declined::new(node.op.name(), "no instruction implements it yet");
        let is_total = match node.op.class() {
            OpClass::Binding(_) | OpClass::Control(_) | OpClass::Custom(_) => false,
            // All sizes are known when the plan is built, so a size that was not evaluated then is an error in the
            // program.
            OpClass::Creation(Creation::Size(_)) => false,
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) | OpClass::Indexing(_) => true,
            OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) => true,
        };
        let is_half = |value: &ValueId| matches!(self.graph.ty(*value).dtype, DType::F16 | DType::BF16);
        // A number has different neighbours in f16 or bf16 than in the plan's type.
        let is_total = is_total && !(matches!(node.op, GraphOp::NextAfter(_)) && node.inputs.iter().any(is_half));
        if !self.planner.is_typed || !is_total {
            return Err(declined());
        }
        if let Some(kernel) = self.whole_kernel(node)? {
            return self.run_whole(node, Arc::new(kernel));
        }
        if self.planner.is_divided {
            return Err(declined());
        }
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            let view = self.tensor(*input)?;
            let view = if view.is_in_order() { view } else { self.planner.emitter.copied(&view)? };
            inputs.push((view, self.known_type(*input)?));
        }
        let level = inputs.iter().map(|(view, _)| view.level).max().unwrap_or(0);
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            let (ty, shape) = (self.planner.representation(self.graph, *output), self.shape_of(*output)?);
            let view = self.planner.emitter.reserve_typed(&shape, level, ty);
            outputs.push((view, self.known_type(*output)?));
        }
        if !self.evaluates(node, &inputs, &outputs) {
            return Err(declined());
        }
        let op = Arc::new(node.op.clone());
        self.planner.emitter.evaluate(level, (op, None), &inputs, &outputs, &self.planner.sizes)?;
        Ok(outputs.into_iter().map(|(view, _)| Some(Value::Tensor(view))).collect())
    }

    /// Returns the kernel that computes an op as a whole, or `None` if there is no such kernel. Also returns `None` for
    /// partial sums, because a kernel would round them to the result's dtype.
    fn whole_kernel(&mut self, node: &Node) -> Result<Option<WholeKernel>> {
        if node.outputs.iter().any(|output| self.planner.label(self.graph, *output) == Label::Share) {
            return Ok(None);
        }
        let inputs = node.inputs.iter().map(|input| self.known_type(*input)).collect::<Result<Vec<_>>>()?;
        let outputs = node.outputs.iter().map(|output| self.known_type(*output)).collect::<Result<Vec<_>>>()?;
        Ok(WholeKernel::of(&node.op, &inputs, &outputs, &self.planner.sizes, self.planner.dtype))
    }

    /// Plans an op that a kernel computes as a whole. The kernel reads and writes integers as integers, not as floats.
    fn run_whole(&mut self, node: &Node, kernel: Arc<WholeKernel>) -> Result<Vec<Option<Value>>> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            let view = self.tensor_of(*input, type_of(self.graph.ty(*input).dtype))?;
            let view = if view.is_in_order() { view } else { self.planner.emitter.copied(&view)? };
            inputs.push((view, self.known_type(*input)?));
        }
        let level = inputs.iter().map(|(view, _)| view.level).max().unwrap_or(0);
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            let (ty, shape) = (type_of(self.graph.ty(*output).dtype), self.shape_of(*output)?);
            let target = self.typed_target(*output, &shape, level, ty);
            let target =
                if target.is_in_order() { target } else { self.planner.emitter.reserve_typed(&shape, level, ty) };
            outputs.push((target, self.known_type(*output)?));
        }
        let op = (Arc::new(node.op.clone()), Some(kernel));
        self.planner.emitter.evaluate(level, op, &inputs, &outputs, &self.planner.sizes)?;
        let mut results = Vec::with_capacity(outputs.len());
        for (output, (view, _)) in node.outputs.iter().zip(outputs) {
            let held = Value::Tensor(self.held_as(*output, view)?);
            results.push(Some(self.round_result(node, *output, held)?));
        }
        Ok(results)
    }

    /// Returns `true` if the reference evaluator can compute an op, and the op is not too large. To find out, evaluates
    /// the op on zeros: only the sizes determine whether the evaluation fails.
    fn evaluates(&self, node: &Node, inputs: &[(View, TensorType)], outputs: &[(View, TensorType)]) -> bool {
        let elements: usize = inputs.iter().chain(outputs).map(|(view, _)| view.len()).sum();
        let zeros = |(view, ty): &(View, TensorType)| HostTensor::zeros(ty.dtype, &view.shape);
        let (inputs, types): (Vec<HostTensor>, Vec<TensorType>) =
            (inputs.iter().map(zeros).collect(), outputs.iter().map(|(_, ty)| ty.clone()).collect());
        let mut sizes = self.planner.sizes.clone();
        let mut context = EvalContext { at: node.place(), sizes: &mut sizes };
        elements <= MAX_EVALUATED && node.op.eval(&mut context, &inputs, &types).is_ok()
    }

    /// Returns the type of a value, with symbols replaced by their sizes.
    fn known_type(&self, value: ValueId) -> Result<TensorType> {
        Ok(TensorType::new(self.graph.ty(value).dtype, Shape::from(self.shape_of(value)?.as_slice())))
    }
}
