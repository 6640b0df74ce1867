//! Adds derivatives and lanes inside the program.

use funcify::prelude::*;
use funcify::{CheckpointPolicy, Disconnected, VmapOptions, grad_with, jacobian, vjp_with, vmap_with};

use super::maker::{Entry, LIMIT, Maker, Part};

/// Adds a gradient, a product with the Jacobian, or lanes.
pub(super) fn transform(maker: &mut Maker<'_>) {
    const KINDS: [(usize, Part); 7] =
        [(6, gradient), (8, lanes), (3, pulled), (3, pushed), (2, curvature), (2, matrix), (3, lanes_of_axes)];
    maker.choices.weighted(&KINDS)(maker);
}

fn options(maker: &mut Maker<'_>) -> GradOptions {
    GradOptions::new().disconnected(Disconnected::Zeros).policy(policy(maker))
}

/// Returns a checkpoint policy. Nested segments are left to the properties, because they make nested loops too large
/// here.
pub(super) fn policy(maker: &mut Maker<'_>) -> CheckpointPolicy {
    let steps = 1 + maker.choices.below(3);
    let policies = [
        CheckpointPolicy::Recompute,
        CheckpointPolicy::SaveDots,
        CheckpointPolicy::SaveAll,
        CheckpointPolicy::Segments(steps),
    ];
    maker.choices.of(&policies)
}

/// Picks a float with known sizes, as an input to differentiate.
fn point(maker: &mut Maker<'_>) -> Entry {
    maker.ranked(0).unwrap_or_else(|| maker.number())
}

/// Builds a body with this parameter, and returns a scalar of it.
fn loss(maker: &mut Maker<'_>, x: Value, bound: f64) -> Value {
    maker.within(vec![Maker::entry(x, bound)], |maker| {
        let rest = maker.number();
        let value = rest.value * (x * x).sin().sum(..) + rest.value;
        maker.tamed(value, rest.bound * 7.0, LIMIT).0
    })
}

fn gradient(maker: &mut Maker<'_>) {
    maker.count("grad");
    let x = point(maker);
    let options = options(maker);
    let gradient = grad_with(options, x.value, |value| loss(maker, value, x.bound));
    maker.add(gradient, 12.0);
}

fn pulled(maker: &mut Maker<'_>) {
    maker.count("vjp");
    let x = point(maker);
    let options = options(maker);
    let cell = std::cell::RefCell::new(maker);
    let body = |value: Value| {
        let maker = &mut **cell.borrow_mut();
        maker.within(vec![Maker::entry(value, x.bound)], |maker| {
            let shape = maker.float().value.shape();
            maker.shaped(&shape).value
        })
    };
    let (y, gradient) = vjp_with(options, x.value, body, |y| {
        let maker = &mut **cell.borrow_mut();
        maker.shaped(&y.shape()).value
    });
    let maker = cell.into_inner();
    maker.add(y, LIMIT);
    maker.add(gradient, 15.0);
}

fn pushed(maker: &mut Maker<'_>) {
    maker.count("jvp");
    let x = point(maker);
    let tangent = maker.shaped(&x.value.shape());
    let (y, tangent) = jvp(x.value, tangent.value, |value| {
        maker.within_linear(vec![Maker::entry(value, x.bound)], |maker| {
            let shape = maker.float().value.shape();
            maker.shaped(&shape).value
        })
    });
    maker.add(y, LIMIT);
    maker.add(tangent, 15.0);
}

fn curvature(maker: &mut Maker<'_>) {
    maker.count("hvp");
    let x = point(maker);
    let direction = maker.shaped(&x.value.shape());
    let product = hvp(x.value, direction.value, |value| loss(maker, value, x.bound));
    maker.add(product, 25.0);
}

fn matrix(maker: &mut Maker<'_>) {
    let x = point(maker);
    if x.value.rank() > 1 {
        return gradient(maker);
    }
    maker.count("jacobian");
    let matrix = jacobian(x.value, |value| {
        maker.within_linear(vec![Maker::entry(value, x.bound)], |maker| {
            let near = maker.shaped(&x.value.shape());
            near.value * value
        })
    });
    maker.add(matrix, 12.0);
}

fn lanes(maker: &mut Maker<'_>) {
    let Some(first) = maker.ranked(1) else { return };
    maker.count("vmap");
    let rows = first.value.dim(0);
    let mut all = vec![first];
    if maker.choices.one_in(2) {
        all.extend(maker.pick(|ty| ty.rank() >= 1 && ty.shape[0] == rows));
    }
    let bounds: Vec<f64> = all.iter().map(|entry| entry.bound).collect();
    let xs: Vec<Value> = all.iter().map(|entry| entry.value).collect();
    let mut bound = 0f64;
    let ys = vmap(xs, |xs| of_lane(maker, &xs, &bounds, &mut bound));
    ys.into_iter().for_each(|y| maker.add(y, bound));
}

fn lanes_of_axes(maker: &mut Maker<'_>) {
    let Some((x, axis, _)) = maker.with_axis() else { return };
    maker.count("vmap_axes");
    let shared = maker.float();
    let options = VmapOptions::new().in_axes([Some(axis), None]).out_axis(0);
    let mut bound = 0f64;
    let xs = vec![x.value, shared.value];
    let ys = vmap_with(options, xs, |xs| of_lane(maker, &xs, &[x.bound, shared.bound], &mut bound));
    ys.into_iter().for_each(|y| maker.add(y, bound));
}

fn of_lane(maker: &mut Maker<'_>, xs: &[Value], bounds: &[f64], bound: &mut f64) -> Vec<Value> {
    let params = xs.iter().zip(bounds).map(|(x, bound)| Maker::entry(*x, *bound)).collect();
    maker.within(params, |maker| {
        let mut results = maker.each_step(1);
        results.push(maker.number());
        *bound = results.iter().fold(0f64, |bound, entry| bound.max(entry.bound));
        results.iter().map(|entry| entry.value).collect()
    })
}
