//! The sizes of a call, and why a dimension may have none.

use std::fmt;

use super::{Dim, Symbol};

/// The sizes that a call gives to symbols.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Sizes {
    /// Sorted by symbol, so that equal bindings are equal values.
    bound: Vec<(Symbol, usize)>,
}

impl Sizes {
    /// No sizes.
    pub fn new() -> Self {
        Sizes::default()
    }

    /// The size of `symbol`, if it has one.
    pub fn get(&self, symbol: &Symbol) -> Option<usize> {
        let index = self.bound.binary_search_by(|(bound, _)| bound.cmp(symbol)).ok()?;
        Some(self.bound[index].1)
    }

    /// Gives `symbol` a size, replacing what it had.
    pub fn set(&mut self, symbol: &Symbol, size: usize) {
        match self.bound.binary_search_by(|(bound, _)| bound.cmp(symbol)) {
            Ok(index) => self.bound[index].1 = size,
            Err(index) => self.bound.insert(index, (symbol.clone(), size)),
        }
    }

    /// Takes the size of `symbol` away.
    pub fn remove(&mut self, symbol: &Symbol) {
        self.bound.retain(|(bound, _)| bound != symbol);
    }

    /// Each symbol with its size, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Symbol, usize)> {
        self.bound.iter().map(|(symbol, size)| (symbol, *size))
    }
}

/// Why a dimension has no size in a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SizeError {
    /// No input's shape determines this symbol.
    Unbound(Symbol),
    /// Its value does not fit in 64 bits.
    TooLarge(Dim),
    /// Its value is negative, and it is a size.
    Negative(Dim, i64),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::Unbound(symbol) => write!(f, "nothing gives a size to `{symbol}`"),
            SizeError::TooLarge(dim) => write!(f, "the value of `{dim}` does not fit in 64 bits"),
            SizeError::Negative(dim, value) => write!(f, "the size `{dim}` is {value}"),
        }
    }
}

impl std::error::Error for SizeError {}
