//! Adds branches, while loops and associative scans to a random program.

use std::cell::RefCell;

use funcify::prelude::*;
use funcify::{AssociativeScanOptions, Shape, associative_scan_with, checkpoint, scan_until_with, while_loop_bounded};

use super::program_builder::{Entry, MAX_CARRY, ProgramBuilder};

/// Adds a while loop with a step counter, which guarantees termination.
pub(super) fn while_loop_part(builder: &mut ProgramBuilder<'_>) {
    let states = builder.states();
    let is_bounded = builder.choices.one_in(2);
    let most = match builder.choices.below(3 + usize::from(is_bounded)) {
        0 => constant(2i64),
        1 => constant(3i64),
        2 => builder.integer_to(3),
        _ => {
            // The counter's limit of 9 exceeds every bound, so the loop can run until it reaches its bound.
            builder.count("while_to_its_bound");
            constant(9i64)
        }
    };
    let bound = builder.choices.pick(&[3, 2, 1]);
    let init = [vec![constant(0i64)], states].concat();
    let cell = RefCell::new(builder);
    let condition = |carry: Vec<Value>| {
        let counted = carry[0].lt(most);
        let builder = &mut **cell.borrow_mut();
        if builder.choices.one_in(2) {
            let params = ProgramBuilder::state_entries(&carry[1..]);
            let outside = builder.scope.len();
            builder.scope.extend(params);
            let holds = counted & builder.boolean();
            builder.scope.truncate(outside);
            return holds;
        }
        counted
    };
    let step = |carry: Vec<Value>| {
        let builder = &mut **cell.borrow_mut();
        let params = [vec![ProgramBuilder::entry(carry[0], 4.0)], ProgramBuilder::state_entries(&carry[1..])].concat();
        let next = builder.build_body(params, |builder| builder.next_carries(&carry[1..]));
        [vec![carry[0] + 1], next].concat()
    };
    let last = match is_bounded {
        true => while_loop_bounded(bound, init, condition, step),
        false => while_loop(init, condition, step),
    };
    let builder = cell.into_inner();
    builder.count(if is_bounded { "while_bounded" } else { "while" });
    for value in last {
        builder.add(value, MAX_CARRY);
    }
}

/// Adds a `cond`, a `switch` or a checkpoint.
pub(super) fn branches(builder: &mut ProgramBuilder<'_>) {
    let first = builder.float();
    let small = first.value.rank() <= 2 && builder.has_known_sizes(&first.value.ty());
    let mut types: Vec<Shape> = vec![if small { first.value.shape() } else { Shape::scalar() }];
    if builder.choices.one_in(3) {
        types.push(Shape::scalar());
    }
    let kind = builder.choices.below(5);
    let [predicate, index] = match kind {
        0 | 1 => [Some(builder.boolean()), None],
        2 | 3 => [None, Some(builder.integer())],
        _ => [None, None],
    };
    let mut bounds = vec![0f64; types.len()];
    let cell = RefCell::new((builder, &mut bounds));
    let branch = || {
        let (builder, bounds) = &mut *cell.borrow_mut();
        builder.build_body(vec![first], |builder| {
            let results: Vec<Entry> = types.iter().map(|shape| builder.float_of_shape(shape)).collect();
            bounds.iter_mut().zip(&results).for_each(|(bound, entry)| *bound = bound.max(entry.bound));
            results.iter().map(|entry| entry.value).collect::<Vec<_>>()
        })
    };
    let (name, results) = match (predicate, index) {
        (Some(predicate), _) => ("cond", cond(predicate, branch, branch)),
        (_, Some(index)) if kind == 2 => ("switch_2", switch(index, [&branch, &branch])),
        (_, Some(index)) => ("switch_3", switch(index, [&branch, &branch, &branch])),
        _ => ("checkpoint", checkpoint(branch)),
    };
    let (builder, _) = cell.into_inner();
    builder.count(name);
    for (result, bound) in results.into_iter().zip(bounds) {
        builder.add(result, bound);
    }
}

