//! Prints a comparison of the CPU engine with JAX on workloads of many kinds.

use crate::generality;
use crate::harness::Measured;
use crate::rows::Measurement;

/// Prints a row for each workload and phase, the geometric means, and the subjects that were not measured.
pub(crate) fn print(measured: &Measured) {
    println!("| workload | kind | phase | cpu, low | jax, low | ratio of lows | of medians |");
    println!("|---|---|---|--:|--:|--:|--:|");
    let mut ratios = Vec::new();
    for row in measured.rows.iter().filter(|row| row.subject == "cpu" && !row.phase.starts_with("make")) {
        let is_same = |other: &&Measurement| other.has_same_workload_and_phase(row);
        let Some(jax) = measured.rows.iter().filter(is_same).find(|other| other.subject == "jax") else { continue };
        let (ratio, of_medians) = (row.low_s / jax.low_s, row.median_s / jax.median_s);
        let name = row.workload.split(' ').next().unwrap_or_default();
        let kind = generality::named(name).map_or("", |workload| workload.title);
        println!(
            "| {} | {kind} | {} | {:.4} ms | {:.4} ms | {ratio:.2} | {of_medians:.2} |",
            row.workload,
            row.phase,
            row.low_s * 1e3,
            jax.low_s * 1e3
        );
        ratios.push((row.phase.clone(), ratio));
    }
    for missing in &measured.missing {
        println!("{}, {}, {}: {}", missing.workload, missing.phase, missing.subject, missing.why);
    }
    for phase in ["", "forward", "train"] {
        let of_phase: Vec<f64> =
            ratios.iter().filter(|(name, _)| phase.is_empty() || name == phase).map(|(_, ratio)| *ratio).collect();
        let mean = (of_phase.iter().map(|ratio| ratio.ln()).sum::<f64>() / of_phase.len().max(1) as f64).exp();
        let ahead = of_phase.iter().filter(|ratio| **ratio < 1.0).count();
        let worst = of_phase.iter().copied().fold(0.0, f64::max);
        let what = if phase.is_empty() { "all" } else { phase };
        println!(
            "{what}: {} rows, geometric mean {mean:.2} times JAX, {ahead} ahead of JAX, the slowest at {worst:.1}",
            of_phase.len()
        );
    }
}
