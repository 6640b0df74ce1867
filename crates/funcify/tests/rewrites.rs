//! Rules one by one: each file in `rewrites` names rules, and has a program before and after them. One that says `// stays`
//! has no program after: a precondition fails, and nothing happens. `FUNCIFY_BLESS=1` writes what becomes of the programs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use funcify::rewrite::{RULES, RewriteOptions};
use funcify::{Error, Graph};

/// A file of `rewrites`.
struct Case {
    path: PathBuf,
    rules: Vec<String>,
    /// The lines up to the program after.
    head: String,
    before: Graph,
    /// The program after; `None` if it stays.
    after: Option<String>,
}

impl Case {
    fn read(path: PathBuf) -> Case {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.display();
        let rules = text.lines().next().and_then(|line| line.strip_prefix("// rules: "));
        let rules = rules.unwrap_or_else(|| panic!("{name} does not begin with `// rules: `"));
        let rules = rules.split(", ").map(str::to_string).collect();
        let parts = text.split_once("// becomes\n");
        let stays = text.lines().any(|line| line == "// stays");
        assert!(stays != parts.is_some(), "{name} says `// stays` or `// becomes`");
        let head = parts.map_or(text.as_str(), |(head, _)| head).to_string();
        let before = Graph::parse(&head).unwrap_or_else(|error| panic!("{name}: {error}"));
        let after = parts.map(|(_, after)| after.to_string());
        Case { path, rules, head, before, after }
    }

    fn check(&self) -> BTreeSet<&'static str> {
        let name = self.path.display();
        let rules: Vec<&str> = self.rules.iter().map(String::as_str).collect();
        let options = RewriteOptions::new().only(&rules).texts();
        let rewritten = self.before.rewritten_with(&options).unwrap_or_else(|error| panic!("{name}: {error}"));
        rewritten.graph.check().unwrap_or_else(|errors| panic!("{name}: {}\n{}", errors[0], rewritten.graph));
        match &self.after {
            None => assert!(rewritten.patches.is_empty(), "{name}: {:?}\n{}", rewritten.patches, rewritten.graph),
            Some(after) if std::env::var_os("FUNCIFY_BLESS").is_some() => {
                if *after != rewritten.graph.to_string() {
                    std::fs::write(&self.path, format!("{}// becomes\n{}", self.head, rewritten.graph)).unwrap();
                }
            }
            Some(after) => assert_eq!(rewritten.graph.to_string(), *after, "{name}"),
        }
        rewritten.patches.iter().map(|patch| patch.rule).collect()
    }
}

fn cases() -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rewrites");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(Case::read).collect()
}

#[test]
fn programs_become_what_they_should() {
    let (mut used, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for case in cases() {
        if case.after.is_none() {
            refused.extend(case.rules.clone());
        }
        used.extend(case.check());
    }
    for rule in RULES {
        assert!(used.contains(rule.name), "no program shows {}", rule.name);
        assert!(refused.contains(rule.name), "no program shows where {} does nothing", rule.name);
    }
}

#[test]
fn a_rule_that_is_left_out_makes_no_patch() {
    for case in cases().iter().filter(|case| case.after.is_some()) {
        for rule in RULES {
            let without = case.before.rewritten_with(&RewriteOptions::new().without(rule.name)).unwrap();
            assert!(
                without.patches.iter().all(|patch| patch.rule != rule.name),
                "{}: {}",
                case.path.display(),
                rule.name
            );
        }
    }
}

#[test]
fn unknown_rules_are_named() {
    let graph = Graph::build("same", |g| g.input("x", "f32[]")).unwrap();
    for options in [RewriteOptions::new().without("unrolling"), RewriteOptions::new().only(&["unrolling"])] {
        match graph.rewritten_with(&options) {
            Err(Error::Type { found, expected, .. }) => {
                assert_eq!(found, "`unrolling`");
                assert!(expected.contains("hoisting"), "{expected}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The log shows what was there and what took its place.
#[test]
fn the_log_shows_before_and_after() {
    let graph = Graph::build("twice", |g| g.input("x", "f32[2,3]").t().t()).unwrap();
    let options = RewriteOptions::new().only(&["movement"]).texts();
    let rewritten = graph.rewritten_with(&options).unwrap();
    let texts: Vec<String> = rewritten.patches.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].starts_with("movement ("), "{}", texts[0]);
    assert!(texts[0].contains("- ") && texts[0].contains("+ "), "{}", texts[0]);
    assert!(texts[0].contains("transpose"), "{}", texts[0]);
}
