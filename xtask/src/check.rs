//! `cargo xtask test`, `cargo xtask examples` and `cargo xtask lint`: one step after the other, until one fails.

use std::process::Command;

use crate::{Outcome, build, differences, root};

/// Tidiness, which takes a second, then tests, conformance, examples, STATUS.md.
pub(crate) fn test() -> Outcome {
    Ok(tidy(&[])?
        && cargo(&[&["test", "--quiet"][..], &TIDY].concat())?
        && cargo(&["test", "--workspace"])?
        && build::funcify(&words("conformance"))?
        && examples(&words("--quick"))?
        && build::funcify(&words("status --check"))?)
}

/// Format, lints, documentation, and each feature of the crate `funcify` alone.
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
        && features()?)
}

/// The program that checks what a person would forget, a workspace of its own.
const TIDY: [&str; 2] = ["--manifest-path", "xtask/tidy/Cargo.toml"];

/// Checks what a person would forget, or draws sentences from comments.
pub(crate) fn tidy(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cargo(&[&["run", "--quiet"][..], &TIDY, &["--"], &arguments].concat())
}

/// The features of the crate `funcify`. A user has any of them without the others.
const FEATURES: [&str; 8] = ["cpu", "candle", "burn-flex", "burn-ndarray", "burn-wgpu", "nn", "jit", "tracing"];

/// Builds the crate that users depend on without features, and with each of them alone.
pub(crate) fn features() -> Outcome {
    let package = ["check", "--package", "funcify", "--lib", "--no-default-features"];
    let mut all = cargo(&package)?;
    for feature in FEATURES {
        all = all && cargo(&[&package[..], &["--features", feature]].concat())?;
    }
    Ok(all)
}

/// The program of the examples, with these arguments. What is compared is built as users build it.
pub(crate) fn examples(arguments: &[String]) -> Outcome {
    let is_timed = arguments.iter().any(|argument| argument == "--compare");
    build::program("funcify-examples", if is_timed { &["--release"] } else { &[] }, arguments)
}

/// Writes the corpus and searches it for texts that go wrong, with these arguments of libFuzzer. It needs `cargo-fuzz` and a
/// nightly compiler.
pub(crate) fn fuzz_text(arguments: &[String]) -> Outcome {
    if !cargo(&["run", "--release", "--manifest-path", "fuzz/Cargo.toml", "--example", "seeds"])? {
        return Ok(false);
    }
    let words = "-dict=crates/funcify-conformance/tests/mutants/words.dict";
    let limits = ["-timeout=60", "-rss_limit_mb=1024", "-max_len=20000"];
    let run = ["+nightly", "fuzz", "run", "text", "--", words];
    let arguments = run.into_iter().chain(limits).chain(arguments.iter().map(String::as_str));
    // `+nightly` is for rustup's cargo, which is not that of `CARGO`.
    let status = Command::new("cargo").args(arguments).current_dir(root()).status();
    Ok(status.map_err(|error| format!("cargo: {error}"))?.success())
}

/// The benchmarks, with these arguments, as users build what they measure.
pub(crate) fn bench(arguments: &[String]) -> Outcome {
    let (program, arguments) = match arguments.iter().position(|argument| argument == "--cancel") {
        Some(at) => ("funcify-cancel", [&arguments[..at], &arguments[at + 1..]].concat()),
        None => ("funcify-bench", arguments.to_vec()),
    };
    build::program(program, &["--release"], &arguments)
}

/// Writes the tables of differences to weights that others trained and to models of the libraries anew.
pub(crate) fn weights() -> Outcome {
    let bless = [("FUNCIFY_BLESS", "1")];
    Ok(cargo_with(&bless, &["test", "--workspace", "--test", "weights", "--", "--nocapture"])? && differences::write()?)
}

/// Runs cargo in the workspace, and says so.
pub(crate) fn cargo(arguments: &[&str]) -> Outcome {
    cargo_with(&[], arguments)
}

/// Runs cargo with variables of the environment.
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
