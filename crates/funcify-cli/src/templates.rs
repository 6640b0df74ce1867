//! `funcify templates`: runs random programs, built from the planner's patterns, on every backend that compiles loops,
//! and compares the results with those of the reference evaluator. Each seed determines one program, so a later run can
//! continue with the next seed.

use funcify_conformance::templates::{Campaign, Subject, Summary, families, run_campaign};

use super::*;

/// The number of programs between progress lines.
const PROGRAMS_PER_BATCH: u64 = 1000;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The number of programs to run.
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// The seed of the first program. Each following program uses the next seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only these backends (comma-separated): reference, cpu, cpu-parts, cpu-machine-code, candle, burn-flex,
    /// burn-ndarray.
    #[arg(long, value_delimiter = ',')]
    backend: Vec<String>,
    /// Draw programs from this family only.
    #[arg(long)]
    family: Option<String>,
    /// The number of worker threads.
    #[arg(long)]
    jobs: Option<usize>,
    /// The maximum number of runs spent on shrinking a failing program.
    #[arg(long, default_value_t = 400)]
    shrink: usize,
    /// The folder for failing programs and their inputs.
    #[arg(long, default_value = "target/templates")]
    folder: PathBuf,
}

/// Runs the programs. Returns `true` if all results were correct.
pub(crate) fn run(arguments: &Arguments) -> Result<bool> {
    let subjects = subjects(&arguments.backend)?;
    let family = match &arguments.family {
        None => None,
        Some(name) => Some(families().position(|family| family == name).ok_or_else(|| {
            let names: Vec<&str> = families().collect();
            anyhow!("no family `{name}`; the families are {}", names.join(", "))
        })?),
    };
    let threads = || std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let mut all: BTreeMap<&'static str, Summary> = BTreeMap::new();
    let end = arguments.seed.saturating_add(arguments.count);
    let mut seed = arguments.seed;
    while seed < end {
        let campaign = Campaign {
            seed,
            count: PROGRAMS_PER_BATCH.min(end - seed),
            jobs: arguments.jobs.unwrap_or_else(threads),
            shrink: arguments.shrink,
            family,
            folder: Some(arguments.folder.clone()),
            #[cfg(feature = "cpu")]
            take_fired: Some(funcify_cpu::take_fired),
            #[cfg(not(feature = "cpu"))]
            take_fired: None,
        };
        seed += campaign.count;
        for (family, summary) in run_campaign(&campaign, &subjects) {
            for wrong in &summary.wrong {
                let reason = wrong.fault.reason.lines().next().unwrap_or("no reason");
                println!("wrong: {family}, seed {}: {}: {reason}", wrong.seed, wrong.by.join("; "));
            }
            all.entry(family).or_default().add(summary);
        }
        let wrong: usize = all.values().map(|summary| summary.wrong.len()).sum();
        println!("{} programs, {wrong} wrong; continue with --seed {seed}", seed - arguments.seed);
    }
    print_table(&all);
    #[cfg(feature = "cpu")]
    print_transformations(&all);
    Ok(all.values().all(|summary| summary.wrong.is_empty()) && !all.is_empty())
}

fn print_table(all: &BTreeMap<&'static str, Summary>) {
    println!(
        "\n{:<26}{:>9}{:>9}{:>9}{:>9}{:>9}{:>7}",
        "family", "programs", "refused", "runs", "compiled", "unsteady", "wrong"
    );
    let (mut declined, mut skipped) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    for (family, summary) in all {
        let Summary { programs, refused, runs, compiled, explained_by_rounding, wrong, .. } = summary;
        println!(
            "{family:<26}{programs:>9}{refused:>9}{runs:>9}{compiled:>9}{explained_by_rounding:>9}{:>7}",
            wrong.len()
        );
        summary.declined.iter().for_each(|(why, count)| *declined.entry(why).or_default() += count);
        summary.skipped.iter().for_each(|(why, count)| *skipped.entry(why).or_default() += count);
    }
    for (title, reasons) in [("not compiled", declined), ("not compared", skipped)] {
        let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        println!("\n{title}:");
        reasons.iter().take(20).for_each(|(why, count)| println!("{count:>9} {why}"));
    }
}

/// Prints the number of programs to which each transformation of the planner was applied.
#[cfg(feature = "cpu")]
fn print_transformations(all: &BTreeMap<&'static str, Summary>) {
    println!("\ntook effect:");
    for name in funcify_cpu::TRANSFORMATIONS {
        let programs: usize = all.values().filter_map(|summary| summary.fired.get(name)).sum();
        println!("{programs:>9} {name}");
    }
}

/// Returns the subjects of the backends in `named`, or all subjects if `named` is empty: the reference backend with
/// native and with unrolled loops, and each backend that compiles loops.
fn subjects(named: &[String]) -> Result<Vec<Subject>> {
    let mut all = Vec::new();
    for (name, strategy) in [("reference", LoopStrategy::Native), ("reference unrolled", LoopStrategy::Unroll)] {
        all.push(("reference", Subject::new(name, open_backend("reference")?, strategy)));
    }
    #[cfg(feature = "cpu")]
    for (name, cpu) in [("cpu", funcify_cpu::Cpu::default()), ("cpu-parts", funcify_cpu::Cpu::dividing_all())] {
        all.push((name, Subject::new(name, std::sync::Arc::new(cpu), LoopStrategy::Compiled)));
    }
    #[cfg(feature = "jit")]
    all.push((
        "cpu-machine-code",
        Subject::new(
            "cpu-machine-code",
            std::sync::Arc::new(funcify_cpu::Cpu::translating_all()),
            LoopStrategy::Compiled,
        ),
    ));
    for name in ["candle", "burn-flex", "burn-ndarray"] {
        if let Ok(executor) = open_backend(name) {
            all.push((name, Subject::new(name, executor, LoopStrategy::Compiled)));
        }
    }
    if let Some(name) = named.iter().find(|name| all.iter().all(|(other, _)| other != name)) {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        return Err(anyhow!("no backend `{name}` that compiles loops; the backends are {}", names.join(", ")));
    }
    let chosen = all.into_iter().filter(|(name, _)| named.is_empty() || named.iter().any(|other| other == name));
    Ok(chosen.map(|(_, subject)| subject).collect())
}
