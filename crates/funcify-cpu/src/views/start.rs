//! Where operands lie in the first iteration of all loops, which a plan knows, and where they are in a later one.

use super::Range;
use crate::plan::{DEPTH, Operand, Region, Split, Storage};

/// What an operand reads or writes now, and how far it moves with each iteration of the innermost loop: of columns in
/// units, else in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) range: Range,
    pub(crate) step: isize,
    /// How far the next block is, for sinks.
    pub(crate) block: isize,
}

impl Cursor {
    /// What is read or written now. The cursor moves on to the next iteration.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Range {
        let range = self.range;
        self.range.at = range.at.wrapping_add_signed(self.step);
        range
    }
}

/// How the parts of a stage see the units of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// A part sees some columns of all units, which are counted.
    Columns {
        /// Elements of a unit of the whole region.
        pitch: usize,
    },
    /// A part sees elements, which are counted.
    Elements {
        /// Elements of a unit.
        pitch: usize,
    },
}

impl Layout {
    /// In a stage of one part, or of several.
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
    /// How far each loop moves it, the outermost first.
    moves: [isize; DEPTH],
}

impl Start {
    /// Of an operand that reaches over `span` elements, and whose blocks, if it has any, are `block` units apart.
    pub(crate) fn of(layouts: &[Layout], operand: &Operand, span: usize, block: isize) -> Self {
        let Operand { region, unit, offset, steps, .. } = *operand;
        let (at, scale) = match layouts[region] {
            Layout::Columns { .. } => (unit, 1),
            Layout::Elements { pitch } => (unit * pitch + offset, pitch as isize),
        };
        Start { region, range: Range { at, offset, span }, block: block * scale, moves: steps.map(|step| step * scale) }
    }

    /// Of `span` elements from element `at` of a region on, which loops move by so many units.
    pub(crate) fn at(layouts: &[Layout], region: usize, at: usize, steps: [isize; DEPTH], span: usize) -> Self {
        let (unit, offset) = match layouts[region] {
            Layout::Columns { pitch } => (at / pitch, at % pitch),
            Layout::Elements { .. } => (0, at),
        };
        Start::of(layouts, &Operand { steps, ..Operand::of(region).at(unit).offset(offset) }, span, 0)
    }

    /// In the first iteration of the loop at `level`, inside loops with these counters.
    pub(crate) fn inside(&self, counters: &[isize; DEPTH], level: usize) -> Cursor {
        let moved: isize = counters.iter().zip(&self.moves).take(level).map(|(counter, step)| counter * step).sum();
        let range = Range { at: self.range.at.wrapping_add_signed(moved), ..self.range };
        // Inside as many loops as there may be, there is no further one that moves it.
        let step = if level < DEPTH { self.moves[level] } else { 0 };
        Cursor { range, step, block: self.block }
    }
}
