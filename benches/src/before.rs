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

/// Prints each row whose time changed by more than a factor of [`ALLOWED`], and a summary. Returns `false` if a row
/// became slower by more than this factor, or if no rows could be compared. Skips the build times (`make`), which are
/// measured only once.
pub(crate) fn print(rows: &[Measurement]) -> bool {
    println!("| workload | phase | subject | before, low | now, low | ratio of lows | of medians |");
    println!("|---|---|---|--:|--:|--:|--:|");
    let (mut slower, mut faster, mut all, mut logarithms) = (0, 0, 0, 0.0);
    for row in rows.iter().filter(|row| !row.phase.starts_with("make")) {
        let name = format!("{}{EARLIER_SUFFIX}", row.subject);
        let Some(before) = rows.iter().find(|other| other.has_same_workload_and_phase(row) && other.subject == name)
        else {
            continue;
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Samples;
    use crate::subjects::{ALL, Phase};

    fn row(subject: &str, low: f64) -> Measurement {
        let mut samples = Samples::default();
        samples.add(vec![low, 2.0 * low], vec![low, low]);
        Measurement::run_row("rnn T=1", subject, Phase::Forward, &samples, (None, None), None)
    }

    #[test]
    fn a_row_that_is_slower_than_before_fails() {
        assert!(print(&[row("cpu", 1.04), row("cpu, before", 1.0)]));
        assert!(!print(&[row("cpu", 1.06), row("cpu, before", 1.0)]));
        assert!(!print(&[row("cpu", 1.0)]), "nothing was compared");
    }

    #[test]
    fn each_subject_stands_before_its_earlier_self() {
        let names: Vec<&str> =
            with_earlier_build(&[&ALL[1]], Path::new("old")).iter().map(|subject| subject.name).collect();
        assert_eq!(names, ["cpu", "cpu, before"]);
    }
}