/// Adds a `cond` or a loop that takes a square root only if its operand is positive. Under `vmap`, lanes for which the
/// operand is negative must not become NaN.
pub(super) fn ops_where_defined(builder: &mut ProgramBuilder<'_>) {
    let x = builder.number().value.sin();
    let (name, value) = match builder.choices.below(3) {
        0 => ("cond_where_defined", cond(x.gt(0.1), || (x - 0.05).sqrt(), || x * 0.5)),
        1 => {
            let k = builder.number().value.tanh();
            let last = while_loop_bounded(4, x, |x| x.gt(0.3), |x| (x - 0.2).sqrt() * (k * 0.1 + 0.6));
            ("while_where_defined", last)
        }
        _ => {
            let k = builder.number().value.tanh();
            let options = ScanOptions::new().length(4);
            let start = x.square() + 0.35;
            let (last, ()) = scan_until_with(options, start, (), |x, ()| {
                let next = (x - 0.3).sqrt() * (k * 0.1 + 0.9);
                (next, (), next.lt(0.35))
            });
            ("until_where_defined", last)
        }
    };
    builder.count(name);
    builder.add(value, 1.5);
}

/// Adds an associative scan.
pub(super) fn associative(builder: &mut ProgramBuilder<'_>) {
    let Some(x) = builder.float_of_rank(1) else { return };
    let axis = builder.choices.below(x.value.rank());
    let shape = x.value.shape();
    let options = AssociativeScanOptions::new().axis(axis as i64);
    let options = if builder.choices.one_in(3) { options.reverse() } else { options };
    let rows = builder.size(&shape[axis]).unwrap_or(3) as f64;
    let (value, bound) = (x.value, x.bound);
    let (name, results, bound): (&'static str, Vec<Value>, f64) = match builder.choices.below(9) {
        0 => ("associative_sum", vec![associative_scan_with(options, value, |a, b| a + b)], rows * bound),
        1 => {
            let decay = builder.float_of_shape(&shape).value.sigmoid();
            let (a, b) = associative_scan_with(options, (decay, value), |(a1, b1), (a2, b2)| (a2 * a1, a2 * b1 + b2));
            ("associative_affine", vec![a, b], rows * bound)
        }
        2 => {
            let near = value.sin() * 0.9 + 1.0;
            ("associative_product", vec![associative_scan_with(options, near, |a, b| a * b)], 1.9f64.powf(rows))
        }
        3 => {
            // This `combine` is associative for every captured k, because (1 + k a)(1 + k b) = 1 + k (a + b + k a b).
            let k = builder.number().value.tanh() * 0.4;
            let results = associative_scan_with(options, value.tanh(), |a, b| a + b + k * a * b);
            ("associative_captured", vec![results], 1.4f64.powf(rows) * 2.0)
        }
        4 => ("associative_max", vec![associative_scan_with(options, value, |a, b| a.maximum(b))], bound),
        5 => {
            let results = associative_scan_with(options, value, |a, b| a.maximum(b) + (-(a - b).abs()).exp().log1p());
            ("associative_logaddexp", vec![results], bound + rows)
        }
        6 => {
            let entries = [1.0, 0.3, -0.4, 0.8].map(|factor| (value * factor).sin().unsqueeze(-1));
            let rows_of = |a: Value, b: Value| funcify::concat(&[a, b], -1).unsqueeze(-2);
            let [a, b, c, d] = entries;
            let matrices = funcify::concat(&[rows_of(a, b), rows_of(c, d)], -2);
            let products = associative_scan_with(options, matrices, |a, b| b.matmul(a));
            ("associative_matrices", vec![products.sum([-1, -2])], 8.0)
        }
        7 => {
            // Multiply 2x2 matrices in the max-plus semiring.
            let entries = [1.0, 0.3, -0.4, 0.8].map(|factor| (value * factor).unsqueeze(-1));
            let rows_of = |a: Value, b: Value| funcify::concat(&[a, b], -1).unsqueeze(-2);
            let [a, b, c, d] = entries;
            let matrices = funcify::concat(&[rows_of(a, b), rows_of(c, d)], -2);
            let products = associative_scan_with(options, matrices, |a, b| (a.unsqueeze(-1) + b.unsqueeze(-3)).max(-2));
            ("associative_max_plus", vec![products.sum([-1, -2])], 4.0 * rows * bound)
        }
        _ => {
            let flags = builder.booleans(&shape);
            let numbers = (value * 2.0).floor().cast(DType::I64);
            // Compute segmented sums, which restart wherever a flag is set, and running maxima of integers.
            let (sums, ints, _) = associative_scan_with(options, (value, numbers, flags), |(a, i, f), (b, j, g)| {
                (funcify::select(g, b, a + b), i.maximum(j), f | g)
            });
            ("associative_segments", vec![sums, ints], rows * bound)
        }
    };
    builder.count(name);
    for result in results {
        builder.add(result, bound);
    }
}
