//! Plans ops that read or write at an index, and `argmax`, which returns an index.

use funcify_core::ops::Scatter;

use super::super::Division;
use super::*;

/// The minimum size of an axis for which a plan that runs inside a tensor library leaves indexed access to the library.
const LARGE_VOCABULARY: usize = 256;

impl Scope<'_, '_> {
    /// Plans a `take`: reads slices along an axis at indices that are known only at run time.
    pub(super) fn take(&mut self, axis: usize, node: &Node, value: ValueId) -> Result<View> {
        if !self.planner.can_represent(self.graph, node.inputs[1]) {
            return Err(Declined::new("take", "indices that follow from values"));
        }
        let [x, index] = [self.without_reversed_axes(node.inputs[0])?, self.tensor(node.inputs[1])?];
        let shape = self.shape_of(value)?;
        let (rank, after) = (index.shape.len(), x.shape.len() - axis - 1);
        // The axes of the indices replace the indexed axis.
        let mut strides = x.strides[..axis].to_vec();
        strides.extend(vec![0; rank]);
        strides.extend(&x.strides[axis + 1..]);
        let table = x.with_axes(shape.clone(), strides);
        let mut behind = index.shape.clone();
        behind.extend(vec![1; after]);
        let mut strides = index.strides.clone();
        strides.extend(vec![0; after]);
        let index = index.with_axes(behind, strides).broadcast(&shape);
        self.emit_take(value, [table, index], (x.shape[axis], x.strides[axis].unsigned_abs()))
    }

    /// Emits reads of table elements at indices, and returns the result.
    pub(super) fn emit_take(
        &mut self,
        value: ValueId,
        [table, index]: [View; 2],
        places: (usize, usize),
    ) -> Result<View> {
        let to = self.target(value, &table.shape, table.level.max(index.level));
        self.planner.emitter.take([&to, &table, &index], places)?;
        Ok(to)
    }

    /// Plans a dynamic update: overwrites part of a tensor, starting at a run-time index. If the tensor is a state, it
    /// is updated in place where possible.
    pub(super) fn dynamic_update(&mut self, axis: usize, node: &Node, value: ValueId) -> Result<View> {
        let [x, part, start] = [0, 1, 2].map(|operand| self.tensor(node.inputs[operand]));
        let (x, part, start) = (x?, part?, start?);
        let places = (x.shape[axis] + 1).checked_sub(part.shape[axis]);
        let places = places.filter(|_| start.len() == 1);
        let places = places.ok_or_else(|| Declined::new("dynamic_update", "a separate position for each lane"))?;
        let to = self.state_or_copy(value, x, &[part.clone(), start.clone()])?;
        let start = start.with_axes(part.shape.clone(), vec![0; part.shape.len()]);
        let first = to.part(axis, 0, part.shape[axis], 1);
        self.planner.emitter.put([&first, &part, &start], (places, to.strides[axis].unsigned_abs()))?;
        Ok(to)
    }

    /// Plans a `gather`: reads elements along an axis, each at its own index.
    pub(super) fn gather(&mut self, axis: usize, node: &Node, value: ValueId) -> Result<View> {
        let [x, index] = [self.without_reversed_axes(node.inputs[0])?, self.tensor(node.inputs[1])?];
        let shape = self.shape_of(value)?;
        self.reject_large_vocabulary("gather", x.shape[axis])?;
        let mut table = x.with_axes(shape, x.strides.clone());
        table.strides[axis] = 0;
        self.emit_take(value, [table, index], (x.shape[axis], x.strides[axis].unsigned_abs()))
    }

