//! Mutations of a text: of its bytes, of its tokens, of its lines, and of all places that mean the same.

use crate::arbitrary::Choices;

/// Numbers at which arithmetic ends, and others that are seldom sizes.
const NUMBERS: [&str; 18] = [
    "0",
    "1",
    "2",
    "7",
    "64",
    "65",
    "1000",
    "65536",
    "4294967295",
    "4294967296",
    "1099511627776",
    "2305843009213693952",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e39",
    "0.5",
];

/// What a size may be replaced by.
const SIZES: [&str; 16] = [
    "0",
    "1",
    "2",
    "3",
    "5",
    "T",
    "N",
    "T+1",
    "T-1",
    "T-9",
    "2*T",
    "T*N",
    "T*T-7*T+12",
    "$1",
    "9223372036854775807*T",
    "1099511627776",
];

/// Words of the language that are not in every program.
const WORDS: [&str; 44] = [
    "scan",
    "while",
    "switch",
    "associative_scan",
    "custom_vjp",
    "custom_jvp",
    "constant",
    "seq",
    "nit-sot",
    "sit-sot",
    "mit-sot",
    "mit-mot",
    "carry",
    "until",
    "down",
    "unroll",
    "policy",
    "truncate",
    "last",
    "with",
    "as",
    "from",
    "bound",
    "steps",
    "order",
    "case",
    "give",
    "return",
    "static",
    "t",
    "save_all",
    "segments",
    "budget",
    "inf",
    "nan",
    "f64",
    "bool",
    "u8",
    "bf16",
    "axis",
    "shape",
    "limit",
    "mode",
    "dtype",
];

/// Up to this many characters; what grows beyond is cut.
const LONGEST: usize = 20_000;

/// A mutant of one of the texts: a few mutations, one after the other.
pub(super) fn mutant(choices: &mut Choices, corpus: &[String]) -> String {
    let mut text = corpus[choices.below(corpus.len())].clone();
    for _ in 0..choices.of(&[1, 1, 1, 2, 2, 4]) {
        let other = &corpus[choices.below(corpus.len())];
        text = match choices.below(12) {
            0 => bytes(choices, &text),
            1..=3 => tokens(choices, &text, other),
            4 | 5 => lines(choices, &text, other),
            _ => everywhere(choices, &text),
        };
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
        }
    }
    text
}

/// One character is another, goes, or comes; or all after it goes.
fn bytes(choices: &mut Choices, text: &str) -> String {
    let mut all: Vec<char> = text.chars().collect();
    if all.is_empty() {
        return "fn".into();
    }
    let at = choices.below(all.len());
    let mirrored = all.len() - 1 - at;
    let new = choices.of(&['0', '9', 'T', '%', '[', ']', '{', '}', '(', '-', ',', '=', '\n', '.', '$', '@', 'é', '\0']);
    match choices.below(5) {
        0 => all[at] = new,
        1 => _ = all.remove(at),
        2 => all.insert(at, new),
        3 => all.truncate(at),
        _ => all.swap(at, mirrored),
    }
    all.into_iter().collect()
}

/// The text in words, numbers, and single characters.
fn split(text: &str) -> Vec<String> {
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

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '%' | '$' | '@'))
}

/// One token is replaced by one of its kind, of this text, of another or of the language; goes; stands twice; or changes
/// places with another.
fn tokens(choices: &mut Choices, text: &str, other: &str) -> String {
    let mut tokens = split(text);
    let kind = choices.below(3);
    let places: Vec<usize> = (0..tokens.len())
        .filter(|index| match kind {
            0 => is_number(&tokens[*index]),
            1 => is_name(&tokens[*index]),
            _ => !tokens[*index].trim().is_empty(),
        })
        .collect();
    let Some(at) = (!places.is_empty()).then(|| places[choices.below(places.len())]) else { return text.into() };
    let source = if choices.one_in(3) { split(other) } else { tokens.clone() };
    let alike: Vec<&String> = source
        .iter()
        .filter(|token| match kind {
            0 => is_number(token),
            1 => is_name(token) && token.starts_with('%') == tokens[at].starts_with('%'),
            _ => !token.trim().is_empty(),
        })
        .collect();
    match choices.below(8) {
        0 => _ = tokens.remove(at),
        1 => {
            let token = tokens[at].clone();
            tokens.insert(at, token);
        }
        2 => {
            let with = places[choices.below(places.len())];
            tokens.swap(at, with);
        }
        3 | 4 if kind == 0 => tokens[at] = choices.of(&NUMBERS).to_string(),
        3 if kind == 1 => tokens[at] = choices.of(&WORDS).to_string(),
        _ if alike.is_empty() => {}
        _ => tokens[at] = alike[choices.below(alike.len())].clone(),
    }
    tokens.concat()
}

