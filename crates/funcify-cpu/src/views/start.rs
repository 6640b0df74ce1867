//! Locates operands: in the first iteration of all loops, which the plan determines, and in later iterations.

use super::Range;
use crate::plan::{DEPTH, Operand, Region, Split, Storage};

/// The elements that an operand reads or writes in the current iteration, and the distance by which each iteration of
/// the innermost loop moves it. The distance is in units for columns, and otherwise in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) range: Range,
    pub(crate) step: isize,
    /// The distance to the next block, for [`Op::Sink`](crate::plan::Op::Sink).
    pub(crate) block: isize,
}

impl Cursor {
    /// Returns the elements of the current iteration, and moves on to the next one.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Range {
        let range = self.range;
        self.range.at = range.at.wrapping_add_signed(self.step);
        range
    }
}

/// Determines how the parts of a stage address a region.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// A part sees some columns of all units, and addresses count units.
    Columns {
        /// The number of elements per unit of the whole region.
        pitch: usize,
    },
    /// A part sees contiguous elements, and addresses count elements.
    Elements {
        /// The number of elements per unit.
        pitch: usize,
    },
}

impl Layout {
    /// Returns the layout of a region. `is_one_part` is `true` if the stage has a single part.
    pub(crate) fn of(region: &Region, is_one_part: bool) -> Self {
        let pitch = region.pitch;
        match (region.place, region.split) {
            (Storage::Scratch | Storage::Output(_), Split::Columns(_)) if !is_one_part => Layout::Columns { pitch },
            _ => Layout::Elements { pitch },
        }
    }
}

/// The location of an operand in the first iteration of all loops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) region: usize,
    range: Range,
    block: isize,
    /// The distance by which each loop moves the operand per iteration, outermost loop first.
    moves: [isize; DEPTH],
}

impl Start {
    /// Returns the start of an operand that spans `span` elements, and whose blocks, if any, are `block` units apart.
    pub(crate) fn of(layouts: &[Layout], operand: &Operand, span: usize, block: isize) -> Self {
        let Operand { region, unit, offset, steps, .. } = *operand;
        let (at, scale) = match layouts[region] {
            Layout::Columns { .. } => (unit, 1),
            Layout::Elements { pitch } => (unit * pitch + offset, pitch as isize),
        };
        Start { region, range: Range { at, offset, span }, block: block * scale, moves: steps.map(|step| step * scale) }
    }

    /// Returns the start of `span` elements, beginning at element `at` of a region. Each loop moves them by `steps`
    /// units.
    pub(crate) fn at(layouts: &[Layout], region: usize, at: usize, steps: [isize; DEPTH], span: usize) -> Self {
        let (unit, offset) = match layouts[region] {
            Layout::Columns { pitch } => (at / pitch, at % pitch),
            Layout::Elements { .. } => (0, at),
        };
        Start::of(layouts, &Operand { steps, ..Operand::of(region).at(unit).offset(offset) }, span, 0)
    }

    /// Returns the cursor in the first iteration of the loop at `level`, inside loops with these counters.
    pub(crate) fn inside(&self, counters: &[isize; DEPTH], level: usize) -> Cursor {
        let moved: isize = counters.iter().zip(&self.moves).take(level).map(|(counter, step)| counter * step).sum();
        let range = Range { at: self.range.at.wrapping_add_signed(moved), ..self.range };
        // At the maximum depth, no further loop moves the operand.
        let step = if level < DEPTH { self.moves[level] } else { 0 };
        Cursor { range, step, block: self.block }
    }
}
