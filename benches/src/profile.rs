//! Profiles calls to funcify's programs by op. The explanations in `reasons.toml` are based on these profiles.

use anyhow::Result;
use funcify::HostTensor;

use crate::harness::Schedule;
use crate::subjects::{self, Phase};
use crate::workloads::Loss;

/// The maximum number of ops listed for each program.
const MAX_LISTED_OPS: usize = 8;

/// Profiles each of funcify's programs in the schedule, and prints the ops that take the most time.
pub(crate) fn print(plan: &Schedule) -> Result<()> {
    for (workload, sizes) in &plan.items {
        let graph = (workload.graph)(sizes)?;
        let order = |name: &str| (0..graph.inputs().len()).position(|index| graph.input_name(index) == name);
        let mut inputs: Vec<(String, HostTensor)> =
            workload.inputs(sizes).into_iter().map(|(name, tensor)| (name.to_string(), tensor)).collect();
        inputs.sort_by_key(|(name, _)| order(name));
        for phase in Phase::ALL {
            for subject in plan.subjects.iter().copied().filter(|subject| subject.is_funcify()) {
                let is_absent = phase == Phase::Train && workload.loss == Loss::None;
                if is_absent || subjects::declines(subject, workload, phase).is_some() {
                    continue;
                }
                let mut program = subjects::prepare(subject, workload, *sizes, phase, &inputs)?;
                let Some(profile) = program.profile()? else { continue };
                println!("\n{} {sizes}, {}, {}: {:?}", workload.name, phase.name(), subject.name, profile.total);
                for share in profile.by_op().into_iter().take(MAX_LISTED_OPS) {
                    let part = 100.0 * share.time.as_secs_f64() / profile.total.as_secs_f64();
                    let each = share.time / u32::try_from(share.count).unwrap_or(u32::MAX).max(1);
                    println!("  {part:5.1} %  {:24} {:8} x {each:?}", share.name, share.count);
                }
            }
        }
    }
    Ok(())
}
