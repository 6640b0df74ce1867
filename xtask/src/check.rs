//! `cargo xtask test`, `cargo xtask examples` and `cargo xtask lint`: one step after the other, until one fails.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{conformance, root, status, tidy};

/// Tests, conformance, examples, STATUS.md, tidiness.
pub(crate) fn test() -> Result<bool> {
    Ok(cargo(&["test", "--workspace"])?
        && step("conformance", || conformance::run(&conformance::Arguments::default()))?
        && examples(&["--quick".to_string()])?
        && step("STATUS.md", || status::run(true))?
        && step("tidy", tidy::run)?)
}

/// Format, lints, documentation.
pub(crate) fn lint() -> Result<bool> {
    Ok(cargo(&["fmt", "--all", "--check"])?
        && cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?
        && cargo(&[
            "clippy",
            "--package",
            "funcify",
            "--all-targets",
            "--features",
            "tracing",
            "--",
            "-D",
            "warnings",
        ])?
        && cargo(&["doc", "--workspace", "--no-deps"])?)
}

/// The program of the examples, with these arguments.
pub(crate) fn examples(arguments: &[String]) -> Result<bool> {
    let package = ["run", "--quiet", "--package", "funcify-examples", "--bin", "funcify-examples", "--"];
    let arguments: Vec<&str> = package.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    cargo(&arguments)
}

/// The program that looks at mutated programs, with these arguments. It links no tensor library.
pub(crate) fn fuzz_text(arguments: &[String]) -> Result<bool> {
    let package = ["run", "--quiet", "--package", "funcify-conformance", "--bin", "fuzz_text", "--"];
    let arguments: Vec<&str> = package.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    cargo(&arguments)
}

/// The benchmarks, with these arguments. What is measured is this project's code as a user builds it: optimised.
pub(crate) fn bench(arguments: &[String]) -> Result<bool> {
    const MEASURED: [&str; 3] = ["funcify", "funcify-candle", "funcify-burn"];
    let optimised = MEASURED.map(|package| format!("profile.dev.package.{package}.opt-level=3"));
    let mut words = vec!["run", "--quiet"];
    words.extend(optimised.iter().flat_map(|setting| ["--config", setting]));
    words.extend(["--package", "funcify-benches", "--bin", "funcify-bench", "--"]);
    words.extend(arguments.iter().map(String::as_str));
    cargo(&words)
}

fn step(name: &str, run: impl FnOnce() -> Result<bool>) -> Result<bool> {
    println!("\n== {name}");
    run()
}

fn cargo(arguments: &[&str]) -> Result<bool> {
    println!("\n== cargo {}", arguments.join(" "));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    match arguments.first() {
        Some(&"doc") => _ = command.env("RUSTDOCFLAGS", "-D warnings"),
        // Without it Candle reads `/proc/cpuinfo` in every product of matrices.
        Some(&"run") if std::env::var_os(THREADS).is_none() => _ = command.env(THREADS, threads()),
        _ => {}
    }
    Ok(command.status().context("cargo")?.success())
}

const THREADS: &str = "RAYON_NUM_THREADS";

fn threads() -> String {
    std::thread::available_parallelism().map_or(1, |threads| threads.get()).to_string()
}
