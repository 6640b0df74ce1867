//! Recurrent networks.

use funcify::{ScanOptions, Value, concat, scan, scan_with};

use crate::cases::{Programs, carry_as_output, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    // An Elman network with a batch axis.
    &program(&["rnn", "rnn_f64"], ["x", "h0", "wx", "wh", "b"], |[x, h0, wx, wh, b]| {
        let (last, ys) = scan(h0, x, |h, x| carry_as_output((x.matmul(wx) + h.matmul(wh) + b).tanh()));
        outputs! { final: last, ys }
    }),
    // An Elman network with a sigmoid, without a batch axis.
    &program(&["rnn_sigmoid"], ["x", "h0", "w", "u"], |[x, h0, w, u]| {
        let (last, ys) = scan(h0, x, |h, x| carry_as_output((x.matmul(w) + h.matmul(u)).sigmoid()));
        outputs! { final: last, ys }
    }),
    // An LSTM, which has two states and computes all four gates at once.
    &program(&["lstm"], ["x", "h0", "c0", "wx", "wh", "b"], |[x, h0, c0, wx, wh, b]| {
        let ((h, c), ys) = scan((h0, c0), x, |(h, c), x| {
            let z = x.matmul(wx) + h.matmul(wh) + b;
            let [i, f, g, o] = [0, 2, 4, 6].map(|at| z.slice(0, at..at + 2));
            let c = f.sigmoid() * c + i.sigmoid() * g.tanh();
            let h = o.sigmoid() * c.tanh();
            ((h, c), h)
        });
        outputs! { h, c, ys }
    }),
    // A GRU with a batch axis.
    &program(&["gru"], ["x", "h0", "w", "u", "b"], |[x, h0, w, u, b]| {
        let (last, ys) = scan(h0, x, |h, x| {
            let thirds = |z: Value| [0, 3, 6].map(|at| z.slice(1, at..at + 3));
            let [ar, az, an] = thirds(x.matmul(w) + b);
            let [vr, vz, vn] = thirds(h.matmul(u));
            let r = (ar + vr).sigmoid();
            let z = (az + vz).sigmoid();
            let n = (an + r * vn).tanh();
            let h = (1.0 - z) * n + z * h;
            (h, h)
        });
        outputs! { final: last, ys }
    }),
    // A forward and a reverse scan over the same sequence.
    &program(&["bidirectional_rnn"], ["x", "h0", "w", "u", "v"], |[x, h0, w, u, v]| {
        let run = |options: ScanOptions, start: Value, m: Value| {
            let (_, ys) = scan_with(options, start, x, |h, x| carry_as_output((x.matmul(w) + h.matmul(m)).tanh()));
            ys
        };
        let f = run(ScanOptions::new(), h0.index(0, 0), u);
        let b = run(ScanOptions::new().reverse(), h0.index(0, 1), v);
        outputs! { ys: concat(&[f, b], 1) }
    }),
    // A network of two layers, both computed in the same loop.
    &program(&["stacked_rnn"], ["x", "h0", "w1", "u1", "w2", "u2"], |[x, h0, w1, u1, w2, u2]| {
        let ((a, b), ys) = scan((h0.index(0, 0), h0.index(0, 1)), x, |(a, b), x| {
            let a = (x.matmul(w1) + a.matmul(u1)).tanh();
            let b = (a.matmul(w2) + b.matmul(u2)).tanh();
            ((a, b), b)
        });
        outputs! { a, b, ys }
    }),
    // A scan over the layers of a residual network. Each row contains the parameters of a layer.
    &program(&["residual_layers"], ["x", "w", "b"], |[x, w, b]| {
        let (y, norms) = scan(x, (w, b), |h, (w, b)| {
            let h = h + (h.matmul(w) + b).tanh();
            (h, h.square().sum(..))
        });
        outputs! { y, norms }
    }),
    // A decoder whose steps attend to a captured memory.
    &program(&["attention_decoder"], ["x", "h0", "memory", "wx", "wh", "wc"], |[x, h0, memory, wx, wh, wc]| {
        let (_, (ys, weights)) = scan(h0, x, |h, x| {
            let a = memory.matmul(h).softmax(-1);
            let h = (x.matmul(wx) + h.matmul(wh) + a.matmul(memory).matmul(wc)).tanh();
            (h, (h, a))
        });
        outputs! { ys, weights }
    }),
    // Teacher forcing: computes the negative log-likelihood of each next token, and looks up embeddings in each step.
    &program(&["language_model_loss"], ["emb", "wh", "wo", "h0", "tokens"], |[emb, wh, wo, h0, tokens]| {
        let (_, nll) = scan(h0, (tokens.slice(0, ..5), tokens.slice(0, 1..6)), |h, (token, next)| {
            let h = (emb.take(0, token) + h.matmul(wh)).tanh();
            let z = h.matmul(wo);
            (h, z.logsumexp(-1) - z.take(0, next))
        });
        outputs! { loss: nll.sum(..) / 5.0 }
    }),
];
