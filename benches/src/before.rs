//! Compares this program with an earlier build of itself: `--before PROGRAM`.
//!
//! Each of funcify's subjects runs in both builds. The builds take turns, so the ratio of the two times shows the
//! effect of a change even if the machine is busy.

use std::path::Path;

use crate::rows::Measurement;
use crate::subjects::{EarlierBuild, Kind, Subject};

/// The maximum allowed ratio of a row's time in this build to its time in the earlier build.
const ALLOWED: f64 = 1.05;

/// Returns each subject, followed by the same subject in an earlier build. Leaks the subjects of the earlier build,
/// because subjects must be `'static`.
pub(crate) fn with_earlier_build(subjects: &[&'static Subject], program: &Path) -> Vec<&'static Subject> {
    let earlier = |subject: &'static Subject| -> &'static Subject {
        let earlier: &'static EarlierBuild =
            Box::leak(Box::new(EarlierBuild { program: program.display().to_string(), subject }));
        let name = Box::leak(format!("{}{EARLIER_SUFFIX}", subject.name).into_boxed_str());
        Box::leak(Box::new(Subject { name, kind: Kind::EarlierBuild(earlier), instead_of: None }))
    };
    subjects.iter().flat_map(|subject| [*subject, earlier(subject)]).collect()
}

/// The suffix of the names of subjects that run in the earlier build.
const EARLIER_SUFFIX: &str = ", before";

/// Prints each row whose time or memory changed by more than a factor of [`ALLOWED`], and summaries. Returns `false` if
/// a row became slower or needs more memory by more than this factor, or if no rows could be compared.
pub(crate) fn print(rows: &[Measurement]) -> bool {
    let are_as_fast = print_times(rows);
    print_memory(rows) && are_as_fast
}

/// Returns the row of the earlier build that belongs to `row`.
fn earlier<'a>(row: &Measurement, rows: &'a [Measurement]) -> Option<&'a Measurement> {
    let name = format!("{}{EARLIER_SUFFIX}", row.subject);
    rows.iter().find(|other| other.has_same_workload_and_phase(row) && other.subject == name)
}

/// Prints the rows whose times changed, and a summary. Skips the build times (`make`), which are measured only once.
/// Returns `false` if a row became slower, or if there are no rows.
fn print_times(rows: &[Measurement]) -> bool {
    println!("| workload | phase | subject | before, low | now, low | ratio of lows | of medians |");
    println!("|---|---|---|--:|--:|--:|--:|");
    let (mut slower, mut faster, mut all, mut logarithms) = (0, 0, 0, 0.0);
    for row in rows.iter().filter(|row| !row.phase.starts_with("make")) {
        let Some(before) = earlier(row, rows) else { continue };
        let ratio = row.low_s / before.low_s;
        all += 1;
        logarithms += ratio.ln();
        slower += usize::from(ratio > ALLOWED);
        faster += usize::from(ratio < 1.0 / ALLOWED);
        if !(1.0 / ALLOWED..=ALLOWED).contains(&ratio) {
            println!(
                "| {} | {} | {} | {:.4} ms | {:.4} ms | {ratio:.3} | {:.3} |",
                row.workload,
                row.phase,
                row.subject,
                before.low_s * 1e3,
                row.low_s * 1e3,
                row.median_s / before.median_s
            );
        }
    }
    let mean = (logarithms / f64::from(all.max(1))).exp();
    println!(
        "\nOf {all} rows, {slower} are slower by more than 5 %, {faster} faster; the geometric mean ratio is {mean:.3}."
    );
    slower == 0 && all > 0
}

/// Prints the rows whose memory changed, and a summary: of the rows for building a program, the peak memory of the
/// process; of the others, the peak memory of a run. Returns `false` if a row needs more memory.
fn print_memory(rows: &[Measurement]) -> bool {
    println!("\n| workload | phase | subject | MiB before | MiB now | ratio |\n|---|---|---|--:|--:|--:|");
    let (mut more, mut less, mut all) = (0, 0, 0);
    for row in rows {
        let before = earlier(row, rows).and_then(|before| before.peak_bytes);
        let (Some(before), Some(now)) = (before, row.peak_bytes) else { continue };
        let ratio = now as f64 / before.max(1) as f64;
        all += 1;
        more += usize::from(ratio > ALLOWED);
        less += usize::from(ratio < 1.0 / ALLOWED);
        if !(1.0 / ALLOWED..=ALLOWED).contains(&ratio) {
            let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            println!(
                "| {} | {} | {} | {:.4} | {:.4} | {ratio:.2} |",
                row.workload,
                row.phase,
                row.subject,
                mebibytes(before),
                mebibytes(now)
            );
        }
    }
    println!("\nOf {all} rows, {more} need more memory by more than 5 %, {less} less.");
    more == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Samples;
    use crate::subjects::{ALL, Phase};

    fn row(subject: &str, low: f64, bytes: u64) -> Measurement {
        let mut samples = Samples::default();
        samples.add(vec![low, 2.0 * low], vec![low, low]);
        Measurement::run_row("rnn T=1", subject, Phase::Forward, &samples, (Some(bytes), None), None)
    }

    #[test]
    fn a_row_that_is_slower_or_needs_more_memory_than_before_fails() {
        assert!(print(&[row("cpu", 1.04, 104), row("cpu, before", 1.0, 100)]));
        assert!(!print(&[row("cpu", 1.06, 100), row("cpu, before", 1.0, 100)]));
        assert!(!print(&[row("cpu", 1.0, 106), row("cpu, before", 1.0, 100)]));
        assert!(!print(&[row("cpu", 1.0, 100)]), "nothing was compared");
    }

    #[test]
    fn each_subject_stands_before_its_earlier_self() {
        let names: Vec<&str> =
            with_earlier_build(&[&ALL[1]], Path::new("old")).iter().map(|subject| subject.name).collect();
        assert_eq!(names, ["cpu", "cpu, before"]);
    }
}
