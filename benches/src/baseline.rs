//! Compares the ratios of a run with those of an earlier run, the baseline.
//!
//! Times from different runs are not comparable, because the machines may differ or be busy. Ratios of times from the
//! same run are comparable between runs, up to noise.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::report::Run;
use crate::rows::Measurement;

/// The minimum relative increase at which a ratio is reported. The threshold is higher for rows whose times vary more.
const MIN_INCREASE: f64 = 0.15;

/// The ratio of a subject's time to the handwritten loop's time, from an earlier run.
#[derive(Serialize, Deserialize)]
struct Ratio {
    workload: String,
    phase: String,
    subject: String,
    ratio_to_hand_written: f64,
    /// The relative interquartile range of the subject's times.
    spread: f64,
}

fn path(root: &Path) -> PathBuf {
    root.join("benches/baseline.json")
}

/// Saves the ratios of a run as the baseline. Keeps the earlier ratios of rows that this run did not measure.
pub(crate) fn save(run: &Run, root: &Path) -> Result<()> {
    let ratio = |row: &Measurement| {
        Some(Ratio {
            workload: row.workload.clone(),
            phase: row.phase.clone(),
            subject: row.subject.clone(),
            ratio_to_hand_written: row.ratio_to_hand_written?,
            spread: row.spread?,
        })
    };
    let path = path(root);
    let earlier = if path.exists() { read(&path)? } else { Vec::new() };
    let ratios = merge_ratios(earlier, run.rows.iter().filter_map(ratio).collect());
    std::fs::write(&path, serde_json::to_string_pretty(&ratios)? + "\n")?;
    println!("{} ratios saved to {}", ratios.len(), path.display());
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Ratio>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}: create it with `--keep`", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Replaces earlier ratios of the same workload, phase and subject with the new ones, and appends the other new
/// ratios.
fn merge_ratios(mut earlier: Vec<Ratio>, new: Vec<Ratio>) -> Vec<Ratio> {
    for new in new {
        let is_same = |ratio: &&mut Ratio| {
            (&ratio.workload, &ratio.phase, &ratio.subject) == (&new.workload, &new.phase, &new.subject)
        };
        match earlier.iter_mut().find(is_same) {
            Some(ratio) => *ratio = new,
            None => earlier.push(new),
        }
    }
    earlier
}

/// Prints the rows whose ratios are worse than in the baseline by more than the noise. Returns `true` if there are no
/// such rows.
pub(crate) fn check(run: &Run, root: &Path) -> Result<bool> {
    let path = path(root);
    let earlier = read(&path)?;
    let worse = worse(&earlier, &run.rows);
    worse.iter().for_each(|line| println!("{line}"));
    let count = common_rows(&earlier, &run.rows).count();
    println!("{count} ratios compared, {} worse", worse.len());
    ensure!(count > 0, "{} has none of this run's ratios; save those of a like run with `--keep`", path.display());
    Ok(worse.is_empty())
}

/// Returns the rows that occur in both runs, each with its earlier and its new ratio.
fn common_rows<'a>(
    earlier: &'a [Ratio],
    rows: &'a [Measurement],
) -> impl Iterator<Item = (&'a Ratio, &'a Measurement, f64)> {
    earlier.iter().filter_map(|earlier| {
        let same = |row: &&Measurement| {
            row.workload == earlier.workload && row.phase == earlier.phase && row.subject == earlier.subject
        };
        let row = rows.iter().find(same)?;
        Some((earlier, row, row.ratio_to_hand_written?))
    })
}

fn worse(earlier: &[Ratio], rows: &[Measurement]) -> Vec<String> {
    let worse = common_rows(earlier, rows).filter_map(|(earlier, row, ratio)| {
        let change = ratio / earlier.ratio_to_hand_written - 1.0;
        let noise = MIN_INCREASE.max(2.0 * (earlier.spread + row.spread.unwrap_or_default()));
        (change > noise).then(|| {
            let (name, before) =
                (format!("{}, {}, {}", row.workload, row.phase, row.subject), earlier.ratio_to_hand_written);
            format!(
                "{name}: {ratio:.2} of the handwritten loop, was {before:.2}: {:.0} % worse, noise {:.0} %",
                change * 100.0,
                noise * 100.0
            )
        })
    });
    worse.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Samples;
    use crate::subjects::Phase;

    #[test]
    fn a_part_that_runs_again_leaves_the_other_ratios() {
        let ratio = |subject: &str, ratio_to_hand_written| {
            let (workload, phase, subject) = ("rnn T=1".into(), "forward".into(), subject.into());
            Ratio { workload, phase, subject, ratio_to_hand_written, spread: 0.0 }
        };
        let kept = merge_ratios(vec![ratio("cpu", 0.5), ratio("jax", 0.9)], vec![ratio("jax", 0.8), ratio("rlx", 2.0)]);
        let kept: Vec<_> = kept.iter().map(|ratio| (ratio.subject.as_str(), ratio.ratio_to_hand_written)).collect();
        assert_eq!(kept, [("cpu", 0.5), ("jax", 0.8), ("rlx", 2.0)]);
    }

    #[test]
    fn a_ratio_that_is_worse_by_more_than_its_noise_is_named() {
        let earlier = |spread| {
            let (workload, phase, subject) = ("rnn T=1".into(), "forward".into(), "candle-native".into());
            [Ratio { workload, phase, subject, ratio_to_hand_written: 0.5, spread }]
        };
        let mut samples = Samples::default();
        samples.add(vec![1.0, 1.0, 1.0], vec![1.0; 3]);
        let mut row = Measurement::run_row("rnn T=1", "candle-native", Phase::Forward, &samples, (None, None), None);
        row.ratio_to_hand_written = Some(0.6);
        let line = "rnn T=1, forward, candle-native: 0.60 of the handwritten loop, was 0.50: 20 % worse, noise 15 %";
        assert_eq!(worse(&earlier(0.0), std::slice::from_ref(&row)), [line]);
        assert!(worse(&earlier(0.15), std::slice::from_ref(&row)).is_empty());
        row.ratio_to_hand_written = Some(0.55);
        assert!(worse(&earlier(0.0), &[row]).is_empty());
    }
}
