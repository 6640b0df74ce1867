//! Compiles random programs and their gradients, undivided, in parts and as machine code, and compares their results
//! with those of the reference evaluator.

use funcify_conformance::arbitrary::{Choices, Sample, TestProgram, is_ragged};
use funcify_conformance::properties::{Tally, check_backend};
use funcify_cpu::Cpu;

/// Seeds that no other test uses.
const SEEDS: std::ops::Range<u64> = 3_000_000..3_002_000;

#[test]
fn random_programs_agree_with_the_reference_evaluation() {
    agree(Cpu::default());
}

#[test]
fn random_programs_in_parts_agree_with_the_reference_evaluation() {
    agree(Cpu::dividing_all());
}

#[cfg(feature = "jit")]
#[test]
fn random_programs_as_machine_code_agree_with_the_reference_evaluation() {
    agree(Cpu::translating_all());
}

fn agree(cpu: Cpu) {
    let (mut tally, mut wrong) = (Tally::default(), Vec::new());
    for seed in SEEDS {
        let program = match Sample::new(&mut Choices::seeded(seed)) {
            Ok(sample) => TestProgram::from(&sample),
            Err(error) if is_ragged(&error) => continue,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        match check_backend(&program, &cpu) {
            Ok(other) => tally.add(&other),
            Err(disagreement) => wrong.push(format!("seed {seed}: {}: {}", disagreement.property, disagreement.reason)),
        }
    }
    let first = wrong.iter().take(3).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{first}\n{} are wrong", wrong.len());
    let compiled = tally.0.get("compiled").copied().unwrap_or(0);
    assert!(compiled as u64 > SEEDS.end - SEEDS.start, "only {compiled} programs were compared");
}
