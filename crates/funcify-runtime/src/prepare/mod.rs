//! Prepares graphs for backends that compile them as a whole.

pub(crate) mod compositions;
pub(crate) mod loops;
pub(crate) mod sizes;

use self::compositions::{explain_missing_composition, with_compositions};
use self::loops::with_loops;
use crate::backend::{Backend, CompileResult, Declined, WholeRequest};

/// Replaces custom ops with their compositions, and replaces associative scans and cumulative reductions with loops.
/// Then asks the backend to compile the resulting program or loop.
pub(crate) fn request_whole<B: Backend>(backend: &B, whole: WholeRequest<'_>) -> CompileResult<B::Tensor> {
    // `function/prepare.rs` has already reported invalid compositions.
    let composed = with_compositions(whole.graph, &|_| true)
        .map_err(|error| Declined::new(error.place().op.clone(), error.to_string()))?;
    let graph = &*with_loops(&composed, whole.sizes)
        .map_err(|error| Declined::new("associative_scan", format!("as a loop: {error}")))?;
    backend
        .compile_whole(WholeRequest { graph, ..whole })
        .map_err(|declined| explain_missing_composition(graph, declined))
}
