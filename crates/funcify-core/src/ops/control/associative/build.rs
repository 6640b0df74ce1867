//! The public function `associative_scan(xs, |a, b| combined)`.

use super::*;

use crate::graph::at_site;
use crate::tree;

/// The options of [`associative_scan_with`]: the direction and the axis.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{AssociativeScanOptions, Graph, associative_scan_with, evaluate};
///
/// let sums = Graph::build("sums", |g| {
///     let options = AssociativeScanOptions::new().reverse().axis(1);
///     associative_scan_with(options, g.input("x", "f32[1,T]"), |a, b| a + b)
/// })?;
/// assert_eq!(evaluate(&sums, &[[[1f32, 2.0, 3.0]].into()])?, [[[6f32, 5.0, 3.0]].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AssociativeScanOptions {
    reverse: bool,
    axis: i64,
}

impl AssociativeScanOptions {
    /// Returns the default options: forward over axis 0.
    pub fn new() -> Self {
        AssociativeScanOptions::default()
    }

    /// Runs the scan from the last element to the first: `y[t] = combine(y[t+1], x[t])`. The accumulated element is
    /// still the first parameter of `combine`.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Sets the axis along which the elements of each leaf are combined. A negative axis counts from the end. The
    /// elements of the results are along the same axis.
    pub fn axis(mut self, axis: i64) -> Self {
        self.axis = axis;
        self
    }
}

/// Computes an inclusive prefix scan over the rows of `xs`: `y[0] = x[0]`, `y[t] = combine(y[t-1], x[t])`.
///
/// `xs` can be any [`Tree`] whose leaves have the same number of rows. `combine` receives two single elements, and must
/// return an element of the same structure and types. It may capture values of the enclosing graph. It is traced once
/// and must be associative. The order of the combinations is unspecified. The scan combines many pairs of elements at
/// once: it has logarithmic depth, and combines about 2n pairs in total for n rows.
///
/// The gradient also has logarithmic depth if the result of `combine` depends on its first parameter through
/// elementwise ops only, as in sums, products, maxima and affine maps. Otherwise, for example for matrix products, a
/// loop computes the gradient.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, associative_scan, evaluate};
///
/// // h[t] = a[t] * h[t-1] + b[t]
/// let recurrence = Graph::build("recurrence", |g| {
///     let (a, b) = (g.input("a", "f32[T]"), g.input("b", "f32[T]"));
///     associative_scan((a, b), |(a1, b1), (a2, b2)| (a2 * a1, a2 * b1 + b2)).1
/// })?;
/// let inputs = [HostTensor::from([9f32, 2., 3.]), HostTensor::from([1f32, 1., 1.])];
/// assert_eq!(evaluate(&recurrence, &inputs)?[0], HostTensor::from([1f32, 3., 10.]));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn associative_scan<X: Tree>(xs: X, combine: impl FnOnce(X, X) -> X) -> X {
    associative_scan_with(AssociativeScanOptions::new(), xs, combine)
}

/// Computes an [`associative_scan`] with the given options.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{AssociativeScanOptions, Graph, associative_scan_with, evaluate};
///
/// let largest = Graph::build("largest", |g| {
///     associative_scan_with(AssociativeScanOptions::new().reverse(), g.input("x", "f32[T]"), |a, b| a.maximum(b))
/// })?;
/// assert_eq!(evaluate(&largest, &[[1f32, 3.0, 2.0].into()])?, [[3f32, 3.0, 2.0].into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn associative_scan_with<X: Tree>(options: AssociativeScanOptions, xs: X, combine: impl FnOnce(X, X) -> X) -> X {
    let at = Place::new("associative_scan", Site::caller());
    let open = OpenCombine::new(&at, &options, tree::leaves(&xs, "x"));
    let (a, b) = open.elements.split_at(open.leaves.len());
    let combined = combine(tree::rebuild(&xs, a), tree::rebuild(&xs, b));
    tree::rebuild_or_failed(&xs, open.close(&tree::leaves(&combined, "x")))
}

/// An associative scan whose `combine` closure is being traced.
struct OpenCombine<'a> {
    at: &'a Place,
    options: &'a AssociativeScanOptions,
    leaves: Vec<(String, Value)>,
    /// The leaves, with the scanned axis moved to the front.
    in_front: Vec<Value>,
    params: Vec<(String, TensorType)>,
    trace: BodyTrace,
    /// The leaves of the two elements that are passed to `combine`.
    elements: Vec<Value>,
}

