//! Mutates a text by changing characters, tokens, or lines.

use arbitrary::{Result, Unstructured};

/// The tokens that a mutation may insert, in libFuzzer's dictionary format.
const WORDS: &str = include_str!("../../tests/mutants/words.dict");

/// The maximum number of characters in a mutant. Longer mutants are truncated.
const MAX_MUTANT_LENGTH: usize = 20_000;

/// Picks a text from the corpus and applies a few mutations to it.
pub(super) fn mutant(choices: &mut Unstructured<'_>, corpus: &[String]) -> Result<String> {
    let mut text = choices.choose(corpus)?.clone();
    for _ in 0..*choices.choose(&[1, 1, 1, 2, 2, 4])? {
        let other = choices.choose(corpus)?;
        text = match choices.int_in_range(0..=11)? {
            0 => mutate_characters(choices, &text)?,
            1..=3 => mutate_lines(choices, &text, other)?,
            4..=6 => mutate_tokens(choices, &text, other, false)?,
            _ => mutate_tokens(choices, &text, other, true)?,
        };
        if let Some((end, _)) = text.char_indices().nth(MAX_MUTANT_LENGTH) {
            text.truncate(end);
        }
    }
    Ok(text)
}

/// Replaces, removes or inserts a character, or truncates the text.
fn mutate_characters(choices: &mut Unstructured<'_>, text: &str) -> Result<String> {
    let mut all: Vec<char> = text.chars().collect();
    if all.is_empty() {
        return Ok("fn".into());
    }
    let at = choices.choose_index(all.len())?;
    let new = *choices
        .choose(&['0', '9', 'T', '%', '[', ']', '{', '}', '(', '-', ',', '=', '\n', '.', '$', '@', 'é', '\0'])?;
    match choices.int_in_range(0..=3)? {
        0 => all[at] = new,
        1 => _ = all.remove(at),
        2 => all.insert(at, new),
        _ => all.truncate(at),
    }
    Ok(all.into_iter().collect())
}

/// Splits a text into words, numbers, and other characters. A word includes a leading `%`, `$` or `@`.
fn split_tokens(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens: Vec<String> = Vec::new();
    let mut is_open = false;
    for c in text.chars() {
        match tokens.last_mut() {
            Some(last) if is_open && is_word(c) => last.push(c),
            _ => tokens.push(c.to_string()),
        }
        is_open = is_word(c) || matches!(c, '%' | '$' | '@');
    }
    tokens
}

/// A kind of token. Mutations replace a token with another one of the same kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A number or a size symbol.
    Size,
    Value,
    Word,
    Sign,
    Space,
}

impl Kind {
    fn of(token: &str) -> Kind {
        match token.chars().next() {
            Some(c) if c.is_ascii_digit() || c == '$' => Kind::Size,
            Some(c) if c.is_ascii_uppercase() && token.len() <= 2 => Kind::Size,
            Some('%') => Kind::Value,
            Some(c) if c.is_alphabetic() || c == '@' => Kind::Word,
            Some(c) if !c.is_whitespace() => Kind::Sign,
            _ => Kind::Space,
        }
    }
}

/// Changes a token: replaces it with another token of the same kind (from `text`, `other` or the dictionary), changes a
/// number by 1, removes the token, or duplicates it. If `everywhere` is `true`, makes the same change to all equal
/// tokens, so that types may still match.
fn mutate_tokens(choices: &mut Unstructured<'_>, text: &str, other: &str, everywhere: bool) -> Result<String> {
    let mut tokens = split_tokens(text);
    let kind = *choices.choose(&[Kind::Size, Kind::Size, Kind::Value, Kind::Word, Kind::Sign])?;
    let places: Vec<usize> = (0..tokens.len()).filter(|index| Kind::of(&tokens[*index]) == kind).collect();
    if places.is_empty() {
        return Ok(text.into());
    }
    let at = *choices.choose(&places)?;
    let old = tokens[at].clone();
    let source: Vec<String> = match choices.int_in_range(0..=3)? {
        0 => split_tokens(other),
        1 => tokens.clone(),
        _ => WORDS.lines().filter_map(|line| line.strip_prefix('"')?.strip_suffix('"')).map(String::from).collect(),
    };
    let alike: Vec<&String> = source.iter().filter(|token| Kind::of(token) == kind).collect();
    let new = match choices.int_in_range(0..=9)? {
        0 => String::new(),
        1 => format!("{old} {old}"),
        2 | 3 if let Ok(number) = old.parse::<i64>() => number.saturating_add(*choices.choose(&[1, -1])?).to_string(),
        _ if alike.is_empty() => return Ok(text.into()),
        _ => choices.choose(&alike)?.to_string(),
    };
    match everywhere {
        true => tokens.iter_mut().filter(|token| **token == old).for_each(|token| token.clone_from(&new)),
        false => tokens[at] = new,
    }
    Ok(tokens.concat())
}

/// Returns the index of the line after the block that starts at line `start`.
fn block_end(lines: &[&str], start: usize) -> usize {
    let mut open = 0i64;
    for (index, line) in lines.iter().enumerate().skip(start) {
        let trimmed = line.trim();
        open += i64::from(trimmed.ends_with('{')) - i64::from(trimmed == "}");
        if open <= 0 {
            return index + 1;
        }
    }
    lines.len()
}

/// Removes or copies an equation with its body, inserts an equation from `other`, or repeats a line up to 80 times and
/// appends the same number of closing braces. Repeating a line that opens a body creates deeply nested bodies.
fn mutate_lines(choices: &mut Unstructured<'_>, text: &str, other: &str) -> Result<String> {
    let mut all: Vec<&str> = text.lines().collect();
    let others: Vec<&str> = other.lines().collect();
    if all.is_empty() || others.is_empty() {
        return Ok(text.into());
    }
    let at = choices.choose_index(all.len())?;
    let end = block_end(&all, at);
    match choices.int_in_range(0..=3)? {
        0 => _ = all.drain(at..end),
        1 => {
            let block = all[at..end].to_vec();
            let to = choices.choose_index(all.len())?;
            all.splice(to..to, block);
        }
        2 => {
            let start = choices.choose_index(others.len())?;
            all.splice(at..at, others[start..block_end(&others, start)].iter().copied());
        }
        _ => {
            let depth = choices.int_in_range(0..=80)?;
            all.splice(at..at, vec![all[at]; depth]);
            all.extend(vec!["}"; depth]);
        }
    }
    Ok(all.join("\n") + "\n")
}
