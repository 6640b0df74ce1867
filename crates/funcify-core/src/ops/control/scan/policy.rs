//! Determines the checkpoint policy that applies to a loop: its own, the default, or one that fits a budget.

use super::saves::saved_values;
use super::*;

/// The assumed value of each size symbol, used to estimate memory.
const ASSUMED_SIZE: usize = 1024;

/// The maximum number of segment levels that [`CheckpointPolicy::Budget`] may choose.
const MAX_LEVELS: u32 = 4;

impl Scan {
    /// Returns the policy that applies to the loop: its own, or `default` if it has none. Replaces a budget with the
    /// policy that the budget selects.
    pub(super) fn resolved_policy(&self, default: &CheckpointPolicy) -> CheckpointPolicy {
        match self.policy.as_ref().unwrap_or(default) {
            CheckpointPolicy::Budget(bytes) => policy_within_budget(self, *bytes),
            policy => policy.clone(),
        }
    }
}

/// Returns the policy that recomputes the least among those that save at most `bytes` bytes. If no policy fits, returns
/// the policy that uses the least memory.
fn policy_within_budget(scan: &Scan, bytes: usize) -> CheckpointPolicy {
    let costs = Costs::of(scan);
    let whole = [CheckpointPolicy::SaveAll, CheckpointPolicy::SaveDots, CheckpointPolicy::Recompute];
    let mut policies: Vec<CheckpointPolicy> = whole.to_vec();
    if scan.until.is_none() && scan.truncate.is_none() {
        policies.extend(
            (1..=MAX_LEVELS).map(|levels| CheckpointPolicy::of_levels(&balanced_segment_lengths(costs.steps, levels))),
        );
    }
    let kept: Vec<(usize, CheckpointPolicy)> =
        policies.into_iter().map(|policy| (costs.kept_bytes(scan, &policy), policy)).collect();
    let fits = kept.iter().find(|(kept, _)| *kept <= bytes);
    let least = || kept.iter().min_by_key(|(kept, _)| *kept);
    fits.or_else(least).map_or(CheckpointPolicy::Recompute, |(_, policy)| policy.clone())
}

/// Returns segment lengths for `levels` levels, chosen so that each level saves about the same number of states.
fn balanced_segment_lengths(steps: usize, levels: u32) -> Vec<usize> {
    let reaches = |each: &usize| each.saturating_pow(levels + 1) >= steps;
    // Start the search just below the `(levels + 1)`-th root of `steps`, because a search that starts from 2 would be
    // slow for a very large number of steps.
    let root = (steps as f64).powf(1.0 / f64::from(levels + 1)) as usize;
    let each = (root.saturating_sub(2).max(2)..=steps.max(2)).find(reaches).unwrap_or(2);
    (1..=levels).rev().map(|level| each.saturating_pow(level)).collect()
}

/// The number of steps of a loop, and the sizes in bytes of the values that it may save.
struct Costs {
    steps: usize,
    /// The size of the state before a step.
    state: usize,
    /// The size of the state that a segment receives from the previous segment.
    between: usize,
}

impl Costs {
    fn of(scan: &Scan) -> Self {
        let (layout, results, body) = (scan.params(), scan.results(), &scan.body);
        let carries = layout.carries.map(|param| assumed_bytes(body.input_type(param))).fold(0, usize::saturating_add);
        let (mut state, mut between) = (carries, carries);
        for ((buffer, written), read) in scan.buffers.iter().zip(results.buffers).zip(layout.buffers) {
            let row = assumed_bytes(body.output_type(written.start));
            match buffer.start {
                Start::Empty => {}
                Start::Given(given) => {
                    state = state.saturating_add(row);
                    between = between.saturating_add(given.saturating_mul(row));
                }
                Start::Full => {
                    state = state.saturating_add(read.len().saturating_mul(row));
                    between = between.saturating_add(buffer.reach().saturating_mul(row));
                }
            }
        }
        let steps = assumed_size(&scan.steps);
        Costs { steps: scan.truncate.map_or(steps, |last| steps.min(last)), state, between }
    }

    /// Returns an upper bound on the number of bytes that the values saved by a policy occupy at any time.
    fn kept_bytes(&self, scan: &Scan, policy: &CheckpointPolicy) -> usize {
        let values = saved_values(&scan.body, scan.params().carries.end, policy);
        let values: usize =
            values.into_iter().map(|value| assumed_bytes(scan.body.ty(value))).fold(0, usize::saturating_add);
        let (mut kept, mut steps) = (0usize, self.steps);
        for length in policy.levels().iter().map(|length| (*length).max(1)).filter(|length| *length < self.steps) {
            kept = kept.saturating_add(steps.div_ceil(length).saturating_mul(self.between));
            steps = length;
        }
        kept.saturating_add(steps.saturating_mul(self.state.saturating_add(values)))
    }
}

fn assumed_bytes(ty: &TensorType) -> usize {
    ty.shape.dims().iter().map(assumed_size).fold(ty.dtype.size(), usize::saturating_mul)
}

/// Evaluates a dimension, with [`ASSUMED_SIZE`] for each symbol.
fn assumed_size(dim: &Dim) -> usize {
    let mut sizes = Sizes::new();
    dim.symbols().into_iter().for_each(|symbol| sizes.set(symbol, ASSUMED_SIZE));
    dim.value(&sizes).map_or(ASSUMED_SIZE, |size| usize::try_from(size).unwrap_or(0))
}
