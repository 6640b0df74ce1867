//! Generates many programs from seeds, and checks them on several subjects in parallel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::check::{Fault, Outcome, Stage, Subject, check, panic_message};
use super::*;
use crate::arbitrary::shrink_tape;

/// The settings of a campaign, which checks many programs.
pub struct Campaign {
    /// The first seed. Each seed determines one program, so a campaign can continue where an earlier one stopped.
    pub seed: u64,
    /// The number of programs.
    pub count: u64,
    /// The number of threads.
    pub jobs: usize,
    /// The maximum number of smaller programs to try while shrinking a program with wrong results.
    pub shrink: usize,
    /// The index of the family to draw from, or `None` for all families.
    pub family: Option<usize>,
    /// The folder for programs with wrong results. Each program is written as text, together with its inputs. If
    /// `None`, no files are written.
    pub folder: Option<PathBuf>,
    /// A function that returns the transformations applied to the current thread's plans since the previous call. If
    /// `None`, [`Summary::fired`] stays empty.
    pub take_fired: Option<fn() -> Vec<&'static str>>,
}

/// The combined results of checking a family's programs.
#[derive(Default, Debug)]
pub struct Summary {
    /// The number of programs that were built.
    pub programs: usize,
    /// The number of seeds whose choices did not yield a valid program.
    pub refused: usize,
    /// The number of runs whose results were compared.
    pub runs: usize,
    /// The number of compared runs in which a loop was compiled.
    pub compiled: usize,
    /// The number of skipped comparisons, by reason.
    pub skipped: BTreeMap<&'static str, usize>,
    /// The number of loops that were not compiled, by reason.
    pub declined: BTreeMap<String, usize>,
    /// The number of programs in which each transformation was applied.
    pub fired: BTreeMap<&'static str, usize>,
    /// The programs with wrong results, unexpected errors or panics.
    pub wrong: Vec<Wrong>,
    /// The number of programs with differences that may be due to rounding alone.
    pub explained_by_rounding: usize,
}

impl Summary {
    /// Adds another summary to this one.
    pub fn add(&mut self, other: Summary) {
        self.programs += other.programs;
        self.refused += other.refused;
        self.runs += other.runs;
        self.compiled += other.compiled;
        self.explained_by_rounding += other.explained_by_rounding;
        other.fired.into_iter().for_each(|(name, count)| *self.fired.entry(name).or_default() += count);
        other.skipped.into_iter().for_each(|(why, count)| *self.skipped.entry(why).or_default() += count);
        other.declined.into_iter().for_each(|(why, count)| *self.declined.entry(why).or_default() += count);
        self.wrong.extend(other.wrong);
    }
}

/// A program with wrong results, an unexpected error or a panic.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The program's seed.
    pub seed: u64,
    /// The subjects that failed, each with the stage at which it failed.
    pub by: Vec<String>,
    /// The first fault of the shrunk program.
    pub fault: Fault,
}

/// Runs a campaign. Returns a summary for each family, keyed by the family's name.
pub fn run_campaign(campaign: &Campaign, subjects: &[Subject]) -> BTreeMap<&'static str, Summary> {
    let next = AtomicU64::new(campaign.seed);
    let all: Mutex<BTreeMap<&'static str, Summary>> = Mutex::default();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..campaign.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= campaign.seed + campaign.count {
                        return;
                    }
                    run_seed(campaign, subjects, seed, &all);
                }
            });
        }
    });
    std::panic::set_hook(hook);
    all.into_inner().expect("no thread of the campaign panics")
}

