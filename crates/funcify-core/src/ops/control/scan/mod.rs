//! The loop: `scan` over sequences, buffers, carries and invariants.
//!
//! | operand | per step | PyTensor's names |
//! |---|---|---|
//! | sequence | reads rows `t+k` | sequences with taps |
//! | buffer | reads rows `t+k` for k in `reads`, then writes rows `t+k` for k in `writes` | nit-sot, sit-sot, mit-sot, mit-mot |
//! | carry | one value that each step replaces, without a trace | untraced sit-sot; JAX's carry |
//! | invariant | the same value in each step | non-sequences |
//!
//! Invariants, cited where they are enforced and tested:
//!
//! - **scan-c1** all reads of a step see the state before any write of that step.
//! - **scan-c2** `t` runs over `0..n`, in ascending order, or in descending order if `reverse` is set. Row indices are
//!   the same in both orders, and no data is reversed.
//! - **scan-c3** every row that the steps read or write is inside its tensor. The type rule proves this if the sizes
//!   allow it. Otherwise, the rows are checked once the sizes are known.
//! - **scan-c4** the types of carries and of written rows exactly equal the types of the initial values.
//! - **scan-c5** steps read only initial rows and rows that earlier steps have written. A buffer that starts empty is
//!   never read, and is written at offset 0. A buffer that starts from `g` initial rows is written once per step, next
//!   to the rows that it already has, and steps read only the `g` rows that precede the written row in the order of the
//!   loop. A full buffer has no restrictions.
//! - **scan-c6** `n` is a dimension, or the value of an integer scalar operand. With an operand, the loop binds the
//!   symbol for `n`. With `until`, the loop has an early exit. The body has an additional result, a boolean scalar, and
//!   `n` is the maximum number of steps: the loop ends after the first step whose `until` is true, and keeps the rows
//!   that this step writes. The loop binds a symbol to the number of steps that ran. This symbol can be used only after
//!   the loop. Growing buffers have only the rows of the steps that ran, in row order: a loop in ascending order omits
//!   the rows after them, and a loop in descending order omits the rows before them. A full buffer keeps all its rows.
//! - **scan-c7** each buffer states which of its rows the loop returns: all, or the last `k` in the order of the loop.
//!   Trimming a trace changes only this attribute. A buffer with fewer than `k` rows after the loop is an error, like a
//!   slice past the end of a trace, because the type promises `k` rows.
//! - **scan-c8** with gradient truncation `k`, reverse mode treats everything before the last `k` executed steps as
//!   constant. Values and forward-mode tangents do not change.
//!
//! The offsets of a buffer are its taps minus the smallest of these taps. The offsets of a sequence are its taps minus
//! the minimum of 0 and these taps. Offsets are therefore never negative. Names such as sit-sot and mit-sot appear only
//! in builders, in the text form and in errors. A single code path handles all kinds of buffers.
//!
//! Operands, in order: the number of steps, if it is an operand; the sequences; the initial rows of the buffers that
//! have any; the initial carries; and the invariants. Parameters of the body: the rows read from each sequence, the
//! rows read from each buffer, the carries, and the invariants. Results of the body: the rows written to each buffer,
//! the next carries, and the `until` flag, if there is one. Results of the loop: the buffers and the final carries.

mod batch;
mod bodied;
mod build;
mod certain;
mod checkpoint;
mod chunked;
mod eval;
mod fori;
mod grad;
mod infer;
mod jvp;
mod parts;
mod policy;
mod reach;
mod readable_values;
pub mod recurrence;
#[cfg(test)]
mod refusal_tests;
mod saves;
mod segments;
mod span;
mod text;
mod until;

use std::ops::Range;
use std::sync::Arc;

pub use build::{ScanOptions, map, scan, scan_with};
pub(in crate::ops) use build::{check_carry, try_repeat};
pub use checkpoint::CheckpointPolicy;
pub use chunked::{MapOptions, map_with};
pub(crate) use eval::stack as stack_rows;
pub use fori::{Bound, fori_loop};
pub use recurrence::Recurrence;
pub(crate) use saves::{LoopRecord, saved_values};
pub use until::{scan_until, scan_until_with};

