//! The instruction set: a planner writes it and the [`Executor`](crate::Executor) runs it.
//!
//! A [`Plan`] computes results from inputs, all of one element type and of known sizes. It is a list of stages that
//! run one after the other. A stage runs a program ([`Nodes`]) on each part of a parallel axis; parts may run at the
//! same time, and do not see each other's writes. The division of a stage is part of the plan and does not depend on
//! the machine, so results do not depend on the number of threads.
//!
//! # Regions
//!
//! Programs read and write regions: inputs, outputs and scratch memory. A [`Region`] is a matrix of `units` rows with
//! `pitch` elements each; in a sequence or a trace, a unit is one step. [`Split`] determines which elements of it a
//! part sees:
//!
//! - `Whole`: everything. If the stage has several parts, they may only read it. Used for weights, packed weights and
//!   constants.
//! - `Columns(width)`: `width` elements of each unit per index of the parallel axis. A part sees its own columns, and
//!   counts offsets from the first of them. Used for sequences, traces and final values.
//! - `Parts(count)`: each of `count` parts has a region of its own. Used for registers, strips and partial sums. A
//!   later stage with one part sees all of them, one after the other, as `count * units` units, and so can add partial
//!   sums.
//!
//! Scratch memory is aligned to 64 bytes and keeps its contents between calls, but a plan may only rely on elements
//! that it has written in the same call. All registers of a program may be one scratch region.
//!
//! # Programs
//!
//! A program is a list of nodes: an [`Instruction`], or a loop around nodes, up to [`DEPTH`] loops deep. Each operand
//! moves by a fixed number of units with each iteration of each loop around it, so
//!
//! - a loop over steps reads its sequences and writes its traces in place; a reverse loop has negative steps;
//! - taps and carries read the trace's other units, as operands that start elsewhere;
//! - first steps, which read initial values, are instructions before the loop (the peel);
//! - strips are a loop over strips around a loop over steps, with instructions before and after the inner loop;
//! - a remainder is another loop after the first;
//! - a while loop reads an element between its nodes to decide whether to go on, and so does a choice of nodes.
//!
//! The innermost loop is the fast path: addresses are computed once for all its iterations, and then only incremented.
//!
//! # Instructions
//!
//! An instruction writes `rows` rows of `lanes` elements, from operands with their own distances between rows. With
//! distance 0, all rows read the same elements; an operand across [`Across::Element`] has one element per row, for all
//! lanes. [`Op`] documents how each op uses its operands.
//!
//! An operand may be exactly the place that the instruction writes, with the same rows; no other overlap is allowed.
//! If the distance between rows is larger than the number of lanes, the elements in between count as touched.
//!
//! Masks are numbers: 1 is true and 0 false.
//!
//! # Costs
//!
//! An instruction costs some 15 to 25 ns before its first element, so bodies of few lanes should have few
//! instructions: fuse an activation into its product (`then` of [`Op::Product`]), and express a loop of one lane as
//! one [`Op::Recur`]. A product of few rows costs as much as reading its right side; from 8 rows on it is as fast as
//! the processor multiplies, and several factors in one product cost no pass over the result.
//! `cargo bench -p funcify-cpu` prints all of these figures.
//!
//! # Example
//!
//! `y[t] = 0.5 y[t-1] + x[t]` over ten steps of six lanes, in two parts of three. The trace is the carry; the first
//! step reads the initial value.
//!
//! ```
//! use funcify_cpu::kernels::Ternary;
//! use funcify_cpu::plan::{Op, Operand, Storage, Plan, Split, repeat};
//! use funcify_cpu::{Executor, Machine};
//!
//! let mut plan = Plan::default();
//! let x = Operand::of(plan.region(Storage::Input(0), 10, 6, Split::Columns(1)));
//! let initial = Operand::of(plan.region(Storage::Input(1), 1, 6, Split::Columns(1)));
//! let y = Operand::of(plan.region(Storage::Output(0), 10, 6, Split::Columns(1)));
//! let half = Operand::of(plan.shared(1));
//! plan.once(vec![Op::Fill(0.5).over([1, 1], half, &[])]);
//! let step = Op::Ternary(Ternary::MulAdd);
//! plan.parts(2, 3, vec![
//!     step.clone().over([1, 3], y, &[half.element(), initial, x]),
//!     repeat(9, vec![step.over([1, 3], y.at(1).step(0, 1), &[half.element(), y.step(0, 1), x.at(1).step(0, 1)])]),
//! ]);
//!
//! let mut executor = Executor::<f32>::new(plan, Machine::detect())?;
//! let mut trace = [0.0; 60];
//! executor.call(&[&[1.0; 60], &[8.0; 6]], &mut [&mut trace])?;
//! assert_eq!(trace[..6], [5.0; 6]);
//! assert_eq!(trace[6..12], [3.5; 6]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The check
//!
//! [`Plan::check`] proves, for the first and the last iteration of all loops, that each operand is within its region
//! and that nothing overlaps; the executor runs only plans that pass.