/// The line after the one that closes what the line of that index opens.
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

/// An equation, with its body if it has one, goes, stands twice, or moves; or one of another text comes.
fn lines(choices: &mut Choices, text: &str, other: &str) -> String {
    let mut all: Vec<&str> = text.lines().collect();
    if all.len() < 2 {
        return text.into();
    }
    let at = choices.below(all.len());
    let end = block_end(&all, at);
    let block: Vec<&str> = all[at..end].to_vec();
    match choices.below(5) {
        0 => _ = all.drain(at..end),
        1 => _ = all.splice(at..at, block),
        2 => {
            all.drain(at..end);
            let to = choices.below(all.len() + 1);
            all.splice(to..to, block);
        }
        3 => {
            let others: Vec<&str> = other.lines().collect();
            let start = choices.below(others.len().max(1));
            let end = block_end(&others, start);
            all.splice(at..at, others.get(start..end).unwrap_or_default().iter().copied());
        }
        // A body in itself, more than once: deep nests.
        _ => {
            for _ in 0..choices.below(80) {
                all.splice(at + 1..at + 1, block.iter().copied().take(1));
                all.push("}");
            }
        }
    }
    all.join("\n") + "\n"
}

/// All places that say the same say something else, so that the types agree as before: a size, a symbol, a dtype, an op, an
/// attribute's value.
fn everywhere(choices: &mut Choices, text: &str) -> String {
    let mut tokens = split(text);
    let replace = |tokens: &mut Vec<String>, old: &str, new: &str| {
        tokens.iter_mut().filter(|token| *token == old).for_each(|token| *token = new.to_string());
    };
    let pick = |choices: &mut Choices, tokens: &[String], is_of_kind: &dyn Fn(&str) -> bool| {
        let candidates: Vec<&String> = tokens.iter().filter(|token| is_of_kind(token)).collect();
        (!candidates.is_empty()).then(|| candidates[choices.below(candidates.len())].clone())
    };
    match choices.below(5) {
        // A size.
        0 | 1 => {
            let old = pick(choices, &tokens, &|token| {
                is_number(token)
                    || (token.len() <= 2 && token.starts_with(|c: char| c.is_ascii_uppercase() || c == '$'))
            });
            let new = choices.of(&SIZES);
            old.iter().for_each(|old| replace(&mut tokens, old, new));
        }
        // A dtype.
        2 => {
            let dtypes = ["f32", "f64", "f16", "bf16", "i64", "i32", "u32", "u8", "bool"];
            let old = pick(choices, &tokens, &|token| dtypes.contains(&token));
            let new = choices.of(&dtypes);
            old.iter().for_each(|old| replace(&mut tokens, old, new));
        }
        // An elementwise op.
        3 => {
            let ops = [
                "add",
                "sub",
                "mul",
                "div",
                "max",
                "min",
                "pow",
                "rem",
                "sin",
                "tanh",
                "exp",
                "log",
                "sqrt",
                "neg",
                "abs",
                "sign",
                "square",
                "and",
                "or",
                "not",
                "shift_left",
                "sort",
                "reverse",
            ];
            let old = pick(choices, &tokens, &|token| ops.contains(&token));
            let new = choices.of(&ops);
            old.iter().for_each(|old| replace(&mut tokens, old, new));
        }
        // A number, by one more or less.
        _ => {
            let old = pick(choices, &tokens, &|token| token.parse::<i64>().is_ok());
            let new = old.as_ref().and_then(|old| old.parse::<i64>().ok());
            let new =
                new.map(|old| if choices.one_in(2) { old.saturating_add(1) } else { (old - 1).max(0) }.to_string());
            old.iter().zip(&new).for_each(|(old, new)| replace(&mut tokens, old, new));
        }
    }
    tokens.concat()
}