use super::*;
use crate::graph::{Node, fail, fresh_symbol};
use crate::ops::movement::pad::{Pad, pad_with_zeros};
use crate::ops::op_key;
use crate::value::{concat, iota, or_failed, size};

/// A sequence: a tensor whose rows the steps read.
#[derive(Clone, PartialEq, Debug)]
pub struct Sequence {
    /// The offsets `k` of the rows `t+k` that step `t` reads, in the order of the body's parameters.
    pub reads: Vec<usize>,
}

impl Sequence {
    /// Returns the largest offset in `reads`.
    pub fn reach(&self) -> usize {
        self.reads.iter().copied().max().unwrap_or(0)
    }
}

/// The rows that a buffer has before the first step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// No rows. The buffer grows to `n` rows (nit-sot).
    Empty,
    /// This many rows, which come first in the order of the loop: the leading rows or, in a reverse loop, the trailing
    /// rows. The buffer grows by `n` rows (sit-sot, mit-sot).
    Given(usize),
    /// All rows (mit-mot).
    Full,
}

/// The rows of a buffer that the loop returns (scan-c7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returned {
    /// All rows.
    All,
    /// Only this many rows, which come last in the order of the loop.
    Last(usize),
}

impl Returned {
    /// Returns `k` if only the last `k` rows are returned, or `None` if all rows are returned.
    pub(crate) fn last(self) -> Option<usize> {
        if let Returned::Last(count) = self { Some(count) } else { None }
    }
}

/// A buffer: a tensor whose rows the steps write, and may read.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// The rows that the buffer has before the first step.
    pub start: Start,
    /// The offsets `k` of the rows `t+k` that step `t` reads, in the order of the body's parameters.
    pub reads: Vec<usize>,
    /// The offsets `k` of the rows `t+k` that step `t` writes after all its reads, in the order of the body's results.
    pub writes: Vec<usize>,
    /// The rows that the loop returns.
    pub returned: Returned,
}

impl Buffer {
    /// Creates a nit-sot: a trace of one result per step. The loop returns all rows of the trace.
    pub fn nit_sot() -> Self {
        Buffer { start: Start::Empty, reads: vec![], writes: vec![0], returned: Returned::All }
    }

    /// Returns PyTensor's name for this kind of buffer.
    pub fn kind(&self) -> &'static str {
        match self.start {
            Start::Empty => "nit-sot",
            Start::Given(1) => "sit-sot",
            Start::Given(_) => "mit-sot",
            Start::Full => "mit-mot",
        }
    }

    /// Returns the largest offset in `reads` and `writes`.
    pub(crate) fn reach(&self) -> usize {
        self.reads.iter().chain(&self.writes).copied().max().unwrap_or(0)
    }

    /// Returns the number of rows of the buffer after `steps` steps. `given`, the number of rows of the buffer's
    /// operand, is needed only for a full buffer.
    pub(crate) fn rows(&self, steps: &Dim, given: Option<&Dim>) -> Dim {
        match (self.start, given) {
            (Start::Full, Some(rows)) => rows.clone(),
            (Start::Given(rows), _) => steps.clone() + rows,
            _ => steps.clone(),
        }
    }
}

/// A loop whose number of steps, or maximum number of steps, is known when it starts.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The graph of one step.
    pub body: Arc<Graph>,
    /// The number of steps, `n`. With `until`, the maximum number of steps.
    pub steps: Dim,
    /// `true` if operand 0 is an integer scalar that holds the number of steps. The loop then binds the symbol in
    /// `steps` to the value of this operand (scan-c6).
    pub steps_operand: bool,
    /// The symbol for the number of steps that ran, if the loop has an early exit. The loop then ends after the first
    /// step in which the body's last result is true (scan-c6).
    pub until: Option<Symbol>,
    /// `true` if `t` runs in descending order (scan-c2).
    pub reverse: bool,
    /// The sequences, whose rows the steps read.
    pub sequences: Vec<Sequence>,
    /// The buffers, whose rows the steps write.
    pub buffers: Vec<Buffer>,
    /// The number of carries.
    pub carries: usize,
    /// The number of invariants.
    pub invariants: usize,
    /// The unroll factor of a native loop. This is a hint that does not change results.
    pub unroll: usize,
    /// The loop's own checkpoint policy, if it has one. The policy does not change values.
    pub policy: Option<CheckpointPolicy>,
    /// The number of executed steps, counted from the end, that reverse mode differentiates, or `None` for all steps
    /// (scan-c8).
    pub truncate: Option<usize>,
}

