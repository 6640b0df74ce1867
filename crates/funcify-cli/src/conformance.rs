//! `funcify conformance`: runs every case on every backend in every mode.

use std::collections::BTreeSet;
use std::iter;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use funcify_conformance::{Case, Report, Status, rewrite_case, run_modes, unmatched_gaps};
use indicatif::{ProgressBar, ProgressStyle};

use super::*;

/// The environment variable that lists the required backends, separated by commas. The run fails if one of them is
/// absent.
const REQUIRED_BACKENDS_VAR: &str = "FUNCIFY_REQUIRE";

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Run only these backends (comma-separated).
    #[arg(long, value_delimiter = ',')]
    backend: Vec<String>,
    /// Run only cases whose name contains this text.
    #[arg(long)]
    filter: Option<String>,
    /// Write the result of every case on every backend, in every mode, to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the suite. Returns `false` if a case failed or a required backend is absent.
pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let subjects = backends::subjects(&arguments.backend)?;
    let all = all_cases().map_err(|reason| anyhow!(reason))?;
    let is_selected = |name: &str| arguments.filter.as_deref().is_none_or(|filter| name.contains(filter));
    let cases = all.iter().filter(|case| is_selected(&case.name));
    let cases: Vec<_> = cases.map(|case| (case, LazyLock::new(|| rewrite_case(case)))).collect();
    if cases.is_empty() {
        return Err(anyhow!("no case name contains `{}`", arguments.filter.as_deref().unwrap_or("")));
    }

    let partial = subjects.iter().filter(|subject| subject.expectations.partial).map(|subject| subject.name.clone());
    let mut report = Report { partial: partial.collect(), ..Report::default() };
    let modes: usize = subjects.iter().map(|subject| subject.modes().len()).sum();
    let bar = ProgressBar::new((cases.len() * modes) as u64);
    bar.set_style(ProgressStyle::with_template("{bar:32} {pos}/{len} {msg}")?);
    // Silence the panic hook: the suite catches panics and puts their messages into the rows of failed cases.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let rows_of = |subject: &Subject, (case, rewritten): &(&Case, LazyLock<Option<Graph>, _>)| {
        bar.set_message(format!("{}/{}", subject.name, case.name));
        run_modes(case, rewritten.as_ref(), subject, || bar.inc(1))
    };
    let by_subject = run_in_parallel(&subjects, cases.len(), |subject, case| rows_of(subject, &cases[case]));
    std::panic::set_hook(hook);
    for (subject, rows) in subjects.iter().zip(by_subject?) {
        if arguments.filter.is_none() {
            report.rows.extend(unmatched_gaps(&all, subject));
        }
        report.rows.extend(rows.into_iter().flatten());
    }
    bar.finish_and_clear();

    print!("{}", report.table());
    for (backend, reason) in report.absent() {
        println!("\n{backend} is absent: {reason}");
    }
    if report.has_failures() {
        print!("\n{}", report.failures());
    }
    if report.count(Status::Needs) > 0 {
        print!("\n{}", report.needs());
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, report.to_json()).with_context(|| path.display().to_string())?;
    }
    Ok(!report.has_failures() && ran_required_backends(&report))
}

/// Calls `run` for every case of every subject, on several threads. Returns the results of each subject, in the order
/// of the cases.
///
/// Each subject has its own thread. Once a thread has run all cases of its subject, it helps with the cases of the
/// other subjects. If there are more processors than subjects, additional threads help from the start. No thread helps
/// a subject on a GPU, because that subject's own thread mostly waits for the device. A subject on a GPU takes about as
/// long as all other subjects together.
fn run_in_parallel<R: Send>(
    subjects: &[Subject],
    cases: usize,
    run: impl Fn(&Subject, usize) -> R + Sync,
) -> Result<Vec<Vec<R>>> {
    let next: Vec<AtomicUsize> = subjects.iter().map(|_| AtomicUsize::new(0)).collect();
    let threads = subjects.len().max(std::thread::available_parallelism().map_or(1, |threads| threads.get()));
    let work = |own: usize| {
        let helped = (0..subjects.len()).filter(|&other| other != own && !backends::waits_for_device(&subjects[other]));
        let mut done = Vec::new();
        for at in (own < subjects.len()).then_some(own).into_iter().chain(helped) {
            let case = || Some(next[at].fetch_add(1, Ordering::Relaxed)).filter(|case| *case < cases);
            done.extend(iter::from_fn(case).map(|case| (at, case, run(&subjects[at], case))));
        }
        done
    };
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|own| scope.spawn(move || work(own))).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut sorted: Vec<Vec<(usize, R)>> = subjects.iter().map(|_| Vec::with_capacity(cases)).collect();
    for done in done {
        for (at, case, result) in done.map_err(|_| anyhow!("the suite itself panicked"))? {
            sorted[at].push((case, result));
        }
    }
    for results in &mut sorted {
        results.sort_by_key(|(case, _)| *case);
    }
    Ok(sorted.into_iter().map(|results| results.into_iter().map(|(_, result)| result).collect()).collect())
}

/// Returns `true` if every required backend ran, and prints the names of those that did not.
fn ran_required_backends(report: &Report) -> bool {
    let required = std::env::var(REQUIRED_BACKENDS_VAR).unwrap_or_default();
    let ran: BTreeSet<&str> = report.rows.iter().map(|row| row.backend.as_str()).collect();
    let absent = report.absent();
    let missing = |name: &&str| absent.contains_key(name) || !ran.contains(name);
    let missing: Vec<&str> = required.split(',').filter(|name| !name.is_empty()).filter(missing).collect();
    if !missing.is_empty() {
        println!("\n{REQUIRED_BACKENDS_VAR} names backends that did not run: {}", missing.join(", "));
    }
    missing.is_empty()
}
