//! Greedy decoders with an early exit.

use funcify::{DType, ScanOptions, Value, constant, full, iota, scan_until_with, select, stack, while_loop};

use crate::cases::{Programs, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    // Decodes tokens up to and including the end token, with `scan_until`.
    &program(&["greedy_decode"], ["emb", "wh", "wo", "h0", "bos", "eos_bias"], |[emb, wh, wo, h0, bos, eos_bias]| {
        let start = (h0, bos, constant(0i64), eos_bias.zeros_like());
        let options = ScanOptions::new().length(12);
        let ((_, _, _, score), tokens) = scan_until_with(options, start, (), |(h, token, n, score), ()| {
            let (h, z) = logits([emb, wh, wo], h, token, eos_bias * n.cast(eos_bias.dtype()));
            let token = z.argmax(0);
            let score = score + z.dynamic_index(0, token) - z.logsumexp(0);
            ((h, token, n + 1, score), token, token.eq(0))
        });
        outputs! { tokens, score }
    }),
    // Decodes three sequences at once, until all of them have ended.
    &program(
        &["batch_greedy_decode"],
        ["emb", "wh", "wo", "h0", "bos", "eos_bias"],
        |[emb, wh, wo, h0, bos, eos_bias]| {
            let score = h0.index(1, 0).zeros_like();
            let start = (h0, bos, bos.lt(0), score, full([10, 3], DType::I64, -1.0), constant(0i64));
            let (_, _, _, score, tokens, n) = while_loop(
                start,
                |(_, _, done, _, _, n)| n.lt(10) & !done.all(0),
                |(h, token, done, score, tokens, n)| {
                    let (h, z) = logits([emb, wh, wo], h, token, eos_bias * n.cast(eos_bias.dtype()));
                    let new = z.argmax(1);
                    let gain = z.gather(1, new.unsqueeze(1)).squeeze(1) - z.logsumexp(1);
                    let row = select(done, -1, new);
                    let tokens = tokens.dynamic_update(0, stack(&[row], 0), n);
                    (h, new, done | new.eq(0), select(done, score, score + gain), tokens, n + 1)
                },
            );
            outputs! { tokens, score, n }
        },
    ),
];

/// Returns the next state, and the logits of the next token. Adds `bias` to the logit of the end token (token 0).
fn logits([emb, wh, wo]: [Value; 3], h: Value, token: Value, bias: Value) -> (Value, Value) {
    let h = (emb.take(0, token) + h.matmul(wh)).tanh();
    let z = h.matmul(wo);
    let is_end = iota(z.dim(-1), DType::I64).eq(0);
    (h, z + select(is_end, bias, 0.0))
}
