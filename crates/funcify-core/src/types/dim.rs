//! Dimensions: integer polynomials over named symbols, in a canonical form.
//!
//! `T`, `T+1` and `2*B*T` are dimensions. Terms are sorted and have nonzero coefficients, so two dimensions have the
//! same value for all sizes if and only if they compare equal. A symbol represents a size, so it is never negative.
//! [`Dim::is_at_least`] relies on this.
//!
//! Arithmetic is checked. A result is [beyond range](Dim::is_beyond_range) if a coefficient does not fit in 64 bits, or
//! if a multiplication has too many terms. Such a result is not a size: it differs from every size, and
//! [`Dim::is_at_least`] returns `None` for it. Graphs reject types and attributes that contain such a result.

use std::cmp::Reverse;
use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::sync::Arc;

use super::{SizeError, Sizes};

/// The name of a size that is not known until the program is called.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Dim, Symbol};
///
/// assert_eq!(Dim::from("T").as_symbol(), Some(&Symbol::new("T")));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(Arc<str>);

impl Symbol {
    /// Returns the symbol with this name. Names are identifiers; generated names start with `$`.
    pub fn new(name: &str) -> Self {
        Symbol(name.into())
    }

    /// Returns the name of the symbol.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A product of symbols, as a sorted list. The list is empty for the constant term.
type Monomial = Vec<Symbol>;

/// The maximum number of products of terms that a multiplication or division of dimensions may compute.
const MAX_TERMS: usize = 1 << 16;

/// The size of an axis: an integer polynomial over symbols.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Dim, Sizes, Symbol};
///
/// let dim = Dim::from("T") * 2 + 1;
/// assert_eq!((dim.to_string().as_str(), dim.constant()), ("2*T+1", None));
/// assert_eq!(dim.is_at_least(&Dim::from("T")), Some(true));
/// let mut sizes = Sizes::new();
/// sizes.set(&Symbol::new("T"), 5);
/// assert_eq!(dim.value(&sizes), Ok(11));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Dim {
    /// The terms, sorted by decreasing degree and then by name. No coefficient is zero.
    terms: Vec<(Monomial, i64)>,
    /// `true` if an operation exceeded 64 bits or the term limit. `terms` is then empty.
    beyond_range: bool,
}

/// A map from symbols to the dimensions that replace them.
#[doc(hidden)]
pub type Replacements = std::collections::BTreeMap<Symbol, Dim>;

impl Dim {
    const BEYOND_RANGE: Dim = Dim { terms: Vec::new(), beyond_range: true };

    /// Returns the dimension that consists of a single symbol.
    pub fn symbol(symbol: &Symbol) -> Self {
        Dim { terms: vec![(vec![symbol.clone()], 1)], beyond_range: false }
    }

    /// Returns the sum of all given dimensions. Sorts the terms only once.
    pub(crate) fn sum(dims: impl IntoIterator<Item = Dim>) -> Self {
        let (mut terms, mut beyond_range) = (Vec::new(), false);
        for dim in dims {
            beyond_range |= dim.beyond_range;
            terms.extend(dim.terms);
        }
        if beyond_range { Dim::BEYOND_RANGE } else { Dim::from_terms(terms) }
    }

    /// Returns the product of an integer and a list of symbols.
    pub(crate) fn product(coefficient: i64, mut symbols: Vec<Symbol>) -> Self {
        symbols.sort();
        Dim::from_terms(vec![(symbols, coefficient)])
    }

    /// Returns `true` if the dimension can never be a valid size, because it is always negative or is beyond range.
    #[doc(hidden)]
    pub fn is_unusable(&self) -> bool {
        let has_negative_constant = || self.terms.last().is_some_and(|(monomial, c)| monomial.is_empty() && *c < 0);
        self.beyond_range || (has_negative_constant() && self.terms.iter().all(|(_, c)| *c <= 0))
    }

    /// Returns `true` if the arithmetic that computed this dimension exceeded 64 bits or the limit on terms. Such a
    /// dimension does not represent a size.
    pub fn is_beyond_range(&self) -> bool {
        self.beyond_range
    }

