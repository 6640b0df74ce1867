//! One instruction, with the addresses that it has now.

use pulp::Simd;
use smallvec::SmallVec;

use super::view::{Others, Range, View, borrow};
use crate::kernels::fold::{FoldLanes, FoldRows};
use crate::kernels::map::Target;
use crate::kernels::math::MathTable;
use crate::kernels::product::{Factor, pack, product};
use crate::kernels::recurrence::Recur;
use crate::kernels::sink::{Side, sink};
use crate::kernels::source::Source;
use crate::kernels::{binary, movement, packed_len, unary};
use crate::plan::{Across, BLOCKS, FACTORS, Instruction, Op, Operand};

/// Where an operand is now, and how far it moves with each iteration of the innermost loop: of columns in units, else
/// in elements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) at: isize,
    pub(crate) step: isize,
    /// What the block after this one is away, for sinks.
    pub(crate) block: isize,
}

/// An instruction's operands while it runs.
struct Access<'i, 'v, 'a, T> {
    instruction: &'i Instruction,
    cursors: &'i [Cursor],
    others: Others<'v, 'a, T>,
}

#[inline(always)]
fn span(operand: &Operand, rows: usize, lanes: usize) -> usize {
    (rows - 1) * operand.row + if operand.across == Across::Lanes { lanes } else { 1 }
}

impl<'v, T> Access<'_, 'v, '_, T> {
    /// Operand `index` as rows and lanes.
    #[inline(always)]
    fn source(&self, index: usize, rows: usize, lanes: usize) -> Source<'v, T> {
        let operand = &self.instruction.from[index];
        let at = self.cursors[index + 1].at as usize;
        let range = Range { at, offset: operand.offset, span: span(operand, rows, lanes) };
        self.others.source(operand.region, range, operand.row, operand.across == Across::Element)
    }

    /// `span` elements of operand `index`, which is not the place that is written; of block `block`.
    fn slice(&self, index: usize, span: usize, block: usize) -> &'v [T] {
        let operand = &self.instruction.from[index];
        let cursor = self.cursors[index + 1];
        let at = (cursor.at + block as isize * cursor.block) as usize;
        self.others.read(operand.region, Range { at, offset: operand.offset, span }).unwrap_or_default()
    }
}

/// Runs an instruction. `cursors` has what is written first, and then the operands.
pub(crate) fn step<T: MathTable, S: Simd>(
    simd: S,
    instruction: &Instruction,
    cursors: &[Cursor],
    views: &mut [View<'_, T>],
) {
    let Instruction { op, rows, lanes, to, from } = instruction;
    let (rows, lanes) = (*rows, *lanes);
    let written = match op {
        Op::FoldRows { .. } => lanes,
        Op::FoldLanes { .. } => span(to, rows, 1),
        Op::Pack { .. } => packed_len::<T>(rows, lanes),
        _ => span(to, rows, lanes),
    };
    let range = Range { at: cursors[0].at as usize, offset: to.offset, span: written };
    let mut columns = None;
    let (data, others) = borrow(views, to.region, range, &mut columns);
    let access = Access { instruction, cursors, others };
    let mut target = Target { data, rows, lanes, stride: to.row };
    let elementwise = matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Ternary(_));
    if !elementwise {
        return heavy_step(simd, &access, target);
    }
    let mut sources = [Source::Same; 3];
    for (index, source) in sources.iter_mut().enumerate().take(from.len()) {
        *source = access.source(index, rows, lanes);
    }
    match op {
        Op::Unary(op) => unary::run(simd, *op, &mut target, &sources),
        Op::Binary(op) => binary::run2(simd, *op, &mut target, &sources),
        Op::Ternary(op) => binary::run3(simd, *op, &mut target, &sources),
        _ => {}
    }
}

/// Runs an instruction that is not elementwise.
#[inline(never)]
fn heavy_step<'v, T: MathTable, S: Simd>(simd: S, access: &Access<'_, 'v, '_, T>, mut target: Target<'v, T>) {
    let Instruction { op, rows, lanes, from, .. } = access.instruction;
    let (rows, lanes) = (*rows, *lanes);
    match op {
        Op::Product { inner, init, then } => {
            let first = usize::from(*init);
            let mut factors = SmallVec::<[Factor<'_, T>; FACTORS]>::new();
            for (index, k) in inner.iter().enumerate() {
                let left = first + 2 * index;
                factors.push(Factor {
                    left: access.slice(left, span(&from[left], rows, *k), 0),
                    stride: from[left].row,
                    k: *k,
                    packed: access.slice(left + 1, packed_len::<T>(*k, lanes), 0),
                });
            }
            let init = if *init { Some(access.source(0, rows, lanes)) } else { None };
            product(simd, &mut target, &factors, init);
            if let Some(then) = then {
                unary::run(simd, *then, &mut target, &[Source::Same; 3]);
            }
        }
        Op::FoldRows { fold, accumulate } | Op::FoldLanes { fold, accumulate } => {
            let (fold, accumulate, a) = (*fold, *accumulate, access.source(0, rows, lanes));
            let b = if from.len() == 2 { Some(access.source(1, rows, lanes)) } else { None };
            if matches!(op, Op::FoldRows { .. }) {
                simd.vectorize(&mut FoldRows { fold, to: target.data, rows, a, b, accumulate });
            } else {
                target.lanes = 1;
                simd.vectorize(&mut FoldLanes { fold, to: target, lanes, a, b, accumulate });
            }
        }
        Op::Sink { blocks, block_rows, .. } => sink_blocks(simd, access, target, *blocks, *block_rows),
        Op::Recur { recurrence, down } => {
            let (initial, x) = (access.source(0, 1, lanes), access.source(1, rows, lanes));
            let a = if from.len() == 3 { Some(access.source(2, rows, lanes)) } else { None };
            simd.vectorize(&mut Recur { recurrence: *recurrence, target, initial, x, a, down: *down });
        }
        Op::Fill(value) => {
            for row in 0..rows {
                target.row(row).fill(T::from_f64(*value));
            }
        }
        Op::Pack { column } => {
            let matrix = access.slice(0, (rows - 1) * from[0].row + (lanes - 1) * column + 1, 0);
            pack(simd, target.data, matrix, [rows, lanes], [from[0].row, *column]);
        }
        Op::Transpose => {
            movement::transpose(target, access.slice(0, span(&from[0], lanes, rows), 0), from[0].row);
        }
        Op::Unary(_) | Op::Binary(_) | Op::Ternary(_) => {}
    }
}

/// Finds the blocks of both sides, and adds their sums of outer products.
#[inline(never)]
fn sink_blocks<T: MathTable, S: Simd>(
    simd: S,
    access: &Access<'_, '_, '_, T>,
    target: Target<'_, T>,
    blocks: usize,
    block_rows: usize,
) {
    let from = &access.instruction.from;
    let (mut left, mut right) = (SmallVec::<[&[T]; BLOCKS]>::new(), SmallVec::<[&[T]; BLOCKS]>::new());
    for block in 0..blocks {
        left.push(access.slice(0, span(&from[0], block_rows, target.rows), block));
        right.push(access.slice(1, span(&from[1], block_rows, target.lanes), block));
    }
    let left = Side { blocks: &left, stride: from[0].row };
    let right = Side { blocks: &right, stride: from[1].row };
    sink(simd, target, block_rows, left, right);
}
