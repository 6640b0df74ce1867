//! The word of the language that a misspelt one is nearest to.

/// The candidate with the fewest letters that differ, if they are few: a letter that is missing, added, another, or
/// swapped with its neighbour counts 1. The first of several.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer ones are no words of the language.
    const LONGEST: usize = 40;
    let word: Vec<char> = word.to_lowercase().chars().take(LONGEST + 1).collect();
    if word.len() > LONGEST {
        return None;
    }
    let allowed = (word.len() / 3).max(1);
    let distances = candidates.into_iter().map(|candidate| (distance(&word, candidate), candidate));
    let near = distances.filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len());
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// The optimal string alignment distance.
fn distance(word: &[char], other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut table: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (row, a) in word.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, b) in other.iter().enumerate() {
            let replaced = table[row][column] + usize::from(a != b);
            let mut best = replaced.min(table[row][column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && *a == other[column - 1] && word[row - 1] == *b {
                best = best.min(table[row - 1][column - 1] + 1);
            }
            next.push(best);
        }
        table.push(next);
    }
    table[word.len()][other.len()]
}

/// The words between backticks in a text, without a `=` at their end.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).map(|word| word.trim_end_matches('=')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{nearest, quoted};

    #[test]
    fn a_slip_of_the_pen_is_near() {
        let words = ["tanh", "tan", "matmul", "reduce", "reverse", "f32", "f64"];
        let near = |word: &str| nearest(word, words);
        for (word, expected) in [
            ("tnah", "tanh"),
            ("tanhh", "tanh"),
            ("mat_mul", "matmul"),
            ("Reduce", "reduce"),
            ("redcue", "reduce"),
            ("revers", "reverse"),
            ("f23", "f32"),
            ("ta", "tan"),
        ] {
            assert_eq!(near(word), Some(expected), "{word}");
        }
        for word in ["", "x", "convolve", "logsumexp", &"t".repeat(10_000)] {
            assert_eq!(near(word), None, "{word}");
        }
    }

    #[test]
    fn words_between_backticks() {
        assert_eq!(quoted("`until`, `unroll=` or `{`").collect::<Vec<_>>(), ["until", "unroll", "{"]);
        assert_eq!(quoted("nothing").count(), 0);
    }
}
