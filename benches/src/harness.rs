//! Runs workloads: starts a worker for each subject, checks the results, and times the workers, which take turns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use funcify::HostTensor;
use funcify::files::{read_safetensors, write_safetensors};
use indicatif::{ProgressBar, ProgressStyle};

use crate::compare::{self, Values};
use crate::connection::Connection;
use crate::peers::Peers;
use crate::protocol::{Answer, Request};
use crate::rows::{Measurement, MissingSubject, Samples, set_ratios};
use crate::subjects::{Phase, Subject};
use crate::workloads::{Loss, Sizes, Workload};

/// The workloads and subjects of a run, and its time limits.
pub(crate) struct Schedule {
    pub(crate) items: Vec<(&'static Workload, Sizes)>,
    pub(crate) subjects: Vec<&'static Subject>,
    /// The maximum number of turns of each subject, per workload and phase.
    pub(crate) rounds: usize,
    /// The length of a turn. A fast program runs many times in one turn.
    pub(crate) turn: Duration,
    /// The total running time after which a subject gets no further turns.
    pub(crate) max_running_time: Duration,
    /// The maximum time for building a program and running it once.
    pub(crate) timeout: Duration,
    /// The folder for the input and result files.
    pub(crate) folder: PathBuf,
}

/// The measurements of a run.
#[derive(Clone, Default)]
pub(crate) struct Measured {
    pub(crate) rows: Vec<Measurement>,
    /// The subjects that were not measured, with the reasons.
    pub(crate) missing: Vec<MissingSubject>,
}

/// Runs all workloads, showing a progress bar. After each workload, calls `save` with the measurements so far, so that
/// they are not lost if the run is interrupted.
pub(crate) fn run(plan: &Schedule, peers: &Peers, save: impl Fn(&Measured) -> Result<()>) -> Result<Measured> {
    std::fs::create_dir_all(&plan.folder)?;
    let mut measured = Measured::default();
    let bar = ProgressBar::new((plan.items.len() * Phase::ALL.len()) as u64);
    bar.set_style(ProgressStyle::with_template("{bar:32} {pos}/{len} {msg} ({elapsed})")?);
    for (workload, sizes) in &plan.items {
        let inputs: BTreeMap<String, HostTensor> =
            workload.inputs(sizes).into_iter().map(|(name, tensor)| (name.to_string(), tensor)).collect();
        let path = plan.folder.join("inputs.safetensors");
        write_safetensors(&path, &inputs)?;
        for phase in Phase::ALL {
            bar.set_message(format!("{} {sizes}, {}", workload.name, phase.name()));
            if phase == Phase::Forward || workload.loss != Loss::None {
                let mut item = Item { plan, peers, workload, sizes: *sizes, phase, inputs: &path, bar: &bar };
                item.run(&mut measured)?;
            }
            bar.inc(1);
        }
        set_ratios(&mut measured.rows);
        save(&measured)?;
    }
    bar.finish_and_clear();
    Ok(measured)
}

/// One phase of one workload with given sizes.
struct Item<'a> {
    plan: &'a Schedule,
    peers: &'a Peers,
    workload: &'static Workload,
    sizes: Sizes,
    phase: Phase,
    inputs: &'a Path,
    bar: &'a ProgressBar,
}

/// A subject whose program has been built.
struct RunningSubject {
    subject: &'static Subject,
    connection: Connection,
    build_times: (f64, f64),
    /// The worker's peak memory when it had built the program and run it once.
    build_memory: Option<u64>,
    samples: Samples,
}

