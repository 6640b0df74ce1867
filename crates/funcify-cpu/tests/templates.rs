//! Programs drawn from the planner's rules, compiled whole, in parts and as machine code, against the reference evaluation.
//! `FUNCIFY_TEMPLATES=10000` runs more, `FUNCIFY_TEMPLATES_SEED=7` others.

use std::sync::Arc;

use funcify::dispatch::{Executor, LoopStrategy};
use funcify_conformance::templates::{Campaign, Subject, run_campaign};
use funcify_cpu::Cpu;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

#[test]
fn programs_drawn_from_the_rules_agree_with_the_reference_evaluation() {
    let subject = |name: &str, cpu: Cpu| {
        let executor: Arc<dyn Executor> = Arc::new(cpu);
        Subject { name: name.into(), executor, strategy: LoopStrategy::Compiled, runs_both: name == "cpu" }
    };
    let mut subjects = vec![subject("cpu", Cpu::default()), subject("cpu in parts", Cpu::dividing_all())];
    if cfg!(feature = "jit") {
        subjects.push(subject("cpu as machine code", Cpu::translating_all()));
    }
    let campaign = Campaign {
        seed: setting("FUNCIFY_TEMPLATES_SEED", 1),
        count: setting("FUNCIFY_TEMPLATES", 2000),
        jobs: std::thread::available_parallelism().map_or(1, |count| count.get()),
        shrink: 400,
        family: std::env::var("FUNCIFY_TEMPLATES_FAMILY").ok().and_then(|family| family.parse().ok()),
        folder: std::env::var_os("FUNCIFY_TEMPLATES_FOLDER").map(Into::into),
    };
    let summaries = run_campaign(&campaign, &subjects);
    let mut wrong = 0;
    for (family, summary) in &summaries {
        println!(
            "{family}: {} programs ({} refused), {} runs, {} compiled, {} wrong, {} unsteady; {:?}",
            summary.programs,
            summary.refused,
            summary.runs,
            summary.compiled,
            summary.wrong.len(),
            summary.unsteady,
            summary.skipped
        );
        wrong += summary.wrong.len();
    }
    let first =
        summaries.values().flat_map(|summary| &summary.wrong).min_by_key(|wrong| wrong.fault.graph.to_string().len());
    let first = first
        .map(|wrong| format!("seed {}: {:?}\n{}\n{}", wrong.seed, wrong.by, wrong.fault.reason, wrong.fault.graph));
    assert!(wrong == 0, "{wrong} programs are wrong; the smallest:\n{}", first.unwrap_or_default());
}

#[test]
fn show() {
    use funcify_conformance::arbitrary::Choices;
    use funcify_conformance::templates::Program;
    let Some(family) = std::env::var("SHOW").ok().and_then(|it| it.parse().ok()) else { return };
    for seed in 0..setting("SHOW_COUNT", 5) {
        match Program::new(family, &mut Choices::seeded(seed)) {
            Ok(program) => println!("{}", program.graph),
            Err(error) => println!("{error}"),
        }
    }
}
