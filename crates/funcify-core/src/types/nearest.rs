//! Finds the known word that is closest to a misspelt word.

use strsim::osa_distance;

/// Returns the candidate with the smallest edit distance to a misspelt word, or `None` if no candidate is close. Each
/// insertion, deletion, replacement or transposition of letters counts as 1. Breaks ties in favour of a candidate with
/// the same letters, then a prefix of the word, then the candidate closest in length, and then the first candidate.
pub(crate) fn closest_word<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Every word of the text form is shorter than this.
    const MAX_WORD_LENGTH: usize = 40;
    let (word, length) = (word.to_lowercase(), word.chars().count());
    if length > MAX_WORD_LENGTH {
        return None;
    }
    let allowed = (length / 3).max(1);
    let slip = |other: &str| {
        let other = other.to_lowercase();
        let has_other_letters = sorted_letters(&word) != sorted_letters(&other);
        let begins_differently = !word.starts_with(&other);
        (osa_distance(&word, &other), has_other_letters, begins_differently, other.chars().count().abs_diff(length))
    };
    let slips = candidates.into_iter().map(|other| (slip(other), other));
    let near = slips.filter(|((distance, ..), candidate)| *distance <= allowed && *distance < candidate.len());
    near.min_by_key(|(slip, _)| *slip).map(|(_, candidate)| candidate)
}

/// Returns the letters of a word, sorted.
fn sorted_letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// Returns the words that are in backticks in a text. A trailing `=` is removed.
pub(crate) fn quoted_words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).map(|word| word.trim_end_matches('=')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{closest_word, quoted_words};

    #[test]
    fn a_slip_of_the_pen_is_near() {
        let words = ["tan", "tanh", "matmul", "reduce", "reverse", "f64", "f32", "and", "add"];
        let near = |word: &str| closest_word(word, words);
        for (word, expected) in [
            ("tnah", "tanh"),
            ("tahn", "tanh"),
            ("dad", "add"),
            ("ann", "and"),
            ("tanhh", "tanh"),
            ("mat_mul", "matmul"),
            ("Reduce", "reduce"),
            ("redcue", "reduce"),
            ("revers", "reverse"),
            ("f23", "f32"),
            ("ta", "tan"),
            ("tane", "tan"),
        ] {
            assert_eq!(near(word), Some(expected), "{word}");
        }
        for word in ["", "x", "convolve", "logsumexp", &"t".repeat(10_000)] {
            assert_eq!(near(word), None, "{word}");
        }
    }

    #[test]
    fn words_between_backticks() {
        assert_eq!(quoted_words("`until`, `unroll=` or `{`").collect::<Vec<_>>(), ["until", "unroll", "{"]);
        assert_eq!(quoted_words("nothing").count(), 0);
    }
}
