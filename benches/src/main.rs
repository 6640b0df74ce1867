//! Benchmarks each backend and strategy: `cargo xtask bench [--only ..] [--quick] [--json FILE] [--peers]`.
//!
//! [`workloads`] lists the programs, and [`subjects`] lists the frameworks and variants that run them. Each subject
//! runs in its own process ([`worker`]), and the subjects take turns ([`harness`]), so ratios within one run are
//! reliable even if absolute times are not. Only programs with correct results are timed ([`compare`]). A separate
//! program, `funcify-cancel`, measures cancellation, because the counting allocator of this program zeroes all of a
//! loop's memory at once, and the zeroing cannot be cancelled.

mod baseline;
mod before;
mod compare;
mod connection;
mod generality;
mod harness;
mod inputs;
mod kinds;
mod memory;
mod peers;
mod planning;
mod profile;
mod protocol;
mod report;
mod rows;
mod steps;
mod subjects;
mod worker;
mod workloads;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

use crate::generality::Half;
use crate::harness::{Measured, Schedule};
use crate::peers::{Peers, root};
use crate::report::Run;
use crate::subjects::{Device, Kind, Subject};
use crate::workloads::{Sizes, Workload};

#[derive(Parser)]
#[command(
    name = "cargo xtask bench",
    about = "Measures each backend and strategy against handwritten loops and other projects"
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Run only workloads and subjects whose names contain this text. The name of a workload includes its sizes, as in
    /// `rnn T=1000 B=1 H=32`. May be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Use small sizes and short turns. Takes a few minutes.
    #[arg(long)]
    quick: bool,
    /// Only compare the CPU engine with JAX on programs of many kinds: the open half, whose times the developers of the
    /// engine may see (`open`), the held-out half (`aside`), or both (`all`). The first run builds a Python environment
    /// under `target/bench`.
    #[arg(long, value_name = "HALF", num_args = 0..=1, default_missing_value = "all")]
    generality: Option<Half>,
    /// Also run the sizes for the plots of time and memory growth.
    #[arg(long)]
    growth: bool,
    /// Also run JAX, PyTorch, PyTensor and rlx. The first run builds a Python environment and the rlx worker under
    /// `target/bench`, which takes several minutes.
    #[arg(long)]
    peers: bool,
    /// The number of turns of each subject.
    #[arg(long)]
    rounds: Option<usize>,
    /// Only profile one call to each of funcify's programs, and print the profiles by op.
    #[arg(long)]
    profile: bool,
    /// Only compare the time of a step in `Stepper` with that of a step inside the scan, for layers of `funcify::nn`.
    #[arg(long)]
    steps: bool,
    /// Only measure how planning time grows with the size of programs. Fails if planning time grows clearly faster than
    /// the number of ops.
    #[arg(long)]
    planning: bool,
    /// Only check that all subjects compute the same values. Fails if one of this project's subjects does not.
    #[arg(long)]
    values: bool,
    /// Add the new rows to those of the last run, so that a long run can be split into parts. Ratios are computed
    /// within each part.
    #[arg(long)]
    add: bool,
    /// Write the rows to this file as well as to `target/bench/rows.json`.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Compare the ratios with those in `benches/baseline.json`. Fails if a ratio is worse by more than its noise.
    #[arg(long)]
    check: bool,
    /// Save the ratios of this run (with `--report`, of the last run) as `benches/baseline.json`.
    #[arg(long)]
    keep: bool,
    /// Only compare each of funcify's subjects with the same subject in this earlier build of the program. Fails if a
    /// subject is slower by more than 5 %. Skips wgpu unless it is requested.
    #[arg(long)]
    before: Option<PathBuf>,
    /// Only write the report and the table of docs/benchmarks.md from the rows of the last run.
    #[arg(long)]
    report: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Run as the worker process of one subject (`peers/PROTOCOL.md`).
    #[command(hide = true)]
    Worker { subject: String },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Some(Command::Worker { subject }) => Subject::named(subject).and_then(worker::serve).map(|()| true),
        None => bench(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments) -> Result<bool> {
    if arguments.steps {
        return steps::print(arguments.quick).map(|()| true);
    }
    if arguments.planning {
        return planning::print(arguments.quick, &arguments.only);
    }
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    let rows = folder.join("rows.json");
    if arguments.report {
        let run = Run::read(&rows)?;
        report::write(&run, &folder)?;
        if arguments.keep {
            baseline::save(&run, &root())?;
        }
        return report::page::write(&run, &root()).map(|()| true);
    }
    let plan = plan(arguments, &folder)?;
    if arguments.profile {
        return profile::print(&plan).map(|()| true);
    }
    if let Some(program) = &arguments.before {
        let own = plan.subjects.iter().copied().filter(|subject| subject.is_funcify()).collect::<Vec<_>>();
        let plan = Schedule { subjects: before::with_earlier_build(&own, program), ..plan };
        return harness::run(&plan, &Peers::none(), |_| Ok(())).map(|measured| before::print(&measured.rows));
    }
    if arguments.generality.is_some() && !arguments.values {
        let measured = harness::run(&plan, &Peers::with_python(&root()), |_| Ok(()))?;
        kinds::print(&measured);
        return Ok(!measured.rows.is_empty());
    }
    let with_peers = arguments.peers || arguments.generality.is_some();
    let peers = if with_peers { Peers::make(&root()) } else { Peers::none() };
    let earlier = if arguments.add && rows.exists() { Some(Run::read(&rows)?) } else { None };
    let run_of = |measured: &Measured| {
        let Measured { rows, missing } = measured.clone();
        let mut run = Run { version: env!("CARGO_PKG_VERSION").into(), machine: report::machine(), rows, missing };
        if let Some(earlier) = &earlier {
            run.add(earlier.clone());
        }
        run
    };
    let save = |measured: &Measured| if arguments.values { Ok(()) } else { run_of(measured).write(&rows) };
    let measured = harness::run(&plan, &peers, save)?;
    if arguments.values {
        return Ok(values_agree(&measured));
    }
    let run = run_of(&measured);
    if let Some(path) = &arguments.json {
        run.write(path)?;
    }
    let written = report::write(&run, &folder)?;
    println!("{written}");
    if arguments.keep {
        baseline::save(&run, &root())?;
    }
    if arguments.check { baseline::check(&run, &root()) } else { Ok(true) }
}

