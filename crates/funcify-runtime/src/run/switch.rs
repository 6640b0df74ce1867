//! Runs switches: downloads the index and runs the program of the selected branch.

use std::ops::Range;

use funcify_core::ops::Switch;

use super::*;

/// A switch whose branches are lowered to programs.
pub(crate) struct SwitchNode<B: Backend> {
    pub(crate) switch: Switch,
    pub(crate) at: Place,
    pub(crate) branches: Vec<Arc<Program<B>>>,
    /// For each branch, the range of the switch's operands that the branch receives.
    pub(crate) places: Vec<Range<usize>>,
    /// The dtype of the index.
    pub(crate) index: DType,
    /// The types of the results.
    pub(crate) outputs: Vec<TensorType>,
}

impl<B: Backend> SwitchNode<B> {
    /// Downloads the index and runs only the selected branch (switch-c3).
    pub(crate) fn run_branch(&self, run: &mut Run<'_, B>, operands: Vec<B::Tensor>) -> Result<Tensors<B::Tensor>> {
        let index = run.fail(&self.at, run.backend.download(&operands[0], self.index))?;
        let chosen = self.switch.selected_branch(index.get(0).as_i64());
        let place = self.places[chosen].clone();
        let arguments = operands.into_iter().skip(place.start).take(place.len()).collect();
        Ok(self.branches[chosen].execute(run, arguments)?.into())
    }
}
