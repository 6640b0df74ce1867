//! Differentiates a part of a recorded Candle graph. The gradients flow from given cotangents back to new leaves.

use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor, Var};

use super::record::{ForwardResult, record};

/// Returns a new leaf with the elements of `tensor`. Candle's backward pass computes a gradient for this leaf. If the
/// elements are not floats, returns the detached tensor instead.
pub(crate) fn leaf(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype().is_float() { Ok(Var::from_tensor(&tensor.detach())?.into_inner()) } else { Ok(tensor.detach()) }
}

/// Computes the gradients of all `Var`s on which the outputs depend, given the cotangent of each output. Skips
/// outputs that are not tracked or have no cotangent.
pub(crate) fn compute_gradients<'a>(
    outputs: impl IntoIterator<Item = (&'a Tensor, Option<Tensor>)>,
) -> Result<GradStore> {
    let given = outputs.into_iter().filter(|(_, cotangent)| cotangent.is_some());
    join_outputs(given)?.map_or_else(|| Ok(GradStore::default()), |root| root.backward())
}

/// Returns a tensor that depends on all tracked float outputs, or `None` if there are none. A backward pass from this
/// tensor starts with the given cotangents of the outputs.
pub(crate) fn join_outputs<'a>(
    outputs: impl IntoIterator<Item = (&'a Tensor, Option<Tensor>)>,
) -> Result<Option<Tensor>> {
    let tracked = outputs.into_iter().filter(|(output, _)| output.track_op() && output.dtype().is_float());
    // A seed is a one-element tensor that depends on an output. The backward pass of the seed returns the cotangent of
    // that output.
    let seed = |(output, cotangent): (&Tensor, Option<Tensor>)| {
        record(output, "funcify-seed", ForwardResult::Tokens(1), move |_, _| Ok(cotangent.clone()))
    };
    let seeds = tracked.map(seed).collect::<Result<Vec<_>>>()?;
    if seeds.is_empty() { Ok(None) } else { Tensor::cat(&seeds, 0).map(Some) }
}

/// A sum of gradients, initially empty.
#[derive(Default)]
pub(crate) struct Sum(Option<Tensor>);

impl Sum {
    /// Adds a gradient that [`compute_gradients`] returned. `None` counts as zero. The gradient's storage must not be
    /// shared, because later gradients are added to it in place.
    pub(crate) fn add(&mut self, gradient: Option<Tensor>) -> Result<()> {
        self.0 = match (self.0.take(), gradient.map(|gradient| gradient.detach())) {
            (Some(sum), Some(gradient)) if sum.device().is_cpu() && sum.is_contiguous() && gradient.is_contiguous() => {
                sum.inplace_op2(&gradient, &AddAssign)?;
                Some(sum)
            }
            (Some(sum), Some(gradient)) => Some(sum.add(&gradient)?),
            (sum, gradient) => sum.or(gradient),
        };
        Ok(())
    }

    pub(crate) fn total(self) -> Option<Tensor> {
        self.0
    }
}

/// An in-place op that computes `a += b` on the CPU.
struct AddAssign;

impl InplaceOp2 for AddAssign {
    fn name(&self) -> &'static str {
        "funcify-add-assign"
    }

    fn cpu_fwd(&self, a: &mut CpuStorage, to: &Layout, b: &CpuStorage, from: &Layout) -> Result<()> {
        fn add<E: Copy + std::ops::AddAssign>(a: &mut [E], to: &Layout, b: &[E], from: &Layout) {
            let count = to.shape().elem_count();
            let a = &mut a[to.start_offset()..][..count];
            a.iter_mut().zip(&b[from.start_offset()..][..count]).for_each(|(a, b)| *a += *b);
        }
        match (a, b) {
            (CpuStorage::F32(a), CpuStorage::F32(b)) => add(a, to, b, from),
            (CpuStorage::F64(a), CpuStorage::F64(b)) => add(a, to, b, from),
            (CpuStorage::F16(a), CpuStorage::F16(b)) => add(a, to, b, from),
            (CpuStorage::BF16(a), CpuStorage::BF16(b)) => add(a, to, b, from),
            _ => crate::errors::bail!("two gradients of one tensor have different types"),
        }
        Ok(())
    }
}
