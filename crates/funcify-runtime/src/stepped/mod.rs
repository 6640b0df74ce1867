//! Turns a sequence program into a single-step program: train as a scan, serve as a step.
//!
//! [`Steppable::stepped`] splits a graph in two. `start` runs once: it computes the states before the first step, and
//! all values that every step shares. `step` runs once per row: it takes the states and one row of each sequence, and
//! returns the next states and the contribution of that row to the program's outputs. Both are ordinary graphs that
//! can be printed, batched and run on every backend; [`Stepper`](crate::Stepper) runs them.
//!
//! The first loop defines the steps by the symbol in its number of steps. An input with that symbol in its shape is a
//! sequence. Other values are of one of three kinds (`time.rs`), which are propagated through the ops (`rows.rs`,
//! `label.rs`):
//!
//! - **stepped-c1** fixed: it depends on no sequence. It is computed in `start`.
//! - **stepped-c2** rows: it has one row per step, and no row needs a later row of a sequence. Rows may lie along any
//!   axis, or be merged with others, as in `x W` of a batch. A step computes as many rows as the value has at the sizes
//!   of one step, starting with the step's own row. It computes several rows if a loop reads rows before the first
//!   step. For an output, the step returns the newest row.
//! - **stepped-c3** latest: it is the value that the program would return if it ended with this step: the last carry of
//!   a loop, the last row of a trace. Only outputs, and ops without rows, use it.
//!
//! States are the carries of loops, the earlier rows that their taps read, the rows of a sequence that precede its
//! first step, the rows that `pad` and `concat` put before the first step, and the results so far of running
//! combinations. Everything else that spans steps is rejected with [`Error::NotSteppable`].

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
    /// The graph that runs before the first step. Its inputs are the used inputs of the program that are not
    /// sequences, in their order; then `x_before` for each sequence `x` with rows before the first step; then, if
    /// these do not determine all sizes, `x_row`, a row of a sequence whose elements are not used. Its outputs are
    /// the states, then the values that all steps share.
    pub start: Graph,
    /// The graph of one step. Its inputs are the states, then a row of each sequence, in their order and without the
    /// axis of the steps, then the values that all steps share. Its outputs are the next states, `next_h` for `h`,
    /// then the outputs of the program, as the newest row where an output has one row per step.
    pub step: Graph,
    /// The number of states.
    pub states: usize,
    /// The number of sequences.
    pub rows: usize,
}

/// Converts sequence programs to single-step programs, as a method of graphs.
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
    /// Returns the program in its single-step form.
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
    /// Returns `NotSteppable`, with the op, the component and a fix, for everything that needs more than the steps so
    /// far: loops that run in reverse or end early, full buffers (mit-mot), reductions over the steps, and rows of
    /// later steps. Also returns it for a program without a loop over a size of its inputs.
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
