//! Search and decoding: beam search with a recurrent language model.

use std::collections::BTreeMap;

use funcify::{DType, Graph, ScanOptions, full, iota, scan_with, select};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload};

pub(super) const ALL: &[Workload] = &[Workload {
    full: &[Sizes(&[("T", 30), ("B", 8), ("K", 4), ("V", 256), ("H", 64)])],
    quick: &[Sizes(&[("T", 4), ("B", 3), ("K", 3), ("V", 7), ("H", 5)])],
    loss: Loss::None,
    ..Workload::without_handwritten("beam_search", "search and decoding", inputs, beam_search)
}];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [b, v, h] = ["B", "V", "H"].map(|letter| sizes.get(letter));
    let scale = (h as f64).sqrt().recip();
    vec![
        ("embed", numbers.normal(&[v, h], 1.0)),
        ("u", numbers.normal(&[h, h], scale)),
        ("out", numbers.normal(&[h, v], 2.0 * scale)),
        ("h0", numbers.normal(&[b, h], 0.5)),
    ]
}

fn beam_search(sizes: &Sizes) -> funcify::Result<Graph> {
    let [b, k, v, h] = ["B", "K", "V", "H"].map(|letter| sizes.get(letter));
    let steps = ScanOptions::new().length(sizes.get("T"));
    Graph::build("beam_search", |g| {
        let embed = g.input("embed", format!("f32[{v},{h}]").as_str());
        let u = g.input("u", format!("f32[{h},{h}]").as_str());
        let out = g.input("out", format!("f32[{h},{v}]").as_str());
        let h0 = g.input("h0", format!("f32[{b},{h}]").as_str());
        // All beams start with token 0 and are therefore identical. To avoid duplicates, all beams but the first start
        // with such a low score that the first step does not choose them.
        let tokens = full([b, k], DType::I32, 0.0);
        let scores = select(iota(k, DType::I32).eq(0), 0.0, -1e9).broadcast_to([b, k]);
        let start = (tokens, scores, h0.unsqueeze(1).broadcast_to([b, k, h]));
        let ((_, scores, _), (tokens, parents)) = scan_with(steps, start, (), |(tokens, scores, hidden), ()| {
            let hidden = (embed.take(0, tokens) + hidden.matmul(u)).tanh();
            let extended = scores.unsqueeze(2) + hidden.matmul(out).log_softmax(2);
            let (scores, places) = extended.reshape([b, k * v]).top_k(1, k);
            let places = places.cast(DType::I32);
            let (parents, tokens) = (places / v as i64, places % v as i64);
            let hidden = hidden.take_along(1, parents.unsqueeze(2).broadcast_to([b, k, h]));
            ((tokens, scores, hidden), (tokens, parents))
        });
        let best = full([b], DType::I32, 0.0);
        let backward = ScanOptions::new().reverse();
        let (_, path) = scan_with(backward, best, (tokens, parents), |beam, (tokens, parents)| {
            let [token, parent] = [tokens, parents].map(|of| of.take_along(1, beam.unsqueeze(1)).squeeze(1));
            (parent, token)
        });
        BTreeMap::from([("scores", scores), ("path", path)])
    })
}