mod build;
mod check;
mod span;

pub use build::repeat;
pub use check::PlanError;

use funcify_core::ops::Words;

use crate::kernels::{Binary, Fold, Recurrence, Ternary, Unary, WordOp};

/// The nanoseconds that an instruction takes before it computes its first element, on one core of a server.
pub(crate) const NS_PER_INSTRUCTION: f64 = 20.0;

/// The number of iterations assumed for an unbounded loop in the check. It is so large that no operand in the loop may
/// move.
pub(crate) const UNBOUNDED_ITERATIONS: usize = 1 << 30;

/// The largest depth of nested loops in a program.
pub const DEPTH: usize = 3;

/// The instructions of a call, and the regions they use.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The regions that programs read and write. Operands refer to a region by its index in this list.
    pub regions: Vec<Region>,
    /// The stages, in execution order.
    pub stages: Vec<Stage>,
}

/// A matrix of elements that programs read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The location of the region.
    pub place: Storage,
    /// The number of units: steps of a sequence. For [`Split::Parts`], the number in each part.
    pub units: usize,
    /// The number of elements per unit.
    pub pitch: usize,
    /// The portion of the region that a part sees.
    pub split: Split,
}

/// Identifies where a region is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// An input of the caller, read only. Several regions may be the same input.
    Input(usize),
    /// An output of the caller. Each output has only one region.
    Output(usize),
    /// Scratch memory of the executor.
    Scratch,
}

/// The portion of a region that a part sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// The whole region.
    Whole,
    /// The given number of elements of each unit, per index of the parallel axis.
    Columns(usize),
    /// One of the given number of regions, in scratch memory.
    Parts(usize),
}

/// A step of a plan: a set of programs that run over the parts of an axis.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// The parts, in the order of the axis.
    pub parts: Vec<Part>,
    /// The programs that the parts run. Parts of the same length may share a program.
    pub programs: Vec<Nodes>,
    /// `true` if the parts are worth running on threads, which takes about 100 microseconds of work.
    pub concurrent: bool,
}

/// A part of the parallel axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The number of indices of the axis in this part.
    pub len: usize,
    /// The index of the program that the part runs, in [`Stage::programs`].
    pub program: usize,
}

/// A list of instructions and loops, run in order.
pub type Nodes = Vec<Node>;

/// An instruction or a loop.
#[derive(Clone, Debug)]
pub enum Node {
    /// One instruction.
    Do(Instruction),
    /// Nodes that run `times` times.
    Loop {
        /// The number of iterations.
        times: usize,
        /// The nodes of an iteration.
        body: Vec<Node>,
    },
    /// Nodes that run as long as a condition holds, which is computed before each iteration. This counts as a loop.
    /// Operands in it may move only if the loop has a bound.
    While {
        /// The nodes that compute the condition.
        test: Vec<Node>,
        /// The condition, which is one element. 0 ends the loop.
        holds: Operand,
        /// The nodes of an iteration.
        body: Vec<Node>,
        /// The largest number of iterations.
        bound: Option<usize>,
    },
    /// Two lists of nodes, one of which runs.
    Choice {
        /// The condition, which is one element: 0 chooses the second list, any other value the first.
        holds: Operand,
        /// The nodes to run if the condition is true, and those to run if it is false.
        branches: [Vec<Node>; 2],
    },
}

