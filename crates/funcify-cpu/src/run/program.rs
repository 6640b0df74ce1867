//! A program on the views of one part: loops, and the addresses of their instructions.

use pulp::Simd;
use smallvec::SmallVec;

use super::step::{Cursor, step};
use super::view::{Range, View};
use crate::kernels::math::MathTable;
use crate::plan::{DEPTH, Instruction, Node, Op, Operand, Plan, Program};

/// Whether a call is to end early.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// How many iterations run before it is asked again whether the call is to end.
const ASKED_AFTER: usize = 1024;

/// Runs a program. Addresses are kept on the stack for up to some ten instructions a loop.
pub(crate) fn run<T: MathTable, S: Simd>(
    simd: S,
    plan: &Plan,
    program: &Program,
    views: SmallVec<[View<'_, T>; 32]>,
    stop: Stop<'_>,
) {
    let mut runner = Runner { simd, plan, views, cursors: SmallVec::new(), stop, left: ASKED_AFTER, is_stopped: false };
    runner.nodes(program, [0; DEPTH], 0);
}

struct Runner<'p, 'a, T, S> {
    simd: S,
    plan: &'p Plan,
    views: SmallVec<[View<'a, T>; 32]>,
    cursors: SmallVec<[Cursor; 64]>,
    stop: Stop<'p>,
    /// How many iterations run before `stop` is asked.
    left: usize,
    is_stopped: bool,
}

impl<T: MathTable, S: Simd> Runner<'_, '_, T, S> {
    /// Runs nodes inside `level` loops, whose counters are known.
    fn nodes(&mut self, nodes: &[Node], counters: [isize; DEPTH], level: usize) {
        for node in nodes {
            if self.is_stopped {
                return;
            }
            match node {
                Node::Do(_) => self.innermost(std::slice::from_ref(node), 1, counters, level),
                Node::Loop { times, body } if body.iter().all(|node| matches!(node, Node::Do(_))) => {
                    self.innermost(body, *times, counters, level);
                }
                Node::Loop { times, body } => {
                    for counter in 0..*times {
                        self.count(1);
                        if self.is_stopped {
                            return;
                        }
                        let mut counters = counters;
                        counters[level] = counter as isize;
                        self.nodes(body, counters, level + 1);
                    }
                }
            }
        }
    }

    /// Runs a loop of instructions: finds their addresses, and then only adds to them.
    fn innermost(&mut self, body: &[Node], times: usize, counters: [isize; DEPTH], level: usize) {
        self.cursors.clear();
        for node in body {
            if let Node::Do(instruction) = node {
                self.find(instruction, counters, level);
            }
        }
        let mut left = times;
        while left > 0 && !self.is_stopped {
            let count = left.min(self.left);
            for _ in 0..count {
                let mut cursors = self.cursors.as_mut_slice();
                for node in body {
                    if let Node::Do(instruction) = node {
                        let (own, rest) = cursors.split_at_mut(1 + instruction.from.len());
                        step(self.simd, instruction, own, &mut self.views);
                        cursors = rest;
                    }
                }
            }
            left -= count;
            self.count(count);
        }
    }

    /// So many more iterations ran, no more than are left before it is asked whether to stop.
    fn count(&mut self, iterations: usize) {
        self.left -= iterations;
        if self.left == 0 {
            self.left = ASKED_AFTER;
            self.is_stopped = (self.stop)();
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
