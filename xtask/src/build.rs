//! Builds and runs programs of the workspace. Builds `funcify` with only the backends that a command needs.

use std::process::Command;

use crate::{Outcome, check};

/// The features of `funcify-cli`, each with the name of the backend that it links.
const FEATURES: [(&str, &str); 5] =
    [("candle", "candle"), ("cpu", "cpu"), ("flex", "burn-flex"), ("ndarray", "burn-ndarray"), ("wgpu", "burn-wgpu")];

/// Builds `funcify` with the features that these arguments need, and runs it with the arguments.
pub(crate) fn funcify(words: &[String]) -> Outcome {
    let features: Vec<String> = features(words).iter().map(|feature| format!("funcify-cli/{feature}")).collect();
    let (is_all, features) = (features.len() == FEATURES.len(), features.join(","));
    let chosen = ["--no-default-features", "--features", &features];
    program("funcify", if is_all { &[] } else { &chosen }, words)
}

/// Builds and runs a program. The build resolves features for the whole workspace, as `cargo test --workspace` does, so
/// that no dependency is compiled twice. `options` are the build options: `--release` and features.
pub(crate) fn program(name: &str, options: &[&str], arguments: &[String]) -> Outcome {
    if !check::cargo(&[&["build", "--workspace", "--bin", name], options].concat())? {
        return Ok(false);
    }
    let folder = if options.contains(&"--release") { "../release" } else { "." };
    let xtask = std::env::current_exe()?;
    let program = xtask.with_file_name(folder).join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let mut command = Command::new(&program);
    if std::env::var_os(THREADS).is_none() {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        command.env(THREADS, threads.to_string());
    }
    Ok(command.args(arguments).status().map_err(|error| format!("{}: {error}", program.display()))?.success())
}

/// The environment variable that, if set, keeps Candle from reading `/proc/cpuinfo` in every matrix product.
const THREADS: &str = "RAYON_NUM_THREADS";

/// Returns the features for the backends named by `--backend`. Without `--backend`, returns all features, or none if
/// the command uses only the reference backend.
fn features(words: &[String]) -> Vec<&'static str> {
    let named: Vec<&str> = named_backends(words).collect();
    let all = || FEATURES.iter().map(|(feature, _)| *feature).collect();
    match words.first().map(String::as_str) {
        Some("print" | "bisect") => Vec::new(),
        Some("run") if named.is_empty() => Vec::new(),
        _ if named.is_empty() => all(),
        // Link all backends if a name is unknown, so that the program can list the known names when it rejects the
        // unknown one.
        _ if named.iter().any(|name| *name != "reference" && FEATURES.iter().all(|(_, backend)| backend != name)) => {
            all()
        }
        _ => FEATURES.iter().filter(|(_, backend)| named.contains(backend)).map(|(feature, _)| *feature).collect(),
    }
}

/// Returns the comma-separated names after each `--backend`.
fn named_backends(words: &[String]) -> impl Iterator<Item = &str> {
    let next = words.iter().skip(1).map(Some).chain([None]);
    let names = words.iter().zip(next).filter_map(|(word, next)| match word.strip_prefix("--backend") {
        Some("") => next.map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    names.flat_map(|names| names.split(','))
}

#[cfg(test)]
mod tests {
    use super::features;

    #[test]
    fn only_the_backends_that_a_command_needs_are_linked() {
        let of = |line: &str| features(&line.split(' ').map(String::from).collect::<Vec<_>>());
        assert_eq!(of("conformance"), ["candle", "cpu", "flex", "ndarray", "wgpu"]);
        assert_eq!(of("conformance --backend candle --backend reference"), ["candle"]);
        assert_eq!(of("conformance --backend reference,burn-flex,candle"), ["candle", "flex"]);
        assert_eq!(of("run f.fir --backend=burn-wgpu"), ["wgpu"]);
        assert_eq!(of("conformance --backend cuda").len(), 5);
        for line in ["run f.fir", "print f.fir", "bisect f.fir", "conformance --backend reference"] {
            assert!(of(line).is_empty(), "{line}");
        }
    }
}
