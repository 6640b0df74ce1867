//! Decides how to lay out and divide a program: the sizes from which each way of running its ops is the fastest one.

use super::*;

/// The policy for dividing a program into parts along a parallel axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Division {
    /// Divides a program if the parts are worth running on several threads, or fit better in a cache.
    #[default]
    Worthwhile,
    /// Like `Worthwhile`, but for a plan that runs inside a tensor library. The planner rejects losses over large
    /// vocabularies, because the library needs less memory for them: the library neither packs the weights nor computes
    /// a weight gradient in each part.
    BesideLibrary,
    /// Divides every program that has a parallel axis, and also applies transformations that are normally reserved for
    /// large programs. This policy is for tests.
    Always,
}

impl Division {
    /// Returns the minimum size of a parallel axis that loops lay out innermost.
    pub(super) fn min_lanes(self) -> usize {
        if self == Division::Always { 2 } else { 8 }
    }

    /// Returns the minimum number of floats that an op must compute in order to begin a fused body. Above this size, the
    /// operands of the ops do not all fit into the L1 cache, so a body that keeps values in tiles is faster than one
    /// instruction per op. A single op on repeated rows (`repeats_rows`) is an exception: a body copies the rows to
    /// tiles, and an instruction does not.
    pub(super) fn min_floats(self, repeats_rows: bool) -> usize {
        match (self, repeats_rows) {
            (Division::Always, _) => 33,
            (_, false) => 1 << 12,
            (_, true) => 1 << 17,
        }
    }

    /// Returns `true` if values in loops should be laid out with `axis` innermost.
    pub(super) fn lays_innermost(self, graph: &Graph, sizes: &Sizes, axis: &ParallelAxis) -> bool {
        axis.size() >= self.min_lanes() && axis.belongs_innermost(graph, sizes, MAX_TERMS)
    }

    /// Returns the minimum number of elements of a carry with two registers. Copying a smaller carry is cheap. Loops over
    /// a few vectors of floats become code for registers, which copies nothing.
    pub(super) fn min_swapped(self, is_typed: bool) -> usize {
        let min_in_tests = if is_typed { 2 } else { 33 };
        if self == Division::Always { min_in_tests } else { 256 }
    }

    /// Returns two minimum sizes for tensors that consist of several views. Smaller ones are not read in place. The
    /// first size is the number of elements of a tensor of integers. The second is the average number of lanes in the
    /// boxes of a body that reads such tensors.
    pub(super) fn min_in_place(self) -> (usize, usize) {
        if self == Division::Always { (2, 1) } else { (256, 128) }
    }

    /// Returns the target number of rows for a product over a whole strip.
    pub(super) fn rows_of_strip(self) -> usize {
        if self == Division::Always { 6 } else { 256 }
    }
}
