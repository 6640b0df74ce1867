//! Checks the properties of random programs. Set `FUNCIFY_RANDOM_GRAPHS=100000` to check more programs,
//! `FUNCIFY_RANDOM_SEED=7` to check different ones, and `FUNCIFY_RANDOM_SAMPLED=1` to run the slowest checks only on a
//! sample of the programs.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use funcify_conformance::arbitrary::features::{self, Features};
use funcify_conformance::arbitrary::{Choices, Sample, TestProgram, is_ragged, shrink_tape};
use funcify_conformance::properties::{self, Disagreement, Tally};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number, found `{text}`")))
}

fn check(program: &TestProgram) -> Result<Tally, Disagreement> {
    let check = if setting("FUNCIFY_RANDOM_SAMPLED", 0) > 0 { properties::check_sampled } else { properties::check };
    let checked = catch_unwind(AssertUnwindSafe(|| check(program)));
    checked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(Disagreement { property: "panic", reason: text.unwrap_or_default() })
    })
}

/// Builds the program that the choices determine, and checks it.
fn outcome(choices: &mut Choices) -> (Option<Sample>, Result<Tally, Disagreement>) {
    match Sample::new(choices) {
        Ok(sample) => {
            let checked = check(&TestProgram::from(&sample));
            (Some(sample), checked)
        }
        Err(error) if is_ragged(&error) => (None, Ok(Tally::default())),
        Err(error) => (None, Err(Disagreement { property: "building", reason: error.to_string() })),
    }
}

/// Returns the path of the folder with programs that failed in the past.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found")
}

/// Shrinks a failing program. Returns its text, with instructions for keeping it as a test.
fn report(seed: u64, tape: Vec<u32>, property: &'static str) -> String {
    let fails = |tape: &[u32]| {
        let (_, checked) = outcome(&mut Choices::replayed(tape.to_vec()));
        checked.is_err_and(|disagreement| disagreement.property == property)
    };
    let tape = shrink_tape(tape, setting("FUNCIFY_RANDOM_SHRINK", 1500) as usize, fails);
    let (sample, checked) = outcome(&mut Choices::replayed(tape));
    let reason = checked.err().map(|disagreement| disagreement.reason).unwrap_or_default();
    let Some(sample) = sample else { return format!("seed {seed}: {property}: {reason}") };
    let text = TestProgram::from(&sample).text();
    let path = std::env::temp_dir().join(format!("funcify_{seed}.fir"));
    let written = std::fs::write(&path, &text);
    let keep = match written {
        Ok(()) => format!("cp {} {}/NAME.fir", path.display(), folder().display()),
        Err(error) => format!("write it to {}/NAME.fir ({error})", folder().display()),
    };
    format!("seed {seed}: {property}\n{reason}\nthe smallest such program:\n{text}\nto keep it as a test:\n{keep}")
}

/// A seed, the tape of its choices, and the property that its program violates.
type Wrong = (u64, Vec<u32>, Disagreement);

/// The results of checking some random programs.
#[derive(Default)]
struct Run {
    programs: usize,
    ragged: usize,
    reached: Features,
    tally: Tally,
    wrong: Vec<Wrong>,
}

impl Run {
    fn add(&mut self, seed: u64) {
        let mut choices = Choices::seeded(seed);
        let (sample, checked) = outcome(&mut choices);
        match &sample {
            Some(sample) => {
                self.programs += 1;
                features::count(&sample.graph, &mut self.reached);
                sample.parts.iter().for_each(|(part, count)| *self.reached.entry(part).or_default() += count);
            }
            None => self.ragged += usize::from(checked.is_ok()),
        }
        match checked {
            Ok(tally) => self.tally.add(&tally),
            Err(disagreement) => self.wrong.push((seed, choices.tape().to_vec(), disagreement)),
        }
    }

    fn merge(mut self, other: Run) -> Run {
        self.programs += other.programs;
        self.ragged += other.ragged;
        other.reached.iter().for_each(|(feature, count)| *self.reached.entry(feature).or_default() += count);
        self.tally.add(&other.tally);
        self.wrong.extend(other.wrong);
        self
    }

    /// Describes each property that is violated, with the smallest program that violates it.
    fn report(&self) -> String {
        let mut by_property: BTreeMap<&str, Vec<&Wrong>> = BTreeMap::new();
        for wrong in &self.wrong {
            by_property.entry(wrong.2.property).or_default().push(wrong);
        }
        let mut text = String::new();
        for wrong in by_property.values_mut() {
            wrong.sort_by_key(|(seed, tape, _)| (tape.len(), *seed));
            let (seed, tape, disagreement) = wrong[0];
            let seeds: Vec<u64> = wrong.iter().map(|(seed, ..)| *seed).take(20).collect();
            text += &report(*seed, tape.clone(), disagreement.property);
            text += &format!("\n{} programs fail in this way: seeds {seeds:?}\n\n", wrong.len());
        }
        text
    }
}

