//! Mutants for minutes, in child processes that are watched: one that ends, hangs or grows leaves the text that it was
//! looking at.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::Corpus;
use super::probe::{probe, set_up};

/// The longest that one text may take; its runs are stopped long before.
const HANG: Duration = Duration::from_secs(60);

/// The most memory that a child may have: the budget of a run, what is made for a while, and the process.
const GROWN: u64 = 1 << 30;

/// The stack on which texts are looked at, that of a thread of Rust.
const STACK: usize = 2 << 20;

/// What is run, and where.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Which mutants.
    pub seed: u64,
    /// How long.
    pub time: Duration,
    /// How many child processes.
    pub jobs: usize,
    /// Where texts that are wrong are saved.
    pub folder: PathBuf,
}

/// What came of a campaign.
#[derive(Default, Debug)]
pub struct Outcome {
    /// How many mutants came how far.
    pub reached: BTreeMap<String, usize>,
    /// The saved texts, and what is wrong with them.
    pub wrong: Vec<(PathBuf, String)>,
}

impl Outcome {
    /// How many mutants were looked at.
    pub fn mutants(&self) -> usize {
        self.reached.values().sum::<usize>() + self.wrong.len()
    }
}

/// The option that makes a process a child. Its values: the seed, the first number, how far apart its numbers are, which
/// child it is, the folder.
const CHILD: &str = "--child";

/// Looks at mutants if these are the arguments of a child, and does not return then. A program that runs campaigns calls it
/// first.
pub fn serve(arguments: &[String]) {
    let [option, seed, first, step, job, folder] = arguments else { return };
    if option != CHILD {
        return;
    }
    let number = |text: &String| text.parse::<u64>().expect("a child is given numbers");
    let (seed, first, step) = (number(seed), number(first), number(step).max(1));
    let (current, folder) = (current(folder.into(), job), PathBuf::from(folder));
    let look = move || -> Result<(), String> {
        let corpus = Corpus::load(&folder.join(CORPUS))?;
        set_up();
        let mut out = std::io::stdout();
        for index in (first..).step_by(step as usize) {
            let text = corpus.mutant(seed, index);
            std::fs::write(&current, &text).map_err(|error| error.to_string())?;
            let line = match probe(&text, index) {
                Ok(reached) => format!("{reached:?}"),
                Err(wrong) => {
                    let path = folder.join(format!("wrong-{seed}-{index}.fir"));
                    let reason: String = wrong.lines().map(|line| format!("// {line}\n")).collect();
                    std::fs::write(&path, reason + &text).map_err(|error| error.to_string())?;
                    format!("wrong {} {}", path.display(), wrong.lines().next().unwrap_or_default())
                }
            };
            writeln!(out, "{line}").map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    let ended = std::thread::Builder::new().stack_size(STACK).spawn(look).map(|thread| thread.join());
    if let Ok(Ok(Err(reason))) = ended {
        eprintln!("{reason}");
    }
    std::process::exit(1);
}

/// The texts that children mutate.
const CORPUS: &str = "corpus.json";

/// Where a child keeps the text that it looks at.
fn current(folder: PathBuf, job: &str) -> PathBuf {
    folder.join(format!("current-{job}.fir"))
}

/// Runs a campaign.
pub fn run_campaign(campaign: &Campaign) -> Result<Outcome, String> {
    std::fs::create_dir_all(&campaign.folder).map_err(|error| error.to_string())?;
    Corpus::new()?.save(&campaign.folder.join(CORPUS))?;
    let end = Instant::now() + campaign.time;
    let worker = |job| {
        let campaign = campaign.clone();
        std::thread::spawn(move || Worker { campaign, job, end, next: job as u64, outcome: Outcome::default() }.run())
    };
    let workers: Vec<_> = (0..campaign.jobs.max(1)).map(worker).collect();
    let mut all = Outcome::default();
    for worker in workers {
        let outcome = worker.join().map_err(|_| "a worker panicked".to_string())??;
        outcome.reached.into_iter().for_each(|(name, count)| *all.reached.entry(name).or_default() += count);
        all.wrong.extend(outcome.wrong);
    }
    Ok(all)
}

/// What watches one child after the other.
struct Worker {
    campaign: Campaign,
    job: usize,
    end: Instant,
    /// The mutant that the child is looking at.
    next: u64,
    outcome: Outcome,
}

impl Worker {
    fn run(mut self) -> Result<Outcome, String> {
        let current = current(self.campaign.folder.clone(), &self.job.to_string());
        while Instant::now() < self.end {
            let (mut child, lines) = self.start()?;
            let ended = self.watch(&mut child, &lines);
            // It may have ended by itself.
            let _ = child.kill();
            let status = child.wait().map_err(|error| error.to_string())?;
            if let Some(reason) = ended {
                let path = self.campaign.folder.join(format!("ended-{}-{}.fir", self.campaign.seed, self.next));
                std::fs::copy(&current, &path).map_err(|error| format!("{reason} ({status}): {error}"))?;
                self.outcome.wrong.push((path, format!("{reason} ({status})")));
                self.next += self.campaign.jobs as u64;
            }
        }
        let _ = std::fs::remove_file(current);
        Ok(self.outcome)
    }

    fn start(&self) -> Result<(Child, Receiver<String>), String> {
        let text = |error: std::io::Error| error.to_string();
        let Campaign { seed, jobs, folder, .. } = &self.campaign;
        let numbers = [*seed, self.next, *jobs as u64, self.job as u64].map(|number| number.to_string());
        let mut command = Command::new(std::env::current_exe().map_err(text)?);
        let mut child = command.arg(CHILD).args(numbers).arg(folder).stdout(Stdio::piped()).spawn().map_err(text)?;
        let out = child.stdout.take().ok_or("a child without output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok((child, lines))
    }

    /// Reads what a child says. Why it ended or must be ended, if not because the time is over.
    fn watch(&mut self, child: &mut Child, lines: &Receiver<String>) -> Option<String> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            match lines.recv_timeout(HANG.min(left)) {
                Ok(line) => {
                    let mut words = line.splitn(3, ' ');
                    match (words.next(), words.next(), words.next()) {
                        (Some("wrong"), Some(path), Some(reason)) => {
                            self.outcome.wrong.push((path.into(), reason.to_string()));
                        }
                        _ => *self.outcome.reached.entry(line).or_default() += 1,
                    }
                    self.next += self.campaign.jobs as u64;
                    if resident(child.id()).is_some_and(|bytes| bytes > GROWN) {
                        return Some(format!("the process has grown beyond {GROWN} bytes, at this text or before"));
                    }
                }
                Err(RecvTimeoutError::Timeout) if left < HANG => return None,
                Err(RecvTimeoutError::Timeout) => return Some(format!("it takes longer than {HANG:?}")),
                Err(RecvTimeoutError::Disconnected) => return Some("the process ended".into()),
            }
        }
    }
}

/// The memory that a process has, where the system tells.
fn resident(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
