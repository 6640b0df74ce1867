//! Fuzzes the parser and the reference backend with mutated programs. No text may cause a panic, a hang, or memory
//! use beyond the budget, and every text that parses must round-trip.
//!
//! `cargo xtask fuzz-text` fuzzes with libFuzzer, using the dictionary in `tests/mutants/words.dict`.
//! `tests/mutants.rs` checks a fixed set of mutants, each determined by a seed and a number.

mod mutate;
mod probe;

use std::collections::BTreeSet;
use std::path::Path;

use arbitrary::Unstructured;
use funcify::Graph;

pub use probe::{MEMORY_BUDGET, Reached, probe, set_up};

use crate::arbitrary::{Choices, Sample, splitmix64};
use crate::suite::all_cases;

/// The texts to mutate, in two groups: programs with bodies and programs without bodies.
pub struct Corpus {
    groups: [Vec<String>; 2],
}

/// Programs that caused failures in the past.
const EARLIER_FAILURES: [&str; 12] = [
    include_str!("../../tests/mutants/bind-panic.fir"),
    include_str!("../../tests/mutants/huge-broadcast.fir"),
    include_str!("../../tests/mutants/huge-count.fir"),
    include_str!("../../tests/mutants/huge-iota-for-nobody.fir"),
    include_str!("../../tests/mutants/negative-size.fir"),
    include_str!("../../tests/mutants/negative-size-product.fir"),
    include_str!("../../tests/mutants/parse-panic-negate.fir"),
    include_str!("../../tests/mutants/parse-panic-pad.fir"),
    include_str!("../../tests/mutants/rows-of-pairs-beyond-64-bits.fir"),
    include_str!("../../tests/mutants/size-product-wraps.fir"),
    include_str!("../../tests/mutants/size-wraps-at-run-time.fir"),
    include_str!("../../tests/mutants/slice-of-a-step-that-never-runs.fir"),
];

/// The maximum length of a text in the corpus, in bytes. Longer texts have not revealed additional failures.
const MAX_TEXT_LENGTH: usize = 4000;

/// The number of random programs in the corpus.
const RANDOM_PROGRAMS: u64 = 150;

impl Corpus {
    /// Collects the programs of the suite, programs that caused failures in the past, and some random programs.
    pub fn new() -> Result<Corpus, String> {
        let cases = all_cases()?.into_iter().map(|case| case.graph.to_string());
        let random = (0..RANDOM_PROGRAMS).filter_map(|seed| Sample::new(&mut Choices::seeded(splitmix64(seed))).ok());
        let random = random.map(|sample| sample.graph.to_string());
        let all: BTreeSet<String> = cases.chain(random).chain(EARLIER_FAILURES.map(str::to_string)).collect();
        let short = all.into_iter().filter(|text| text.len() <= MAX_TEXT_LENGTH);
        let (with, without) =
            short.partition(|text| text.lines().any(|line| line.starts_with("  ") && line.ends_with('{')));
        let groups: [Vec<String>; 2] = [with, without];
        if groups.iter().any(Vec::is_empty) {
            return Err("a group of the corpus is empty".into());
        }
        Ok(Corpus { groups })
    }

    /// Writes each text to its own file in `folder`, as the initial corpus of libFuzzer.
    pub fn save(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        self.texts().enumerate().try_for_each(|(index, text)| std::fs::write(folder.join(format!("{index}.fir")), text))
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// Returns `true` if the corpus has no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the mutant that this seed and number determine.
    pub fn mutant(&self, seed: u64, number: u64) -> String {
        let start = splitmix64(seed.wrapping_mul(1 << 32).wrapping_add(number));
        let bytes: Vec<u8> = (0..128).flat_map(|word| splitmix64(start.wrapping_add(word)).to_le_bytes()).collect();
        let group = usize::from(number % 3 == 2);
        mutate::mutant(&mut Unstructured::new(&bytes), &self.groups[group]).expect("zeros follow the last byte")
    }

    /// Returns the unmutated texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flatten().map(String::as_str)
    }
}

/// Returns the number of ops in a graph, including those in its bodies at every level.
fn count_ops(graph: &Graph) -> usize {
    let bodies = graph.nodes().iter().flat_map(|node| node.op.bodies());
    graph.nodes().len() + bodies.map(|body| count_ops(body)).sum::<usize>()
}
