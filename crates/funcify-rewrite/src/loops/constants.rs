//! Replaces loop operands that are splats (tensors whose elements all equal the same number) with constants inside the
//! body (PyTensor's `scan_remove_constants_and_unused_inputs`). Other rules can then use the constant, and a cotangent
//! that is 1 everywhere is not expanded to a tensor over all steps.
//!
//! Precondition: the number is known. If the operand is a sequence, the loop must not be able to fail, because removing
//! the sequence would lose the error about missing rows.

use super::*;

/// Replaces loop operands that are splats of a known number with constants.
pub(crate) fn constants(context: &RewriteContext<'_>) -> Option<Patch> {
    let Op::Scan(scan) = context.op else { return None };
    let places = scan.operands();
    let number = |operand: usize| context.splat(context.operands[operand]);
    let is_certain = scan.sequences.iter().any(|sequence| !sequence.reads.is_empty()) && is_certain_loop(context, scan);
    let sequences: Vec<Option<Scalar>> =
        places.sequences.map(|operand| number(operand).filter(|_| is_certain)).collect();
    let invariants: Vec<Option<Scalar>> = places.invariants.map(number).collect();
    if sequences.iter().chain(&invariants).all(Option::is_none) {
        return None;
    }
    context.build(context.operands, |operands| {
        let mut parts = Loop::of(scan, operands);
        let mut numbers = sequences.iter();
        parts.sequences.retain(|part| {
            let number = numbers.next().copied().flatten();
            parts.constants.extend(part.reads.iter().filter_map(|(_, param)| Some((*param, number?))));
            number.is_none()
        });
        let mut numbers = invariants.iter();
        parts.invariants.retain(|(_, param)| {
            let number = numbers.next().copied().flatten();
            parts.constants.extend(number.map(|number| (*param, number)));
            number.is_none()
        });
        parts.emit()?.old.into_iter().collect()
    })
}
