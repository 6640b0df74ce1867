//! The instruction set of the engine. The planner emits plans in this instruction set, and the
//! [`Executor`](crate::Executor) runs them.
//!
//! A [`Plan`] computes results from inputs of known sizes. All floats of a plan have the same type. A plan is a list of
//! stages that run one after the other. A stage divides a parallel axis into parts, and runs a program ([`Nodes`]) on
//! each part. Parts may run concurrently, and do not see each other's writes. The plan fixes the division into parts,
//! regardless of the machine, so results do not depend on the number of threads.
//!
//! # Regions
//!
//! Programs read and write regions: inputs, outputs and scratch memory. A [`Region`] is a matrix of `units` rows with
//! `pitch` elements each. In a sequence or a trace, a unit is one step. [`Split`] determines which elements a part
//! sees:
//!
//! - `Whole`: all elements. In a stage with several parts, the region is read-only. Weights, packed weights and
//!   constants use this split.
//! - `Columns(width)`: `width` elements of each unit for each index of the parallel axis. A part sees only its own
//!   columns, and its offsets are relative to the first of them. Sequences, traces and final values use this split.
//! - `Parts(count)`: a separate region for each of `count` parts. Registers, strips and partial sums use this split. A
//!   later stage with a single part sees all these regions as one, with `count * units` units, and can therefore add up
//!   the partial sums.
//!
//! The elements of a region have a [`Type`]. In most plans, all regions hold floats, which also represent masks and
//! small integers. Other integers are stored in regions that have an integer type.
//!
//! Scratch memory is aligned to 64 bytes. The memory keeps its contents between calls, but a plan may read only the
//! elements that it has written in the same call. All registers of a program may be in the same scratch region.
//!
//! # Programs
//!
//! A program is a list of nodes. A node is an [`Instruction`], or a loop that contains other nodes. Loops may be nested
//! up to [`DEPTH`] levels deep. From one iteration of a loop to the next, each operand moves by a fixed number of
//! units. The loops of a graph are expressed as follows:
//!
//! - A loop over steps reads its sequences and writes its traces in place. In a reverse loop, the operands move by a
//!   negative number of units.
//! - Taps and carries read the units of a trace that earlier steps wrote: they are operands that start at a different
//!   unit than the destination.
//! - Steps that read initial values are peeled: they become instructions before the loop.
//! - A loop that is divided into strips of several steps becomes two nested loops, over strips and over steps, with
//!   instructions before and after the inner loop.
//! - A remainder, such as the last steps that do not fill a strip, is a separate loop after the main one.
//! - A while loop tests an element before each iteration. A choice also tests an element, to select one of two lists of
//!   nodes.
//!
//! Two kinds of nodes work on regions of any type: a [`FusedNode`] runs typed straight-line code on each element, and
//! an [`Evaluation`] computes a whole op with a kernel or the reference evaluator. Instructions that move, fold or
//! index elements also work on integers, if the destination and all operands (except an index) have the same type.
//!
//! The innermost loop is the fast path: addresses are computed once when the loop starts, and then only incremented.
//!
//! # Instructions
//!
//! An instruction writes `rows` rows of `lanes` elements. Each operand has its own stride between rows. A stride of 0
//! broadcasts one row to all rows. An operand with [`Across::Element`] has one element per row, which is broadcast to
//! all lanes. [`Op`] documents how each op uses its operands.
//!
//! An operand of an elementwise op may coincide exactly with the destination, including the stride. The same is true of
//! the initial values of an [`Op::Product`] and of x of an [`Op::Recur`]. Any other overlap is invalid. If the stride
//! between rows is larger than the number of lanes, [`Plan::check`] also treats the gaps between rows as accessed.
//!
//! Masks are numbers: 1 is true and 0 is false.
//!
//! # Costs
//!
//! Each instruction has a fixed overhead of about 15 to 25 ns, so bodies with few lanes should have few instructions:
//! fuse an activation into its product (`then` of [`Op::Product`]), and express a loop over one lane as a single
//! [`Op::Recur`]. The run time of a product with few rows is dominated by reading its right operand. With 8 rows or
//! more, a product runs at the peak multiplication rate of the processor. A product with several factors needs no extra
//! pass over the result. `cargo bench -p funcify-cpu` prints all of these figures.
//!
//! # Example
//!
//! This plan computes `y[t] = 0.5 y[t-1] + x[t]` over ten steps of six lanes, in two parts of three lanes each. The
//! carry is read from the trace, except in the first step, which reads the initial value.
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
//! # Validation
//!
//! [`Plan::check`] checks that each operand stays within its region in all iterations, and that no operand overlaps the
//! destination in an invalid way. The executor runs only plans that pass.

