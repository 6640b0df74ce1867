//! Checks that modules respect the layers of their crate: a module may name only modules of its own layer and of lower
//! layers.

/// A crate with layered modules.
struct Layered {
    /// The folder of the crate's sources, relative to the root of the repository.
    sources: &'static str,
    /// The crate's modules, grouped by layer, bottom layer first. A module may name modules of its own layer and of
    /// lower layers.
    layers: &'static [&'static [&'static str]],
}

const CRATES: [Layered; 10] = [
    // One layer contains modules that depend on each other cyclically. Breaking the cycle would require distributing
    // the rules of an op over several files. All rules of an op are in its file (`ops`). They compute with values
    // (`value`), add nodes to a graph (`graph`), and are called by derivatives and batching (`derivative`, `vmap`).
    Layered {
        sources: "crates/funcify-core/src/",
        layers: &[
            &["fixpoint", "progress"],
            &["error", "place"],
            &["types"],
            &["host"],
            &["cancel"],
            &["memory"],
            &["handle"],
            &["tree"],
            &["derivative", "graph", "ops", "value", "vmap"],
            &["text"],
            &["eval"],
            &["straight"],
            &["random"],
        ],
    },
    Layered {
        sources: "crates/funcify-runtime/src/",
        layers: &[&["cache"], &["backend"], &["prepare"], &["run"], &["lower"], &["function"], &["host"], &["stepped"]],
    },
    Layered {
        sources: "crates/funcify-analysis/src/",
        layers: &[
            &["element"],
            &["layout"],
            &["occupants"],
            &["contents"],
            &["order"],
            &["parallel"],
            &["innermost"],
            &["ranges"],
        ],
    },
    Layered {
        sources: "crates/funcify-body/src/",
        layers: &[
            &["float"],
            &["machine"],
            &["kernels"],
            &["ir"],
            &["pairs"],
            &["placement"],
            &["code"],
            &["fused"],
            &["convert"],
            &["integer"],
            &["block"],
            &["typed"],
            &["pair_kernels"],
            &["single"],
            &["tiles"],
        ],
    },
    // Although `planner` is in a lower layer than `proof`, `proof` must not use it: see `INDEPENDENT`.
    Layered {
        sources: "crates/funcify-cpu/src/",
        layers: &[
            &["kernels"],
            &["plan"],
            &["fired"],
            &["planner"],
            &["views"],
            &["threads"],
            &["body"],
            &["run"],
            &["proof"],
            &["engine"],
            &["residuals"],
            &["backend"],
            &["slices"],
        ],
    },
    Layered {
        sources: "crates/funcify-jit/src/",
        layers: &[&["error"], &["number"], &["builder"], &["operations"], &["product"], &["routine"]],
    },
    Layered {
        sources: "crates/funcify-burn/src/",
        layers: &[
            &["kinds"],
            &["dtypes"],
            &["device"],
            &["data"],
            &["on_host"],
            &["on_device"],
            &["compiled"],
            &["ops"],
            &["backend"],
            &["plugin"],
            &["capture"],
            &["rnn"],
            &["nn"],
        ],
    },
    Layered {
        sources: "crates/funcify-candle/src/",
        layers: &[
            &["errors"],
            &["device"],
            &["autodiff"],
            &["cpu", "product"],
            &["compiled"],
            &["differentiable"],
            &["ops"],
            &["tree"],
            &["closures"],
            &["backend"],
            &["rnn"],
            &["nn"],
        ],
    },
    Layered {
        sources: "crates/funcify-conformance/src/",
        layers: &[
            &["arbitrary"],
            &["case"],
            &["differences"],
            &["expectations"],
            &["compare"],
            &["golden"],
            &["derivatives"],
            &["singular"],
            &["lanes"],
            &["cases"],
            &["custom"],
            &["support"],
            &["suite"],
            &["runner"],
            &["report", "unlocks"],
            &["harness"],
            &["properties"],
            &["templates"],
            &["mutants"],
        ],
    },
    Layered {
        sources: "benches/src/",
        layers: &[
            &["memory"],
            &["protocol"],
            &["connection"],
            &["inputs"],
            &["workloads"],
            &["generality"],
            &["subjects"],
            &["rows"],
            &["before"],
            &["compare"],
            &["planning"],
            &["steps"],
            &["peers"],
            &["report"],
            &["baseline"],
            &["worker"],
            &["harness"],
            &["kinds"],
            &["profile"],
            &["cancel", "main"],
        ],
    },
];

/// Modules that must be independent of the rest of their crate, each with the modules that it may name.
///
/// The proof of a plan must not use the code that made the plan, because a mistake in shared code would go unnoticed.
const INDEPENDENT: [Independent; 1] = [Independent {
    sources: "crates/funcify-cpu/src/proof/",
    may_name: &["body", "kernels", "machine", "plan", "run"],
    unknown: &["planner", "dispatch"],
}];

/// A module that may use only certain other modules.
struct Independent {
    sources: &'static str,
    may_name: &'static [&'static str],
    /// Words that must not occur in the module's code.
    unknown: &'static [&'static str],
}

impl Independent {
    fn problems(&self, text: &str) -> Vec<String> {
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let mut problems = Vec::new();
        for (number, line) in code {
            let names = named_modules(line).filter(|name| !self.may_name.contains(name));
            let words = self.unknown.iter().copied().filter(|word| line.contains(word));
            let mut unknown: Vec<&str> = names.chain(words).collect();
            unknown.dedup();
            problems.extend(
                unknown.into_iter().map(|name| {
                    format!("line {}: the plan checker must not use `{name}`: `{}`", number + 1, line.trim())
                }),
            );
        }
        problems
    }
}

