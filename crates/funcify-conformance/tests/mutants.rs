//! Checks some of the mutated programs that `cargo xtask fuzz-text` checks for minutes. `FUNCIFY_MUTANTS=20000`
//! checks more, `FUNCIFY_MUTANTS_SEED=7` others.

use std::collections::BTreeMap;
use std::path::Path;

use funcify_conformance::mutants::{Corpus, Reached, probe, set_up};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number, found `{text}`")))
}

/// No mutant causes a panic, a hang or memory use beyond the budget, and texts that parse round-trip. A file holds
/// the text that was checked last, because a stack overflow ends the process.
#[test]
fn mutated_programs_are_refused_or_run() {
    let (seed, count) = (setting("FUNCIFY_MUTANTS_SEED", 0), setting("FUNCIFY_MUTANTS", 1500));
    let corpus = Corpus::new().unwrap();
    set_up();
    let current = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutant.fir");
    let (mut reached, mut wrong) = (BTreeMap::<Reached, usize>::new(), Vec::new());
    for number in 0..count {
        let text = corpus.mutant(seed, number);
        std::fs::write(&current, &text).unwrap();
        match probe(&text, number) {
            Ok(far) => *reached.entry(far).or_default() += 1,
            Err(reason) => wrong.push(format!("mutant {number} of seed {seed}: {reason}\n{text}")),
        }
    }
    let _ = std::panic::take_hook();
    assert!(wrong.is_empty(), "{} mutants are wrong:\n{}", wrong.len(), wrong.join("\n\n"));
    // Not all mutants are rejected: some are still programs, and run.
    let share = |far| reached.get(&far).copied().unwrap_or_default() as f64 / count as f64;
    for (far, least) in [(Reached::Refused, 0.2), (Reached::Stopped, 0.001), (Reached::Ran, 0.04)] {
        assert!(share(far) >= least, "{far:?} is rare: {reached:?}");
    }
}
