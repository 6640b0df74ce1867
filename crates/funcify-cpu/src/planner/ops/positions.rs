//! Plans ops that read or write at an index, and `argmax`, whose result is an index.

use funcify_body::Type;
use funcify_core::ops::Scatter;

use super::super::Division;
use super::super::emit::order_of;
use super::*;

/// The minimum size of an axis at which indexed access is left to the tensor library, if the plan runs inside one.
const LARGE_VOCABULARY: usize = 256;

impl Scope<'_, '_> {
    /// Plans a `take`: reads slices along an axis at indices that are known only at run time.
    pub(super) fn take(&mut self, axis: usize, node: &Node, value: ValueId) -> Result<View> {
        if !self.planner.supports(self.graph, node.inputs[1]) {
            return Err(Declined::new("take", "indices that follow from values"));
        }
        let [x, index] = [self.table(node, value)?, self.tensor(node.inputs[1])?];
        let shape = self.shape_of(value)?;
        let (rank, after) = (index.shape.len(), x.shape.len() - axis - 1);
        // In the result, the axes of the index tensor replace the indexed axis.
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

    /// Emits instructions that read elements of `table` at the positions in `index`, and returns the result.
    pub(super) fn emit_take(
        &mut self,
        value: ValueId,
        [table, index]: [View; 2],
        places: (usize, usize),
    ) -> Result<View> {
        let ty = self.planner.emitter.ty(&table);
        let to = self.typed_target(value, &table.shape, table.level.max(index.level), ty);
        self.planner.emitter.take([&to, &table, &index], places)?;
        self.held_as(value, to)
    }

    /// Returns the type in which an op moves its elements: the type of the result or, if the result is held as floats,
    /// the type of the first operand.
    fn moved_type(&mut self, node: &Node, value: ValueId) -> Result<Type> {
        match self.planner.representation(self.graph, value) {
            Type::Float => {
                let x = self.tensor(node.inputs[0])?;
                Ok(self.planner.emitter.ty(&x))
            }
            ty => Ok(ty),
        }
    }

    /// Returns the first operand of an op in a form that an instruction can read at an index: in the type in which the
    /// op moves its elements, and without reversed axes.
    fn table(&mut self, node: &Node, value: ValueId) -> Result<View> {
        let ty = self.moved_type(node, value)?;
        let x = self.tensor_of(node.inputs[0], ty)?;
        self.planner.emitter.without_reversed_axes(&x)
    }

    /// Plans a dynamic slice: reads part of a tensor, starting at a run-time index.
    pub(super) fn dynamic_slice(&mut self, axis: usize, node: &Node, value: ValueId) -> Result<View> {
        let [x, start] = [self.table(node, value)?, self.tensor(node.inputs[1])?];
        let shape = self.shape_of(value)?;
        let places = (x.shape[axis] + 1).checked_sub(shape[axis]);
        let places = places.ok_or_else(|| Declined::new("dynamic_slice", "no instruction implements it yet"))?;
        let table = x.part(axis, 0, shape[axis], 1);
        self.emit_take(value, [table, start.broadcast(&shape)], (places, x.strides[axis].unsigned_abs()))
    }

    /// Plans a dynamic update: overwrites part of a tensor, starting at a run-time index. If the tensor is a state, it
    /// is updated in place where possible.
    pub(super) fn dynamic_update(&mut self, axis: usize, node: &Node, value: ValueId) -> Result<View> {
        let ty = self.moved_type(node, value)?;
        let [x, part] = [self.tensor_of(node.inputs[0], ty)?, self.tensor_of(node.inputs[1], ty)?];
        let start = self.tensor(node.inputs[2])?;
        let places = (x.shape[axis] + 1).checked_sub(part.shape[axis]);
        let places = places.filter(|_| start.len() == 1);
        let places = places.ok_or_else(|| Declined::new("dynamic_update", "a separate position for each lane"))?;
        let to = self.state_or_copy(value, x, &[part.clone(), start.clone()])?;
        let start = start.with_axes(part.shape.clone(), vec![0; part.shape.len()]);
        let first = to.part(axis, 0, part.shape[axis], 1);
        self.planner.emitter.put([&first, &part, &start], (places, to.strides[axis].unsigned_abs()))?;
        self.held_as(value, to)
    }

    /// Plans a `gather`: reads elements along an axis, each at its own index.
    pub(super) fn gather(&mut self, axis: usize, node: &Node, value: ValueId) -> Result<View> {
        let [x, index] = [self.table(node, value)?, self.tensor(node.inputs[1])?];
        let shape = self.shape_of(value)?;
        self.reject_large_vocabulary("gather", x.shape[axis])?;
        let mut table = x.with_axes(shape, x.strides.clone());
        table.strides[axis] = 0;
        self.emit_take(value, [table, index], (x.shape[axis], x.strides[axis].unsigned_abs()))
    }

    /// Plans a `scatter`: updates elements along an axis, each at its own index. If the tensor is a state, it is
    /// updated in place where possible.
    pub(super) fn scatter(&mut self, op: &Scatter, node: &Node, value: ValueId) -> Result<View> {
        let ty = self.moved_type(node, value)?;
        let [x, updates] = [self.tensor_of(node.inputs[0], ty)?, self.tensor_of(node.inputs[2], ty)?];
        let index = self.tensor(node.inputs[1])?;
        self.reject_large_vocabulary("scatter", x.shape[op.axis])?;
        let fold = match op.mode {
            ScatterMode::Set => None,
            ScatterMode::Add => Some(Fold::Sum),
            ScatterMode::Mul => Some(Fold::Product),
            ScatterMode::Max => Some(Fold::Max),
            ScatterMode::Min => Some(Fold::Min),
        };
        let dtype = self.graph.ty(value).dtype;
        let rounding = self.planner.rounding(dtype).filter(|_| matches!(fold, Some(Fold::Sum | Fold::Product)));
        if rounding.is_some() {
            // The sum of rounded partial sums differs from a sum of which each term is rounded.
            if self.planner.label(self.graph, value) == Label::Share {
                return Err(Declined::new("scatter", format!("partial sums of {dtype}")));
            }
            self.planner.emitter.fired.note(Transformation::Rounded);
        }
        let to = self.state_or_copy(value, x, &[index.clone(), updates.clone()])?;
        if !updates.is_empty() && !to.is_empty() {
            let mut first = to.with_axes(updates.shape.clone(), to.strides.clone());
            first.strides[op.axis] = 0;
            let places = (to.shape[op.axis], to.strides[op.axis].unsigned_abs());
            self.planner.emitter.scatter([&first, &updates, &index], places, (fold, rounding))?;
        }
        self.held_as(value, to)
    }

    /// Rejects indexed access to a large vocabulary if the plan runs inside a tensor library, because the library needs
    /// less memory for such access.
    fn reject_large_vocabulary(&self, name: &str, size: usize) -> Result<()> {
        match self.planner.division {
            Division::BesideLibrary if size >= LARGE_VOCABULARY => {
                Err(Declined::new(name, format!("an axis of {size} elements, for which the library needs less memory")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the memory in which an op with the other operands `others` updates `x`: the memory of `x` itself if it
    /// is a state that may be overwritten, and a copy of `x` otherwise.
    fn state_or_copy(&mut self, value: ValueId, x: View, others: &[View]) -> Result<View> {
        let own = self.own_state(value, &Operands { elementwise: std::slice::from_ref(&x), others });
        let own = own.filter(|state| x.is_same_view(state));
        own.iter().for_each(|_| self.planner.emitter.fired.note(Transformation::UpdateInPlace));
        let (level, ty) = (level_of(others).max(x.level), self.planner.emitter.ty(&x));
        let to = own.unwrap_or_else(|| self.typed_target(value, &x.shape, level, ty));
        if !to.is_same_view(&x) {
            self.planner.emitter.copy(&to, &x)?;
        }
        Ok(to)
    }

    /// Plans an `argmax`: finds the index of the first maximum along an axis, or of the first NaN if there is one.
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
        let order = order_of(&x);
        let [is_greatest, is_nan] = [(); 2].map(|()| emitter.reserve_ordered(&x.shape, x.level, &order, Type::Float));
        emitter.map(Op::Binary(Binary::Equal), &is_greatest, &[&x, &spread])?;
        emitter.map(Op::Binary(Binary::NotEqual), &is_nan, &[&x, &x])?;
        emitter.map(Op::Binary(Binary::Max), &is_greatest, &[&is_greatest, &is_nan])?;
        emitter.map(Op::Ternary(Ternary::Select), &is_nan, &[&is_greatest, &positions, &beyond])?;
        let to = self.target(value, &shape, x.level);
        self.planner.emitter.fold(Fold::Min, &to, &[&is_nan], &[axis])?;
        Ok(to)
    }
}