/// One op over rows and lanes.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The op to compute.
    pub op: Op,
    /// The number of rows written. Folds and recurrences define it differently; see [`Op`].
    pub rows: usize,
    /// The number of elements per row.
    pub lanes: usize,
    /// The destination.
    pub to: Operand,
    /// The operands that the op requires.
    pub from: Vec<Operand>,
}

/// The nanoseconds per element, per function applied to an element, and per multiply-add of a product.
const NS_PER_ELEMENT: f64 = 0.2;
const NS_PER_FUNCTION: f64 = 2.0;
const NS_PER_TERM: f64 = 0.03;

impl Instruction {
    /// Returns the number of elements that the instruction computes or reads, whichever is larger.
    pub(crate) fn elements(&self) -> f64 {
        let (rows, lanes) = (self.rows as f64, self.lanes as f64);
        match &self.op {
            Op::Product { inner, .. } => rows * lanes * inner.iter().sum::<usize>() as f64,
            Op::Sink { blocks, block_rows, .. } => rows * lanes * *blocks as f64 * *block_rows as f64,
            _ => rows * lanes,
        }
    }

    /// Estimates the nanoseconds that the instruction takes.
    pub(crate) fn nanoseconds(&self) -> f64 {
        let of_an_element = match &self.op {
            Op::Product { .. } | Op::Sink { .. } => NS_PER_TERM,
            Op::Unary(op) if *op != Unary::Copy => NS_PER_FUNCTION,
            Op::Binary(Binary::Pow | Binary::Atan2 | Binary::Rem | Binary::ExpOfProduct) | Op::Threefry(_) => {
                NS_PER_FUNCTION
            }
            _ => NS_PER_ELEMENT,
        };
        NS_PER_INSTRUCTION + self.elements() * of_an_element
    }
}

