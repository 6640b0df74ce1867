//! The README shows the program that is an example and the crate's documentation, and what it prints.

use std::path::Path;

use funcify::dispatch::Function;
use funcify::{GradOptions, Graph, HostTensor, scan};
use funcify_burn::Burn;
use funcify_candle::Candle;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// What stands between the first line that is `fence` and the next that ends a block.
fn block(text: &str, fence: &str) -> String {
    let (_, rest) = text.split_once(&format!("\n{fence}\n")).unwrap();
    rest.split_once("\n```").unwrap().0.to_string()
}

#[test]
fn the_program_is_the_example() {
    let example = read("examples/leaky.rs");
    let (_, program) = example.split_once("\n\n").unwrap();
    assert_eq!(block(&read("README.md"), "```rust"), program.trim_end());
}

#[test]
fn the_output_is_what_the_program_prints() {
    let shown = block(&read("README.md"), "```text");
    let (program, numbers) = shown.split_once("\n\n").unwrap();
    let graph = Graph::parse(program).unwrap();
    assert_eq!(graph.to_string().trim_end(), program);

    let xs = HostTensor::from([[0.5f32, 1.0], [-0.25, 0.0], [1.0, -1.0]]);
    let inputs = [xs, [0f32, 0.0].into(), [0.9f32, 0.5].into()];
    let candle = Function::compile(&graph, &Candle::cpu()).unwrap().call_host(&inputs).unwrap();
    let burn = Function::compile(&graph, &Burn::flex()).unwrap().call_host(&inputs).unwrap();
    // The last digit depends on the processor's vectors.
    let (shown_text, shown_numbers) = parted(numbers);
    let (text, found) = parted(&format!("candle {candle:?}\nburn   {burn:?}"));
    assert_eq!(shown_text, text);
    for (shown, found) in shown_numbers.iter().zip(&found) {
        assert!((shown - found).abs() < 3e-7, "{numbers} is not {found}");
    }
}

/// A text without its decimal numbers, and these.
fn parted(text: &str) -> (String, Vec<f64>) {
    let words = text.split_inclusive([' ', ',', ']', '[']);
    let number = |word: &str| word.trim_end_matches([' ', ',', ']', '[']).parse().ok().filter(|_| word.contains('.'));
    let rest = words.clone().filter(|word| number(word).is_none()).collect();
    (rest, words.filter_map(number).collect())
}

/// The example runs on every backend in `cargo xtask examples`.
#[test]
fn the_derivatives_are_an_example() {
    let shown = block(&read("README.md"), "```rust\n/// c <- c * w + x from zero, over a row.");
    assert!(read("examples/src/graphs/derivatives.rs").contains(&shown), "{shown}");
}

/// The text is what the gradient of the example's `decay` prints.
#[test]
fn the_gradient_is_what_the_program_prints() {
    let readme = read("README.md");
    let (_, section) = readme.split_once("\n## Derivatives\n").unwrap();
    let decay = Graph::build("decay", |g| {
        let [w, xs] = [g.input("w", "f32[]"), g.input("xs", "f32[T]")];
        scan(w.zeros_like(), xs, |c, x| (c * w + x, ())).0
    });
    let gradient = decay.unwrap().grad("w", GradOptions::new()).unwrap();
    assert_eq!(gradient.to_string().trim_end(), block(section, "```text"));
}

/// Candle's change is that of the crate's own README, whose test runs both versions; Burn's is in the example, which runs
/// both.
#[test]
fn the_changes_of_existing_models_are_those_that_are_tested() {
    let readme = read("README.md");
    let candle = block(&readme, "```diff");
    assert_eq!(candle, block(&read("crates/funcify-candle/README.md"), "```diff"));
    let (_, rest) = readme.split_once(&candle).unwrap();
    let burn = block(rest, "```diff");
    let example = read("examples/src/models/burn_model.rs");
    for sign in ['-', '+'] {
        let lines: Vec<&str> = burn.lines().filter_map(|line| line.strip_prefix(sign)).collect();
        assert!(!lines.is_empty() && example.contains(&lines.join("\n")), "{sign}{lines:?}");
    }
}

/// The examples are tests of their packages, too, which run them.
#[test]
fn what_is_served_is_in_the_examples() {
    let readme = read("README.md");
    let (_, section) = readme.split_once("\n## From a model to a served stream\n").unwrap();
    let (_, second) = section.split_once("\n```\n").unwrap();
    for (section, example) in [(section, "examples/served.rs"), (second, "tests/models/examples/mamba.rs")] {
        let example = read(example);
        let (_, program) = example.split_once("\n\n").unwrap();
        assert_eq!(block(section, "```rust"), program.trim_end());
    }
}

/// The composition in the README is that of the op in this package, which the tests compile in loops.
#[test]
fn the_composition_is_that_of_the_tests() {
    let signature = "fn composition(&self, operands: &[Value]) -> Result<Option<Vec<Value>>, Failed> {";
    let shown = block(&read("README.md"), &format!("```rust\n{signature}"));
    let lines: String = shown.lines().map(|line| format!("    {line}\n")).collect();
    assert!(lines.len() > 80 && read("tests/src/softplus/mod.rs").contains(&lines), "{lines}");
}
