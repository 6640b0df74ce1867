//! Control flow other than scans: `map`, `fori_loop`, `cond`, `switch` and `while_loop`.

use funcify::switch;

use super::*;

pub(super) fn cases() -> Cases {
    let mut cases = all([
        // A map over no rows returns an empty result. A captured value determines the row shape of this result.
        case("map_over_nothing", |g| {
            let w = g.input("w", "f32[2]");
            outputs! { ys: map(g.input("xs", "f32[T]"), |x| x * w) }
        })
        .on([row([1f32, 2.]), empty::<f32, 1>([0])])
        .gives([("ys", empty::<f32, 2>([0, 2]))]),
    ])?;
    for (name, lower, upper) in [("negative", 5, 2), ("empty", 3, 3), ("below_zero", -4, -6)] {
        cases.push(fori_over_constants(name, lower, upper, 7)?);
        cases.push(fori_over_inputs(name, lower, upper, 7)?);
    }
    cases.push(fori_over_constants("from_below_zero", -2, 2, 7 - 2 - 1 + 1)?);
    cases.push(fori_over_inputs("from_below_zero", -2, 2, 7 - 2 - 1 + 1)?);
    cases.push(fori_over_a_size()?);
    for (index, y) in [(-5, 1f32), (0, 1.), (2, 30.), (3, 40.), (9, 40.)] {
        cases.push(switch_by_input(index, y)?);
        cases.push(switch_by_constant(index, y)?);
    }
    for index in [HostTensor::scalar(200u8), HostTensor::scalar(200u32), HostTensor::scalar(200i32)] {
        cases.push(switch_by_other_integers(index)?);
    }
    cases.extend(all([
        // The condition always holds, but the loop has an empty carry and therefore no results. No output depends on
        // the loop, so it must not run.
        case_on("while_with_an_empty_carry", [("x: f32[]", scalar(1f32))])
            .runs(|[x]| {
                while_loop((), |()| x.gt(0.0), |()| ());
                outputs! { x }
            })
            .gives([("x", scalar(1f32))]),
        // The condition is false at the start, so the result is the initial carry.
        case("while_that_does_not_begin", |g| {
            let start = (g.input("x", "f32[2]"), g.input("n", "i64[]"));
            let (x, n) = while_loop(start, |(_, n)| n.lt(0), |(x, n)| (x * f64::NAN, n - 1));
            outputs! { x, n }
        })
        .on([row([1f32, 2.]), scalar(3i64)])
        .gives_dynamic([("n", scalar(3i64)), ("x", row([1f32, 2.]))]),
        // The trip count of the inner loop is the index of the outer loop, so the inner loop runs 0 + 1 + 2 + 3 + 4
        // steps in total.
        case_on("while_counts_with_the_outer_index", [("zero: i64[]", scalar(0i64))])
            .runs(|[zero]| {
                let outer = |(i, total)| {
                    let (_, total) =
                        while_loop((constant(0i64), total), |(j, _)| j.lt(i), |(j, total)| (j + 1, total + 1));
                    (i + 1, total)
                };
                let (_, total) = while_loop((constant(0i64), zero), |(i, _)| i.lt(5), outer);
                outputs! { total }
            })
            .gives_dynamic([("total", scalar(10i64))]),
        // The condition captures a value that is computed from an input.
        case("while_with_a_captured_limit", |g| {
            let limit = g.input("limits", "f32[T]").max(0) + 1.0;
            outputs! { x: while_loop(g.input("x", "f32[]"), |x| x.lt(limit), |x| x * 2.0) }
        })
        .on([row([5f32, 9., 3.]), scalar(1f32)])
        .gives_dynamic([("x", scalar(16f32))]),
        // The body of a loop without steps contains an endless loop. The endless loop must not run, although it is
        // loop-invariant and could be hoisted.
        case("endless_while_in_a_loop_without_steps", |g| {
            let w = g.input("w", "f32[]");
            let (last, ()) = scan(g.input("init", "f32[]"), g.input("xs", "f32[T]"), |c, x| {
                (c + x * while_loop(w, |w| w.gt(0.0), |w| w * 1.0), ())
            });
            outputs! { last }
        })
        .on([scalar(1f32), scalar(5f32), empty::<f32, 1>([0])])
        .gives([("last", scalar(5f32))]),
    ])?);
    for (bound, n) in [(0, 0), (3, 3), (9, 5)] {
        cases.push(while_with_a_bound(bound, n)?);
    }
    cases.extend(all([
        // The bound is the size of an input, so the loop can be unrolled.
        case_on("while_bounded_by_a_size", [("xs: f32[T]", row([1f32, 2., 3.]))])
            .runs(|[xs]| {
                let start = (constant(0i64), xs.index(0, 0).zeros_like());
                let step = |(i, sum): (Value, Value)| (i + 1, sum + xs.take(0, i));
                let (i, sum) = while_loop_bounded("T", start, |(_, sum)| sum.lt(100.0), step);
                outputs! { i, sum }
            })
            .gives([("i", scalar(3i64)), ("sum", scalar(6f32))]),
        // Each step of a scan runs a bounded while loop whose condition captures the row, so some of these loops exit
        // before they reach the bound.
        case("while_in_a_loop_with_a_bound", |g| {
            let start = g.input("start", "f32[]");
            let ((), ys) =
                scan((), g.input("xs", "f32[T]"), |(), x| ((), while_loop_bounded(3, start, |y| y.lt(x), |y| y * 2.0)));
            outputs! { ys }
        })
        .on([scalar(1f32), row([3f32, 100., 0.])])
        .gives([("ys", row([4f32, 8., 1.]))]),
        // One branch ignores an operand that the other branch uses. This case does not check the gradient.
        case("branch_that_ignores_an_operand", |g| {
            let (p, x, w) = (g.input("p", "bool[]"), g.input("x", "f32[2]"), g.input("w", "f32[2]"));
            outputs! { y: cond(p, || x, || x * w), both: cond(!p, || x, || x * w) }
        })
        .on([scalar(true), row([1f32, 2.]), row([3f32, 4.])])
        .gives([("both", row([3f32, 8.])), ("y", row([1f32, 2.]))]),
        // The branches of this `cond` have no results.
        case_on("branch_without_results", [("p: bool[]", scalar(true)), ("x: f32[]", scalar(1f32))])
            .runs(|[p, x]| {
                cond(p, || (), || ());
                outputs! { y: x }
            })
            .gives([("y", scalar(1f32))]),
        // Each branch of the `cond` is a loop.
        case_on("choice_of_loops", [("n: i64[]", scalar(0i64)), ("xs: f32[T]", row([4f32, 1.]))])
            .runs(|[n, xs]| {
                let sum = || scan(xs.index(0, 0), xs, |sum, x| (sum + x, ())).0;
                outputs! { y: cond(n.gt(0), sum, || fori_loop(0, 1, xs.index(0, 0), |_, x| x * 0.5)) }
            })
            .gives([("y", scalar(2f32))]),
        // The loop contains one loop-invariant `cond`, and one whose predicate depends on the step.
        case("invariant_choice_in_a_loop", |g| {
            let (p, w) = (g.input("p", "bool[]"), g.input("w", "f32[]"));
            let (_, ys) = scan(g.input("init", "f32[]"), g.input("xs", "f32[T]"), |c, x| {
                let factor = cond(p, || w + 1.0, || w);
                let c = cond(x.gt(0.0), || c + x * factor, || c);
                (c, c)
            });
            outputs! { ys }
        })
        .on([scalar(true), scalar(1f32), scalar(0f32), row([1f32, -5., 2.])])
        .gives([("ys", row([2f32, 2., 6.]))]),
    ])?);
    Ok(cases)
}

