//! Chains register ops: lets an op read the previous op's result directly instead of from a register.

use super::{RegisterOp, Verb};

/// Chains each register op to the previous one where possible.
pub(in super::super) fn chain(ops: &mut [RegisterOp]) {
    // The register that holds the previous op's result.
    let mut last = None;
    for op in ops {
        if let Some(last) = last {
            *op = chained(*op, last).unwrap_or(*op);
        }
        if !matches!(op.verb, Verb::Store | Verb::StoreLast | Verb::EndUnless) {
            last = Some(op.to);
        }
    }
}

/// Returns the form of `op` that reads the previous result directly instead of from register `last`, or `None` if there
/// is no such form.
fn chained(op: RegisterOp, last: u8) -> Option<RegisterOp> {
    let RegisterOp { verb, to, from: [a, b, c] } = op;
    let chained = |verb, from: [u8; 2]| Some(RegisterOp { verb, to, from: [from[0], from[1], 0] });
    let (is_a, is_b, is_c) = (a == last, b == last, c == last);
    match verb {
        Verb::Add if is_a => chained(Verb::AddLast, [b, 0]),
        Verb::Add if is_b => chained(Verb::AddLast, [a, 0]),
        Verb::Sub if is_a => chained(Verb::SubFromLast, [b, 0]),
        Verb::Sub if is_b => chained(Verb::SubLast, [a, 0]),
        Verb::Mul if is_a => chained(Verb::MulLast, [b, 0]),
        Verb::Mul if is_b => chained(Verb::MulLast, [a, 0]),
        Verb::Div if is_a => chained(Verb::DivOfLast, [b, 0]),
        Verb::Div if is_b => chained(Verb::DivByLast, [a, 0]),
        Verb::MulAdd if is_c => chained(Verb::MulAddLast, [a, b]),
        Verb::MulAdd if is_a => chained(Verb::MulLastAdd, [b, c]),
        Verb::MulAdd if is_b => chained(Verb::MulLastAdd, [a, c]),
        Verb::MulSub if is_c => chained(Verb::MulSubLast, [a, b]),
        Verb::MulSub if is_a => chained(Verb::MulLastSub, [b, c]),
        Verb::MulSub if is_b => chained(Verb::MulLastSub, [a, c]),
        Verb::NegMulAdd if is_c => chained(Verb::NegMulAddLast, [a, b]),
        Verb::NegMulAdd if is_a => chained(Verb::NegMulLastAdd, [b, c]),
        Verb::NegMulAdd if is_b => chained(Verb::NegMulLastAdd, [a, c]),
        Verb::Square if is_a => chained(Verb::SquareLast, [0, 0]),
        Verb::Neg if is_a => chained(Verb::NegLast, [0, 0]),
        Verb::Store if is_a => chained(Verb::StoreLast, [0, 0]),
        Verb::Unary(op) if is_a => chained(Verb::UnaryLast(op), [0, 0]),
        _ => None,
    }
}
