//! The commands for contributors: `cargo xtask conformance`, `test`, `lint` and the others in [`HELP`]. This program
//! builds quickly, because it has no dependencies. It prints the cargo commands that it runs.

mod build;
mod check;
mod differences;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The outcome of a command: `true` if it succeeded, `false` if it failed, or the reason why it could not run.
type Outcome = Result<bool, Box<dyn Error>>;

const HELP: &str = "Commands for contributors to funcify

Usage: cargo xtask COMMAND [ARGUMENTS]; the first eight describe their arguments with `--help`

  conformance  Run the conformance suite on every backend and print the table
  run          Run a program from a file, or a derivative of it, on a backend
  print        Print a program from a file, or a derivative of it, as text
  bisect       Find the rewrite that changes the results of a program
  status       Write STATUS.md: the support of each op on each backend
  examples     Run the examples
  bench        Measure each backend and strategy against handwritten loops and other projects
  templates    Run random programs drawn from the planner's rules: `--count N`, `--seed S`, `--backend NAME,..`
  weights      Compare layers and models with other libraries, and write the tables of differences
  fuzz-text    Fuzz the text parser with `cargo-fuzz`; takes libFuzzer options, such as `-max_total_time=600`
  test         Check everything that a change must pass: tidy, tests, conformance, examples, STATUS.md
  lint         Check format, lints, documentation and packages, and build `funcify` with each feature separately
  features     Build the crate `funcify` with each of its features separately
  package      Build each published crate from its package; `--no-verify` only makes the packages
  ci           Run `lint`, then `test`
  tidy         Check rules that people forget: module docs, file lengths, layers, lists of ops, stubs
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, arguments) = words.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    let outcome = match command {
        "conformance" | "run" | "print" | "bisect" | "status" => build::funcify(&words),
        "templates" => build::program("funcify", &["--release"], &words),
        "examples" => check::examples(arguments),
        "bench" => check::bench(arguments),
        "fuzz-text" => check::fuzz_text(arguments),
        "weights" => check::weights(),
        "test" => check::test(),
        "lint" => check::lint(),
        "features" => check::features(),
        "package" => check::package(arguments),
        "ci" => check::lint().and_then(|clean| Ok(clean && check::test()?)),
        "tidy" => check::tidy(arguments),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        other => Err(format!("there is no command `{other}`\n\n{HELP}").into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a folder of the workspace").to_path_buf()
}