    /// Returns the value of the dimension, or `None` if it contains symbols or is beyond range.
    #[inline]
    pub fn constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] if self.beyond_range => None,
            [] => Some(0),
            [(monomial, coefficient)] if monomial.is_empty() => Some(*coefficient),
            _ => None,
        }
    }

    /// Returns the symbol if the dimension is a single symbol, and `None` otherwise.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match self.terms.as_slice() {
            [(monomial, 1)] if monomial.len() == 1 => Some(&monomial[0]),
            _ => None,
        }
    }

    /// Returns the symbols of the dimension, sorted and without duplicates.
    pub fn symbols(&self) -> Vec<&Symbol> {
        let mut all: Vec<&Symbol> = self.terms.iter().flat_map(|(monomial, _)| monomial).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Returns `Some(true)` if `self >= other` for all sizes, `Some(false)` if `self < other` for all sizes, and `None`
    /// if neither can be shown.
    ///
    /// Symbols are never negative, so `self - other` is never negative if none of its coefficients is negative.
    pub fn is_at_least(&self, other: &Dim) -> Option<bool> {
        if let (Some(left), Some(right)) = (self.constant(), other.constant())
            && left.checked_sub(right).is_some()
        {
            return Some(left >= right);
        }
        let difference = self.clone() - other.clone();
        if difference.beyond_range {
            return None;
        }
        if difference.terms.iter().all(|(_, coefficient)| *coefficient >= 0) {
            return Some(true);
        }
        let constant_is_negative = difference.terms.iter().any(|(m, c)| m.is_empty() && *c < 0);
        let none_is_positive = difference.terms.iter().all(|(_, c)| *c <= 0);
        (constant_is_negative && none_is_positive).then_some(false)
    }

    /// Returns the value of the dimension for the given sizes. The value may be negative;
    /// [`Shape::value`](super::Shape::value) rejects negative values.
    pub fn value(&self, sizes: &Sizes) -> Result<i64, SizeError> {
        if let Some(constant) = self.constant() {
            return Ok(constant);
        }
        let too_large = || SizeError::TooLarge(self.clone());
        if self.beyond_range {
            return Err(too_large());
        }
        let mut sum = 0i128;
        for (monomial, coefficient) in &self.terms {
            let mut product = i128::from(*coefficient);
            for symbol in monomial {
                let size = sizes.get(symbol).ok_or_else(|| SizeError::Unbound(symbol.clone()))?;
                product = product.checked_mul(size as i128).ok_or_else(too_large)?;
            }
            sum = sum.checked_add(product).ok_or_else(too_large)?;
        }
        i64::try_from(sum).map_err(|_| too_large())
    }

    /// Returns the dimension with each symbol that is bound in `sizes` replaced with its size.
    pub fn substitute(&self, sizes: &Sizes) -> Dim {
        let mut terms = Vec::with_capacity(self.terms.len());
        for (monomial, coefficient) in &self.terms {
            let mut left = Vec::new();
            let mut product = Some(*coefficient);
            for symbol in monomial {
                match sizes.get(symbol) {
                    Some(size) => product = product.zip(i64::try_from(size).ok()).and_then(|(a, b)| a.checked_mul(b)),
                    None => left.push(symbol.clone()),
                }
            }
            let Some(product) = product else { return Dim::BEYOND_RANGE };
            terms.push((left, product));
        }
        if self.beyond_range { Dim::BEYOND_RANGE } else { Dim::from_terms(terms) }
    }

    /// Returns the dimension with each symbol replaced by the dimension to which `by` maps it, if any. Symbols inside a
    /// replacement are not replaced again.
    #[doc(hidden)]
    pub fn replaced(&self, by: &Replacements) -> Dim {
        let concerned = |(monomial, _): &(Monomial, i64)| monomial.iter().any(|symbol| by.contains_key(symbol));
        if self.beyond_range || !self.terms.iter().any(concerned) {
            return self.clone();
        }
        Dim::sum(self.terms.iter().map(|(monomial, coefficient)| {
            let dims = monomial.iter().map(|symbol| by.get(symbol).cloned().unwrap_or_else(|| Dim::symbol(symbol)));
            dims.fold(Dim::from(*coefficient), |product, dim| product * dim)
        }))
    }

    /// Divides the dimension by `divisor`. Returns `None` if the division is not exact, needs too many steps, or
    /// overflows 64 bits.
    #[doc(hidden)]
    pub fn divided_by(&self, divisor: &Dim) -> Option<Dim> {
        let (divisor_monomial, divisor_coefficient) = divisor.terms.first()?;
        let mut steps = 0;
        let (mut rest, mut quotient) = (self.clone(), Dim::default());
        // The loop terminates, because the leading term of `rest` decreases in each iteration.
        while let Some((monomial, coefficient)) = rest.terms.first() {
            steps += divisor.terms.len();
            if steps > MAX_TERMS {
                return None;
            }
            let mut monomial = monomial.clone();
            for symbol in divisor_monomial {
                monomial.remove(monomial.iter().position(|other| other == symbol)?);
            }
            if coefficient.checked_rem(*divisor_coefficient)? != 0 {
                return None;
            }
            let term = Dim { terms: vec![(monomial, coefficient / divisor_coefficient)], beyond_range: false };
            rest = rest - term.clone() * divisor;
            quotient.terms.push((term.terms[0].0.clone(), term.terms[0].1));
        }
        (!rest.beyond_range).then_some(quotient)
    }

    /// Solves `self == value` for the symbol of `self`: `k+1 == 8` yields `(k, 7)`. Returns `None` if `self` is not
    /// linear in a single symbol, or if the solution is not a nonnegative 64-bit integer.
    #[doc(hidden)]
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
        // Use 128 bits, because the difference of two 64-bit numbers may overflow.
        let (rest, factor) = (i128::from(value) - i128::from(constant), i128::from(factor));
        let size = i64::try_from(rest / factor).ok().filter(|size| *size >= 0 && rest % factor == 0)?;
        Some((symbol, size))
    }

    fn from_terms(mut terms: Vec<(Monomial, i64)>) -> Dim {
        terms.sort_by(|(a, _), (b, _)| (Reverse(a.len()), a).cmp(&(Reverse(b.len()), b)));
        // Sum the coefficients in 128 bits, so that the order of the terms does not affect whether a sum overflows.
        let mut merged: Vec<(Monomial, i128)> = Vec::with_capacity(terms.len());
        for (monomial, coefficient) in terms {
            match merged.last_mut() {
                Some((last, sum)) if *last == monomial => *sum += i128::from(coefficient),
                _ => merged.push((monomial, coefficient.into())),
            }
        }
        merged.retain(|(_, coefficient)| *coefficient != 0);
        let narrow = merged.into_iter().map(|(monomial, sum)| Some((monomial, i64::try_from(sum).ok()?)));
        match narrow.collect() {
            Some(terms) => Dim { terms, beyond_range: false },
            None => Dim::BEYOND_RANGE,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.beyond_range {
            return f.write_str("(beyond 64 bits)");
        }
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
        i64::try_from(value).map_or(Dim::BEYOND_RANGE, Dim::from)
    }
}

