//! A refusal as its user reads it, compared with a text in `errors/`.

use std::path::Path;

use funcify::error::Site;
use funcify::{Builder, Error, Graph, Tree};

/// Asserts that something was refused with the message in `errors/<name>.txt`, in which the user's line is `<site>`
/// and the names of the backends that are linked `<linked>`.
#[track_caller]
pub(crate) fn check<T>(name: &str, result: Result<T, Error>) {
    let Err(error) = result else { panic!("`{name}` is not refused") };
    let mut text = error.to_string() + "\n";
    if let Site::Rust(location) = error.place().site {
        text = text.replace(&location.to_string(), "<site>");
    }
    // Which backends there are follows from the features that are on.
    let linked = funcify::dispatch::backend_names().join(", ");
    text = text.replace(&format!("one of these: {linked};"), "one of these: <linked>;");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors").join(format!("{name}.txt"));
    if std::env::var_os("FUNCIFY_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(text, expected, "the message of `{name}` changed; FUNCIFY_BLESS=1 writes it anew");
}

/// Asserts that a program cannot be built.
#[track_caller]
pub(crate) fn refused<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) {
    check(name, Graph::build("model", program));
}
