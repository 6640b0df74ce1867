//! The instruction set: what a planner writes and the [`Executor`](crate::Executor) runs.
//!
//! A [`Plan`] computes results from inputs, all of one element type, with every size a number. It is a list of stages that
//! run one after the other. A stage runs a [`Nodes`] on each part of a parallel axis; parts may run at the same time,
//! and do not see what the others write. How a stage is divided is part of the plan and not of the machine, so results
//! do not depend on the number of threads.
//!
//! # Regions
//!
//! Programs read and write regions: inputs, outputs and scratch memory. A [`Region`] is a matrix of `units` rows with
//! `pitch` elements each; for a sequence or a trace a unit is one step. [`Split`] says what a part sees of it:
//!
//! - `Whole`: everything. Several parts may only read it. Weights, packed weights, constants.
//! - `Columns(width)`: of each unit, `width` elements for each index of the parallel axis. A part sees its own columns,
//!   and counts offsets from the first of them. Sequences, traces, final values.
//! - `Parts(count)`: each of `count` parts has a region of its own. Registers, strips, partial sums. A later stage with
//!   one part sees all of them, one after the other, as `count * units` units: so it adds partial sums.
//!
//! Scratch memory starts at 64-byte boundaries and stays between calls with what it holds; only what a plan has
//! written in the same call means anything. All registers of a program may be one scratch region.
//!
//! # Programs
//!
//! A program is a list of nodes: an [`Instruction`], or a loop around nodes, up to [`DEPTH`] loops deep. Each operand
//! moves by a fixed number of units with each iteration of each loop around it, so
//!
//! - a loop over steps reads its sequences and writes its traces in place; a loop that goes down has negative steps;
//! - taps and carries read the trace's other units, as operands that start elsewhere;
//! - first steps, which read initial values, are instructions before the loop (the peel);
//! - strips are a loop over strips around a loop over steps, with instructions before and after the inner loop;
//! - a remainder is another loop behind;
//! - a loop that a condition ends looks at an element between its nodes, and so does a choice of nodes.
//!
//! The innermost loop is the fast path: addresses are computed once for all its iterations, and then only added to.
//!
//! # Instructions
//!
//! An instruction writes `rows` rows of `lanes` elements, from operands with their own distances between rows. Distance
//! 0 reads one row for all; an operand across [`Across::Element`] has one element a row, for all lanes. See [`Op`] for
//! what each does with its operands.
//!
//! An operand may be the very place that the instruction writes, with the same rows; no other overlap is allowed. In the
//! rows of a distance larger than the lanes, what lies between counts as touched.
//!
//! Masks are numbers: 1 is true and 0 false.
//!
//! # What costs what
//!
//! An instruction costs some 15 to 25 ns before its first element, so bodies of few lanes want few instructions: an
//! activation belongs to its product (`then` of [`Op::Product`]), and a loop of one lane is one [`Op::Recur`]. A product of few rows
//! costs what reading its right side costs; from 8 rows on it is as fast as the processor multiplies, and several factors in
//! one product cost no pass over the result. `cargo bench -p funcify-cpu` prints all of it.
//!
//! # Example
//!
//! `y[t] = 0.5 y[t-1] + x[t]` over ten steps of six lanes, in two parts of three. The trace is the carry; the first step
//! reads the initial value.
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
//! [`Plan::check`] proves for the first and the last iteration of all loops that each operand lies within its region,
//! and that nothing overlaps; the executor runs only what passed.

mod build;
mod check;
mod span;

pub use build::repeat;
pub use check::PlanError;

use funcify_core::ops::Words;

use crate::kernels::{Binary, Fold, Recurrence, Ternary, Unary, WordOp};

/// Nanoseconds that an instruction takes before its first element, on one core of a server.
pub(crate) const NS_PER_INSTRUCTION: f64 = 20.0;

/// How often a loop without a bound runs, as far as the reach of what it touches is concerned: nothing in it may move.
pub(crate) const ENDLESS: usize = 1 << 30;

/// How deep loops nest in a program.
pub const DEPTH: usize = 3;

/// Everything that a call does.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What programs read and write. Operands name a region by its place in this list.
    pub regions: Vec<Region>,
    /// What runs, in this order.
    pub stages: Vec<Stage>,
}

