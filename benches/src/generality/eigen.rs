//! Eigenvalues by power iteration.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, Scalar, Value, fori_loop, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("N", 256), ("K", 8), ("T", 50)])],
    quick: &[Sizes(&[("N", 6), ("K", 3), ("T", 8)])],
    loss: Loss::None,
    ..Workload::without_handwritten("power_iteration", "eigenvalue iterations", inputs, power_iteration)
}];

/// Draws start vectors, and a matrix `F` whose columns have decreasing norms. The graph computes eigenvalues of `F Fᵀ`.
fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [n, k] = ["N", "K"].map(|letter| sizes.get(letter));
    let factor = numbers.normal(&[n, n], (n as f64).sqrt().recip());
    let factor = HostTensor::from_fn(DType::F32, &[n, n], |index| {
        Scalar::Float(factor.at(index).as_f64() * 0.8f64.powi(index[1] as i32))
    });
    vec![("factor", factor), ("starts", numbers.normal(&[k, n], 1.0))]
}

/// Builds a graph that computes the largest eigenvalues of a symmetric matrix. The graph finds one eigenvalue at a
/// time, and deflates the matrix after each eigenvalue.
fn power_iteration(sizes: &Sizes) -> funcify::Result<Graph> {
    let steps = sizes.get("T");
    Graph::build("power_iteration", |g| {
        let (factor, starts) = (g.input("factor", "f32[N,N]"), g.input("starts", "f32[K,N]"));
        let unit = |x: Value| x / x.norm(0);
        let (_, (values, vectors)) = scan(factor.matmul(factor.t()), starts, |matrix, start| {
            let vector = fori_loop(0, steps, unit(start), |_, vector| unit(matrix.matmul(vector)));
            let value = vector.matmul(matrix.matmul(vector));
            (matrix - value * vector.unsqueeze(1) * vector, (value, vector))
        });
        BTreeMap::from([("values", values), ("vectors", vectors)])
    })
}
