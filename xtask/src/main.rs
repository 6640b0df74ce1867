//! What a contributor runs: `cargo xtask conformance`, `examples`, `bench`, `test`, `lint`, `ci`, `run`, `print`, `bisect`, `status`, `fuzz-text`, `tidy`.

mod backends;
mod bisect;
mod check;
mod conformance;
mod layers;
mod print;
mod run;
mod status;
mod tidy;
mod transforms;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "What a contributor to funcify runs")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the conformance suite on every backend and print the table.
    Conformance(conformance::Arguments),
    /// Run the examples: `NAME ..`, `--backend NAME`, `--quick`, `--compare`.
    Examples {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Time and memory of each backend and strategy, against loops by hand and other projects: `--only NAME`, `--quick`, `--peers`.
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Everything that a change must pass: tests, conformance, examples, STATUS.md, tidiness.
    Test,
    /// Format, lints, documentation.
    Lint,
    /// What `lint` and `test` run.
    Ci,
    /// Run a program from a file, or a derivative of it, on a backend.
    Run(run::Arguments),
    /// Print a program from a file, or a derivative of it, as text.
    Print(print::Arguments),
    /// Find the patch of the rewrites that changes what a program gives.
    Bisect(bisect::Arguments),
    /// Write STATUS.md: op by backend.
    Status {
        /// Only check that the file is current.
        #[arg(long)]
        check: bool,
    },
    /// Look at mutated programs: `--minutes N`, `--seed S`, `--jobs J`, or at one: `--file PATH`.
    FuzzText {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check what a person would forget: module docs, file lengths, stubs, declared gaps.
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Examples { arguments } => check::examples(&arguments),
        Command::Bench { arguments } => check::bench(&arguments),
        Command::Test => check::test(),
        Command::Lint => check::lint(),
        Command::Ci => check::lint().and_then(|clean| Ok(clean && check::test()?)),
        Command::Run(arguments) => run::run(&arguments).map(|()| true),
        Command::Print(arguments) => print::run(&arguments).map(|()| true),
        Command::Bisect(arguments) => bisect::run(&arguments).map(|()| true),
        Command::Status { check } => status::run(check),
        Command::FuzzText { arguments } => check::fuzz_text(&arguments),
        Command::Tidy => tidy::run(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A file of the workspace, read.
fn read(path: &Path) -> Result<String> {
    use anyhow::Context;
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}
