//! Tests that functions accept failed values: no function panics, and building the program returns the error.

use super::*;
use crate::graph::failing;
use crate::ops::{ConvOptions, ReduceKind, ScatterMode};
use crate::{
    Graph, ScanOptions, associative_scan, cond, custom_jvp, fori_loop, map, scan, scan_until_with, switch, while_loop,
};

/// Checks that a program can be built, and that building it returns an error if any single op fails.
fn check(body: impl Fn(&Builder) -> Vec<Value>) {
    let build = || Graph::build("f", |b| body(b));
    build().unwrap_or_else(|error| panic!("{error}"));
    failing::check_each_op_failing(build);
}

fn matrix(b: &Builder) -> Value {
    b.input("x", "f16[3,3]").square()
}

#[test]
fn elementwise_functions() {
    check(|b| {
        let (x, y) = (matrix(b), b.input("y", "f16[3,3]").exp());
        let (fraction, exponent) = x.frexp();
        vec![
            x.clamp(0.0, 1.0),
            x.relu(),
            x.gelu(),
            x.silu(),
            x.softplus(),
            x.log_sigmoid(),
            x.logaddexp(y),
            x.hypot(y),
            x.polygamma(1),
            x.signbit(),
            x.nextafter(y),
            fraction.ldexp(exponent),
            x.cast(DType::I32).count_leading_zeros(),
            x.ones_like() + x.full_like(2.0) - x.zeros_like(),
            select(x.lt(y), x, y),
            x.is_finite() | x.cast(DType::F32).bitcast(DType::I32).eq(0),
        ]
    });
}

#[test]
fn functions_of_rows() {
    check(|b| {
        let x = matrix(b);
        let (top, at) = x.top_k(1, 2);
        let (sorted, order) = x.sort(0, true);
        vec![
            x.logsumexp(1),
            x.softmax(-1),
            x.log_softmax(0),
            x.norm(..),
            x.var(1),
            x.std(0),
            x.mean(..),
            x.max(1) + x.min(0) + x.prod(0),
            x.argmax(1) + x.argmin(0),
            x.cumsum(0, true) + x.cumprod(1, false),
            x.cumulative(ReduceKind::Max, 1, false) - x.cummin(0, false),
            top.sum(1) + at.cast(DType::F16).sum(1),
            sorted.take_along(0, order),
            x.argsort(1, false),
        ]
    });
}

#[test]
fn functions_of_shapes_and_positions() {
    check(|b| {
        let x = matrix(b);
        let at = b.input("at", "i64[2]").abs();
        let one = at.index(0, 1);
        let [first, second, third] = x.unstack(0);
        vec![
            x.tril(0) + x.triu(1) + eye(3, DType::F16),
            x.diagonal() + first + second - third,
            x.t().move_axis(0, 1).unsqueeze(1).squeeze(1),
            x.reshape([9]).slice_step(0, 1.., 2).pad(0, 1, 2, 0.5).reverse(0),
            x.slice(1, ..2).broadcast_to([2, 3, 2]).transpose([2, 0, 1]),
            x.dynamic_slice(1, one, 2),
            x.dynamic_index(0, one),
            x.dynamic_update(0, x.slice(0, ..1), one),
            x.take(0, at) + x.embedding(at),
            x.gather(0, at.unsqueeze(1).broadcast_to([2, 3])),
            x.scatter(0, at.unsqueeze(1).broadcast_to([2, 3]), x.slice(0, ..2), ScatterMode::Max),
            at.one_hot(4, DType::F32),
            concat(&[x, x], 0),
            stack(&[x, x], 1),
        ]
    });
}

#[test]
fn products() {
    check(|b| {
        let x = matrix(b);
        let images = x.reshape([1, 1, 9]);
        vec![
            x.matmul(x.t()),
            x.matmul(x.index(0, 0)),
            x.dot_general(x, &[(0, 1)], &[]),
            einsum("ij,kj->ik", &[x, x]),
            images.conv(x.slice(0, ..1).reshape([1, 1, 3]), ConvOptions::<1>::default()),
        ]
    });
}

#[test]
fn random_numbers() {
    check(|b| {
        use crate::random;
        let key = b.input("key", "u32[2]") ^ 1;
        let [first, second] = random::split(key, 2).unstack(0);
        let logits = b.input("logits", "f32[4]").tanh();
        vec![
            random::bits(random::fold_in(first, 3), [2]),
            random::uniform(first, [2], DType::F16, 0.0, 1.0),
            random::normal(second, [2], DType::BF16),
            random::bernoulli(second, [4], logits.sigmoid()),
            random::exponential(first, [2], DType::F32),
            random::gumbel(first, [2], DType::F64),
            random::categorical(key, logits, 0),
            random::randint(key, [2], DType::I32, 0, 5),
        ]
    });
}

#[test]
fn control_flow() {
    check(|b| {
        let (x, n) = (matrix(b), b.input("n", "i64[]") + 1);
        let (last, sums) = scan(x.index(0, 0), x, |sum, row| (sum + row, (sum * row).cumsum(0, false)));
        let (halves, count) =
            while_loop((x, n.zeros_like()), |(x, k)| x.sum(..).gt(1.0) & k.lt(9), |(x, k)| (x * 0.5, k + 1));
        let (ended, _) =
            scan_until_with(ScanOptions::new().length(4), x, (), |x, ()| (x + 1.0, x.sum(..), x.max(..).gt(3.0)));
        vec![
            last,
            sums,
            halves,
            count,
            ended,
            cond(x.sum(..).gt(0.0), || x.cumsum(0, false), || x),
            switch(n, [&|| x.exp(), &|| x.cummax(1, true)]),
            fori_loop(0, n, x, |k, x| x * k.cast(DType::F16)),
            map(x, |row: Value| row.softmax(0)),
            associative_scan(x, |a: Value, b: Value| a * b + 1.0),
        ]
    });
}

#[test]
fn derivatives_and_lanes() {
    check(|b| {
        let x = b.input("x", "f64[3]").square();
        let ruled = custom_jvp(x, |x: Value| x.sin(), |x: Value, _, tangent: Value| x.cos() * tangent);
        vec![
            crate::grad(x, |x: Value| x.softmax(0).max(0)),
            crate::jvp(x, x, |x: Value| x.logsumexp(0)).1,
            crate::hessian(x, |x: Value| x.norm(0)),
            crate::hvp(x, x, |x: Value| x.softplus().sum(0)),
            crate::checkpoint(|| x.tanh()),
            crate::vmap(x, |x: Value| x.reshape([1]).cumsum(0, false)),
            ruled,
        ]
    });
}
