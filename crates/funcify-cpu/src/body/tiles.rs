//! Runs instructions over rows and lanes.

use pulp::Simd;
use smallvec::SmallVec;

use super::divided;
use super::planned::Step;
use crate::kernels::Unary;
use crate::kernels::fold::{FoldLanes, FoldRows};
use crate::kernels::map::Target;
use crate::kernels::math::MathTable;
use crate::kernels::movement;
use crate::kernels::product::{Factor, pack, product};
use crate::kernels::recurrence::Recur;
use crate::kernels::sink::{Side, sink};
use crate::kernels::source::Source;
use crate::kernels::table::Elementwise;
use crate::plan::{Across, Instruction, MAX_BLOCKS, MAX_FACTORS, NS_PER_INSTRUCTION, Op};
use crate::threads::are_threads_at_hand;
use crate::views::{Cursor, Layout, Start, Unwritten, View, borrow};
use funcify_body::float::Float;

/// The estimated time, in nanoseconds, that an instruction takes for each vector that it computes, in addition to its
/// fixed overhead.
const NS_PER_VECTOR: f64 = 0.6;

/// An instruction over rows and lanes.
#[derive(Clone, Debug)]
pub(super) struct Tiled {
    pub(super) instruction: Instruction,
    /// The number of pieces into which the instruction's rows are divided if several threads are at hand.
    pub(super) pieces: usize,
}

/// Returns the estimated time of an iteration in nanoseconds, for vectors of `width` elements.
pub(super) fn cost(steps: &[Step<'_>], width: usize) -> f64 {
    let vectors: usize = steps.iter().map(|step| step.vectors(width) * step.terms()).sum();
    NS_PER_INSTRUCTION * steps.len() as f64 + NS_PER_VECTOR * vectors as f64
}

/// Returns the start of each operand of an instruction: first the destination, then the sources.
pub(super) fn starts<T: Float>(layouts: &[Layout], instruction: &Instruction) -> impl Iterator<Item = Start> {
    let spans = instruction.spans::<T>().expect("the plan was checked: every operand has a span");
    let operands = std::iter::once(&instruction.to).chain(&instruction.from).zip(spans);
    operands.enumerate().map(|(index, (operand, span))| {
        let block = match &instruction.op {
            Op::Sink { block_steps, .. } if index > 0 => block_steps[index - 1],
            _ => 0,
        };
        Start::of(layouts, operand, span, block)
    })
}

/// Runs instructions until `more` returns 0. `more` returns the number of iterations to run next. `cursors` holds a
/// cursor for each operand of each instruction, in order.
pub(super) fn run<T: MathTable, S: Simd>(
    simd: S,
    instructions: &[Tiled],
    cursors: &mut [Cursor],
    views: &mut [View<'_, T>],
    mut more: impl FnMut() -> usize,
) {
    loop {
        let times = more();
        if times == 0 {
            return;
        }
        for _ in 0..times {
            let mut cursors = &mut *cursors;
            for tiled in instructions {
                let (own, rest) = cursors.split_at_mut(1 + tiled.instruction.from.len());
                step(simd, tiled, own, views);
                cursors = rest;
            }
        }
    }
}

/// The `expect` message for reading an operand.
const READABLE: &str = "the plan was checked: only elementwise ops read their destination";

/// The operands of a running instruction.
struct Access<'i, 'v, 'a, T> {
    instruction: &'i Instruction,
    cursors: &'i mut [Cursor],
    others: Unwritten<'v, 'a, T>,
}

impl<'v, T> Access<'_, 'v, '_, T> {
    /// Returns source operand `index` as rows, and advances its cursor.
    #[inline(always)]
    fn source(&mut self, index: usize) -> Source<'v, T> {
        let operand = &self.instruction.from[index];
        let range = self.cursors[index + 1].next();
        self.others.source(operand.region, range, operand.row, operand.across == Across::Element)
    }

    /// Returns source operand `index` as a slice, and advances its cursor. The operand must not be the destination.
    #[inline(always)]
    fn slice(&mut self, index: usize) -> &'v [T] {
        let range = self.cursors[index + 1].next();
        self.others.read(self.instruction.from[index].region, range).expect(READABLE)
    }

    /// Appends the blocks of source operand `index` to `blocks`, and advances the operand's cursor. The caller passes
    /// the list, because returning a new one would require a copy.
    fn blocks(&mut self, index: usize, count: usize, blocks: &mut SmallVec<[&'v [T]; MAX_BLOCKS]>) {
        let step = self.cursors[index + 1].block;
        let mut range = self.cursors[index + 1].next();
        let region = self.instruction.from[index].region;
        for _ in 0..count {
            blocks.push(self.others.read(region, range).expect(READABLE));
            range.at = range.at.wrapping_add_signed(step);
        }
    }
}

/// Runs an instruction, and advances its cursors to the next iteration. `cursors` holds the cursor of the destination,
/// followed by the cursors of the sources.
fn step<T: MathTable, S: Simd>(simd: S, tiled: &Tiled, cursors: &mut [Cursor], views: &mut [View<'_, T>]) {
    let Tiled { instruction, pieces } = tiled;
    let Instruction { op, rows, lanes, to, from } = instruction;
    let (rows, lanes) = (*rows, *lanes);
    let pieces = if *pieces > 1 && are_threads_at_hand() { *pieces } else { 1 };
    let mut columns = None;
    let (data, others) = borrow(views, to.region, cursors[0].next(), &mut columns);
    let mut access = Access { instruction, cursors, others };
    let target = Target { data, rows, lanes, stride: to.row };
    let elementwise = matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Ternary(_));
    if !elementwise {
        return run_non_elementwise(simd, &mut access, target, pieces);
    }
    // Use one match arm per operand count, to avoid a loop over the operands.
    let sources = match from.len() {
        1 => [access.source(0), Source::Same, Source::Same],
        2 => [access.source(0), access.source(1), Source::Same],
        _ => [access.source(0), access.source(1), access.source(2)],
    };
    if pieces == 1 {
        return run_elementwise(simd, op, target, &sources);
    }
    divided::by_rows(pieces, target, &|first, target| {
        run_elementwise(simd, op, target, &sources.map(|source| source.skip_rows(first)));
    });
}

