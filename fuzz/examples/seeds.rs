//! Writes the seed texts of the fuzz target `text` to the folder `fuzz/corpus/text`.

use std::path::Path;

use funcify_conformance::mutants::Corpus;

fn main() -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/text");
    let corpus = Corpus::new()?;
    corpus.save(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    println!("{} texts in {}", corpus.len(), folder.display());
    Ok(())
}
