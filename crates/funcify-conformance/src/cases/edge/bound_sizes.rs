//! Sizes that the program computes (`bind_size`): slices to them, allocations of them, in bodies and branches, on lanes, in
//! derivatives; none, too many, and a negative number.

use funcify::{
    Builder, DType, HostTensor, Value, bind_size, concat, cond, full, grad, hvp, iota, scan, size, vmap, while_loop,
};

use super::{Cases, empty, fails, gives, gives_dynamic, row, scalar, tensor};
use crate::cases::outputs;
use crate::suite::Case;

pub(super) fn cases() -> Cases {
    Ok(vec![
        slice_to_a_count()?,
        allocation_of_a_count()?,
        no_rows()?,
        unsigned()?,
        in_each_step()?,
        in_a_conditional_loop()?,
        steps_of_a_loop()?,
        in_a_branch(3, 7.)?,
        in_a_branch(-3, -1.)?,
        gradient()?,
        second_derivative()?,
        gradient_in_a_loop()?,
        shared_by_lanes()?,
        own_of_each_lane()?,
        between_others_of_each_lane()?,
        branch_of_some_lanes()?,
        negative()?,
        negative_in_a_step()?,
        beyond_memory()?,
    ])
}

/// The first `n` rows.
fn head(xs: Value, n: Value) -> Value {
    xs.slice(0, ..bind_size(n))
}

/// As many rows as numbers are positive, and the others.
fn slice_to_a_count() -> Result<Case, String> {
    let program = |g: &Builder| {
        let xs = g.input("xs", "f32[T]");
        let n = bind_size(xs.gt(0.0).cast(DType::I64).sum(0));
        outputs! { head: xs.slice(0, ..n.clone()), rest: xs.slice(0, n.clone()..), count: size(n * 2, DType::I64) }
    };
    let expected = [("head", row([3f32, -1., 2.])), ("rest", row([4f32])), ("count", scalar(6i64))];
    gives("bound_size_of_a_slice", program, [row([3f32, -1., 2., 4.])], expected)
}

/// A tensor of one number, the numbers up to it, and a scalar repeated.
fn allocation_of_a_count() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (x, n) = (g.input("x", "f32[]"), g.input("n", "i64[]"));
        let n = bind_size(n + 1);
        let rows = full([n.clone(), 2.into()], DType::F32, 0.5);
        outputs! { rows, numbers: iota(n.clone(), DType::I64), repeated: x.broadcast_to([n]) }
    };
    let expected =
        [("rows", tensor([3, 2], [0.5f32; 6])), ("numbers", row([0i64, 1, 2])), ("repeated", row([7f32, 7., 7.]))];
    gives("bound_size_of_an_allocation", program, [scalar(7f32), scalar(2i64)], expected)
}

fn no_rows() -> Result<Case, String> {
    let program = |g: &Builder| {
        let head = head(g.input("xs", "f32[T,2]"), g.input("n", "i64[]"));
        outputs! { head, sum: head.sum(0) }
    };
    let inputs = [tensor([2, 2], [1f32, 2., 3., 4.]), scalar(0i64)];
    gives("bound_size_of_nothing", program, inputs, [("head", empty::<f32, 2>([0, 2])), ("sum", row([0f32, 0.]))])
}

fn unsigned() -> Result<Case, String> {
    let program = |g: &Builder| head(g.input("xs", "f32[T]"), g.input("n", "u32[]"));
    gives("bound_size_of_u32", program, [row([1f32, 2., 4.]), scalar(2u32)], [("out", row([1f32, 2.]))])
}

/// Each step sums another number of rows.
fn in_each_step() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        scan(xs.index(0, 0) * 0.0, counts, |sum, n| (sum + head(xs.exp(), n).sum(0), head(xs, n).sum(0))).1
    };
    let inputs = [row([1f32, 2., 4.]), row([1i64, 3, 0, 2])];
    gives("bound_size_in_each_step", program, inputs, [("out", row([1f32, 7., 0., 3.]))])
}

fn in_a_conditional_loop() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, n) = (g.input("xs", "f32[T]"), g.input("n", "i64[]"));
        let start = (n, xs.index(0, 0) * 0.0);
        while_loop(start, |(n, _)| n.gt(0), |(n, sum)| (n - 1, sum + head(xs, n).sum(0))).1
    };
    gives_dynamic("bound_size_in_a_while", program, [row([1f32, 2., 4.]), scalar(3i64)], [("out", scalar(11f32))])
}

/// A loop over so many rows.
fn steps_of_a_loop() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, n) = (g.input("xs", "f32[T]"), g.input("n", "i64[]"));
        scan(xs.index(0, 0) * 0.0, head(xs, n), |sum, x| (sum + x, sum + x)).1
    };
    gives_dynamic("bound_size_of_steps", program, [row([1f32, 2., 4.]), scalar(2i64)], [("out", row([1f32, 3.]))])
}

/// The branch that would bind a negative size is not taken.
fn in_a_branch(n: i64, expected: f32) -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, n) = (g.input("xs", "f32[T]"), g.input("n", "i64[]"));
        cond(n.ge(0), || head(xs, n).sum(0), || xs.index(0, 0) * -1.0)
    };
    let name = if n < 0 { "bound_size_of_another_branch" } else { "bound_size_of_a_branch" };
    gives(name, program, [row([1f32, 2., 4.]), scalar(n)], [("out", scalar(expected))])
}

