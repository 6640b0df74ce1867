//! Checks a fixed set of mutated programs. `cargo xtask fuzz-text` runs for several minutes and searches for further
//! failures. Set `FUNCIFY_MUTANTS=20000` to check more mutants, and `FUNCIFY_MUTANTS_SEED=7` to check different ones.

use std::collections::BTreeMap;
use std::path::Path;

use funcify_conformance::mutants::{Corpus, Reached, probe, set_up};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number, found `{text}`")))
}

/// No mutant may cause a panic, a hang, or memory use beyond the budget, and texts that parse must round-trip. The text
/// of the current mutant is also written to a file, because a stack overflow would end the process without a message.
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
    // Enough mutants must reach each of these stages, including a complete run.
    let share = |far| reached.get(&far).copied().unwrap_or_default() as f64 / count as f64;
    for (far, least) in [(Reached::Refused, 0.2), (Reached::Stopped, 0.001), (Reached::Ran, 0.04)] {
        assert!(share(far) >= least, "{far:?} is rare: {reached:?}");
    }
}
