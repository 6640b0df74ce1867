//! The loop with an early exit: `scan_until(init, xs, |carry, x| (carry, y, stop))`.

use super::build::repeat;
use super::*;

/// Runs a [`scan`](super::scan()) with an early exit: `(carry, y, stop) = body(carry, x)`. The loop ends after the
/// first step whose `stop`, a boolean scalar, is true. The carry and the `y` of this step are kept. If `stop` is never
/// true, the loop runs over all rows of `xs`.
///
/// The ys have one row for each step that ran. The number of these steps is known only after the loop. This number is
/// the dimension `ys.dim(0)`, which [`size`](crate::size) converts to a value. A compiled loop checks `stop` itself. In
/// other programs, the host reads `stop` after each step.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate, scan_until};
///
/// let graph = Graph::build("until_negative", |g| {
///     let (init, xs) = (g.input("init", "f32[]"), g.input("xs", "f32[T]"));
///     scan_until(init, xs, |sum, x| (sum + x, sum + x, x.lt(0.0)))
/// })?;
/// let results = evaluate(&graph, &[HostTensor::scalar(0f32), HostTensor::from([1f32, 2.0, -1.0, 5.0])])?;
/// assert_eq!(results, [HostTensor::scalar(2f32), HostTensor::from([1f32, 3.0, 2.0])]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn scan_until<C: Tree, X: Tree, Y: Tree>(init: C, xs: X, body: impl FnOnce(C, X) -> (C, Y, Value)) -> (C, Y) {
    scan_until_with(ScanOptions::new(), init, xs, body)
}

/// Runs a [`scan_until`] with the given options. [`length`](ScanOptions::length) sets the maximum number of steps.
///
/// With [`reverse`](ScanOptions::reverse), the loop starts at the last row of `xs`. The ys then correspond to the last
/// rows of `xs`, and are in the same order as these rows.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, ScanOptions, evaluate, scan_until_with};
///
/// let doubled = Graph::build("doubled", |g| {
///     let options = ScanOptions::new().length(100);
///     scan_until_with(options, g.input("x", "f32[]"), (), |x, ()| (x * 2.0, (), x.gt(4.0))).0
/// })?;
/// assert_eq!(evaluate(&doubled, &[3f32.into()])?, [12f32.into()]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn scan_until_with<C: Tree, X: Tree, Y: Tree>(
    options: ScanOptions,
    init: C,
    xs: X,
    body: impl FnOnce(C, X) -> (C, Y, Value),
) -> (C, Y) {
    let at = Place::new("scan", Site::caller());
    repeat(&at, options, None, init, xs, |carry, x| {
        let (carry, y, stop) = body(carry, x);
        (carry, y, Some(stop))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Graph, HostTensor, Recurrence, evaluate};

    fn check<T: Tree, const N: usize>(program: impl FnOnce(&Builder) -> T, xs: [f32; N], expected: &[&[f32]]) {
        let graph = Graph::build("loop", program).unwrap();
        graph.check().unwrap();
        let text = graph.to_string();
        let parsed = Graph::parse(&text).unwrap();
        assert_eq!(parsed.to_string(), text);
        let results = evaluate(&graph, &[HostTensor::from(xs)]).unwrap();
        let results: Vec<&[f32]> = results.iter().map(|result| result.as_slice::<f32>().unwrap()).collect();
        assert_eq!(results, expected);
    }

    /// Returns a program whose loop computes running sums of the input, and stops after the first sum above 5.
    fn sums(options: ScanOptions) -> impl FnOnce(&Builder) -> (Value, Value) {
        |g| {
            let xs = g.input("xs", "f32[T]");
            scan_until_with(options, xs.index(0, 0) * 0.0, xs, |sum, x| (sum + x, sum + x, (sum + x).gt(5.0)))
        }
    }

    #[test]
    fn c6_the_step_that_stops_counts() {
        check(sums(ScanOptions::new()), [9., 1.], &[&[9.], &[9.]]);
        check(sums(ScanOptions::new()), [1., 2., 3., 4.], &[&[6.], &[1., 3., 6.]]);
    }

    #[test]
    fn c6_a_loop_that_does_not_stop_runs_to_the_end() {
        check(sums(ScanOptions::new()), [1., 2., 1.], &[&[4.], &[1., 3., 4.]]);
    }

    #[test]
    fn c6_a_downward_loop_keeps_the_last_rows() {
        check(sums(ScanOptions::new().reverse()), [1., 2., 3., 4.], &[&[7.], &[7., 4.]]);
    }

    #[test]
    fn c6_full_buffers_keep_all_rows() {
        let program = |g: &Builder| {
            let mut loop_ = Recurrence::new();
            let rows = loop_.mit_mot(g.input("xs", "f32[T]"), [0, 1], [1]);
            let done = loop_.run(|step| {
                let [x, y] = step.read(&rows);
                step.write(&rows, [x + y]);
                step.until((x + y).gt(5.0));
            });
            done.buffer(&rows)
        };
        check(program, [1., 2., 3., 4., 5.], &[&[1., 3., 6., 4., 5.]]);
    }

    #[test]
    fn either_of_two_conditions_ends_the_loop() {
        let program = |g: &Builder| {
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
            loop_
                .run(|step| {
                    let [x] = step.read(&x);
                    step.until(x.gt(5.0));
                    step.until(x.lt(0.0));
                    x
                })
                .ys
        };
        check(program, [1., 7., 2.], &[&[1., 7.]]);
        let again = |g: &Builder| program(g);
        check(again, [1., -1., 2.], &[&[1., -1.]]);
    }
}
