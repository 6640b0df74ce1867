//! Limits the memory that rules add to a loop, relative to the bytes that the loop already reads and writes.
//!
//! Symbolic sizes are compared as polynomials. If the result of a comparison depends on the values of the symbols, the
//! limit counts as exceeded.

use funcify_core::types::{Replacements, TensorType};

use super::*;

/// The limit on the memory that a rule may add, as a multiple of the bytes that a loop reads and writes.
pub(super) const MAX_MEMORY_FACTOR: i64 = 8;

/// The number of bytes, in total over all steps, that a rule may add to any loop.
const ALWAYS_ALLOWED_BYTES: i64 = 1 << 16;

/// Returns the size in bytes of a tensor of the given type.
pub(super) fn bytes(ty: &TensorType) -> Dim {
    ty.shape.elements() * ty.dtype.size()
}

/// Returns the number of bytes that a step reads from sequences and writes to buffers.
pub(super) fn bytes_of_step(scan: &Scan) -> Dim {
    let (params, results) = (scan.params(), scan.results());
    // If a step reads several rows of one sequence, count only one of them.
    let of_sequences = params.sequences.into_iter().filter_map(|mut rows| rows.next());
    let of_buffers = results.buffers.into_iter().filter_map(|mut rows| rows.next());
    let types = of_sequences.map(|param| scan.body.input_type(param));
    sum(types.chain(of_buffers.map(|result| scan.body.output_type(result))))
}

fn sum<'a>(types: impl Iterator<Item = &'a TensorType>) -> Dim {
    types.fold(Dim::from(0), |sum, ty| sum + bytes(ty))
}

/// Returns `true` if `new` bytes per step are within the limit: either the total over all steps is small, or `new` is
/// at most `factor` times `present`, the number of bytes that a step already reads and writes.
pub(super) fn is_bounded(new: &Dim, present: &Dim, factor: i64, steps: &Dim) -> bool {
    let is_small = (new.clone() * steps).constant().is_some_and(|bytes| bytes <= ALWAYS_ALLOWED_BYTES);
    is_small || (present.clone() * factor).is_at_least(new) == Some(true)
}

/// Works like [`is_bounded`], but assumes that no size is 0, because empty tensors take no memory.
pub(super) fn is_bounded_for_nonempty(new: &Dim, present: &Dim, factor: i64, steps: &Dim) -> bool {
    let symbols = new.symbols().into_iter().chain(present.symbols()).chain(steps.symbols());
    let one_more: Replacements = symbols.map(|symbol| (symbol.clone(), Dim::symbol(symbol) + 1)).collect();
    let [new, present, steps] = [new, present, steps].map(|dim| dim.replaced(&one_more));
    is_bounded(&new, &present, factor, &steps)
}

/// Selects values whose total memory is within the limit. Visits the values in order, and skips a value if the total
/// would exceed the limit.
pub(super) fn affordable(body: &Graph, mut values: Vec<ValueId>, present: &Dim, steps: &Dim) -> Vec<ValueId> {
    let mut sum = Dim::from(0);
    values.retain(|value| {
        let with = sum.clone() + bytes(body.ty(*value));
        let fits = is_bounded(&with, present, MAX_MEMORY_FACTOR, steps);
        if fits {
            sum = with;
        }
        fits
    });
    values
}

/// Returns the total number of bytes of the given values.
pub(super) fn bytes_of(body: &Graph, values: &[ValueId]) -> Dim {
    sum(values.iter().map(|value| body.ty(*value)))
}
