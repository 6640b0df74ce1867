//! Category `while`: loops that count, and loops that run as long as a condition holds.

use funcify::{fori_loop, stack};

use super::{Inputs, Outputs, Program, outputs};

pub(super) const PROGRAMS: &[(&str, Program)] = &[
    ("fori_rising_factorial", fori_rising_factorial),
    ("fori_input_bounds", fori_input_bounds),
    ("fori_zero_trips", fori_zero_trips),
    ("fori_fill_buffer", fori_fill_buffer),
];

fn fori_rising_factorial(g: &Inputs<'_>) -> Outputs {
    let [x] = g.get(["x"]);
    outputs! { p: fori_loop(1, 6, x.ones_like(), |i, p| p * (x + i.cast(x.dtype()))) }
}

/// Both bounds are inputs.
fn fori_input_bounds(g: &Inputs<'_>) -> Outputs {
    let [x, low, high] = g.get(["x", "low", "high"]);
    outputs! { s: fori_loop(low, high, x, |i, s| s.sin() * i.cast(x.dtype()) + x) }
}

fn fori_zero_trips(g: &Inputs<'_>) -> Outputs {
    let [x, w] = g.get(["x", "w"]);
    outputs! { s: fori_loop(3, 3, x, |_, s| s * w) }
}

/// Rows are written into a carried buffer.
fn fori_fill_buffer(g: &Inputs<'_>) -> Outputs {
    let [start, a] = g.get(["start", "a"]);
    let zero = start.zeros_like();
    let buffer = fori_loop(1, 6, stack(&[start, zero, zero, zero, zero, zero], 0), |i, b| {
        let row = b.take(0, i - 1).sin() * a + b.index(0, 0);
        b.dynamic_update(0, row.unsqueeze(0), i)
    });
    outputs! { buffer }
}
