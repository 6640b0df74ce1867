//! Splits the text form into tokens, and provides a cursor that the parsers use to read the tokens.

use std::fmt;

use super::nearest::{closest_word, quoted_words};
use crate::error::{Error, Place, Result, Site};

/// A token of the text form.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Token {
    /// The name of a value: `%x` or `%0`.
    Value(String),
    /// The name of a function or body: `@rnn`.
    Function(String),
    /// A word or a size symbol: `matmul`, `T`, `$1`.
    Name(String),
    /// A number without a sign: `3`, `1.5`, `1e-7`.
    Number(String),
    /// A punctuation character, one of [`MARKS`].
    Mark(char),
    /// The token `..`.
    Range,
    /// The end of a line. Line breaks inside parentheses and brackets are ignored.
    NewLine,
    /// The end of the text.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Value(name) => write!(f, "`%{name}`"),
            Token::Function(name) => write!(f, "`@{name}`"),
            Token::Name(text) | Token::Number(text) => write!(f, "`{text}`"),
            Token::Mark(mark) => write!(f, "`{mark}`"),
            Token::Range => f.write_str("`..`"),
            Token::NewLine => f.write_str("the end of the line"),
            Token::End => f.write_str("the end of the text"),
        }
    }
}

impl Token {
    /// Returns `true` if the token is this word, number or mark.
    pub(crate) fn is(&self, text: &str) -> bool {
        match self {
            Token::Name(name) | Token::Number(name) => name == text,
            Token::Mark(mark) => text.chars().eq([*mark]),
            _ => false,
        }
    }
}

/// Creates the error for text at `site` that does not follow the grammar. If the word in `found` resembles a word in
/// `expected`, the error suggests the expected word.
pub(crate) fn error_at(site: Site, expected: impl Into<String>, found: impl fmt::Display) -> Error {
    let (expected, found) = (expected.into(), found.to_string());
    let word = quoted_words(&found).next().filter(|word| is_name(word));
    let meant = word.and_then(|word| closest_word(word, quoted_words(&expected).filter(|word| is_name(word))));
    let fix = meant.map(write_nearest).unwrap_or_default();
    Error::Parse { at: Place::new("parse", site).boxed(), expected, found, fix }
}

/// Creates the error for an unknown word. If a similar word is among `words`, the error suggests it.
pub(crate) fn unknown_word<'a>(
    site: Site,
    expected: impl Into<String>,
    word: &str,
    words: impl IntoIterator<Item = &'a str>,
) -> Error {
    let fix = closest_word(word, words).map(write_nearest).unwrap_or_default();
    Error::Parse { at: Place::new("parse", site).boxed(), expected: expected.into(), found: format!("`{word}`"), fix }
}

fn write_nearest(word: &str) -> String {
    format!("did you mean `{word}`?")
}

fn is_name(word: &str) -> bool {
    word.chars().all(is_word)
}

/// The punctuation characters, each of which is a token.
const MARKS: &str = "()[]{}:,=+-*";

/// Splits a text into tokens.
struct Lexer<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
    column: usize,
    /// The number of open parentheses and brackets.
    open: usize,
    tokens: Vec<(Token, Site)>,
}

impl Lexer<'_> {
    fn bump(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        Some(next)
    }

    fn site(&self) -> Site {
        Site::Text { line: self.line, column: self.column }
    }

    fn peek_second(&self) -> Option<char> {
        self.rest.clone().nth(1)
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(next) = self.rest.peek().copied().filter(|next| accept(*next)) {
            text.push(next);
            self.bump();
        }
        text
    }

    fn run(mut self) -> Result<Vec<(Token, Site)>> {
        while let Some(next) = self.rest.peek().copied() {
            let site = self.site();
            let token = match next {
                '\n' => {
                    self.bump();
                    if self.open > 0 {
                        continue;
                    }
                    Token::NewLine
                }
                _ if next.is_whitespace() => {
                    self.bump();
                    continue;
                }
                '/' if self.peek_second() == Some('/') => {
                    self.take_while(|c| c != '\n');
                    continue;
                }
                '.' if self.peek_second() == Some('.') => {
                    self.bump();
                    self.bump();
                    Token::Range
                }
                '%' => {
                    self.bump();
                    Token::Value(self.value_name(site)?)
                }
                '@' => {
                    self.bump();
                    let name = self.take_while(is_word);
                    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                        return Err(error_at(site, "a name after `@`", format!("`@{name}`")));
                    }
                    Token::Function(name)
                }
                '0'..='9' => Token::Number(self.number()),
                _ if is_word(next) || next == '$' => {
                    self.bump();
                    Token::Name(format!("{next}{}", self.take_while(is_word)))
                }
                _ if MARKS.contains(next) => {
                    self.bump();
                    match next {
                        '(' | '[' => self.open += 1,
                        ')' | ']' => self.open = self.open.saturating_sub(1),
                        _ => {}
                    }
                    Token::Mark(next)
                }
                _ => return Err(error_at(site, "a token of the text form", format!("`{next}`"))),
            };
            self.tokens.push((token, site));
        }
        let site = self.site();
        self.tokens.push((Token::End, site));
        Ok(self.tokens)
    }

    /// Reads the name of a value: an identifier, or digits only.
    fn value_name(&mut self, site: Site) -> Result<String> {
        let name = self.take_while(is_word);
        let starts_with_digit = name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || (starts_with_digit && !is_number(&name)) {
            return Err(error_at(site, "an identifier or a number after `%`", format!("`%{name}`")));
        }
        Ok(name)
    }

    fn number(&mut self) -> String {
        let is_digit = |c: char| c.is_ascii_digit();
        let mut text = self.take_while(is_digit);
        if self.rest.peek() == Some(&'.') && self.peek_second().is_some_and(is_digit) {
            self.bump();
            text.push('.');
            text.push_str(&self.take_while(is_digit));
        }
        if self.rest.peek() == Some(&'e') {
            let mut ahead = self.rest.clone().skip(1);
            let sign = ahead.next();
            let digit = if matches!(sign, Some('+' | '-')) { ahead.next() } else { sign };
            if digit.is_some_and(is_digit) {
                text.extend(self.bump());
                text.extend(self.bump());
                text.push_str(&self.take_while(is_digit));
            }
        }
        text
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns `true` if a printed name consists of digits. The printer numbers the values that have no name in the graph.
pub(crate) fn is_number(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_digit())
}

