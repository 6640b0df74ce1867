//! The handles of a recurrence, the step that reads and writes through them, and the results of the loop.

use super::{Recurrence, Tapped};
use crate::graph::emit_value;
use crate::ops::rules::*;
use crate::ops::scan::Start;
use crate::ops::scan::build::check_carry;
use crate::ops::{Slice, fail_mismatch};
use crate::tree::{self, Tree};
use crate::value::size;

/// The handle of a sequence with `N` taps.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<const N: usize>(pub(super) usize);

/// The handle of a state with a trace and `N` taps (sit-sot or mit-sot).
#[derive(Clone, Copy, Debug)]
pub struct State<const N: usize>(pub(super) usize);

/// The handle of a full buffer with `R` read taps and `W` write taps (mit-mot).
#[derive(Clone, Copy, Debug)]
pub struct MitMot<const R: usize, const W: usize>(pub(super) usize);

/// The handle of a tree of states without traces. Only their last values are kept (untraced sit-sot).
#[derive(Clone, Debug)]
pub struct Carry<T> {
    pub(super) index: usize,
    pub(super) tree: T,
}

/// A step of a recurrence, through which the body reads and writes values during tracing.
pub struct Step<'a> {
    pub(super) recurrence: &'a Recurrence,
    pub(super) values: Vec<Value>,
    pub(super) written: Vec<Option<Vec<Value>>>,
    pub(super) next: Vec<Option<Value>>,
    pub(super) until: Option<Value>,
}

/// A handle that [`Step::read`] accepts.
pub trait Readable {
    /// The values that [`Step::read`] returns for this handle.
    type Rows;
    #[doc(hidden)]
    fn read(&self, step: &Step<'_>) -> Self::Rows;
}

/// A handle that [`Step::write`] accepts.
pub trait Writable {
    /// The values that [`Step::write`] accepts for this handle.
    type Rows;
    #[doc(hidden)]
    fn write(&self, step: &mut Step<'_>, rows: Self::Rows);
}

impl Step<'_> {
    /// Returns the rows at a handle's taps, in the order in which the taps were declared, or the tree of a carry.
    pub fn read<H: Readable>(&self, handle: &H) -> H::Rows {
        handle.read(self)
    }

    /// Writes `rows` to `handle` in this step: the new value of a state, a row for each write tap of a buffer, or the
    /// next tree of a carry.
    pub fn write<H: Writable>(&mut self, handle: &H, rows: H::Rows) {
        handle.write(self, rows);
    }

    /// Ends the loop after the first step in which `stop`, a boolean scalar, is true. If the body calls this method
    /// several times, the loop ends after the first step in which any of the conditions is true.
    ///
    /// The rows that the last step writes are kept. Traces have only the rows of the steps that ran, and full buffers
    /// keep all their rows.
    ///
    /// The number of steps that ran is known only after the loop. This number is available as a dimension, the number
    /// of rows of the traces, and as a value, which [`Outcome::steps`] returns. Slicing more rows from a trace than it
    /// has is an error: `trace.slice(0, -5..)` returns exactly five rows, and never includes an initial row.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, HostTensor, Recurrence, evaluate};
    ///
    /// let powers = Graph::build("powers", |g| {
    ///     let mut loop_ = Recurrence::new();
    ///     let x = loop_.sit_sot(g.input("start", "f32[]"));
    ///     let done = loop_.steps(100).run(|step| {
    ///         let [old] = step.read(&x);
    ///         step.write(&x, old * 2.0);
    ///         step.until((old * 2.0).gt(10.0));
    ///     });
    ///     (done.trace(&x), done.steps())
    /// })?;
    /// let results = evaluate(&powers, &[HostTensor::scalar(3f32)])?;
    /// assert_eq!(results, [HostTensor::from([6f32, 12.0]), HostTensor::scalar(2i64)]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn until(&mut self, stop: Value) {
        self.until = Some(self.until.map_or(stop, |other| other | stop));
    }

    fn rows<const N: usize>(&self, tapped: &[Tapped], base: usize, index: usize) -> [Value; N] {
        let start = base + tapped[..index].iter().map(|tapped| tapped.reads.len()).sum::<usize>();
        std::array::from_fn(|tap| self.values[start + tap])
    }

    fn buffer_rows<const N: usize>(&self, index: usize) -> [Value; N] {
        let base = self.recurrence.sequences.iter().map(|sequence| sequence.reads.len()).sum();
        self.rows(&self.recurrence.buffers, base, index)
    }

