//! Implements [`Bodied`] for functions with derivative rules.

use super::*;

impl Bodied for Call {
    fn bodies(&self) -> Vec<&Arc<Graph>> {
        self.parts().into_iter().map(|part| part.graph).collect()
    }

    fn with_bodies(&self, bodies: Vec<Arc<Graph>>) -> Op {
        self.with_graphs(bodies).into()
    }

    /// Marks no parameter as active, because derivatives come from the rule and never pass through the bodies.
    fn active_params(&self, _: &[bool]) -> Vec<Vec<bool>> {
        self.bodies().into_iter().map(|body| vec![false; body.inputs().len()]).collect()
    }

    fn sizes(&self) -> OwnSizes<'_> {
        OwnSizes::default()
    }

    fn resized(&self, _: &Replacements) -> Op {
        self.clone().into()
    }

    fn steps(&self, _: &[&TensorType]) -> Option<StepCount> {
        None
    }

    fn batches_ragged(&self, _: &ragged::Types<'_>) -> bool {
        true
    }

    fn forward(&self, operands: &[Value], _: &[bool], _: &VjpOptions) -> Result<Forward, Failed> {
        self.forward_pass(operands)
    }
}
