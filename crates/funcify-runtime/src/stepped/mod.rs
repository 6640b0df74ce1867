//! Turns a sequence program into a single-step program: train with a scan, serve step by step.
//!
//! [`Steppable::stepped`] splits a graph in two. `start` runs once: it computes the initial states, and all values that
//! are the same in each step. `step` runs once per row: it receives the states and one row of each sequence, and
//! returns the next states and the outputs for that row. Both are ordinary graphs, so they can be printed, batched and
//! run on every backend. [`Stepper`](crate::Stepper) runs them.
//!
//! One symbol counts the steps: the number of steps of the first loop is this symbol plus a constant. Every input with
//! the symbol in its shape is a sequence. Each value is of one of three kinds, defined in `time.rs` and propagated
//! through the ops by `rows.rs` and `label.rs`:
//!
//! - **stepped-c1** fixed: the value does not depend on any sequence. `start` computes it.
//! - **stepped-c2** rows: the value has one row per step, and no row depends on later rows of a sequence. The rows may
//!   lie along any axis. That axis may be merged with others: a product `x W`, for example, merges the steps with the
//!   batch. A step usually computes one row. If a loop reads rows before its first step, a step computes a window of
//!   rows. In step `t`, the window starts with row `t`, and it has as many rows as the value has when the loop runs a
//!   single step. If the value is an output, the step returns its newest row.
//! - **stepped-c3** latest: the value that the program would compute if it ended with this step, such as the last carry
//!   of a loop or the last row of a trace. It can be an output, or an operand of an op if none of that op's operands
//!   has rows.
//!
//! The states are the carries of loops, the earlier rows that their taps read, the rows of a sequence that precede the
//! first step, the rows that `pad`, `concat` and padded convolutions insert before the first step, the latest results
//! of associative scans and cumulative ops, and flags that record whether these scans and ops have started. All other
//! dependencies between steps are rejected with [`Error::NotSteppable`].

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

/// A single-step program, returned by [`Steppable::stepped`].
///
/// ```
/// use funcify::prelude::*;
///
/// let sums = Graph::build("sums", |g| {
///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[T]")];
///     scan(start, xs, |h, x| (h + x, h + x)).1
/// })?;
/// let stepped = sums.stepped()?;
/// assert_eq!((stepped.states, stepped.rows), (1, 1));
/// let results = evaluate(&stepped.step, &[HostTensor::scalar(1f32), HostTensor::scalar(2f32)])?;
/// assert_eq!(results[0], HostTensor::scalar(3f32)); // the next state; the output follows
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stepped {
    /// The graph that runs before the first step.
    ///
    /// Its inputs are the used inputs of the program that are not sequences, in order. They are followed by `x_before`
    /// for each sequence `x` that has rows before the first step. If these inputs do not determine all sizes, rows of
    /// sequences follow (`x_row` for sequence `x`); only their shapes are used. The outputs are the initial states,
    /// then the values that are the same in each step.
    pub start: Graph,
    /// The graph that runs once per step.
    ///
    /// Its inputs are the states, one row of each sequence (in order, without the step axis), and the values that are
    /// the same in each step. Its outputs are the next states (`next_h` for state `h`), then the outputs of the
    /// program. An output with one row per step is reduced to its newest row.
    pub step: Graph,
    /// The number of states.
    pub states: usize,
    /// The number of sequences. Each step receives one row of each sequence.
    pub rows: usize,
}

/// Adds the method [`stepped`](Steppable::stepped) to [`Graph`].
///
/// ```
/// use funcify::prelude::*;
///
/// let sums = Graph::build("sums", |g| {
///     let [start, xs] = [g.input("start", "f32[]"), g.input("xs", "f32[T]")];
///     scan(start, xs, |h, x| (h + x, h + x)).1
/// })?;
/// assert_eq!(sums.stepped()?.step.input_name(0), "start");
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Steppable {
    /// Converts a sequence program to its single-step form.
    ///
    /// ```
    /// use funcify::prelude::*;
    ///
    /// let network = Graph::build("network", |g| {
    ///     let [xs, h] = [g.input("xs", "f32[T,B,3]"), g.input("h", "f32[B,4]")];
    ///     let [w, v] = [g.input("w", "f32[3,4]"), g.input("v", "f32[4,2]")];
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
    /// Returns `NotSteppable`, with the op, the component and a fix, if an output depends on later steps: through a
    /// reverse loop, a loop with early exit, a full buffer (mit-mot), a reduction over the steps, or a row of a later
    /// step. Returns the same error if no loop of the program runs over a symbolic size of the inputs.
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
        Labelling::of(&at, graph)?.build_graphs(&at)
    }
}
