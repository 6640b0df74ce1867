//! Chains register ops: an op takes the result of the previous op directly, without a register in between.

use super::{RegisterOp, Verb};

/// Chains register ops to their predecessors where possible.
pub(in super::super) fn chain(words: &mut [RegisterOp]) {
    // The register of the last result.
    let mut last = None;
    for word in words {
        if let Some(last) = last {
            *word = chained(*word, last).unwrap_or(*word);
        }
        if !matches!(word.verb, Verb::Store | Verb::StoreLast | Verb::EndUnless) {
            last = Some(word.to);
        }
    }
}

/// Returns a register op that takes the operand in register `last` from the previous op instead.
fn chained(word: RegisterOp, last: u8) -> Option<RegisterOp> {
    let RegisterOp { verb, to, from: [a, b, c] } = word;
    let word = |verb, from: [u8; 2]| Some(RegisterOp { verb, to, from: [from[0], from[1], 0] });
    let (is_a, is_b, is_c) = (a == last, b == last, c == last);
    match verb {
        Verb::Add if is_a => word(Verb::AddLast, [b, 0]),
        Verb::Add if is_b => word(Verb::AddLast, [a, 0]),
        Verb::Sub if is_a => word(Verb::SubFromLast, [b, 0]),
        Verb::Sub if is_b => word(Verb::SubLast, [a, 0]),
        Verb::Mul if is_a => word(Verb::MulLast, [b, 0]),
        Verb::Mul if is_b => word(Verb::MulLast, [a, 0]),
        Verb::Div if is_a => word(Verb::DivOfLast, [b, 0]),
        Verb::Div if is_b => word(Verb::DivByLast, [a, 0]),
        Verb::MulAdd if is_c => word(Verb::MulAddLast, [a, b]),
        Verb::MulAdd if is_a => word(Verb::MulLastAdd, [b, c]),
        Verb::MulAdd if is_b => word(Verb::MulLastAdd, [a, c]),
        Verb::MulSub if is_c => word(Verb::MulSubLast, [a, b]),
        Verb::MulSub if is_a => word(Verb::MulLastSub, [b, c]),
        Verb::MulSub if is_b => word(Verb::MulLastSub, [a, c]),
        Verb::NegMulAdd if is_c => word(Verb::NegMulAddLast, [a, b]),
        Verb::NegMulAdd if is_a => word(Verb::NegMulLastAdd, [b, c]),
        Verb::NegMulAdd if is_b => word(Verb::NegMulLastAdd, [a, c]),
        Verb::Square if is_a => word(Verb::SquareLast, [0, 0]),
        Verb::Neg if is_a => word(Verb::NegLast, [0, 0]),
        Verb::Store if is_a => word(Verb::StoreLast, [0, 0]),
        Verb::Unary(op) if is_a => word(Verb::UnaryLast(op), [0, 0]),
        _ => None,
    }
}