fn run_seed(campaign: &Campaign, subjects: &[Subject], seed: u64, all: &Mutex<BTreeMap<&'static str, Summary>>) {
    let family = campaign.family.unwrap_or((splitmix64(seed) % FAMILIES.len() as u64) as usize);
    let mut choices = Choices::seeded(splitmix64(seed ^ 0x7e3a));
    let program = catch_unwind(AssertUnwindSafe(|| TemplateProgram::new(family, &mut choices)));
    let outcome = match &program {
        Ok(program) => program.as_ref().ok().map(|program| check(program, subjects, seed)),
        Err(panic) => {
            Some(Outcome { faults: vec![construction_panic(&panic_message(&**panic))], ..Outcome::default() })
        }
    };
    let fired = campaign.take_fired.map_or_else(Vec::new, |take_fired| take_fired());
    let wrong = outcome.as_ref().filter(|outcome| !outcome.faults.is_empty()).map(|outcome| {
        let by = outcome.faults.iter().map(|fault| format!("{}: {}", fault.subject, fault.stage.name())).collect();
        let fault = match &program {
            Ok(_) => shrink_program(campaign, subjects, (family, seed), choices.tape().to_vec(), &outcome.faults[0]),
            Err(_) => outcome.faults[0].clone(),
        };
        Wrong { seed, by, fault }
    });
    let explained_by_rounding = outcome.as_ref().and_then(|outcome| outcome.explained_by_rounding.first()).cloned();
    if let Some(folder) = &campaign.folder {
        wrong.iter().for_each(|wrong| write(folder, FAMILIES[family].0, wrong));
        if let Some(fault) = &explained_by_rounding {
            let wrong = Wrong { seed, by: vec!["perhaps by rounding".into()], fault: fault.clone() };
            write(&folder.join("unsteady"), FAMILIES[family].0, &wrong);
        }
    }
    let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let summary = all.entry(FAMILIES[family].0).or_default();
    match outcome {
        None => summary.refused += 1,
        Some(Outcome { runs, compiled, skipped, declined, .. }) => {
            summary.explained_by_rounding += usize::from(explained_by_rounding.is_some());
            summary.programs += 1;
            fired.into_iter().for_each(|name| *summary.fired.entry(name).or_default() += 1);
            summary.runs += runs;
            summary.compiled += compiled;
            skipped.into_iter().for_each(|(why, count)| *summary.skipped.entry(why).or_default() += count);
            declined.into_iter().for_each(|(why, count)| *summary.declined.entry(why).or_default() += count);
            summary.wrong.extend(wrong);
        }
    }
}

/// Returns a fault for a program whose construction panicked.
fn construction_panic(reason: &str) -> Fault {
    let graph = Graph::build("not_made", |builder| builder.input("x", "f32[]")).expect("the graph is valid");
    let reason = format!("panic while the program was built: {reason}");
    Fault { stage: Stage::Forward, subject: "generator".into(), reason, graph, inputs: BTreeMap::new() }
}

/// Shrinks a program. Returns the fault of the smallest program found that still fails in the same way on the same
/// subject.
fn shrink_program(
    campaign: &Campaign,
    subjects: &[Subject],
    (family, seed): (usize, u64),
    tape: Vec<u32>,
    fault: &Fault,
) -> Fault {
    let name = |fault: &Fault| fault.subject.split(',').next().expect("`split` returns at least one part").to_string();
    let only: Vec<Subject> = subjects.iter().filter(|subject| subject.name == name(fault)).cloned().collect();
    let same = |tape: &[u32]| {
        let program = TemplateProgram::new(family, &mut Choices::replayed(tape.to_vec())).ok()?;
        let found = check(&program, &only, seed).faults.into_iter().next()?;
        (found.reason.starts_with("panic") == fault.reason.starts_with("panic")
            && found.reason.starts_with("error") == fault.reason.starts_with("error"))
        .then_some(found)
    };
    let tape = shrink_tape(tape, campaign.shrink, |tape| same(tape).is_some());
    same(&tape).unwrap_or_else(|| fault.clone())
}

/// Writes a program and its inputs to the folder. Prints an error if the files cannot be written.
fn write(folder: &std::path::Path, family: &str, wrong: &Wrong) {
    let Wrong { seed, by, fault } = wrong;
    let name = format!("{}_{seed}", family.replace(' ', "-"));
    let lines = |text: &str| text.lines().map(|line| format!("// {line}\n")).collect::<String>();
    let header = format!(
        "{family}, seed {seed}\n{}\n{}: {}\n{}",
        by.join("; "),
        fault.subject,
        fault.stage.name(),
        fault.reason
    );
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join(format!("{name}.fir")), format!("{}{}", lines(&header), fault.graph)))
        .map_err(|error| error.to_string())
        .and_then(|()| {
            funcify::files::write_safetensors(folder.join(format!("{name}.safetensors")), &fault.inputs)
                .map_err(|error| error.to_string())
        });
    if let Err(reason) = written {
        eprintln!("{}: {reason}", folder.display());
    }
}
