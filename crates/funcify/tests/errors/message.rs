//! Compares an error message, as the user sees it, with a text in `errors/`.

use std::path::Path;

use funcify::error::Site;
use funcify::{Builder, Error, Graph, Tree};

/// Asserts that the result is an error with the message in `errors/<name>.txt`. In that file, `<site>` replaces the
/// user's source line, and `<linked>` replaces the names of the linked backends.
#[track_caller]
pub(crate) fn check<T>(name: &str, result: Result<T, Error>) {
    let Err(error) = result else { panic!("`{name}` is not rejected") };
    let mut text = error.to_string() + "\n";
    if let Site::Rust(location) = error.place().site {
        text = text.replace(&location.to_string(), "<site>");
    }
    // The linked backends depend on the enabled features.
    let linked = funcify::dispatch::backend_names().join(", ");
    text = text.replace(&format!("one of these names: {linked};"), "one of these names: <linked>;");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors").join(format!("{name}.txt"));
    if std::env::var_os("FUNCIFY_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(text, expected, "the message of `{name}` changed; FUNCIFY_BLESS=1 rewrites it");
}

/// Asserts that building the program fails with the message in `errors/<name>.txt`.
#[track_caller]
pub(crate) fn assert_rejected<T: Tree>(name: &str, program: impl FnOnce(&Builder) -> T) {
    check(name, Graph::build("model", program));
}
