//! Adds gradients, Jacobian products and `vmap` to a random program.

use funcify::prelude::*;
use funcify::{CheckpointPolicy, Disconnected, VmapOptions, grad_with, jacobian, vjp_with, vmap_with};

use super::program_builder::{Entry, MAX_FLOAT, Part, ProgramBuilder};

/// Adds a gradient, a Jacobian product, or a `vmap`.
pub(super) fn transform(builder: &mut ProgramBuilder<'_>) {
    const KINDS: [(usize, Part); 7] = [
        (6, grad_part),
        (8, vmap_part),
        (3, vjp_part),
        (3, jvp_part),
        (2, hvp_part),
        (2, jacobian_part),
        (3, vmap_axes_part),
    ];
    builder.choices.pick_weighted(&KINDS)(builder);
}

fn options(builder: &mut ProgramBuilder<'_>) -> GradOptions {
    GradOptions::new().disconnected(Disconnected::Zeros).policy(policy(builder))
}

/// Picks a checkpoint policy other than nested segments, which would make nested loops in a random program too large.
/// Only the property checks use nested segments.
pub(super) fn policy(builder: &mut ProgramBuilder<'_>) -> CheckpointPolicy {
    let steps = 1 + builder.choices.below(3);
    let policies = [
        CheckpointPolicy::Recompute,
        CheckpointPolicy::SaveDots,
        CheckpointPolicy::SaveAll,
        CheckpointPolicy::Segments(steps),
    ];
    builder.choices.pick(&policies)
}

/// Picks a float value of known shape as the point at which to differentiate.
fn point(builder: &mut ProgramBuilder<'_>) -> Entry {
    builder.float_of_rank(0).unwrap_or_else(|| builder.number())
}

/// Builds a body with parameter `x`, and returns its result, a scalar.
fn loss(builder: &mut ProgramBuilder<'_>, x: Value, bound: f64) -> Value {
    builder.build_body(vec![ProgramBuilder::entry(x, bound)], |builder| {
        let rest = builder.number();
        let value = rest.value * (x * x).sin().sum(..) + rest.value;
        builder.limit_magnitude(value, rest.bound * 7.0, MAX_FLOAT).0
    })
}

fn grad_part(builder: &mut ProgramBuilder<'_>) {
    builder.count("grad");
    let x = point(builder);
    let options = options(builder);
    let gradient = grad_with(options, x.value, |value| loss(builder, value, x.bound));
    builder.add(gradient, 12.0);
}

fn vjp_part(builder: &mut ProgramBuilder<'_>) {
    builder.count("vjp");
    let x = point(builder);
    let options = options(builder);
    let cell = std::cell::RefCell::new(builder);
    let body = |value: Value| {
        let builder = &mut **cell.borrow_mut();
        builder.build_body(vec![ProgramBuilder::entry(value, x.bound)], |builder| {
            let shape = builder.float().value.shape();
            builder.float_of_shape(&shape).value
        })
    };
    let (y, gradient) = vjp_with(options, x.value, body, |y| {
        let builder = &mut **cell.borrow_mut();
        builder.float_of_shape(&y.shape()).value
    });
    let builder = cell.into_inner();
    builder.add(y, MAX_FLOAT);
    builder.add(gradient, 15.0);
}

fn jvp_part(builder: &mut ProgramBuilder<'_>) {
    builder.count("jvp");
    let x = point(builder);
    let tangent = builder.float_of_shape(&x.value.shape());
    let (y, tangent) = jvp(x.value, tangent.value, |value| {
        builder.build_linear_body(vec![ProgramBuilder::entry(value, x.bound)], |builder| {
            let shape = builder.float().value.shape();
            builder.float_of_shape(&shape).value
        })
    });
    builder.add(y, MAX_FLOAT);
    builder.add(tangent, 15.0);
}

fn hvp_part(builder: &mut ProgramBuilder<'_>) {
    builder.count("hvp");
    let x = point(builder);
    let direction = builder.float_of_shape(&x.value.shape());
    let product = hvp(x.value, direction.value, |value| loss(builder, value, x.bound));
    builder.add(product, 25.0);
}

fn jacobian_part(builder: &mut ProgramBuilder<'_>) {
    let x = point(builder);
    if x.value.rank() > 1 {
        return grad_part(builder);
    }
    builder.count("jacobian");
    let matrix = jacobian(x.value, |value| {
        builder.build_linear_body(vec![ProgramBuilder::entry(value, x.bound)], |builder| {
            let near = builder.float_of_shape(&x.value.shape());
            near.value * value
        })
    });
    builder.add(matrix, 12.0);
}

fn vmap_part(builder: &mut ProgramBuilder<'_>) {
    let Some(first) = builder.float_of_rank(1) else { return };
    builder.count("vmap");
    let rows = first.value.dim(0);
    let mut all = vec![first];
    if builder.choices.one_in(2) {
        all.extend(builder.pick(|ty| ty.rank() >= 1 && ty.shape[0] == rows));
    }
    let bounds: Vec<f64> = all.iter().map(|entry| entry.bound).collect();
    let xs: Vec<Value> = all.iter().map(|entry| entry.value).collect();
    let mut bound = 0f64;
    let ys = vmap(xs, |xs| lane_results(builder, &xs, &bounds, &mut bound));
    ys.into_iter().for_each(|y| builder.add(y, bound));
}

fn vmap_axes_part(builder: &mut ProgramBuilder<'_>) {
    let Some((x, axis, _)) = builder.float_with_axis() else { return };
    builder.count("vmap_axes");
    let shared = builder.float();
    let options = VmapOptions::new().in_axes([Some(axis), None]).out_axis(0);
    let mut bound = 0f64;
    let xs = vec![x.value, shared.value];
    let ys = vmap_with(options, xs, |xs| lane_results(builder, &xs, &[x.bound, shared.bound], &mut bound));
    ys.into_iter().for_each(|y| builder.add(y, bound));
}

fn lane_results(builder: &mut ProgramBuilder<'_>, xs: &[Value], bounds: &[f64], bound: &mut f64) -> Vec<Value> {
    let params = xs.iter().zip(bounds).map(|(x, bound)| ProgramBuilder::entry(*x, *bound)).collect();
    builder.build_body(params, |builder| {
        let mut results = builder.pick_ys(1);
        results.push(builder.number());
        *bound = results.iter().fold(0f64, |bound, entry| bound.max(entry.bound));
        results.iter().map(|entry| entry.value).collect()
    })
}
