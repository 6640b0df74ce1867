//! Checks the wording of comments, and draws a random sample of sentences for review.

/// Words with which a doc comment must not begin, because the sentence would not say what the item does.
const OPENINGS: [&str; 9] = ["What", "Whether", "How", "Of", "That", "Which", "Where", "Who", "Such"];

/// Awkward phrases that comments must not contain.
const PHRASES: [&str; 21] = [
    "as it is told",
    "as may be",
    "beside it lies",
    "by its likes",
    "by which it",
    "from which it",
    "goes by",
    "in silence",
    "is made of",
    "is no more",
    "is who",
    "its likes",
    "lie beside",
    "lies beside",
    "made anew",
    "of its own accord",
    "put aside",
    "stands apart",
    "stands in the way",
    "what is given",
    "works off",
];

/// Returns a problem for each doc comment that begins with a word of `OPENINGS`, and for each phrase of `PHRASES` in a
/// comment.
pub(crate) fn problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (line, comment) in comments(text) {
        let is_doc = comment.kind != Kind::Plain;
        let first = comment.text.split_whitespace().next().unwrap_or("");
        if is_doc && OPENINGS.contains(&first) {
            problems.push(format!("line {line}: a doc comment begins with `{first}`; begin with a verb"));
        }
        let phrases = PHRASES.iter().filter(|phrase| has_phrase(&comment.text, phrase));
        problems.extend(phrases.map(|phrase| format!("line {line}: `{phrase}`")));
    }
    problems
}

/// Returns `true` if a text contains this phrase, ending at a word boundary.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| is_end(&text[at + phrase.len()..]))
}

/// Draws `count` sentences from the comments of these files, given as pairs of name and text. Returns each sentence
/// with its location. The same seed draws the same sentences.
pub(crate) fn sample<'a>(files: impl Iterator<Item = (&'a str, &'a str)>, seed: &str, count: usize) -> Vec<String> {
    let mut drawn: Vec<(u64, String)> = Vec::new();
    for (name, text) in files {
        for (line, comment) in comments(text) {
            for sentence in sentences(&comment.text) {
                let place = format!("{name}:{line}: {sentence}");
                drawn.push((hash(&format!("{seed} {place}")), place));
            }
        }
    }
    drawn.sort();
    drawn.into_iter().take(count).map(|(_, place)| place).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Item,
    Module,
    Plain,
}

/// Consecutive comment lines of the same kind, joined, without listings and tables.
struct Comment {
    kind: Kind,
    text: String,
}

/// Returns the comments of a file with their first line numbers.
fn comments(text: &str) -> Vec<(usize, Comment)> {
    let mut found: Vec<(usize, Comment)> = Vec::new();
    let (mut last, mut is_listing) = (None, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let kinds = [("///", Kind::Item), ("//!", Kind::Module), ("// ", Kind::Plain)];
        let Some((rest, kind)) = kinds.iter().find_map(|(mark, kind)| Some((line.strip_prefix(mark)?, *kind))) else {
            (last, is_listing) = (None, false);
            continue;
        };
        let rest = rest.trim();
        if rest.starts_with("```") {
            is_listing = !is_listing;
            last = Some(kind);
            continue;
        }
        if is_listing || rest.starts_with('|') || rest.starts_with('#') {
            last = Some(kind);
            continue;
        }
        match found.last_mut().filter(|_| last == Some(kind)) {
            Some((_, comment)) => comment.text += &format!(" {rest}"),
            None => found.push((number + 1, Comment { kind, text: rest.to_string() })),
        }
        last = Some(kind);
    }
    found
}

/// Splits a comment into sentences. Drops sentences of fewer than four words.
fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut sentence: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        sentence.push(word);
        if word.ends_with(['.', ':', '?']) && !word.ends_with("..") {
            found.push(std::mem::take(&mut sentence));
        }
    }
    found.push(sentence);
    found.into_iter().filter(|words| words.len() > 3).map(|words| words.join(" ")).collect()
}

/// Computes the FNV-1a hash of a text.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_comments_begin_with_a_verb() {
        assert!(problems("/// Returns the steps.\n/// What a step reads.\nfn f() {}\n").is_empty());
        let found = problems("//! Doc.\n\n/// What a step reads.\nfn f() {}\n");
        assert_eq!(found, ["line 3: a doc comment begins with `What`; begin with a verb"]);
        assert_eq!(problems("// It fails in silence.\n"), ["line 1: `in silence`"]);
        assert!(problems("// The loop is whole.\n").is_empty());
        assert!(problems("/// ```\n/// What = 1\n/// ```\n").is_empty());
    }

    #[test]
    fn a_seed_draws_the_same_sentences() {
        let text = "//! One sentence with five words. Another one, of six words.\n\n// Too short.\n\n/// A third one\n/// over two lines.\n";
        let draw = |seed, count| sample([("f.rs", text)].into_iter(), seed, count);
        assert_eq!(draw("a", 9).len(), 3);
        assert_eq!(draw("a", 2), draw("a", 2));
        assert!(draw("b", 9).contains(&"f.rs:5: A third one over two lines.".to_string()));
    }
}
