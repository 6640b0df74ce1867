//! Updates the chart, and the table on the benchmarks page. The table is between two markers, and the first marker
//! contains the benchmarked version.

use std::path::Path;

use anyhow::{Context, Result};

use super::{Run, chart, tables};

/// The beginning of the marker before the table, up to the version.
const BEGIN: &str = "<!-- bench: begin, version ";
const END: &str = "<!-- bench: end -->";

/// The Python requirements file, which pins the versions of the peers.
const REQUIREMENTS: &str = include_str!("../../peers/requirements.txt");

/// Writes the table of a run into the page, and redraws the chart.
pub(crate) fn write(run: &Run, root: &Path) -> Result<()> {
    let path = root.join("docs/benchmarks.md");
    let text = std::fs::read_to_string(&path)?;
    let table = format!("{}\n({}, {}.)\n", tables::overview(run).markdown(), jax(), run.machine);
    let text = replace_table(&text, &run.version, &table)?;
    std::fs::write(&path, &text)?;
    std::fs::write(root.join("docs/training-time.svg"), chart::draw(&text, &jax()))?;
    println!("wrote the table to {}, and the chart next to it", path.display());
    Ok(())
}

/// Returns the name and the version of JAX.
pub(super) fn jax() -> String {
    let version = REQUIREMENTS.lines().find_map(|line| line.strip_prefix("jax==")).expect("the peers have JAX");
    format!("JAX {version}")
}

/// Replaces the table between the markers, and the version in the first marker.
fn replace_table(text: &str, version: &str, table: &str) -> Result<String> {
    let begin = text.find(BEGIN).with_context(|| format!("docs/benchmarks.md has no line `{BEGIN}.. -->`"))?;
    let end = begin + text[begin..].find(END).with_context(|| format!("docs/benchmarks.md has no line `{END}`"))?;
    Ok(format!("{}{BEGIN}{version} -->\n\n{table}\n{}", &text[..begin], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_the_marks_is_replaced() {
        let text = "a\n<!-- bench: begin, version 0.0.1 -->\nold\n<!-- bench: end -->\nb\n";
        let new = replace_table(text, "0.1.0", "| t |\n").unwrap();
        assert_eq!(new, "a\n<!-- bench: begin, version 0.1.0 -->\n\n| t |\n\n<!-- bench: end -->\nb\n");
        assert!(replace_table("nothing", "0.1.0", "").is_err());
    }
}