mod build;
mod check;
mod span;

pub use build::repeat;
pub use check::PlanError;

use std::sync::Arc;

use funcify_body::{Fused, Type};
use funcify_core::TensorType;
use funcify_core::ops::Op as GraphOp;
use funcify_core::types::Sizes;

use crate::kernels::whole::WholeKernel;
use crate::kernels::{Binary, Fold, Recurrence, Ternary, Unary};

/// The fixed overhead of an instruction in nanoseconds, measured on one server core.
pub(crate) const NS_PER_INSTRUCTION: f64 = 20.0;

/// The trip count that [`Plan::check`] assumes for a while loop without a bound. The count is so large that the check
/// rejects every operand that moves in such a loop.
pub(crate) const UNBOUNDED_ITERATIONS: usize = 1 << 30;

/// The maximum depth of nested loops in a program.
pub const DEPTH: usize = 5;

/// The instructions for a call, and the memory regions that they use.
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
    /// The memory that contains the region.
    pub place: Storage,
    /// The number of units. In a sequence, each step is a unit. With [`Split::Parts`], this is the number of units per
    /// part.
    pub units: usize,
    /// The number of elements per unit.
    pub pitch: usize,
    /// The rule that determines which elements of the region a part sees.
    pub split: Split,
    /// The type of the elements.
    pub ty: Type,
}

/// The memory that contains a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// The caller's input with this index. It is read-only, and several regions may refer to it.
    Input(usize),
    /// The caller's output with this index. Each output is one region.
    Output(usize),
    /// Scratch memory of the executor.
    Scratch,
}

/// Determines which elements of a region a part sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// All elements of the region.
    Whole,
    /// The part's columns. The field is the number of columns per index of the parallel axis.
    Columns(usize),
    /// A separate region for each part, in scratch memory. The field is the number of parts.
    Parts(usize),
}

/// A stage of a plan: programs that run on the parts of a parallel axis.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// The parts, in axis order.
    pub parts: Vec<Part>,
    /// The programs that the parts run. Parts of the same length may share a program.
    pub programs: Vec<Nodes>,
    /// `true` if the stage has enough work for several threads: at least about 200 microseconds.
    pub concurrent: bool,
}

/// A part of the parallel axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The number of indices of the parallel axis in this part.
    pub len: usize,
    /// The index in [`Stage::programs`] of the program that the part runs.
    pub program: usize,
}

/// A list of nodes, run in order.
pub type Nodes = Vec<Node>;

/// An instruction, a fused body, an op that is computed as a whole, a loop, or a choice.
#[derive(Clone, Debug)]
pub enum Node {
    /// A single instruction.
    Do(Instruction),
    /// A fused body. It loads all lanes of a block before it stores any of them.
    Fused(FusedNode),
    /// An op that is computed as a whole, on contiguous tensors.
    Evaluate(Evaluation),
    /// A loop with a fixed trip count.
    Loop {
        /// The trip count.
        times: usize,
        /// The nodes of an iteration.
        body: Vec<Node>,
    },
    /// A loop that computes and tests a condition before each iteration. Operands may move between iterations only if
    /// the loop has a bound.
    While {
        /// The nodes that compute the condition.
        test: Vec<Node>,
        /// The element that holds the condition. The loop ends if this element is 0.
        holds: Operand,
        /// The nodes of an iteration.
        body: Vec<Node>,
        /// The maximum trip count, or `None` if it is unlimited.
        bound: Option<usize>,
    },
    /// A branch between two lists of nodes.
    Choice {
        /// The element that holds the condition. The first list runs if this element is nonzero, and the second list
        /// runs if it is 0.
        holds: Operand,
        /// The nodes that run if the condition is true, and the nodes that run if it is false.
        branches: [Vec<Node>; 2],
    },
}