op_text!("scan" => Scan);
op_key!("scan" => Scan);

/// The indices of a loop's operands, by role.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The number of steps, if it is an operand.
    pub steps: Option<usize>,
    /// The sequences.
    pub sequences: Range<usize>,
    /// The initial rows of each buffer, or `None` if it has no initial rows.
    pub buffers: Vec<Option<usize>>,
    /// The initial carries.
    pub carries: Range<usize>,
    /// The invariants.
    pub invariants: Range<usize>,
    /// The number of operands.
    pub count: usize,
}

/// The indices of the body's parameters or results, by role.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The rows of each sequence. Empty for results.
    pub sequences: Vec<Range<usize>>,
    /// The rows of each buffer.
    pub buffers: Vec<Range<usize>>,
    /// The carries.
    pub carries: Range<usize>,
    /// The invariants. Empty for results.
    pub invariants: Range<usize>,
    /// The flag that ends the loop. `None` for parameters, or if the loop has no early exit.
    pub until: Option<usize>,
    /// The number of parameters or results.
    pub count: usize,
}

impl Scan {
    /// Creates a loop that runs `steps` steps in ascending order and has no operands. Callers set the other fields with
    /// struct update syntax.
    pub(crate) fn of(body: impl Into<Arc<Graph>>, steps: Dim) -> Self {
        Scan {
            body: body.into(),
            steps,
            steps_operand: false,
            until: None,
            reverse: false,
            sequences: Vec::new(),
            buffers: Vec::new(),
            carries: 0,
            invariants: 0,
            unroll: 1,
            policy: None,
            truncate: None,
        }
    }

    /// Returns the indices of the operands.
    pub fn operands(&self) -> Operands {
        let mut next = Counter(0);
        Operands {
            steps: self.steps_operand.then(|| next.take(1).start),
            sequences: next.take(self.sequences.len()),
            buffers: (self.buffers.iter())
                .map(|buffer| (buffer.start != Start::Empty).then(|| next.take(1).start))
                .collect(),
            carries: next.take(self.carries),
            invariants: next.take(self.invariants),
            count: next.0,
        }
    }

    /// Returns the indices of the body's parameters.
    pub fn params(&self) -> Layout {
        let mut next = Counter(0);
        Layout {
            sequences: self.sequences.iter().map(|sequence| next.take(sequence.reads.len())).collect(),
            buffers: self.buffers.iter().map(|buffer| next.take(buffer.reads.len())).collect(),
            carries: next.take(self.carries),
            invariants: next.take(self.invariants),
            until: None,
            count: next.0,
        }
    }

    /// Returns the indices of the body's results.
    pub fn results(&self) -> Layout {
        let mut next = Counter(0);
        Layout {
            sequences: Vec::new(),
            buffers: self.buffers.iter().map(|buffer| next.take(buffer.writes.len())).collect(),
            carries: next.take(self.carries),
            invariants: 0..0,
            until: self.until.as_ref().map(|_| next.take(1).start),
            count: next.0,
        }
    }

    /// Returns the indices of the steps in the order in which they run (scan-c2).
    pub fn order(&self, steps: usize) -> Box<dyn Iterator<Item = usize> + Send> {
        if self.reverse { Box::new((0..steps).rev()) } else { Box::new(0..steps) }
    }

    /// Returns the index of the first initial row in a growing buffer that has rows for `steps` steps.
    pub fn first_given_row(&self, steps: usize) -> usize {
        if self.reverse { steps } else { 0 }
    }

    /// Returns the number of steps that run. With `until`, this is the symbol that the loop binds when it ends.
    pub fn length(&self) -> Dim {
        self.until.as_ref().map_or(self.steps.clone(), Dim::symbol)
    }

    /// Returns the size symbols that the loop binds.
    pub fn binds(&self) -> impl Iterator<Item = &Symbol> {
        let sizes = self.sizes();
        sizes.bound_before.into_iter().chain(sizes.bound_after)
    }