/// The macros at the crate root, which may be used anywhere.
const MACROS: [&str; 3] = ["for_tuples!", "funcify!", "register_backend!"];

/// Returns a problem for each line that names a module of a higher layer or an item of the crate root. Tests may name
/// any module.
pub(crate) fn problems(name: &str, text: &str) -> Vec<String> {
    if let Some(independent) = INDEPENDENT.iter().find(|independent| name.starts_with(independent.sources)) {
        return independent.problems(text);
    }
    let own = CRATES.iter().find_map(|layered| Some((layered.layers, name.strip_prefix(layered.sources)?)));
    let Some((layers, inside)) = own else { return Vec::new() };
    let path: Vec<&str> = inside.trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect();
    let module = path[0];
    if module == "lib" || inside.ends_with("tests.rs") || inside.ends_with("testing.rs") {
        return Vec::new();
    }
    let layer = |module: &str| layers.iter().position(|layer| layer.contains(&module));
    let Some(own) = layer(module) else {
        return vec![format!("`{module}` is in no layer: add it to one in xtask/tidy/src/layers.rs")];
    };
    let to_root = "super::".repeat(path.len());
    let tests = text.lines().position(|line| line.trim_start().starts_with("mod tests {")).unwrap_or(usize::MAX);
    let code = text.lines().enumerate().take(tests).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let mut problems = Vec::new();
    for (number, line) in code {
        let mut refuse = |reason: &str| problems.push(format!("line {}: {reason}: `{}`", number + 1, line.trim()));
        if line.contains(&to_root) {
            refuse("name the module from `crate`, not through `super`");
        }
        for named in named_modules(line) {
            match layer(named) {
                Some(other) if other <= own => {}
                Some(_) => refuse(&format!("`{named}` is above `{module}`")),
                None => refuse("name the module, not the crate's root"),
            }
        }
    }
    problems
}

/// Returns the names of the modules or items that follow each `crate::` in a line, directly or in braces.
fn named_modules(line: &str) -> impl Iterator<Item = &str> {
    let own = line.match_indices("crate::").filter(|(at, _)| !line[..*at].ends_with(['$', '_']));
    let rest = own.map(|(at, root)| &line[at + root.len()..]);
    let rest = rest.filter(|rest| !MACROS.iter().any(|name| rest.starts_with(name)));
    rest.flat_map(|rest| {
        let (names, count) = match rest.strip_prefix('{') {
            Some(list) => (list.split('}').next().expect("a split has a first part"), usize::MAX),
            None => (rest, 1),
        };
        names.split(',').take(count)
    })
    .map(|name| name.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().expect("a split has a first part"))
}

#[cfg(test)]
mod tests {
    use super::problems;

    #[test]
    fn the_checker_of_plans_knows_nothing_of_the_planner() {
        let of = |line: &str| problems("crates/funcify-cpu/src/proof/subject.rs", line);
        assert!(of("use crate::plan::{Op, Plan};").is_empty());
        assert!(of("// as crate::planner does").is_empty());
        let found = of("use crate::planner::GraphPlan;");
        let message = "the plan checker must not use `planner`: `use crate::planner::GraphPlan;`";
        assert_eq!(found, [format!("line 1: {message}")]);
        assert_eq!(of("use super::super::planner::view::View;").len(), 1);
        assert_eq!(of("use funcify::dispatch::Whole;").len(), 1);
        assert_eq!(of("use crate::engine::Engine;").len(), 1);
    }

    #[test]
    fn an_arrow_up_is_refused_with_its_line() {
        let of = |file: &str, line: &str| {
            problems(&format!("crates/funcify-core/src/{file}"), &format!("//! Doc.\n{line}\n"))
        };
        assert!(of("graph/live.rs", "use crate::ops::{Op, OpRules};").is_empty());
        assert!(of("text/parse.rs", "use crate::graph::Graph;").is_empty());
        assert!(of("graph/live.rs", "// as crate::dispatch does").is_empty());
        assert!(of("ops/custom.rs", "$crate::inventory::submit! {").is_empty());
        assert!(of("random.rs", "crate::funcify!(Reference, Scan, native_loop);").is_empty());
        let up = of("graph/live.rs", "    let x = crate::text::parse;");
        assert_eq!(up, ["line 2: `text` is above `graph`: `let x = crate::text::parse;`"]);
        assert!(of("error.rs", "use crate::graph::Graph;")[0].contains("`graph` is above `error`"));
        assert!(of("vmap/mod.rs", "use crate::{Graph, Value};")[0].contains("name the module"));
        assert!(of("new.rs", "")[0].contains("in no layer"));
        assert!(of("graph/live.rs", "use super::{Graph, Node};").is_empty());
        assert!(of("graph/live.rs", "use super::super::text::parse;")[0].contains("name the module from `crate`"));
        let list = "use crate::{data, plugin::Differentiable};";
        assert_eq!(problems("crates/funcify-burn/src/ops/cast.rs", list).len(), 1);
        let other = problems("crates/funcify-burn/src/device.rs", "use crate::plugin::Differentiable;");
        assert!(other[0].contains("`plugin` is above `device`"));
        assert!(of("host/mod.rs", "#[cfg(test)]\nmod tests {\n    use crate::evaluate;\n}").is_empty());
    }
}