impl From<&str> for Dim {
    /// Returns the dimension that consists of the symbol `name`. To build a polynomial, use operators or
    /// [`TensorType::parse`](crate::TensorType::parse).
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
    fn add(self, other: D) -> Dim {
        Dim::sum([self, other.into()])
    }
}

impl<D: Into<Dim>> Sub<D> for Dim {
    type Output = Dim;
    fn sub(self, other: D) -> Dim {
        let other = other.into();
        // Negating `i64::MIN` overflows.
        let negated = other.terms.iter().map(|(monomial, c)| Some((monomial.clone(), c.checked_neg()?)));
        match negated.collect::<Option<Vec<_>>>() {
            Some(terms) => Dim::sum([self, Dim { terms, ..other }]),
            None => Dim::BEYOND_RANGE,
        }
    }
}

impl<D: Into<Dim>> Mul<D> for Dim {
    type Output = Dim;
    fn mul(self, other: D) -> Dim {
        let other = other.into();
        let products = self.terms.len().saturating_mul(other.terms.len());
        if self.beyond_range || other.beyond_range || products > MAX_TERMS {
            return Dim::BEYOND_RANGE;
        }
        let mut terms = Vec::with_capacity(products);
        for (left, a) in &self.terms {
            for (right, b) in &other.terms {
                let mut monomial: Monomial = left.iter().chain(right).cloned().collect();
                monomial.sort();
                let Some(product) = a.checked_mul(*b) else { return Dim::BEYOND_RANGE };
                terms.push((monomial, product));
            }
        }
        Dim::from_terms(terms)
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
        assert_eq!(Dim::from(0).is_at_least(&dim("T")), None);
        assert_eq!(Dim::from(-1).is_at_least(&dim("T")), Some(false));
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
        assert_eq!((dim("T") * dim("B")).value(&sizes), Err(SizeError::Unbound(Symbol::new("B"))));
        assert_eq!((dim("T") * dim("B")).substitute(&sizes), dim("B") * 5);
        assert_eq!((dim("k") + 1).solve(8), Some((Symbol::new("k"), 7)));
        assert_eq!((dim("k") * 2).solve(7), None);
        assert_eq!((dim("k") + 1).solve(0), None);
    }

