//! The main public function, `scan(init, xs, |carry, x| (carry, y))`, with the semantics and options of JAX's
//! `lax.scan`.

use std::convert::Infallible;

use super::infer::UNTIL_FIX;
use super::*;
use crate::tree;

/// The options of a [`scan_with`] loop and of its derivatives.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, ScanOptions, evaluate, scan_with};
///
/// let graph = Graph::build("from_the_end", |g| {
///     let options = ScanOptions::new().reverse().axis(1);
///     scan_with(options, g.input("init", "f32[1]"), g.input("xs", "f32[1,T]"), |sum, x| (sum + x, sum + x)).1
/// })?;
/// let results = evaluate(&graph, &[[0f32].into(), [[1f32, 2.0, 3.0]].into()])?;
/// assert_eq!(results, [[[6f32], [5.0], [3.0]].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    length: Option<Dim>,
    reverse: bool,
    axis: i64,
    unroll: usize,
    policy: Option<CheckpointPolicy>,
    truncate: Option<usize>,
}

impl ScanOptions {
    /// Returns the default options: forward over axis 0, one step for each row of the sequences.
    pub fn new() -> Self {
        ScanOptions { unroll: 1, ..ScanOptions::default() }
    }

    /// Sets the number of steps. This is required if there are no sequences. Otherwise, the number of steps must equal
    /// the number of rows of the sequences.
    pub fn length(mut self, length: impl Into<Dim>) -> Self {
        self.length = Some(length.into());
        self
    }

    /// Runs the loop from the last row to the first. Row `t` of the ys still corresponds to row `t` of the xs, and no
    /// data is reversed.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Sets the axis along which the loop reads rows from the sequences. A negative axis counts from the end. The ys
    /// are always stacked along axis 0.
    pub fn axis(mut self, axis: i64) -> Self {
        self.axis = axis;
        self
    }

    /// Sets the unroll factor of a native loop. This is a hint that does not change results.
    pub fn unroll(mut self, steps: usize) -> Self {
        self.unroll = steps.max(1);
        self
    }

    /// Sets the checkpoint policy, which selects the residuals that the loop saves for the backward pass. The default
    /// is [`GradOptions::policy`](crate::GradOptions::policy).
    pub fn policy(mut self, policy: CheckpointPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Truncates backpropagation through time: only the last `steps` executed steps are differentiated.
    ///
    /// Everything before these steps is treated as a constant. A row of a sequence has a gradient of zero if only
    /// earlier steps read it. The initial carry has a gradient of zero if any earlier steps ran. The gradients of
    /// captured values include only the contributions of the last `steps` steps. Cotangents of earlier rows of the ys
    /// are ignored. If `steps` is 0, all gradients are zero. A loop that runs at most `steps` steps is differentiated
    /// in full.
    ///
    /// The option changes neither values nor forward-mode tangents. It corresponds to PyTensor's `truncate_gradient`.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, HostTensor, ScanOptions, evaluate, grad, scan_with};
    ///
    /// let graph = Graph::build("last_two", |g| {
    ///     let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[T]"));
    ///     let options = ScanOptions::new().truncate(2);
    ///     grad((init, xs), |(init, xs)| scan_with(options, init, xs, |c, x| (c * 0.5 + x, ())).0)
    /// })?;
    /// let results = evaluate(&graph, &[HostTensor::scalar(7f32), HostTensor::from([1f32, 2., 3., 4.])])?;
    /// assert_eq!(results, [HostTensor::scalar(0f32), HostTensor::from([0f32, 0., 0.5, 1.])]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn truncate(mut self, steps: usize) -> Self {
        self.truncate = Some(steps);
        self
    }
}

/// Runs `body` over the rows of `xs` while carrying a state: `(carry, y) = body(carry, x)` for each row `x`, from the
/// first to the last. Returns the last carry, and all `y` stacked along axis 0.
///
/// `init`, `xs` and the ys can be any [`Tree`]. The next carry must have the same structure and types as `init`. The
/// body is traced once. It may capture values of all enclosing graphs.
///
/// The semantics are those of JAX's `lax.scan`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, scan};
///
/// let sums = Graph::build("sums", |g| {
///     let xs = g.input("xs", "f32[T]");
///     let start = g.input("start", "f32[]");
///     scan(start, xs, |sum, x| (sum + x, sum + x))
/// })?;
/// let xs = HostTensor::from_vec(vec![1f32, 2., 3.], [3]).unwrap();
/// let results = evaluate(&sums, &[xs, HostTensor::scalar(10f32)])?;
/// assert_eq!(results[1].as_slice::<f32>().unwrap(), [11., 13., 16.]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree>(init: C, xs: X, body: impl FnOnce(C, X) -> (C, Y)) -> (C, Y) {
    scan_with(ScanOptions::new(), init, xs, body)
}

