//! A builder for loops with taps, with the semantics of PyTensor's `scan`.
//!
//! Each sequence, state, buffer and carry has a handle. In the body, [`Step::read`] returns the rows at a handle's
//! taps, in the order in which the taps were declared, and [`Step::write`] sets the values that the step writes. The
//! values that the body returns are stacked, and later steps cannot read them (nit-sot).

mod step;

pub use step::{Carry, MitMot, Outcome, Readable, Sequence, State, Step, Writable};

use super::Sequence as Reads;
use super::build::check_until;
use super::infer::tap_error;
use super::*;
use crate::graph::{BodyTrace, emit_at, fail_value};
use crate::tree::{self, Tree};

/// A builder for a recurrence: a loop whose steps read values of earlier steps through taps.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, Recurrence, evaluate};
///
/// let fibonacci = Graph::build("fibonacci", |g| {
///     let start = g.input("start", "i64[2]");
///     let mut loop_ = Recurrence::new();
///     let x = loop_.mit_sot(start, [-2, -1]);
///     let done = loop_.steps(5).run(|step| {
///         let [older, old] = step.read(&x);
///         step.write(&x, older + old);
///     });
///     done.trace(&x)
/// })?;
/// let start = HostTensor::from_vec(vec![1i64, 1], [2]).unwrap();
/// assert_eq!(evaluate(&fibonacci, &[start])?[0].as_slice::<i64>().unwrap(), [2, 3, 5, 8, 13]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recurrence {
    at: Place,
    steps: Option<Steps>,
    backwards: bool,
    sequences: Vec<Tapped>,
    buffers: Vec<Tapped>,
    carries: Vec<(String, Value)>,
    policy: Option<CheckpointPolicy>,
    truncate: Option<usize>,
}

#[derive(Clone, Debug)]
enum Steps {
    Dim(Dim),
    Value(Value),
}

/// A sequence or a buffer, with the taps that the user declared.
#[derive(Clone, Debug)]
struct Tapped {
    name: String,
    value: Value,
    reads: Vec<i64>,
    writes: Vec<i64>,
    start: Start,
}

impl Tapped {
    fn lowest(&self) -> i64 {
        self.reads.iter().chain(&self.writes).copied().min().unwrap_or(0)
    }

    fn highest(&self) -> i64 {
        self.reads.iter().chain(&self.writes).copied().max().unwrap_or(0)
    }

    /// Returns the range from the smallest to the largest tap of a sequence. The range always includes tap 0.
    fn span(&self) -> Range<i64> {
        self.lowest().min(0)..self.highest().max(0)
    }
}

impl Default for Recurrence {
    #[track_caller]
    fn default() -> Self {
        Recurrence::new()
    }
}

impl Recurrence {
    /// Creates a recurrence without sequences, states, buffers or carries.
    #[track_caller]
    pub fn new() -> Self {
        Recurrence {
            at: Place::new("scan", Site::caller()),
            steps: None,
            backwards: false,
            sequences: Vec::new(),
            buffers: Vec::new(),
            carries: Vec::new(),
            policy: None,
            truncate: None,
        }
    }

    /// Sets the number of steps, or the maximum number if the body calls [`Step::until`]. By default, the loop runs as
    /// many steps as the full buffers allow or, without full buffers, as many as the sequences allow.
    pub fn steps(&mut self, steps: impl Into<Dim>) -> &mut Self {
        self.steps = Some(Steps::Dim(steps.into()));
        self
    }

