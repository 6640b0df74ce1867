//! `cargo xtask tidy`: what a person would forget.
//!
//! - Every Rust file begins with a module doc, and has no more than 600 lines.
//! - No stub, no ignored test, no note to do something later.
//! - Every `allow` has a reason.
//! - The README's table of benchmarks is of this version.
//! - No module of a layered crate names one of a higher layer ([`layers`]).

use std::path::{Path, PathBuf};

use crate::{Outcome, layers, read, root};

const LONGEST_FILE: usize = 600;

/// Words that must not stand in a Rust file. They are put together here so that this file passes.
const FORBIDDEN: [&str; 6] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("dbg", "!("),
];

/// Checks all files; false if anything is wrong.
pub(crate) fn run() -> Outcome {
    let mut problems = Vec::new();
    for folder in ["crates", "xtask", "tests", "benches"] {
        for path in rust_files(&root().join(folder))? {
            let text = read(&path)?;
            let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            let of_file = file_problems(&text).into_iter().chain(layers::problems(&name, &text));
            problems.extend(of_file.map(|problem| format!("{name}: {problem}")));
        }
    }
    problems.extend(bench_problem(&read(&root().join("README.md"))?));
    problems.iter().for_each(|problem| println!("{problem}"));
    println!("tidy: {} problems", problems.len());
    Ok(problems.is_empty())
}

/// What is wrong with the mark before the table of benchmarks, which `cargo xtask bench --report` writes.
fn bench_problem(readme: &str) -> Option<String> {
    let mark = format!("<!-- bench: begin, version {} -->", env!("CARGO_PKG_VERSION"));
    (!readme.contains(&mark)).then(|| format!("README.md: the table of benchmarks is not of this version: no `{mark}`"))
}

fn file_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push("the file does not begin with a module doc".to_string());
    }
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        problems.push(format!("{lines} lines; split it at {LONGEST_FILE}"));
    }
    for (number, line) in text.lines().enumerate() {
        let words = FORBIDDEN.iter().filter(|word| line.contains(*word));
        problems.extend(words.map(|word| format!("line {}: `{word}`", number + 1)));
        if line.trim_start().starts_with("#[allow(") && !line.contains("reason =") {
            problems.push(format!("line {}: an `allow` without a reason", number + 1));
        }
    }
    problems
}

fn rust_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_named() {
        assert!(file_problems("//! Doc.\nfn f() {}\n").is_empty());
        assert_eq!(file_problems("fn f() {}\n").len(), 1);
        assert_eq!(file_problems(&format!("//! Doc.\n{}", "\n".repeat(LONGEST_FILE))).len(), 1);
        assert_eq!(file_problems(&format!("//! Doc.\nfn f() {{ {}) }}\n", FORBIDDEN[0])).len(), 1);
        assert_eq!(file_problems("//! Doc.\n#[allow(dead_code)]\n").len(), 1);
        assert!(file_problems("//! Doc.\n#[allow(dead_code, reason = \"x\")]\n").is_empty());
        assert!(bench_problem("<!-- bench: begin, version 0.0.0 -->").is_some());
        assert!(bench_problem(&format!("<!-- bench: begin, version {} -->", env!("CARGO_PKG_VERSION"))).is_none());
    }
}
