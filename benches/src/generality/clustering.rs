//! Clustering: k-means, and mixtures of normal distributions.

use std::collections::BTreeMap;

use funcify::ops::ScatterMode;
use funcify::{DType, Graph, HostTensor, Scalar, ScanOptions, fori_loop, full, scan_with};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("N", 8192), ("D", 16), ("K", 16), ("T", 10)])],
        quick: &[Sizes(&[("N", 16), ("D", 3), ("K", 4), ("T", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("kmeans", "clustering", clusters, kmeans)
    },
    Workload {
        full: &[Sizes(&[("N", 4096), ("D", 8), ("K", 8), ("T", 20)])],
        quick: &[Sizes(&[("N", 16), ("D", 3), ("K", 3), ("T", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("gaussian_mixture", "clustering", clusters, gaussian_mixture)
    },
];

/// Draws points around K centres. The first K points belong to different centres.
fn clusters(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [n, d, k] = ["N", "D", "K"].map(|letter| sizes.get(letter));
    let (centers, noise) = (numbers.normal(&[k, d], 3.0), numbers.normal(&[n, d], 1.0));
    let points = HostTensor::from_fn(DType::F32, &[n, d], |index| {
        Scalar::Float(centers.at(&[index[0] % k, index[1]]).as_f64() + noise.at(index).as_f64())
    });
    vec![("points", points)]
}

/// Builds a graph that runs k-means by Lloyd's algorithm.
fn kmeans(sizes: &Sizes) -> funcify::Result<Graph> {
    let [n, d, k, steps] = ["N", "D", "K", "T"].map(|letter| sizes.get(letter));
    Graph::build("kmeans", |g| {
        let points = g.input("points", format!("f32[{n},{d}]").as_str());
        let start = (points.slice(0, 0..k), full([n], DType::I64, 0.0));
        let (centers, labels) = fori_loop(0, steps, start, |_, (centers, _)| {
            let distances = centers.square().sum(1) - 2.0 * points.matmul(centers.t());
            let labels = distances.argmin(1);
            let counts = full([k], DType::F32, 0.0);
            let counts = counts.scatter(0, labels, full([n], DType::F32, 1.0), ScatterMode::Add);
            let rows = labels.unsqueeze(1).broadcast_to([n, d]);
            let sums = full([k, d], DType::F32, 0.0).scatter(0, rows, points, ScatterMode::Add);
            (sums / counts.maximum(1.0).unsqueeze(1), labels)
        });
        BTreeMap::from([("centers", centers), ("labels", labels.cast(DType::I32))])
    })
}

/// Builds a graph that fits a mixture of normal distributions with diagonal covariances, by expectation maximisation.
fn gaussian_mixture(sizes: &Sizes) -> funcify::Result<Graph> {
    let [n, d, k, steps] = ["N", "D", "K", "T"].map(|letter| sizes.get(letter));
    Graph::build("gaussian_mixture", |g| {
        let points = g.input("points", format!("f32[{n},{d}]").as_str());
        let weights = full([k], DType::F32, (k as f64).recip());
        let start = (weights, points.slice(0, 0..k), full([k, d], DType::F32, 1.0));
        let options = ScanOptions::new().length(steps);
        let ((_, means, variances), likelihood) = scan_with(options, start, (), |(weights, means, variances), ()| {
            let deviations = (points.unsqueeze(1) - means).square() / variances;
            let logs = weights.log() - 0.5 * (deviations.sum(2) + variances.log().sum(1));
            let total = logs.logsumexp(1);
            let shares = (logs - total.unsqueeze(1)).exp();
            let counts = shares.sum(0);
            let means = shares.t().matmul(points) / counts.unsqueeze(1);
            let squares = shares.t().matmul(points.square()) / counts.unsqueeze(1);
            ((counts / n as f64, means, squares - means.square() + 1e-3), total.mean(0))
        });
        BTreeMap::from([("likelihood", likelihood), ("means", means), ("variances", variances)])
    })
}
