//! Properties of random programs. `FUNCIFY_RANDOM_GRAPHS=100000` runs more, `FUNCIFY_RANDOM_SEED=7` others.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use funcify_conformance::arbitrary::{Choices, Kept, Sample, is_ragged, smallest};
use funcify_conformance::properties::{self, Disagreement, Tally};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

fn check(kept: &Kept) -> Result<Tally, Disagreement> {
    let checked = catch_unwind(AssertUnwindSafe(|| properties::check(kept)));
    checked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(Disagreement { property: "panic", reason: text.unwrap_or_default() })
    })
}

/// What a tape makes and what is wrong with it.
fn outcome(choices: &mut Choices) -> (Option<Sample>, Result<Tally, Disagreement>) {
    match Sample::new(choices) {
        Ok(sample) => {
            let checked = check(&Kept::from(&sample));
            (Some(sample), checked)
        }
        Err(error) if is_ragged(&error) => (None, Ok(Tally::default())),
        Err(error) => (None, Err(Disagreement { property: "building", reason: error.to_string() })),
    }
}

fn found() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found")
}

/// The smallest program that is wrong in the same way, as a text, and how to keep it.
fn report(seed: u64, tape: Vec<u32>, property: &'static str) -> String {
    let fails = |tape: &[u32]| {
        let (_, checked) = outcome(&mut Choices::replayed(tape.to_vec()));
        checked.is_err_and(|disagreement| disagreement.property == property)
    };
    let tape = smallest(tape, setting("FUNCIFY_RANDOM_SHRINK", 1500) as usize, fails);
    let (sample, checked) = outcome(&mut Choices::replayed(tape));
    let reason = checked.err().map(|disagreement| disagreement.reason).unwrap_or_default();
    let Some(sample) = sample else { return format!("seed {seed}: {property}: {reason}") };
    let kept = Kept::from(&sample).text();
    let path = std::env::temp_dir().join(format!("funcify_{seed}.fir"));
    let written = std::fs::write(&path, &kept);
    let keep = match written {
        Ok(()) => format!("cp {} {}/NAME.fir", path.display(), found().display()),
        Err(error) => format!("write it to {}/NAME.fir ({error})", found().display()),
    };
    format!("seed {seed}: {property}\n{reason}\nthe smallest program found:\n{kept}\nto keep it as a test:\n{keep}")
}

#[test]
fn random_programs_have_all_properties() {
    let (count, first) = (setting("FUNCIFY_RANDOM_GRAPHS", 2000), setting("FUNCIFY_RANDOM_SEED", 1));
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let run = |thread: u64| {
        let (mut parts, mut tally) = (BTreeMap::<&'static str, usize>::new(), Tally::default());
        let mut wrong: Vec<(u64, Vec<u32>, Disagreement)> = Vec::new();
        for seed in (first..first + count).filter(|seed| seed % threads == thread) {
            let mut choices = Choices::seeded(seed);
            let (sample, checked) = outcome(&mut choices);
            let Some(sample) = sample.or_else(|| None) else {
                match checked {
                    Ok(_) => *parts.entry("ragged").or_default() += 1,
                    Err(disagreement) => wrong.push((seed, choices.tape().to_vec(), disagreement)),
                }
                continue;
            };
            sample.parts.iter().for_each(|(part, count)| *parts.entry(part).or_default() += count);
            match checked {
                Ok(other) => tally.add(&other),
                Err(disagreement) => wrong.push((seed, choices.tape().to_vec(), disagreement)),
            }
        }
        (parts, tally, wrong)
    };
    let run = &run;
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (mut parts, mut tally, mut wrong) = (BTreeMap::<&'static str, usize>::new(), Tally::default(), Vec::new());
    for (some_parts, some_tally, some_wrong) in results {
        some_parts.iter().for_each(|(part, count)| *parts.entry(part).or_default() += count);
        tally.add(&some_tally);
        wrong.extend(some_wrong);
    }
    wrong.sort_by_key(|(seed, tape, _)| (tape.len(), *seed));
    println!("{parts:?}\n{:?}", tally.0);
    for (seed, _, disagreement) in &wrong {
        let short: Vec<&str> = disagreement.reason.lines().take(5).collect();
        println!("seed {seed}: {}: {}", disagreement.property, short.join(" | "));
    }
    let mut by_property: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    wrong.iter().for_each(|(seed, _, disagreement)| by_property.entry(disagreement.property).or_default().push(*seed));
    let mut reports = Vec::new();
    for property in by_property.keys() {
        let first = wrong.iter().find(|(.., disagreement)| disagreement.property == *property);
        reports.extend(first.map(|(seed, tape, disagreement)| report(*seed, tape.clone(), disagreement.property)));
    }
    std::panic::set_hook(hook);
    assert!(wrong.is_empty(), "{}\n{} programs are wrong: {by_property:?}", reports.join("\n\n"), wrong.len());
}