/// Prints this project's subjects that failed or have wrong results. Returns `true` if there are none and at least one
/// program was run.
fn values_agree(measured: &Measured) -> bool {
    let is_own =
        |missing: &rows::MissingSubject| Subject::named(&missing.subject).is_ok_and(|subject| !subject.is_peer());
    let failed: Vec<_> = measured.missing.iter().filter(|missing| is_own(missing) && !missing.is_declined).collect();
    for missing in &failed {
        println!("{}, {}, {}: {}", missing.workload, missing.phase, missing.subject, missing.why);
    }
    println!("{} programs computed the same values, {} did not", measured.rows.len() / 2, failed.len());
    failed.is_empty() && !measured.rows.is_empty()
}

fn plan(arguments: &Arguments, folder: &Path) -> Result<Schedule> {
    let sizes_of = |workload: &'static Workload| -> Vec<Sizes> {
        match (arguments.quick, arguments.growth) {
            (true, _) => workload.quick.to_vec(),
            (false, false) => workload.full.to_vec(),
            (false, true) => workload.full.iter().chain(workload.growth).copied().collect(),
        }
    };
    let workloads: Vec<&'static Workload> = match arguments.generality {
        Some(half) => generality::all().filter(|workload| half.contains(workload)).collect(),
        None => workloads::ALL.iter().collect(),
    };
    let all = workloads.iter().flat_map(|workload| sizes_of(workload).into_iter().map(move |sizes| (*workload, sizes)));
    let named = |name: &str| arguments.only.iter().any(|part| name.contains(part.as_str()));
    let is_named = |(workload, sizes): &(&Workload, Sizes)| named(&format!("{} {sizes}", workload.name));
    let subjects = || subjects::ALL.iter();
    let (of_workloads, of_subjects) =
        (all.clone().any(|item| is_named(&item)), subjects().any(|subject| named(subject.name)));
    let only = &arguments.only;
    ensure!(only.is_empty() || of_workloads || of_subjects, "no workload or subject has {only:?} in its name");
    let items = all.filter(|item| !of_workloads || is_named(item)).collect();
    // On a software device, wgpu takes up most of the time of a run, and its results are not informative. Quick runs
    // and comparisons skip it unless it is requested.
    let on_wgpu = |subject: &Subject| {
        matches!(
            subject.kind,
            Kind::Compiled(Device::Wgpu, _) | Kind::Plugin(Device::Wgpu) | Kind::Handwritten(Device::Wgpu)
        )
    };
    let of_peers = subjects().any(|subject| subject.is_peer() && named(subject.name));
    let takes_part = |subject: &&Subject| match of_subjects {
        _ if arguments.generality.is_some() => ["cpu", "jax"].contains(&subject.name),
        true => named(subject.name) || (arguments.peers && subject.is_peer() && !of_peers),
        false => {
            let is_short = arguments.quick || arguments.before.is_some();
            (arguments.peers || !subject.is_peer()) && !(is_short && on_wgpu(subject))
        }
    };
    let (rounds, turn, max_running_time, timeout) = if arguments.quick { (3, 50, 1, 30) } else { (5, 150, 2, 30) };
    Ok(Schedule {
        items,
        subjects: subjects().filter(takes_part).collect(),
        rounds: if arguments.values { 0 } else { arguments.rounds.unwrap_or(rounds) },
        turn: Duration::from_millis(turn),
        max_running_time: Duration::from_secs(max_running_time),
        timeout: Duration::from_secs(timeout),
        folder: folder.to_path_buf(),
    })
}