impl Item<'_> {
    /// Builds and checks the programs of all subjects, times them in turns, and measures the memory of each program.
    fn run(&mut self, measured: &mut Measured) -> Result<()> {
        let mut values = Values::default();
        let mut running = Vec::new();
        let title = format!("{} {}", self.workload.name, self.sizes);
        let is_growth = crate::workloads::has_sizes(&title, |workload| workload.growth);
        let takes_part = |subject: &&Subject| !is_growth || subject.is_in_plots();
        for subject in self.plan.subjects.iter().copied().filter(takes_part) {
            if let Some(why) = crate::subjects::declines(subject, self.workload, self.phase) {
                self.record_missing(measured, subject, &why, true);
                continue;
            }
            match self.make(subject, &mut values) {
                Ok(subject) => running.push(subject),
                Err(why) => self.record_missing(measured, subject, &why, false),
            }
        }
        let wrong = compare::subjects_with_wrong_values(&values);
        running.retain(|each| match wrong.get(each.subject.name) {
            None => true,
            Some(why) => {
                self.record_missing(measured, each.subject, why, false);
                false
            }
        });
        for _ in 0..self.plan.rounds {
            let mut remaining = Vec::with_capacity(running.len());
            for mut each in running {
                let is_enough = each.samples.total() > self.plan.max_running_time.as_secs_f64();
                match if is_enough { Ok(()) } else { self.run_turn(&mut each) } {
                    Ok(()) => remaining.push(each),
                    Err(error) => self.record_missing(measured, each.subject, &format!("{error:#}"), false),
                }
            }
            running = remaining;
        }
        for mut each in running {
            let bytes = match each.connection.ask(&Request::Peak, self.plan.timeout) {
                Ok(Answer::Memory { allocator_bytes, system_bytes }) => (allocator_bytes, system_bytes),
                _ => (None, None),
            };
            let checked = values.checked_against(each.subject.name);
            measured.rows.push(Measurement::build_row(
                &title,
                each.subject.name,
                self.phase,
                each.build_times,
                each.build_memory,
                checked,
            ));
            measured.rows.push(Measurement::run_row(
                &title,
                each.subject.name,
                self.phase,
                &each.samples,
                bytes,
                checked,
            ));
        }
        Ok(())
    }

    /// Starts a worker, has it build the subject's program and run it once, and adds the results to `values`. The error
    /// is the reason why the subject has no results.
    fn make(&self, subject: &'static Subject, values: &mut Values) -> Result<RunningSubject, String> {
        let (workload, sizes, phase) = (self.workload.name, &self.sizes, self.phase.name());
        self.bar.set_message(format!("{workload} {sizes}, {phase}: {} builds its program", subject.name));
        let command = self.peers.worker(subject)?;
        let mut connection = Connection::open(command).map_err(|error| format!("{error:#}"))?;
        let outputs = self.plan.folder.join("outputs.safetensors");
        let _ = std::fs::remove_file(&outputs);
        let request = Request::Prepare {
            workload: self.workload.name.to_string(),
            sizes: self.sizes.by_name().into_iter().map(|(name, size)| (name.to_string(), size)).collect(),
            phase: self.phase.name().to_string(),
            inputs: self.inputs.display().to_string(),
            outputs: outputs.display().to_string(),
        };
        let build_times = match connection.ask(&request, self.plan.timeout).map_err(|error| format!("{error:#}"))? {
            Answer::Made { make_s, make_cpu_s } => (make_s, make_cpu_s),
            Answer::Declined { declined } => return Err(declined),
            Answer::Failed { failed } => return Err(failed),
            other => return Err(format!("unexpected answer: {other:?}")),
        };
        let results = read_safetensors(&outputs).map_err(|error| error.to_string())?;
        values.add(subject.name, results);
        let build_memory = connection.peak_memory();
        Ok(RunningSubject { subject, connection, build_times, build_memory, samples: Samples::default() })
    }

    /// Runs a subject's program repeatedly for one turn, and records the times.
    fn run_turn(&self, each: &mut RunningSubject) -> Result<()> {
        let start = Instant::now();
        let mut count = 1;
        while start.elapsed() < self.plan.turn {
            match each.connection.ask(&Request::Run { count }, self.plan.timeout)? {
                Answer::Ran { wall_s, cpu_s } => each.samples.add(wall_s, cpu_s),
                other => anyhow::bail!("unexpected answer: {other:?}"),
            }
            // Run the program as many times as the rest of the turn allows, but at most twice as many times as it has
            // run so far.
            let left = self.plan.turn.saturating_sub(start.elapsed()).as_secs_f64();
            let low = each.samples.low().context("the program has not run")?.max(1e-7);
            count = ((left / low) as usize).clamp(1, 2 * each.samples.count());
        }
        Ok(())
    }

    fn record_missing(&self, measured: &mut Measured, subject: &Subject, why: &str, is_declined: bool) {
        let workload = format!("{} {}", self.workload.name, self.sizes);
        let why = why.lines().next().unwrap_or_default().to_string();
        let (subject, phase) = (subject.name.to_string(), self.phase.name().to_string());
        measured.missing.push(MissingSubject { workload, subject, phase, why, is_declined });
    }
}
