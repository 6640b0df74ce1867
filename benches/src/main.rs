//! Where each backend and strategy stands: `cargo xtask bench [--only ..] [--quick] [--json FILE] [--peers]`.
//!
//! [`workloads`] and [`subjects`] are data. Each subject runs in a process of its own ([`worker`]), and takes turns with the others
//! ([`harness`]), so that ratios within one run hold where times do not. Nothing is timed whose values were not checked
//! ([`compare`]). How long cancelled calls take is measured by another program, `funcify-cancel`: the allocator that counts bytes
//! here writes zeros over all memory that a loop asks for, in one go.

mod baseline;
mod before;
mod compare;
mod connection;
mod harness;
mod inputs;
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

use crate::harness::{Measured, Schedule};
use crate::peers::{Peers, root};
use crate::report::Run;
use crate::subjects::{Device, Kind, Subject};
use crate::workloads::{Sizes, Workload};

#[derive(Parser)]
#[command(
    name = "cargo xtask bench",
    about = "Time and memory of each backend and strategy, against loops by hand and other projects"
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Workloads with their sizes, `rnn T=1000 B=1 H=32`, and subjects whose name has this in it; may be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// Small sizes and short turns: some minutes.
    #[arg(long)]
    quick: bool,
    /// Beside the sizes of the tables those of the plots, at which time and memory grow.
    #[arg(long)]
    growth: bool,
    /// Also JAX, PyTorch, PyTensor and rlx. The first time this makes a Python environment and rlx's worker under
    /// `target/bench`, in minutes.
    #[arg(long)]
    peers: bool,
    /// How often each subject has its turn.
    #[arg(long)]
    rounds: Option<usize>,
    /// Nothing is compared: what one call of each of funcify's programs spends, by op.
    #[arg(long)]
    profile: bool,
    /// Only this: what a step of `Stepper` costs, beside one inside the scan, for layers of `funcify::nn`.
    #[arg(long)]
    steps: bool,
    /// Only this: how long it takes to plan programs of more and more ops. Fails if it grows faster than their number.
    #[arg(long)]
    planning: bool,
    /// Nothing is timed: whether all subjects compute the same. Fails if one of this project does not.
    #[arg(long)]
    values: bool,
    /// Keeps the rows of the last run beside those of this one, so that a long run can be made in parts. Ratios remain
    /// those within a part.
    #[arg(long)]
    add: bool,
    /// Writes the rows here too; they are in `target/bench/rows.json` in any case.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Compares ratios with those of `benches/baseline.json`, and fails if one is worse by more than its noise.
    #[arg(long)]
    check: bool,
    /// Keeps the ratios of this run as `benches/baseline.json`; with `--report` those of the last one.
    #[arg(long)]
    keep: bool,
    /// Only this: each of funcify's subjects beside the same as this earlier build of the program runs it, and their ratios. Fails
    /// if one is slower by more than 5 %. wgpu takes part where it is asked for.
    #[arg(long)]
    before: Option<PathBuf>,
    /// Makes the report, and the table of docs/benchmarks.md, from the rows of the last run again; nothing runs.
    #[arg(long)]
    report: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Serves the harness as one subject (`peers/PROTOCOL.md`).
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
            baseline::keep(&run, &root())?;
        }
        return report::page::write(&run, &root()).map(|()| true);
    }
    let plan = plan(arguments, &folder)?;
    if arguments.profile {
        return profile::print(&plan).map(|()| true);
    }
    if let Some(program) = &arguments.before {
        let own = plan.subjects.iter().copied().filter(|subject| subject.is_funcify()).collect::<Vec<_>>();
        let plan = Schedule { subjects: before::both(&own, program), ..plan };
        return harness::run(&plan, &Peers::none(), |_| Ok(())).map(|measured| before::print(&measured.rows));
    }
    let peers = if arguments.peers { Peers::make(&root()) } else { Peers::none() };
    let earlier = if arguments.add && rows.exists() { Some(Run::read(&rows)?) } else { None };
    let run_of = |measured: &Measured| {
        let Measured { rows, gone } = measured.clone();
        let mut run = Run { version: env!("CARGO_PKG_VERSION").into(), machine: report::machine(), rows, gone };
        if let Some(earlier) = &earlier {
            run.add(earlier.clone());
        }
        run
    };
    let keep = |measured: &Measured| if arguments.values { Ok(()) } else { run_of(measured).write(&rows) };
    let measured = harness::run(&plan, &peers, keep)?;
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
        baseline::keep(&run, &root())?;
    }
    if arguments.check { baseline::check(&run, &root()) } else { Ok(true) }
}

/// Says whose values were wrong, or not there though nothing declines them. Whether that is nobody of this project.
fn values_agree(measured: &Measured) -> bool {
    let is_own = |gone: &rows::Gone| Subject::named(&gone.subject).is_ok_and(|subject| !subject.is_peer());
    let failed: Vec<_> = measured.gone.iter().filter(|gone| is_own(gone) && !gone.is_declined).collect();
    for gone in &failed {
        println!("{}, {}, {}: {}", gone.workload, gone.phase, gone.subject, gone.why);
    }
    println!("{} programs gave the same values, {} did not", measured.rows.len() / 2, failed.len());
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
    let all =
        workloads::ALL.iter().flat_map(|workload| sizes_of(workload).into_iter().map(move |sizes| (workload, sizes)));
    let named = |name: &str| arguments.only.iter().any(|part| name.contains(part.as_str()));
    let is_named = |(workload, sizes): &(&Workload, Sizes)| named(&format!("{} {sizes}", workload.name));
    let subjects = || subjects::ALL.iter();
    let (of_workloads, of_subjects) =
        (all.clone().any(|item| is_named(&item)), subjects().any(|subject| named(subject.name)));
    let only = &arguments.only;
    ensure!(only.is_empty() || of_workloads || of_subjects, "no workload or subject has {only:?} in its name");
    let items = all.filter(|item| !of_workloads || is_named(item)).collect();
    // In software, wgpu takes most of the time of a run and tells little: a quick run and a comparison have it where it is asked for.
    let on_wgpu = |subject: &Subject| {
        matches!(
            subject.kind,
            Kind::Compiled(Device::Wgpu, _) | Kind::Plugin(Device::Wgpu) | Kind::ByHand(Device::Wgpu)
        )
    };
    let of_peers = subjects().any(|subject| subject.is_peer() && named(subject.name));
    let takes_part = |subject: &&Subject| match of_subjects {
        true => named(subject.name) || (arguments.peers && subject.is_peer() && !of_peers),
        false => {
            let is_short = arguments.quick || arguments.before.is_some();
            (arguments.peers || !subject.is_peer()) && !(is_short && on_wgpu(subject))
        }
    };
    let (rounds, turn, enough, patience) = if arguments.quick { (3, 50, 1, 30) } else { (5, 150, 2, 30) };
    Ok(Schedule {
        items,
        subjects: subjects().filter(takes_part).collect(),
        rounds: if arguments.values { 0 } else { arguments.rounds.unwrap_or(rounds) },
        turn: Duration::from_millis(turn),
        enough: Duration::from_secs(enough),
        patience: Duration::from_secs(patience),
        folder: folder.to_path_buf(),
    })
}
