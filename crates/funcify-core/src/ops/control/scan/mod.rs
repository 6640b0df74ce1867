//! The loop: `scan` over sequences, buffers, carries and invariants.
//!
//! | operand | per step | PyTensor's names |
//! |---|---|---|
//! | sequence | reads rows `t+k` | sequences with taps |
//! | buffer | reads rows `t+k` for k in `reads`, then writes rows `t+k` for k in `writes` | nit-sot, sit-sot, mit-sot, mit-mot |
//! | carry | one value replaced each step, no trace | untraced sit-sot; JAX's carry |
//! | invariant | the same value each step | non-sequences |
//!
//! Invariants, cited where they are enforced and tested:
//!
//! - **scan-c1** all reads of a step see the state before any write of that step.
//! - **scan-c2** `t` runs over `0..n`, upward, or downward if `reverse`; row coordinates never change, and no
//!   data is reversed.
//! - **scan-c3** every row that the steps can touch lies inside its tensor: proved by the type rule where the
//!   sizes allow, else checked when the sizes are known.
//! - **scan-c4** the types of carries and of written rows equal those of the initial values exactly.
//! - **scan-c5** no row is read that was neither given nor written before. A buffer that starts empty is never
//!   read and is written at offset 0. One that starts from `g` given rows is written once a step, next to
//!   them, and reads only the `g` rows that precede the write in the order of the loop. A full one may do
//!   anything.
//! - **scan-c6** `n` is a dimension, or an integer scalar operand that binds the symbol which `n` then is. With an
//!   `until`, one more result of the body and a boolean scalar, `n` is the largest number of steps: the loop ends after
//!   the first step whose `until` is true. That step counts: what it writes is kept. The number of steps that ran is the
//!   size of a symbol that the loop binds, which only what comes after the loop can use. Buffers that grow have the rows
//!   of the steps that ran, in row order: an upward loop that ran `s` steps leaves out the rows after them, a downward
//!   one the rows before. A full buffer keeps all its rows.
//! - **scan-c7** each buffer says which of its rows are wanted: all, or the last `k` in the order of the loop.
//!   Trimming a trace changes this attribute, not the graph around it. A loop that ends with fewer rows than are wanted
//!   is an error, as a slice past the end of a trace is: the type promises `k` rows.
//!
//! - **scan-c8** a loop that is truncated to `k` is differentiated in reverse as if all before its last `k` steps, in the
//!   order of the loop, were constant. No value changes with it, and no tangent of the forward mode.
//!
//! Offsets are not negative: a entry point subtracts the smallest tap of reads and writes together. The names
//! sit-sot, mit-sot, ... are derived for printing; the code has one path.
//!
//! Operands, in order: the step count if it is an operand, the sequences, the initial rows of the buffers that
//! have some, the initial carries, the invariants. Parameters of the body: the rows read from each sequence,
//! the rows read from each buffer, the carries, the invariants. Results of the body: the rows written to each
//! buffer, the next carries, whether the loop ends. Results of the loop: the buffers, the final carries.

mod at_hand;
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

/// A sequence: read, never written.
#[derive(Clone, PartialEq, Debug)]
pub struct Sequence {
    /// At step `t`, the rows `t+k` for each `k` here, in this order.
    pub reads: Vec<usize>,
}

impl Sequence {
    /// The largest offset that a step reads.
    pub fn reach(&self) -> usize {
        self.reads.iter().copied().max().unwrap_or(0)
    }
}

/// What the rows of a buffer are before the first step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// None is given; the buffer has `n` rows (nit-sot).
    Empty,
    /// So many are given, those that come first in the order of the loop: the leading rows, or the trailing
    /// ones of a downward loop. The buffer has `n` rows more (sit-sot, mit-sot).
    Given(usize),
    /// All are given (mit-mot).
    Full,
}

/// Which rows of a buffer are results (scan-c7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returned {
    /// All.
    All,
    /// The last so many in the order of the loop.
    Last(usize),
}

impl Returned {
    /// How many of the last rows, if not all.
    pub(crate) fn last(self) -> Option<usize> {
        if let Returned::Last(count) = self { Some(count) } else { None }
    }
}

/// A buffer: read and written row by row.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Its rows before the first step.
    pub start: Start,
    /// At step `t`, the rows `t+k` for each `k` here are read first, in this order.
    pub reads: Vec<usize>,
    /// Then the rows `t+k` for each `k` here are written, in this order.
    pub writes: Vec<usize>,
    /// Which rows are results.
    pub returned: Returned,
}

impl Buffer {
    /// A trace of what a step gives, of which all rows are results.
    pub fn nit_sot() -> Self {
        Buffer { start: Start::Empty, reads: vec![], writes: vec![0], returned: Returned::All }
    }

    /// PyTensor's name of this kind of buffer.
    pub fn kind(&self) -> &'static str {
        match self.start {
            Start::Empty => "nit-sot",
            Start::Given(1) => "sit-sot",
            Start::Given(_) => "mit-sot",
            Start::Full => "mit-mot",
        }
    }

    /// The largest offset that a step touches.
    pub(crate) fn reach(&self) -> usize {
        self.reads.iter().chain(&self.writes).copied().max().unwrap_or(0)
    }

    /// How many rows it has, given those of its operand.
    pub(crate) fn rows(&self, steps: &Dim, given: Option<&Dim>) -> Dim {
        match (self.start, given) {
            (Start::Full, Some(rows)) => rows.clone(),
            (Start::Given(rows), _) => steps.clone() + rows,
            _ => steps.clone(),
        }
    }
}

