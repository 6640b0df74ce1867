//! The contributor's commands: `cargo xtask conformance`, `test`, `lint` and the others in [`HELP`]. It has no
//! dependencies, so it starts at once, and it prints what it builds.

mod build;
mod check;
mod differences;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `true` if the command succeeded; the error is the reason why it did not run.
type Outcome = Result<bool, Box<dyn Error>>;

const HELP: &str = "What a contributor to funcify runs

Usage: cargo xtask COMMAND [ARGUMENTS]; each of the first eight says more with `--help`

  conformance  Run the conformance suite on every backend and print the table
  run          Run a program from a file, or a derivative of it, on a backend
  print        Print a program from a file, or a derivative of it, as text
  bisect       Find the patch of the rewrites that changes what a program gives
  status       Write STATUS.md: op by backend
  examples     Run the examples
  bench        Time and memory of each backend and strategy, against loops by hand and other projects
  fuzz-text    Search for texts that go wrong, with `cargo-fuzz`; takes options of libFuzzer, as `-max_total_time=600`
  templates    Run programs drawn from the planner's rules: `--count N`, `--seed S`, `--backend NAME,..`
  weights      Compare layers and models with those of others, and write the tables of differences
  test         Everything that a change must pass: tidiness, tests, conformance, examples, STATUS.md
  lint         Format, lints, documentation, and each feature of the crate `funcify` alone
  features     Build the crate `funcify` with each of its features alone
  ci           What `lint` and `test` run
  tidy         Check what a person would forget: module docs, file lengths, layers, lists of ops, stubs
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
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}
