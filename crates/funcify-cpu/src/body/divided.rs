//! Divides the rows of large instructions among threads.
//!
//! A row does not depend on other rows, and each of these instructions computes a row in the same way regardless of the
//! number of rows. Therefore, the number of threads does not affect the results.

use crate::kernels::map::Target;
use crate::plan::{Instruction, Op};
use crate::threads::{MAX_PIECES, MIN_NS_PER_PIECE};

/// The minimum number of rows per piece. A product with a single row adds its terms in another order than a product
/// with several rows.
const MIN_ROWS_PER_PIECE: usize = 12;

/// Returns the number of pieces into which the rows of an instruction are divided. Returns 1 if the instruction is too
/// small, or if the thread pool has only one thread.
pub(super) fn pieces(instruction: &Instruction) -> usize {
    match &instruction.op {
        Op::Unary(_) | Op::Binary(_) | Op::Ternary(_) | Op::FoldLanes { .. } => {}
        Op::Product { .. } | Op::Sink { .. } => {}
        // A fold of rows has one row. The others depend on the number of rows, or take little time.
        Op::FoldRows { .. } | Op::Fill(_) | Op::Recur { .. } | Op::Pack { .. } | Op::Transpose => return 1,
        Op::Take { .. } | Op::Put { .. } | Op::Scatter { .. } => return 1,
    }
    let by_time = (nanoseconds(instruction) / MIN_NS_PER_PIECE) as usize;
    let pieces = by_time.min(instruction.rows / MIN_ROWS_PER_PIECE).min(MAX_PIECES);
    // Ask for the number of threads only if it matters, because the question starts the thread pool.
    if pieces < 2 { 1 } else { pieces.min(rayon::current_num_threads()) }
}

/// Returns the expected run time of an instruction, in nanoseconds: half of the cautious estimate.
pub(super) fn nanoseconds(instruction: &Instruction) -> f64 {
    instruction.nanoseconds() / 2.0
}

/// Divides the rows of a destination into pieces, and calls `run` for each piece: with the index of its first row, and
/// with its rows of the destination. The calls run on several threads.
pub(super) fn by_rows<T: Send>(pieces: usize, target: Target<'_, T>, run: &(impl Fn(usize, Target<'_, T>) + Sync)) {
    from_row(0, pieces, target, run);
}

fn from_row<T: Send>(first: usize, pieces: usize, target: Target<'_, T>, run: &(impl Fn(usize, Target<'_, T>) + Sync)) {
    if pieces == 1 {
        return run(first, target);
    }
    let upper_pieces = pieces / 2;
    let rows = target.rows * upper_pieces / pieces;
    let (upper, lower) = target.split_rows(rows);
    rayon::join(
        || from_row(first, upper_pieces, upper, run),
        || from_row(first + rows, pieces - upper_pieces, lower, run),
    );
}
