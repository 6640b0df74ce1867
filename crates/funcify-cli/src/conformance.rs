//! `funcify conformance`: every case on every backend in every mode.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow};
use funcify_conformance::{Report, Subject, all_cases, rewritten, run_case, run_rewritten, unmatched_gaps};
use indicatif::{ProgressBar, ProgressStyle};

use crate::backends;

/// The environment variable that names backends which must not be absent, separated by commas.
const REQUIRE: &str = "FUNCIFY_REQUIRE";

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Only these backends, separated by commas.
    #[arg(long, value_delimiter = ',')]
    backend: Vec<String>,
    /// Only cases whose name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Write all rows to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the suite; false if anything failed.
pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let subjects = backends::subjects(&arguments.backend)?;
    let all = all_cases().map_err(|reason| anyhow!(reason))?;
    let is_selected = |name: &str| arguments.filter.as_deref().is_none_or(|filter| name.contains(filter));
    let cases = all.iter().filter(|case| is_selected(&case.name));
    let cases: Vec<_> = cases.map(|case| (case, LazyLock::new(|| rewritten(case)))).collect();
    if cases.is_empty() {
        return Err(anyhow!("no case has `{}` in its name", arguments.filter.as_deref().unwrap_or_default()));
    }

    let mut report = Report::default();
    let modes: usize = subjects.iter().map(|subject| subject.modes().len()).sum();
    let bar = ProgressBar::new((cases.len() * modes) as u64);
    bar.set_style(ProgressStyle::with_template("{bar:32} {pos}/{len} {msg}")?);
    // A panic is a failed row; its message is in the row, not on the screen.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let rows_of = |subject: &Subject| {
        let mut rows = Vec::new();
        if arguments.filter.is_none() {
            rows.extend(unmatched_gaps(&all, subject));
        }
        for (case, rewritten) in &cases {
            bar.set_message(format!("{}/{}", subject.name, case.name));
            for &mode in subject.modes() {
                rows.push(run_case(case, subject, mode));
                rows.extend(rewritten.as_ref().map(|graph| run_rewritten(case, graph, subject, mode)));
                bar.inc(1);
            }
        }
        rows
    };
    // A thread for each backend: one that compiles kernels for a GPU takes as long as all the others.
    let all_rows = std::thread::scope(|scope| {
        let threads: Vec<_> = subjects.iter().map(|subject| scope.spawn(|| rows_of(subject))).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    std::panic::set_hook(hook);
    for (subject, rows) in subjects.iter().zip(all_rows) {
        report.rows.extend(rows.map_err(|_| anyhow!("the suite itself panicked on {}", subject.name))?);
    }
    bar.finish_and_clear();

    print!("{}", report.table());
    for (backend, reason) in report.absent() {
        println!("\n{backend} is absent: {reason}");
    }
    if report.has_failures() {
        print!("\n{}", report.failures());
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, report.to_json()).with_context(|| path.display().to_string())?;
    }
    Ok(!report.has_failures() && none_missing(&report))
}

/// Whether every backend that is required is there.
fn none_missing(report: &Report) -> bool {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let ran: BTreeSet<&str> = report.rows.iter().map(|row| row.backend.as_str()).collect();
    let absent = report.absent();
    let missing = |name: &&str| absent.contains_key(name) || !ran.contains(name);
    let missing: Vec<&str> = required.split(',').filter(|name| !name.is_empty()).filter(missing).collect();
    if !missing.is_empty() {
        println!("\n{REQUIRE} names backends that did not run: {}", missing.join(", "));
    }
    missing.is_empty()
}
