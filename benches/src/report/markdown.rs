//! Writes the report as Markdown.

use super::{Run, gaps, tables};

pub(super) fn page(run: &Run) -> String {
    let mut page = format!("# Benchmarks of funcify {}\n\n{}\n\n", run.version, super::html::explanation(run));
    page += &tables::overview(run).markdown();
    page += &format!("\n## The largest gaps\n\n{}\n\n", gaps::ABOUT);
    page += &gaps::table(run).markdown();
    for workload in run.workloads() {
        for phase in ["forward", "train"] {
            if let Some(table) = tables::details(run, workload, phase) {
                page += &format!("\n## {workload}, {phase}\n\n{}", table.markdown());
            }
        }
    }
    page + "\n## Subjects that did not run\n\n" + &tables::missing_subjects(run).markdown()
}
