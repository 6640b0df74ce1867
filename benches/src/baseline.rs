//! Ratios of an earlier run, against which a change is judged.
//!
//! Times of two runs cannot be compared: the machine may be another, or busy. Ratios within one run can, up to their noise.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::report::Run;
use crate::rows::Row;

/// How much worse a ratio may be before its spread is looked at.
const LEAST: f64 = 0.15;

/// One ratio of the run that is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    workload: String,
    phase: String,
    subject: String,
    ratio_to_hand_written: f64,
    /// The spread of the subject's times.
    spread: f64,
}

fn path(root: &Path) -> PathBuf {
    root.join("benches/baseline.json")
}

/// Keeps the ratios of a run.
pub(crate) fn keep(run: &Run, root: &Path) -> Result<()> {
    let kept = |row: &Row| {
        Some(Kept {
            workload: row.workload.clone(),
            phase: row.phase.clone(),
            subject: row.subject.clone(),
            ratio_to_hand_written: row.ratio_to_hand_written?,
            spread: row.spread?,
        })
    };
    let kept: Vec<Kept> = run.rows.iter().filter_map(kept).collect();
    std::fs::write(path(root), serde_json::to_string_pretty(&kept)? + "\n")?;
    println!("{} ratios are kept in {}", kept.len(), path(root).display());
    Ok(())
}

/// Names what is worse than in the run that was kept. Whether nothing is.
pub(crate) fn check(run: &Run, root: &Path) -> Result<bool> {
    let path = path(root);
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}: make it with `--keep`", path.display()))?;
    let kept: Vec<Kept> = serde_json::from_str(&text)?;
    let worse = worse(&kept, &run.rows);
    worse.iter().for_each(|line| println!("{line}"));
    println!("{} ratios compared, {} worse", compared(&kept, &run.rows).count(), worse.len());
    Ok(worse.is_empty())
}

/// The rows that stand in both runs.
fn compared<'a>(kept: &'a [Kept], rows: &'a [Row]) -> impl Iterator<Item = (&'a Kept, &'a Row, f64)> {
    kept.iter().filter_map(|kept| {
        let same = |row: &&Row| row.workload == kept.workload && row.phase == kept.phase && row.subject == kept.subject;
        let row = rows.iter().find(same)?;
        Some((kept, row, row.ratio_to_hand_written?))
    })
}

fn worse(kept: &[Kept], rows: &[Row]) -> Vec<String> {
    let worse = compared(kept, rows).filter_map(|(kept, row, ratio)| {
        let change = ratio / kept.ratio_to_hand_written - 1.0;
        let noise = LEAST.max(2.0 * (kept.spread + row.spread.unwrap_or_default()));
        (change > noise).then(|| {
            let (name, before) =
                (format!("{}, {}, {}", row.workload, row.phase, row.subject), kept.ratio_to_hand_written);
            format!(
                "{name}: {ratio:.2} of the loop by hand, was {before:.2}: {:.0} % worse, noise {:.0} %",
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
    fn a_ratio_that_is_worse_by_more_than_its_noise_is_named() {
        let kept = |spread| {
            let (workload, phase, subject) = ("rnn T=1".into(), "forward".into(), "candle-native".into());
            [Kept { workload, phase, subject, ratio_to_hand_written: 0.5, spread }]
        };
        let mut samples = Samples::default();
        samples.add(vec![1.0, 1.0, 1.0], vec![1.0; 3]);
        let mut row = Row::ran("rnn T=1", "candle-native", Phase::Forward, &samples, (None, None), None);
        row.ratio_to_hand_written = Some(0.6);
        let line = "rnn T=1, forward, candle-native: 0.60 of the loop by hand, was 0.50: 20 % worse, noise 15 %";
        assert_eq!(worse(&kept(0.0), std::slice::from_ref(&row)), [line]);
        assert!(worse(&kept(0.15), std::slice::from_ref(&row)).is_empty());
        row.ratio_to_hand_written = Some(0.55);
        assert!(worse(&kept(0.0), &[row]).is_empty());
    }
}
