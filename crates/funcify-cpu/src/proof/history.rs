//! Who wrote what, of a plan that gives something wrong: the two instructions that an error names.
//!
//! The first is the instruction that first wrote a value which the graph computes nowhere, on the way to the wrong result;
//! the second the one that last wrote what it read. Parts of sums are such values, too, but what becomes of them is a sum
//! that the graph has: so a value that the graph has clears what led to it.

use std::collections::{HashMap, HashSet};

use super::memory::{Cell, Memory, is_input};
use super::place::Whereabouts;
use crate::kernels::Fold;
use crate::plan::{Instruction, Op, Plan};

/// An instruction that ran.
#[derive(Debug)]
struct Event<'p> {
    place: Whereabouts,
    instruction: &'p Instruction,
    /// The regions that it read, and which event had written there; `None` if none had. One event an instruction.
    sources: Vec<(usize, Option<usize>)>,
}

/// How many sources of an event are kept.
const SOURCES: usize = 8;

/// What ran, and who wrote each cell last.
#[derive(Debug)]
pub(super) struct History<'p> {
    plan: &'p Plan,
    /// All values that the graph computes.
    known: HashSet<u64>,
    events: Vec<Event<'p>>,
    writers: HashMap<Cell, usize>,
    /// For cells that hold values which follow from one that the graph does not compute: whether that was part of a sum, and
    /// the event that wrote it.
    origins: HashMap<Cell, (bool, usize)>,
}

impl<'p> History<'p> {
    pub(super) fn new(plan: &'p Plan, known: HashSet<u64>) -> Self {
        History { plan, known, events: Vec::new(), writers: HashMap::new(), origins: HashMap::new() }
    }

    /// Notes an instruction that ran, with what it read and wrote.
    pub(super) fn note(&mut self, instruction: &'p Instruction, place: &Whereabouts, memory: &mut Memory) {
        let reads = memory.reads.take().expect("reads are kept while there is a history").into_inner();
        let written = memory.journal.take().expect("writes are kept while there is a history");
        let event = self.events.len();
        let mut sources: Vec<(usize, Option<usize>)> = Vec::new();
        let mut origin: Option<(bool, usize)> = None;
        for cell in &reads {
            let writer = self.writers.get(cell).copied();
            let instruction = |writer: Option<usize>| writer.map(|event| self.events[event].place.node());
            let is_new = |(region, other): &(usize, Option<usize>)| {
                *region != cell.region || (*other != writer && instruction(*other) != instruction(writer))
            };
            if sources.len() < SOURCES && sources.iter().all(is_new) {
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

    /// Says how a cell came to hold what it holds.
    pub(super) fn explain(&self, cell: Cell) -> String {
        let writer = self.writers.get(&cell).copied();
        match (self.origins.get(&cell), writer) {
            (Some((_, origin)), _) => format!(
                "{} computes what the program computes nowhere, from {}",
                self.named(*origin),
                self.sources(*origin)
            ),
            (None, Some(writer)) => format!(
                "{} wrote there what the program computes for another element, from {}",
                self.named(writer),
                self.sources(writer)
            ),
            (None, None) => "no instruction wrote there".to_string(),
        }
    }

    fn named(&self, event: usize) -> String {
        let Event { place: Whereabouts { stage, part, path, counters, .. }, instruction, .. } = &self.events[event];
        let Instruction { op, rows, lanes, to, .. } = instruction;
        let iteration = if counters.is_empty() { String::new() } else { format!(", iteration {counters:?}") };
        format!(
            "`{op:?}` of {rows} x {lanes} into region {}, unit {} (stage {stage}, part {part}, node {path:?}{iteration})",
            to.region, to.unit
        )
    }

    fn sources(&self, event: usize) -> String {
        let named = self.events[event].sources.iter().map(|(region, writer)| match writer {
            Some(writer) => format!("region {region}, last written by {}", self.named(*writer)),
            None if is_input(self.plan, *region) => format!("region {region}, an input"),
            None => format!("region {region}, which nothing wrote"),
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() { "nothing".to_string() } else { named.join("; and ") }
    }
}

/// Whether what an instruction gives may be part of a sum.
fn is_sum(instruction: &Instruction) -> bool {
    matches!(
        instruction.op,
        Op::FoldRows { fold: Fold::Sum, .. }
            | Op::FoldLanes { fold: Fold::Sum, .. }
            | Op::Sink { .. }
            | Op::Product { .. }
    )
}
