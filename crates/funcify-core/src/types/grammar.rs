//! Parses dimensions such as `2*B*T-3`, and types such as `f32[T,64]`.

use super::lexer::{Cursor, Token, error_at, unknown_word};
use super::{DType, Dim, Symbol, TensorType};
use crate::error::{Error, Result};

/// Parses a text that consists of a single type. The error names the expected tokens and their location.
pub(crate) fn parse_type(text: &str) -> Result<TensorType, String> {
    let read = || {
        let mut cursor = Cursor::new(text)?;
        let ty = tensor_type(&mut cursor)?;
        if *cursor.peek() != Token::End {
            return Err(cursor.error("the end of the type"));
        }
        Ok(ty)
    };
    read().map_err(expectation)
}

/// Formats a parse error on one line: the expected tokens, their location, the token that was found, and the fix.
pub(crate) fn expectation(error: Error) -> String {
    match error {
        Error::Parse { at, expected, found, fix } => {
            let fix = if fix.is_empty() { fix } else { format!("; {fix}") };
            format!("{expected} at {}, found {found}{fix}", at.site)
        }
        other => other.to_string(),
    }
}

/// Parses a type, such as `f32[T,64]`.
pub(crate) fn tensor_type(cursor: &mut Cursor) -> Result<TensorType> {
    let site = cursor.site();
    let name = cursor.expect_name("a type such as `f32[T,3]`")?;
    let Some(dtype) = DType::from_name(&name) else {
        let names = DType::ALL.map(DType::name).join(", ");
        return Err(unknown_word(site, format!("a dtype ({names})"), &name, DType::ALL.map(DType::name)));
    };
    cursor.expect_mark('[')?;
    let dims = dims(cursor)?;
    match dims.iter().find(|dim| dim.is_unusable()) {
        Some(dim) => Err(error_at(site, "a size that is 0 or more", format!("`{dim}`"))),
        None => Ok(TensorType::new(dtype, dims)),
    }
}

/// Parses a list of dimensions up to and including the closing bracket: `T,B+1]`.
pub(crate) fn dims(cursor: &mut Cursor) -> Result<Vec<Dim>> {
    cursor.list(']', "`,` or `]`, or `+`, `-` or `*` in a dimension", dim)
}

/// Parses a dimension: a sum of products.
pub(crate) fn dim(cursor: &mut Cursor) -> Result<Dim> {
    let site = cursor.site();
    let mut terms = vec![product(cursor)?];
    // `product` consumes the minus sign itself.
    while cursor.take_mark('+') || *cursor.peek() == Token::Mark('-') {
        terms.push(product(cursor)?);
    }
    let sum = Dim::sum(terms);
    if sum.is_beyond_range() {
        return Err(error_at(site, "a dimension that fits in 64 bits", "a sum or product that overflows"));
    }
    Ok(sum)
}

/// Parses a signed product of numbers and symbols.
fn product(cursor: &mut Cursor) -> Result<Dim> {
    let site = cursor.site();
    let mut number: i128 = if cursor.take_mark('-') { -1 } else { 1 };
    let mut symbols = Vec::new();
    loop {
        match factor(cursor)? {
            Factor::Symbol(symbol) => symbols.push(symbol),
            // Use 128 bits, so that `-9223372036854775808` does not overflow before its sign is applied.
            Factor::Number(factor) => number = number.saturating_mul(factor.into()),
        }
        if !cursor.take_mark('*') {
            break;
        }
    }
    match i64::try_from(number) {
        Ok(number) => Ok(Dim::product(number, symbols)),
        Err(_) => Err(error_at(site, "a dimension that fits in 64 bits", "a product that overflows")),
    }
}

enum Factor {
    Symbol(Symbol),
    Number(u64),
}

fn factor(cursor: &mut Cursor) -> Result<Factor> {
    let factor = match cursor.peek() {
        Token::Name(name) => Some(Factor::Symbol(Symbol::new(name))),
        Token::Number(text) => text.parse().ok().map(Factor::Number),
        _ => None,
    };
    let factor = factor.ok_or_else(|| cursor.error("a dimension: a whole number or a symbol"))?;
    cursor.bump();
    Ok(factor)
}

#[cfg(test)]
mod tests {
    use super::parse_type;

    #[test]
    fn types_round_trip() {
        for text in ["f32[]", "bool[2]", "i64[T+1,B]", "f64[2*B*T-3]", "bf16[$1,-n+4]", "u8[B*T+2*n*n]"] {
            assert_eq!(parse_type(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_type(" f16 [ T + 1 , 3 ]").unwrap().to_string(), "f16[T+1,3]");
    }

    #[test]
    fn malformed_types_say_what_was_expected() {
        let rejects = |text: &str, expected: &str| {
            let error = parse_type(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        };
        rejects("f32[T,]", "a dimension: a whole number or a symbol at line 1, column 7, found `]`");
        rejects("f32[3", "`,` or `]`");
        rejects("q32[3]", "a dtype (bool, u8,");
        rejects("f32[T B]", "`,` or `]`");
        rejects("f32[T+]", "a dimension");
        rejects("f32[1.5]", "a whole number");
        rejects("f32", "`[`");
        rejects("", "a type such as");
        rejects("f32[3] x", "the end of the type");
        rejects("f32[-3]", "0 or more");
        rejects("f32[99999999999999999999]", "a whole number");
        rejects("f32[T/2]", "a token");
    }
}
