//! A program over a sequence as a program of one step: train as a scan, serve as a step.
//!
//! [`Steppable::stepped`] makes two graphs of one. `start` runs once: it makes the states before the first step, and whatever is
//! the same in each step. `step` runs once a row: it takes the states and one row of each sequence, and gives the next
//! states and what the program's outputs get by that row. Both are graphs like any other, printed, batched and run on every
//! backend; [`Stepper`](crate::Stepper) runs them.
//!
//! The first loop says what a step is: the symbol in its number of steps. An input with that symbol in its shape is a
//! sequence. Other values are one of three kinds (`time.rs`), which go through the ops (`rows.rs`, `label.rs`):
//!
//! - **stepped-c1** fixed: no sequence leads to it. It is made in `start`.
//! - **stepped-c2** rows: it has a row a step, and no row needs a sequence's row behind its own. Rows may lie along any axis, or
//!   merged with others, as in `x W` of a batch. A step makes the rows from its own on that the value has at the sizes of
//!   one step; more than one where a loop reads rows before the first step. Of an output it gives the newest.
//! - **stepped-c3** now: it is what the program would give if it ended with this step: the last carry of a loop, the last row
//!   of a trace. Only outputs, and ops without rows, use it.
//!
//! States are the carries of loops, the rows that their states with taps look back to, rows that a sequence has before those
//! of its first step, rows that `pad` and `concat` put before the first, and what running combinations have so far.
//! Everything else that spans steps is refused, by [`Error::NotSteppable`].

mod derive;
mod label;
mod rows;
pub(crate) mod stepper;
mod time;

use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::graph::{Graph, Node, ValueId, tracer};
use funcify_core::ops::{Along, AssociativeScan, Conv, Op, OpClass};
use funcify_core::types::{DType, Dim, Shape, Symbol, TensorType};
use label::Labelling;

/// A program one step at a time: what [`Steppable::stepped`] gives.
#[derive(Clone, Debug)]
pub struct Stepped {
    /// What is done before the first step. Its inputs are those of the program that are no sequences, in their order, as
    /// far as they are used; then `x_before` for each sequence `x` with rows before the first step; then, if these do not
    /// tell all sizes, `x_row`, a row of a sequence, of which only the sizes are used. Its outputs are the states, then
    /// what all steps share.
    pub start: Graph,
    /// One step. Its inputs are the states, then a row of each sequence, in their order, without the axis of the steps, then what
    /// all steps share. Its outputs are the next states, `next_h` for `h`, then those of the program: of one that has a row
    /// a step, the newest row.
    pub step: Graph,
    /// How many states there are.
    pub states: usize,
    /// How many sequences there are.
    pub rows: usize,
}

/// Programs over sequences one step at a time, as a method of graphs.
pub trait Steppable {
    /// Returns the program one step at a time.
    ///
    /// ```
    /// use funcify::prelude::*;
    ///
    /// let network = Graph::build("network", |g| {
    ///     let [xs, h, w, v] = [g.input("xs", "f32[T,B,3]"), g.input("h", "f32[B,4]"), g.input("w", "f32[3,4]"), g.input("v", "f32[4,2]")];
    ///     let hs = scan(h, xs.dot_general(w, &[(2, 0)], &[]), |h, x| {
    ///         let next = (h + x).tanh();
    ///         (next, next)
    ///     });
    ///     hs.1.dot_general(v, &[(2, 0)], &[])
    /// })?;
    /// let stepped = network.stepped()?;
    /// let inputs: Vec<&str> = (0..4).map(|index| stepped.step.input_name(index)).collect();
    /// assert_eq!(inputs, ["h", "xs", "w", "v"]);
    /// assert_eq!(stepped.step.output_type(1).to_string(), "f32[B,2]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NotSteppable`, with the op, the component and what to do, for whatever needs more than the steps so far: loops that run
    /// downward or end early, full buffers (mit-mot), reductions over the steps, rows of later steps; and for a program
    /// without a loop over a size of its inputs.
    #[track_caller]
    fn stepped(&self) -> Result<Stepped>;
}

impl Steppable for Graph {
    #[track_caller]
    fn stepped(&self) -> Result<Stepped> {
        let at = Place::new("stepped", Site::caller());
        self.checked()?;
        let plain = self.without_rules()?;
        let graph = plain.as_ref().unwrap_or(self);
        Labelling::of(&at, graph)?.derived(&at)
    }
}
