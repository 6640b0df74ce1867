//! Checks that the documentation shows the current code of the examples and the current output of their programs.
//!
//! Listings that are complete programs run as documentation tests of this package and of `tests/models`.

use std::path::Path;

use funcify::dispatch::Function;
use funcify::{GradOptions, Graph, HostTensor, scan};
use funcify_burn::Burn;
use funcify_candle::Candle;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Returns the code blocks of a page that start with this fence.
fn blocks(page: &str, fence: &str) -> Vec<String> {
    let (text, fence) = (read(page), format!("\n{fence}\n"));
    text.split(&fence).skip(1).map(|rest| rest.split_once("\n```").unwrap().0.to_string()).collect()
}

/// Returns the source of an example, without its module documentation.
fn program(example: &str) -> String {
    read(example).split_once("\n\n").unwrap().1.trim_end().to_string()
}

#[test]
fn the_programs_are_the_examples() {
    assert_eq!(blocks("docs/guide.md", "```rust"), [program("examples/leaky.rs")]);
    let served = ["examples/served.rs", "tests/models/examples/mamba.rs"].map(program);
    assert_eq!(blocks("docs/serving.md", "```rust"), served);
    let derivatives = &blocks("docs/derivatives.md", "```rust")[0];
    let (_, functions) = derivatives.split_once("\n\n").unwrap();
    assert!(read("examples/src/graphs/derivatives.rs").contains(functions), "{functions}");
}

#[test]
fn the_output_is_what_the_program_prints() {
    let shown = blocks("docs/guide.md", "```text").into_iter().find(|text| text.starts_with("fn @leaky")).unwrap();
    let (program, numbers) = shown.split_once("\n\n").unwrap();
    let graph = Graph::parse(program).unwrap();
    assert_eq!(graph.to_string().trim_end(), program);

    let xs = HostTensor::from([[0.5f32, 1.0], [-0.25, 0.0], [1.0, -1.0]]);
    let inputs = [xs, [0f32, 0.0].into(), [0.9f32, 0.5].into()];
    let candle = Function::compile(&graph, &Candle::cpu()).unwrap().call_host(&inputs).unwrap();
    let burn = Function::compile(&graph, &Burn::flex()).unwrap().call_host(&inputs).unwrap();
    // Compare the numbers with a tolerance, because the last digits depend on the vector width of the processor.
    let (shown_text, shown_numbers) = split_numbers(numbers);
    let (text, found) = split_numbers(&format!("candle {candle:?}\nburn   {burn:?}"));
    assert_eq!(shown_text, text);
    for (shown, found) in shown_numbers.iter().zip(&found) {
        assert!((shown - found).abs() < 3e-7, "{numbers} is not {found}");
    }
}

/// Separates the decimal numbers from a text. Returns the text without the numbers, and the numbers.
fn split_numbers(text: &str) -> (String, Vec<f64>) {
    let words = text.split_inclusive([' ', ',', ']', '[']);
    let number = |word: &str| word.trim_end_matches([' ', ',', ']', '[']).parse().ok().filter(|_| word.contains('.'));
    let rest = words.clone().filter(|word| number(word).is_none()).collect();
    (rest, words.filter_map(number).collect())
}

/// Checks that the derivatives page shows the gradient of `decay` exactly as the example prints it.
#[test]
fn the_gradient_is_what_the_program_prints() {
    let decay = Graph::build("decay", |g| {
        let [w, xs] = [g.input("w", "f32[]"), g.input("xs", "f32[T]")];
        scan(w.zeros_like(), xs, |c, x| (c * w + x, ())).0
    });
    let gradient = decay.unwrap().grad("w", GradOptions::new()).unwrap();
    assert_eq!(blocks("docs/derivatives.md", "```text"), [gradient.to_string().trim_end()]);
}

/// Checks the diffs in the documentation. The lines before the change, and the lines after it, must each occur in order
/// in tested code.
#[test]
fn the_changes_of_existing_models_are_those_that_are_tested() {
    // Users of `funcify` access the crate `funcify-candle` as the module `funcify::candle`.
    let as_module = |text: &str| text.replace("funcify_candle::", "funcify::candle::");
    let candle = ["before", "after"].map(|file| read(&format!("crates/funcify-candle/tests/drop_in/{file}.rs")));
    let candle = candle.map(|code| as_module(&code));
    let burn = read("examples/src/models/burn_model.rs");
    for page in ["README.md", "docs/existing-models.md"] {
        let [candle_change, burn_change] = &blocks(page, "```diff")[..] else { panic!("{page} must show two changes") };
        for (sign, code) in ['-', '+'].into_iter().zip(&candle) {
            assert!(occurs_in(candle_change, sign, code), "{page}: {sign}");
        }
        for sign in ['-', '+'] {
            assert!(occurs_in(burn_change, sign, &burn), "{page}: {sign}");
        }
    }
    let [whole] = &blocks("crates/funcify-candle/README.md", "```diff")[..] else {
        panic!("the number of changes differs")
    };
    assert_eq!(as_module(whole), blocks("docs/existing-models.md", "```diff")[0]);
}

/// Returns `true` if the lines on one side of a diff occur in `code`, in order, ignoring indentation.
fn occurs_in(change: &str, side: char, code: &str) -> bool {
    let lines = change.lines().filter(|line| line.starts_with([' ', side])).map(|line| line[1..].trim());
    let mut code = code.lines().map(str::trim);
    let mut count = 0;
    let all = lines.inspect(|_| count += 1).filter(|line| !line.is_empty()).all(|line| code.any(|other| other == line));
    all && count > 0
}

/// Checks that the method `composition` on the backends page is copied verbatim from the test op `softplus`.
#[test]
fn the_composition_is_that_of_the_tests() {
    let shown = &blocks("docs/backends.md", "```rust,ignore")[0];
    let lines: String = shown.lines().map(|line| format!("    {line}\n")).collect();
    assert!(lines.len() > 80 && read("tests/src/softplus/mod.rs").contains(&lines), "{lines}");
}
