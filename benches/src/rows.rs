//! The rows of a run: its measurements and missing subjects.

use serde::{Deserialize, Serialize};

use crate::subjects::{self, Phase};

/// The measurements of one subject on one workload and phase.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Measurement {
    /// The workload and its sizes: `rnn T=1000 B=1 H=32`.
    pub(crate) workload: String,
    pub(crate) subject: String,
    /// The phase: running a program (`forward`, `train`) or building it (`make`, `make-train`).
    pub(crate) phase: String,
    /// The wall time of the shortest run, in seconds.
    pub(crate) low_s: f64,
    pub(crate) median_s: f64,
    /// The median processor time of a run, summed over all threads, in seconds.
    pub(crate) cpu_s: f64,
    /// The interquartile range of the wall times, relative to the median, or `None` for a single run.
    pub(crate) spread: Option<f64>,
    /// The peak memory of a run, excluding the inputs and the program, as measured by the allocator if possible, and
    /// otherwise by the system. In the rows for building a program: as `system_bytes`.
    pub(crate) peak_bytes: Option<u64>,
    /// The peak memory of a run, excluding the inputs and the program, as measured by the system. In the rows for
    /// building a program: the peak memory of the process until the first run ended, without the pages of its program
    /// file.
    pub(crate) system_bytes: Option<u64>,
    /// The ratio of this subject's shortest run to that of the handwritten loop in the same library.
    pub(crate) ratio_to_hand_written: Option<f64>,
    /// The ratio of this subject's shortest run to JAX's shortest run.
    pub(crate) ratio_to_jax: Option<f64>,
    /// The number of runs.
    pub(crate) runs: usize,
    /// The subject with which the results were compared, or `None` for the subject that supplied the expected values.
    pub(crate) checked: Option<String>,
}

/// A subject that was not measured, and the reason.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct MissingSubject {
    pub(crate) workload: String,
    pub(crate) subject: String,
    pub(crate) phase: String,
    pub(crate) why: String,
    /// `true` if the subject is missing by design; `false` if it failed.
    pub(crate) is_declined: bool,
}

/// The wall times and processor times of one subject's runs, in seconds.
#[derive(Default)]
pub(crate) struct Samples {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Samples {
    pub(crate) fn add(&mut self, wall: Vec<f64>, cpu: Vec<f64>) {
        self.wall.extend(wall);
        self.cpu.extend(cpu);
    }

    pub(crate) fn count(&self) -> usize {
        self.wall.len()
    }

    /// Returns the total wall time of all runs, in seconds.
    pub(crate) fn total(&self) -> f64 {
        self.wall.iter().sum()
    }

    /// Returns the wall time of the shortest run, or `None` if the subject has not run.
    pub(crate) fn low(&self) -> Option<f64> {
        self.wall.iter().copied().reduce(f64::min)
    }
}

/// Returns the `part` quantile of the numbers, or NaN if there are no numbers. `part` is between 0 and 1.
fn quantile(numbers: &[f64], part: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}

impl Measurement {
    /// Creates the row for building a program and running it once.
    pub(crate) fn build_row(
        workload: &str,
        subject: &str,
        phase: Phase,
        (wall, cpu): (f64, f64),
        system_bytes: Option<u64>,
        checked: Option<&str>,
    ) -> Measurement {
        let phase = if phase == Phase::Forward { "make" } else { "make-train" };
        let samples = Samples { wall: vec![wall], cpu: vec![cpu] };
        Measurement {
            phase: phase.into(),
            ..Measurement::run_row(workload, subject, Phase::Forward, &samples, (None, system_bytes), checked)
        }
    }

    /// Creates the row for running a program.
    pub(crate) fn run_row(
        workload: &str,
        subject: &str,
        phase: Phase,
        samples: &Samples,
        (allocator_bytes, system_bytes): (Option<u64>, Option<u64>),
        checked: Option<&str>,
    ) -> Measurement {
        let median_s = quantile(&samples.wall, 0.5);
        let distance = quantile(&samples.wall, 0.75) - quantile(&samples.wall, 0.25);
        Measurement {
            workload: workload.to_string(),
            subject: subject.to_string(),
            phase: phase.name().to_string(),
            low_s: samples.low().unwrap_or(f64::NAN),
            median_s,
            cpu_s: quantile(&samples.cpu, 0.5),
            spread: (samples.count() > 1).then(|| distance / median_s),
            peak_bytes: allocator_bytes.or(system_bytes),
            system_bytes,
            ratio_to_hand_written: None,
            ratio_to_jax: None,
            runs: samples.count(),
            checked: checked.map(str::to_string),
        }
    }

    /// Returns `true` if this row and `other` have the same workload and phase.
    pub(crate) fn has_same_workload_and_phase(&self, other: &Measurement) -> bool {
        self.workload == other.workload && self.phase == other.phase
    }
}

/// Sets the ratios of each row: its time relative to the times of the handwritten loop and of JAX in the same run.
pub(crate) fn set_ratios(rows: &mut [Measurement]) {
    let all = rows.to_vec();
    for row in rows {
        let beside: Vec<&Measurement> = all.iter().filter(|other| other.has_same_workload_and_phase(row)).collect();
        let low_of = |subject: &str| beside.iter().find(|other| other.subject == subject).map(|other| other.low_s);
        let by_hand = subjects::Subject::named(&row.subject).ok().and_then(|subject| subject.instead_of);
        row.ratio_to_hand_written = by_hand.and_then(low_of).map(|by_hand| row.low_s / by_hand);
        row.ratio_to_jax = low_of("jax").map(|jax| row.low_s / jax);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, wall: &[f64]) -> Measurement {
        let samples = Samples { wall: wall.to_vec(), cpu: wall.to_vec() };
        Measurement::run_row("rnn T=1", subject, Phase::Forward, &samples, (Some(7), Some(9)), None)
    }

    #[test]
    fn low_median_and_spread_are_those_of_the_runs() {
        let row = row("jax", &[5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((row.low_s, row.median_s, row.spread), (1.0, 3.0, Some(2.0 / 3.0)));
        assert_eq!((row.peak_bytes, row.system_bytes, row.runs), (Some(7), Some(9), 5));
    }

    #[test]
    fn ratios_are_to_the_same_librarys_loop_by_hand_and_to_jax() {
        let mut rows = [row("candle-by-hand", &[4.0]), row("candle-native", &[2.0]), row("jax", &[1.0])];
        let mut other = row("jax", &[9.0]);
        other.workload = "rnn T=2".into();
        set_ratios(&mut rows);
        assert_eq!(rows[1].ratio_to_hand_written, Some(0.5));
        assert_eq!(rows[1].ratio_to_jax, Some(2.0));
        assert_eq!((rows[0].ratio_to_hand_written, rows[2].ratio_to_jax), (None, Some(1.0)));
        set_ratios(std::slice::from_mut(&mut other));
        assert_eq!(other.ratio_to_jax, Some(1.0));
    }
}
