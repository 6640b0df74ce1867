//! Builds the report's tables, which consist of text cells.

use super::{Run, bytes, digits, time};
use crate::rows::Measurement;
use crate::subjects::Subject;

/// A table with a header row. In Markdown, the first column is left-aligned, and the others are right-aligned.
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule: Vec<String> =
            (0..self.head.len()).map(|column| if column == 0 { "---" } else { "--:" }.into()).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}{}{rows}", line(&self.head), line(&rule).replace(' ', ""))
    }

    pub(super) fn html(&self) -> String {
        let line = |cells: &[String], tag: &str| -> String {
            let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
            format!("<tr>{cells}</tr>")
        };
        let rows: String = self.rows.iter().map(|row| line(row, "td")).collect();
        format!(
            "<div class=\"wide\"><table><thead>{}</thead><tbody>{rows}</tbody></table></div>",
            line(&self.head, "th")
        )
    }
}

/// Escapes text for HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A column of the overview. Each cell shows the fastest of the column's subjects.
struct Column {
    title: &'static str,
    includes: fn(&Subject) -> bool,
}

/// The columns of the overview.
const COLUMNS: &[Column] = &[
    Column { title: "JAX", includes: |subject| subject.name == "jax" },
    Column { title: "PyTorch", includes: |subject| subject.name.starts_with("torch") },
    Column { title: "PyTensor", includes: |subject| subject.name == "pytensor" },
    Column { title: "rlx", includes: |subject| subject.name == "rlx" },
    Column { title: "funcify alone", includes: |subject| subject.name == "cpu" },
    Column { title: "Candle by hand", includes: |subject| subject.name == "candle-by-hand" },
    Column {
        title: "funcify on Candle",
        includes: |subject| subject.is_funcify() && subject.name.starts_with("candle"),
    },
    Column { title: "Burn by hand", includes: |subject| subject.name == "burn-flex-by-hand" },
    Column {
        title: "funcify on Burn",
        includes: |subject| subject.is_funcify() && subject.name.starts_with("burn-flex"),
    },
];

/// Tabulates the fastest subject of each column, with one row per workload and phase.
pub(super) fn overview(run: &Run) -> Table {
    let mut head = vec!["lowest of many runs".to_string()];
    head.extend(COLUMNS.iter().map(|column| column.title.to_string()));
    let mut rows = Vec::new();
    for workload in run.compared() {
        for phase in ["forward", "train"] {
            let measured = run.of(workload, phase);
            if measured.is_empty() {
                continue;
            }
            let cell = |column: &Column| {
                let of =
                    |row: &&&Measurement| Subject::named(&row.subject).is_ok_and(|subject| (column.includes)(subject));
                let Some(row) = measured.iter().find(of) else {
                    return String::new();
                };
                match row.ratio_to_jax {
                    Some(ratio) if row.subject != "jax" => format!("{} ({} ×)", time(row.low_s), digits(ratio)),
                    _ => time(row.low_s),
                }
            };
            let mut cells = vec![format!("{workload}, {phase}")];
            cells.extend(COLUMNS.iter().map(cell));
            rows.push(cells);
        }
    }
    let used: Vec<bool> = (0..head.len()).map(|column| rows.iter().any(|row| !row[column].is_empty())).collect();
    let without_empty =
        |cells: Vec<String>| cells.into_iter().zip(&used).filter_map(|(cell, used)| used.then_some(cell)).collect();
    Table { head: without_empty(head), rows: rows.into_iter().map(without_empty).collect() }
}

/// Tabulates the measurements of all subjects on one workload and phase. Returns `None` if there are none.
pub(super) fn details(run: &Run, workload: &str, phase: &str) -> Option<Table> {
    let measured = run.of(workload, phase);
    let names = ["", "low", "median", "spread", "processor", "peak memory", "to by hand", "to JAX", "to make"];
    let make = if phase == "train" { "make-train" } else { "make" };
    let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{} ×", digits(ratio)));
    let rows = measured.iter().map(|row| {
        let building = run.rows.iter().find(|building| {
            building.workload == workload && building.phase == make && building.subject == row.subject
        });
        vec![
            row.subject.clone(),
            time(row.low_s),
            time(row.median_s),
            row.spread.map_or(String::new(), |spread| format!("{:.0} %", spread * 100.0)),
            time(row.cpu_s),
            row.peak_bytes.map_or(String::new(), bytes),
            ratio(row.ratio_to_hand_written),
            ratio(row.ratio_to_jax),
            building.map_or(String::new(), |building| time(building.low_s)),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    (!rows.is_empty()).then(|| Table { head: names.map(str::to_string).to_vec(), rows })
}

/// Tabulates the subjects that did not run, with one row per reason.
pub(super) fn missing_subjects(run: &Run) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for missing in &run.missing {
        let place = format!("{}, {}", missing.workload, missing.phase);
        match rows.iter_mut().find(|row| row[0] == missing.subject && row[1] == missing.why) {
            Some(row) => row[2] = format!("{}; {place}", row[2]),
            None => rows.push(vec![missing.subject.clone(), missing.why.clone(), place]),
        }
    }
    Table { head: ["subject", "why", "where"].map(str::to_string).to_vec(), rows }
}
