//! What is made of the rows: a page of HTML with plots, the same as Markdown, and the README's table.

mod figures;
mod gaps;
mod html;
mod markdown;
pub(crate) mod readme;
mod tables;

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::rows::{Gone, Row};

/// A run as it is kept.
#[derive(Serialize, Deserialize)]
pub(crate) struct Run {
    /// The version of funcify that ran.
    pub(crate) version: String,
    pub(crate) machine: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) gone: Vec<Gone>,
}

impl Run {
    /// The rows of that workload in that phase, the fastest first.
    fn of(&self, workload: &str, phase: &str) -> Vec<&Row> {
        let mut rows: Vec<&Row> =
            self.rows.iter().filter(|row| row.workload == workload && row.phase == phase).collect();
        rows.sort_by(|left, right| left.low_s.total_cmp(&right.low_s));
        rows
    }

    /// The workloads with their sizes, in the order of the run.
    fn workloads(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.workload.as_str()) {
                names.push(&row.workload);
            }
        }
        names
    }
}

/// Writes the report into a folder; gives the summary for the terminal.
pub(crate) fn write(run: &Run, folder: &Path) -> Result<String> {
    std::fs::write(folder.join("report.html"), html::page(run)?)?;
    std::fs::write(folder.join("report.md"), markdown::page(run))?;
    let summary = tables::overview(run).markdown();
    Ok(format!("{summary}\n{} rows; the report is {}", run.rows.len(), folder.join("report.html").display()))
}

/// Processor, cores and system, as the report states them.
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

/// Seconds in the unit that suits them.
fn time(seconds: f64) -> String {
    match seconds {
        _ if !seconds.is_finite() => "–".into(),
        _ if seconds < 1e-3 => format!("{} µs", digits(seconds * 1e6)),
        _ if seconds < 1.0 => format!("{} ms", digits(seconds * 1e3)),
        _ => format!("{} s", digits(seconds)),
    }
}

/// Bytes in the unit that suits them.
fn bytes(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{} kB", digits(bytes / 1e3)),
        bytes if bytes < 1e9 => format!("{} MB", digits(bytes / 1e6)),
        bytes => format!("{} GB", digits(bytes / 1e9)),
    }
}

/// Three digits of a number.
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

    #[test]
    fn numbers_have_their_unit_and_three_digits() {
        let times = [2.5e-7, 0.000_213, 0.0146, 1.5, f64::NAN].map(time);
        assert_eq!(times, ["0.25 µs", "213 µs", "14.6 ms", "1.50 s", "–"]);
        assert_eq!([900, 1_234_567, 12_000_000_000].map(bytes), ["0.90 kB", "1.23 MB", "12.0 GB"]);
    }
}