/// A fused body, and an operand for each of its streams. A stream is a tensor that the body loads or stores.
#[derive(Clone, Debug)]
pub struct FusedNode {
    /// The body and its iteration space.
    pub fused: Arc<Fused>,
    /// The operand of each stream. It starts at the lowest element that the stream accesses. Its strides are in
    /// `fused`.
    pub streams: Vec<Operand>,
}

/// An op that a kernel or the reference evaluator computes as a whole, on contiguous tensors in row-major order.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The op.
    pub op: Arc<GraphOp>,
    /// The operands and their types. The types contain sizes instead of symbols.
    pub inputs: Vec<(Operand, TensorType)>,
    /// The results and their types. The types contain sizes instead of symbols.
    pub outputs: Vec<(Operand, TensorType)>,
    /// The sizes of the symbols that the op's attributes may refer to.
    pub sizes: Sizes,
    /// The kernel that computes the op, or `None` if the reference evaluator computes it.
    pub(crate) kernel: Option<Arc<WholeKernel>>,
}

/// An op applied to rows and lanes.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The op to apply.
    pub op: Op,
    /// The number of rows to write. For some ops, the number has another meaning; see [`Op`].
    pub rows: usize,
    /// The number of elements per row.
    pub lanes: usize,
    /// The destination.
    pub to: Operand,
    /// The source operands of the op.
    pub from: Vec<Operand>,
}

/// The estimated time per element, in nanoseconds.
const NS_PER_ELEMENT: f64 = 0.2;
/// The estimated time per call to a math function, in nanoseconds.
const NS_PER_FUNCTION: f64 = 2.0;
/// The estimated time per multiply-add of a product, in nanoseconds.
const NS_PER_TERM: f64 = 0.03;

impl Instruction {
    /// Returns the number of elements that the instruction computes. For products, this is the number of multiply-adds.
    pub(crate) fn elements(&self) -> f64 {
        let (rows, lanes) = (self.rows as f64, self.lanes as f64);
        match &self.op {
            Op::Product { inner, .. } => rows * lanes * inner.iter().sum::<usize>() as f64,
            Op::Sink { blocks, block_rows, .. } => rows * lanes * *blocks as f64 * *block_rows as f64,
            _ => rows * lanes,
        }
    }

    /// Returns the estimated run time of the instruction in nanoseconds.
    pub(crate) fn nanoseconds(&self) -> f64 {
        let of_an_element = match &self.op {
            Op::Product { .. } | Op::Sink { .. } => NS_PER_TERM,
            Op::Unary(op) if *op != Unary::Copy => NS_PER_FUNCTION,
            Op::Binary(Binary::Pow | Binary::Atan2 | Binary::Rem | Binary::ExpOfProduct) => NS_PER_FUNCTION,
            _ => NS_PER_ELEMENT,
        };
        NS_PER_INSTRUCTION + self.elements() * of_an_element
    }
}

