//! `cargo xtask status`: STATUS.md, which ops and dtypes each backend has.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use funcify::DType;
use funcify::dispatch::{Executor, backend_names, open_backend};
use funcify::ops::{CONTROL_FLOW, all_names};

use crate::root;

/// Writes the file, or checks that it is current.
pub(crate) fn run(check: bool) -> Result<bool> {
    let path = root().join("STATUS.md");
    let text = status()?;
    if !check {
        std::fs::write(&path, text).context("STATUS.md")?;
        println!("wrote STATUS.md");
        return Ok(true);
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default() == text;
    println!("STATUS.md is {}", if current { "current" } else { "not current: run `cargo xtask status`" });
    Ok(current)
}

fn status() -> Result<String> {
    let backends = backend_names().into_iter().map(open_backend).collect::<funcify::Result<Vec<_>>>();
    let backends = backends.map_err(|error| anyhow!("{error}"))?;
    let mut text =
        "# Status\n\nWritten by `cargo xtask status`; `cargo xtask test` checks that it is current.\n".to_string();

    text.push_str("\n## Ops\n\n`native` and `unroll` are how a backend runs loops unless told otherwise.\n\n");
    text.push_str(&head("op", &backends));
    for name in all_names() {
        let cells = backends.iter().map(|backend| has_op(backend.as_ref(), name).to_string());
        text.push_str(&line(&format!("`{name}`"), cells));
    }

    text.push_str("\n## Element types\n\n");
    text.push_str(&head("dtype", &backends));
    let mut reasons = Vec::new();
    for dtype in DType::ALL {
        let cells = backends.iter().map(|backend| match backend.lacks(dtype, 1) {
            None => "yes".to_string(),
            Some(reason) => {
                reasons.push(format!("- {}, {dtype}: {reason}", backend.name()));
                "no".to_string()
            }
        });
        text.push_str(&line(dtype.name(), cells));
    }
    if !reasons.is_empty() {
        text.push_str(&format!("\nWhy not:\n\n{}\n", reasons.join("\n")));
    }
    Ok(text)
}

fn has_op(backend: &dyn Executor, op: &str) -> &'static str {
    // A constant is uploaded when a program is compiled, and control flow is run from the host: no conversions.
    let has = op == "constant"
        || CONTROL_FLOW.contains(&op)
        || backend.has_fallback()
        || backend.converted_ops().contains(&op);
    match (has, op) {
        (true, "scan") => backend.loop_strategy().name(),
        (true, _) => "yes",
        (false, _) => "no",
    }
}

fn head(name: &str, backends: &[Arc<dyn Executor>]) -> String {
    let rule = backends.iter().map(|_| "---".to_string());
    line(name, backends.iter().map(|backend| backend.name().to_string())) + &line("---", rule)
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> String {
    format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "))
}
