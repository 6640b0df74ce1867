//! Alignment losses: connectionist temporal classification, and soft dynamic time warping.

use funcify::{DType, Graph, Value, concat, full, iota, scan, select, stack};

use crate::workloads::{Inputs, Loss, Numbers, Sizes, Workload, output};

pub(super) const ALL: &[Workload] = &[
    Workload {
        full: &[Sizes(&[("T", 200), ("B", 16), ("V", 32), ("L", 40)])],
        quick: &[Sizes(&[("T", 12), ("B", 3), ("V", 6), ("L", 4)])],
        loss: Loss::Output,
        differentiated: &["logits"],
        ..Workload::without_handwritten("ctc_loss", "alignment losses", ctc_inputs, ctc_loss)
    },
    Workload {
        full: &[Sizes(&[("B", 8), ("N", 128), ("M", 128), ("D", 4)])],
        quick: &[Sizes(&[("B", 3), ("N", 6), ("M", 5), ("D", 3)])],
        loss: Loss::Output,
        differentiated: &["x"],
        ..Workload::without_handwritten("soft_dtw", "alignment losses", dtw_inputs, soft_dtw)
    },
];

fn ctc_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [t, b, v, l] = ["T", "B", "V", "L"].map(|letter| sizes.get(letter));
    vec![("logits", numbers.normal(&[t, b, v], 1.0)), ("labels", numbers.integers(&[b, l], DType::I32, 1, v as i64))]
}

/// The logarithm of the probability of an impossible alignment.
const IMPOSSIBLE: f64 = -1e30;

fn ctc_loss(_: &Sizes) -> funcify::Result<Graph> {
    Graph::build("ctc_loss", |g| {
        let (logits, labels) = (g.input("logits", "f32[T,B,V]"), g.input("labels", "i32[B,L]"));
        // Label 0 is the blank. A blank precedes and follows each label.
        let blanks = labels.zeros_like();
        let pairs = stack(&[blanks, labels], 2).reshape([labels.dim(0), labels.dim(1) * 2]);
        let states = concat(&[pairs, blanks.slice(1, ..1)], 1);
        // A path may skip the blank between two different labels.
        let can_skip = states.slice(1, 2..).ne(states.slice(1, ..-2)).pad(1, 2, 0, 0.0);
        let start = select(iota(states.dim(1), DType::I32).eq(0), 0.0, IMPOSSIBLE).broadcast_to(states.shape());
        let (last, ()) = scan(start, logits.log_softmax(2), |alpha, log_probabilities| {
            let advance = alpha.slice(1, ..-1).pad(1, 1, 0, IMPOSSIBLE);
            let skip = select(can_skip, alpha.slice(1, ..-2).pad(1, 2, 0, IMPOSSIBLE), IMPOSSIBLE);
            let alpha = alpha.logaddexp(advance).logaddexp(skip);
            (alpha + log_probabilities.take_along(1, states), ())
        });
        output("loss", -last.index(1, -1).logaddexp(last.index(1, -2)).mean(..))
    })
}

fn dtw_inputs(sizes: &Sizes, numbers: &mut Numbers) -> Inputs {
    let [b, n, m, d] = ["B", "N", "M", "D"].map(|letter| sizes.get(letter));
    vec![("x", numbers.normal(&[b, n, d], 1.0)), ("y", numbers.normal(&[b, m, d], 1.0))]
}

/// The temperature of the soft minimum.
const GAMMA: f64 = 0.5;
/// A cost that exceeds the cost of any path.
const FAR: f64 = 1e8;

/// Builds a graph that computes soft dynamic time warping by a scan over the anti-diagonals of the cost matrix. Element
/// `i + 1` of a diagonal belongs to position `i` of `x`; element 0 is the border.
fn soft_dtw(sizes: &Sizes) -> funcify::Result<Graph> {
    let [b, n, m, d] = ["B", "N", "M", "D"].map(|letter| sizes.get(letter));
    Graph::build("soft_dtw", |g| {
        let x = g.input("x", format!("f32[{b},{n},{d}]").as_str());
        let y = g.input("y", format!("f32[{b},{m},{d}]").as_str());
        let costs = (x.unsqueeze(2) - y.unsqueeze(1)).square().sum(3);
        // Row i of the skewed costs is row i of the costs, shifted right by i columns.
        let steps = n + m - 1;
        let padded = costs.pad(2, 0, n, FAR).reshape([b, n * (n + m)]);
        let skewed = padded.slice(1, ..n * steps).reshape([b, n, steps]);
        let border = full([b, 1], DType::F32, 0.0);
        let far = full([b, n + 1], DType::F32, FAR);
        let before = concat(&[border, far.slice(1, 1..)], 1);
        let soft_minimum = |paths: &[Value]| (stack(paths, 0) / -GAMMA).logsumexp(0) * -GAMMA;
        let ((_, last), ()) = scan((before, far), skewed.transpose([2, 0, 1]), |(before, last), costs| {
            let paths = [last.slice(1, 1..), last.slice(1, ..-1), before.slice(1, ..-1)];
            let next = costs + soft_minimum(&paths);
            ((last, next.pad(1, 1, 0, FAR)), ())
        });
        output("distance", last.index(1, -1).mean(..))
    })
}