/// Builds a case whose `fori_loop` starts with 7 and adds the integers of a range with constant bounds. For an empty
/// range, the result is 7.
fn fori_over_constants(name: &str, lower: i64, upper: i64, sum: i64) -> OneCase {
    case_on(format!("fori_over_constants_{name}"), [("init: i64[]", scalar(7i64))])
        .runs(|[init]| outputs! { sum: fori_loop(lower, upper, init, |i, sum| sum + i) })
        .gives([("sum", scalar(sum))])
}

/// Builds the same case as [`fori_over_constants`], but with bounds that are inputs.
fn fori_over_inputs(name: &str, lower: i64, upper: i64, sum: i64) -> OneCase {
    case(format!("fori_over_inputs_{name}"), |g| {
        let (lower, upper) = (g.input("lower", "i64[]"), g.input("upper", "i64[]"));
        outputs! { sum: fori_loop(lower, upper, g.input("init", "i64[]"), |i, sum| sum + i) }
    })
    .on([scalar(lower), scalar(upper), scalar(7i64)])
    .gives_dynamic([("sum", scalar(sum))])
}

/// Builds a case whose `fori_loop` runs from 1 to the symbolic size T.
fn fori_over_a_size() -> OneCase {
    case_on("fori_over_a_size", [("xs: f32[T]", row([1f32, 10., 100.]))])
        .runs(|[xs]| outputs! { last: fori_loop(1, "T", xs.index(0, 0), |i, best| best * 2.0 + xs.take(0, i)) })
        .gives([("last", scalar(124f32))])
}

/// Builds a case that selects a branch by an index that is an input. An index that is out of range is clamped.
fn switch_by_input(index: i64, y: f32) -> OneCase {
    case_on(format!("switch_by_input_{index}"), [("index: i64[]", scalar(index)), ("x: f32[]", scalar(1f32))])
        .runs(|[index, x]| outputs! { y: switch(index, [&|| x, &|| x * 20.0, &|| x * 30.0, &|| x * 40.0]) })
        .gives([("y", scalar(y))])
}

/// Builds a case that selects a branch by a constant index. The unrolled program contains only that branch.
fn switch_by_constant(index: i64, y: f32) -> OneCase {
    case_on(format!("switch_by_constant_{index}"), [("x: f32[]", scalar(1f32))])
        .runs(|[x]| outputs! { y: switch(constant(index), [&|| x, &|| x * 20.0, &|| x * 30.0, &|| x * 40.0]) })
        .gives([("y", scalar(y))])
}

/// Builds a case that selects a branch by an index of an integer type other than i64. The index is out of range.
fn switch_by_other_integers(index: HostTensor) -> OneCase {
    let ty = index.ty();
    case(format!("switch_by_{}", ty.dtype), |g| {
        let (index, x) = (g.input("index", &ty), g.input("x", "f32[]"));
        outputs! { y: switch(index, [&|| x, &|| x + 1.0]) }
    })
    .on([index, scalar(1f32)])
    .gives([("y", scalar(2f32))])
}

/// Builds a case whose while loop counts from 0 to 5, but runs at most `bound` steps. `n` is the expected count.
fn while_with_a_bound(bound: i64, n: i64) -> OneCase {
    case(format!("while_with_bound_{bound}"), |g| {
        outputs! { n: while_loop_bounded(bound, g.input("n", "i64[]"), |n| n.lt(5), |n| n + 1) }
    })
    .on([scalar(0i64)])
    .gives([("n", scalar(n))])
}
