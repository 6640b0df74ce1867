//! Looks at mutated programs for some minutes: `--minutes N`, `--seed S`, `--jobs J`, or at one file: `--file PATH`.
//! `cargo xtask fuzz-text` runs it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use funcify_conformance::mutants::{Campaign, probe, run_campaign, serve, set_up};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    serve(&arguments);
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<bool, String> {
    let (mut minutes, mut seed, mut jobs) = (10.0, 0u64, 2usize);
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { return Err(format!("`{}` without a value", pair[0])) };
        let wrong = || format!("`{option}` is not given a number: `{value}`");
        match option.as_str() {
            "--minutes" => minutes = value.parse::<f64>().ok().filter(|it| it.is_finite()).ok_or_else(wrong)?,
            "--seed" => seed = value.parse().map_err(|_| wrong())?,
            "--jobs" => jobs = value.parse().map_err(|_| wrong())?,
            "--file" => return one(value),
            _ => return Err(format!("`{option}` is none of --minutes, --seed, --jobs, --file")),
        }
    }
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let time = Duration::from_secs_f64(minutes.max(0.0) * 60.0);
    let campaign = Campaign { seed, time, jobs: jobs.max(1), folder: folder.join("fuzz-text") };
    let outcome = run_campaign(&campaign)?;
    println!("{} mutants of seed {seed}", outcome.mutants());
    outcome.reached.iter().for_each(|(reached, count)| println!("  {:<8} {count}", reached.to_lowercase()));
    for (path, reason) in &outcome.wrong {
        println!("wrong: {}: {reason}", path.display());
    }
    println!("{} are wrong", outcome.wrong.len());
    Ok(outcome.wrong.is_empty() && outcome.mutants() > 0)
}

fn one(path: &str) -> Result<bool, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    set_up();
    let reached = probe(&text, 0);
    println!("{path}: {reached:?}");
    Ok(reached.is_ok())
}
