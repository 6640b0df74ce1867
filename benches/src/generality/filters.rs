//! Digital filters, fixed and adaptive.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, Scalar, concat, einsum, eye, full, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 16384), ("C", 2)])],
        quick: &[Sizes(&[("T", 16), ("C", 3)])],
        differentiated: &["sections"],
        ..Workload::without_handwritten("biquad_cascade", "digital filters", biquad_inputs, biquad_cascade)
    },
    Workload {
        full: &[Sizes(&[("T", 4000), ("B", 16), ("K", 32)])],
        quick: &[Sizes(&[("T", 10), ("B", 3), ("K", 4)])],
        loss: Loss::None,
        ..Workload::without_handwritten("lms", "adaptive filters", lms_inputs, lms)
    },
    Workload {
        full: &[Sizes(&[("T", 1000), ("B", 32), ("K", 8)])],
        quick: &[Sizes(&[("T", 8), ("B", 3), ("K", 4)])],
        loss: Loss::None,
        ..Workload::without_handwritten("rls", "adaptive filters", rls_inputs, rls)
    },
];

/// Draws a signal and the coefficients b0, b1, b2, a1, a2 of each filter section. All poles are inside the unit circle.
fn biquad_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, c] = ["T", "C"].map(|letter| sizes.get(letter));
    let mut sections = Vec::new();
    for _ in 0..4 {
        let (radius, angle) = (0.3 + 0.4 * numbers.unit(), std::f64::consts::PI * numbers.unit());
        let zeros = [0.5 + 0.5 * numbers.unit(), numbers.unit() - 0.5, numbers.unit() - 0.5];
        sections.extend(zeros);
        sections.extend([-2.0 * radius * angle.cos(), radius * radius]);
    }
    let sections = HostTensor::from_fn(DType::F32, &[4, 5], |index| Scalar::Float(sections[5 * index[0] + index[1]]));
    vec![("sections", sections), ("signal", numbers.normal(&[t, c], 1.0))]
}

/// Builds a graph that runs a cascade of four second-order sections, each in transposed direct form II.
fn biquad_cascade(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("biquad_cascade", |g| {
        let (sections, signal) = (g.input("sections", "f32[4,5]"), g.input("signal", "f32[T,C]"));
        let sections = sections.unstack::<4>(0).map(|section| section.unstack::<5>(0));
        let nothing = signal.index(0, 0).zeros_like();
        let (_, filtered) = scan([[nothing; 2]; 4], signal, |mut states, mut x| {
            for (state, [b0, b1, b2, a1, a2]) in states.iter_mut().zip(sections) {
                let y = b0 * x + state[0];
                *state = [b1 * x - a1 * y + state[1], b2 * x - a2 * y];
                x = y;
            }
            (states, x)
        });
        output("filtered", filtered)
    })
}

fn lms_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b] = ["T", "B"].map(|letter| sizes.get(letter));
    vec![("signal", numbers.normal(&[t, b], 1.0)), ("desired", numbers.normal(&[t, b], 1.0))]
}

/// Builds a graph that runs the normalised least mean squares algorithm. The carry holds the weights and the latest
/// samples, newest first.
fn lms(sizes: &Sizes) -> funcify::Result<Graph> {
    let [b, k] = ["B", "K"].map(|letter| sizes.get(letter));
    Graph::build("lms", |g| {
        let signal = g.input("signal", format!("f32[T,{b}]").as_str());
        let desired = g.input("desired", format!("f32[T,{b}]").as_str());
        let nothing = full([b, k], DType::F32, 0.0);
        let ((weights, _), errors) = scan((nothing, nothing), (signal, desired), |(weights, latest), (x, desired)| {
            let latest = concat(&[x.unsqueeze(1), latest.slice(1, ..-1)], 1);
            let error = desired - (weights * latest).sum(1);
            let rate = 0.1 * error / (latest.square().sum(1) + 1e-3);
            ((weights + rate.unsqueeze(1) * latest, latest), error)
        });
        BTreeMap::from([("errors", errors), ("weights", weights)])
    })
}

fn rls_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, k] = ["T", "B", "K"].map(|letter| sizes.get(letter));
    vec![("regressors", numbers.normal(&[t, b, k], 1.0)), ("desired", numbers.normal(&[t, b], 1.0))]
}

/// Builds a graph that runs recursive least squares with a forgetting factor of 0.999, which gradually reduces the
/// weight of old samples.
fn rls(sizes: &Sizes) -> funcify::Result<Graph> {
    let [b, k] = ["B", "K"].map(|letter| sizes.get(letter));
    Graph::build("rls", |g| {
        let regressors = g.input("regressors", format!("f32[T,{b},{k}]").as_str());
        let desired = g.input("desired", format!("f32[T,{b}]").as_str());
        let inverse = (10.0 * eye(k, DType::F32)).broadcast_to([b, k, k]);
        let start = (full([b, k], DType::F32, 0.0), inverse);
        let ((weights, _), errors) = scan(start, (regressors, desired), |(weights, inverse), (x, desired)| {
            let product = einsum("bij,bj->bi", &[inverse, x]);
            let gain = product / (0.999 + (x * product).sum(1)).unsqueeze(1);
            let error = desired - (weights * x).sum(1);
            let inverse = (inverse - gain.unsqueeze(2) * product.unsqueeze(1)) / 0.999;
            ((weights + error.unsqueeze(1) * gain, inverse), error)
        });
        BTreeMap::from([("errors", errors), ("weights", weights)])
    })
}