    /// Sets the number of steps to an integer scalar that is computed by the program or is one of its inputs.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, Recurrence, evaluate};
    ///
    /// let powers = Graph::build("powers", |g| {
    ///     let mut loop_ = Recurrence::new();
    ///     let x = loop_.carry(g.input("x", "f32[]"));
    ///     let done = loop_.steps_value(g.input("n", "i64[]")).run(|step| {
    ///         let old = step.read(&x);
    ///         step.write(&x, old * 2.0);
    ///     });
    ///     done.last(&x)
    /// })?;
    /// assert_eq!(evaluate(&powers, &[1f32.into(), 5i64.into()])?, [32f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn steps_value(&mut self, steps: Value) -> &mut Self {
        self.steps = Some(Steps::Value(steps));
        self
    }

    /// Makes the steps read the sequences from the last row to the first. Traces remain in the order of the steps.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, Recurrence, evaluate};
    ///
    /// let reversed = Graph::build("reversed", |g| {
    ///     let mut loop_ = Recurrence::new();
    ///     let xs = loop_.sequence(g.input("xs", "f32[T]"), [0]);
    ///     loop_.backwards().run(|step| step.read(&xs)).ys
    /// })?;
    /// assert_eq!(evaluate(&reversed, &[[1f32, 2.0, 3.0].into()])?, [[3f32, 2.0, 1.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn backwards(&mut self) -> &mut Self {
        self.backwards = true;
        self
    }

    /// Sets the checkpoint policy, which selects the residuals that the loop saves for the backward pass. The default
    /// is [`GradOptions::policy`](crate::GradOptions::policy).
    pub fn policy(&mut self, policy: CheckpointPolicy) -> &mut Self {
        self.policy = Some(policy);
        self
    }

    /// Truncates backpropagation through time to the last `steps` steps: see
    /// [`ScanOptions::truncate`](crate::ScanOptions::truncate). Rows of a full buffer that were written before the last
    /// `steps` steps also have a gradient of zero. An initial row of a state has a nonzero gradient only if one of the
    /// last `steps` steps reads it.
    pub fn truncate(&mut self, steps: usize) -> &mut Self {
        self.truncate = Some(steps);
        self
    }

    /// Adds a sequence, whose rows the steps read. Let `low` and `high` be the minimum and the maximum of 0 and the
    /// taps. At step `t`, tap `k` reads row `t + k - low`, counted from the last row if the loop runs
    /// [`backwards`](Self::backwards). A sequence of `n` rows allows `n - (high - low)` steps.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, Recurrence, evaluate};
    ///
    /// let differences = Graph::build("differences", |g| {
    ///     let mut loop_ = Recurrence::new();
    ///     let xs = loop_.sequence(g.input("xs", "f32[T]"), [0, 1]);
    ///     let done = loop_.run(|step| {
    ///         let [this, next] = step.read(&xs);
    ///         next - this
    ///     });
    ///     done.ys
    /// })?;
    /// assert_eq!(evaluate(&differences, &[[1f32, 4.0, 9.0].into()])?, [[3f32, 5.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn sequence<const N: usize>(&mut self, xs: Value, taps: [i64; N]) -> Sequence<N> {
        let name = format!("sequence {}", self.sequences.len());
        let value = self.checked_rows(&name, xs);
        self.sequences.push(Tapped { name, value, reads: taps.to_vec(), writes: vec![], start: Start::Full });
        Sequence(self.sequences.len() - 1)
    }

    /// Adds a state that starts from `init`. Each step reads the value that the previous step wrote.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, Recurrence, evaluate};
    ///
    /// let powers = Graph::build("powers", |g| {
    ///     let mut loop_ = Recurrence::new();
    ///     let x = loop_.sit_sot(g.input("start", "f32[]"));
    ///     let done = loop_.steps(3).run(|step| {
    ///         let [old] = step.read(&x);
    ///         step.write(&x, old * 2.0);
    ///     });
    ///     (done.trace(&x), done.trace_with_init(&x))
    /// })?;
    /// let results = evaluate(&powers, &[1f32.into()])?;
    /// assert_eq!(results, [[2f32, 4.0, 8.0].into(), [1f32, 2.0, 4.0, 8.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn sit_sot(&mut self, init: Value) -> State<1> {
        let init = init.unsqueeze(0);
        self.mit_sot(init, [-1])
    }

    /// Adds a state. Each step reads earlier values of the state through negative taps. If the smallest tap is `-m`,
    /// row `j` of `init` serves as the value of step `j - m`. All rows of `init` after the first `m` are ignored.
    #[track_caller]
    pub fn mit_sot<const N: usize>(&mut self, init: Value, taps: [i64; N]) -> State<N> {
        let name = format!("state {}", self.buffers.len());
        let mut value = self.checked_rows(&name, init);
        if let Some(tap) = taps.iter().copied().find(|tap| *tap >= 0) {
            let rule = "the taps of a state look back, so they are negative";
            self.tap_error(&name, value, tap, rule, "use a negative tap, or `mit_mot` for a buffer");
        }
        self.check_repeated(&name, value, &taps);
        let given = taps.iter().copied().min().unwrap_or(-1).unsigned_abs() as usize;
        if !value.is_failed() && value.dim(0) != Dim::from(given) {
            if value.dim(0).is_at_least(&Dim::from(given)) == Some(true) {
                value = value.slice(0, ..given);
            } else {
                let found = format!("{} rows", value.dim(0));
                value = fail_value("scan", Site::caller(), &[value], |at| Error::Rows {
                    at: at.boxed(),
                    component: name.clone(),
                    needed: format!("{given} initial rows, for the tap -{given}"),
                    found,
                    fix: "give as many initial rows as the oldest tap looks back".into(),
                });
            }
        }
        self.buffers.push(Tapped { name, value, reads: taps.to_vec(), writes: vec![0], start: Start::Given(given) });
        State(self.buffers.len() - 1)
    }

    /// Adds a full buffer, whose rows the steps read and write. Let `low` be the smallest tap in `reads` and `writes`.
    /// At step `t`, tap `k` refers to row `t + k - low`. A step does all its reads before its writes.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, Recurrence, evaluate};
    ///
    /// // Adds each row to the next one, in place.
    /// let sums = Graph::build("sums", |g| {
    ///     let mut loop_ = Recurrence::new();
    ///     let rows = loop_.mit_mot(g.input("rows", "f32[T]"), [0, 1], [1]);
    ///     let done = loop_.run(|step| {
    ///         let [this, next] = step.read(&rows);
    ///         step.write(&rows, [this + next]);
    ///     });
    ///     done.buffer(&rows)
    /// })?;
    /// assert_eq!(evaluate(&sums, &[[1f32, 2.0, 3.0].into()])?, [[1f32, 3.0, 6.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn mit_mot<const R: usize, const W: usize>(
        &mut self,
        buffer: Value,
        reads: [i64; R],
        writes: [i64; W],
    ) -> MitMot<R, W> {
        let name = format!("buffer {}", self.buffers.len());
        let value = self.checked_rows(&name, buffer);
        self.check_repeated(&name, value, &reads);
        self.check_repeated(&name, value, &writes);
        self.buffers.push(Tapped { name, value, reads: reads.to_vec(), writes: writes.to_vec(), start: Start::Full });
        MitMot(self.buffers.len() - 1)
    }

    /// Adds a tree of states without traces. Only their last values are kept.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, Recurrence, evaluate};
    ///
    /// let fibonacci = Graph::build("fibonacci", |g| {
    ///     let mut loop_ = Recurrence::new();
    ///     let pair = loop_.carry((g.input("a", "i64[]"), g.input("b", "i64[]")));
    ///     let done = loop_.steps(5).run(|step| {
    ///         let (a, b) = step.read(&pair);
    ///         step.write(&pair, (b, a + b));
    ///     });
    ///     done.last(&pair).1
    /// })?;
    /// assert_eq!(evaluate(&fibonacci, &[1i64.into(), 1i64.into()])?, [13i64.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn carry<T: Tree>(&mut self, init: T) -> Carry<T> {
        let index = self.carries.len();
        self.carries.extend(tree::leaves(&init, &format!("carry{index}")));
        Carry { index, tree: init }
    }

    /// Traces the body once, adds the loop, and returns its results. The values that the body returns are stacked along
    /// axis 0, in the order of the steps.
    pub fn run<Y: Tree>(&self, body: impl FnOnce(&mut Step<'_>) -> Y) -> Outcome<Y> {
        let steps = self.step_count();
        let (trace, mut step) = self.open();
        let ys = body(&mut step);
        let closed = self.close(trace, steps, step, &tree::leaves(&ys, "y"));
        let Outcome { ys: traces, at, length, given, buffers, carries } = closed;
        Outcome { ys: tree::rebuild(&ys, &traces), at, length, given, buffers, carries }
    }

    fn open(&self) -> (BodyTrace, Step<'_>) {
        let (trace, values) = BodyTrace::open(&self.at, "step", &self.params());
        let (written, next) = (vec![None; self.buffers.len()], vec![None; self.carries.len()]);
        (trace, Step { recurrence: self, values, written, next, until: None })
    }

    /// Closes the trace of the body and adds the loop. `step` holds the values that the body wrote, and `ys` holds the
    /// values that it returned.
    fn close(&self, trace: BodyTrace, steps: Steps, step: Step<'_>, ys: &[(String, Value)]) -> Outcome<Vec<Value>> {
        let at = &self.at;
        let stop = step.until.map(|stop| ("until".to_string(), check_until(at, stop)));
        let mut outputs = step.finish();
        let carries_at = outputs.len() - self.carries.len();
        outputs.splice(carries_at..carries_at, ys.iter().cloned());
        let until = stop.as_ref().map(|_| fresh_symbol());
        outputs.extend(stop);
        let (steps, count) = match steps {
            Steps::Dim(dim) => (dim, None),
            Steps::Value(value) => (Dim::symbol(&fresh_symbol()), Some(value)),
        };
        let length = until.as_ref().map_or(steps.clone(), Dim::symbol);

        let sizes = [self.buffers.len(), ys.len(), self.carries.len()];
        let closed = trace.close(&outputs).and_then(|body| reject_bound_sizes(at, "body", body));
        let results = closed.and_then(|closed| {
            let nit_sot = Buffer::nit_sot();
            let scan = Scan {
                steps_operand: count.is_some(),
                until,
                sequences: self.sequences.iter().map(|sequence| self.sequence_reads(sequence)).collect(),
                buffers: self.buffers.iter().map(buffer_offsets).chain(ys.iter().map(|_| nit_sot.clone())).collect(),
                carries: self.carries.len(),
                invariants: closed.captures.len(),
                policy: self.policy.clone(),
                truncate: self.truncate,
                ..Scan::of(closed.graph, steps)
            };
            let operands: Vec<Value> = (count.into_iter())
                .chain(self.sequences.iter().map(|sequence| self.in_step_order(sequence)))
                .chain(self.buffers.iter().map(|buffer| buffer.value))
                .chain(self.carries.iter().map(|(_, value)| *value))
                .chain(closed.captures)
                .collect();
            emit_at(scan, &operands, at.site)
        });
        let mut buffers = or_failed(results, sizes.iter().sum());
        let carries = buffers.split_off(sizes[0] + sizes[1]);
        let traces = buffers.split_off(sizes[0]);
        let given = self.buffers.iter().map(|buffer| buffer.start).collect();
        Outcome { ys: traces, at: at.clone(), length, given, buffers, carries }
    }

    #[track_caller]
    fn checked_rows(&self, name: &str, value: Value) -> Value {
        if value.is_failed() || value.rank() > 0 {
            return value;
        }
        fail_value("scan", Site::caller(), &[value], |at| {
            at.mismatch(name, "rank 1 or more, to have rows", value.ty(), "stack rows, or use `sit_sot` for one value")
        })
    }

    #[track_caller]
    fn check_repeated(&self, name: &str, value: Value, taps: &[i64]) {
        if let Some(index) = (1..taps.len()).find(|index| taps[..*index].contains(&taps[*index])) {
            self.tap_error(name, value, taps[index], "a tap is listed once", "remove the second one");
        }
    }

    #[track_caller]
    fn tap_error(&self, name: &str, value: Value, tap: i64, rule: &str, fix: &str) {
        fail("scan", Site::caller(), &[value], |at| tap_error(at, name, tap, rule, fix));
    }

    /// Returns the number of steps that the user set. If the user did not set a number, returns the number that the
    /// full buffers allow or, without full buffers, the number that the sequences allow.
    fn step_count(&self) -> Steps {
        if let Some(steps) = &self.steps {
            return steps.clone();
        }
        let alive = |tapped: &&Tapped| !tapped.value.is_failed();
        let full = self.buffers.iter().filter(|buffer| buffer.start == Start::Full).filter(alive);
        let mut counts: Vec<(&str, Dim)> = full
            .map(|buffer| (buffer.name.as_str(), buffer.value.dim(0) - (buffer.highest() - buffer.lowest())))
            .collect();
        if counts.is_empty() {
            let sequences = self.sequences.iter().filter(alive);
            counts = sequences.map(|s| (s.name.as_str(), s.value.dim(0) - (s.span().end - s.span().start))).collect();
        }
        let mut counts = counts.into_iter();
        let Some((mut name, mut smallest)) = counts.next() else {
            if self.sequences.is_empty() && self.buffers.iter().all(|buffer| buffer.start != Start::Full) {
                let reason = "there is no sequence, no full buffer and no number of steps";
                let fix = "pass a sequence, or set `Recurrence::steps`";
                fail("scan", self.at.site, &[], |at| at.step_count(reason, fix));
            }
            return Steps::Dim(Dim::from(0));
        };
        for (other, count) in counts {
            match (count.is_at_least(&smallest), smallest.is_at_least(&count)) {
                (Some(true), _) => {}
                (_, Some(true)) => (name, smallest) = (other, count),
                _ => {
                    let reason = format!("{name} allows {smallest} steps and {other} allows {count}");
                    let fix = "set `Recurrence::steps`, or give both one symbol";
                    fail("scan", self.at.site, &[], |at| at.step_count(reason, fix));
                }
            }
        }
        if smallest.is_at_least(&Dim::from(0)) == Some(false) {
            let reason = format!("{name} allows {smallest} steps: its taps reach further than its rows");
            fail("scan", self.at.site, &[], |at| at.step_count(reason, "give more rows, or smaller taps"));
        }
        Steps::Dim(smallest)
    }

    /// Returns the names and types of the body's parameters: the rows of sequences, the rows of buffers, and the
    /// carries.
    fn params(&self) -> Vec<(String, TensorType)> {
        let tapped = self.sequences.iter().chain(&self.buffers).enumerate();
        let rows = tapped.flat_map(|(index, tapped)| {
            let row = tapped.value.row_type();
            let letter = if index < self.sequences.len() { "x" } else { "s" };
            let number = if index < self.sequences.len() { index } else { index - self.sequences.len() };
            (tapped.reads.iter()).map(move |tap| (tap_name(letter, number, *tap), row.clone()))
        });
        rows.chain(self.carries.iter().map(|(name, value)| (name.clone(), value.ty()))).collect()
    }

    /// Converts the taps of a sequence to row offsets relative to the step index.
    fn sequence_reads(&self, sequence: &Tapped) -> Reads {
        let span = sequence.span();
        let offset = |tap: &i64| if self.backwards { span.end - tap } else { tap - span.start };
        Reads { reads: sequence.reads.iter().map(|tap| offset(tap) as usize).collect() }
    }

    fn in_step_order(&self, sequence: &Tapped) -> Value {
        if self.backwards { sequence.value.reverse(0) } else { sequence.value }
    }
}

/// Converts the taps of a buffer to offsets, by subtracting the smallest tap of its reads and writes.
fn buffer_offsets(buffer: &Tapped) -> Buffer {
    let lowest = buffer.lowest();
    let offsets = |taps: &[i64]| taps.iter().map(|tap| (tap - lowest) as usize).collect();
    Buffer {
        start: buffer.start,
        reads: offsets(&buffer.reads),
        writes: offsets(&buffer.writes),
        returned: Returned::All,
    }
}

/// Returns the name of a parameter, such as `x0`, `x0_m1` (tap -1) or `x0_p2` (tap 2).
fn tap_name(letter: &str, index: usize, tap: i64) -> String {
    match tap {
        0 => format!("{letter}{index}"),
        1.. => format!("{letter}{index}_p{tap}"),
        _ => format!("{letter}{index}_m{}", -tap),
    }
}
