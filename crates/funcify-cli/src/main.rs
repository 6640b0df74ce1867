//! The `funcify` command: `run`, `print` and `bisect` work on programs in text form; `conformance`, `status` and
//! `templates` show what each backend supports. `cargo xtask` builds and runs it.

mod backends;
mod bisect;
mod conformance;
mod print;
mod run;
mod status;
mod templates;
mod transforms;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use clap::{Parser, Subcommand};
use funcify::dispatch::{LoopStrategy, backend_names, open_backend};
use funcify::{Error, Graph, HostTensor};
use funcify_conformance::{Subject, all_cases};

use crate::transforms::Transforms;

#[derive(Parser)]
#[command(name = "funcify", version, about = "Differentiable control flow for tensor programs")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the conformance suite on every backend and print its results as a table.
    Conformance(conformance::Arguments),
    /// Run a program from a file, or one of its derivatives, on a backend.
    Run(run::Arguments),
    /// Print a program from a file, or one of its derivatives, as text.
    Print(print::Arguments),
    /// Find the rewrite patch that changes a program's results.
    Bisect(bisect::Arguments),
    /// Write STATUS.md, the table of ops by backend.
    Status {
        /// Only check that the file is up to date.
        #[arg(long)]
        check: bool,
    },
    /// Run random programs built from the planner's patterns on every backend that compiles loops.
    Templates(templates::Arguments),
}

/// Runs a command on a program. Errors refer to the program's file and its lines, never to source lines of this crate.
fn in_program<T>(file: &Path, command: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    command().map_err(|error| match error.downcast::<funcify::Error>() {
        Ok(error) => error.in_program(file).into(),
        Err(other) => other,
    })
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Run(arguments) => run::run(&arguments).map(|()| true),
        Command::Print(arguments) => print::run(&arguments).map(|()| true),
        Command::Bisect(arguments) => bisect::run(&arguments).map(|()| true),
        Command::Status { check } => status::run(check),
        Command::Templates(arguments) => templates::run(&arguments),
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
