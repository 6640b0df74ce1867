//! Generates programs that exercise the planner's rules. Compiles each program undivided, in parts and as machine code,
//! and compares the results with the reference evaluator. `FUNCIFY_TEMPLATES=10000` runs more programs,
//! `FUNCIFY_TEMPLATES_SEED=7` runs different ones, and `FUNCIFY_TEMPLATES_FAMILY=strips` runs only the family `strips`.
//! If `FUNCIFY_TEMPLATES_FOLDER` names a folder, programs with wrong results are written to that folder. `cargo xtask
//! templates` runs the programs on every backend.

use std::collections::BTreeSet;
use std::sync::Arc;

use funcify::dispatch::LoopStrategy;
use funcify_conformance::templates::{Campaign, Subject, families, run_campaign};
use funcify_cpu::{Cpu, TRANSFORMATIONS, take_fired};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")))
}

#[test]
fn programs_drawn_from_the_rules_agree_with_the_reference_evaluation() {
    let subject = |name: &str, cpu: Cpu| Subject::new(name, Arc::new(cpu), LoopStrategy::Compiled);
    let mut subjects = vec![subject("cpu", Cpu::default()), subject("cpu-parts", Cpu::dividing_all())];
    if cfg!(feature = "jit") {
        subjects.push(subject("cpu-machine-code", Cpu::translating_all()));
    }
    let family = std::env::var("FUNCIFY_TEMPLATES_FAMILY").ok();
    let place = |name: &String| families().position(|family| family == name).expect("the family is in `FAMILIES`");
    let campaign = Campaign {
        seed: setting("FUNCIFY_TEMPLATES_SEED", 1),
        count: setting("FUNCIFY_TEMPLATES", 2000),
        jobs: std::thread::available_parallelism().map_or(1, |count| count.get()),
        shrink: setting("FUNCIFY_TEMPLATES_SHRINK", 400) as usize,
        family: family.as_ref().map(place),
        folder: std::env::var_os("FUNCIFY_TEMPLATES_FOLDER").map(Into::into),
        take_fired: Some(take_fired),
    };
    let summaries = run_campaign(&campaign, &subjects);
    let (mut programs, mut compiled, mut wrong, mut fired) = (0, 0, Vec::new(), BTreeSet::new());
    for (family, summary) in &summaries {
        println!(
            "{family}: {} programs ({} refused), {} runs, {} compiled, {} wrong, {} unsteady; {:?}",
            summary.programs,
            summary.refused,
            summary.runs,
            summary.compiled,
            summary.wrong.len(),
            summary.explained_by_rounding,
            summary.skipped
        );
        programs += summary.programs;
        compiled += summary.compiled;
        wrong.extend(&summary.wrong);
        fired.extend(summary.fired.keys().copied());
    }
    let smallest = wrong.iter().min_by_key(|wrong| wrong.fault.graph.to_string().len());
    let told = smallest.map(|wrong| {
        format!("seed {}: {}\n{}\n{}", wrong.seed, wrong.by.join("; "), wrong.fault.reason, wrong.fault.graph)
    });
    assert!(wrong.is_empty(), "{} programs are wrong; the smallest:\n{}", wrong.len(), told.unwrap_or_default());
    assert!(programs as u64 * 10 >= campaign.count * 9, "{programs} programs");
    if campaign.family.is_none() && campaign.count >= 2000 && cfg!(feature = "jit") {
        let silent: Vec<&str> = TRANSFORMATIONS.iter().copied().filter(|name| !fired.contains(name)).collect();
        assert!(silent.is_empty(), "no program reaches {silent:?}");
    }
    assert!(compiled >= programs * 4, "{compiled} runs of {programs} programs are compiled");
}
