//! `cargo xtask test` and `cargo xtask lint`: one step after the other, until one fails.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{conformance, root, status, tidy};

/// Tests, conformance, STATUS.md, tidiness.
pub(crate) fn test() -> Result<bool> {
    Ok(cargo(&["test", "--workspace"])?
        && step("conformance", || conformance::run(&conformance::Arguments::default()))?
        && step("STATUS.md", || status::run(true))?
        && step("tidy", tidy::run)?)
}

/// Format, lints, documentation.
pub(crate) fn lint() -> Result<bool> {
    Ok(cargo(&["fmt", "--all", "--check"])?
        && cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?
        && cargo(&["doc", "--workspace", "--no-deps"])?)
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
    if arguments.first() == Some(&"doc") {
        command.env("RUSTDOCFLAGS", "-D warnings");
    }
    Ok(command.status().context("cargo")?.success())
}