/// A matrix of elements that programs read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Where it lies.
    pub place: Storage,
    /// How many units it has: steps of a sequence. Of [`Split::Parts`], in each part.
    pub units: usize,
    /// Elements a unit.
    pub pitch: usize,
    /// What a part sees of it.
    pub split: Split,
}

/// Where a region lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// The caller's, read only. Several regions may be the same input.
    Input(usize),
    /// The caller's, to be written. One region an output.
    Output(usize),
    /// The executor's.
    Scratch,
}

/// What a part sees of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// All of it.
    Whole,
    /// So many elements of each unit for each index of the parallel axis.
    Columns(usize),
    /// One of so many regions, in scratch memory.
    Parts(usize),
}

/// Programs over the parts of an axis.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// The parts, in the order of the axis.
    pub parts: Vec<Part>,
    /// What they run. Parts of one length may share a program.
    pub programs: Vec<Nodes>,
    /// Whether the parts are worth threads. They are from some 100 microseconds of work on.
    pub concurrent: bool,
}

/// A part of the parallel axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// How many indices of the axis it has.
    pub len: usize,
    /// Which of the stage's programs it runs.
    pub program: usize,
}

/// Instructions and loops, run in order.
pub type Nodes = Vec<Node>;

/// An instruction or a loop.
#[derive(Clone, Debug)]
pub enum Node {
    /// One instruction.
    Do(Instruction),
    /// Nodes that run `times` times.
    Loop {
        /// How often.
        times: usize,
        /// What.
        body: Vec<Node>,
    },
    /// Nodes that run as long as a condition holds, which is computed before each time. It counts as a loop. Operands in it
    /// move only where it has a bound.
    While {
        /// What computes the condition.
        test: Vec<Node>,
        /// The condition: one element, 0 if the loop ends.
        holds: Operand,
        /// What runs then.
        body: Vec<Node>,
        /// How often at most.
        most: Option<usize>,
    },
    /// Nodes of which one list runs.
    Choice {
        /// One element: 0 chooses the second list, everything else the first.
        holds: Operand,
        /// What runs where it is true, and what where it is false.
        branches: [Vec<Node>; 2],
    },
}

/// One op over rows and lanes.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What it computes.
    pub op: Op,
    /// Rows that it writes; for folds and recurrences see [`Op`].
    pub rows: usize,
    /// Elements a row.
    pub lanes: usize,
    /// Where it writes.
    pub to: Operand,
    /// What it reads, as its op says.
    pub from: Vec<Operand>,
}

/// Nanoseconds of an element, of a function of an element, and of a multiplication and addition of a product.
const NS_PER_ELEMENT: f64 = 0.2;
const NS_PER_FUNCTION: f64 = 2.0;
const NS_PER_TERM: f64 = 0.03;

impl Instruction {
    /// How many elements it computes, or reads where these are more.
    pub(crate) fn elements(&self) -> f64 {
        let (rows, lanes) = (self.rows as f64, self.lanes as f64);
        match &self.op {
            Op::Product { inner, .. } => rows * lanes * inner.iter().sum::<usize>() as f64,
            Op::Sink { blocks, block_rows, .. } => rows * lanes * *blocks as f64 * *block_rows as f64,
            _ => rows * lanes,
        }
    }

