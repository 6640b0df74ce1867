//! Particle filters: a bootstrap filter that tracks a position and a velocity, with systematic resampling.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, iota, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("T", 100), ("P", 512)])],
    quick: &[Sizes(&[("T", 8), ("P", 16)])],
    loss: Loss::None,
    ..Workload::without_handwritten("bootstrap_filter", "particle filters", inputs, bootstrap_filter)
}];

/// The resolution of the inputs: every float input is a multiple of this number. The states, the weights and their
/// running sums are therefore exact in f32, so every subject resamples the same particles.
const UNIT: f64 = 1.0 / 256.0;
/// The lower bound on the weight of a particle.
const LEAST: f64 = 1.0 / 256.0;
/// The half-width of the triangular distribution of observations around a particle's position.
const WIDTH: f64 = 4.0;

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, p] = ["T", "P"].map(|letter| sizes.get(letter));
    let mut rounded = |shape: &[usize], deviation: f64| {
        let drawn = numbers.normal(shape, deviation);
        let drawn = drawn.to_f64_vec().into_iter().map(|x| ((x / UNIT).round() * UNIT) as f32).collect::<Vec<_>>();
        HostTensor::from_vec(drawn, shape).expect("there is one number for each element")
    };
    let (accelerations, errors) = (rounded(&[t], 0.25), rounded(&[t], 1.0));
    let (mut position, mut velocity) = (0.0, 0.0);
    let observed = accelerations.to_f64_vec().into_iter().zip(errors.to_f64_vec()).map(|(acceleration, error)| {
        position += velocity;
        velocity += acceleration;
        (position + error) as f32
    });
    let observations = HostTensor::from_vec(observed.collect::<Vec<_>>(), [t]).expect("there is one for each step");
    let (positions, noise) = (rounded(&[p], 1.0), rounded(&[t, p], 0.25));
    let offsets = numbers.integers(&[t], DType::I32, 0, 256);
    vec![("observations", observations), ("positions", positions), ("noise", noise), ("offsets", offsets)]
}

fn bootstrap_filter(sizes: &Sizes) -> funcify::Result<Graph> {
    let p = sizes.get("P");
    Graph::build("bootstrap_filter", |g| {
        let (observations, offsets) = (g.input("observations", "f32[T]"), g.input("offsets", "i32[T]"));
        let positions = g.input("positions", format!("f32[{p}]").as_str());
        let noise = g.input("noise", format!("f32[T,{p}]").as_str());
        let numbers = iota(p, DType::F32);
        let offsets = offsets.cast(DType::F32) * UNIT;
        let start = (positions, positions.zeros_like());
        let rows = (observations, noise, offsets);
        let ((positions, _), estimates) = scan(start, rows, |(position, velocity), (observation, noise, offset)| {
            let (position, velocity) = (position + velocity, velocity + noise);
            let weights = (1.0 - (observation - position).abs() / WIDTH).maximum(LEAST);
            let total = weights.sum(0);
            let estimate = (weights * position).sum(0) / total;
            // The ancestor of particle i is the first particle whose cumulative weight exceeds the fraction (i +
            // offset) / P of the total weight, where P is the number of particles.
            let cumulative = weights.cumsum(0, false) * p as f64;
            let points = (numbers + offset) * total;
            let ancestors = cumulative.unsqueeze(0).le(points.unsqueeze(1)).cast(DType::I32).sum(1);
            ((position.take(0, ancestors), velocity.take(0, ancestors)), estimate)
        });
        BTreeMap::from([("positions", positions), ("estimates", estimates)])
    })
}
