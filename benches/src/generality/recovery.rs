//! Signal recovery: sparse coding, and deconvolution of images.

use funcify::ops::ConvOptions;
use funcify::{DType, Graph, Value, fori_loop, full};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 50), ("B", 32), ("M", 64), ("N", 256)])],
        quick: &[Sizes(&[("T", 4), ("B", 3), ("M", 4), ("N", 8)])],
        loss: Loss::None,
        ..Workload::without_handwritten("ista", "signal recovery", ista_inputs, ista)
    },
    Workload {
        full: &[Sizes(&[("T", 20), ("B", 2), ("N", 96), ("K", 7)])],
        quick: &[Sizes(&[("T", 3), ("B", 3), ("N", 8), ("K", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("richardson_lucy", "signal recovery", image_inputs, richardson_lucy)
    },
];

fn ista_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [b, m, n] = ["B", "M", "N"].map(|letter| sizes.get(letter));
    vec![("dictionary", numbers.normal(&[n, m], (m as f64).sqrt().recip())), ("signals", numbers.normal(&[b, m], 1.0))]
}

/// Builds a graph that computes sparse codes by iterative soft thresholding, which shrinks the codes towards zero after
/// each gradient step.
fn ista(sizes: &Sizes) -> funcify::Result<Graph> {
    let [steps, b, n] = ["T", "B", "N"].map(|letter| sizes.get(letter));
    Graph::build("ista", |g| {
        let dictionary = g.input("dictionary", format!("f32[{n},M]").as_str());
        let signals = g.input("signals", format!("f32[{b},M]").as_str());
        let codes = fori_loop(0, steps, full([b, n], DType::F32, 0.0), |_, codes| {
            let residual = codes.matmul(dictionary) - signals;
            let moved = codes - 0.08 * residual.matmul(dictionary.t());
            moved.sign() * (moved.abs() - 0.008).maximum(0.0)
        });
        output("codes", codes)
    })
}

fn image_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [b, n, k] = ["B", "N", "K"].map(|letter| sizes.get(letter));
    vec![("observed", numbers.uniform(&[b, 1, n, n], 0.2, 1.0)), ("spread", numbers.uniform(&[k, k], 0.0, 1.0))]
}

/// Builds a graph that deconvolves blurred images by the Richardson-Lucy algorithm.
fn richardson_lucy(sizes: &Sizes) -> funcify::Result<Graph> {
    let [steps, k] = ["T", "K"].map(|letter| sizes.get(letter));
    Graph::build("richardson_lucy", |g| {
        let observed = g.input("observed", "f32[B,1,N,N]");
        let spread = g.input("spread", format!("f32[{k},{k}]").as_str());
        let around = (k / 2) as i64;
        let blur = |image: Value, kernel: Value| {
            image.conv(kernel, ConvOptions { padding: [(around, around); 2], ..ConvOptions::default() })
        };
        let kernel = (spread / spread.sum(..)).reshape([1, 1, k, k]);
        let mirrored = kernel.reverse(2).reverse(3);
        let image = fori_loop(0, steps, observed.full_like(0.5), |_, image| {
            image * blur(observed / (blur(image, kernel) + 1e-6), mirrored)
        });
        output("image", image)
    })
}