impl<'a> OpenCombine<'a> {
    fn new(at: &'a Place, options: &'a AssociativeScanOptions, leaves: Vec<(String, Value)>) -> Self {
        let in_front =
            |(name, value): &(String, Value)| (name.clone(), move_axis_to_front(at, name, *value, options.axis));
        let in_front: Vec<(String, Value)> = at_site(at.site, || leaves.iter().map(in_front).collect());
        check_lengths(at, &in_front);
        let param = |root: &'static str| {
            in_front.iter().map(move |(name, value)| (format!("{root}{}", &name["x".len()..]), value.row_type()))
        };
        let params: Vec<(String, TensorType)> = param("a").chain(param("b")).collect();
        let (trace, elements) = BodyTrace::open(at, "", &params);
        let in_front = in_front.into_iter().map(|(_, value)| value).collect();
        OpenCombine { at, options, leaves, in_front, params, trace, elements }
    }

    /// Closes the trace of `combine`, which returned `combined`. Adds the scan and returns its results.
    fn close(self, combined: &[(String, Value)]) -> Result<Vec<Value>, Failed> {
        let OpenCombine { at, options, leaves, in_front, params, trace, .. } = self;
        check_combined(at, &params, &leaves, combined);
        let closed = trace.close(combined)?;
        let op = AssociativeScan { combine: Arc::new(closed.graph), leaves: leaves.len(), reverse: options.reverse };
        let operands: Vec<Value> = in_front.into_iter().chain(closed.captures).collect();
        let ys = emit_at(op, &operands, at.site)?.into_iter();
        Ok(at_site(at.site, || ys.map(|y| y.move_axis(0, options.axis)).collect()))
    }
}

/// Moves the scanned axis of a leaf to the front. Records an error in the open graph if the leaf does not have this
/// axis.
fn move_axis_to_front(at: &Place, name: &str, value: Value, axis: i64) -> Value {
    if value.is_failed() {
        return value;
    }
    let ty = value.ty();
    let rank = ty.rank() as i64;
    if rank == 0 {
        let fix = "capture a value that all combinations share";
        let expected = "rank 1 or more, to have elements";
        return fail_mismatch(at, &[value], format!("leaf `{name}`"), expected, &ty, fix).into();
    }
    if !(-rank..rank).contains(&axis) {
        let (expected, found) = (format!("an axis from -{rank} to {}", rank - 1), format!("axis {axis} of {ty}"));
        let (component, fix) = (format!("the axis of leaf `{name}`"), "name an axis that every leaf has");
        return fail_mismatch(at, &[value], component, expected, found, fix).into();
    }
    value.move_axis(axis, 0)
}

/// Checks that all leaves have the same number of rows (associative-c1). The error names the leaf that differs.
fn check_lengths(at: &Place, leaves: &[(String, Value)]) {
    let Some((first_name, first)) = leaves.first() else {
        fail_mismatch(at, &[], "the structure of `xs`", "one leaf or more", "no leaves", "scan over a tensor");
        return;
    };
    if leaves.iter().any(|(_, value)| value.is_failed()) {
        return;
    }
    let expected = first.dim(0);
    if let Some((name, value)) = leaves.iter().find(|(_, value)| value.dim(0) != expected) {
        let expected = format!("{expected} elements, like leaf `{first_name}`");
        let found = format!("{} elements, in {}", value.dim(0), value.ty());
        let fix = "slice the longer leaf, or give both one symbol";
        fail_mismatch(at, &[*first, *value], format!("leaf `{name}`"), expected, found, fix);
    }
}

/// Checks that `combine` returns the structure and the types of an element (associative-c2). The error names the leaf
/// that differs.
fn check_combined(
    at: &Place,
    params: &[(String, TensorType)],
    leaves: &[(String, Value)],
    results: &[(String, Value)],
) {
    if leaves.iter().chain(results).any(|(_, value)| value.is_failed()) {
        return;
    }
    let fix = "return an element with the structure of the given ones";
    if check_names(at, "the structure of the result of `combine`", leaves, results, fix) {
        let shape = "return a value of the element's shape: it is not broadcast";
        let fixes = ["the result", shape, "return a value of the element's type"];
        for ((_, expected), (name, value)) in params.iter().zip(results) {
            check_type(at, &format!("leaf `{name}` of the result of `combine`"), expected, *value, fixes);
        }
    }
}