/// The op of an instruction. In the formulas, `to[r][l]` is lane `l` of row `r` of the destination.
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
    /// `to[0][l]` = the fold over r of `x[r][l]`, or of `x[r][l] * y[r][l]` (sums only). Operands: x, or x and y. x
    /// must be [`Across::Lanes`]. `rows` is the number of rows to fold.
    FoldRows {
        /// The fold.
        fold: Fold,
        /// `true` if the fold starts from the current contents of `to`.
        accumulate: bool,
    },
    /// `to[r]` = the fold over l of `x[r][l]`, or of `x[r][l] * y[r][l]` (sums only). Operands: x, or x and y. x must
    /// be [`Across::Lanes`], and `to` must be [`Across::Element`].
    FoldLanes {
        /// The fold.
        fold: Fold,
        /// `true` if the fold starts from the current contents of `to`.
        accumulate: bool,
    },
    /// `to[r][l] = then(init[r][l] + Σ_f Σ_i left_f[r][i] * right_f[i][l])`. Operands: init, if `init` is set, followed
    /// by the left and right operand of each factor f. Rows of a left operand have `inner[f]` elements. A right operand
    /// must have been written by [`Op::Pack`].
    Product {
        /// The size of the inner axis of each factor. At most [`MAX_FACTORS`] factors are supported.
        inner: Vec<usize>,
        /// `true` if the first operand holds the initial values of the sums. This operand may be `to` itself.
        init: bool,
        /// The function applied to each sum, if any.
        then: Option<Unary>,
    },
    /// `to[i][l] += Σ_b Σ_r left[b][r][i] * right[b][r][l]`, a sum of products leftᵀ · right, one for each block of
    /// rows. Operands: left, with as many elements per row as `to` has rows, and right, with as many elements per row
    /// as `to` has lanes. The sum is accumulated starting from 0, and then added to `to`.
    Sink {
        /// The number of blocks.
        blocks: usize,
        /// The number of rows per block. [`Operand::row`] is the stride between the rows of a block.
        block_rows: usize,
        /// The strides between the blocks of the left operand and of the right operand, in units.
        block_steps: [isize; 2],
    },
    /// `to` = a matrix with `rows` rows and `lanes` columns, packed in the order in which [`Op::Product`] reads it. The
    /// order depends on the machine. `to` has [`packed_len`](crate::kernels::packed_len) elements. Operands: the
    /// matrix. Element (i, j) of the matrix is at offset `i * row + j * column`, where `row` is [`Operand::row`].
    Pack {
        /// The stride between columns, in elements.
        column: usize,
    },
    /// `to[r][l] = x[l][r]`. Operands: x.
    Transpose,
    /// `to[r][l]` = the element of x that is `i * step` elements after `x[r][l]`, where i is `index[r][l]`, clamped to
    /// `0..count`. Operands: x, and index, whose elements must be integers.
    Take {
        /// The number of positions that an index can select.
        count: usize,
        /// The stride between positions, in elements.
        step: usize,
    },
    /// Copies `x[r][l]` to the element that is `i * step` elements after `to[r][l]`, where i is the index, clamped to
    /// `0..count`. Operands: x, and the index, a single integer.
    Put {
        /// The number of positions that an index can select.
        count: usize,
        /// The stride between positions, in elements.
        step: usize,
    },
    /// Copies `x[r][l]` to the element that is `i * step` elements after `to[r][l]`, or folds `x[r][l]` into that
    /// element, where i is `index[r][l]`. Skips indices outside `0..count`. Rows are processed in order, and rows of
    /// `to` may overlap. Operands: x, and index, whose elements must be integers.
    Scatter {
        /// The number of positions that an index can select.
        count: usize,
        /// The stride between positions, in elements.
        step: usize,
        /// The fold that combines an update with the current element. With `None`, the update overwrites the element.
        fold: Option<Fold>,
        /// The function that is applied to each combined element, which rounds the element to a narrower type.
        then: Option<Unary>,
    },
    /// `to[r][l] = step(to[r-1][l], x[r][l], a[r][l])` for all rows, where `to[-1]` is the initial row. Operands: the
    /// initial row, x, and for [`Recurrence::Linear`] also a. The rows are steps, so one instruction runs a whole loop.
    Recur {
        /// The formula that computes a row from the previous one.
        recurrence: Recurrence,
        /// `true` if the loop runs from the last row to the first.
        down: bool,
    },
}

/// The maximum number of factors of a product.
pub const MAX_FACTORS: usize = 3;

/// The maximum number of blocks of a sink.
pub const MAX_BLOCKS: usize = 256;

/// A source or destination of an instruction: elements of a region. In each iteration of an enclosing loop, an operand
/// may move by a fixed number of units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// The index of the region.
    pub region: usize,
    /// The unit where the operand starts, in the first iteration of every loop.
    pub unit: usize,
    /// The number of units that the operand moves per iteration of each loop, outermost first.
    pub steps: [isize; DEPTH],
    /// The offset of the first element within the unit, or within the part's columns of the unit.
    pub offset: usize,
    /// The stride between rows, in elements. A stride of 0 broadcasts one row to all rows.
    pub row: usize,
    /// The kind of the operand's rows: one element per lane, or one element that is broadcast to all lanes.
    pub across: Across,
}

/// The kind of an operand's rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Across {
    /// One element per lane.
    Lanes,
    /// One element, broadcast to all lanes.
    Element,
}
