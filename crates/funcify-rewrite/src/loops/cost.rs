//! What a rule may hold for all steps: traces are bounded by what the loop reads and writes anyway.
//!
//! Sizes that are symbols are compared as polynomials: what is not surely bounded is taken for large.

use funcify_core::types::{Replacements, TensorType};

use super::*;

/// How many times what a loop reads and writes may be held for products, and for sums over steps.
pub(super) const FACTOR: i64 = 8;

/// What is small enough in any case, in bytes of all steps.
const SMALL: i64 = 1 << 16;

/// The bytes of a tensor.
pub(super) fn bytes(ty: &TensorType) -> Dim {
    ty.shape.elements() * ty.dtype.size()
}

/// The bytes that a step reads of sequences, and writes to and reads from buffers.
pub(super) fn bytes_of_step(scan: &Scan) -> Dim {
    let (params, results) = (scan.params(), scan.results());
    // Rows of one sequence are counted once.
    let of_sequences = params.sequences.into_iter().filter_map(|mut rows| rows.next());
    let of_buffers = results.buffers.into_iter().filter_map(|mut rows| rows.next());
    let types = of_sequences.map(|param| scan.body.input_type(param));
    sum(types.chain(of_buffers.map(|result| scan.body.output_type(result))))
}

fn sum<'a>(types: impl Iterator<Item = &'a TensorType>) -> Dim {
    types.fold(Dim::from(0), |sum, ty| sum + bytes(ty))
}

/// Whether `new` bytes a step may be held where a step moves `present` bytes already, `factor` times.
pub(super) fn is_bounded(new: &Dim, present: &Dim, factor: i64, steps: &Dim) -> bool {
    let is_small = (new.clone() * steps).constant().is_some_and(|bytes| bytes <= SMALL);
    is_small || (present.clone() * factor).is_at_least(new) == Some(true)
}

/// [`is_bounded`] where no size is 0: of what is empty nothing is held.
pub(super) fn is_bounded_of_some(new: &Dim, present: &Dim, factor: i64, steps: &Dim) -> bool {
    let symbols = new.symbols().into_iter().chain(present.symbols()).chain(steps.symbols());
    let one_more: Replacements = symbols.map(|symbol| (symbol.clone(), Dim::symbol(symbol) + 1)).collect();
    let [new, present, steps] = [new, present, steps].map(|dim| dim.replaced(&one_more));
    is_bounded(&new, &present, factor, &steps)
}

/// Those of these values that are bounded, together with those before them.
pub(super) fn affordable(body: &Graph, mut values: Vec<ValueId>, present: &Dim, steps: &Dim) -> Vec<ValueId> {
    let mut sum = Dim::from(0);
    values.retain(|value| {
        let with = sum.clone() + bytes(body.ty(*value));
        let fits = is_bounded(&with, present, FACTOR, steps);
        if fits {
            sum = with;
        }
        fits
    });
    values
}

/// The bytes of several values of a body.
pub(super) fn bytes_of(body: &Graph, values: &[ValueId]) -> Dim {
    sum(values.iter().map(|value| body.ty(*value)))
}