/// Runs a [`scan()`] with the given options.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, ScanOptions, evaluate, scan_with};
///
/// let powers = Graph::build("powers", |g| {
///     scan_with(ScanOptions::new().length(3), g.input("x", "f32[]"), (), |x, ()| (x * 2.0, x))
/// })?;
/// assert_eq!(evaluate(&powers, &[1f32.into()])?, [8f32.into(), [1f32, 2.0, 4.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn scan_with<C: Tree, X: Tree, Y: Tree>(
    options: ScanOptions,
    init: C,
    xs: X,
    body: impl FnOnce(C, X) -> (C, Y),
) -> (C, Y) {
    let at = Place::new("scan", Site::caller());
    repeat(&at, options, None, init, xs, |carry, x| {
        let (carry, y) = body(carry, x);
        (carry, y, None)
    })
}

/// Runs `body` on each row of `xs`, and returns the results stacked along axis 0. This is a [`scan()`] without a carry.
///
/// `xs` and the results can be any [`Tree`].
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, map};
///
/// let norms = Graph::build("norms", |g| map(g.input("xs", "f32[T,2]"), |x| x.square().sum(0)))?;
/// let results = evaluate(&norms, &[HostTensor::from([[3f32, 4.], [1., 0.]])])?;
/// assert_eq!(results[0].as_slice::<f32>().unwrap(), [25., 1.]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn map<X: Tree, Y: Tree>(xs: X, body: impl FnOnce(X) -> Y) -> Y {
    scan((), xs, |(), x| ((), body(x))).1
}

/// Runs a loop like [`scan_with`], with two additions: the body also returns an optional condition that ends the loop,
/// and `count`, if given, is an integer scalar that holds the number of steps.
#[track_caller]
pub(super) fn repeat<C: Tree, X: Tree, Y: Tree>(
    at: &Place,
    options: ScanOptions,
    count: Option<Value>,
    init: C,
    xs: X,
    body: impl FnOnce(C, X) -> (C, Y, Option<Value>),
) -> (C, Y) {
    let body = |carry: C, x: X| Ok(body(carry, x));
    let Ok(results) = try_repeat::<_, _, _, Infallible>(at, options, count, init, xs, body);
    results
}

/// Runs a loop like [`repeat`], but with a body that returns a `Result`.
#[track_caller]
pub(in crate::ops) fn try_repeat<C: Tree, X: Tree, Y: Tree, E>(
    at: &Place,
    options: ScanOptions,
    count: Option<Value>,
    init: C,
    xs: X,
    body: impl FnOnce(C, X) -> Result<(C, Y, Option<Value>), E>,
) -> Result<(C, Y), E> {
    let open = OpenLoop::new(at, options, count, tree::leaves(&init, "carry"), tree::leaves(&xs, "x"));
    let (next, ys, stop) = body(tree::rebuild(&init, open.carries()), tree::rebuild(&xs, open.rows()))?;
    let (last, traces) = open.close(&tree::leaves(&next, "carry"), &tree::leaves(&ys, "y"), stop);
    Ok((tree::rebuild(&init, &last), tree::rebuild(&ys, &traces)))
}

/// A loop whose body is being traced.
struct OpenLoop<'a> {
    at: &'a Place,
    options: ScanOptions,
    steps: Dim,
    count: Option<Value>,
    init: Vec<(String, Value)>,
    /// The sequences, with the scanned axis moved to the front.
    sequences: Vec<(String, Value)>,
    trace: BodyTrace,
    /// The parameters of the body: the rows of the sequences, followed by the carries.
    params: Vec<Value>,
}

impl<'a> OpenLoop<'a> {
    #[track_caller]
    fn new(
        at: &'a Place,
        options: ScanOptions,
        count: Option<Value>,
        init: Vec<(String, Value)>,
        mut sequences: Vec<(String, Value)>,
    ) -> Self {
        for (name, value) in &mut sequences {
            *value = move_axis_to_front(at, name, *value, options.axis);
        }
        let steps = match count {
            Some(_) => Dim::symbol(&fresh_symbol()),
            None => step_count(at, &options, &sequences),
        };
        let rows = sequences.iter().map(|(name, value)| (name.clone(), value.row_type()));
        let carries = init.iter().map(|(name, value)| (name.clone(), value.ty()));
        let (trace, params) = BodyTrace::open(at, "body", &rows.chain(carries).collect::<Vec<_>>());
        OpenLoop { at, options, steps, count, init, sequences, trace, params }
    }

    fn rows(&self) -> &[Value] {
        &self.params[..self.sequences.len()]
    }

    fn carries(&self) -> &[Value] {
        &self.params[self.sequences.len()..]
    }

