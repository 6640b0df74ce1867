//! `funcify status`: writes STATUS.md, the table of the ops and dtypes that each backend supports.

use funcify::DType;
use funcify::dispatch::{Compiles, Executor};
use funcify::ops::{CONTROL_FLOW, all_names};
use funcify_conformance::support::{OpProgram, Support, determine_support, op_programs};

use super::*;

/// Writes STATUS.md, or returns an error if a backend is absent. If `check` is set, writes nothing. Instead, compares
/// the existing file with the current table, without the absent backends, and returns `false` if they differ.
pub(crate) fn run(check: bool) -> Result<bool> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../STATUS.md");
    let (mut present, mut absent) = (Vec::new(), Vec::new());
    for name in backend_names() {
        match open_backend(name) {
            Ok(backend) => present.push(backend),
            Err(funcify::Error::Unavailable { .. }) if check => absent.push(name),
            Err(error) => return Err(anyhow!("{error}")),
        }
    }
    let programs =
        op_programs(&all_cases().map_err(|error| anyhow!("{error}"))?).map_err(|error| anyhow!("{error}"))?;
    let text = status_text(&present, &programs)?;
    if !check {
        std::fs::write(&path, text).context("STATUS.md")?;
        println!("wrote STATUS.md");
        return Ok(true);
    }
    let current = remove_backends(&std::fs::read_to_string(&path).unwrap_or_default(), &absent) == text;
    println!("STATUS.md is {}", if current { "current" } else { "not current: run `cargo xtask status`" });
    if !absent.is_empty() {
        println!("not compared, because they are absent: {}", absent.join(", "));
    }
    Ok(current)
}

/// Removes absent backends from the text of STATUS.md: their columns in the tables, and their entries in the list of
/// reasons.
fn remove_backends(text: &str, absent: &[&str]) -> String {
    let mut dropped: Vec<usize> = Vec::new();
    let mut remaining = String::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        if cells.contains(&"reference") {
            let names = cells.iter().map(|cell| cell.trim_end_matches(" |"));
            dropped = names.enumerate().filter(|(_, name)| absent.contains(name)).map(|(index, _)| index).collect();
        }
        if absent.iter().any(|name| line.starts_with(&format!("- {name}, "))) {
            continue;
        }
        match line.starts_with("| ") && !dropped.is_empty() {
            true => {
                let cells = cells.iter().enumerate().filter(|(index, _)| !dropped.contains(index));
                let cells: Vec<&str> = cells.map(|(_, cell)| cell.trim_end_matches(" |")).collect();
                remaining.push_str(&format!("{} |\n", cells.join(" | ")));
            }
            false => remaining.push_str(&format!("{line}\n")),
        }
    }
    // If no reasons remain, remove their heading too.
    remaining.strip_suffix(REASONS_HEADING).map(str::to_string).unwrap_or(remaining)
}

/// The heading of the list of reasons for declared gaps.
const REASONS_HEADING: &str = "\nReasons for declared gaps:\n\n";

fn status_text(backends: &[Arc<dyn Executor>], programs: &[OpProgram]) -> Result<String> {
    let mut text =
        "# Status\n\nWritten by `cargo xtask status`; `cargo xtask test` checks that it is current.\n".to_string();

    text.push_str(OPS_HEADING);
    text.push_str(&table_head("op", backends));
    for name in all_names() {
        let cells =
            backends.iter().map(|backend| describe_op(backend.as_ref(), name, programs)).collect::<Result<Vec<_>>>()?;
        text.push_str(&table_row(&format!("`{name}`"), cells.into_iter()));
    }

    text.push_str("\n## Element types\n\n");
    text.push_str(&table_head("dtype", backends));
    let mut reasons = Vec::new();
    for dtype in DType::ALL {
        let cells = backends.iter().map(|backend| match backend.unsupported(dtype, 1) {
            None => "yes".to_string(),
            Some(reason) => {
                reasons.push(format!("- {}, {dtype}: {reason}", backend.name()));
                "declared".to_string()
            }
        });
        text.push_str(&table_row(dtype.name(), cells));
    }
    if !reasons.is_empty() {
        text.push_str(&format!("{REASONS_HEADING}{}\n", reasons.join("\n")));
    }
    Ok(text)
}

/// The text that precedes the table of ops.
const OPS_HEADING: &str = "
## Ops

Determined by running each op, in a loop, on each element type of its domain that the backend supports:

- `native`: the backend has a kernel for the op, or compiles it
- `fallback`: the reference evaluator computes the op, element by element
- `declared`: not supported; the backend rejects a program with the op and states the reason
- `host`: control flow on the host; the ops in its bodies run as their rows say
- for `scan`: the default strategy for loops, after `compiled` if the backend compiles loops where it can

";

/// Describes how a backend runs an op: the most common kind of support, then each other kind with its dtypes.
fn describe_op(backend: &dyn Executor, op: &str, programs: &[OpProgram]) -> Result<String> {
    if op == "scan" {
        let strategy = backend.loop_strategy().name();
        return Ok(if backend.compiles() == Compiles::Nothing {
            strategy.into()
        } else {
            format!("compiled, {strategy}")
        });
    }
    // Constants have no kernel: they are uploaded when a program is compiled.
    if op == "constant" || CONTROL_FLOW.contains(&op) {
        return Ok(if op == "constant" { "native" } else { "host" }.into());
    }
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for program in programs.iter().filter(|program| program.op == op && backend.unsupported(program.dtype, 1).is_none())
    {
        let support =
            determine_support(backend, program).map_err(|error| anyhow!("{op}, {}: {error}", program.dtype))?;
        let way = match support {
            Support::Native => "native",
            Support::Fallback => "fallback",
            Support::Declared(_) => "declared",
        };
        found.entry(way).or_default().push(program.dtype.name());
    }
    // The most common kind of support is written without dtypes.
    let most = found.iter().max_by_key(|(_, dtypes)| dtypes.len()).map(|(way, _)| *way);
    let Some(most) = most else { return Err(anyhow!("the suite has no case of `{op}`")) };
    let rest = found.iter().filter(|(way, _)| **way != most);
    let rest = rest.map(|(way, dtypes)| format!("{way}: {}", dtypes.join(" ")));
    Ok(std::iter::once(most.to_string()).chain(rest).collect::<Vec<String>>().join("; "))
}

fn table_head(name: &str, backends: &[Arc<dyn Executor>]) -> String {
    let rule = backends.iter().map(|_| "---".to_string());
    table_row(name, backends.iter().map(|backend| backend.name().to_string())) + &table_row("---", rule)
}

fn table_row(name: &str, cells: impl Iterator<Item = String>) -> String {
    format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_backend_is_left_out() {
        let text = "# Status\n\n| op | reference | a | b |\n| --- | --- | --- | --- |\n| `add` | yes | no | yes |\n\n\
                    - a, f64: has none\n- b, f16: has none\n";
        let without_a = "# Status\n\n| op | reference | b |\n| --- | --- | --- |\n| `add` | yes | yes |\n\n\
                         - b, f16: has none\n";
        let without_b = "# Status\n\n| op | reference | a |\n| --- | --- | --- |\n| `add` | yes | no |\n\n\
                         - a, f64: has none\n";
        assert_eq!(remove_backends(text, &["a"]), without_a);
        assert_eq!(remove_backends(text, &["b"]), without_b);
        assert_eq!(remove_backends(text, &[]), text);
    }
}
