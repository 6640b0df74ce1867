//! Writes reports from the rows of a run: an HTML page with plots, the same report in Markdown, and the table of
//! `docs/benchmarks.md`.

mod chart;
mod figures;
mod gaps;
mod html;
mod markdown;
pub(crate) mod page;
mod tables;

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::rows::{Measurement, MissingSubject};
use crate::workloads;

/// The measurements of a run, as stored in a file.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Run {
    /// The version of funcify that was measured.
    pub(crate) version: String,
    pub(crate) machine: String,
    pub(crate) rows: Vec<Measurement>,
    #[serde(rename = "gone")]
    pub(crate) missing: Vec<MissingSubject>,
}

impl Run {
    /// Reads a run from a file.
    pub(crate) fn read(path: &Path) -> Result<Run> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("{}: run a benchmark first", path.display()))?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Writes the run as JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, serde_json::to_string_pretty(self)?).with_context(|| path.display().to_string())
    }

    /// Adds the rows of an earlier run that are missing from this run, if both runs measured the same version.
    pub(crate) fn add(&mut self, earlier: Run) {
        if earlier.version != self.version {
            return;
        }
        let is_new = |workload: &str, subject: &str| {
            self.rows.iter().any(|row| row.workload == workload && row.subject == subject)
                || self.missing.iter().any(|missing| missing.workload == workload && missing.subject == subject)
        };
        let (rows, missing) = (earlier.rows.into_iter(), earlier.missing.into_iter());
        let rows: Vec<Measurement> = rows.filter(|row| !is_new(&row.workload, &row.subject)).collect();
        let missing: Vec<MissingSubject> =
            missing.filter(|missing| !is_new(&missing.workload, &missing.subject)).collect();
        self.rows.extend(rows);
        self.missing.extend(missing);
        self.rows.sort_by_key(|row| workloads::place(&row.workload));
        self.missing.sort_by_key(|missing| workloads::place(&missing.workload));
    }

    /// Returns the rows of a workload and phase, fastest first.
    fn of(&self, workload: &str, phase: &str) -> Vec<&Measurement> {
        let mut rows: Vec<&Measurement> =
            self.rows.iter().filter(|row| row.workload == workload && row.phase == phase).collect();
        rows.sort_by(|left, right| left.low_s.total_cmp(&right.low_s));
        rows
    }

    /// Returns the titles of the workloads, which include their sizes, in the order of the run.
    fn workloads(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.workload.as_str()) {
                names.push(&row.workload);
            }
        }
        names
    }

    /// Returns the workloads for the overview and the list of gaps: those with the sizes of a full run if there are
    /// any, and otherwise those with the sizes of a quick run.
    fn compared(&self) -> Vec<&str> {
        let (full, small): (Vec<&str>, Vec<&str>) =
            self.workloads().into_iter().partition(|workload| workloads::has_sizes(workload, |workload| workload.full));
        let is_quick = |workload: &&str| workloads::has_sizes(workload, |workload| workload.quick);
        if full.is_empty() { small.into_iter().filter(is_quick).collect() } else { full }
    }
}

/// Writes the report into a folder. Returns the summary for the terminal.
pub(crate) fn write(run: &Run, folder: &Path) -> Result<String> {
    std::fs::write(folder.join("report.html"), html::page(run)?)?;
    std::fs::write(folder.join("report.md"), markdown::page(run))?;
    let summary = tables::overview(run).markdown();
    Ok(format!("{summary}\n{} rows; the report is {}", run.rows.len(), folder.join("report.html").display()))
}

/// Describes the machine for the report: the processor model, the number of cores and the operating system.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("", |rest| rest.trim_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = if model.is_empty() { std::env::consts::ARCH } else { model };
    format!("{model}, {cores} cores, {}", std::env::consts::OS)
}

/// Formats seconds in a suitable unit.
fn time(seconds: f64) -> String {
    match seconds {
        _ if !seconds.is_finite() => "–".into(),
        _ if seconds < 1e-3 => format!("{} µs", digits(seconds * 1e6)),
        _ if seconds < 1.0 => format!("{} ms", digits(seconds * 1e3)),
        _ => format!("{} s", digits(seconds)),
    }
}

/// Formats bytes in a suitable unit.
fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{} kB", digits(bytes / 1e3)),
        bytes if bytes < 1e9 => format!("{} MB", digits(bytes / 1e6)),
        bytes => format!("{} GB", digits(bytes / 1e9)),
    }
}

/// Formats a number with about three significant digits.
fn digits(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 0.01 || size == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Samples;
    use crate::subjects::Phase;

    #[test]
    fn a_part_replaces_what_it_measured_again() {
        let row = |workload: &str, subject: &str, low: f64| {
            let mut samples = Samples::default();
            samples.add(vec![low], vec![low]);
            Measurement::run_row(workload, subject, Phase::Forward, &samples, (None, None), None)
        };
        let run =
            |version: &str, rows| Run { version: version.into(), machine: String::new(), rows, missing: Vec::new() };
        let earlier = || vec![row("lstm T=30 B=4 H=16", "jax", 1.0), row("rnn T=50 B=4 H=16", "jax", 2.0)];
        let part = || run("1", vec![row("lstm T=30 B=4 H=16", "jax", 3.0)]);
        let lows = |run: &Run| run.rows.iter().map(|row| row.low_s).collect::<Vec<_>>();
        let mut all = part();
        all.add(run("1", earlier()));
        assert_eq!(lows(&all), [2.0, 3.0]);
        let mut all = part();
        all.add(run("0", earlier()));
        assert_eq!(lows(&all), [3.0]);
    }

    #[test]
    fn full_sizes_are_compared_and_each_phase_has_its_gap() {
        let row = |workload: &str, subject: &str, phase, low: f64| {
            let mut samples = Samples::default();
            samples.add(vec![low], vec![low]);
            Measurement::run_row(workload, subject, phase, &samples, (None, None), None)
        };
        let (full, quick, plotted) = ("rnn T=1000 B=1 H=32", "rnn T=50 B=4 H=16", "rnn T=64 B=4 H=16");
        let run = |workloads: &[&str]| {
            let phases = |workload: &&str| {
                Phase::ALL.map(|phase| [row(workload, "jax", phase, 1.0), row(workload, "candle-compiled", phase, 3.0)])
            };
            let rows = workloads.iter().flat_map(phases).flatten().collect();
            Run { version: "1".into(), machine: String::new(), rows, missing: Vec::new() }
        };
        assert_eq!(run(&[full, quick, plotted]).compared(), [full]);
        assert_eq!(run(&[quick, plotted]).compared(), [quick]);
        let gaps = gaps::table(&run(&[full, quick])).rows;
        let places: Vec<&str> = gaps.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(places, [format!("{full}, forward"), format!("{full}, train")]);
    }

    #[test]
    fn numbers_have_their_unit_and_three_digits() {
        let times = [2.5e-7, 0.000_213, 0.0146, 1.5, f64::NAN].map(time);
        assert_eq!(times, ["0.25 µs", "213 µs", "14.6 ms", "1.50 s", "–"]);
        assert_eq!([900, 1_234_567, 12_000_000_000].map(bytes), ["0.90 kB", "1.23 MB", "12.0 GB"]);
    }
}
