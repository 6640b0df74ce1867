//! Units: the rows of a region of which a part sees some columns. An instruction stays within one of them.

use super::*;

impl Emitter {
    /// Elements between units of a view that a part sees as columns: instructions stay within a unit.
    pub(super) fn unit(&self, view: &View) -> Option<usize> {
        self.pitch(view.region)
    }

    fn pitch(&self, region: usize) -> Option<usize> {
        let region = self.plan.regions[region];
        matches!(region.split, Split::Columns(_)).then_some(region.pitch)
    }

    /// A sequence whose rows are whole units apart, if a part sees it as columns: itself, or a copy.
    pub(in super::super) fn in_units(&mut self, sequence: &View) -> Result<View> {
        let is_apart = self.unit(sequence).is_none_or(|unit| sequence.strides[0].unsigned_abs().is_multiple_of(unit));
        if is_apart { Ok(sequence.clone()) } else { self.copied(sequence) }
    }

    /// Tells whether one instruction may go over all axes of a view.
    pub(in super::super) fn lies_within_units(&self, view: &View) -> bool {
        let moves = |axis: &usize| view.shape[*axis] > 1;
        (0..view.shape.len()).filter(moves).all(|axis| self.stays_in_unit(view, view.strides[axis]))
    }

    /// Tells whether a step of so many elements may stay within a unit of a view.
    fn stays_in_unit(&self, view: &View, stride: isize) -> bool {
        self.unit(view).is_none_or(|unit| stride.unsigned_abs() < unit)
    }

    /// A view over all of whose axes one instruction may go: itself, or a copy.
    pub(in super::super) fn within_units(&mut self, view: &View) -> Result<View> {
        if self.lies_within_units(view) { Ok(view.clone()) } else { self.copied(view) }
    }

    /// Tells whether an instruction leaves a unit of a region that a part sees as columns.
    pub(super) fn leaves_units(&self, node: &Node) -> bool {
        let Node::Do(instruction) = node else { return false };
        let pitch = |operand: &Operand| self.pitch(operand.region);
        let operands = || std::iter::once(&instruction.to).chain(&instruction.from);
        if operands().all(|operand| pitch(operand).is_none()) {
            return false;
        }
        let Ok(spans) = instruction.spans::<f32>() else { return false };
        operands().zip(spans).any(|(operand, span)| pitch(operand).is_some_and(|pitch| operand.offset + span > pitch))
    }

    /// Tells whether an instruction may go over an axis.
    pub(super) fn is_within_units(&self, axis: &Axis, views: &[&View]) -> bool {
        views.iter().zip(&axis.strides).all(|(view, stride)| self.stays_in_unit(view, *stride))
    }
}
