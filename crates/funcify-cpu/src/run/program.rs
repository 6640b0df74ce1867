//! A program on the views of one part: loops, and the addresses of their instructions.

use pulp::Simd;
use smallvec::SmallVec;

use super::Element;
use super::start::{Layout, Start};
use super::step::{Cursor, step};
use super::view::View;
use crate::fired::Fired;
use crate::kernels::math::MathTable;
use crate::machine::Machine;
use crate::narrow::{self, Address, Narrow, Piece, Step};
use crate::plan::{DEPTH, ENDLESS, Instruction, Node, Op, Operand, Region};

/// Nanoseconds of a round of a loop with loops in it, and of a word of a vector in registers.
const OF_A_ROUND: u64 = 10;
const OF_A_WORD: f64 = 0.5;

/// Whether a call is to end early.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Nanoseconds, as far as they can be foreseen, after which the runner asks again whether the call is to end.
const ASKED_AFTER: u64 = 1_000_000;

/// A program as it runs.
pub(crate) type Prepared<T> = Vec<Run<T>>;

/// Something that runs so often.
#[derive(Clone, Debug)]
pub(crate) enum Run<T> {
    /// Instructions over rows and lanes.
    Tiles(usize, Tiles),
    /// Code for registers.
    Narrow(usize, Registers<T>),
    /// A loop with loops in it.
    Nest(usize, Vec<Run<T>>),
    /// A loop that a condition ends.
    While(Box<While<T>>),
    /// One of two programs.
    Choice(Start, Box<[Prepared<T>; 2]>),
}

/// Instructions over rows and lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tiles {
    instructions: Vec<Instruction>,
    /// Where their operands start: what each writes, and then what it reads.
    starts: Vec<Start>,
    /// Nanoseconds that they take, roughly.
    nanoseconds: u64,
}

/// Code for registers, as it runs.
#[derive(Clone, Debug)]
pub(crate) struct Registers<T> {
    code: Narrow<T>,
    /// Where its pieces start.
    starts: Vec<Start>,
    /// Nanoseconds that an iteration takes, roughly.
    nanoseconds: u64,
}

/// A loop that a condition ends, as it runs.
#[derive(Clone, Debug)]
pub(crate) struct While<T> {
    test: Prepared<T>,
    holds: Start,
    body: Prepared<T>,
    most: Option<usize>,
}

/// What programs are prepared for: the regions as the parts of a stage see them, and a machine.
pub(crate) struct Preparation<'p> {
    pub(crate) regions: &'p [Region],
    pub(crate) layouts: Vec<Layout>,
    pub(crate) machine: Machine,
}

