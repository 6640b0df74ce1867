//! Reports a run as a table of categories and backends, as a list of failures, and as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::runner::{CaseResult, Status};
use crate::unlocks::{unlock_table, unlocks};

/// The results of a run.
///
/// ```
/// use std::sync::Arc;
///
/// use funcify::Graph;
/// use funcify::dispatch::{LoopStrategy, Reference};
/// use funcify_conformance::{Case, Expectations, Report, Status, Subject, run_case};
///
/// # let square = Graph::build("square", |g| g.input("x", "f32[2]").square()).unwrap();
/// # let case = Case::from_reference("square", "mine", square, vec![[2f32, 3.0].into()])?;
/// let (name, expectations) = ("reference".to_string(), Expectations::default());
/// let subject = Subject { name, executor: Ok(Arc::new(Reference)), expectations };
/// let rows = vec![run_case(&case, &subject, LoopStrategy::Native)];
/// let report = Report { rows, ..Report::default() };
/// assert!(!report.has_failures());
/// assert_eq!(report.count(Status::Pass), 1);
/// println!("{}\n{}", report.table(), report.failures());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The result of each case on each backend in each mode.
    pub rows: Vec<CaseResult>,
    /// The backends that are declared to be under construction. Their missing ops and types do not fail the run.
    #[serde(skip)]
    pub partial: BTreeSet<String>,
}

impl Report {
    /// Returns `true` if any row failed, or if an op or type is missing on a backend that is not
    /// [partial](Report::partial).
    pub fn has_failures(&self) -> bool {
        let fails = |row: &CaseResult| match row.status {
            Status::Fail => true,
            Status::Needs => !self.partial.contains(&row.backend),
            Status::Pass | Status::Unsupported | Status::Absent => false,
        };
        self.rows.iter().any(fails)
    }

    /// Returns the number of rows with the given status.
    pub fn count(&self, status: Status) -> usize {
        self.rows.iter().filter(|row| row.status == status).count()
    }

    /// Returns the absent backends, each with the reason for its absence.
    pub fn absent(&self) -> BTreeMap<&str, &str> {
        let absent = self.rows.iter().filter(|row| row.status == Status::Absent);
        absent.map(|row| (row.backend.as_str(), row.reason.as_str())).collect()
    }

    /// Lists the ops and types that each backend is missing, with the number of cases that each op or type would
    /// unlock.
    pub fn needs(&self) -> String {
        let mut by_backend: BTreeMap<&str, BTreeMap<&str, &[String]>> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.status == Status::Needs) {
            // The needs of a case rarely depend on the mode, so one row per case is enough.
            by_backend.entry(&row.backend).or_default().entry(&row.case).or_insert(&row.needs);
        }
        let text = by_backend.iter().map(|(backend, cases)| {
            let table = unlock_table(&unlocks(cases.values().copied()));
            format!("{} cases need ops or types that {backend} does not have yet:\n\n{table}", cases.len())
        });
        text.collect::<Vec<_>>().join("\n")
    }

    /// Returns the report as JSON: `{"rows": [{"case", "category", "backend", "mode", "status", "reason", "needs"}]}`.
    /// Rows have `needs` only if ops or types are missing.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report contains only strings and numbers") + "\n"
    }

    /// Formats a table that shows, for each category and backend, the number of rows that passed, followed by the
    /// counts of the other statuses.
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

    /// Lists the failures, each with its backend, case, mode, and reason.
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
        for (status, word) in [
            (Status::Fail, "failed"),
            (Status::Needs, "need ops that are missing"),
            (Status::Unsupported, "unsupported"),
        ] {
            if let Some(count) = counts.get(&status) {
                cell.push_str(&format!(", {count} {word}"));
            }
        }
        cell
    }
}

/// Formats lines as a table: pads the cells of each column to the same width, and underlines the header.
pub(crate) fn align(lines: &[Vec<String>]) -> String {
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

    fn row(case: &str, backend: &str, status: Status) -> CaseResult {
        let (category, mode) = ("scan".into(), "raw/native".into());
        CaseResult {
            case: case.into(),
            category,
            backend: backend.into(),
            mode,
            status,
            reason: "why".into(),
            needs: Vec::new(),
        }
    }

    /// The report distinguishes missing ops from wrong results. A missing op fails a run unless the backend is partial.
    #[test]
    fn what_is_lacking_is_no_failed_case() {
        let needing = |case: &str| CaseResult { needs: vec!["exp".into()], ..row(case, "x", Status::Needs) };
        let mut report =
            Report { rows: vec![row("a", "x", Status::Pass), needing("b"), needing("b")], ..Report::default() };
        assert!(report.table().contains("1 passed, 2 need ops that are missing"), "{}", report.table());
        assert!(
            report.needs().starts_with("1 cases need ops or types that x does not have yet:\n\nneeds  cases"),
            "{}",
            report.needs()
        );
        assert_eq!(report.failures(), "");
        assert!(report.has_failures());
        report.partial.insert("x".into());
        assert!(!report.has_failures());
        report.rows.push(row("c", "x", Status::Fail));
        assert!(report.has_failures());
    }

    #[test]
    fn the_table_counts_by_category_and_backend() {
        let rows = vec![
            row("a", "x", Status::Pass),
            row("b", "x", Status::Fail),
            row("a", "y", Status::Absent),
            row("b", "y", Status::Absent),
        ];
        let report = Report { rows, ..Report::default() };
        let table = report.table();
        assert!(table.contains("scan      1 passed, 1 failed  absent"), "{table}");
        assert!(report.has_failures());
        assert!(report.failures().contains("FAILED x/b (raw/native)\n    why"));
        assert!(report.to_json().contains("\"status\": \"absent\""));
    }
}
