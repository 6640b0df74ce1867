//! Transposed Jacobians of an elementwise `combine`. For each pair of leaves, the Jacobian is diagonal, so it is stored
//! as one number per element of a leaf. For many pairs, all of these numbers are zero.
//!
//! A transposed Jacobian maps cotangents of the leaves of `combine`'s result to cotangents of the leaves of its first
//! parameter. Applying several transposed Jacobians in sequence is equivalent to applying their product. In a product,
//! the matrix that is applied first is on the left.

use super::*;

/// The factor that multiplies a cotangent as it passes from one leaf to another. `C` is the type of coefficients, or
/// `()` if only the kind of factor matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Factor<C> {
    /// No cotangent passes, so even an infinite cotangent contributes 0 rather than NaN.
    Zero,
    /// The cotangent passes unchanged.
    One,
    /// The cotangent is multiplied by the coefficient.
    Of(C),
}

/// A factor that is stored as a tensor, with one number per element of the leaf that receives the cotangent.
#[derive(Clone, Copy)]
pub(super) struct Coefficient {
    pub(super) number: Value,
    /// A mask of the elements through which no cotangent passes, not even an infinite one, or `None` if there are no
    /// such elements. For example, no cotangent passes to the smaller operand of a maximum. The coefficient is 0 at
    /// these elements.
    pub(super) stopped: Option<Value>,
}

/// A matrix of factors. The entry in row `i` and column `j` is the factor from leaf `i` to leaf `j`.
pub(super) type Matrix<C> = Vec<Vec<Factor<C>>>;

impl<C: Copy> Factor<C> {
    /// Composes this factor with `next`, which is applied after it. `product` multiplies two coefficients.
    fn compose(self, next: Self, product: impl Fn(C, C) -> C) -> Self {
        match (self, next) {
            (Factor::Zero, _) | (_, Factor::Zero) => Factor::Zero,
            (Factor::One, factor) | (factor, Factor::One) => factor,
            (Factor::Of(first), Factor::Of(next)) => Factor::Of(product(first, next)),
        }
    }

    fn plus(self, other: Self, sum: impl Fn(Self, Self) -> C) -> Self {
        match (self, other) {
            (Factor::Zero, factor) | (factor, Factor::Zero) => factor,
            (one, other) => Factor::Of(sum(one, other)),
        }
    }

    pub(super) fn kind(self) -> Factor<()> {
        match self {
            Factor::Zero => Factor::Zero,
            Factor::One => Factor::One,
            Factor::Of(_) => Factor::Of(()),
        }
    }
}

impl Factor<Coefficient> {
    /// Converts the factor to a coefficient for a leaf with the type of `like`. The coefficient has a mask of stopped
    /// elements if `may_stop` is `true`.
    pub(super) fn coefficient(self, like: Value, may_stop: bool) -> Coefficient {
        let stopped = |stops: bool| may_stop.then(|| constant(HostTensor::scalar(stops)).broadcast_to(like.shape()));
        match self {
            Factor::Zero => Coefficient { number: like.zeros_like(), stopped: stopped(true) },
            Factor::One => Coefficient { number: like.ones_like(), stopped: stopped(false) },
            Factor::Of(coefficient) => coefficient,
        }
    }

    /// Multiplies a cotangent by the factor. Returns `None` if no cotangent passes.
    pub(super) fn apply(self, cotangent: Value) -> Option<Value> {
        match self {
            Factor::Zero => None,
            Factor::One => Some(cotangent),
            Factor::Of(Coefficient { number, stopped }) => Some(zero_where(stopped, number * cotangent)),
        }
    }
}

/// Returns `value`, with 0 in place of the elements where `stopped` is `true`.
fn zero_where(stopped: Option<Value>, value: Value) -> Value {
    stopped.map_or(value, |stopped| select(stopped, 0.0, value))
}

/// Composes the matrix `first` with `next`, which is applied after it. `product` multiplies two coefficients, and `sum`
/// adds the factors of two paths to the same leaf.
pub(super) fn compose<C: Copy>(
    first: &Matrix<C>,
    next: &Matrix<C>,
    product: impl Fn(C, C) -> C,
    sum: impl Fn(usize, Factor<C>, Factor<C>) -> C,
) -> Matrix<C> {
    let entry = |row: &Vec<Factor<C>>, column: usize| {
        let ways = row.iter().zip(next).map(|(first, next)| first.compose(next[column], &product));
        ways.fold(Factor::Zero, |all, way| all.plus(way, |one, other| sum(column, one, other)))
    };
    first.iter().map(|row| (0..next.len()).map(|column| entry(row, column)).collect()).collect()
}

/// Composes two matrices of coefficients with [`compose`]. A product stops the cotangent at each element where either
/// coefficient stops it, and a sum only where both do. `likes` are values with the types of the leaves.
pub(super) fn compose_coefficients(
    first: &Matrix<Coefficient>,
    next: &Matrix<Coefficient>,
    likes: &[Value],
    may_stop: bool,
) -> Matrix<Coefficient> {
    let product = |first: Coefficient, next: Coefficient| {
        let stopped = first.stopped.zip(next.stopped).map(|(first, next)| first | next);
        Coefficient { number: zero_where(stopped, first.number * next.number), stopped }
    };
    let sum = |leaf: usize, one: Factor<Coefficient>, other: Factor<Coefficient>| {
        let [one, other] = [one, other].map(|factor| factor.coefficient(likes[leaf], may_stop));
        let stopped = one.stopped.zip(other.stopped).map(|(one, other)| one & other);
        Coefficient { number: one.number + other.number, stopped }
    };
    compose(first, next, product, sum)
}

/// Generalises the kinds of factors until they are closed under products: the product of two matrices with factors of
/// these kinds also has factors of these kinds.
pub(super) fn closed_under_products(kinds: Matrix<()>) -> Matrix<()> {
    fixpoint(kinds, |kinds| {
        let twice = compose(kinds, kinds, |(), ()| (), |_, _, _| ());
        let either = |(one, two): (&Factor<()>, &Factor<()>)| if one == two { *one } else { Factor::Of(()) };
        kinds.iter().zip(&twice).map(|(one, two)| one.iter().zip(two).map(either).collect()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::Factor::{One, Zero};
    use super::*;

    const OF: Factor<()> = Factor::Of(());

    #[test]
    fn kinds_are_closed_under_products() {
        // A unit upper triangular matrix is already closed under products.
        let triangle = vec![vec![One, OF], vec![Zero, One]];
        assert_eq!(closed_under_products(triangle.clone()), triangle);
        assert_eq!(closed_under_products(vec![vec![One, Zero], vec![Zero, OF]]), [[One, Zero], [Zero, OF]]);
        // The sum of two paths with factor one is a coefficient.
        assert_eq!(closed_under_products(vec![vec![One, One], vec![Zero, One]]), [[One, OF], [Zero, One]]);
        // The path from leaf 0 to leaf 2 passes through leaf 1, so it appears only in a product of two matrices.
        let chain = vec![vec![Zero, OF, Zero], vec![Zero, Zero, OF], vec![Zero, Zero, Zero]];
        assert_eq!(closed_under_products(chain), [[Zero, OF, OF], [Zero, Zero, OF], [Zero, Zero, Zero]]);
        assert_eq!(closed_under_products(vec![vec![Zero, One], vec![One, Zero]]), [[OF, OF], [OF, OF]]);
    }
}
