//! Loads weights of torch and transformers by name, in Candle and in Burn, and compares outputs and gradients with
//! those of the original libraries.
//!
//! `FUNCIFY_BLESS=1 cargo test --workspace --test weights` rewrites the table of the largest differences,
//! `tests/weights/DIFFERENCES.md`. `tests/weights/README.md` says where the weights come from.

mod burn;
mod candle;
mod golden;

use std::fmt::Write;

use funcify::nn::{Cell, DeltaNet, Griffin, Mamba, Mamba2, Recurrent, Rwkv4, XlstmLarge};

use crate::golden::{Differences, Golden, differences, folder};

/// The number of features of each model, as in `tests/weights/make.py`.
const FEATURES: usize = 16;
const VOCABULARY: usize = 32;
const LAYERS: usize = 2;

/// The maximum difference between an output and torch's result, relative to the largest element of the output. Torch
/// and funcify both compute in f32.
const OUTPUTS: f64 = 1e-5;
/// The maximum difference between a gradient and torch's result, relative to the largest element of the gradient.
const GRADIENTS: f64 = 2e-5;

fn mamba() -> Mamba {
    Mamba { states: 5, rank: 3, ..Mamba::new(FEATURES) }
}

fn mamba2() -> Mamba2 {
    Mamba2 { heads: 4, head: 8, states: 5, groups: 2, ..Mamba2::new(FEATURES) }
}

fn recurrent_gemma() -> Griffin {
    Griffin { inner: 24, ..Griffin::new(FEATURES, 2) }
}

/// The number of features per head that RecurrentGemma's attention rotates.
const ROTATED: usize = 4;
/// The number of steps to which a step can attend, including itself.
const WINDOW: usize = 5;

/// Returns the cosines and the sines of the rotation angles of each step, `[steps, ROTATED / 2]` each.
fn rotations(steps: usize) -> [Vec<f32>; 2] {
    let frequency = |pair: usize| 10_000f64.powf(-2.0 * pair as f64 / ROTATED as f64);
    let angles = (0..steps).flat_map(|step| (0..ROTATED / 2).map(move |pair| step as f64 * frequency(pair)));
    let angles: Vec<f64> = angles.collect();
    [angles.iter().map(|angle| angle.cos() as f32).collect(), angles.iter().map(|angle| angle.sin() as f32).collect()]
}

/// Returns the mask to add to the attention scores, `[steps, steps]`. It is zero where a step may attend to another
/// step, and the lowest f32 elsewhere.
fn attention_mask(steps: usize) -> Vec<f32> {
    let is_seen = |step: usize, other: usize| other <= step && step - other < WINDOW;
    let row = |step: usize| (0..steps).map(move |other| if is_seen(step, other) { 0.0 } else { f32::MIN });
    (0..steps).flat_map(row).collect()
}

fn xlstm() -> XlstmLarge {
    XlstmLarge::new(FEATURES, 2)
}

fn rwkv() -> Rwkv4 {
    Rwkv4 { inner: 24, ..Rwkv4::new(FEATURES) }
}

fn gated_delta_net() -> DeltaNet {
    DeltaNet { key: 8, value: 12, gated: true, negative: true, ..DeltaNet::new(FEATURES, 2) }
}

/// The models of `transformers`, each with its name in the golden files and its name in the table of differences.
const MODELS: [(&str, &str); 5] = [
    ("mamba", "transformers `MambaForCausalLM`"),
    ("mamba2", "transformers `Mamba2ForCausalLM`"),
    ("recurrent_gemma", "transformers `RecurrentGemmaForCausalLM`"),
    ("xlstm", "transformers `xLSTMForCausalLM`"),
    ("rwkv", "transformers `RwkvForCausalLM` (RWKV-4)"),
];

/// Returns the layers of `torch.nn`, each with its name in the golden files, its name in the table of differences, and
/// its options.
fn layers() -> Vec<(&'static str, &'static str, Recurrent)> {
    let one = |cell| Recurrent::new(cell, 3, 4);
    let stacked = |cell| Recurrent { layers: 2, bidirectional: true, ..one(cell) };
    vec![
        ("rnn", "torch `nn.RNN`", one(Cell::Rnn)),
        ("rnn_stacked", "torch `nn.RNN`, 2 layers, both directions", stacked(Cell::Rnn)),
        ("relu_rnn", "torch `nn.RNN` with `relu`", one(Cell::ReluRnn)),
        ("gru", "torch `nn.GRU`", one(Cell::Gru)),
        ("gru_stacked", "torch `nn.GRU`, 2 layers, both directions", stacked(Cell::Gru)),
        ("lstm", "torch `nn.LSTM`", one(Cell::Lstm)),
        ("lstm_without_bias", "torch `nn.LSTM` without biases", Recurrent { bias: false, ..one(Cell::Lstm) }),
        ("lstm_stacked", "torch `nn.LSTM`, 2 layers, both directions", stacked(Cell::Lstm)),
    ]
}

#[test]
fn weights_that_others_trained() {
    let mut rows: Vec<(&str, [Differences; 2])> = Vec::new();
    let of_layers = Golden::read("layers");
    for (name, title, options) in layers() {
        let golden = of_layers.part(name);
        let found = [candle::layer(&options, &golden).unwrap(), burn::layer(&options, &golden)];
        rows.push((title, found.map(|found| differences(&found, &golden))));
    }
    for (name, title) in MODELS {
        let golden = Golden::read(name);
        let found = [candle::model(name, &golden).unwrap(), burn::model(name, &golden)];
        rows.push((title, found.map(|found| differences(&found, &golden))));
    }
    let golden = Golden::read("gated_delta_net");
    let found = [candle::gated_delta_net(&golden).unwrap(), burn::gated_delta_net(&golden)];
    rows.push(("transformers `OlmoHybridGatedDeltaNet`, the layer", found.map(|found| differences(&found, &golden))));
    let table = table(&rows);
    println!("{table}");
    for (title, found) in &rows {
        for (framework, Differences { outputs, gradients, .. }) in ["Candle", "Burn"].iter().zip(found) {
            assert!(*outputs <= OUTPUTS, "{title} in {framework}: outputs are off by {outputs:e}");
            assert!(*gradients <= GRADIENTS, "{title} in {framework}: gradients are off by {gradients:e}");
        }
    }

    // Compare only the list of models and the numbers of elements, because the differences depend on the processor.
    let file = folder().join("DIFFERENCES.md");
    if std::env::var_os("FUNCIFY_BLESS").is_some() {
        std::fs::write(&file, &table).unwrap();
    }
    let compared = |table: &str| -> Vec<String> {
        let rows = table.lines().filter(|line| line.starts_with('|'));
        rows.map(|row| row.split('|').take(3).collect::<Vec<_>>().join("|")).collect()
    };
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(compared(&written), compared(&table), "FUNCIFY_BLESS=1 rewrites {}", file.display());
}

fn table(rows: &[(&str, [Differences; 2])]) -> String {
    let mut text =
        "# Weights of other libraries: the largest differences\n\nWritten by `cargo xtask weights`. Differences are \
                    relative to the largest element of each tensor; both sides compute in f32.\n\n\
                    | weights of | numbers | Candle: outputs | gradients | Burn: outputs | gradients |\n\
                    |---|--:|--:|--:|--:|--:|\n"
            .to_string();
    for (title, [candle, burn]) in rows {
        let cells = [candle.outputs, candle.gradients, burn.outputs, burn.gradients].map(|off| format!("{off:.1e}"));
        writeln!(text, "| {title} | {} | {} |", candle.count, cells.join(" | ")).unwrap();
    }
    text
}
