//! Builds common recurrences for cases with taps. Each function takes a step function and a sequence, a state or a
//! buffer. Callers set the options, such as the number of steps, on the `Recurrence` that they pass.

use funcify::{Recurrence, Tree, Value};

/// Runs a loop without state. Each step maps the rows of `xs` at the taps to a y. Returns the ys.
pub(super) fn stencil<Y: Tree, const N: usize>(
    loop_: &mut Recurrence,
    xs: Value,
    taps: [i64; N],
    step: impl FnOnce([Value; N]) -> Y,
) -> Y {
    let rows = loop_.sequence(xs, taps);
    loop_.run(|at| step(at.read(&rows))).ys
}

/// Runs a loop without sequences. Each step maps the rows of the state at the taps to the next row of the state.
/// Returns the trace.
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

/// Runs a loop whose steps map a state to the next state. Returns the trace.
pub(super) fn repeated(loop_: &mut Recurrence, init: Value, step: impl FnOnce(Value) -> Value) -> Value {
    state(loop_, init.unsqueeze(0), [-1], |[old]| step(old))
}

/// Runs a loop over a sequence. Each step maps a row of `xs`, and the rows of the state at the taps, to the next row of
/// the state. Returns the trace.
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

/// Runs a cumulative operation, such as a sum or a product. Each step maps a row of `xs` and the previous state to
/// the next state. Returns the trace.
pub(super) fn running(
    loop_: &mut Recurrence,
    xs: Value,
    init: Value,
    step: impl FnOnce(Value, Value) -> Value,
) -> Value {
    driven(loop_, xs, init.unsqueeze(0), [-1], |x, [old]| step(x, old))
}

/// Runs a loop over a buffer, and returns its final rows. Each step maps a row of each sequence in `xs` and the
/// buffer's rows at the taps `reads` to the rows at the taps `writes`.
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
