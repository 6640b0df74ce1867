//! Sizes that values give: read from the device by the host, or bound when the program is made if they are static.

use funcify_core::error::{Place, Result};
use funcify_core::graph::{Graph, Node};
use funcify_core::ops::BindSize;
use funcify_core::types::DType;

use super::backend::{Backend, Tensors};
use super::lower::Lowering;
use super::program::{Action, Run, Slot};

/// Gives a symbol its size for the instructions that follow (bind-c3).
pub(super) struct BindNode {
    op: BindSize,
    /// The dtype of the number.
    dtype: DType,
    pub(super) at: Place,
}

impl<B: Backend> Lowering<'_, B> {
    pub(super) fn lower_bind(
        &mut self,
        graph: &Graph,
        node: &Node,
        op: &BindSize,
        operands: &[Slot],
    ) -> Result<Vec<Slot>> {
        let (at, symbol) = (node.place(), op.size.clone());
        // A negative number is refused when the op runs, as it may stand in a branch that does not (bind-c2).
        let action = match self.static_number(operands[0]).and_then(|number| usize::try_from(number).ok()) {
            Some(size) => {
                self.sizes.set(&symbol, size);
                Action::Bind { symbol, size }
            }
            None => {
                self.sizes.remove(&symbol);
                let dtype = graph.ty(node.inputs[0]).dtype;
                Action::BindSize(Box::new(BindNode { op: op.clone(), dtype, at: at.clone() }))
            }
        };
        let operands = if let Action::BindSize(_) = action { operands } else { &[] };
        self.push(&at, action, operands, 0)
    }
}

impl BindNode {
    pub(super) fn run<B: Backend>(&self, run: &mut Run<'_, B>, operand: &B::Tensor) -> Result<Tensors<B::Tensor>> {
        let number = run.fail(&self.at, run.backend.download(operand, self.dtype))?;
        let size = self.op.checked(&self.at, number.get(0).as_i64())?;
        run.sizes.set(&self.op.size, size);
        Ok(Tensors::new())
    }
}
