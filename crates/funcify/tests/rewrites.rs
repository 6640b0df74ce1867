//! Tests rewrites in isolation. Each file in `rewrites` names the rules to apply, and contains a program before and
//! after the rewrite. A file with `// stays` has no second program, because its program does not meet the rules'
//! preconditions. `FUNCIFY_BLESS=1` updates the rewritten programs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use funcify::rewrite::{Parallel, Patched, RULES, Rewrite, RewriteOptions, Tolerance};
use funcify::{DType, Error, Graph, HostTensor, Scalar, Sizes, TensorType, evaluate};

/// A file in `rewrites`.
struct Case {
    path: PathBuf,
    rules: Vec<String>,
    /// The lines that precede the second program.
    head: String,
    before: Graph,
    /// The program after the rewrites, or `None` if the rewrites must not change the program.
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
        assert!(stays != parts.is_some(), "{name} must have either `// stays` or `// becomes`");
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
        assert!(used.contains(rule.name), "no program tests {}", rule.name);
        assert!(refused.contains(rule.name), "no program tests where {} does not apply", rule.name);
    }
}

/// Builds arguments for a program. The program's symbols, sorted by name, get the values in `sizes`, repeated as
/// needed. Returns `None` if an input cannot have these sizes.
fn arguments(graph: &Graph, sizes: &[usize]) -> Option<Vec<HostTensor>> {
    let types: Vec<_> = (0..graph.inputs().len()).map(|index| graph.input_type(index)).collect();
    let mut symbols: Vec<_> = types.iter().flat_map(|ty| ty.shape.dims()).flat_map(|dim| dim.symbols()).collect();
    symbols.sort();
    symbols.dedup();
    let mut bound = Sizes::new();
    symbols.into_iter().zip(sizes.iter().cycle()).for_each(|(symbol, size)| bound.set(symbol, *size));
    let mut number = 0;
    let mut element = |dtype: DType| {
        number += 1;
        match dtype {
            DType::Bool => Scalar::Bool(number % 3 == 0),
            dtype if dtype.is_int() => Scalar::Int(number % 4),
            _ => Scalar::Float(((number * 37) % 41) as f64 / 20.0 - 1.0),
        }
    };
    let tensor =
        |ty: &TensorType| Some(HostTensor::from_fn(ty.dtype, &ty.shape.value(&bound).ok()?, |_| element(ty.dtype)));
    types.into_iter().map(tensor).collect()
}

/// A rewritten program fails with the same kind of error as the original, or returns the same results: bit for bit,
/// unless a rule reassociates sums.
#[test]
fn programs_give_what_they_gave() {
    for case in cases() {
        let rules: Vec<&str> = case.rules.iter().map(String::as_str).collect();
        let rewritten = case.before.rewritten_with(&RewriteOptions::new().only(&rules)).unwrap();
        let reorders = |patch: &Patched| RULES.iter().any(|rule| rule.name == patch.rule && rule.reorders_sums);
        let tolerance = if rewritten.patches.iter().any(reorders) { 1e-4 } else { 0.0 };
        for sizes in [[0, 0], [1, 1], [2, 3], [3, 1], [7, 4]] {
            let Some(arguments) = arguments(&case.before, &sizes) else { continue };
            let what = format!("{} of {sizes:?}", case.path.display());
            let (before, after) = (evaluate(&case.before, &arguments), evaluate(&rewritten.graph, &arguments));
            let (before, after) = match (before, after) {
                (Ok(before), Ok(after)) => (before, after),
                (before, after) => {
                    let kinds = [before, after].map(|outcome| outcome.err().map(|error| error.kind()));
                    assert_eq!(kinds[0], kinds[1], "{what}");
                    continue;
                }
            };
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before.ty(), after.ty(), "{what}");
                let (left, right) = (before.to_f64_vec(), after.to_f64_vec());
                let is_near = |(a, b): (&f64, &f64)| {
                    a.to_bits() == b.to_bits()
                        || (a.is_nan() && b.is_nan())
                        || (a - b).abs() <= tolerance * (1.0 + a.abs())
                };
                assert!(left.iter().zip(&right).all(is_near), "{what}: {after:?}\nnot\n{before:?}");
            }
        }
    }
}

#[test]
fn a_rule_that_is_left_out_makes_no_patch() {
    for case in cases().iter().filter(|case| case.after.is_some()) {
        for rule in RULES {
            let without = case.before.rewritten_with(&RewriteOptions::new().without(rule.name)).unwrap();
            let is_gone = without.patches.iter().all(|patch| patch.rule != rule.name);
            assert!(is_gone, "{}: {}", case.path.display(), rule.name);
        }
    }
}

/// By default, a rule that may change results by more than reassociating sums does not run. Naming the rule enables it.
#[test]
fn rules_on_request_are_asked_for_by_name() {
    let case = cases().into_iter().find(|case| case.path.ends_with("affine.fir")).unwrap();
    let count = |options: RewriteOptions| {
        let rewritten = case.before.rewritten_with(&options).unwrap();
        rewritten.counts().get("affine_recurrence").copied().unwrap_or(0)
    };
    assert_eq!(count(RewriteOptions::new()), 0);
    assert_eq!(count(RewriteOptions::new().with("affine_recurrence")), 3);
    assert_eq!(count(RewriteOptions::new().with("affine_recurrence").without("affine_recurrence")), 0);
}

/// A rule that changes rounding also runs without being named, if the options tolerate the change and the device
/// prefers low depth.
#[test]
fn tolerance_and_a_device_ask_for_depth_together() {
    let case = cases().into_iter().find(|case| case.path.ends_with("affine.fir")).unwrap();
    let rewritten = |options: &RewriteOptions| case.before.rewritten_with(options).unwrap().graph.to_string();
    let new = RewriteOptions::new;
    let [exact, named] = [new(), new().with("affine_recurrence")].map(|options| rewritten(&options));
    assert!(!exact.contains("associative_scan") && named.contains("associative_scan"), "{exact}\n{named}");
    let tolerant = || new().tolerance(Tolerance::Reassociated);
    for (options, expected) in [
        (tolerant().parallel(Parallel::Prefer), &named),
        (tolerant().parallel(Parallel::Avoid), &exact),
        (tolerant(), &exact),
        (new().parallel(Parallel::Prefer), &exact),
        (new().parallel(Parallel::Prefer).tolerance(Tolerance::Exact), &exact),
        (tolerant().parallel(Parallel::Prefer).without("affine_recurrence"), &exact),
    ] {
        assert_eq!(rewritten(&options), *expected, "{options:?}");
    }
}

#[test]
fn unknown_rules_are_named() {
    let graph = Graph::build("same", |g| g.input("x", "f32[]")).unwrap();
    let new = RewriteOptions::new;
    for options in [new().with("unrolling"), new().without("unrolling"), new().only(&["unrolling"])] {
        match graph.rewritten_with(&options) {
            Err(Error::Type { found, expected, .. }) => {
                assert_eq!(found, "`unrolling`");
                assert!(expected.contains("hoisting"), "{expected}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The rewrite log shows each replaced node and its replacement.
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