/// The tokens of a text, and the position of the next token.
pub(crate) struct Cursor {
    tokens: Vec<(Token, Site)>,
    next: usize,
}

impl Cursor {
    pub(crate) fn new(text: &str) -> Result<Self> {
        let lexer = Lexer { rest: text.chars().peekable(), line: 1, column: 1, open: 0, tokens: Vec::new() };
        Ok(Cursor { tokens: lexer.run()?, next: 0 })
    }

    pub(crate) fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    /// Returns the token `distance` positions after the next one.
    pub(crate) fn peek_at(&self, distance: usize) -> &Token {
        self.tokens.get(self.next + distance).map_or(&Token::End, |(token, _)| token)
    }

    /// Returns the location of the next token.
    pub(crate) fn site(&self) -> Site {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(Site::Unknown, |(_, site)| *site)
    }

    /// Advances to the next token, but not beyond the end of the text.
    pub(crate) fn bump(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len());
    }

    /// Creates the error for the next token, which the grammar does not allow.
    pub(crate) fn error(&self, expected: impl Into<String>) -> Error {
        error_at(self.site(), expected, self.peek())
    }

    /// Creates the same error as [`error`](Cursor::error), but with a suggested fix.
    pub(crate) fn error_with(&self, expected: impl Into<String>, fix: impl Into<String>) -> Error {
        let (expected, found) = (expected.into(), self.peek().to_string());
        Error::Parse { at: Place::new("parse", self.site()).boxed(), expected, found, fix: fix.into() }
    }

    /// Returns the location of the first occurrence of a word, or `None` if the text does not contain it.
    pub(crate) fn first_word(&self, word: &str) -> Option<Site> {
        self.tokens.iter().find_map(|(token, site)| token.is(word).then_some(*site))
    }

    fn take_if(&mut self, is_next: bool) -> bool {
        if is_next {
            self.bump();
        }
        is_next
    }

    /// Consumes the next token and returns `true` if it is `mark`; otherwise, returns `false`.
    pub(crate) fn take_mark(&mut self, mark: char) -> bool {
        self.take_if(*self.peek() == Token::Mark(mark))
    }

    pub(crate) fn expect_mark(&mut self, mark: char) -> Result<()> {
        if self.take_mark(mark) { Ok(()) } else { Err(self.error(format!("`{mark}`"))) }
    }

    /// Returns `true` if the next token is `word`.
    pub(crate) fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(name) if name == word)
    }

    /// Consumes the next token and returns `true` if it is `word`; otherwise, returns `false`.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        self.take_if(self.at_word(word))
    }

    /// Consumes the next tokens and returns `true` if they are the words and marks of `phrase`, such as `case 0` or
    /// `nit-sot`; otherwise, returns `false`.
    pub(crate) fn take_phrase(&mut self, phrase: &str) -> bool {
        let spaced = phrase.replace('-', " - ");
        let is_next = spaced.split(' ').enumerate().all(|(index, word)| self.peek_at(index).is(word));
        self.next += if is_next { spaced.split(' ').count() } else { 0 };
        is_next
    }

    pub(crate) fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.error(format!("`{word}`"))) }
    }

    pub(crate) fn expect_name(&mut self, expected: &str) -> Result<String> {
        let Token::Name(name) = self.peek().clone() else { return Err(self.error(expected)) };
        self.bump();
        Ok(name)
    }

    pub(crate) fn expect_value(&mut self, expected: &str) -> Result<String> {
        let Token::Value(name) = self.peek().clone() else { return Err(self.error(expected)) };
        self.bump();
        Ok(name)
    }

    /// Reads a nonnegative integer.
    pub(crate) fn expect_count(&mut self, expected: &str) -> Result<usize> {
        let count = match self.peek() {
            Token::Number(text) => text.parse().ok(),
            _ => None,
        };
        let count = count.ok_or_else(|| self.error(expected))?;
        self.bump();
        Ok(count)
    }

    pub(crate) fn skip_new_lines(&mut self) {
        while *self.peek() == Token::NewLine {
            self.bump();
        }
    }

    /// Consumes the end of the line and the blank lines after it. Fails if another token comes first.
    pub(crate) fn expect_line_end(&mut self) -> Result<()> {
        if *self.peek() != Token::NewLine && *self.peek() != Token::End {
            return Err(self.error("the end of the line"));
        }
        self.skip_new_lines();
        Ok(())
    }

    /// Reads items separated by commas, up to and including the closing mark. `expected` describes the tokens that may
    /// follow an item.
    pub(crate) fn list<T>(
        &mut self,
        close: char,
        expected: &str,
        mut item: impl FnMut(&mut Cursor) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        let mut is_open = !self.take_mark(close);
        while is_open {
            items.push(item(self)?);
            is_open = !self.take_mark(close);
            if is_open && !self.take_mark(',') {
                return Err(self.error(expected));
            }
        }
        Ok(items)
    }
}
