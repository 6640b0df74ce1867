//! Keeps instructions within one unit (row) of a region that is split into columns, by copying views that span several
//! units.

use super::*;

impl Emitter {
    /// Returns the stride between units, in elements, or `None` if the view's region is not split into columns. If the
    /// region is split into columns, an instruction on the view must stay within one unit.
    pub(in super::super) fn unit(&self, view: &View) -> Option<usize> {
        self.pitch(view.region)
    }

    fn pitch(&self, region: usize) -> Option<usize> {
        let region = self.plan.regions[region];
        matches!(region.split, Split::Columns(_)).then_some(region.pitch)
    }

    /// Returns the sequence itself if the stride between its rows is a multiple of the size of a unit, or if its region
    /// is not split into columns. Otherwise returns a copy.
    pub(in super::super) fn in_units(&mut self, sequence: &View) -> Result<View> {
        let is_apart = self.unit(sequence).is_none_or(|unit| sequence.strides[0].unsigned_abs().is_multiple_of(unit));
        if is_apart { Ok(sequence.clone()) } else { self.copied(sequence) }
    }

    /// Returns `true` if a single instruction may cover all axes of the view.
    pub(in super::super) fn lies_within_units(&self, view: &View) -> bool {
        let moves = |axis: &usize| view.shape[*axis] > 1;
        (0..view.shape.len()).filter(moves).all(|axis| self.stays_in_unit(view, view.strides[axis]))
    }

    /// Returns `true` if the stride, in elements, is smaller than a unit of the view's region, or if this region is not
    /// split into columns.
    fn stays_in_unit(&self, view: &View, stride: isize) -> bool {
        self.unit(view).is_none_or(|unit| stride.unsigned_abs() < unit)
    }

    /// Returns the view if a single instruction may cover all its axes, and a copy otherwise.
    pub(in super::super) fn within_units(&mut self, view: &View) -> Result<View> {
        if self.lies_within_units(view) { Ok(view.clone()) } else { self.copied(view) }
    }

    /// Returns `true` if an instruction reads or writes past the end of a unit of a region that is split into columns.
    pub(super) fn leaves_units(&self, node: &Node) -> bool {
        let pitch = |operand: &Operand| self.pitch(operand.region);
        if let Node::Fused(node) = node {
            return node.streams.iter().enumerate().any(|(stream, operand)| {
                pitch(operand).is_some_and(|pitch| operand.offset + node.fused.span(stream) > pitch)
            });
        }
        let Node::Do(instruction) = node else { return false };
        let operands = || std::iter::once(&instruction.to).chain(&instruction.from);
        if operands().all(|operand| pitch(operand).is_none()) {
            return false;
        }
        let Ok(spans) = instruction.spans::<f32>() else { return false };
        operands().zip(spans).any(|(operand, span)| pitch(operand).is_some_and(|pitch| operand.offset + span > pitch))
    }

    /// Returns `true` if a single instruction may cover this axis in all views.
    pub(super) fn is_within_units(&self, axis: &Axis, views: &[&View]) -> bool {
        views.iter().zip(&axis.strides).all(|(view, stride)| self.stays_in_unit(view, *stride))
    }
}
