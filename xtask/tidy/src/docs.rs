//! Checks the Markdown files: links within the repository must resolve, and the main pages must be short.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The maximum number of words in each of the main pages, excluding tables and listings.
const MAX_WORDS: [(&str, usize); 2] = [("README.md", 1000), ("ARCHITECTURE.md", 2500)];

/// Returns a description of each problem in the pages. `pages` maps each path to its text, and `exists` returns `true`
/// if a path exists.
pub(crate) fn problems(pages: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, text) in pages {
        let name = path.display();
        for link in links(text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { resolve_link(path, file) };
            if !exists(&target) {
                problems.push(format!("{name}: the link `{link}` leads nowhere"));
            } else if !anchor.is_empty() && !pages.get(&target).is_some_and(|page| anchors(page).contains(anchor)) {
                problems.push(format!("{name}: there is no heading for the link `{link}`"));
            }
        }
    }
    for (name, max_words) in MAX_WORDS {
        let count = pages.get(Path::new(name)).map_or(0, |text| words(text));
        if count == 0 || count > max_words {
            problems.push(format!("{name}: {count} words; at most {max_words}"));
        }
    }
    problems
}

/// Returns the lines outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_listing = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_listing ^= is_fence;
        !is_listing && !is_fence
    })
}

fn words(text: &str) -> usize {
    prose(text).filter(|line| !line.starts_with('|')).map(|line| line.split_whitespace().count()).sum()
}

/// Returns the targets of links within the repository.
fn links(text: &str) -> Vec<&str> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// Returns the anchors of the headings, as GitHub generates them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letters = |heading: &str| {
        let kept = heading.to_lowercase();
        kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
    };
    headings.map(letters).collect()
}

/// Resolves a link relative to its page. Returns a path without `..`.
fn resolve_link(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let mut pages: BTreeMap<PathBuf, String> =
            pages.iter().map(|(path, text)| (path.into(), text.to_string())).collect();
        for (name, _) in MAX_WORDS {
            pages.entry(name.into()).or_insert("Some words".into());
        }
        problems(&pages, |path| pages.contains_key(path))
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let page =
            "# The API, in `short`\n[a](../README.md) [b](#the-api-in-short) [c](https://x.y/z)\n```\n[d](no)\n```\n";
        assert_eq!(found(&[("docs/page.md", page)]), [""; 0]);
        assert_eq!(found(&[("docs/page.md", "[a](README.md)")]), ["docs/page.md: the link `README.md` leads nowhere"]);
        let other = found(&[("docs/page.md", "# One\n[a](#two)")]);
        assert_eq!(other, ["docs/page.md: there is no heading for the link `#two`"]);
    }

    #[test]
    fn first_pages_are_short() {
        let text = |count: usize| "word ".repeat(count) + "\n| a table | has words |\n```\nand a listing\n```\n";
        assert_eq!(found(&[("README.md", &text(1000))]), [""; 0]);
        assert_eq!(found(&[("README.md", &text(1001))]), ["README.md: 1001 words; at most 1000"]);
    }
}
