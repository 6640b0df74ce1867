//! Compares the text form of gradients with the files in `gradients/`.
//!
//! `FUNCIFY_BLESS=1 cargo test --workspace --test gradients` rewrites the files.

use std::path::Path;

use funcify::{Builder, GradOptions, Graph, Recurrence, Tree, scan};

/// Asserts that the text form of a program's gradient, with respect to all inputs, equals `gradients/<name>.fir`.
#[track_caller]
fn check<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) {
    let graph = Graph::build(name, program).unwrap();
    let gradient = graph.vjp(.., GradOptions::new()).unwrap();
    let text = gradient.to_string();
    assert_eq!(Graph::parse(&text).unwrap().to_string(), text, "the text parses back to the graph");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gradients").join(format!("{name}.fir"));
    if std::env::var_os("FUNCIFY_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(text, expected, "the gradient of `{name}` changed; FUNCIFY_BLESS=1 rewrites it");
}

/// Differentiates the recurrence x[t] = x[t-1]^2. The trace of the state is the only residual.
#[test]
fn squares() {
    check("squares", |g| {
        let (x0, scale) = (g.input("x0", "f64[]"), g.input("scale", "f64[T]"));
        let mut loop_ = Recurrence::new();
        let x = loop_.sit_sot(x0);
        let done = loop_.steps("T").run(|step| {
            let [before] = step.read(&x);
            step.write(&x, before.square());
        });
        (done.trace(&x) * scale).sum(0)
    });
}

/// Differentiates the loss of a recurrent network. The gradient is one backward loop, whose carries accumulate the
/// weight gradients.
#[test]
fn rnn() {
    check("rnn", |g| {
        let (xs, h0) = (g.input("xs", "f32[T,B,3]"), g.input("h0", "f32[B,4]"));
        let (w, u, b) = (g.input("w", "f32[3,4]"), g.input("u", "f32[4,4]"), g.input("b", "f32[4]"));
        let (_, hs) = scan(h0, xs, |h, x| {
            let h = (x.matmul(w) + h.matmul(u) + b).tanh();
            (h, h)
        });
        hs.square().sum(..)
    });
}
