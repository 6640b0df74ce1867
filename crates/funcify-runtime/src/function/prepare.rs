//! Prepares a graph for compilation: inlines function calls and compositions of custom ops, rewrites the graph, and
//! checks that the backend supports it.

use std::borrow::Cow;

use funcify_core::ops::{Control, Creation, OpClass, OpRules, While};
use funcify_rewrite::rewritten_at;

use super::*;
use crate::backend::registry::{check_rules, has_kernel, rule_of};
use crate::backend::{Compiles, LoopStrategy};
use crate::prepare::compositions::with_compositions;

/// The rewrite rules that are disabled if loops are compiled, because compiled loops do the same work themselves.
const RULES_LEFT_TO_COMPILED_LOOPS: &[&str] = &["hoisting", "interchanged_loops", "sums_over_steps", "cumulative"];

/// A graph that is ready for compilation.
pub(super) struct Prepared {
    pub(super) graph: Arc<Graph>,
    /// The patches that rewriting applied.
    pub(super) patches: Vec<Patched>,
    /// `true` if programs of the graph are specialised for sizes.
    pub(super) is_laid_out: bool,
}

/// Prepares a graph for compilation: checks it, inlines function calls, replaces custom ops that have no kernel with
/// their compositions, rewrites it, and checks that the backend can run it.
pub(super) fn prepare<B: Backend>(
    graph: &Arc<Graph>,
    backend: &B,
    options: &CompileOptions,
    at: &Place,
) -> Result<Prepared> {
    graph.checked()?;
    check_rules(backend, at)?;
    let settings = Settings::new(backend, options);
    let plain = graph.without_rules()?.map_or_else(|| graph.clone(), Arc::new);
    // Report the errors in all compositions, including those that are not inlined.
    with_compositions(&plain, &|_| true)?;
    let plain = match with_compositions(&plain, &|custom| !has_kernel(backend, custom.name()))? {
        Cow::Owned(composed) => Arc::new(composed),
        Cow::Borrowed(_) => plain,
    };
    let own = if options.compiles_loops_on(backend) { RULES_LEFT_TO_COMPILED_LOOPS } else { &[] };
    let rewrites = options
        .rewrites
        .clone()
        .map(|all| own.iter().fold(all.or_parallel(backend.parallel()), |rewrites, rule| rewrites.without(rule)));
    let rewritten = rewrites.map(|rewrites| rewritten_at(at, &plain, &rewrites)).transpose()?;
    // If the rewritten graph is unsupported, check the original graph instead, so that errors refer to the ops that the
    // user wrote.
    if let Some(rewritten) = rewritten.filter(|rewritten| !rewritten.patches.is_empty())
        && let Ok(is_laid_out) = check_ops(&settings, &rewritten.graph)
    {
        return Ok(Prepared { graph: Arc::new(rewritten.graph), patches: rewritten.patches, is_laid_out });
    }
    let is_laid_out = check_ops(&settings, &plain).map_err(|error| graph.explain(error))?;
    Ok(Prepared { graph: plain, patches: Vec::new(), is_laid_out })
}

/// Checks that every op has a lowering rule and that the device supports every type. Returns `true` if programs are
/// specialised for sizes, because a loop is unrolled or compiled, or the whole program is compiled.
fn check_ops<B: Backend>(settings: &Settings<'_, B>, graph: &Graph) -> Result<bool> {
    let mut is_laid_out = settings.compiles() == Compiles::Programs;
    for input in graph.inputs() {
        check_type(settings.backend, &Place::new(graph.name(), Site::Unknown), graph.ty(input.value))?;
    }
    for node in graph.live() {
        let at = node.place();
        for output in &node.outputs {
            check_type(settings.backend, &at, graph.ty(*output))?;
        }
        let check_kernel = || match has_kernel(settings.backend, node.op.name()) {
            true => Ok(()),
            false => rule_of(settings.backend, node.op.name(), &at).map(drop),
        };
        match node.op.class() {
            OpClass::Creation(Creation::Constant(_)) | OpClass::Binding(_) => {}
            OpClass::Control(Control::Scan(scan)) => {
                // A loop with early exit is never unrolled, because the host checks its condition after each step. If
                // unrolling is forced, the loop's maximum number of steps must nevertheless be static.
                let may_unroll = scan.until.is_none() || settings.forced_strategy().is_some();
                let strategy = settings.strategy_of(scan, &at)?;
                is_laid_out |= may_unroll && strategy == LoopStrategy::Unroll;
                is_laid_out |= settings.compiles() == Compiles::Loops;
                is_laid_out |= check_ops(settings, &scan.body)?;
            }
            OpClass::Control(op @ (Control::Switch(_) | Control::While(_))) => {
                if let Control::While(While { bound: Some(bound), .. }) = op {
                    is_laid_out |= settings.strategy == Some(LoopStrategy::Unroll) && bound.constant().is_none();
                }
                is_laid_out |= settings.compiles() == Compiles::Loops;
                for body in node.op.bodies() {
                    is_laid_out |= check_ops(settings, body)?;
                }
            }
            OpClass::Control(Control::AssociativeScan(op)) => {
                is_laid_out |= settings.compiles() == Compiles::Loops;
                let sweeps = op.sweeps(&at, &graph.types(&node.inputs), &vec![true; op.leaves])?;
                for program in [&sweeps.up, &sweeps.down] {
                    is_laid_out |= check_ops(settings, program)?;
                }
            }
            OpClass::Elementwise(_) | OpClass::Movement(_) | OpClass::Creation(_) => check_kernel()?,
            OpClass::Indexing(_) | OpClass::Along(_) | OpClass::Product(_) | OpClass::RandomBits(_) => check_kernel()?,
            OpClass::Control(Control::Call(_)) | OpClass::Custom(_) => check_kernel()?,
        }
    }
    Ok(is_laid_out)
}

fn check_type<B: Backend>(backend: &B, at: &Place, ty: &TensorType) -> Result<()> {
    match backend.unsupported(ty.dtype, ty.rank()) {
        None => Ok(()),
        Some(reason) => Err(Error::Unsupported {
            at: at.boxed(),
            backend: backend.name().to_string(),
            what: format!("tensors of type {ty}"),
            reason,
            fix: "use another dtype or fewer axes, or another backend".into(),
        }),
    }
}
