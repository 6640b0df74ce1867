//! A program on the views of one part: loops, and the addresses of their instructions.

use pulp::Simd;
use smallvec::SmallVec;

use super::Element;
use super::step::{Cursor, step};
use super::view::{Range, View};
use crate::kernels::math::MathTable;
use crate::machine::Machine;
use crate::narrow::{self, Address, Narrow, Piece, Step};
use crate::plan::{DEPTH, ENDLESS, Instruction, Node, Op, Operand, Plan, Region};

/// Whether a call is to end early.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// How many iterations run before it is asked again whether the call is to end.
const ASKED_AFTER: usize = 1024;

/// A program as it runs.
pub(crate) type Prepared<T> = Vec<Run<T>>;

/// Something that runs so often.
#[derive(Clone, Debug)]
pub(crate) enum Run<T> {
    /// Instructions over rows and lanes.
    Tiles(usize, Vec<Instruction>),
    /// Code for registers.
    Narrow(usize, Narrow<T>),
    /// A loop with loops in it.
    Nest(usize, Vec<Run<T>>),
    /// A loop that a condition ends.
    While(Box<While<T>>),
    /// One of two programs.
    Choice(Operand, Box<[Prepared<T>; 2]>),
}

/// A loop that a condition ends, as it runs.
#[derive(Clone, Debug)]
pub(crate) struct While<T> {
    test: Prepared<T>,
    holds: Operand,
    body: Prepared<T>,
    most: Option<usize>,
}

/// Nodes inside loops with these numbers of iterations, as they run on a machine.
pub(crate) fn prepared<T: Element>(
    regions: &[Region],
    nodes: &[Node],
    times: &mut Vec<usize>,
    machine: Machine,
) -> Prepared<T> {
    let mut runs = Vec::new();
    for node in nodes {
        match node {
            Node::Do(instruction) => match runs.last_mut() {
                Some(Run::Tiles(1, instructions)) => instructions.push(instruction.clone()),
                _ => runs.push(Run::Tiles(1, vec![instruction.clone()])),
            },
            Node::Loop { times: 0, .. } | Node::While { most: Some(0), .. } => {}
            Node::Loop { times: own, body } => {
                times.push(*own);
                runs.push(match instructions(body) {
                    None => Run::Nest(*own, prepared(regions, body, times, machine)),
                    Some(body) => {
                        let steps: Vec<Step<'_>> = body.iter().map(Step::Do).collect();
                        match narrow::narrow(regions, &steps, times, machine) {
                            Some(narrow) => Run::Narrow(*own, narrow),
                            None => Run::Tiles(*own, body),
                        }
                    }
                });
                times.pop();
            }
            Node::Choice { holds, branches } => {
                let branches = branches.each_ref().map(|nodes| prepared(regions, nodes, times, machine));
                runs.push(Run::Choice(*holds, Box::new(branches)));
            }
            Node::While { test, holds, body, most } => {
                times.push(most.unwrap_or(ENDLESS));
                let narrow = match (instructions(test), instructions(body)) {
                    (Some(test), Some(body)) => {
                        let before = test.iter().map(Step::Do).chain([Step::EndUnless(holds)]);
                        let steps: Vec<Step<'_>> = before.chain(body.iter().map(Step::Do)).collect();
                        narrow::narrow(regions, &steps, times, machine)
                    }
                    _ => None,
                };
                runs.push(match narrow {
                    Some(narrow) => Run::Narrow(most.unwrap_or(usize::MAX), narrow),
                    None => {
                        let [test, body] = [test, body].map(|nodes| prepared(regions, nodes, times, machine));
                        Run::While(Box::new(While { test, holds: *holds, body, most: *most }))
                    }
                });
                times.pop();
            }
        }
    }
    runs
}

/// The instructions of a body without loops.
fn instructions(body: &[Node]) -> Option<Vec<Instruction>> {
    let instruction = |node: &Node| match node {
        Node::Do(instruction) => Some(instruction.clone()),
        Node::Loop { .. } | Node::While { .. } | Node::Choice { .. } => None,
    };
    body.iter().map(instruction).collect()
}

/// Runs a program. Addresses are on the stack for up to some ten instructions a loop.
pub(crate) fn run<T: MathTable, S: Simd>(
    simd: S,
    plan: &Plan,
    program: &Prepared<T>,
    views: SmallVec<[View<'_, T>; 32]>,
    stop: Stop<'_>,
) {
    let asked = Asked { stop, left: ASKED_AFTER, is_stopped: false };
    let mut runner = Runner { simd, plan, views, cursors: SmallVec::new(), addresses: SmallVec::new(), asked };
    runner.all(program, [0; DEPTH], 0);
}

/// How many iterations run before it is asked whether to stop.
struct Asked<'p> {
    stop: Stop<'p>,
    left: usize,
    is_stopped: bool,
}

impl Asked<'_> {
    /// How many of the iterations that are left may run now.
    fn some_of(&self, left: usize) -> usize {
        if self.is_stopped { 0 } else { left.min(self.left) }
    }

    /// So many more iterations ran, no more than may run.
    fn count(&mut self, iterations: usize) {
        self.left -= iterations;
        if self.left == 0 {
            self.left = ASKED_AFTER;
            self.is_stopped = (self.stop)();
        }
    }
}

