//! Fractals, and scenes rendered by ray marching.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, Scalar, Value, constant, fori_loop, grad, select, stack, while_loop_bounded};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("N", 256), ("T", 100)])],
        quick: &[Sizes(&[("N", 16), ("T", 10)])],
        loss: Loss::None,
        ..Workload::without_handwritten("mandelbrot", "fractals", mandelbrot_inputs, mandelbrot)
    },
    Workload {
        full: &[Sizes(&[("N", 96)])],
        quick: &[Sizes(&[("N", 4)])],
        loss: Loss::None,
        is_conditional: true,
        ..Workload::without_handwritten("ray_march", "ray marching", rays, ray_march)
    },
];

fn mandelbrot_inputs(sizes: &Sizes, _: &mut Numbers) -> Inputs {
    let n = sizes.get("N");
    let line = |from: f64, to: f64| {
        HostTensor::from_fn(DType::F32, &[n], |index| {
            Scalar::Float(from + (to - from) * (index[0] as f64 + 0.5) / n as f64)
        })
    };
    vec![("re", line(-2.1, 0.7)), ("im", line(-1.3, 1.4))]
}

/// Builds a graph that renders the Mandelbrot set. The value of a pixel is the number of iterations until a point
/// escapes, averaged over a block of 8 by 8 points.
fn mandelbrot(sizes: &Sizes) -> funcify::Result<Graph> {
    let [n, steps] = ["N", "T"].map(|letter| sizes.get(letter));
    Graph::build("mandelbrot", |g| {
        let [re, im] = ["re", "im"].map(|name| g.input(name, format!("f32[{n}]").as_str()));
        let im = im.unsqueeze(1);
        let zeros = (re + im).zeros_like();
        let start = (zeros, zeros, zeros.cast(DType::I32));
        let (_, _, counts) = fori_loop(0, steps, start, |_, (x, y, counts)| {
            let is_inside = (x.square() + y.square()).le(4.0);
            let next_x = select(is_inside, x.square() - y.square() + re, x);
            let next_y = select(is_inside, 2.0 * x * y + im, y);
            (next_x, next_y, counts + is_inside.cast(DType::I32))
        });
        output("picture", counts.cast(DType::F32).reshape([n / 8, 8, n / 8, 8]).mean([1, 3]))
    })
}

/// Returns the directions of the rays through the points of a square in front of the camera.
fn rays(sizes: &Sizes, _: &mut Numbers) -> Inputs {
    let n = sizes.get("N");
    let across = |at: usize| (at as f64 + 0.5) / n as f64 - 0.5;
    let directions = HostTensor::from_fn(DType::F32, &[n * n, 3], |index| {
        let direction = [across(index[0] % n), -across(index[0] / n) - 0.1, 1.0];
        Scalar::Float(direction[index[1]] / direction.iter().map(|x| x * x).sum::<f64>().sqrt())
    });
    vec![("directions", directions)]
}

const FAR: f64 = 20.0;

/// Returns the distance from each point to a scene of a ball, a ring and the ground, which blend into each other.
fn scene(points: Value) -> Value {
    let [x, y, z] = points.unstack(1);
    let ball = ((x + 0.9).square() + (y - 0.9).square() + z.square()).sqrt() - 0.8;
    let ring = ((x - 0.9).square() + (z - 0.3).square()).sqrt() - 0.7;
    let ring = (ring.square() + (y - 0.5).square()).sqrt() - 0.25;
    (stack(&[ball, ring, y], 0) * -16.0).logsumexp(0) / -16.0
}

/// Builds a graph that renders a scene by ray marching. In each step, each ray advances by its distance to the scene,
/// until it has hit or left the scene.
fn ray_march(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("ray_march", |g| {
        let directions = g.input("directions", "f32[R,3]");
        let camera = constant([0f32, 1.2, -4.0]);
        let light = constant([0.48f32, 0.8, -0.36]);
        let zeros = directions.index(1, 0).zeros_like();
        let (depth, _) = while_loop_bounded(
            128,
            (zeros, zeros.eq(0.0)),
            |(_, is_alive)| is_alive.any(0),
            |(depth, is_alive)| {
                let distance = scene(camera + depth.unsqueeze(1) * directions);
                let is_alive = is_alive & distance.gt(1e-4) & depth.lt(FAR);
                (select(is_alive, depth + distance, depth), is_alive)
            },
        );
        let normals = grad(camera + depth.unsqueeze(1) * directions, |points| scene(points).sum(0));
        let normals = normals / (normals.square().sum(1) + 1e-6).sqrt().unsqueeze(1);
        let shade = select(depth.lt(FAR), (normals * light).sum(1).maximum(0.0), 0.0);
        BTreeMap::from([("depth", depth.minimum(FAR)), ("shade", shade)])
    })
}