/// The loop.
#[derive(Clone, Debug)]
pub struct Scan {
    /// One step.
    pub body: Arc<Graph>,
    /// The number of steps, `n`.
    pub steps: Dim,
    /// Whether operand 0 is an integer scalar whose value binds `steps`, which is then one symbol (scan-c6).
    pub steps_operand: bool,
    /// The number of steps that ran, if the body's last result says when the loop ends; `steps` is then the largest
    /// number (scan-c6).
    pub until: Option<Symbol>,
    /// Whether `t` runs downward (scan-c2).
    pub reverse: bool,
    /// The sequences.
    pub sequences: Vec<Sequence>,
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// How many carries there are.
    pub carries: usize,
    /// How many invariants there are.
    pub invariants: usize,
    /// A hint: how many steps a native loop may lay out after one another. It changes no value.
    pub unroll: usize,
    /// What a forward pass keeps of the loop, if it says so itself. It changes no value.
    pub policy: Option<CheckpointPolicy>,
    /// Over how many steps, the last ones, the backward loop goes back; all if it does not say (scan-c8).
    pub truncate: Option<usize>,
}

op_text!("scan" => Scan);
op_key!("scan" => Scan);

/// Which operand is what.
#[derive(Clone, Debug)]
pub struct Operands {
    /// The step count.
    pub steps: Option<usize>,
    /// The sequences.
    pub sequences: Range<usize>,
    /// The initial rows of each buffer.
    pub buffers: Vec<Option<usize>>,
    /// The initial carries.
    pub carries: Range<usize>,
    /// The invariants.
    pub invariants: Range<usize>,
    /// How many there are.
    pub count: usize,
}

/// Which parameter or result of the body is what.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The rows of each sequence.
    pub sequences: Vec<Range<usize>>,
    /// The rows of each buffer.
    pub buffers: Vec<Range<usize>>,
    /// The carries.
    pub carries: Range<usize>,
    /// The invariants.
    pub invariants: Range<usize>,
    /// Whether the loop ends.
    pub until: Option<usize>,
    /// How many there are.
    pub count: usize,
}

impl Scan {
    /// A loop without operands over so many steps, upward: what others are made from by naming what they have.
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

    /// Which operand is what.
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

    /// Which parameter of the body is what.
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

    /// Which result of the body is what.
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

    /// The step numbers in the order of the loop (scan-c2).
    pub fn order(&self, steps: usize) -> Box<dyn Iterator<Item = usize> + Send> {
        if self.reverse { Box::new((0..steps).rev()) } else { Box::new(0..steps) }
    }

    /// The first row that is given at the start, of a buffer that then has `given` rows after `steps` steps.
    pub fn first_given_row(&self, steps: usize) -> usize {
        if self.reverse { steps } else { 0 }
    }

    /// The number of steps that run: that of the steps, or the symbol that the loop binds when it ends.
    pub fn length(&self) -> Dim {
        self.until.as_ref().map_or(self.steps.clone(), Dim::symbol)
    }

    /// The symbols to which the loop gives sizes.
    pub fn binds(&self) -> impl Iterator<Item = &Symbol> {
        let sizes = self.sizes();
        sizes.bound_before.into_iter().chain(sizes.bound_after)
    }

    /// The rows that are results, of a buffer that has `rows` rows if all steps run, where the last `left_out` did not
    /// (scan-c6, scan-c7).
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

    /// Checks that every trace has the rows that are wanted after `ran` steps (scan-c7).
    pub fn check_returned(&self, at: &Place, ran: usize) -> Result<()> {
        for (index, buffer) in self.buffers.iter().enumerate().filter(|(_, buffer)| buffer.start != Start::Full) {
            infer::returned_rows(at, &infer::buffer_name(index, buffer), buffer, buffer.rows(&Dim::from(ran), None))?;
        }
        Ok(())
    }

    /// Checks that the rows of every tensor suffice for `steps` steps (scan-c3), and that every trace has the rows
    /// that are wanted (scan-c7). `rows` gives the number of rows of an operand.
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

    /// Through which parameters of the body a derivative by the operands in `wrt` goes.
    pub(crate) fn active(&self, wrt: &[bool]) -> Vec<bool> {
        let (layout, results) = (self.params(), self.results());
        let active = self.reached_params(wrt, &self.operands().states(wrt));
        let mut feeds: Vec<(usize, usize)> = results.carries.zip(layout.carries).collect();
        for (written, params) in results.buffers.into_iter().zip(layout.buffers) {
            feeds.extend(written.flat_map(|result| params.clone().map(move |param| (result, param))));
        }
        active_params(&self.body, active, &feeds)
    }

    /// The number of steps that an operand's value means; negative counts are an error.
    pub fn check_count(&self, at: &Place, count: i64) -> Result<usize> {
        usize::try_from(count).map_err(|_| negative_steps(at, count))
    }

    /// Makes the error of a row of a buffer that is read and was neither given nor written.
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

/// Hands out consecutive ranges.
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