/// Checks the programs of these seeds. Panics are not printed, because the report includes their messages.
fn run(seeds: std::ops::Range<u64>) -> Run {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let next = AtomicU64::new(seeds.start);
    let thread = || {
        let mut run = Run::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return run;
            }
            run.add(seed);
        }
    };
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    let run = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold(Run::default(), Run::merge)
    });
    std::panic::set_hook(hook);
    run
}

/// The minimum number of programs with each feature, for the default seeds. Features that are not listed must occur in
/// at least 10 programs.
const REACHED: [(&str, usize); 33] = [
    ("custom_vjp that is not linear", 4),
    ("custom_vjp that is no derivative", 4),
    ("custom_vjp that calls itself and is no derivative", 2),
    ("custom_jvp that is no derivative", 2),
    ("narrow_float", 4),
    ("scan", 1000),
    ("while", 200),
    ("switch", 250),
    ("associative_scan", 200),
    ("sit-sot", 250),
    ("mit-sot", 500),
    ("mit-mot", 300),
    ("overwritten rows", 150),
    ("several writes", 150),
    ("several taps of a buffer", 400),
    ("several taps of a sequence", 250),
    ("a row of a sequence read twice", 100),
    ("while_to_its_bound", 20),
    ("downward until", 60),
    ("downward until with a full buffer", 20),
    ("last rows", 150),
    ("downward", 250),
    ("downward with given rows", 60),
    ("until", 200),
    ("until of a computed number of steps", 20),
    ("computed number of steps", 150),
    ("symbolic number of steps", 250),
    ("body in a body", 500),
    ("body in a body in a body", 100),
    ("integer carry", 250),
    ("boolean carry", 50),
    ("no steps", 40),
    ("one step", 60),
];

#[test]
fn random_programs_have_all_properties() {
    let (count, first) = (setting("FUNCIFY_RANDOM_GRAPHS", 2000), setting("FUNCIFY_RANDOM_SEED", 1));
    let run = run(first..first + count);
    println!("{} programs, {} rejected as ragged\n{:?}\n{:?}", run.programs, run.ragged, run.tally.0, run.reached);
    assert!(run.wrong.is_empty(), "{}", run.report());
    if count < 2000 || setting("FUNCIFY_RANDOM_SAMPLED", 0) > 0 {
        return;
    }
    let expected = |feature: &str| REACHED.iter().find(|(name, _)| *name == feature).map_or(10, |(_, count)| *count);
    let named = REACHED.iter().map(|(name, _)| *name).filter(|name| !run.reached.contains_key(name));
    let rare = run.reached.iter().filter(|(feature, count)| **count < expected(feature)).map(|(feature, _)| *feature);
    let rare: Vec<&str> = named.chain(rare).collect();
    assert!(rare.is_empty(), "too rare: {rare:?}");
    let compared = |property: &str| run.tally.0.get(property).copied().unwrap_or(0);
    assert!(run.programs * 100 >= count as usize * 98, "{} programs", run.programs);
    // These minimum shares are lower, because programs whose custom rules do not compute true derivatives are not
    // compared with finite differences.
    let shares = [("differences", 6), ("differences of derivative", 6)];
    let mostly = ["vjp", "vjp of derivative", "native", "lanes"].map(|property| (property, 8));
    for (property, tenths) in mostly.into_iter().chain(shares) {
        let count = compared(property);
        assert!(count * 10 >= run.programs * tenths, "{property}: {count} of {}", run.programs);
    }
    for property in ["policies", "gradient of lanes", "lanes of the gradient", "unrolled", "third differences"] {
        assert!(compared(property) * 20 >= run.programs, "{property}: {} of {}", compared(property), run.programs);
    }
    for reason in ["kinks", "not finite", "lanes not finite"] {
        assert!(compared(reason) * 50 <= run.programs, "{reason}: {} of {}", compared(reason), run.programs);
    }
}

/// Programs that failed in the past must satisfy all properties.
#[test]
fn programs_that_were_wrong_have_all_properties() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let program = TestProgram::parse(&std::fs::read_to_string(&path).unwrap());
        let program = program.unwrap_or_else(|reason| panic!("{}: {reason}", path.display()));
        let checked = check(&program);
        checked.unwrap_or_else(|wrong| panic!("{}: {}: {}", path.display(), wrong.property, wrong.reason));
        count += 1;
    }
    assert!(count >= 2, "{count} files");
}