/// The sum of `i * x^2` over the first rows.
fn weighted(xs: Value, n: Value) -> Value {
    let n = bind_size(n);
    (xs.slice(0, ..n.clone()).square() * iota(n, DType::F32)).sum(0)
}

fn gradient() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, n) = (g.input("xs", "f32[T]"), g.input("n", "i64[]"));
        grad(xs, |xs| weighted(xs, n))
    };
    let inputs = [row([1f32, 2., 4., 8.]), scalar(3i64)];
    gives("bound_size_gradient", program, inputs, [("out", row([0f32, 4., 16., 0.]))])
}

fn second_derivative() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, n) = (g.input("xs", "f32[T]"), g.input("n", "i64[]"));
        hvp(xs, xs.ones_like(), |xs| weighted(xs, n))
    };
    let inputs = [row([1f32, 2., 4., 8.]), scalar(3i64)];
    gives("bound_size_second_derivative", program, inputs, [("out", row([0f32, 2., 4., 0.]))])
}

fn gradient_in_a_loop() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        grad(xs, |xs| scan(xs.index(0, 0) * 0.0, counts, |sum, n| (sum + head(xs.square(), n).sum(0), ())).0)
    };
    let inputs = [row([1f32, 2., 4., 8.]), row([2i64, 0, 3])];
    gives("bound_size_gradient_in_a_loop", program, inputs, [("out", row([4f32, 8., 8., 0.]))])
}

fn shared_by_lanes() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, n) = (g.input("xs", "f32[B,3]"), g.input("n", "i64[]"));
        vmap(xs, |xs| head(xs, n))
    };
    let inputs = [tensor([2, 3], [1f32, 2., 4., 2., 0., 1.]), scalar(2i64)];
    gives("bound_size_shared_by_lanes", program, inputs, [("out", tensor([2, 2], [1f32, 2., 2., 0.]))])
}

/// What has a size of its own in each lane is reduced there.
fn own_of_each_lane() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (x, n) = (g.input("x", "f32[B]"), g.input("n", "i64[B]"));
        let sum = |x: Value, n: Value| {
            let n = bind_size(n);
            (x.square().broadcast_to([n.clone()]) * iota(n, DType::F32)).sum(0)
        };
        let slopes = vmap((x, n), |(x, n)| grad(x, |x| sum(x, n)));
        outputs! { sums: vmap((x, n), |(x, n)| sum(x, n)), slopes }
    };
    let inputs = [row([1f32, 2., 3.]), row([3i64, 0, 2])];
    let expected = [("sums", row([3f32, 0., 9.])), ("slopes", row([6f32, 0., 6.]))];
    gives("bound_size_of_each_lane", program, inputs, expected)
}

/// What follows a part with a size of its own in each lane begins where that ends.
fn between_others_of_each_lane() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, ys, ns) = (g.input("xs", "f32[2]"), g.input("ys", "f32[3]"), g.input("n", "i64[B]"));
        let joined = move |n: Value| {
            let n = bind_size(n);
            let part = iota(n.clone(), DType::F32) + 1.0;
            let all = concat(&[xs, part, ys], 0);
            (all * (iota(n + 5, DType::F32) + 1.0)).sum(0)
        };
        vmap(ns, joined)
    };
    let inputs = [row([1f32, 2.]), row([4f32, 8., 16.]), row([0i64, 2, 3])];
    gives("bound_size_between_others_of_each_lane", program, inputs, [("out", row([129f32, 196., 239.]))])
}

/// The lanes that take the other branch would give a negative size.
fn branch_of_some_lanes() -> Result<Case, String> {
    let program = |g: &Builder| {
        vmap(g.input("n", "i64[B]"), |n| {
            cond(n.ge(0), || iota(bind_size(n), DType::F32).sum(0), || n.cast(DType::F32) * 0.0 - 1.0)
        })
    };
    let expected = [("out", row([-1f32, 6., 0.]))];
    gives("bound_size_in_a_branch_of_some_lanes", program, [row([-3i64, 4, 0])], expected)
}

fn negative() -> Result<Case, String> {
    let program = |g: &Builder| iota(bind_size(g.input("n", "i64[]")), DType::F32).sum(0);
    fails("bound_size_that_is_negative", program, [scalar(-3i64)], "Type")
}

fn negative_in_a_step() -> Result<Case, String> {
    let program = |g: &Builder| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        scan(xs.index(0, 0), counts, |sum, n| (sum + head(xs, n).sum(0), ())).0
    };
    let inputs: [HostTensor; 2] = [row([1f32, 2.]), row([1i64, -1])];
    fails("bound_size_that_is_negative_in_a_step", program, inputs, "Type")
}

fn beyond_memory() -> Result<Case, String> {
    let program = |g: &Builder| iota(bind_size(g.input("n", "i64[]")), DType::F32).sum(0);
    fails("bound_size_beyond_memory", program, [scalar(1i64 << 50)], "OverBudget")
}