/// Runs an elementwise op.
#[inline(always)]
fn run_elementwise<'v, T: MathTable, S: Simd>(
    simd: S,
    op: &Op,
    mut target: Target<'v, T>,
    sources: &[Source<'v, T>; 3],
) {
    match op {
        Op::Unary(Unary::Copy) if target.lanes == 1 && target.rows > 1 => {
            movement::copy_elements(&mut target, sources[0])
        }
        Op::Unary(op) => op.run(simd, &mut target, sources),
        Op::Binary(op) => op.run(simd, &mut target, sources),
        Op::Ternary(op) => op.run(simd, &mut target, sources),
        _ => unreachable!("the caller checked that the op is elementwise"),
    }
}

/// Runs an instruction whose op is not elementwise.
#[inline(never)]
fn run_non_elementwise<'v, T: MathTable, S: Simd>(
    simd: S,
    access: &mut Access<'_, 'v, '_, T>,
    mut target: Target<'v, T>,
    pieces: usize,
) {
    let Instruction { op, rows, lanes, from, .. } = access.instruction;
    let (rows, lanes) = (*rows, *lanes);
    match op {
        Op::Product { inner, init, then } => {
            let first = usize::from(*init);
            let init = if *init { Some(access.source(0)) } else { None };
            let mut factors = [Factor { left: &[], stride: 0, k: 0, packed: &[] }; MAX_FACTORS];
            for (index, (k, factor)) in inner.iter().zip(&mut factors).enumerate() {
                let left = first + 2 * index;
                *factor =
                    Factor { left: access.slice(left), stride: from[left].row, k: *k, packed: access.slice(left + 1) };
            }
            if pieces == 1 {
                return product(simd, &mut target, &factors[..inner.len()], init, *then);
            }
            divided::by_rows(pieces, target, &|first, mut target| {
                let factors = factors.map(|factor| factor.skip_rows(first));
                product(simd, &mut target, &factors[..inner.len()], init.map(|init| init.skip_rows(first)), *then);
            });
        }
        Op::FoldRows { fold, accumulate } | Op::FoldLanes { fold, accumulate } => {
            let (fold, accumulate, a) = (*fold, *accumulate, access.source(0));
            let b = if from.len() == 2 { Some(access.source(1)) } else { None };
            if matches!(op, Op::FoldRows { .. }) {
                simd.vectorize(&mut FoldRows { fold, to: target.data, rows, a, b, accumulate });
            } else {
                target.lanes = 1;
                divided::by_rows(pieces, target, &|first, to| {
                    let (a, b) = (a.skip_rows(first), b.map(|b| b.skip_rows(first)));
                    simd.vectorize(&mut FoldLanes { fold, to, lanes, a, b, accumulate });
                });
            }
        }
        Op::Sink { blocks, block_rows, .. } => sink_blocks(simd, access, target, (*blocks, *block_rows), pieces),
        Op::Recur { recurrence, down } => {
            let (initial, x) = (access.source(0), access.source(1));
            let a = if from.len() == 3 { Some(access.source(2)) } else { None };
            simd.vectorize(&mut Recur { recurrence: *recurrence, target, initial, x, a, down: *down });
        }
        Op::Fill(value) => {
            for row in 0..rows {
                target.row(row).fill(T::from_f64(*value));
            }
        }
        Op::Pack { column } => {
            pack(simd, target.data, access.slice(0), [rows, lanes], [from[0].row, *column]);
        }
        Op::Transpose => {
            movement::transpose(target, access.slice(0), from[0].row);
        }
        Op::Take { count, step } => {
            let (table, index) = (access.source(0), access.source(1));
            movement::take(target, table, index, *count, *step);
        }
        Op::Put { count, step } => {
            let (x, index) = (access.source(0), access.source(1));
            movement::put(&mut target, x, index, *count, *step);
        }
        Op::Scatter { count, step, fold, then } => {
            let (x, index) = (access.source(0), access.source(1));
            movement::scatter(&mut target, x, index, (*count, *step), (*fold, *then));
        }
        Op::Unary(_) | Op::Binary(_) | Op::Ternary(_) => unreachable!("`step` ran elementwise ops"),
    }
}

/// Adds the product AᵀB of each left block A and the corresponding right block B to the target.
#[inline(never)]
fn sink_blocks<T: MathTable, S: Simd>(
    simd: S,
    access: &mut Access<'_, '_, '_, T>,
    target: Target<'_, T>,
    (blocks, block_rows): (usize, usize),
    pieces: usize,
) {
    let (mut left, mut right) = (SmallVec::<[&[T]; MAX_BLOCKS]>::new(), SmallVec::new());
    access.blocks(0, blocks, &mut left);
    access.blocks(1, blocks, &mut right);
    let from = &access.instruction.from;
    let right = Side { blocks: &right, stride: from[1].row };
    divided::by_rows(pieces, target, &|first, target| {
        // A row of the target is a column of the left operand.
        let left: SmallVec<[&[T]; MAX_BLOCKS]> = left.iter().map(|block| &block[first..]).collect();
        sink(simd, target, block_rows, Side { blocks: &left, stride: from[0].row }, right);
    });
}
