//! Dimensions: integer polynomials over named symbols, in a canonical form.
//!
//! `T`, `T+1` and `2*B*T` are dimensions. Terms are kept sorted and without zero coefficients, so two
//! dimensions are equal for all sizes exactly when they compare equal. A symbol stands for a size, so
//! for an integer that is not negative; [`Dim::is_at_least`] uses that.

use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::sync::Arc;

/// The name of a size that is bound when a program is called.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(Arc<str>);

impl Symbol {
    /// The symbol of that name. Names are identifiers; those that start with `$` are made by the builder.
    pub fn new(name: &str) -> Self {
        Symbol(name.into())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A product of symbols, sorted; empty for the constant term.
type Monomial = Vec<Symbol>;

/// One dimension: an integer polynomial over symbols.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Dim {
    /// Sorted by degree, then by name; no coefficient is zero.
    terms: Vec<(Monomial, i64)>,
}

impl Dim {
    /// The dimension that is one symbol.
    pub fn symbol(symbol: &Symbol) -> Self {
        Dim { terms: vec![(vec![symbol.clone()], 1)] }
    }

    /// Its value, if it has no symbols.
    pub fn constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(monomial, coefficient)] if monomial.is_empty() => Some(*coefficient),
            _ => None,
        }
    }

    /// The symbol, if it is just one symbol.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match self.terms.as_slice() {
            [(monomial, 1)] if monomial.len() == 1 => Some(&monomial[0]),
            _ => None,
        }
    }

    /// Every symbol in it, in order, without repetition.
    pub fn symbols(&self) -> Vec<&Symbol> {
        let mut all: Vec<&Symbol> = self.terms.iter().flat_map(|(monomial, _)| monomial).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Whether `self >= other` for all sizes; `None` if that depends on the sizes.
    ///
    /// A symbol is not negative, so a difference without negative coefficients is not negative.
    pub fn is_at_least(&self, other: &Dim) -> Option<bool> {
        let difference = self.clone() - other.clone();
        if difference.terms.iter().all(|(_, coefficient)| *coefficient >= 0) {
            return Some(true);
        }
        let constant_is_negative = difference.terms.iter().any(|(m, c)| m.is_empty() && *c < 0);
        let none_is_positive = difference.terms.iter().all(|(_, c)| *c <= 0);
        (constant_is_negative && none_is_positive).then_some(false)
    }

    /// Its value under `sizes`; the first symbol without a size is the error.
    pub fn value(&self, sizes: &Sizes) -> Result<i64, Symbol> {
        if let Some(constant) = self.constant() {
            return Ok(constant);
        }
        let mut sum = 0i64;
        for (monomial, coefficient) in &self.terms {
            let mut product = *coefficient;
            for symbol in monomial {
                let size = sizes.get(symbol).ok_or_else(|| symbol.clone())?;
                product = product.wrapping_mul(size as i64);
            }
            sum = sum.wrapping_add(product);
        }
        Ok(sum)
    }

    /// With every symbol that `sizes` binds replaced by its size.
    pub fn substitute(&self, sizes: &Sizes) -> Dim {
        let terms = self.terms.iter().map(|(monomial, coefficient)| {
            let mut left = Vec::new();
            let mut product = *coefficient;
            for symbol in monomial {
                match sizes.get(symbol) {
                    Some(size) => product = product.wrapping_mul(size as i64),
                    None => left.push(symbol.clone()),
                }
            }
            (left, product)
        });
        Dim::from_terms(terms.collect())
    }

    /// With these dimensions in place of these symbols, all at once.
    pub(crate) fn replaced(&self, by: &std::collections::BTreeMap<Symbol, Dim>) -> Dim {
        let mut replaced = Dim::default();
        for (monomial, coefficient) in &self.terms {
            let dims = monomial.iter().map(|symbol| by.get(symbol).cloned().unwrap_or_else(|| Dim::symbol(symbol)));
            replaced = replaced + dims.fold(Dim::from(*coefficient), |product, dim| product * dim);
        }
        replaced
    }

    /// The polynomial that is this one when it is multiplied by `divisor`, if there is one.
    pub fn divided_by(&self, divisor: &Dim) -> Option<Dim> {
        let (divisor_monomial, divisor_coefficient) = divisor.terms.first()?;
        let (mut rest, mut quotient) = (self.clone(), Dim::default());
        // The leading term of `rest` gets smaller each time.
        while let Some((monomial, coefficient)) = rest.terms.first() {
            let mut monomial = monomial.clone();
            for symbol in divisor_monomial {
                monomial.remove(monomial.iter().position(|other| other == symbol)?);
            }
            if coefficient.checked_rem(*divisor_coefficient)? != 0 {
                return None;
            }
            let term = Dim { terms: vec![(monomial, coefficient / divisor_coefficient)] };
            rest = rest - term.clone() * divisor;
            quotient = quotient + term;
        }
        Some(quotient)
    }

    /// Solves `self == value` for its only symbol, when it is linear in it: `k+1 == 8` gives `(k, 7)`.
    pub fn solve(&self, value: i64) -> Option<(Symbol, i64)> {
        let mut constant = 0;
        let mut unknown = None;
        for (monomial, coefficient) in &self.terms {
            match monomial.as_slice() {
                [] => constant = *coefficient,
                [symbol] if unknown.is_none() => unknown = Some((symbol.clone(), *coefficient)),
                _ => return None,
            }
        }
        let (symbol, factor) = unknown?;
        let rest = value - constant;
        (rest % factor == 0 && rest / factor >= 0).then(|| (symbol, rest / factor))
    }

    fn from_terms(mut terms: Vec<(Monomial, i64)>) -> Dim {
        terms.sort_by(|(a, _), (b, _)| (b.len(), a).cmp(&(a.len(), b)));
        let mut merged: Vec<(Monomial, i64)> = Vec::with_capacity(terms.len());
        for (monomial, coefficient) in terms {
            match merged.last_mut() {
                Some((last, sum)) if *last == monomial => *sum = sum.wrapping_add(coefficient),
                _ => merged.push((monomial, coefficient)),
            }
        }
        merged.retain(|(_, coefficient)| *coefficient != 0);
        Dim { terms: merged }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        for (index, (monomial, coefficient)) in self.terms.iter().enumerate() {
            let sign = match (index, *coefficient < 0) {
                (_, true) => "-",
                (0, false) => "",
                (_, false) => "+",
            };
            f.write_str(sign)?;
            let names: Vec<&str> = monomial.iter().map(Symbol::name).collect();
            match (coefficient.unsigned_abs(), names.is_empty()) {
                (size, true) => write!(f, "{size}")?,
                (1, false) => f.write_str(&names.join("*"))?,
                (size, false) => write!(f, "{size}*{}", names.join("*"))?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Self {
        Dim::from_terms(vec![(Vec::new(), value)])
    }
}

impl From<i32> for Dim {
    fn from(value: i32) -> Self {
        Dim::from(i64::from(value))
    }
}

impl From<usize> for Dim {
    fn from(value: usize) -> Self {
        Dim::from(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Dim {
    /// The dimension that is the symbol of that name. A polynomial is written with operators, or read
    /// from text by [`TensorType::parse`](crate::TensorType::parse).
    fn from(name: &str) -> Self {
        Dim::symbol(&Symbol::new(name))
    }
}

impl From<&Dim> for Dim {
    fn from(dim: &Dim) -> Self {
        dim.clone()
    }
}

impl<D: Into<Dim>> Add<D> for Dim {
    type Output = Dim;
    fn add(mut self, other: D) -> Dim {
        self.terms.extend(other.into().terms);
        Dim::from_terms(self.terms)
    }
}

impl<D: Into<Dim>> Sub<D> for Dim {
    type Output = Dim;
    fn sub(mut self, other: D) -> Dim {
        self.terms.extend(other.into().terms.into_iter().map(|(monomial, c)| (monomial, -c)));
        Dim::from_terms(self.terms)
    }
}

impl<D: Into<Dim>> Mul<D> for Dim {
    type Output = Dim;
    fn mul(self, other: D) -> Dim {
        let other = other.into();
        let mut terms = Vec::new();
        for (left, a) in &self.terms {
            for (right, b) in &other.terms {
                let mut monomial: Monomial = left.iter().chain(right).cloned().collect();
                monomial.sort();
                terms.push((monomial, a.wrapping_mul(*b)));
            }
        }
        Dim::from_terms(terms)
    }
}

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
    pub(crate) fn remove(&mut self, symbol: &Symbol) {
        self.bound.retain(|(bound, _)| bound != symbol);
    }

    /// Each symbol with its size, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Symbol, usize)> {
        self.bound.iter().map(|(symbol, size)| (symbol, *size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(name: &str) -> Dim {
        Dim::from(name)
    }

    #[test]
    fn equal_polynomials_are_equal_values() {
        let a = (dim("T") + 1) * 2;
        let b = dim("T") + dim("T") + 2;
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "2*T+2");
        assert_eq!((dim("T") * dim("B")).to_string(), (dim("B") * dim("T")).to_string());
        assert_eq!((dim("T") - dim("T")).constant(), Some(0));
        assert_eq!((dim("T") - 3).to_string(), "T-3");
    }

    #[test]
    fn order_is_known_only_where_it_holds_for_all_sizes() {
        assert_eq!((dim("T") + 1).is_at_least(&dim("T")), Some(true));
        assert_eq!(dim("T").is_at_least(&(dim("T") + 1)), Some(false));
        assert_eq!(dim("T").is_at_least(&Dim::from(3)), None);
        assert_eq!(dim("T").is_at_least(&Dim::from(0)), Some(true));
    }

    #[test]
    fn quotients_are_exact() {
        let (b, t) = (dim("B"), dim("T"));
        let product = (b.clone() * 2 + &t) * (t.clone() - 3);
        assert_eq!(product.divided_by(&(t.clone() - 3)), Some(b.clone() * 2 + &t));
        assert_eq!((b.clone() * 6).divided_by(&(b.clone() * 2)), Some(Dim::from(3)));
        assert_eq!((b.clone() * 6).divided_by(&(b.clone() * 4)), None);
        assert_eq!((b.clone() + 1).divided_by(&b), None);
        assert_eq!(Dim::from(0).divided_by(&b), Some(Dim::from(0)));
        assert_eq!(b.divided_by(&Dim::from(0)), None);
    }

    #[test]
    fn values_and_solutions() {
        let mut sizes = Sizes::new();
        sizes.set(&Symbol::new("T"), 5);
        assert_eq!((dim("T") * 2 + 1).value(&sizes), Ok(11));
        assert_eq!((dim("T") * dim("B")).value(&sizes), Err(Symbol::new("B")));
        assert_eq!((dim("T") * dim("B")).substitute(&sizes), dim("B") * 5);
        assert_eq!((dim("k") + 1).solve(8), Some((Symbol::new("k"), 7)));
        assert_eq!((dim("k") * 2).solve(7), None);
        assert_eq!((dim("k") + 1).solve(0), None);
    }
}