/// The op that an instruction computes. `to[r][l]` is element `l` of row `r`.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `to[r][l] = value`. No operands.
    Fill(f64),
    /// `to[r][l] = op(x[r][l])`. Operands: x.
    Unary(Unary),
    /// `to[r][l] = op(x[r][l], y[r][l])`. Operands: x, y.
    Binary(Binary),
    /// `to[r][l] = op(x[r][l], y[r][l], z[r][l])`. Operands: x, y, z.
    Ternary(Ternary),
    /// `to[r][l] = op(x[r][l], y[r][l])` on words, stored as the bits of elements. Operands: x, and y if the op has
    /// two operands.
    Word(WordOp),
    /// `to[r]` = the random words of a key, starting at a counter: element i of the sequence defined by [`Threefry`].
    /// Operands: keys and counters, each with two words per row.
    ///
    /// [`Threefry`]: funcify_core::ops::Threefry
    Threefry(Words),
    /// `to[0][l]` = the fold over r of `x[r][l]`, or of `x[r][l] * y[r][l]` (sums only). Operands: x, or x and y; x
    /// has lanes. `rows` is the number of rows being folded. With `accumulate`, the fold starts from the contents of
    /// `to`.
    FoldRows {
        /// The fold.
        fold: Fold,
        /// `true` if the fold includes the contents of `to`.
        accumulate: bool,
    },
    /// `to[r]` = the fold over l of `x[r][l]`, or of `x[r][l] * y[r][l]` (sums only). Operands: x, or x and y; x has
    /// lanes. `to` has one element per row ([`Across::Element`]). With `accumulate`, the fold starts from the contents
    /// of `to`.
    FoldLanes {
        /// The fold.
        fold: Fold,
        /// `true` if the fold includes the contents of `to`.
        accumulate: bool,
    },
    /// `to[r][l] = then(init[r][l] + Σ_f Σ_i left_f[r][i] * right_f[i][l])`. Operands: init, if `init` is set,
    /// followed by a left and a right side for each factor. The left side has rows of `inner[f]` elements; the right
    /// side was written by [`Op::Pack`].
    Product {
        /// The size of the inner axis of each factor. There are at most [`MAX_FACTORS`] factors.
        inner: Vec<usize>,
        /// `true` if the first operand is the initial value of the sums. It may be `to` itself.
        init: bool,
        /// The function applied to each sum, if any.
        then: Option<Unary>,
    },
    /// `to[i][l] += Σ_b Σ_r left[b][r][i] * right[b][r][l]`: AᵀB, over blocks of rows. Operands: left, whose rows have
    /// as many elements as `to` has rows, and right, whose rows have as many elements as `to` has lanes. The sum
    /// starts from 0 and is added to `to` at the end.
    Sink {
        /// The number of blocks.
        blocks: usize,
        /// The number of rows per block. Their distance is the operand's distance between rows.
        block_rows: usize,
        /// The number of units from one block to the next, for left and right.
        block_steps: [isize; 2],
    },
    /// `to` = the matrix with `rows` rows and `lanes` columns, in the order in which [`Op::Product`] reads it, which
    /// depends on the machine. `to` has [`packed_len`](crate::kernels::packed_len) elements. Operands: the matrix. Its
    /// element (i, j) is `i * row + j * column` elements after its start, where `row` is the operand's.
    Pack {
        /// The number of elements from one column to the next.
        column: usize,
    },
    /// `to[r][l] = x[l][r]`. Operands: x.
    Transpose,
    /// `to[r][l]` = the element of x that is `i * step` elements after `x[r][l]`, where i is `index[r][l]`, clamped to
    /// `0..count`. Operands: x and index, whose elements are integers.
    Take {
        /// The number of positions.
        count: usize,
        /// The number of elements from one position to the next.
        step: usize,
    },
    /// The element that is `i * step` elements after `to[r][l]` is set to `x[r][l]`, where i is the index, clamped to
    /// `0..count`. Operands: x and the index, one integer.
    Put {
        /// The number of positions.
        count: usize,
        /// The number of elements from one position to the next.
        step: usize,
    },
    /// The element that is `i * step` elements after `to[r][l]` is set to `x[r][l]`, or to the fold of both, where i
    /// is `index[r][l]`. Nothing is written where i is not in `0..count`. Rows are processed in order, and rows of
    /// `to` may overlap. Operands: x and index, whose elements are integers.
    Scatter {
        /// The number of positions.
        count: usize,
        /// The number of elements from one position to the next.
        step: usize,
        /// The fold that combines an element with the one already there; `None` overwrites it.
        fold: Option<Fold>,
    },
    /// `to[r][l] = step(to[r-1][l], x[r][l], a[r][l])` for all rows, where `to[-1]` is the initial row. Operands: the
    /// initial row, x and, for [`Recurrence::Linear`], a. The rows are steps, so one instruction is a whole loop.
    Recur {
        /// The rule that computes a row from the previous one.
        recurrence: Recurrence,
        /// `true` if the first step computes the last row.
        down: bool,
    },
}

/// The largest number of factors of a product.
pub const MAX_FACTORS: usize = 3;

/// The largest number of blocks of a sink.
pub const MAX_BLOCKS: usize = 256;

/// A place in a region that may move with each iteration of the surrounding loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// The index of the region.
    pub region: usize,
    /// The unit in the first iteration of all loops.
    pub unit: usize,
    /// The number of units by which each loop moves the operand per iteration, outermost loop first.
    pub steps: [isize; DEPTH],
    /// The number of elements from the start of the unit, as the part sees it, to the first element.
    pub offset: usize,
    /// The number of elements from one row to the next.
    pub row: usize,
    /// The kind of a row: one element per lane, or one for all lanes.
    pub across: Across,
}

/// The kind of an operand's rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Across {
    /// One element per lane.
    Lanes,
    /// One element, for all lanes.
    Element,
}
