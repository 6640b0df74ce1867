//! Lowers scans: chooses a strategy for each loop, and adds the loop to the report.

use super::report::{Steps, count_kernels};
use super::*;

impl<B: Backend> Lowering<'_, B> {
    pub(super) fn lower_scan(&mut self, call: NodeCall<'_>, scan: &Scan) -> Result<Vec<Slot>> {
        let NodeCall { graph, index, node, operands } = call;
        let (at, types) = (node.place(), graph.types(&node.inputs));
        let call = ScanCall { scan, key: (graph.id(), index), at: &at, operands, types: &types };
        let strategy = self.scan_strategy(call)?;
        self.note_bounded_sizes(scan.binds());
        let (late, declined) = match self.lower_whole_node(graph, index, operands)? {
            Attempt::Compiled(results) => return Ok(results),
            Attempt::AtRunTime if strategy == LoopStrategy::Native => match self.late_loop(graph, node, scan) {
                Ok(late) => (Some(late), None),
                Err(declined) => (None, Some(declined.unless_fault(&at, self.settings.backend.name())?)),
            },
            Attempt::Declined(Some(_))
                if strategy == LoopStrategy::Native && types.iter().any(|ty| ty.dtype.is_int()) =>
            {
                // The backend declined code that must accept all operands. Try a late loop, whose code may reject
                // integers that floats cannot represent. If the backend declines the late loop too, report its reason
                // for the late loop, not its reason for the first attempt.
                match self.late_loop(graph, node, scan) {
                    Ok(late) => (Some(late), None),
                    Err(furthest) => (None, Some(furthest.unless_fault(&at, self.settings.backend.name())?)),
                }
            }
            attempt => (None, attempt.into_results("scan").err().flatten()),
        };
        let strategy = match strategy {
            LoopStrategy::Native if late.is_none() && self.is_laid_out(call) => LoopStrategy::Unroll,
            chosen => chosen,
        };
        let steps = match strategy {
            LoopStrategy::Unroll => unroll::static_steps(self, call).ok(),
            _ if scan.steps_operand => None,
            _ => scan.steps.value(&self.sizes).ok().and_then(|steps| usize::try_from(steps).ok()),
        };
        let kind = if scan.until.is_none() { Steps::Exactly } else { Steps::AtMost };
        let steps = steps.map_or(Steps::AtRunTime, kind);
        let (is_late, place) = (late.is_some(), self.notes.loops.len());
        let (results, laid_out) = self.lower_fallback(is_late, |lowering| {
            let body = lowering.lower_invariants(call, is_late)?;
            let before = lowering.instructions.len();
            let results = match strategy {
                LoopStrategy::Unroll => lowering.lower_unrolled(call, body)?,
                _ => lowering.lower_native(call, body, graph.types(&node.outputs), late)?,
            };
            Ok((results, count_kernels(&lowering.instructions[before..])))
        })?;
        let kernels = match (strategy, steps) {
            _ if is_late => None,
            (LoopStrategy::Unroll, Steps::Exactly(steps) | Steps::AtMost(steps)) => laid_out.checked_div(steps),
            (LoopStrategy::Unroll, Steps::AtRunTime) => None,
            _ => Some(laid_out),
        };
        let strategy = if is_late { LoopStrategy::Compiled } else { strategy };
        let (op, site, rewrites) = ("scan", at.site, Default::default());
        self.notes.add_loop(place, LoopReport { op, site, strategy, declined, steps, kernels, rewrites });
        Ok(results)
    }

    /// Returns the strategy for a loop, regardless of its `unroll` hint. If the lowering rule asks for unrolling, but the
    /// loop cannot be unrolled, falls back to a native loop. If unrolling is forced, falls back only if the numbers of
    /// steps and rows are bounded, and otherwise returns an error.
    fn scan_strategy(&mut self, call: ScanCall<'_>) -> Result<LoopStrategy> {
        let (scan, forced) = (call.scan, self.settings.forced_strategy());
        match self.settings.strategy_of(scan, call.at)? {
            LoopStrategy::Unroll if scan.until.is_some() && forced.is_none() => Ok(LoopStrategy::Native),
            LoopStrategy::Unroll => {
                let steps = unroll::static_steps(self, call);
                match steps.and_then(|_| unroll::static_rows(self, call)) {
                    Err(Error::StepCountNotStatic { .. }) if self.is_bounded_loop(call) => Ok(LoopStrategy::Native),
                    Err(error) if forced.is_some() => Err(error),
                    Ok(_) if scan.until.is_none() => Ok(LoopStrategy::Unroll),
                    _ => Ok(LoopStrategy::Native),
                }
            }
            _ => Ok(LoopStrategy::Native),
        }
    }

    /// Returns `true` if the loop's `unroll` hint covers all its steps, and the numbers of rows of its operands are
    /// static.
    fn is_laid_out(&self, ScanCall { scan, types, .. }: ScanCall<'_>) -> bool {
        let is_static = |dim: Option<&Dim>| dim.is_none_or(|dim| dim.value(&self.sizes).is_ok());
        let steps = scan.steps.value(&self.sizes);
        let covered = steps.is_ok_and(|steps| scan.unroll > 1 && steps <= scan.unroll as i64);
        covered
            && !scan.steps_operand
            && scan.until.is_none()
            && types.iter().all(|ty| is_static(ty.shape.dims().first()))
    }
}

/// A scan to lower, with its operands.
#[derive(Clone, Copy)]
pub(crate) struct ScanCall<'a> {
    pub(crate) scan: &'a Scan,
    /// The key of the scan's node.
    pub(crate) key: NodeKey,
    pub(crate) at: &'a Place,
    pub(crate) operands: &'a [Slot],
    pub(crate) types: &'a [TensorType],
}
