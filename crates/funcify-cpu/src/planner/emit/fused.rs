//! Emits fused bodies, and ops that are computed as a whole.

use std::sync::Arc;

use funcify_body::{Body, Fused, IntBinary, Op as BodyOp};

use funcify_core::TensorType;

use super::*;
use crate::kernels::whole::WholeKernel;
use crate::plan::{Evaluation, FusedNode};

impl Emitter {
    /// Emits a fused body over tensors of the same shape. `to` holds the tensors that the body stores, and `from` holds
    /// the tensors that it loads. Does nothing if there are no elements to store.
    pub(in super::super) fn fuse(&mut self, body: Body, to: &[&View], from: &[&View]) -> Result<()> {
        let Some(first_to) = to.first().filter(|view| !view.is_empty()) else { return Ok(()) };
        if let Some(copied) = self.copied_where(from, |view| to.iter().any(|to| view.interleaves(to)))? {
            return self.fuse(body, to, &copied.iter().collect::<Vec<_>>());
        }
        // The lanes follow the memory order of the first stored tensor.
        let order = order_of(first_to);
        let views: Vec<View> = to.iter().chain(from).map(|view| view.transposed(&order)).collect();
        let views: Vec<&View> = views.iter().collect();
        for other in &views[1..to.len()] {
            self.contents.record_write(other.memory());
        }
        let axes = merge_axes(&views);
        let (inner, rest): (Vec<&Axis>, Vec<&Axis>) = axes.iter().partition(|axis| self.is_within_units(axis, &views));
        let sizes: Vec<usize> = inner.iter().map(|axis| axis.size).collect();
        let strides = (0..views.len()).map(|at| inner.iter().map(|axis| axis.strides[at]).collect()).collect();
        // A stream starts at the lowest element that it accesses.
        let lowest =
            |at: usize| -> isize { inner.iter().map(|axis| axis.strides[at].min(0) * (axis.size as isize - 1)).sum() };
        let first = (0..views.len()).map(lowest).collect();
        let are_apart = |stored: usize, loaded: usize| !views[stored].may_overlap(views[loaded]);
        let fused = Arc::new(Fused::with_apart(body, &sizes, strides, are_apart));
        self.copying.extend(fused.copied_stores().map(|stored| views[stored].memory()));
        let make = |streams: &[Operand]| Node::Fused(FusedNode { fused: fused.clone(), streams: streams.to_vec() });
        let (row, across) = (vec![0; views.len()], vec![Across::Lanes; views.len()]);
        self.push_nodes(first_to.level, make, &views, first, (&row, &across), &rest)
    }

    /// Returns the tensor if its elements have type `ty`, and a converted copy otherwise. The type `ty` must be able to
    /// represent the elements. Axes along which the tensor is broadcast stay broadcast.
    pub(in super::super) fn converted(&mut self, view: &View, ty: Type) -> Result<View> {
        if self.ty(view) == ty {
            return Ok(view.clone());
        }
        let own = |axis: usize| if view.strides[axis] == 0 { 1 } else { view.shape[axis] };
        let shape: Vec<usize> = (0..view.shape.len()).map(own).collect();
        let copy = self.reserve_typed(&shape, view.level, ty);
        self.copy(&copy, &view.with_axes(shape, view.strides.clone()))?;
        let stride = |axis: usize| if view.strides[axis] == 0 { 0 } else { copy.strides[axis] };
        Ok(copy.with_axes(view.shape.clone(), (0..view.shape.len()).map(stride).collect()))
    }

    /// Copies a tensor, and converts its elements to the destination's type, which must be able to represent them.
    pub(super) fn convert(&mut self, to: &View, from: &View) -> Result<()> {
        let mut body = Body::default();
        let (of, ty) = (self.ty(from), self.ty(to));
        let mut value = body.load(1, of);
        if of != ty {
            value = body.push(BodyOp::Hold, ty, &[value]);
        }
        body.store(value, 0);
        self.fuse(body, &[to], &[from])
    }

    /// Emits a fused body that folds an axis of a tensor of integers. The body loads all elements along the axis.
    pub(in super::super) fn fold_unrolled(&mut self, fold: Fold, to: &View, from: &View, axis: usize) -> Result<()> {
        let op = match fold {
            Fold::Sum => IntBinary::Add,
            Fold::Product => IntBinary::Mul,
            Fold::Max => IntBinary::Max,
            Fold::Min => IntBinary::Min,
        };
        let (ty, parts): (Type, Vec<View>) =
            (self.ty(from), (0..from.shape[axis]).map(|index| from.at(axis, index)).collect());
        let mut body = Body::default();
        let mut folded = body.load(1, ty);
        for part in 1..parts.len() {
            let element = body.load(part + 1, ty);
            folded = body.push(BodyOp::Int(op), ty, &[folded, element]);
        }
        body.store(folded, 0);
        self.fuse(body, &[to], &parts.iter().collect::<Vec<_>>())
    }

    /// Sets all elements of a tensor of integers to `number`.
    pub(super) fn fill_integers(&mut self, to: &View, number: i64) -> Result<()> {
        let mut body = Body::default();
        let value = body.integer(number, self.ty(to));
        body.store(value, 0);
        self.fuse(body, &[to], &[])
    }

    /// Emits an op that is computed as a whole, by `kernel` if it is set and by the reference evaluator otherwise. All
    /// tensors must be in row-major order.
    pub(in super::super) fn evaluate(
        &mut self,
        level: usize,
        (op, kernel): (Arc<GraphOp>, Option<Arc<WholeKernel>>),
        inputs: &[(View, TensorType)],
        outputs: &[(View, TensorType)],
        sizes: &Sizes,
    ) -> Result<()> {
        if outputs.iter().all(|(view, _)| view.is_empty()) {
            return Ok(());
        }
        let views: Vec<&View> = outputs.iter().chain(inputs).map(|(view, _)| view).collect();
        let types = |all: &[(View, TensorType)]| all.iter().map(|(_, ty)| ty.clone()).collect::<Vec<_>>();
        let (of_inputs, of_outputs) = (types(inputs), types(outputs));
        let make = |operands: &[Operand]| {
            let (to, from) = operands.split_at(of_outputs.len());
            let with_types = |operands: &[Operand], types: &[TensorType]| {
                operands.iter().copied().zip(types.iter().cloned()).collect()
            };
            Node::Evaluate(Evaluation {
                op: op.clone(),
                inputs: with_types(from, &of_inputs),
                outputs: with_types(to, &of_outputs),
                sizes: sizes.clone(),
                kernel: kernel.clone(),
            })
        };
        let (first, row, across) = (vec![0; views.len()], vec![0; views.len()], vec![Across::Lanes; views.len()]);
        for view in &views[1..outputs.len()] {
            self.contents.record_write(view.memory());
        }
        self.push_nodes(level, make, &views, first, (&row, &across), &[])
    }
}
