//! Maps symbols to their sizes in a call.

use std::fmt;

use super::{Dim, Symbol};

/// A map from symbols to their sizes in a call.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Shape, Sizes, Symbol};
///
/// let mut sizes = Sizes::new();
/// sizes.set(&Symbol::new("T"), 5);
/// assert_eq!(Shape::from(["T", "B"]).substitute(&sizes).to_string(), "[5,B]");
/// assert_eq!((sizes.get(&Symbol::new("T")), sizes.get(&Symbol::new("B"))), (Some(5), None));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct Sizes {
    /// The symbols and their sizes, sorted by symbol so that equal maps compare equal.
    bound: Vec<(Symbol, usize)>,
}

impl Sizes {
    /// Creates an empty map.
    pub fn new() -> Self {
        Sizes::default()
    }

    /// Returns the size of `symbol`, or `None` if it is unbound.
    pub fn get(&self, symbol: &Symbol) -> Option<usize> {
        let index = self.bound.binary_search_by(|(bound, _)| bound.cmp(symbol)).ok()?;
        Some(self.bound[index].1)
    }

    /// Binds `symbol` to a size. Replaces an earlier binding.
    pub fn set(&mut self, symbol: &Symbol, size: usize) {
        match self.bound.binary_search_by(|(bound, _)| bound.cmp(symbol)) {
            Ok(index) => self.bound[index].1 = size,
            Err(index) => self.bound.insert(index, (symbol.clone(), size)),
        }
    }

    /// Removes the binding of `symbol`.
    pub fn remove(&mut self, symbol: &Symbol) {
        self.bound.retain(|(bound, _)| bound != symbol);
    }

    /// Iterates over the symbols and their sizes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Symbol, usize)> {
        self.bound.iter().map(|(symbol, size)| (symbol, *size))
    }
}

/// The reason why a dimension does not have a valid size in a call.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::types::SizeError;
/// use funcify::{Dim, Sizes, Symbol};
///
/// assert_eq!(Dim::from("T").value(&Sizes::new()), Err(SizeError::Unbound(Symbol::new("T"))));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SizeError {
    /// The symbol is unbound: no input's shape determines it.
    Unbound(Symbol),
    /// The value of the dimension does not fit in 64 bits.
    TooLarge(Dim),
    /// The value of the dimension is negative. The second field is that value.
    Negative(Dim, i64),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::Unbound(symbol) => write!(f, "no size is bound to `{symbol}`"),
            SizeError::TooLarge(dim) => write!(f, "the value of `{dim}` does not fit in 64 bits"),
            SizeError::Negative(dim, value) => write!(f, "the size `{dim}` is {value}"),
        }
    }
}

impl std::error::Error for SizeError {}
