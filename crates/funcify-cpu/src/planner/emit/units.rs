//! Units: the rows of a region of which a part sees some columns. An instruction stays within one of them.

use funcify::dispatch::Declined;

use super::super::view::View;
use super::{Axis, Emitter};
use crate::plan::{Node, Split};

impl Emitter {
    /// Elements between units of a view that a part sees as columns: instructions stay within a unit.
    pub(super) fn unit(&self, view: &View) -> Option<usize> {
        let region = self.plan.regions[view.region];
        matches!(region.split, Split::Columns(_)).then_some(region.pitch)
    }

    /// A sequence whose rows are whole units apart, if a part sees it as columns: itself, or a copy.
    pub(in super::super) fn in_units(&mut self, sequence: &View) -> Result<View, Declined> {
        let is_apart = self.unit(sequence).is_none_or(|unit| sequence.strides[0].unsigned_abs().is_multiple_of(unit));
        if is_apart { Ok(sequence.clone()) } else { self.copied(sequence) }
    }

    /// Whether one instruction may go over all axes of a view.
    pub(in super::super) fn lies_within_units(&self, view: &View) -> bool {
        let moves = |axis: &usize| view.shape[*axis] > 1;
        self.unit(view)
            .is_none_or(|unit| (0..view.shape.len()).filter(moves).all(|axis| view.strides[axis].unsigned_abs() < unit))
    }

    /// A view over all of whose axes one instruction may go: itself, or a copy.
    pub(in super::super) fn within_units(&mut self, view: &View) -> Result<View, Declined> {
        if self.lies_within_units(view) { Ok(view.clone()) } else { self.copied(view) }
    }

    /// Whether an instruction leaves a unit of what a part sees as columns.
    pub(super) fn leaves_units(&self, node: &Node) -> bool {
        let Node::Do(instruction) = node else { return false };
        let Ok(spans) = instruction.spans::<f32>() else { return false };
        let operands = std::iter::once(&instruction.to).chain(&instruction.from);
        operands.zip(spans).any(|(operand, span)| {
            let region = self.plan.regions[operand.region];
            matches!(region.split, Split::Columns(_)) && operand.offset + span > region.pitch
        })
    }

    /// Whether an instruction may go over an axis.
    pub(super) fn is_within_units(&self, axis: &Axis, views: &[&View]) -> bool {
        views
            .iter()
            .zip(&axis.strides)
            .all(|(view, stride)| self.unit(view).is_none_or(|unit| stride.unsigned_abs() < unit))
    }
}
