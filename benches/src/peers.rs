//! Builds the workers for other projects: a Python environment under `target/bench`, and a small program that uses
//! rlx.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::subjects::{Kind, Subject};

/// The paths of the workers, or the reasons why they are not available.
pub(crate) struct Peers {
    python: Result<PathBuf, String>,
    rlx: Result<PathBuf, String>,
}

impl Peers {
    /// Creates a `Peers` without any workers, for runs without `--peers`.
    pub(crate) fn none() -> Peers {
        let absent = || Err("only with `--peers`".to_string());
        Peers { python: absent(), rlx: absent() }
    }

    /// Builds only the Python environment, or reuses an earlier one.
    pub(crate) fn with_python(root: &Path) -> Peers {
        Peers { python: python(root), rlx: Err("not needed".into()) }
    }

    /// Builds the Python environment and the rlx worker, or reuses earlier builds. If a build fails, prints a message
    /// and continues without that worker.
    pub(crate) fn make(root: &Path) -> Peers {
        let python = python(root);
        let target = root.join("target/bench/rlx");
        let manifest = source(root).join("rlx/Cargo.toml");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]).arg(manifest);
        let rlx = run(build.env("CARGO_TARGET_DIR", &target)).map(|()| target.join("release/rlx-worker"));
        for (what, made) in [("Python's peers", &python), ("rlx", &rlx)] {
            if let Err(why) = made {
                println!("running without {what}: {why}");
            }
        }
        Peers { python, rlx }
    }

    /// Returns the command that starts the worker of a subject. The error is the reason why the worker is not
    /// available.
    pub(crate) fn worker(&self, subject: &Subject) -> Result<Command, String> {
        match subject.kind {
            Kind::Python => {
                let python = self.python.clone()?;
                let mut command = Command::new(python);
                command.arg(source(&root()).join("worker.py")).arg(subject.name);
                Ok(command)
            }
            Kind::Rlx => Ok(Command::new(self.rlx.clone()?)),
            Kind::EarlierBuild(earlier) => {
                let mut command = Command::new(&earlier.program);
                command.args(["worker", earlier.subject.name]);
                Ok(command)
            }
            _ => {
                let program = std::env::current_exe().map_err(|error| error.to_string())?;
                let mut command = Command::new(program);
                command.args(["worker", subject.name]);
                Ok(command)
            }
        }
    }
}

/// Builds the Python environment, or reuses an earlier one, and returns its interpreter.
fn python(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/bench/peers");
    run(Command::new("bash").arg(source(root).join("make_environment.sh")).arg(&folder))?;
    Ok(folder.join("bin/python"))
}

fn source(root: &Path) -> PathBuf {
    root.join("benches/peers")
}

/// Runs a command. The error is the last line that the command wrote to standard error.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().with_context(|| format!("{command:?}")).map_err(|error| format!("{error:#}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it failed").trim().to_string())
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a folder of the workspace").to_path_buf()
}
