//! The rest of the control flow: `map` and `fori_loop`.

use funcify::{Builder, fori_loop, map};

use super::{Cases, empty, gives, gives_dynamic, row, scalar};
use crate::cases::outputs;
use crate::suite::Case;

pub(super) fn cases() -> Cases {
    let mut cases = vec![map_over_nothing()?];
    for (name, lower, upper) in [("negative", 5, 2), ("empty", 3, 3), ("below_zero", -4, -6)] {
        cases.push(fori_over_constants(name, lower, upper, 7)?);
        cases.push(fori_over_inputs(name, lower, upper, 7)?);
    }
    cases.push(fori_over_constants("from_below_zero", -2, 2, 7 - 2 - 1 + 1)?);
    cases.push(fori_over_inputs("from_below_zero", -2, 2, 7 - 2 - 1 + 1)?);
    cases.push(fori_over_a_size()?);
    Ok(cases)
}

/// 68. A map over no rows, whose results are rows of 2.
fn map_over_nothing() -> Result<Case, String> {
    let program = |g: &Builder| {
        let w = g.input("w", "f32[2]");
        outputs! { ys: map(g.input("xs", "f32[T]"), |x| x * w) }
    };
    let inputs = [row([1f32, 2.]), empty::<f32, 1>([0])];
    gives("map_over_nothing", program, inputs, [("ys", empty::<f32, 2>([0, 2]))])
}

/// 76. A sum over a range of constants; over a range without numbers it is the initial value.
fn fori_over_constants(name: &str, lower: i64, upper: i64, sum: i64) -> Result<Case, String> {
    let program = |g: &Builder| {
        let init = g.input("init", "i64[]");
        outputs! { sum: fori_loop(lower, upper, init, |i, sum| sum + i) }
    };
    gives(&format!("fori_over_constants_{name}"), program, [scalar(7i64)], [("sum", scalar(sum))])
}

/// 76. The same of inputs.
fn fori_over_inputs(name: &str, lower: i64, upper: i64, sum: i64) -> Result<Case, String> {
    let program = |g: &Builder| {
        let (lower, upper) = (g.input("lower", "i64[]"), g.input("upper", "i64[]"));
        outputs! { sum: fori_loop(lower, upper, g.input("init", "i64[]"), |i, sum| sum + i) }
    };
    let inputs = [scalar(lower), scalar(upper), scalar(7i64)];
    gives_dynamic(&format!("fori_over_inputs_{name}"), program, inputs, [("sum", scalar(sum))])
}

/// A range whose bounds are symbolic: 1 to T.
fn fori_over_a_size() -> Result<Case, String> {
    let program = |g: &Builder| {
        let xs = g.input("xs", "f32[T]");
        outputs! { last: fori_loop(1, "T", xs.index(0, 0), |i, best| best * 2.0 + xs.take(0, i)) }
    };
    gives("fori_over_a_size", program, [row([1f32, 10., 100.])], [("last", scalar(124f32))])
}
