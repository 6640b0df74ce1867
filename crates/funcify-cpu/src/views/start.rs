//! Computes the locations of operands in each iteration.

use super::Range;
use crate::plan::{DEPTH, Operand, Region, Split, Storage};

/// The current range of an operand, and its stride per iteration of the innermost loop. The stride is in units for a
/// view of columns, and in elements otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub(crate) range: Range,
    pub(crate) step: isize,
    /// The stride between blocks, for [`Op::Sink`](crate::plan::Op::Sink).
    pub(crate) block: isize,
}

impl Cursor {
    /// Returns the range in the current iteration, and advances to the next iteration.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Range {
        let range = self.range;
        self.range.at = range.at.wrapping_add_signed(self.step);
        range
    }
}

/// The way in which a part of a stage addresses a region.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// The part sees some columns of each unit. Addresses are in units.
    Columns {
        /// The number of elements per unit, over all parts.
        pitch: usize,
        /// The number of items per element: the size in bytes in a region of integers, and 1 in a region of floats.
        size: usize,
    },
    /// The part sees contiguous elements. Addresses are in elements.
    Elements {
        /// The number of elements per unit.
        pitch: usize,
        /// The number of items per element: the size in bytes in a region of integers, and 1 in a region of floats.
        size: usize,
    },
}

impl Layout {
    /// Returns the layout of a region. `is_one_part` is `true` if the stage has only one part.
    pub(crate) fn of(region: &Region, is_one_part: bool) -> Self {
        let pitch = region.pitch;
        let size = region.ty.size(1);
        match (region.place, region.split) {
            (Storage::Scratch | Storage::Output(_), Split::Columns(_)) if !is_one_part => {
                Layout::Columns { pitch, size }
            }
            _ => Layout::Elements { pitch, size },
        }
    }
}

/// The location of an operand in the first iteration of all enclosing loops, and its strides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) region: usize,
    range: Range,
    block: isize,
    /// The stride per iteration of each loop, outermost first.
    moves: [isize; DEPTH],
}

impl Start {
    /// Returns the start of an operand that spans `span` elements. `block` is the stride between its blocks, in units.
    /// An operand without elements stays at the start of its region, which may be empty.
    pub(crate) fn of(layouts: &[Layout], operand: &Operand, span: usize, block: isize) -> Self {
        let Operand { region, unit, offset, steps, .. } = *operand;
        let (at, scale, size) = match layouts[region] {
            Layout::Columns { size, .. } => (unit, 1, size),
            Layout::Elements { size, .. } if span == 0 => (0, 0, size),
            Layout::Elements { pitch, size } => ((unit * pitch + offset) * size, (pitch * size) as isize, size),
        };
        let (offset, span) = (offset * size, span * size);
        Start { region, range: Range { at, offset, span }, block: block * scale, moves: steps.map(|step| step * scale) }
    }

    /// Returns the start of an operand that spans `span` elements of a region, beginning at element `at`. `steps` holds
    /// the number of units by which the operand moves per iteration of each loop.
    pub(crate) fn at(layouts: &[Layout], region: usize, at: usize, steps: [isize; DEPTH], span: usize) -> Self {
        let (unit, offset) = match layouts[region] {
            Layout::Columns { pitch, .. } => (at / pitch, at % pitch),
            Layout::Elements { .. } => (0, at),
        };
        Start::of(layouts, &Operand { steps, ..Operand::of(region).at(unit).offset(offset) }, span, 0)
    }

    /// Returns the cursor of the operand in the first iteration of the loop at `level`. `counters` holds the counters
    /// of the enclosing loops.
    #[inline(always)]
    pub(crate) fn inside(&self, counters: &[isize; DEPTH], level: usize) -> Cursor {
        let moved: isize = counters.iter().zip(&self.moves).take(level).map(|(counter, step)| counter * step).sum();
        let range = Range { at: self.range.at.wrapping_add_signed(moved), ..self.range };
        // At the maximum depth, there is no further loop, so the operand does not move.
        let step = if level < DEPTH { self.moves[level] } else { 0 };
        Cursor { range, step, block: self.block }
    }
}
