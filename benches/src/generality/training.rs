//! Training loops: gradients inside scans over minibatches.

use std::collections::BTreeMap;

use funcify::{DType, Graph, Value, constant, iota, scan, value_and_grad};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 500), ("B", 64), ("D", 32)])],
        quick: &[Sizes(&[("T", 5), ("B", 4), ("D", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("sgd_logistic", "training loops", logistic_inputs, sgd_logistic)
    },
    Workload {
        full: &[Sizes(&[("T", 200), ("B", 64), ("D", 32), ("H", 64)])],
        quick: &[Sizes(&[("T", 4), ("B", 4), ("D", 3), ("H", 5)])],
        loss: Loss::None,
        ..Workload::without_handwritten("adam_mlp", "training loops", mlp_inputs, adam_mlp)
    },
];

fn logistic_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, d] = ["T", "B", "D"].map(|letter| sizes.get(letter));
    vec![
        ("features", numbers.normal(&[t, b, d], 1.0)),
        ("labels", numbers.integers(&[t, b], DType::I32, 0, 2)),
        ("weights", numbers.normal(&[d], 0.1)),
    ]
}

/// Builds a graph that trains a logistic regression by gradient descent.
fn sgd_logistic(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("sgd_logistic", |g| {
        let (features, labels) = (g.input("features", "f32[T,B,D]"), g.input("labels", "i32[T,B]"));
        let start = (g.input("weights", "f32[D]"), constant(0f32));
        let ((weights, bias), losses) = scan(start, (features, labels), |(weights, bias), (features, labels)| {
            let labels = labels.cast(DType::F32);
            let (loss, (of_weights, of_bias)) = value_and_grad((weights, bias), |(weights, bias)| {
                let logits = features.matmul(weights) + bias;
                (logits.softplus() - labels * logits).mean(0)
            });
            ((weights - 0.1 * of_weights, bias - 0.1 * of_bias), loss)
        });
        BTreeMap::from([("bias", bias), ("losses", losses), ("weights", weights)])
    })
}

fn mlp_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, d, h] = ["T", "B", "D", "H"].map(|letter| sizes.get(letter));
    let scale = |width: usize| (width as f64).sqrt().recip();
    vec![
        ("features", numbers.normal(&[t, b, d], 1.0)),
        ("targets", numbers.normal(&[t, b], 1.0)),
        ("w1", numbers.normal(&[d, h], scale(d))),
        ("b1", numbers.normal(&[h], 0.1)),
        ("w2", numbers.normal(&[h, h], scale(h))),
        ("b2", numbers.normal(&[h], 0.1)),
        ("w3", numbers.normal(&[h], scale(h))),
    ]
}

/// Builds a graph that uses Adam to train a regression network with two hidden layers.
fn adam_mlp(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("adam_mlp", |g| {
        let (features, targets) = (g.input("features", "f32[T,B,D]"), g.input("targets", "f32[T,B]"));
        let weights = [("w1", "f32[D,H]"), ("b1", "f32[H]"), ("w2", "f32[H,H]"), ("b2", "f32[H]"), ("w3", "f32[H]")];
        let weights = weights.map(|(name, ty)| g.input(name, ty));
        let zeros = weights.map(|weight| weight.zeros_like());
        let numbers = iota("T", DType::F32) + 1;
        let xs = (features, targets, numbers);
        let ((weights, _, _), losses) =
            scan((weights, zeros, zeros), xs, |(weights, means, squares), (features, targets, number)| {
                let (loss, slopes) = value_and_grad(weights, |[w1, b1, w2, b2, w3]: [Value; 5]| {
                    let hidden = (features.matmul(w1) + b1).tanh();
                    let hidden = (hidden.matmul(w2) + b2).tanh();
                    (hidden.matmul(w3) - targets).square().mean(0)
                });
                let means: [Value; 5] = std::array::from_fn(|i| 0.9 * means[i] + 0.1 * slopes[i]);
                let squares: [Value; 5] = std::array::from_fn(|i| 0.999 * squares[i] + 0.001 * slopes[i].square());
                let of_means = 1.0 - constant(0.9f32).pow(number);
                let of_squares = 1.0 - constant(0.999f32).pow(number);
                let weights: [Value; 5] = std::array::from_fn(|i| {
                    weights[i] - 1e-3 * (means[i] / of_means) / ((squares[i] / of_squares).sqrt() + 1e-8)
                });
                ((weights, means, squares), loss)
            });
        BTreeMap::from([("losses", losses), ("w1", weights[0]), ("w3", weights[4])])
    })
}
