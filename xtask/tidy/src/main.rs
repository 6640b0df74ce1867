//! `cargo xtask tidy`: checks conventions of the repository that the compiler does not check.
//!
//! - Every Rust file begins with a module doc, and has at most 600 lines.
//! - The code has no stubs, ignored tests or to-do comments.
//! - Every `allow` has a reason.
//! - The benchmark table was measured with the current version.
//! - Links between the repository's pages resolve, and the main pages stay short ([`docs`]).
//! - No module refers to a module in a higher layer of its crate ([`layers`]).
//! - No pass matches some ops and applies a default to all others ([`wildcards`]).
//! - No doc comment begins with a word like `What` or `Of`, and no comment contains a phrase on the list of awkward
//!   phrases ([`prose`]).

mod docs;
mod layers;
mod prose;
mod wildcards;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const MAX_LINES: usize = 600;

/// The number of sentences that `cargo xtask tidy --sample SEED` draws from all comments, for review.
const SAMPLE: usize = 130;

/// Words that must not occur in a Rust file. They are split here so that this file passes the check.
const FORBIDDEN: [&str; 6] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("dbg", "!("),
];

fn main() -> std::io::Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut sources = Vec::new();
    for folder in ["crates", "xtask", "tests", "benches", "examples", "fuzz"] {
        for path in files(&root.join(folder), "rs")? {
            let name = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            sources.push((name, std::fs::read_to_string(&path)?));
        }
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, seed] = &arguments[..]
        && option == "--sample"
    {
        let sources = sources.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        prose::sample(sources, seed, SAMPLE).iter().for_each(|sentence| println!("{sentence}"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut problems = Vec::new();
    for (name, text) in &sources {
        let of_file = file_problems(text).into_iter().chain(layers::problems(name, text));
        let of_file = of_file.chain(wildcards::problems(name, text));
        let of_prose = prose::problems(text);
        problems.extend(of_file.chain(of_prose).map(|problem| format!("{name}: {problem}")));
    }
    problems.extend(bench_problem(&std::fs::read_to_string(root.join("docs/benchmarks.md"))?));
    let mut pages = BTreeMap::new();
    for path in files(&root, "md")? {
        let text = std::fs::read_to_string(&path)?;
        pages.insert(path.strip_prefix(&root).unwrap_or(&path).to_path_buf(), text);
    }
    problems.extend(docs::problems(&pages, |path| root.join(path).exists()));
    problems.iter().for_each(|problem| println!("{problem}"));
    println!("tidy: {} problems", problems.len());
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a problem if the marker before the benchmark table does not contain the current version. `cargo xtask bench
/// --report` writes the marker.
fn bench_problem(page: &str) -> Option<String> {
    let mark = format!("<!-- bench: begin, version {} -->", env!("CARGO_PKG_VERSION"));
    (!page.contains(&mark))
        .then(|| format!("docs/benchmarks.md: the benchmark table is from another version: no `{mark}`"))
}

fn file_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push("the file does not begin with a module doc".to_string());
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!("{lines} lines; split it at {MAX_LINES}"));
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

/// Returns the files with this extension in a folder and its subfolders, except build outputs.
fn files(folder: &Path, ending: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with(".git") {
                found.extend(files(&path, ending)?);
            }
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_named() {
        assert!(file_problems("//! Doc.\nfn f() {}\n").is_empty());
        assert_eq!(file_problems("fn f() {}\n").len(), 1);
        assert_eq!(file_problems(&format!("//! Doc.\n{}", "\n".repeat(MAX_LINES))).len(), 1);
        assert_eq!(file_problems(&format!("//! Doc.\nfn f() {{ {}) }}\n", FORBIDDEN[0])).len(), 1);
        assert_eq!(file_problems("//! Doc.\n#[allow(dead_code)]\n").len(), 1);
        assert!(file_problems("//! Doc.\n#[allow(dead_code, reason = \"x\")]\n").is_empty());
        assert!(bench_problem("<!-- bench: begin, version 0.0.0 -->").is_some());
        assert!(bench_problem(&format!("<!-- bench: begin, version {} -->", env!("CARGO_PKG_VERSION"))).is_none());
    }
}
