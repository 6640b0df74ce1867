//! Computes the memory needs of a program: the size of its instructions on the host, and the peak size of its tensors.

use std::collections::HashSet;
use std::mem::size_of;

use super::program::{Action, Instruction, KernelNode, Operand, Slot, with_slots};
use super::*;

impl<B: Backend> Program<B> {
    /// Returns the size of the program in bytes. `seen` contains the addresses of the shared parts that were already
    /// counted, so that each part counts once.
    pub(crate) fn bytes(&self, seen: &mut HashSet<usize>) -> usize {
        let mut first = |address: usize, bytes: usize| if seen.insert(address) { bytes } else { 0 };
        let mut bytes = size_of::<Self>();
        let mut nested: Vec<&Arc<Program<B>>> = Vec::new();
        for instruction in &self.instructions {
            bytes += size_of::<Instruction<B>>();
            if instruction.operands.spilled() {
                bytes += instruction.operands.capacity() * size_of::<Operand>();
            }
            if instruction.results.spilled() {
                bytes += instruction.results.capacity() * size_of::<Option<Slot>>();
            }
            if let Action::Kernel(node) = &instruction.action {
                bytes += first(Arc::as_ptr(node) as usize, size_of::<KernelNode<B>>());
            }
            nested.extend(instruction.action.programs());
        }
        let nested =
            nested.into_iter().filter(|program| seen.insert(Arc::as_ptr(program) as usize)).collect::<Vec<_>>();
        bytes + nested.into_iter().map(|program| program.bytes(seen)).sum::<usize>()
    }

    /// Returns the peak memory of a run, and the size of the arguments, both in bytes. Returns `None` if a size depends
    /// on data or overflows.
    pub(crate) fn peak_bytes(&self, sizes: &Sizes) -> Option<(usize, usize)> {
        let mut held = vec![0; self.slots];
        let (mut live, mut peak) = (0usize, 0usize);
        for (slot, ty) in with_slots(&self.inputs, &self.input_types) {
            held[slot] = bytes_of(ty, sizes)?;
            live = live.checked_add(held[slot])?;
        }
        let arguments = live;
        for instruction in &self.instructions {
            // While a kernel runs, its unused results take up memory too.
            let mut unused = 0usize;
            for (slot, ty) in instruction.results.iter().zip(instruction.action.output_types()) {
                if let Some(slot) = slot {
                    held[*slot as usize] = bytes_of(ty, sizes)?;
                    live = live.checked_add(held[*slot as usize])?;
                } else if matches!(instruction.action, Action::Kernel(_)) {
                    unused = unused.checked_add(bytes_of(ty, sizes)?)?;
                }
            }
            let mut inside = unused;
            match &instruction.action {
                Action::Whole(node) => inside = inside.checked_add(node.compiled.working_bytes())?,
                Action::While(node) => {
                    let compiled = node.late.as_ref().map_or(0, |each| each.late.working_bytes(sizes));
                    inside = inside.max(compiled);
                }
                _ => {}
            }
            let sizes = match &instruction.action {
                Action::Associative(node) => &node.largest_sizes(sizes),
                _ => sizes,
            };
            for program in instruction.action.programs() {
                let (peak, arguments) = program.peak_bytes(sizes)?;
                inside = inside.max(peak - arguments);
            }
            peak = peak.max(live.checked_add(inside)?);
            for operand in instruction.operands.iter().filter(|operand| operand.last) {
                live -= std::mem::take(&mut held[operand.slot as usize]);
            }
        }
        Some((peak.max(arguments), arguments))
    }
}

/// Returns the size of a tensor of this type in bytes, or `None` if a dimension is unknown or the size overflows.
fn bytes_of(ty: &TensorType, sizes: &Sizes) -> Option<usize> {
    let sizes = ty.shape.value(sizes).ok()?;
    // Sizes of 0 count as 1 in the overflow check, because strides are computed even for empty tensors.
    let bytes = sizes.iter().try_fold(ty.dtype.size(), |product, size| product.checked_mul((*size).max(1)))?;
    Some(if sizes.contains(&0) { 0 } else { bytes })
}
