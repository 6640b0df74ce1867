//! Records the numerical differences that tests measure. `cargo xtask weights` collects them in a table.

use std::io::Write;

/// The environment variable that holds the path of the file in which tests record differences. `cargo xtask weights`
/// sets it, and builds a table from the file.
pub const DIFFERENCES_VAR: &str = "FUNCIFY_DIFFERENCES";

/// Records the difference `off` that a test measured on `model`. `kind` names the results that were compared, such as
/// gradients. Does nothing if [`DIFFERENCES_VAR`] is not set.
pub fn note_difference(model: &str, kind: &str, off: f64) {
    let Some(file) = std::env::var_os(DIFFERENCES_VAR) else { return };
    // Write the line in a single call, so that parallel tests do not mix their lines.
    let noted = std::fs::OpenOptions::new().create(true).append(true).open(&file);
    let noted = noted.and_then(|mut file| file.write_all(format!("{model}\t{kind}\t{off:e}\n").as_bytes()));
    if let Err(error) = noted {
        panic!("{}: {error}", file.display());
    }
}
