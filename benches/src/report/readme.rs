//! The README's table, between two marks that name the version that ran.

use std::path::Path;

use anyhow::{Context, Result};

use super::{Run, tables};

/// What stands before the table; the version follows.
const BEGIN: &str = "<!-- bench: begin, version ";
const END: &str = "<!-- bench: end -->";

/// Writes the table of a run into the README.
pub(crate) fn write(run: &Run, root: &Path) -> Result<()> {
    let path = root.join("README.md");
    let text = std::fs::read_to_string(&path)?;
    let table = format!("{}\n({}.)\n", tables::overview(run).markdown(), run.machine);
    std::fs::write(&path, replaced(&text, &run.version, &table)?)?;
    println!("the table is in {}", path.display());
    Ok(())
}

/// The text with what is between the marks replaced.
fn replaced(text: &str, version: &str, table: &str) -> Result<String> {
    let begin = text.find(BEGIN).with_context(|| format!("the README has no line `{BEGIN}.. -->`"))?;
    let end = begin + text[begin..].find(END).with_context(|| format!("the README has no line `{END}`"))?;
    Ok(format!("{}{BEGIN}{version} -->\n\n{table}\n{}", &text[..begin], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_between_the_marks_is_replaced() {
        let text = "a\n<!-- bench: begin, version 0.0.1 -->\nold\n<!-- bench: end -->\nb\n";
        let new = replaced(text, "0.1.0", "| t |\n").unwrap();
        assert_eq!(new, "a\n<!-- bench: begin, version 0.1.0 -->\n\n| t |\n\n<!-- bench: end -->\nb\n");
        assert!(replaced("nothing", "0.1.0", "").is_err());
    }
}