    /// Checks that overflowing operations, in any order, yield a dimension that is not a size.
    #[test]
    fn arithmetic_beyond_range_is_no_size() {
        let (largest, smallest) = (Dim::from(i64::MAX), Dim::from(i64::MIN));
        let t = || dim("T");
        let beyond = [
            largest.clone() + 1,
            smallest.clone() - 1,
            Dim::from(0) - smallest.clone(),
            Dim::from(1i64 << 32) * (1i64 << 32),
            t() * (1i64 << 32) * (1i64 << 32),
            t() * i64::MAX + t(),
            Dim::from(usize::MAX),
            Dim::from(1i64 << 62).replaced(&Default::default()) * 2,
        ];
        for dim in beyond {
            assert!(dim.is_beyond_range(), "{dim}");
            assert_eq!((dim.constant(), dim.as_symbol(), dim.solve(3)), (None, None, None));
            assert_eq!((dim.is_at_least(&t()), t().is_at_least(&dim)), (None, None));
            assert_eq!(dim.value(&Sizes::new()), Err(SizeError::TooLarge(dim.clone())));
            assert!((dim.clone() - &dim).is_beyond_range() && (dim.clone() * Dim::from(0)).is_beyond_range());
            assert_eq!(t().divided_by(&dim), None);
        }
        assert_eq!(largest.clone() - i64::MAX, Dim::from(0));
        assert_eq!(Dim::sum([largest.clone(), largest.clone(), Dim::from(-i64::MAX)]), largest);

        let mut sizes = Sizes::new();
        sizes.set(&Symbol::new("T"), 3);
        let product = t() * i64::MAX + 1;
        assert_eq!(product.value(&sizes), Err(SizeError::TooLarge(product.clone())));
        assert!(product.substitute(&sizes).is_beyond_range());
        assert_eq!((t() - i64::MAX).solve(3), None);
        assert_eq!((t() - i64::MAX).solve(0), Some((Symbol::new("T"), i64::MAX)));
    }

    #[test]
    fn a_product_of_very_many_terms_is_refused() {
        let sum = |prefix: &str| Dim::sum((0..3000).map(|index| Dim::from(format!("{prefix}{index}").as_str())));
        assert!((sum("a") * sum("b")).is_beyond_range());
        assert_eq!((sum("a") * dim("T")).terms.len(), 3000);
        let many = (0..20).fold(dim("T"), |product, _| product * dim("T"));
        assert_eq!(many.divided_by(&(dim("T") - sum("a"))), None);
    }
}