    /// Returns the range of a buffer's rows that the loop returns when the loop's last `left_out` steps did not run
    /// (scan-c6, scan-c7). `rows` is the number of rows that the buffer would have after all steps.
    pub fn returned_rows(&self, buffer: &Buffer, rows: usize, left_out: usize) -> Range<usize> {
        let present = match (buffer.start, self.reverse) {
            (Start::Full, _) => 0..rows,
            (_, false) => 0..rows - left_out,
            (_, true) => left_out..rows,
        };
        match buffer.returned {
            Returned::All => present,
            Returned::Last(count) if self.reverse => present.start..present.end.min(present.start + count),
            Returned::Last(count) => present.end.saturating_sub(count).max(present.start)..present.end,
        }
    }

    /// Checks that, after `ran` steps, every trace has at least as many rows as the loop returns (scan-c7).
    pub fn check_returned(&self, at: &Place, ran: usize) -> Result<()> {
        for (index, buffer) in self.buffers.iter().enumerate().filter(|(_, buffer)| buffer.start != Start::Full) {
            infer::returned_rows(at, &infer::buffer_name(index, buffer), buffer, buffer.rows(&Dim::from(ran), None))?;
        }
        Ok(())
    }

    /// Checks that every tensor has enough rows for `steps` steps (scan-c3), and that every trace has at least as many
    /// rows as the loop returns (scan-c7). `rows(index)` is the number of rows of the operand at `index`.
    pub fn check_rows(&self, at: &Place, steps: usize, rows: impl Fn(usize) -> usize) -> Result<()> {
        let operands = self.operands();
        let steps = Dim::from(steps);
        for (sequence, operand) in self.sequences.iter().zip(operands.sequences) {
            let name = infer::sequence_name(operand - usize::from(self.steps_operand));
            infer::check_reach(at, &name, &steps, sequence.reach(), &Dim::from(rows(operand)))?;
        }
        for (index, (buffer, operand)) in self.buffers.iter().zip(operands.buffers).enumerate() {
            let name = infer::buffer_name(index, buffer);
            let given = operand.map(|operand| Dim::from(rows(operand)));
            if let (Start::Full, Some(given)) = (buffer.start, &given) {
                infer::check_reach(at, &name, &steps, buffer.reach(), given)?;
            }
            infer::returned_rows(at, &name, buffer, buffer.rows(&steps, given.as_ref()))?;
        }
        Ok(())
    }

    /// Returns which parameters of the body depend on the operands that `wrt` marks.
    pub(crate) fn active(&self, wrt: &[bool]) -> Vec<bool> {
        let (layout, results) = (self.params(), self.results());
        let active = self.reached_params(wrt, &self.operands().states(wrt));
        let mut feeds: Vec<(usize, usize)> = results.carries.zip(layout.carries).collect();
        for (written, params) in results.buffers.into_iter().zip(layout.buffers) {
            feeds.extend(written.flat_map(|result| params.clone().map(move |param| (result, param))));
        }
        active_params(&self.body, active, &feeds)
    }

    /// Converts the value of the step-count operand to a size, or returns an error if it is negative.
    pub fn check_count(&self, at: &Place, count: i64) -> Result<usize> {
        usize::try_from(count).map_err(|_| negative_steps(at, count))
    }

    /// Returns the error for reading a buffer row that is not an initial row and that no step has written.
    pub fn missing_row(at: &Place, buffer: usize, row: usize) -> Error {
        Error::Rows {
            at: at.boxed(),
            component: format!("buffer {buffer}"),
            needed: format!("row {row}, given or written before it is read"),
            found: "nothing in that row".into(),
            fix: "give more initial rows, or read rows that were written".into(),
        }
    }
}

fn negative_steps(at: &Place, count: impl std::fmt::Display) -> Error {
    let reason = format!("the number of steps is {count}, which is negative");
    at.step_count(reason, "give a number of steps that is 0 or more")
}

/// A counter that allocates consecutive index ranges.
struct Counter(usize);

impl Counter {
    fn take(&mut self, count: usize) -> Range<usize> {
        let start = self.0;
        self.0 += count;
        start..self.0
    }
}

impl OpRules for Scan {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        infer::infer(self, at, inputs)
    }

    fn eval(&self, context: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        eval::eval(self, context, inputs)
    }

    rules_of_modules!(batch, jvp, grad);
}
