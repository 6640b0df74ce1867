//! Counts the loops of random programs, and of their gradients, that the planner does not compile, and the programs in
//! which the reference evaluator computes an op. `-- --nocapture` prints the reasons.

use std::collections::BTreeMap;

use funcify::dispatch::{CompileOptions, Function, LoopStrategy};
use funcify::{GradOptions, Graph, Sizes};
use funcify_conformance::arbitrary::{Choices, Sample, TestProgram, arguments};
use funcify_conformance::templates::{TemplateProgram, families};
use funcify_cpu::Cpu;

/// The number of programs of each kind.
const PROGRAMS: u64 = 1000;

/// Seeds of random programs with a loop that was not compiled once.
const RANDOM_SEEDS: [u64; 17] = [
    7000021, 7000390, 7000908, 7001058, 7002548, 7005026, 7005112, 7005202, 7005222, 7005532, 7005632, 7006582,
    7006734, 7007539, 7008227, 7009300, 7009402,
];

/// Seeds of templates with a loop that was not compiled once, or with an op that was evaluated.
const TEMPLATE_SEEDS: [u64; 3] = [100765, 101121, 109949];

/// The loops of a list of programs.
#[derive(Default)]
struct Count {
    programs: usize,
    loops: usize,
    /// The seeds of the programs with loops that are not compiled, by the op and the reason.
    declined: BTreeMap<String, Vec<u64>>,
    /// The seeds of the programs in which the reference evaluator computes ops, by these ops.
    evaluated: BTreeMap<String, Vec<u64>>,
}

impl Count {
    /// Adds a program and its gradient. Ignores programs that fail.
    fn add(&mut self, seed: u64, graph: &Graph, sizes: &Sizes) {
        for graph in [Ok(graph.clone()), graph.vjp(.., GradOptions::new())].into_iter().flatten() {
            let options = CompileOptions { strategy: LoopStrategy::Compiled, ..CompileOptions::default() };
            let types: Vec<_> = (0..graph.inputs().len()).map(|index| graph.input_type(index).clone()).collect();
            let Ok(inputs) = arguments(&types, sizes, seed) else { continue };
            let Ok(function) = Function::compile_with(&graph, &Cpu::default(), options) else { continue };
            if function.call_host(&inputs).is_err() {
                continue;
            }
            let report = function.report();
            self.programs += 1;
            self.loops += report.loops.len();
            for each in report.loops.into_iter().filter(|each| each.strategy != LoopStrategy::Compiled) {
                let reason = each.declined.map_or_else(String::new, |declined| declined.to_string());
                self.declined.entry(format!("{}: {reason}", each.op)).or_default().push(seed);
            }
            if !report.fallback.is_empty() {
                self.evaluated.entry(format!("{:?}", report.fallback)).or_default().push(seed);
            }
        }
    }

    /// Asserts that all loops are compiled, and that the reference evaluator computes no op.
    fn check(&self) {
        println!("{} programs, {} loops; {:#?}", self.programs, self.loops, (&self.declined, &self.evaluated));
        assert!(self.programs as u64 > PROGRAMS && self.loops as u64 > PROGRAMS, "{} loops", self.loops);
        assert!(self.declined.is_empty(), "of {} loops: {:#?}", self.loops, self.declined);
        assert!(self.evaluated.is_empty(), "of {} programs: {:#?}", self.programs, self.evaluated);
    }
}

#[test]
fn every_loop_of_random_programs_is_compiled() {
    let mut count = Count::default();
    for seed in (4_000_000..4_000_000 + PROGRAMS).chain(RANDOM_SEEDS) {
        let Ok(sample) = Sample::new(&mut Choices::seeded(seed)) else { continue };
        let program = TestProgram::from(&sample);
        count.add(seed, &program.graph, &program.sizes);
    }
    count.check();
}

#[test]
fn every_loop_of_templates_is_compiled() {
    let mut count = Count::default();
    for seed in (0..PROGRAMS).chain(TEMPLATE_SEEDS) {
        let family = seed as usize % families().count();
        let Ok(program) = TemplateProgram::new(family, &mut Choices::seeded(seed + 50_000)) else { continue };
        count.add(seed, &program.graph, &Sizes::new());
    }
    count.check();
}