struct Runner<'p, 'a, T, S> {
    simd: S,
    plan: &'p Plan,
    views: SmallVec<[View<'a, T>; 32]>,
    cursors: SmallVec<[Cursor; 64]>,
    addresses: SmallVec<[Address; 32]>,
    asked: Asked<'p>,
}

impl<T: MathTable, S: Simd> Runner<'_, '_, T, S> {
    /// Runs everything inside `level` loops, whose counters are set.
    fn all(&mut self, runs: &[Run<T>], counters: [isize; DEPTH], level: usize) {
        for run in runs {
            if self.asked.is_stopped {
                return;
            }
            match run {
                Run::Tiles(times, body) => self.tiles(body, *times, counters, level),
                Run::Narrow(times, body) => self.narrow(body, *times, counters, level),
                Run::Nest(times, body) => {
                    for counter in 0..*times {
                        self.asked.count(1);
                        if self.asked.is_stopped {
                            return;
                        }
                        let mut counters = counters;
                        counters[level] = counter as isize;
                        self.all(body, counters, level + 1);
                    }
                }
                Run::While(conditional) => self.conditional(conditional, counters, level),
                Run::Choice(holds, branches) => {
                    let chosen = usize::from(!self.holds(holds, counters, level));
                    self.all(&branches[chosen], counters, level);
                }
            }
        }
    }

    /// Runs a loop as long as its condition holds.
    fn conditional(&mut self, conditional: &While<T>, mut counters: [isize; DEPTH], level: usize) {
        for counter in 0..conditional.most.unwrap_or(usize::MAX) {
            counters[level] = counter as isize;
            self.asked.count(1);
            self.all(&conditional.test, counters, level + 1);
            if self.asked.is_stopped {
                return;
            }
            if !self.holds(&conditional.holds, counters, level + 1) {
                return;
            }
            self.all(&conditional.body, counters, level + 1);
        }
    }

    /// Whether a condition holds now.
    fn holds(&self, condition: &Operand, counters: [isize; DEPTH], level: usize) -> bool {
        let Cursor { range, .. } = self.cursor(condition, 1, counters, level, 0);
        self.views[condition.region].read(range).first().is_some_and(|holds| *holds != T::ZERO)
    }

    /// Runs a loop of instructions: finds their addresses, and then only adds to them.
    fn tiles(&mut self, body: &[Instruction], times: usize, counters: [isize; DEPTH], level: usize) {
        self.cursors.clear();
        for instruction in body {
            self.find(instruction, counters, level);
        }
        let mut left = times;
        loop {
            let count = self.asked.some_of(left);
            if count == 0 {
                return;
            }
            for _ in 0..count {
                let mut cursors = self.cursors.as_mut_slice();
                for instruction in body {
                    let (own, rest) = cursors.split_at_mut(1 + instruction.from.len());
                    step(self.simd, instruction, own, &mut self.views);
                    cursors = rest;
                }
            }
            left -= count;
            self.asked.count(count);
        }
    }

    /// Runs a loop of code for registers.
    fn narrow(&mut self, body: &Narrow<T>, times: usize, counters: [isize; DEPTH], level: usize) {
        match body {
            Narrow::Words(code) => self.find_pieces(code.pieces(), counters, level),
            #[cfg(feature = "jit")]
            Narrow::Routine(routine) => self.find_pieces(routine.pieces(), counters, level),
        }
        let (asked, mut left, mut ran) = (&mut self.asked, times, 0);
        let more = || {
            if ran > 0 {
                asked.count(ran);
            }
            ran = asked.some_of(left);
            left -= ran;
            ran
        };
        match body {
            Narrow::Words(code) => narrow::run(self.simd, code, &mut self.views, &mut self.addresses, more),
            #[cfg(feature = "jit")]
            Narrow::Routine(routine) => routine.run(&mut self.views, &mut self.addresses, more),
        }
    }

    /// Finds the addresses of pieces in the first iteration of the loop at `level`.
    fn find_pieces<'c>(&mut self, pieces: impl Iterator<Item = &'c Piece>, counters: [isize; DEPTH], level: usize) {
        self.addresses.clear();
        for piece in pieces {
            let pitch = self.plan.regions[piece.region].pitch;
            let is_columns = matches!(self.views[piece.region], View::Columns(_));
            let (unit, offset) = if is_columns { (piece.at / pitch, piece.at % pitch) } else { (0, piece.at) };
            let operand = Operand { steps: piece.steps, ..Operand::of(piece.region).at(unit).offset(offset) };
            let Cursor { range, step, .. } = self.cursor(&operand, piece.len, counters, level, 0);
            self.addresses.push(Address { region: piece.region, range, step });
        }
    }

    /// Adds the cursors of an instruction in the first iteration of the loop at `level`.
    fn find(&mut self, instruction: &Instruction, counters: [isize; DEPTH], level: usize) {
        let blocks = match &instruction.op {
            Op::Sink { block_steps: [left, right], .. } => [0, *left, *right],
            _ => [0; 3],
        };
        // The plan was checked, so there is a span for each operand.
        let spans = instruction.spans::<T>().unwrap_or_default();
        let operands = std::iter::once(&instruction.to).chain(&instruction.from);
        for (index, (operand, span)) in operands.zip(spans).enumerate() {
            let block = blocks.get(index).copied().unwrap_or_default();
            let cursor = self.cursor(operand, span, counters, level, block);
            self.cursors.push(cursor);
        }
    }

    /// The cursor of an operand. Of columns it counts units, else elements.
    fn cursor(&self, operand: &Operand, span: usize, counters: [isize; DEPTH], level: usize, block: isize) -> Cursor {
        let mut unit = operand.unit as isize;
        for (counter, step) in counters.iter().zip(operand.steps).take(level) {
            unit += counter * step;
        }
        let step = operand.steps.get(level).copied().unwrap_or_default();
        let range = |at: isize| Range { at: at as usize, offset: operand.offset, span };
        if matches!(self.views[operand.region], View::Columns(_)) {
            return Cursor { range: range(unit), step, block };
        }
        let pitch = self.plan.regions[operand.region].pitch as isize;
        Cursor { range: range(unit * pitch + operand.offset as isize), step: step * pitch, block: block * pitch }
    }
}