    /// Closes the trace of the body, which returned `next`, `ys` and `stop`, and adds the loop. Returns the last
    /// carries and the stacked ys.
    fn close(self, next: &[(String, Value)], ys: &[(String, Value)], stop: Option<Value>) -> (Vec<Value>, Vec<Value>) {
        let OpenLoop { at, options, steps, count, init, sequences, trace, .. } = self;
        check_carry(at, &init, next);
        let ends = stop.map(|stop| ("until".to_string(), check_until(at, stop)));
        let outputs: Vec<(String, Value)> = ys.iter().chain(next).cloned().chain(ends).collect();
        let closed = trace.close(&outputs).and_then(|body| reject_bound_sizes(at, "body", body));
        let results = closed.and_then(|closed| {
            let scan = Scan {
                body: Arc::new(closed.graph),
                steps,
                steps_operand: count.is_some(),
                until: stop.map(|_| fresh_symbol()),
                reverse: options.reverse,
                sequences: vec![Sequence { reads: vec![0] }; sequences.len()],
                buffers: vec![Buffer::nit_sot(); ys.len()],
                carries: init.len(),
                invariants: closed.captures.len(),
                unroll: options.unroll,
                policy: options.policy,
                truncate: options.truncate,
            };
            let rows_and_carries = sequences.iter().chain(&init).map(|(_, value)| *value);
            let operands: Vec<Value> = count.into_iter().chain(rows_and_carries).chain(closed.captures).collect();
            emit_at(scan, &operands, at.site)
        });
        let mut traces = or_failed(results, ys.len() + next.len());
        let last = traces.split_off(ys.len());
        let named = |value: &Value, root: &str, rest: &str| _ = value.named(&format!("{root}{rest}"));
        traces.iter().zip(ys).for_each(|(trace, (name, _))| named(trace, "ys", &name["y".len()..]));
        last.iter().zip(&init).for_each(|(last, (name, _))| named(last, "last", &name["carry".len()..]));
        (last, traces)
    }
}

/// Moves the scanned axis of a sequence to the front. Records an error in the open graph if the sequence has no axes.
#[track_caller]
pub(super) fn move_axis_to_front(at: &Place, name: &str, value: Value, axis: i64) -> Value {
    if value.rank() == 0 && !value.is_failed() {
        let fix = "capture a value that is the same at each step, or broadcast it to rows";
        let (component, expected) = (format!("sequence `{name}`"), "rank 1 or more, to have rows");
        return fail_mismatch(at, &[value], component, expected, value.ty(), fix).into();
    }
    value.move_axis(axis, 0)
}

/// Returns the number of steps. Records an error if the sequences and `length` do not agree on it.
pub(super) fn step_count(at: &Place, options: &ScanOptions, sequences: &[(String, Value)]) -> Dim {
    let mut counts: Vec<(String, Dim)> = Vec::new();
    counts.extend(options.length.iter().map(|length| ("`length`".to_string(), length.clone())));
    let alive = sequences.iter().filter(|(_, value)| !value.is_failed());
    counts.extend(alive.map(|(name, value)| (format!("sequence `{name}`"), value.ty().shape[0].clone())));
    let Some((first_name, first)) = counts.first() else {
        if sequences.is_empty() {
            let reason = "there is no sequence and no `length`";
            let fix = "pass a sequence, or set `ScanOptions::length`";
            fail(&at.op, at.site, &[], |at| at.step_count(reason, fix));
        }
        return Dim::from(0);
    };
    if let Some((name, count)) = counts.iter().find(|(_, count)| count != first) {
        let reason = format!("{first_name} implies {first} steps and {name} implies {count}");
        let fix = match options.length {
            Some(_) => "leave `length` out, or slice the sequence to it",
            None => "slice the longer one, or give both one symbol",
        };
        let values: Vec<Value> = sequences.iter().map(|(_, value)| *value).collect();
        fail(&at.op, at.site, &values, |at| at.step_count(reason, fix));
    }
    first.clone()
}

/// Returns `stop`, the condition that ends the loop, if it is a boolean scalar (scan-c6). Otherwise, records an error
/// in the open graph.
pub(super) fn check_until(at: &Place, stop: Value) -> Value {
    let ty = stop.ty();
    if stop.is_failed() || (ty.dtype == DType::Bool && ty.rank() == 0) {
        return stop;
    }
    fail_mismatch(at, &[stop], "the value of `until`", "bool[]", &ty, UNTIL_FIX).into()
}

/// Checks that the next carry has the structure and the types of the initial one (scan-c4). The error names the leaf
/// that differs.
pub(in crate::ops) fn check_carry(at: &Place, init: &[(String, Value)], next: &[(String, Value)]) {
    let (component, fix) =
        ("the structure of the carry that the body returns", "return a carry with the structure of the initial one");
    if next.iter().any(|(_, value)| value.is_failed()) || !check_names(at, component, init, next, fix) {
        return;
    }
    for ((name, before), (_, after)) in init.iter().zip(next).filter(|((_, before), _)| !before.is_failed()) {
        let (expected, found) = (before.ty(), after.shape());
        let shape = format!(
            "return a value of shape {}, or start from one of shape {found}: a carry is not broadcast",
            expected.shape
        );
        let both = "return a value of the initial type, or start from one of the body's type";
        let component = format!("carry leaf `{name}` that the body returns");
        check_type(at, &component, &expected, *after, ["the next carry", &shape, both]);
    }
}
