//! The table category × backend, the list of failures, and the JSON of a run.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::runner::{Row, Status};

/// All rows of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Each case on each backend in each mode.
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether any row failed.
    pub fn has_failures(&self) -> bool {
        self.count(Status::Fail) > 0
    }

    /// How many rows have a status.
    pub fn count(&self, status: Status) -> usize {
        self.rows.iter().filter(|row| row.status == status).count()
    }

    /// The backends that are absent, each with the reason.
    pub fn absent(&self) -> BTreeMap<&str, &str> {
        let absent = self.rows.iter().filter(|row| row.status == Status::Absent);
        absent.map(|row| (row.backend.as_str(), row.reason.as_str())).collect()
    }

    /// The JSON: `{"rows": [{"case", "category", "backend", "mode", "status", "reason"}]}`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The table: for each category and backend, how many rows passed, and how many did not and why.
    pub fn table(&self) -> String {
        let mut backends: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !backends.contains(&row.backend.as_str()) {
                backends.push(&row.backend);
            }
        }
        let categories: BTreeSet<&str> = self.rows.iter().map(|row| row.category.as_str()).collect();
        let mut lines = vec![[&["category"], backends.as_slice()].concat().iter().map(|s| s.to_string()).collect()];
        for category in categories.iter().map(|category| Some(*category)).chain([None]) {
            let mut line: Vec<String> = vec![category.unwrap_or("total").to_string()];
            line.extend(backends.iter().map(|backend| self.cell(category, backend)));
            lines.push(line);
        }
        align(&lines)
    }

    /// Each failure: backend, case, mode, and what differs first.
    pub fn failures(&self) -> String {
        let failed = self.rows.iter().filter(|row| row.status == Status::Fail);
        let text = failed.map(|row| {
            let reason = row.reason.replace('\n', "\n    ");
            format!("FAILED {}/{} ({})\n    {reason}\n", row.backend, row.case, row.mode)
        });
        text.collect()
    }

    fn cell(&self, category: Option<&str>, backend: &str) -> String {
        let rows = self.rows.iter().filter(|row| row.backend == backend && category.is_none_or(|c| row.category == c));
        let mut counts: BTreeMap<Status, usize> = BTreeMap::new();
        rows.for_each(|row| *counts.entry(row.status).or_default() += 1);
        if counts.keys().all(|status| *status == Status::Absent) {
            return "absent".into();
        }
        let passed = counts.get(&Status::Pass).copied().unwrap_or(0);
        let mut cell = format!("{passed} passed");
        for (status, word) in [(Status::Fail, "failed"), (Status::Unsupported, "unsupported")] {
            if let Some(count) = counts.get(&status) {
                cell.push_str(&format!(", {count} {word}"));
            }
        }
        cell
    }
}

/// Columns padded to equal widths, the head underlined.
fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> =
        (0..columns).map(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0)).collect();
    let row = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
    };
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        text.push_str(&row(line));
        if index == 0 {
            text.push_str(&row(&widths.iter().map(|width| "-".repeat(*width)).collect()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, backend: &str, status: Status) -> Row {
        let (category, mode) = ("scan".into(), "raw/native".into());
        Row { case: case.into(), category, backend: backend.into(), mode, status, reason: "why".into() }
    }

    #[test]
    fn the_table_counts_by_category_and_backend() {
        let rows = vec![
            row("a", "x", Status::Pass),
            row("b", "x", Status::Fail),
            row("a", "y", Status::Absent),
            row("b", "y", Status::Absent),
        ];
        let report = Report { rows };
        let table = report.table();
        assert!(table.contains("scan      1 passed, 1 failed  absent"), "{table}");
        assert!(report.has_failures());
        assert!(report.failures().contains("FAILED x/b (raw/native)\n    why"));
        assert!(report.to_json().contains("\"status\": \"absent\""));
    }
}
