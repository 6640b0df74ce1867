//! Lists the largest gaps between funcify's fastest variant in each library and the fastest subject, with reasons.
//!
//! The reasons are stored in `benches/reasons.toml`, and were found by profiling (`cargo xtask bench --profile`). A gap
//! without a reason is listed as not profiled yet.

use serde::Deserialize;

use super::tables::Table;
use super::{Run, digits, time};
use crate::rows::Measurement;
use crate::subjects::Subject;

/// The text above the table of gaps.
pub(super) const ABOUT: &str = "For each workload and phase, the larger gap between funcify's fastest variant in \
     Candle or in Burn's flex and the fastest subject, if the median of that subject is below funcify's fastest run. \
     Workloads that are not listed are the fastest, or as fast within the noise.";

/// The maximum number of listed gaps. For each workload, size and phase, only the larger of the two libraries' gaps is
/// listed.
const MAX_LISTED_GAPS: usize = 12;

/// The reason why funcify is slower on the workloads whose titles start with `workload`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    workload: String,
    /// `forward` or `train`. If absent, the reason applies to both.
    phase: Option<String>,
    /// `candle` or `burn-flex`. If absent, the reason applies to both.
    library: Option<String>,
    text: String,
}

#[derive(Deserialize)]
struct Reasons {
    reason: Vec<Reason>,
}

/// The measurements of funcify's fastest variant in a library and of the fastest subject.
struct Gap<'a> {
    library: &'static str,
    own: &'a Measurement,
    fastest: &'a Measurement,
}

impl Gap<'_> {
    fn ratio(&self) -> f64 {
        self.own.low_s / self.fastest.low_s
    }

    /// Returns `true` if the fastest subject's median time is below the minimum time of funcify's variant.
    fn is_clear(&self) -> bool {
        self.own.low_s > self.fastest.median_s
    }

    /// Returns the text of the first reason that applies to this gap, or `not profiled yet` if no reason applies.
    fn reason<'r>(&self, reasons: &'r [Reason]) -> &'r str {
        let is = |said: &Option<String>, own: &str| said.as_deref().is_none_or(|said| said == own);
        let about = |reason: &&Reason| {
            self.own.workload.starts_with(&reason.workload)
                && is(&reason.phase, &self.own.phase)
                && is(&reason.library, self.library)
        };
        reasons.iter().find(about).map_or("not profiled yet", |reason| &reason.text)
    }
}

/// Returns the gaps for which [`Gap::is_clear`] is `true`, sorted by descending ratio.
fn gaps(run: &Run) -> Vec<Gap<'_>> {
    let mut gaps = Vec::new();
    for workload in run.compared() {
        for phase in ["forward", "train"] {
            let rows = run.of(workload, phase);
            for library in ["candle", "burn-flex"] {
                let of = |row: &&&Measurement| {
                    Subject::named(&row.subject)
                        .is_ok_and(|subject| subject.is_funcify() && subject.name.starts_with(library))
                };
                if let (Some(own), Some(fastest)) = (rows.iter().find(of), rows.first()) {
                    gaps.extend(Some(Gap { library, own, fastest }).filter(Gap::is_clear));
                }
            }
        }
    }
    gaps.sort_by(|left, right| right.ratio().total_cmp(&left.ratio()));
    gaps
}

/// Tabulates the largest gaps, using only the larger of the two libraries' gaps for each workload and phase.
pub(super) fn table(run: &Run) -> Table {
    let reasons: Vec<Reason> = toml::from_str::<Reasons>(include_str!("../../reasons.toml"))
        .map_or_else(|_| Vec::new(), |reasons| reasons.reason);
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let largest = gaps(run).into_iter().filter(|gap| {
        let place = (gap.own.workload.as_str(), gap.own.phase.as_str());
        let is_first = !seen.contains(&place);
        seen.push(place);
        is_first
    });
    let rows = largest.take(MAX_LISTED_GAPS).map(|gap| {
        vec![
            format!("{}, {}", gap.own.workload, gap.own.phase),
            format!("{} ×", digits(gap.ratio())),
            format!("{} {}", gap.own.subject, time(gap.own.low_s)),
            format!("{} {}", gap.fastest.subject, time(gap.fastest.low_s)),
            gap.reason(&reasons).to_string(),
        ]
    });
    let head = ["", "gap", "funcify's fastest", "the fastest", "why"].map(str::to_string).to_vec();
    Table { head, rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_can_be_read() {
        let reasons: Reasons = toml::from_str(include_str!("../../reasons.toml")).unwrap();
        assert!(reasons.reason.iter().all(|reason| !reason.text.is_empty()));
    }
}
