//! How what a forward pass saves lies in memory: as the loops of its plan have it.

use funcify_core::Result;
use funcify_core::derivative::Pullback;
use funcify_core::error::{Place, Site};
use funcify_core::graph::bind_sizes;
use funcify_core::types::TensorType;

use crate::planner::innermost_axes;

/// The two programs of a framework's op, whose residuals lie as the loops of the forward plan have them for arguments of these
/// sizes: nobody else looks at them, and so neither plan moves their elements. The graph has so many `outputs` of its own. For
/// other sizes the programs give the same values.
pub fn with_residuals_as_planned(pullback: Pullback, outputs: usize, arguments: &[Vec<usize>]) -> Result<Pullback> {
    let at = Place::new(pullback.forward.name(), Site::Unknown);
    let inputs = pullback.forward.inputs().iter().map(|input| pullback.forward.ty(input.value));
    let arguments: Vec<TensorType> =
        inputs.zip(arguments).map(|(input, sizes)| input.with_shape(sizes.as_slice())).collect();
    // That arguments do not fit the call itself says.
    let Ok(sizes) = bind_sizes(&at, &pullback.forward, &arguments) else { return Ok(pullback) };
    let innermost = innermost_axes(&pullback.forward, &sizes);
    if innermost[outputs..].iter().all(Option::is_none) { Ok(pullback) } else { pullback.laid_out(outputs, &innermost) }
}
