//! Differences that tests see, noted for a table.

use std::io::Write;

/// The variable of the environment with the file that differences are noted in. `cargo xtask weights` sets it and makes the table.
pub const DIFFERENCES: &str = "FUNCIFY_DIFFERENCES";

/// Notes how far something, such as the gradients (`kind`) of a model, is off, if it is asked for.
pub fn note_difference(model: &str, kind: &str, off: f64) {
    let Some(file) = std::env::var_os(DIFFERENCES) else { return };
    // A line is written at once: tests run side by side.
    let noted = std::fs::OpenOptions::new().create(true).append(true).open(&file);
    let noted = noted.and_then(|mut file| file.write_all(format!("{model}\t{kind}\t{off:e}\n").as_bytes()));
    if let Err(error) = noted {
        panic!("{}: {error}", file.display());
    }
}
