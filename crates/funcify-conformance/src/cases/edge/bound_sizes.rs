//! Slices and tensors whose sizes the program computes with `bind_size`, in loop bodies, in branches, under `vmap`, and
//! in derivatives. Some sizes are zero, negative, or too large.

use funcify::{bind_size, full, grad, hvp, vmap};

use super::*;

pub(super) fn cases() -> Cases {
    all([
        // Splits a sequence at a computed index, the number of positive elements.
        case("bound_size_of_a_slice", |g| {
            let xs = g.input("xs", "f32[T]");
            let n = bind_size(xs.gt(0.0).cast(DType::I64).sum(0));
            outputs! { head: xs.slice(0, ..n.clone()), rest: xs.slice(0, n.clone()..), count: size(n * 2, DType::I64) }
        })
        .on([row([3f32, -1., 2., 4.])])
        .gives([("head", row([3f32, -1., 2.])), ("rest", row([4f32])), ("count", scalar(6i64))]),
        // Creates three tensors of a computed size, with `full`, `iota` and `broadcast_to`.
        case_on("bound_size_of_an_allocation", [("x: f32[]", scalar(7f32)), ("n: i64[]", scalar(2i64))])
            .runs(|[x, n]| {
                let n = bind_size(n + 1);
                let rows = full([n.clone(), 2.into()], DType::F32, 0.5);
                outputs! { rows, numbers: iota(n.clone(), DType::I64), repeated: x.broadcast_to([n]) }
            })
            .gives([
                ("rows", tensor([3, 2], [0.5f32; 6])),
                ("numbers", row([0i64, 1, 2])),
                ("repeated", row([7f32, 7., 7.])),
            ]),
        case("bound_size_of_nothing", |g| {
            let head = head(g.input("xs", "f32[T,2]"), g.input("n", "i64[]"));
            outputs! { head, sum: head.sum(0) }
        })
        .on([tensor([2, 2], [1f32, 2., 3., 4.]), scalar(0i64)])
        .gives([("head", empty::<f32, 2>([0, 2])), ("sum", row([0f32, 0.]))]),
        case_on("bound_size_of_u32", [("xs: f32[T]", row([1f32, 2., 4.])), ("n: u32[]", scalar(2u32))])
            .runs(|[xs, n]| head(xs, n))
            .gives([("out", row([1f32, 2.]))]),
        // Each step sums the first rows of the captured `xs`. The number of rows differs from step to step.
        case_on(
            "bound_size_in_each_step",
            [("xs: f32[T]", row([1f32, 2., 4.])), ("counts: i64[B]", row([1i64, 3, 0, 2]))],
        )
        .runs(|[xs, counts]| {
            scan(xs.index(0, 0) * 0.0, counts, |sum, n| (sum + head(xs.exp(), n).sum(0), head(xs, n).sum(0))).1
        })
        .gives([("out", row([1f32, 7., 0., 3.]))]),
        case_on("bound_size_in_a_while", [("xs: f32[T]", row([1f32, 2., 4.])), ("n: i64[]", scalar(3i64))])
            .runs(|[xs, n]| {
                let start = (n, xs.index(0, 0) * 0.0);
                while_loop(start, |(n, _)| n.gt(0), |(n, sum)| (n - 1, sum + head(xs, n).sum(0))).1
            })
            .gives_dynamic([("out", scalar(11f32))]),
        // A computed number of rows determines the trip count of a loop.
        case_on("bound_size_of_steps", [("xs: f32[T]", row([1f32, 2., 4.])), ("n: i64[]", scalar(2i64))])
            .runs(|[xs, n]| scan(xs.index(0, 0) * 0.0, head(xs, n), |sum, x| (sum + x, sum + x)).1)
            .gives_dynamic([("out", row([1f32, 3.]))]),
        in_a_branch(3, 7.),
        in_a_branch(-3, -1.),
        case_on("bound_size_gradient", [("xs: f32[T]", row([1f32, 2., 4., 8.])), ("n: i64[]", scalar(3i64))])
            .runs(|[xs, n]| grad(xs, |xs| weighted(xs, n)))
            .gives([("out", row([0f32, 4., 16., 0.]))]),
        case_on("bound_size_second_derivative", [("xs: f32[T]", row([1f32, 2., 4., 8.])), ("n: i64[]", scalar(3i64))])
            .runs(|[xs, n]| hvp(xs, xs.ones_like(), |xs| weighted(xs, n)))
            .gives([("out", row([0f32, 2., 4., 0.]))]),
        case_on(
            "bound_size_gradient_in_a_loop",
            [("xs: f32[T]", row([1f32, 2., 4., 8.])), ("counts: i64[B]", row([2i64, 0, 3]))],
        )
        .runs(|[xs, counts]| {
            grad(xs, |xs| scan(xs.index(0, 0) * 0.0, counts, |sum, n| (sum + head(xs.square(), n).sum(0), ())).0)
        })
        .gives([("out", row([4f32, 8., 8., 0.]))]),
        case_on(
            "bound_size_shared_by_lanes",
            [("xs: f32[B,3]", tensor([2, 3], [1f32, 2., 4., 2., 0., 1.])), ("n: i64[]", scalar(2i64))],
        )
        .runs(|[xs, n]| vmap(xs, |xs| head(xs, n)))
        .gives([("out", tensor([2, 2], [1f32, 2., 2., 0.]))]),
        // Each lane computes a sum over a tensor. The size of this tensor differs from lane to lane.
        case_on("bound_size_of_each_lane", [("x: f32[B]", row([1f32, 2., 3.])), ("n: i64[B]", row([3i64, 0, 2]))])
            .runs(|[x, n]| {
                let sum = |x: Value, n: Value| {
                    let n = bind_size(n);
                    (x.square().broadcast_to([n.clone()]) * iota(n, DType::F32)).sum(0)
                };
                let slopes = vmap((x, n), |(x, n)| grad(x, |x| sum(x, n)));
                outputs! { sums: vmap((x, n), |(x, n)| sum(x, n)), slopes }
            })
            .gives([("sums", row([3f32, 0., 9.])), ("slopes", row([6f32, 0., 6.]))]),
        // One tensor in a concatenation has a different size in each lane, so the next tensor starts at a different
        // position in each lane.
        case("bound_size_between_others_of_each_lane", |g| {
            let (xs, ys, ns) = (g.input("xs", "f32[2]"), g.input("ys", "f32[3]"), g.input("n", "i64[B]"));
            let joined = move |n: Value| {
                let n = bind_size(n);
                let part = iota(n.clone(), DType::F32) + 1.0;
                let all = concat(&[xs, part, ys], 0);
                (all * (iota(n + 5, DType::F32) + 1.0)).sum(0)
            };
            vmap(ns, joined)
        })
        .on([row([1f32, 2.]), row([4f32, 8., 16.]), row([0i64, 2, 3])])
        .gives([("out", row([129f32, 196., 239.]))]),
        // Lanes with a negative `n` do not take the branch that uses `n` as a size, so they must not fail.
        case("bound_size_in_a_branch_of_some_lanes", |g| {
            vmap(g.input("n", "i64[B]"), |n| {
                cond(n.ge(0), || iota(bind_size(n), DType::F32).sum(0), || n.cast(DType::F32) * 0.0 - 1.0)
            })
        })
        .on([row([-3i64, 4, 0])])
        .gives([("out", row([-1f32, 6., 0.]))]),
        case_on("bound_size_that_is_negative", [("n: i64[]", scalar(-3i64))])
            .runs(|[n]| iota(bind_size(n), DType::F32).sum(0))
            .fails("Type"),
        case_on(
            "bound_size_that_is_negative_in_a_step",
            [("xs: f32[T]", row([1f32, 2.])), ("counts: i64[B]", row([1i64, -1]))],
        )
        .runs(|[xs, counts]| scan(xs.index(0, 0), counts, |sum, n| (sum + head(xs, n).sum(0), ())).0)
        .fails("Type"),
        case_on("bound_size_beyond_memory", [("n: i64[]", scalar(1i64 << 50))])
            .runs(|[n]| iota(bind_size(n), DType::F32).sum(0))
            .fails("OverBudget"),
    ])
}

/// Returns the first `n` rows of `xs`.
fn head(xs: Value, n: Value) -> Value {
    xs.slice(0, ..bind_size(n))
}

/// Builds a case that binds `n` as a size in a branch that runs only if `n` is not negative.
fn in_a_branch(n: i64, expected: f32) -> OneCase {
    case(if n < 0 { "bound_size_of_another_branch" } else { "bound_size_of_a_branch" }, |g| {
        let (xs, n) = (g.input("xs", "f32[T]"), g.input("n", "i64[]"));
        cond(n.ge(0), || head(xs, n).sum(0), || xs.index(0, 0) * -1.0)
    })
    .on([row([1f32, 2., 4.]), scalar(n)])
    .gives([("out", scalar(expected))])
}

/// Returns the sum of `i * xs[i]^2` over the first `n` rows of `xs`.
fn weighted(xs: Value, n: Value) -> Value {
    let n = bind_size(n);
    (xs.slice(0, ..n.clone()).square() * iota(n, DType::F32)).sum(0)
}
