//! Replaces ops on constants with their results (constant folding, as in XLA and PyTensor). The reference evaluator
//! computes the results.
//!
//! An op is folded only if no operand has more than 1024 elements, and the result has at most 16 elements or is no
//! larger than the largest operand. Broadcasts of constants are not folded, because other rules recognise them.

use funcify_core::ops::{Creation, EvalContext};

use super::rule::{Patch, RewriteContext};
use super::*;

/// The maximum number of elements of a result that is larger than all operands.
const MAX_GROWN_ELEMENTS: usize = 16;

/// The maximum number of elements of any operand or result.
const MAX_ELEMENTS: usize = 1 << 10;

/// Evaluates an op whose operands are constants, and replaces the op with the result.
pub(super) fn fold(context: &RewriteContext<'_>) -> Option<Patch> {
    match context.op.class() {
        // Constants and `iota` are not worth folding, and other rules recognise broadcasts of constants.
        OpClass::Creation(Creation::Constant(_) | Creation::Iota(_)) | OpClass::Movement(Movement::Broadcast(_)) => {
            return None;
        }
        OpClass::Control(_) | OpClass::Custom(_) => return None,
        OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(Creation::Size(_)) => {}
        OpClass::Indexing(_) | OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) => {}
        OpClass::Binding(_) => {}
    }
    let operands = context.operands.iter().map(|operand| Some((**context.constant(*operand)?).clone()));
    let operands: Vec<HostTensor> = operands.collect::<Option<_>>()?;
    let types = context.results()?;
    let largest = operands.iter().map(HostTensor::len).max().unwrap_or(0);
    let is_small =
        |sizes: Vec<usize>| sizes.iter().product::<usize>() <= largest.clamp(MAX_GROWN_ELEMENTS, MAX_ELEMENTS);
    if types.len() != 1 || largest > MAX_ELEMENTS || !types[0].shape.constant().is_some_and(is_small) {
        return None;
    }
    let mut sizes = Sizes::new();
    let mut eval = EvalContext { at: Place::new(context.op.name(), context.site), sizes: &mut sizes };
    // An op that fails is kept, so that the program still fails at run time.
    let result = context.op.eval(&mut eval, &operands, &types).ok()?.pop()?;
    context.one_op(Constant { value: Arc::new(result) }, &[])
}
