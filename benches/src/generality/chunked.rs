//! Sequence layers that scan over chunks of a sequence, and attention over blocks of keys.

use funcify::{DType, Graph, eye, full, scan, select, tri_mask};

use crate::workloads::{Inputs, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("C", 64), ("Q", 32), ("H", 8), ("P", 32), ("N", 16)])],
        quick: &[Sizes(&[("C", 3), ("Q", 4), ("H", 3), ("P", 5), ("N", 4)])],
        differentiated: &["x", "decay", "b", "c"],
        ..Workload::without_handwritten("mamba2_chunked", "chunked sequence layers", mamba2_inputs, mamba2_chunked)
    },
    Workload {
        full: &[Sizes(&[("C", 64), ("Q", 16), ("H", 8), ("D", 32)])],
        quick: &[Sizes(&[("C", 3), ("Q", 4), ("H", 3), ("D", 5)])],
        differentiated: &["q", "k", "v", "beta"],
        ..Workload::without_handwritten("delta_rule", "chunked sequence layers", delta_inputs, delta_rule)
    },
    Workload {
        full: &[Sizes(&[("J", 8), ("K", 64), ("H", 4), ("T", 256), ("D", 32)])],
        quick: &[Sizes(&[("J", 3), ("K", 4), ("H", 3), ("T", 5), ("D", 6)])],
        differentiated: &["q", "k", "v"],
        ..Workload::without_handwritten("flash_attention", "attention in blocks", attention_inputs, flash_attention)
    },
];

fn mamba2_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [c, q, h, p, n] = ["C", "Q", "H", "P", "N"].map(|letter| sizes.get(letter));
    let scale = (n as f64).sqrt().recip();
    vec![
        ("x", numbers.normal(&[c, h, q, p], 1.0)),
        ("decay", numbers.normal(&[c, h, q], 1.0)),
        ("b", numbers.normal(&[c, q, n], scale)),
        ("c", numbers.normal(&[c, q, n], scale)),
    ]
}

/// Builds a graph that runs the state space layer of Mamba-2. Within a chunk, the layer is a masked matrix product; a
/// state is carried from chunk to chunk.
fn mamba2_chunked(sizes: &Sizes) -> funcify::Result<Graph> {
    let [q, h, p, n] = ["Q", "H", "P", "N"].map(|letter| sizes.get(letter));
    Graph::build("mamba2_chunked", |g| {
        let x = g.input("x", format!("f32[C,{h},{q},{p}]").as_str());
        let decay = g.input("decay", format!("f32[C,{h},{q}]").as_str());
        let [b, c] = ["b", "c"].map(|name| g.input(name, format!("f32[C,{q},{n}]").as_str()));
        let mask = tri_mask(q, q, 0);
        let start = full([h, n, p], DType::F32, 0.0);
        let (_, y) = scan(start, (x, -decay.softplus(), b, c), |state, (x, log_decay, b, c)| {
            let sums = log_decay.cumsum(1, false);
            let total = sums.slice(1, -1..);
            let between = select(mask, sums.unsqueeze(2) - sums.unsqueeze(1), f64::NEG_INFINITY).exp();
            let within = (c.matmul(b.t()) * between).matmul(x);
            let earlier = sums.exp().unsqueeze(2) * c.matmul(state);
            let weighted = (total - sums).exp().unsqueeze(2) * x;
            (total.exp().unsqueeze(2) * state + b.t().matmul(weighted), within + earlier)
        });
        output("y", y)
    })
}

fn delta_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [c, q, h, d] = ["C", "Q", "H", "D"].map(|letter| sizes.get(letter));
    vec![
        ("q", numbers.normal(&[c, h, q, d], 1.0)),
        ("k", numbers.normal(&[c, h, q, d], 1.0)),
        ("v", numbers.normal(&[c, h, q, d], 1.0)),
        ("beta", numbers.normal(&[c, h, q], 1.0)),
    ]
}

/// Builds a graph that runs linear attention with the delta rule. The rule moves the value that the state stores for a
/// key towards the new value. Each chunk needs the inverse of `I + A`, where `A` is strictly lower triangular. The
/// inverse is `(I - A) (I + A^2) (I + A^4) ...`.
fn delta_rule(sizes: &Sizes) -> funcify::Result<Graph> {
    let [length, h, d] = ["Q", "H", "D"].map(|letter| sizes.get(letter));
    Graph::build("delta_rule", |g| {
        let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, format!("f32[C,{h},{length},{d}]").as_str()));
        let beta = g.input("beta", format!("f32[C,{h},{length}]").as_str()).sigmoid();
        let k = k / (k.square().sum(3) + 1e-6).sqrt().unsqueeze(3);
        let unit = eye(length, DType::F32);
        let start = full([h, d, d], DType::F32, 0.0);
        let (_, y) = scan(start, (q, k, v, beta), |state, (q, k, v, beta)| {
            let beta = beta.unsqueeze(2);
            let mut power = (beta * k.matmul(k.t())).tril(-1);
            let mut inverse = unit - power;
            let mut reached = 2;
            while reached < length {
                power = power.matmul(power);
                inverse = inverse.matmul(unit + power);
                reached *= 2;
            }
            let update = inverse.matmul(beta * (v - k.matmul(state)));
            let y = q.matmul(state) + q.matmul(k.t()).tril(0).matmul(update);
            (state + k.t().matmul(update), y)
        });
        output("y", y)
    })
}

fn attention_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [j, k, h, t, d] = ["J", "K", "H", "T", "D"].map(|letter| sizes.get(letter));
    vec![
        ("q", numbers.normal(&[h, t, d], 1.0)),
        ("k", numbers.normal(&[j, h, k, d], 1.0)),
        ("v", numbers.normal(&[j, h, k, d], 1.0)),
    ]
}

/// Builds a graph that computes attention block by block. The carry holds the largest score so far, the sum of the
/// exponentials, and the weighted sum of the values.
fn flash_attention(sizes: &Sizes) -> funcify::Result<Graph> {
    let scale = (sizes.get("D") as f64).sqrt().recip();
    Graph::build("flash_attention", |g| {
        let q = g.input("q", "f32[H,T,D]");
        let [k, v] = ["k", "v"].map(|name| g.input(name, "f32[J,H,K,D]"));
        let start = (
            full(["H", "T"], DType::F32, f64::NEG_INFINITY),
            full(["H", "T"], DType::F32, 0.0),
            full(["H", "T", "D"], DType::F32, 0.0),
        );
        let ((_, sum, values), ()) = scan(start, (k, v), |(largest, sum, values), (k, v)| {
            let scores = scale * q.matmul(k.t());
            let next = largest.maximum(scores.max(2).stop_gradient());
            let weights = (scores - next.unsqueeze(2)).exp();
            let kept = (largest - next).exp();
            let sum = kept * sum + weights.sum(2);
            ((next, sum, kept.unsqueeze(2) * values + weights.matmul(v)), ())
        });
        output("y", values / sum.unsqueeze(2))
    })
}
