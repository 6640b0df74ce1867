//! Records which instruction wrote each memory cell of a faulty plan, so that the error can name the faulty
//! instruction.
//!
//! The faulty instruction is the earliest one that contributed to the wrong result and wrote a value that the graph
//! never computes. The error also names the instructions that last wrote the operands of the faulty instruction. A
//! correct plan may write values that the graph never computes, such as partial sums, but the graph does compute the
//! total of these partial sums. The history therefore drops the origin of a cell as soon as the cell holds a value that
//! the graph computes.

use std::collections::{HashMap, HashSet};

use super::memory::{Cell, Memory, is_input};
use super::position::Position;
use crate::kernels::Fold;
use crate::plan::{Instruction, Op, Plan};

/// An execution of an instruction.
#[derive(Debug)]
struct Event<'p> {
    place: Position,
    instruction: &'p Instruction,
    /// The sources of the cells that the instruction read. A source is a region, and the index of the event that last
    /// wrote the cell, or `None` if no event wrote the cell. If an instruction wrote several of the cells, it is listed
    /// only once per region.
    sources: Vec<(usize, Option<usize>)>,
}

/// The maximum number of sources to keep per event.
const MAX_SOURCES: usize = 8;

/// The events of a run, and the last writer of each cell.
#[derive(Debug)]
pub(super) struct History<'p> {
    plan: &'p Plan,
    /// All values that the graph computes.
    known: HashSet<u64>,
    events: Vec<Event<'p>>,
    writers: HashMap<Cell, usize>,
    /// For each cell that depends on a value that the graph does not compute: a flag that is `true` if this value may
    /// be a partial sum, and the event that wrote this value.
    origins: HashMap<Cell, (bool, usize)>,
}

impl<'p> History<'p> {
    pub(super) fn new(plan: &'p Plan, known: HashSet<u64>) -> Self {
        History { plan, known, events: Vec::new(), writers: HashMap::new(), origins: HashMap::new() }
    }

    /// Records an execution of an instruction, with the cells that the instruction read and wrote.
    pub(super) fn note(&mut self, instruction: &'p Instruction, place: &Position, memory: &mut Memory) {
        let reads = memory.reads.take().expect("reads are recorded while a history is kept").into_inner();
        let written = memory.journal.take().expect("writes are recorded while a history is kept");
        let event = self.events.len();
        let mut sources: Vec<(usize, Option<usize>)> = Vec::new();
        let mut origin: Option<(bool, usize)> = None;
        for cell in &reads {
            let writer = self.writers.get(cell).copied();
            let instruction = |writer: Option<usize>| writer.map(|event| self.events[event].place.node());
            let is_new = |(region, other): &(usize, Option<usize>)| {
                *region != cell.region || (*other != writer && instruction(*other) != instruction(writer))
            };
            if sources.len() < MAX_SOURCES && sources.iter().all(is_new) {
                sources.push((cell.region, writer));
            }
            let of_cell = self.origins.get(cell).copied();
            origin = origin.into_iter().chain(of_cell).min();
        }
        for change in &written {
            let cell = change.cell;
            self.writers.insert(cell, event);
            if self.known.contains(&memory.regions[cell.region][cell.at]) {
                self.origins.remove(&cell);
            } else {
                self.origins.insert(cell, origin.unwrap_or((is_sum(instruction), event)));
            }
        }
        self.events.push(Event { place: place.clone(), instruction, sources });
    }

    /// Describes the instruction from which the wrong value of a cell originates, and the instructions that last wrote
    /// its operands.
    pub(super) fn explain(&self, cell: Cell) -> String {
        let writer = self.writers.get(&cell).copied();
        match (self.origins.get(&cell), writer) {
            (Some((_, origin)), _) => format!(
                "{} computes a value that the program never computes, from {}",
                self.describe(*origin),
                self.sources(*origin)
            ),
            (None, Some(writer)) => format!(
                "{} wrote a value there that the program computes for another element, from {}",
                self.describe(writer),
                self.sources(writer)
            ),
            (None, None) => "no instruction wrote there".to_string(),
        }
    }

    fn describe(&self, event: usize) -> String {
        let Event { place: Position { stage, part, path, counters, .. }, instruction, .. } = &self.events[event];
        let Instruction { op, rows, lanes, to, .. } = instruction;
        let iteration = if counters.is_empty() { String::new() } else { format!(", iteration {counters:?}") };
        format!(
            "`{op:?}` of {rows} x {lanes} into region {}, unit {} (stage {stage}, part {part}, node {path:?}{iteration})",
            to.region, to.unit
        )
    }

    fn sources(&self, event: usize) -> String {
        let named = self.events[event].sources.iter().map(|(region, writer)| match writer {
            Some(writer) => format!("region {region}, last written by {}", self.describe(*writer)),
            None if is_input(self.plan, *region) => format!("region {region}, an input"),
            None => format!("region {region}, which nothing wrote"),
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() { "nothing".to_string() } else { named.join("; and ") }
    }
}

/// Returns `true` if the results of an instruction may be partial sums.
fn is_sum(instruction: &Instruction) -> bool {
    matches!(
        instruction.op,
        Op::FoldRows { fold: Fold::Sum, .. }
            | Op::FoldLanes { fold: Fold::Sum, .. }
            | Op::Sink { .. }
            | Op::Product { .. }
    )
}