    /// Plans a `scatter`: updates elements along an axis, each at its own index. If the tensor is a state, it is
    /// updated in place where possible.
    pub(super) fn scatter(&mut self, op: &Scatter, node: &Node, value: ValueId) -> Result<View> {
        let [x, index, updates] = [0, 1, 2].map(|operand| self.tensor(node.inputs[operand]));
        let (x, index, updates) = (x?, index?, updates?);
        self.reject_large_vocabulary("scatter", x.shape[op.axis])?;
        let fold = match op.mode {
            ScatterMode::Set => None,
            ScatterMode::Add => Some(Fold::Sum),
            ScatterMode::Mul => Some(Fold::Product),
            ScatterMode::Max => Some(Fold::Max),
            ScatterMode::Min => Some(Fold::Min),
        };
        let dtype = self.graph.ty(value).dtype;
        if matches!(fold, Some(Fold::Sum | Fold::Product)) && self.planner.rounding(dtype).is_some() {
            return Err(Declined::new("scatter", format!("sums or products of {dtype}")));
        }
        let to = self.state_or_copy(value, x, &[index.clone(), updates.clone()])?;
        if !updates.is_empty() && !to.is_empty() {
            let mut first = to.with_axes(updates.shape.clone(), to.strides.clone());
            first.strides[op.axis] = 0;
            let places = (to.shape[op.axis], to.strides[op.axis].unsigned_abs());
            self.planner.emitter.scatter([&first, &updates, &index], places, fold)?;
        }
        Ok(to)
    }

    /// Rejects indexed access to a large vocabulary if the tensor library can do it instead.
    fn reject_large_vocabulary(&self, name: &str, size: usize) -> Result<()> {
        match self.planner.division {
            Division::BesideLibrary if size >= LARGE_VOCABULARY => {
                Err(Declined::new(name, format!("an axis of {size} elements, for which the library needs less memory")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the memory in which `x` is updated using `others`: `x` itself if it is a state that may be overwritten,
    /// or else a copy.
    pub(super) fn state_or_copy(&mut self, value: ValueId, x: View, others: &[View]) -> Result<View> {
        let own = self.own_state(value, &Operands { elementwise: std::slice::from_ref(&x), others });
        let own = own.filter(|state| x.is_same_view(state));
        own.iter().for_each(|_| self.planner.emitter.fired.note(Transformation::UpdateInPlace));
        let to = own.unwrap_or_else(|| self.target(value, &x.shape, level_of(others).max(x.level)));
        if !to.is_same_view(&x) {
            self.planner.emitter.copy(&to, &x)?;
        }
        Ok(to)
    }

    /// Plans an `argmax`: returns the index of the first maximum along an axis, or of the first NaN if there is one.
    pub(super) fn argmax(&mut self, axis: usize, node: &Node, value: ValueId) -> Result<View> {
        let x = self.without_reversed_axes(node.inputs[0])?;
        let (shape, size) = (self.shape_of(value)?, x.shape[axis]);
        if size == 0 {
            return Err(Declined::new("argmax", "an axis without elements"));
        }
        let positions = self.planner.positions(size)?;
        let along = |view: &View, stride: isize| {
            let mut strides = vec![0; x.shape.len()];
            strides[axis] = stride;
            view.with_axes(x.shape.clone(), strides)
        };
        let positions = along(&positions, isize::from(size > 1));
        let beyond = along(&self.planner.emitter.number(size as f64)?, 0);
        let emitter = &mut self.planner.emitter;
        let greatest = emitter.reserve(&shape, x.level);
        emitter.fold(Fold::Max, &greatest, &[&x], &[axis])?;
        let mut spread = greatest.with_axes(x.shape.clone(), greatest.strides.clone());
        spread.strides.insert(axis, 0);
        let [is_greatest, is_nan] = [(); 2].map(|()| emitter.reserve(&x.shape, x.level));
        emitter.map(Op::Binary(Binary::Equal), &is_greatest, &[&x, &spread])?;
        emitter.map(Op::Binary(Binary::NotEqual), &is_nan, &[&x, &x])?;
        emitter.map(Op::Binary(Binary::Max), &is_greatest, &[&is_greatest, &is_nan])?;
        emitter.map(Op::Ternary(Ternary::Select), &is_nan, &[&is_greatest, &positions, &beyond])?;
        let to = self.target(value, &shape, x.level);
        self.planner.emitter.fold(Fold::Min, &to, &[&is_nan], &[axis])?;
        Ok(to)
    }
}
