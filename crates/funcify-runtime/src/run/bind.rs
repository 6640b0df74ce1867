//! Binds data-dependent sizes, which the host reads from the device. (Static sizes are bound when the program is
//! built.)

use funcify_core::ops::BindSize;

use super::*;

/// An instruction that binds a symbol to the value of an operand, for all later instructions (bind-c3).
pub(crate) struct BindNode {
    pub(crate) op: BindSize,
    /// The dtype of the operand.
    pub(crate) dtype: DType,
    pub(crate) at: Place,
}

impl BindNode {
    /// Downloads the operand and binds the symbol to its value.
    pub(crate) fn bind_size<B: Backend>(
        &self,
        run: &mut Run<'_, B>,
        operand: &B::Tensor,
    ) -> Result<Tensors<B::Tensor>> {
        let number = run.fail(&self.at, run.backend.download(operand, self.dtype))?;
        let size = self.op.checked(&self.at, number.get(0).as_i64())?;
        run.sizes.set(&self.op.size, size);
        Ok(Tensors::new())
    }
}
