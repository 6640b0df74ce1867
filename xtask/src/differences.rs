//! Writes the table of differences between funcify's models and those of the tensor libraries. The tests of the
//! models record the differences.

use std::fmt::Write;
use std::fs;

use crate::{Outcome, check, root};

/// The path of the table.
const TABLE: &str = "tests/models/DIFFERENCES.md";
/// The compared models. Each entry holds the name of its test, the name under which the test records its differences,
/// and its name in the table.
const MODELS: [(&str, &str, &str); 11] = [
    ("mamba", "mamba", "candle-transformers `mamba`"),
    ("mamba2", "mamba2", "candle-transformers `mamba2`"),
    ("rwkv", "rwkv", "candle-transformers `rwkv_v5`, `rwkv_v6`"),
    ("recurrent_gemma", "recurrent_gemma", "candle-transformers `recurrent_gemma`"),
    ("encodec", "encodec", "candle-transformers `encodec`, its LSTMs"),
    ("rnn", "Lstm", "burn-nn `Lstm`"),
    ("rnn", "BiLstm", "burn-nn `BiLstm`"),
    ("rnn", "Gru", "burn-nn `Gru`"),
    ("rnn", "BiGru", "burn-nn `BiGru`"),
    ("rnn", "Rnn", "burn-nn `Rnn`"),
    ("rnn", "BiRnn", "burn-nn `BiRnn`"),
];

/// Runs the tests of all models and writes the table. Returns `false` if a test fails.
pub(crate) fn write() -> Outcome {
    let notes = std::env::temp_dir().join(format!("funcify-differences-{}", std::process::id()));
    let noted = notes.to_string_lossy().into_owned();
    let mut arguments = vec!["test", "--workspace"];
    let mut tests: Vec<&str> = MODELS.iter().map(|(test, ..)| *test).collect();
    tests.dedup();
    arguments.extend(tests.iter().flat_map(|test| ["--test", test]));
    if !check::cargo_with(&[("FUNCIFY_DIFFERENCES", &noted)], &arguments)? {
        return Ok(false);
    }
    let text = fs::read_to_string(&notes).map_err(|error| format!("{}: {error}", notes.display()))?;
    fs::remove_file(&notes)?;
    let largest = |model: &str, kind: &str| {
        let prefix = format!("{model}\t{kind}\t");
        let offs = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.parse::<f64>().ok());
        offs.fold(None, |largest: Option<f64>, off| Some(largest.map_or(off, |largest| largest.max(off))))
    };
    let mut table = "# Library models with replaced loops: the largest differences\n\nWritten by `cargo xtask \
                     weights`. Differences from the library's own model with the same weights in f32, relative to the \
                     largest element of each tensor. Gradients are compared if the library computes them, and \
                     otherwise checked against finite differences of losses.\n\n| model | outputs and states | \
                     gradients |\n|---|--:|--:|\n"
        .to_string();
    for (_, model, title) in MODELS {
        let cell = |kind| largest(model, kind).map_or("".into(), |off| format!("{off:.1e}"));
        let (outputs, gradients) = (cell("outputs"), cell("gradients"));
        if outputs.is_empty() {
            return Err(format!("the tests recorded no differences of `{model}`").into());
        }
        writeln!(table, "| {title} | {outputs} | {gradients} |")?;
    }
    fs::write(root().join(TABLE), table)?;
    println!("{TABLE}");
    Ok(true)
}
