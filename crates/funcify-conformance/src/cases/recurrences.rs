//! Recurrences with one state or none, which most cases of taps share. The `Recurrence` that a caller passes has the
//! options, such as the number of steps.

use funcify::{Recurrence, Tree, Value};

/// Returns the ys of steps that map the rows of `xs` at the taps.
pub(super) fn stencil<Y: Tree, const N: usize>(
    loop_: &mut Recurrence,
    xs: Value,
    taps: [i64; N],
    step: impl FnOnce([Value; N]) -> Y,
) -> Y {
    let rows = loop_.sequence(xs, taps);
    loop_.run(|at| step(at.read(&rows))).ys
}

/// Returns the trace of a state: each step maps the rows at the taps to the next row.
pub(super) fn state<const N: usize>(
    loop_: &mut Recurrence,
    init: Value,
    taps: [i64; N],
    step: impl FnOnce([Value; N]) -> Value,
) -> Value {
    let state = loop_.mit_sot(init, taps);
    let done = loop_.run(|at| {
        let next = step(at.read(&state));
        at.write(&state, next);
    });
    done.trace(&state)
}

/// Returns the trace of a state that depends only on the row before.
pub(super) fn repeated(loop_: &mut Recurrence, init: Value, step: impl FnOnce(Value) -> Value) -> Value {
    state(loop_, init.unsqueeze(0), [-1], |[old]| step(old))
}

/// Returns the trace of a state with an input: each step maps a row of `xs` and the rows at the taps to the next row.
pub(super) fn driven<const N: usize>(
    loop_: &mut Recurrence,
    xs: Value,
    init: Value,
    taps: [i64; N],
    step: impl FnOnce(Value, [Value; N]) -> Value,
) -> Value {
    let (x, state) = (loop_.sequence(xs, [0]), loop_.mit_sot(init, taps));
    let done = loop_.run(|at| {
        let next = step(at.read(&x)[0], at.read(&state));
        at.write(&state, next);
    });
    done.trace(&state)
}

/// Returns the trace of a cumulative sum, product or similar: each step maps a row of `xs` and the row before to the
/// next row.
pub(super) fn running(
    loop_: &mut Recurrence,
    xs: Value,
    init: Value,
    step: impl FnOnce(Value, Value) -> Value,
) -> Value {
    driven(loop_, xs, init.unsqueeze(0), [-1], |x, [old]| step(x, old))
}

/// Returns the final rows of a buffer: each step maps rows of the sequences `xs` and the rows at the taps `reads` to
/// the rows at the taps `writes`.
pub(super) fn sweep<const R: usize, const W: usize, const X: usize>(
    loop_: &mut Recurrence,
    buffer: Value,
    reads: [i64; R],
    writes: [i64; W],
    xs: [Value; X],
    step: impl FnOnce([Value; X], [Value; R]) -> [Value; W],
) -> Value {
    let buffer = loop_.mit_mot(buffer, reads, writes);
    let xs = xs.map(|x| loop_.sequence(x, [0]));
    let done = loop_.run(|at| {
        let rows = step(xs.map(|x| at.read(&x)[0]), at.read(&buffer));
        at.write(&buffer, rows);
    });
    done.buffer(&buffer)
}
