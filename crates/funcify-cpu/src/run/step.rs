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
use crate::plan::{Across, Instruction, Op, Operand};

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

fn range(operand: &Operand, cursor: Cursor, span: usize) -> Range {
    Range { at: cursor.at as usize, offset: operand.offset, span }
}

fn span(operand: &Operand, rows: usize, lanes: usize) -> usize {
    (rows - 1) * operand.row + if operand.across == Across::Lanes { lanes } else { 1 }
}

impl<T> Access<'_, '_, '_, T> {
    /// Operand `index` as rows and lanes.
    #[inline]
    fn source(&self, index: usize, rows: usize, lanes: usize) -> Source<'_, T> {
        let operand = &self.instruction.from[index];
        let range = range(operand, self.cursors[index + 1], span(operand, rows, lanes));
        self.others.source(operand.region, range, operand.row, operand.across == Across::Element)
    }

    /// `span` elements of operand `index`, which is not the place that is written; of block `block`.
    #[inline]
    fn slice(&self, index: usize, span: usize, block: usize) -> &[T] {
        let operand = &self.instruction.from[index];
        let mut range = range(operand, self.cursors[index + 1], span);
        range.at = (self.cursors[index + 1].at + block as isize * self.cursors[index + 1].block) as usize;
        self.others.read(operand.region, range).unwrap_or_default()
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
    let (data, others) = borrow(views, to.region, range(to, cursors[0], written));
    let access = Access { instruction, cursors, others };
    let source = |index| access.source(index, rows, lanes);
    let mut target = Target { data, rows, lanes, stride: to.row };
    match op {
        Op::Unary(op) => unary::run(simd, *op, target, source(0)),
        Op::Binary(op) => binary::run2(simd, *op, target, [source(0), source(1)]),
        Op::Ternary(op) => binary::run3(simd, *op, target, [source(0), source(1), source(2)]),
        Op::Product { inner, init, then } => {
            let first = usize::from(*init);
            let mut factors = SmallVec::<[Factor<'_, T>; 3]>::new();
            for (index, k) in inner.iter().enumerate() {
                let left = first + 2 * index;
                let stride = from[left].row;
                factors.push(Factor {
                    left: access.slice(left, span(&from[left], rows, *k), 0),
                    stride,
                    k: *k,
                    packed: access.slice(left + 1, packed_len::<T>(*k, lanes), 0),
                });
            }
            let init = init.then(|| source(0));
            product(simd, Target { data: &mut *target.data, ..target }, &factors, init);
            if let Some(then) = then {
                unary::run(simd, *then, target, Source::Same);
            }
        }
        Op::FoldRows { fold, accumulate } => {
            let b = (from.len() == 2).then(|| source(1));
            simd.vectorize(FoldRows { fold: *fold, to: target.data, rows, a: source(0), b, accumulate: *accumulate });
        }
        Op::FoldLanes { fold, accumulate } => {
            target.lanes = 1;
            let b = (from.len() == 2).then(|| source(1));
            let to = target;
            simd.vectorize(FoldLanes { fold: *fold, to, lanes, a: source(0), b, accumulate: *accumulate });
        }
        Op::Sink { blocks, block_rows, .. } => {
            let sides = [(0, rows), (1, lanes)].map(|(index, width)| {
                let span = span(&from[index], *block_rows, width);
                (0..*blocks).map(|block| access.slice(index, span, block)).collect::<SmallVec<[&[T]; 256]>>()
            });
            let [left, right] = [0, 1].map(|index: usize| Side { blocks: &sides[index], stride: from[index].row });
            sink(simd, target, *block_rows, left, right);
        }
        Op::Recur { recurrence, down } => {
            let a = (from.len() == 3).then(|| source(2));
            let initial = access.source(0, 1, lanes);
            let (recurrence, down) = (*recurrence, *down);
            simd.vectorize(Recur { recurrence, target, initial, x: source(1), a, down });
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
    }
}
