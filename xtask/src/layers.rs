//! The layers of the core: which of its modules may name which.

/// The modules of `crates/funcify/src`, from the ground up. A module names those on the lines before its own, and those on its
/// line.
///
/// The one line of several is a circle that cannot be cut without tearing ops apart: an op's rules stand in its file
/// (`ops`), are written with values (`value`, `tree`), in the trace that they extend (`graph`), and are what derivatives
/// and lanes ask for (`derivative`, `vmap`).
const LAYERS: [&[&str]; 14] = [
    &["error"],
    &["types"],
    &["host"],
    &["cancel"],
    &["memory"],
    &["files"],
    &["derivative", "graph", "ops", "tree", "value", "vmap"],
    &["rewrite"],
    &["text"],
    &["eval"],
    &["straight"],
    &["random"],
    &["nn"],
    &["dispatch"],
];

/// The folder of the core, as `tidy` names its files.
const CORE: &str = "crates/funcify/src/";

/// Macros at the root, which may be used anywhere.
const MACROS: [&str; 2] = ["funcify!", "register_backend!"];

/// The lines of a file that name a module of a higher layer, or the crate's root. Tests may name everything.
pub(crate) fn problems(name: &str, text: &str) -> Vec<String> {
    let Some(inside) = name.strip_prefix(CORE) else { return Vec::new() };
    let module = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    if module == "lib" || inside.ends_with("tests.rs") || inside.ends_with("testing.rs") {
        return Vec::new();
    }
    let Some(own) = layer(module) else {
        return vec![format!("`{module}` is in no layer: give it its place in xtask/src/layers.rs")];
    };
    let tests = text.lines().position(|line| line.trim_start().starts_with("mod tests {")).unwrap_or(usize::MAX);
    let code = text.lines().enumerate().take(tests).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = code.flat_map(|(number, line)| named(line).map(move |named| (number + 1, line, named)));
    let up = found.filter_map(|(number, line, named)| match layer(named) {
        Some(other) if other <= own => None,
        Some(_) => Some(format!("line {number}: `{named}` is above `{module}`: `{}`", line.trim())),
        None => Some(format!("line {number}: name the module, not the crate's root: `{}`", line.trim())),
    });
    up.collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// What stands after each `crate::` of a line: a module, or something else.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let own = line.match_indices("crate::").filter(|(at, _)| !line[..*at].ends_with(['$', '_']));
    let rest = own.map(|(at, root)| &line[at + root.len()..]);
    let rest = rest.filter(|rest| !MACROS.iter().any(|name| rest.starts_with(name)));
    rest.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::problems;

    #[test]
    fn an_arrow_up_is_refused_with_its_line() {
        let of =
            |file: &str, line: &str| problems(&format!("crates/funcify/src/{file}"), &format!("//! Doc.\n{line}\n"));
        assert!(of("graph/live.rs", "use crate::ops::{Op, OpRules};").is_empty());
        assert!(of("dispatch/lower.rs", "use crate::rewrite::fold;").is_empty());
        assert!(of("graph/live.rs", "// as crate::dispatch does").is_empty());
        assert!(of("ops/custom.rs", "$crate::inventory::submit! {").is_empty());
        assert!(of("dispatch/reference.rs", "crate::funcify!(Reference, Scan, native_loop);").is_empty());
        let up = of("graph/live.rs", "    let x = crate::dispatch::Reference;");
        assert_eq!(up, ["line 2: `dispatch` is above `graph`: `let x = crate::dispatch::Reference;`"]);
        assert!(of("error.rs", "use crate::graph::Graph;")[0].contains("`graph` is above `error`"));
        assert!(of("vmap/mod.rs", "use crate::{Graph, Value};")[0].contains("name the module"));
        assert!(of("new.rs", "")[0].contains("in no layer"));
        assert!(of("host/mod.rs", "#[cfg(test)]\nmod tests {\n    use crate::evaluate;\n}").is_empty());
    }
}
