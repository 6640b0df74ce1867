//! Compares random programs and their gradients on every backend with the reference evaluator.

use funcify::Error;
use funcify::dispatch::{backend_names, open_backend};
use funcify_conformance::arbitrary::{Choices, Sample, TestProgram, is_ragged};
use funcify_conformance::properties::{Tally, check_backend};

// Link these crates to register their lowering rules.
use funcify_burn as _;
use funcify_candle as _;

/// The 200 seeds of the programs. By default, the conformance suite on the reference backend uses different seeds.
const SEEDS: std::ops::Range<u64> = 1_000_000..1_000_200;

#[test]
fn every_backend_agrees_with_the_reference_evaluation() {
    let programs: Vec<(u64, TestProgram)> = SEEDS
        .filter_map(|seed| match Sample::new(&mut Choices::seeded(seed)) {
            Ok(sample) => Some((seed, TestProgram::from(&sample))),
            Err(error) if is_ragged(&error) => None,
            Err(error) => panic!("seed {seed}: {error}"),
        })
        .collect();
    let mut wrong = Vec::new();
    for name in backend_names() {
        let executor = match open_backend(name) {
            Ok(executor) => executor,
            Err(Error::Unavailable { .. }) => continue,
            Err(error) => panic!("{name}: {error}"),
        };
        let holds_doubles = executor.unsupported(funcify::DType::F64, 1).is_none();
        let mut tally = Tally::default();
        for (seed, program) in &programs {
            match check_backend(program, executor.as_ref()) {
                Ok(other) => tally.add(&other),
                Err(disagreement) => {
                    wrong.push(format!("{name}, seed {seed}: {}: {}", disagreement.property, disagreement.reason))
                }
            }
        }
        println!("{name}: {:?}", tally.0);
        let native = tally.0.get("native").copied().unwrap_or(0);
        assert!(!holds_doubles || native > programs.len(), "{name}: only {native} programs were compared");
    }
    let first = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{first}\n{} are wrong", wrong.len());
}