impl Preparation<'_> {
    /// Nodes inside loops with these numbers of iterations, as they run.
    pub(crate) fn prepared<T: Element>(&self, nodes: &[Node], times: &mut Vec<usize>) -> Prepared<T> {
        let mut runs = Vec::new();
        for node in nodes {
            match node {
                Node::Do(instruction) => match runs.last_mut() {
                    Some(Run::Tiles(1, tiles)) => self.add::<T>(tiles, instruction),
                    _ => runs.push(Run::Tiles(1, self.tiles::<T>(std::slice::from_ref(instruction)))),
                },
                Node::Loop { times: 0, .. } | Node::While { most: Some(0), .. } => {}
                Node::Loop { times: own, body } => {
                    times.push(*own);
                    runs.push(match instructions(body) {
                        None => Run::Nest(*own, self.prepared(body, times)),
                        Some(body) => {
                            let steps: Vec<Step<'_>> = body.iter().map(Step::Do).collect();
                            match narrow::narrow(self.regions, &steps, times, self.machine) {
                                Some(narrow) => self.narrow(*own, narrow, &steps),
                                None => Run::Tiles(*own, self.tiles::<T>(&body)),
                            }
                        }
                    });
                    times.pop();
                }
                Node::Choice { holds, branches } => {
                    let branches = branches.each_ref().map(|nodes| self.prepared(nodes, times));
                    runs.push(Run::Choice(self.condition(holds), Box::new(branches)));
                }
                Node::While { test, holds, body, most } => {
                    times.push(most.unwrap_or(ENDLESS));
                    let narrow = match (instructions(test), instructions(body)) {
                        (Some(test), Some(body)) => {
                            let before = test.iter().map(Step::Do).chain([Step::EndUnless(holds)]);
                            let steps: Vec<Step<'_>> = before.chain(body.iter().map(Step::Do)).collect();
                            let narrow = narrow::narrow(self.regions, &steps, times, self.machine);
                            narrow.map(|narrow| self.narrow(most.unwrap_or(usize::MAX), narrow, &steps))
                        }
                        _ => None,
                    };
                    runs.push(match narrow {
                        Some(narrow) => narrow,
                        None => {
                            let [test, body] = [test, body].map(|nodes| self.prepared(nodes, times));
                            Run::While(Box::new(While { test, holds: self.condition(holds), body, most: *most }))
                        }
                    });
                    times.pop();
                }
            }
        }
        runs
    }

    fn tiles<T: Element>(&self, instructions: &[Instruction]) -> Tiles {
        let mut tiles = Tiles::default();
        instructions.iter().for_each(|instruction| self.add::<T>(&mut tiles, instruction));
        tiles
    }

    fn add<T: Element>(&self, tiles: &mut Tiles, instruction: &Instruction) {
        let spans = instruction.spans::<T>().expect("the plan was checked: there is a span for each operand");
        let operands = std::iter::once(&instruction.to).chain(&instruction.from).zip(spans);
        tiles.starts.extend(operands.enumerate().map(|(index, (operand, span))| {
            let block = match &instruction.op {
                Op::Sink { block_steps, .. } if index > 0 => block_steps[index - 1],
                _ => 0,
            };
            Start::of(&self.layouts, operand, span, block)
        }));
        tiles.nanoseconds += instruction.nanoseconds() as u64;
        tiles.instructions.push(instruction.clone());
    }

    fn narrow<T>(&self, times: usize, code: Narrow<T>, steps: &[Step<'_>]) -> Run<T> {
        let mut fired = Fired::default();
        fired.note(code.transformation());
        fired.count();
        let start = |Piece { region, at, steps, len }: &Piece| Start::at(&self.layouts, *region, *at, *steps, *len);
        let starts = match &code {
            Narrow::Words(code) => code.pieces().map(start).collect(),
            #[cfg(feature = "jit")]
            Narrow::Routine(routine) => routine.pieces().map(start).collect(),
        };
        let elements = steps.iter().map(|step| match step {
            Step::Do(instruction) => instruction.elements(),
            Step::EndUnless(_) => 1.0,
        });
        // Registers save what an instruction takes before its first element.
        let nanoseconds = (elements.sum::<f64>() * OF_A_WORD).ceil() as u64;
        Run::Narrow(times, Registers { code, starts, nanoseconds })
    }

    fn condition(&self, holds: &Operand) -> Start {
        Start::of(&self.layouts, holds, 1, 0)
    }
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
pub(crate) fn run<T: MathTable, S: Simd>(simd: S, program: &Prepared<T>, views: &mut [View<'_, T>], stop: Stop<'_>) {
    let asked = Asked { stop, left: ASKED_AFTER, is_stopped: false };
    let mut runner = Runner { simd, views, cursors: SmallVec::new(), addresses: SmallVec::new(), asked };
    runner.all(program, [0; DEPTH], 0);
}

/// When the runner asks whether to stop: not after so many iterations, whatever they cost, but after so much time.
struct Asked<'p> {
    stop: Stop<'p>,
    /// Nanoseconds of work until it asks.
    left: u64,
    is_stopped: bool,
}

impl Asked<'_> {
    /// How many of the iterations that are left may run now, at so many nanoseconds each: at least one.
    #[inline]
    fn some_of(&self, left: usize, nanoseconds: u64) -> usize {
        if self.is_stopped {
            return 0;
        }
        match (left as u64).checked_mul(nanoseconds) {
            Some(all) if all <= self.left => left,
            _ => left.min(usize::try_from(self.left / nanoseconds.max(1)).unwrap_or(usize::MAX).max(1)),
        }
    }

    /// Counts iterations that ran.
    #[inline]
    fn count(&mut self, iterations: usize, nanoseconds: u64) {
        self.left = self.left.saturating_sub((iterations as u64).saturating_mul(nanoseconds));
        if self.left == 0 {
            self.left = ASKED_AFTER;
            self.is_stopped = (self.stop)();
        }
    }
}

struct Runner<'p, 'a, T, S> {
    simd: S,
    views: &'p mut [View<'a, T>],
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
                        self.asked.count(1, OF_A_ROUND);
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
            self.asked.count(1, OF_A_ROUND);
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
    fn holds(&self, condition: &Start, counters: [isize; DEPTH], level: usize) -> bool {
        let range = condition.inside(&counters, level).range;
        self.views[condition.region].read(range).first().is_some_and(|holds| *holds != T::ZERO)
    }

    /// Runs a loop of instructions: finds their addresses, and then only adds to them.
    fn tiles(&mut self, tiles: &Tiles, times: usize, counters: [isize; DEPTH], level: usize) {
        self.cursors.clear();
        self.cursors.extend(tiles.starts.iter().map(|start| start.inside(&counters, level)));
        let mut left = times;
        loop {
            let count = self.asked.some_of(left, tiles.nanoseconds);
            if count == 0 {
                return;
            }
            for _ in 0..count {
                let mut cursors = self.cursors.as_mut_slice();
                for instruction in &tiles.instructions {
                    let (own, rest) = cursors.split_at_mut(1 + instruction.from.len());
                    step(self.simd, instruction, own, self.views);
                    cursors = rest;
                }
            }
            left -= count;
            self.asked.count(count, tiles.nanoseconds);
        }
    }

    /// Runs a loop of code for registers, whose pieces start there.
    fn narrow(&mut self, body: &Registers<T>, times: usize, counters: [isize; DEPTH], level: usize) {
        let Registers { code, starts, nanoseconds } = body;
        self.addresses.clear();
        self.addresses.extend(starts.iter().map(|start| {
            let Cursor { range, step, .. } = start.inside(&counters, level);
            Address { region: start.region, range, step }
        }));
        let (asked, mut left, mut ran) = (&mut self.asked, times, 0);
        let more = || {
            if ran > 0 {
                asked.count(ran, *nanoseconds);
            }
            ran = asked.some_of(left, *nanoseconds);
            left -= ran;
            ran
        };
        match code {
            Narrow::Words(code) => narrow::run(self.simd, code, self.views, &mut self.addresses, more),
            #[cfg(feature = "jit")]
            Narrow::Routine(routine) => routine.run(self.views, &mut self.addresses, more),
        }
    }
}