    /// Returns all written rows, followed by all next carries. Records an error for each missing write.
    pub(super) fn finish(self) -> Vec<(String, Value)> {
        let at = &self.recurrence.at;
        let missing = |name: &str| {
            let fix = "call `step.write` for it in the body";
            Value::from(fail_mismatch(at, &[], name, "a new value each step", "none", fix))
        };
        let mut outputs = Vec::new();
        for (buffer, rows) in self.recurrence.buffers.iter().zip(self.written) {
            let rows = rows.unwrap_or_else(|| vec![missing(&buffer.name); buffer.writes.len()]);
            let row_type = buffer.value.ty().row();
            for (index, row) in rows.into_iter().enumerate() {
                let name = format!("w{}_{index}", outputs.len());
                if let Some(expected) = row_type.as_ref().filter(|ty| !row.is_failed() && **ty != row.ty()) {
                    let fix = "cast, reshape or broadcast the row: rows are not converted silently";
                    let component = format!("the row written to {}", buffer.name);
                    fail_mismatch(at, &[row], component, expected, row.ty(), fix);
                }
                outputs.push((name, row));
            }
        }
        let mut next = Vec::new();
        for ((name, _), value) in self.recurrence.carries.iter().zip(self.next) {
            next.push((name.clone(), value.unwrap_or_else(|| missing(&format!("`{name}`")))));
        }
        check_carry(at, &self.recurrence.carries, &next);
        outputs.extend(next);
        outputs
    }
}

impl<const N: usize> Readable for Sequence<N> {
    type Rows = [Value; N];
    fn read(&self, step: &Step<'_>) -> [Value; N] {
        step.rows(&step.recurrence.sequences, 0, self.0)
    }
}

impl<const N: usize> Readable for State<N> {
    type Rows = [Value; N];
    fn read(&self, step: &Step<'_>) -> [Value; N] {
        step.buffer_rows(self.0)
    }
}

impl<const N: usize> Writable for State<N> {
    type Rows = Value;
    fn write(&self, step: &mut Step<'_>, row: Value) {
        step.written[self.0] = Some(vec![row]);
    }
}

impl<const R: usize, const W: usize> Readable for MitMot<R, W> {
    type Rows = [Value; R];
    fn read(&self, step: &Step<'_>) -> [Value; R] {
        step.buffer_rows(self.0)
    }
}

impl<const R: usize, const W: usize> Writable for MitMot<R, W> {
    type Rows = [Value; W];
    fn write(&self, step: &mut Step<'_>, rows: [Value; W]) {
        step.written[self.0] = Some(rows.to_vec());
    }
}

impl<T: Tree> Readable for Carry<T> {
    type Rows = T;
    fn read(&self, step: &Step<'_>) -> T {
        let base = step.values.len() - step.recurrence.carries.len();
        tree::rebuild(&self.tree, &step.values[base + self.index..])
    }
}

impl<T: Tree> Writable for Carry<T> {
    type Rows = T;
    fn write(&self, step: &mut Step<'_>, tree: T) {
        let leaves = tree::leaves(&tree, "");
        let expected = tree::leaves(&self.tree, "");
        if leaves.len() != expected.len() {
            let fix = "write a carry with the structure of the initial one";
            let count = |leaves: &[(String, Value)]| match leaves.len() {
                1 => "1 leaf".to_string(),
                count => format!("{count} leaves"),
            };
            let (expected, found) = (count(&expected), count(&leaves));
            fail_mismatch(&step.recurrence.at, &[], "the structure of the next carry", expected, found, fix);
            return;
        }
        for (index, (_, value)) in leaves.into_iter().enumerate() {
            step.next[self.index + index] = Some(value);
        }
    }
}

/// The results of a recurrence.
#[derive(Clone, Debug)]
pub struct Outcome<Y> {
    /// The values that the body returned, stacked along axis 0 in the order of the steps.
    pub ys: Y,
    pub(super) at: Place,
    pub(super) length: Dim,
    pub(super) given: Vec<Start>,
    pub(super) buffers: Vec<Value>,
    pub(super) carries: Vec<Value>,
}

impl<Y> Outcome<Y> {
    /// Returns the trace of a state, with one row per step. Excludes the initial rows.
    pub fn trace<const N: usize>(&self, state: &State<N>) -> Value {
        let trace = self.buffers[state.0];
        match self.given[state.0] {
            Start::Given(given) if !trace.is_failed() => {
                let slice = Slice { axis: 0, start: given.into(), limit: trace.dim(0), step: 1 };
                emit_value(slice, &[trace], self.at.site)
            }
            _ => trace,
        }
    }

    /// Returns the initial rows of a state, followed by its trace.
    pub fn trace_with_init<const N: usize>(&self, state: &State<N>) -> Value {
        self.buffers[state.0]
    }

    /// Returns all rows of a full buffer, after the last step.
    pub fn buffer<const R: usize, const W: usize>(&self, buffer: &MitMot<R, W>) -> Value {
        self.buffers[buffer.0]
    }

    /// Returns the number of steps that ran, as an i64 scalar.
    #[track_caller]
    pub fn steps(&self) -> Value {
        size(&self.length, DType::I64)
    }

    /// Returns the last value of a carry.
    pub fn last<T: Tree>(&self, carry: &Carry<T>) -> T {
        tree::rebuild(&carry.tree, &self.carries[carry.index..])
    }
}
