//! Hidden Markov models: the forward algorithm in log space, and the Viterbi algorithm, which finds the most likely
//! path.

use funcify::{DType, Graph, scan};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 1000), ("S", 32), ("B", 16)])],
        quick: &[Sizes(&[("T", 12), ("S", 5), ("B", 3)])],
        loss: Loss::Output,
        differentiated: &["transition", "emission"],
        ..Workload::without_handwritten("hmm_likelihood", "hidden Markov models", inputs, likelihood)
    },
    Workload {
        full: &[Sizes(&[("T", 1000), ("S", 32), ("B", 16)])],
        quick: &[Sizes(&[("T", 12), ("S", 5), ("B", 3)])],
        loss: Loss::None,
        ..Workload::without_handwritten("viterbi", "hidden Markov models", inputs, viterbi)
    },
];

fn inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, s, b] = ["T", "S", "B"].map(|letter| sizes.get(letter));
    vec![
        ("transition", numbers.normal(&[s, s], 1.0)),
        ("emission", numbers.normal(&[t, b, s], 1.0)),
        ("start", numbers.normal(&[b, s], 1.0)),
    ]
}

fn likelihood(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("hmm_likelihood", |g| {
        let (transition, start) = (g.input("transition", "f32[S,S]"), g.input("start", "f32[B,S]"));
        let emission = g.input("emission", "f32[T,B,S]");
        let transition = transition.log_softmax(1);
        let (last, _) = scan(start.log_softmax(1), emission, |alpha, emission| {
            let alpha = (alpha.unsqueeze(2) + transition.unsqueeze(0)).logsumexp(1) + emission;
            (alpha, ())
        });
        output("likelihood", last.logsumexp(1).mean(..))
    })
}

fn viterbi(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("viterbi", |g| {
        let (transition, start) = (g.input("transition", "f32[S,S]"), g.input("start", "f32[B,S]"));
        let emission = g.input("emission", "f32[T,B,S]");
        let (last, back) = scan(start, emission, |best, emission| {
            let scores = best.unsqueeze(2) + transition.unsqueeze(0);
            (scores.max(1) + emission, scores.argmax(1).cast(DType::I32))
        });
        let end = last.argmax(1).cast(DType::I32);
        let (_, path) = scan(end, back.reverse(0), |state, back| {
            let state = back.take_along(1, state.unsqueeze(1)).squeeze(1);
            (state, state)
        });
        output("path", path)
    })
}