    /// Nanoseconds that it takes, roughly.
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

/// What an instruction computes. `to[r][l]` is element `l` of row `r`.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `to[r][l] = value`. From nothing.
    Fill(f64),
    /// `to[r][l] = op(x[r][l])`. From x.
    Unary(Unary),
    /// `to[r][l] = op(x[r][l], y[r][l])`. From x, y.
    Binary(Binary),
    /// `to[r][l] = op(x[r][l], y[r][l], z[r][l])`. From x, y, z.
    Ternary(Ternary),
    /// `to[r][l] = op(x[r][l], y[r][l])` of words, which elements have as their bits. From x, and y if the op has two operands.
    Word(WordOp),
    /// `to[r]` = random words of a key from a counter on: element i of the sequence that [`Threefry`] says. From keys and counters, of
    /// each two words a row.
    ///
    /// [`Threefry`]: funcify_core::ops::Threefry
    Threefry(Words),
    /// `to[0][l]` = the fold over r of `x[r][l]`, or of `x[r][l] * y[r][l]` (sums only). From x, or x and y; x has lanes.
    /// `rows` are those that are folded. With `accumulate`, from what `to` holds.
    FoldRows {
        /// What is folded.
        fold: Fold,
        /// Whether `to` is part of it.
        accumulate: bool,
    },
    /// `to[r]` = the fold over l of `x[r][l]`, or of `x[r][l] * y[r][l]` (sums only). From x, or x and y; x has lanes.
    /// `to` is across [`Across::Element`]. With `accumulate`, from what `to` holds.
    FoldLanes {
        /// What is folded.
        fold: Fold,
        /// Whether `to` is part of it.
        accumulate: bool,
    },
    /// `to[r][l] = then(init[r][l] + Σ_f Σ_i left_f[r][i] * right_f[i][l])`. From init, if there is one, and then for
    /// each factor its left side, with rows of `inner[f]` elements, and its right side, which [`Op::Pack`] wrote.
    Product {
        /// The inner axis of each factor. At most [`FACTORS`].
        inner: Vec<usize>,
        /// Whether the first operand is what the sums start from. It may be `to` itself.
        init: bool,
        /// What is done with each sum.
        then: Option<Unary>,
    },
    /// `to[i][l] += Σ_b Σ_r left[b][r][i] * right[b][r][l]`: AᵀB, over blocks of rows. From left, with rows of as many
    /// elements as `to` has rows, and right, with rows of as many as `to` has lanes. The sum is made from 0, and then added.
    Sink {
        /// How many blocks.
        blocks: usize,
        /// Rows a block, with the operands' distance between rows.
        block_rows: usize,
        /// Units from one block to the next: of left, of right.
        block_steps: [isize; 2],
    },
    /// `to` = the matrix with `rows` rows and `lanes` columns, in the order that [`Op::Product`] reads, which depends on the
    /// machine. `to` has [`packed_len`](crate::kernels::packed_len) elements. From the matrix: element (i, j) is
    /// `i * row + j * column` elements after its start, where `row` is the operand's.
    Pack {
        /// Elements between columns.
        column: usize,
    },
    /// `to[r][l] = x[l][r]`. From x.
    Transpose,
    /// `to[r][l]` = the element of x that lies `i * step` after `x[r][l]`, where i is `index[r][l]`, clamped into `0..count`.
    /// From x and index, whose elements are whole numbers.
    Take {
        /// How many positions there are.
        count: usize,
        /// Elements from one to the next.
        step: usize,
    },
    /// The element that lies `i * step` after `to[r][l]` = `x[r][l]`, where i is the index, clamped into `0..count`. From x and the
    /// index, one whole number.
    Put {
        /// How many positions there are.
        count: usize,
        /// Elements from one to the next.
        step: usize,
    },
    /// The element that lies `i * step` after `to[r][l]` = `x[r][l]`, or the fold of both, where i is `index[r][l]`; nothing where i is
    /// not in `0..count`. Row by row, and rows of `to` may lie over each other. From x and index, whose elements are whole numbers.
    Scatter {
        /// How many positions there are.
        count: usize,
        /// Elements from one to the next.
        step: usize,
        /// How an element and what is there become one.
        fold: Option<Fold>,
    },
    /// `to[r][l] = step(to[r-1][l], x[r][l], a[r][l])` for all rows, where `to[-1]` is the initial row. From the initial
    /// row, x and, for [`Recurrence::Linear`], a. Rows are steps: a whole loop in one instruction.
    Recur {
        /// What a row does with the one before it.
        recurrence: Recurrence,
        /// Whether the last row is the first step.
        down: bool,
    },
}

/// How many factors a product may have.
pub const FACTORS: usize = 3;

/// How many blocks a sink may have.
pub const BLOCKS: usize = 256;

/// A place in a region, for each iteration of the loops around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Which region.
    pub region: usize,
    /// The unit in the first iteration of all loops.
    pub unit: usize,
    /// How many units it moves with each iteration, the outermost loop first.
    pub steps: [isize; DEPTH],
    /// Elements between the start of the unit, as the part sees it, and the first one.
    pub offset: usize,
    /// Elements from one row to the next.
    pub row: usize,
    /// Whether a row is lanes, or one element for all lanes.
    pub across: Across,
}

/// What a row of an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Across {
    /// As many elements as there are lanes.
    Lanes,
    /// One element, for all lanes.
    Element,
}
