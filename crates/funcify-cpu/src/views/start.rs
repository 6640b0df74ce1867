//! Locations of operands in the first iteration of all loops, known from the plan, and in later iterations.

use super::Range;
use crate::plan::{DEPTH, Operand, Region, Split, Storage};

/// The elements that an operand reads or writes now, and the distance that it moves with each iteration of the
/// innermost loop, in units for columns and otherwise in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) range: Range,
    pub(crate) step: isize,
    /// The distance to the next block, for sinks.
    pub(crate) block: isize,
}

impl Cursor {
    /// Returns the elements to read or write now, and moves on to the next iteration.
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
    /// A part sees some columns of all units; addresses count units.
    Columns {
        /// The number of elements per unit of the whole region.
        pitch: usize,
    },
    /// A part sees elements; addresses count elements.
    Elements {
        /// The number of elements per unit.
        pitch: usize,
    },
}

impl Layout {
    /// Returns the layout of a region in a stage of one part or of several.
    pub(crate) fn of(region: &Region, is_one_part: bool) -> Self {
        let pitch = region.pitch;
        match (region.place, region.split) {
            (Storage::Scratch | Storage::Output(_), Split::Columns(_)) if !is_one_part => Layout::Columns { pitch },
            _ => Layout::Elements { pitch },
        }
    }
}

/// An operand in the first iteration of all loops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) region: usize,
    range: Range,
    block: isize,
    /// The distance that each loop moves it, outermost first.
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

    /// Returns the start of `span` elements from element `at` of a region on, which each loop moves by `steps` units.
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
        // At the maximum depth, no further loop moves it.
        let step = if level < DEPTH { self.moves[level] } else { 0 };
        Cursor { range, step, block: self.block }
    }
}
