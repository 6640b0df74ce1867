//! The memory of the plan interpreter: cells that hold elements of the field, and optional journals of reads and
//! writes.

use std::cell::RefCell;

use crate::plan::{DEPTH, Operand, Plan, Split, Stage, Storage};

/// A cell, identified by its region and its index within the region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Cell {
    pub(super) region: usize,
    pub(super) at: usize,
}

/// A write to a cell, with the previous value of the cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) cell: Cell,
    pub(super) before: u64,
}

/// The cells of all regions.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) regions: Vec<Vec<u64>>,
    /// The journal of writes, used to undo them, or `None` if writes are not recorded.
    pub(super) journal: Option<Vec<Change>>,
    /// The journal of reads, or `None` if reads are not recorded.
    pub(super) reads: Option<RefCell<Vec<Cell>>>,
}

/// An access past the end of a region. [`Plan::check`] should have rejected the plan, so such an access reveals a bug
/// in that check.
#[derive(Clone, Debug)]
pub(super) struct OutOfBounds(pub(super) Cell);

impl Memory {
    /// Allocates the memory of a plan. Marks each cell as not yet written, by filling it with a value that `uncomputed`
    /// returns. Each cell gets a different value. The caller fills in the inputs.
    pub(super) fn new(plan: &Plan, mut uncomputed: impl FnMut(u64) -> u64) -> Self {
        let mut count = 0;
        let mut cell = || {
            count += 1;
            uncomputed(count)
        };
        let size = |region: &crate::plan::Region| match region.split {
            Split::Parts(parts) => parts * region.units * region.pitch,
            _ => region.units * region.pitch,
        };
        let regions = plan.regions.iter().map(|region| (0..size(region)).map(|_| cell()).collect()).collect();
        Memory { regions, journal: None, reads: None }
    }

    /// Reads a cell. Returns an error if the region has no such cell.
    #[inline]
    pub(super) fn read(&self, region: usize, at: usize) -> Result<u64, OutOfBounds> {
        if let Some(reads) = &self.reads {
            reads.borrow_mut().push(Cell { region, at });
        }
        self.regions[region].get(at).copied().ok_or(OutOfBounds(Cell { region, at }))
    }

    /// Writes a cell. Returns an error if the region has no such cell.
    #[inline]
    pub(super) fn write(&mut self, region: usize, at: usize, value: u64) -> Result<(), OutOfBounds> {
        let cell = Cell { region, at };
        let place = self.regions[region].get_mut(at).ok_or(OutOfBounds(cell))?;
        if let Some(journal) = &mut self.journal {
            journal.push(Change { cell, before: *place });
        }
        *place = value;
        Ok(())
    }

    /// Undoes the writes in the journal. Returns the cells that were written, each with the last value written to it.
    pub(super) fn undo(&mut self) -> Vec<(Cell, u64)> {
        let changes = self.journal.take().expect("the caller started a journal before the writes to undo");
        let mut last: Vec<(Cell, u64)> = Vec::with_capacity(changes.len());
        for Change { cell, before } in changes.into_iter().rev() {
            let place = &mut self.regions[cell.region][cell.at];
            last.push((cell, *place));
            *place = before;
        }
        // Keep only the last write to each cell. This write comes first in the list, because changes are undone in
        // reverse order.
        let mut seen = std::collections::HashSet::new();
        last.retain(|(cell, _)| seen.insert(*cell));
        last
    }
}

/// The start of each region of a plan, as seen by one part of a stage.
///
/// In a region that is split into columns, a part sees its own columns. In a region that is split into parts, a part
/// sees its own copy. If a stage has only one part, that part sees all copies, one after the other. With these starts,
/// the same formula gives the address of an operand in every kind of region.
#[derive(Clone, Debug)]
pub(super) struct Bases {
    bases: Vec<usize>,
    pitches: Vec<usize>,
}

impl Bases {
    pub(super) fn of(plan: &Plan, stage: &Stage, part: usize) -> Self {
        let before: usize = stage.parts[..part].iter().map(|part| part.len).sum();
        let base = |region: &crate::plan::Region| match (region.split, stage.parts.len()) {
            (_, 1) | (Split::Whole, _) => 0,
            (Split::Columns(width), _) => before * width,
            (Split::Parts(_), _) => part * region.units * region.pitch,
        };
        let pitches = plan.regions.iter().map(|region| region.pitch).collect();
        Bases { bases: plan.regions.iter().map(base).collect(), pitches }
    }

    /// Returns the index of an operand's first cell, in the iteration that `counters` specifies.
    pub(super) fn start(&self, operand: &Operand, counters: &[isize]) -> usize {
        self.first_cell(
            operand.region,
            operand.unit * self.pitches[operand.region] + operand.offset,
            operand.steps,
            counters,
        )
    }

    /// Returns the index of a cell in the iteration that `counters` specifies. In the first iteration of every loop,
    /// the cell is `at` elements after the region's start, as seen by the part. `steps` holds the number of units by
    /// which the cell moves per iteration of each loop.
    pub(super) fn first_cell(&self, region: usize, at: usize, steps: [isize; DEPTH], counters: &[isize]) -> usize {
        let units: isize = steps.iter().zip(counters).map(|(step, counter)| step * counter).sum();
        (self.bases[region] + at).wrapping_add_signed(units * self.pitches[region] as isize)
    }

    /// Returns the number of elements in a unit of a region.
    pub(super) fn pitch(&self, region: usize) -> usize {
        self.pitches[region]
    }
}

/// Returns `true` if a region is a read-only input of the caller.
pub(super) fn is_input(plan: &Plan, region: usize) -> bool {
    matches!(plan.regions[region].place, Storage::Input(_))
}
