//! Implements the commands that check the workspace, such as `cargo xtask test` and `cargo xtask lint`. Their steps
//! run in sequence until one fails.

use std::process::Command;

use crate::{Outcome, build, differences, root};

/// Runs the tidy checks, the tests, the conformance suite and the examples, and checks that STATUS.md is current.
pub(crate) fn test() -> Outcome {
    Ok(tidy(&[])?
        && cargo(&[&["test", "--quiet"][..], &TIDY].concat())?
        && cargo(&["test", "--workspace"])?
        && build::funcify(&words("conformance"))?
        && examples(&words("--quick"))?
        && build::funcify(&words("status --check"))?)
}

/// Checks formatting, lints, documentation and packages, and checks the crate `funcify` with each feature separately.
pub(crate) fn lint() -> Outcome {
    Ok(cargo(&["fmt", "--all", "--check"])?
        && cargo(&[&["fmt", "--check"][..], &TIDY].concat())?
        && cargo(&[&["clippy", "--quiet", "--all-targets"][..], &TIDY, &["--", "-D", "warnings"]].concat())?
        && cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?
        && cargo(&[
            "clippy",
            "--package",
            "funcify-runtime",
            "--all-targets",
            "--features",
            "tracing",
            "--",
            "-D",
            "warnings",
        ])?
        && cargo_with(&[("RUSTDOCFLAGS", "-D warnings")], &["doc", "--workspace", "--no-deps"])?
        && features()?
        && package(&words("--no-verify"))?)
}

/// The option that selects the manifest of the tidy program, which is a separate workspace.
const TIDY: [&str; 2] = ["--manifest-path", "xtask/tidy/Cargo.toml"];

/// Runs the tidy program, which checks the repository or samples sentences from comments.
pub(crate) fn tidy(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cargo(&[&["run", "--quiet"][..], &TIDY, &["--"], &arguments].concat())
}

/// The features of the crate `funcify`. A user may enable each of them alone.
const FEATURES: [&str; 8] = ["cpu", "candle", "burn-flex", "burn-ndarray", "burn-wgpu", "nn", "jit", "tracing"];

/// Checks the crate `funcify` without features, and with each feature separately.
pub(crate) fn features() -> Outcome {
    let package = ["check", "--package", "funcify", "--lib", "--no-default-features"];
    let mut all = cargo(&package)?;
    for feature in FEATURES {
        all = all && cargo(&[&package[..], &["--features", feature]].concat())?;
    }
    Ok(all)
}

/// The packages of the workspace that are never published.
const UNPUBLISHED: [&str; 5] = ["funcify-benches", "funcify-examples", "funcify-model-tests", "funcify-tests", "xtask"];

/// Packages all crates that are published. Also builds each crate from its package, unless `--no-verify` is given.
pub(crate) fn package(arguments: &[String]) -> Outcome {
    let excluded = UNPUBLISHED.iter().flat_map(|name| ["--exclude", name]);
    let arguments = arguments.iter().map(String::as_str);
    let all = ["package", "--workspace", "--allow-dirty", "--quiet"].into_iter().chain(excluded).chain(arguments);
    cargo(&all.collect::<Vec<_>>())
}

/// Runs the examples with these arguments. With `--compare`, which measures times, builds them in release mode.
pub(crate) fn examples(arguments: &[String]) -> Outcome {
    let is_timed = arguments.iter().any(|argument| argument == "--compare");
    build::program("funcify-examples", if is_timed { &["--release"] } else { &[] }, arguments)
}

/// Writes the seed corpus, and fuzzes the text parser with these libFuzzer arguments. Requires `cargo-fuzz` and a
/// nightly compiler.
pub(crate) fn fuzz_text(arguments: &[String]) -> Outcome {
    if !cargo(&["run", "--release", "--manifest-path", "fuzz/Cargo.toml", "--example", "seeds"])? {
        return Ok(false);
    }
    let words = "-dict=crates/funcify-conformance/tests/mutants/words.dict";
    let limits = ["-timeout=60", "-rss_limit_mb=1024", "-max_len=20000"];
    let run = ["+nightly", "fuzz", "run", "text", "--", words];
    let arguments = run.into_iter().chain(limits).chain(arguments.iter().map(String::as_str));
    // Only rustup's proxy understands `+nightly`. The variable `CARGO` contains the path of the actual cargo, which
    // does not understand `+nightly`.
    let status = Command::new("cargo").args(arguments).current_dir(root()).status();
    Ok(status.map_err(|error| format!("cargo: {error}"))?.success())
}

/// Runs the benchmarks with these arguments, in release mode.
pub(crate) fn bench(arguments: &[String]) -> Outcome {
    let (program, arguments) = match arguments.iter().position(|argument| argument == "--cancel") {
        Some(at) => ("funcify-cancel", [&arguments[..at], &arguments[at + 1..]].concat()),
        None => ("funcify-bench", arguments.to_vec()),
    };
    build::program(program, &["--release"], &arguments)
}

/// Regenerates the two tables of differences: one for weights of other libraries, and one for the models of the tensor
/// libraries.
pub(crate) fn weights() -> Outcome {
    let bless = [("FUNCIFY_BLESS", "1")];
    Ok(cargo_with(&bless, &["test", "--workspace", "--test", "weights", "--", "--nocapture"])? && differences::write()?)
}

/// Prints a cargo command and runs it in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Outcome {
    cargo_with(&[], arguments)
}

/// Works like [`cargo`], but also sets environment variables.
pub(crate) fn cargo_with(variables: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    eprintln!("\n== cargo {}", arguments.join(" "));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root()).envs(variables.iter().copied());
    Ok(command.status().map_err(|error| format!("cargo: {error}"))?.success())
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}
