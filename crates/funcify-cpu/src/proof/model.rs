//! Defines the interpretation of each function over the field. The evaluations of the graph and of the plan share only
//! this module.
//!
//! Sums and products are computed in the field. Every other function is a symbol, usually a keyed hash of its operands.
//! For small numbers, programs rely on the actual values of some functions (comparisons, choices, rounding to
//! integers). The symbols of these functions therefore agree with the functions themselves for small numbers. Both
//! evaluations must use the same symbol for the same function.

use funcify_analysis::greatest_integer;
use funcify_core::DType;

use super::field::{self, HALF, INFINITY, NAN, add, fraction, hash, inverse, mul, neg, of_signed, signed, sub};
use crate::kernels::{Binary, Fold, Ternary, Unary};

/// The interpretation of rounding to a narrower type: a separate symbol, or the identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    Symbol,
    Identity,
}

/// A random interpretation of all functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    key: u64,
    rounding: Rounding,
}

/// The symbols that do not represent kernels, in this order: division by zero, rounding to an integer, rounding to a
/// narrower type, inputs, and elements that no program computes.
const DIVISION_BY_ZERO: u64 = 1000;
const WHOLE: u64 = 1002;
const ROUNDED: u64 = 1003;
const INPUTS: u64 = 1004;
const UNCOMPUTED: u64 = 1005;

/// The largest denominator of a fraction that is preferred to an integer with the same element.
const MAX_DENOMINATOR: i64 = 1 << 12;

/// The number of low bits that mark an element as a number of a float type narrower than f64.
const TAG_BITS: u32 = 8;

impl Model {
    pub(super) fn new(seed: u64, rounding: Rounding) -> Self {
        Model { key: hash(seed, 0x5eed), rounding }
    }

    /// Returns random bits for element `at` of input `index`.
    pub(super) fn random_input(self, index: usize, at: usize) -> u64 {
        self.symbol(INPUTS + ((index as u64) << 32), at as u64)
    }

    /// Returns a random float of type `dtype` for element `at` of input `index`.
    pub(super) fn input(self, index: usize, at: usize, dtype: DType) -> u64 {
        let random = self.random_input(index, at);
        let number = self.representable(random, dtype);
        if random > HALF { neg(number) } else { number }
    }

    /// Returns a random element that no program computes, and that differs for each `number`.
    pub(super) fn uncomputed_element(self, number: u64) -> u64 {
        self.symbol(UNCOMPUTED, number)
    }

    fn symbol(self, symbol: u64, x: u64) -> u64 {
        hash(self.key.wrapping_add(symbol.wrapping_mul(0x2545_f491_4f6c_dd1d)), x)
    }

    fn symbol2(self, symbol: u64, x: u64, y: u64) -> u64 {
        self.symbol(symbol, self.symbol(symbol, x) ^ y.rotate_left(7))
    }

    /// Returns x / y, or a hash of x if y is zero.
    pub(super) fn divide(self, x: u64, y: u64) -> u64 {
        match inverse(y) {
            Some(inverse) => mul(x, inverse),
            None => self.symbol(DIVISION_BY_ZERO, x),
        }
    }

    /// Returns the quotient of two integers, rounded toward zero, or -1 if y is zero.
    pub(super) fn quotient(self, x: u64, y: u64) -> u64 {
        of_signed(if y == 0 { -1 } else { signed(x).wrapping_div(signed(y)) })
    }

    /// Returns `true` if x < y, and `false` if either is NaN.
    pub(super) fn is_less(self, x: u64, y: u64) -> bool {
        x != NAN && y != NAN && rank(x) < rank(y)
    }

    /// Returns the larger number, or NaN if either is NaN.
    pub(super) fn max(self, x: u64, y: u64) -> u64 {
        match (x == NAN || y == NAN, rank(x) > rank(y)) {
            (true, _) => NAN,
            (_, true) => x,
            (_, false) => y,
        }
    }

    /// Returns the smaller number, or NaN if either is NaN.
    pub(super) fn min(self, x: u64, y: u64) -> u64 {
        neg_number(self.max(neg_number(x), neg_number(y)))
    }

    /// Rounds x to an integer. If x is an integer that a float represents exactly, the result is x. If x is a fraction
    /// of small integers, the result is `round(x)`. NaN and the infinities are returned unchanged. For any other x, the
    /// result is a random integer, which is often small enough to be an index.
    fn whole(self, op: Unary, x: u64, round: fn(f64) -> f64) -> u64 {
        if x == NAN || signed(x).unsigned_abs() == INFINITY {
            return x;
        }
        // Some large integers are also fractions of small integers. The denominators of such fractions are large.
        match (fraction(x), exact_integer(x)) {
            (Some([numerator, denominator @ ..=MAX_DENOMINATOR]), _) | (Some([numerator, denominator]), None) => {
                of_signed(round(numerator as f64 / denominator as f64) as i64)
            }
            (_, Some(_)) => x,
            (None, None) => {
                let random = self.symbol(WHOLE + ((op as u64) << 32), x);
                let most = if random & 1 == 0 { 8 } else { 1 << 20 };
                of_signed((random >> 1) as i64 % most)
            }
        }
    }

    /// Rounds x to a narrower float type. Returns numbers of that type unchanged: small integers divided by small
    /// powers of two, and results of earlier rounding to that type, which have a tag in their low bits.
    pub(super) fn round(self, x: u64, dtype: DType) -> u64 {
        let size = signed(x).unsigned_abs();
        let is_exact = |x: u64| signed(x).unsigned_abs() < 1 << 8;
        if self.rounding == Rounding::Identity
            || x == NAN
            || size == INFINITY
            || (0..12).any(|exponent| is_exact(field::scale(x, exponent)))
        {
            return x;
        }
        let is_of = |dtype: DType| size & ((1 << TAG_BITS) - 1) == tag(dtype);
        if is_of(dtype) || (dtype == DType::F32 && (is_of(DType::F16) || is_of(DType::BF16))) {
            return x;
        }
        let rounded = self.representable(self.symbol(ROUNDED + ((dtype as u64) << 32), size), dtype);
        if signed(x) < 0 { neg(rounded) } else { rounded }
    }

    /// Returns an element that is derived from `random` and represents a number of type `dtype`. Every element
    /// represents an f64 number.
    fn representable(self, random: u64, dtype: DType) -> u64 {
        match dtype {
            DType::F16 | DType::BF16 | DType::F32 => (random & (HALF >> 1) & !((1 << TAG_BITS) - 1)) | tag(dtype),
            _ => random,
        }
    }

    pub(super) fn unary(self, op: Unary, x: u64) -> u64 {
        use Unary::{
            Acos, Acosh, Asin, Asinh, Atan, Atanh, Cbrt, Cos, Cosh, Digamma, Erf, ErfInv, Erfc, Exp, Expm1, Lgamma,
            Log, Log1p, Sigmoid, Sin, Sinh, Sqrt, Tan, Tanh,
        };
        match op {
            Unary::Copy => x,
            Unary::Neg => neg_number(x),
            Unary::Abs | Unary::Sign if x == NAN => x,
            Unary::Abs => signed(x).unsigned_abs(),
            Unary::Sign => of_signed(signed(x).signum()),
            Unary::Square => mul(x, x),
            Unary::Recip => self.divide(1, x),
            Unary::Rsqrt => self.divide(1, self.symbol(Unary::Sqrt as u64, x)),
            Unary::Not => u64::from(x == 0),
            Unary::Floor => self.whole(op, x, f64::floor),
            Unary::Ceil => self.whole(op, x, f64::ceil),
            Unary::Round => self.whole(op, x, f64::round_ties_even),
            Unary::Trunc => self.whole(op, x, f64::trunc),
            Unary::ToF16 => self.round(x, DType::F16),
            Unary::ToBf16 => self.round(x, DType::BF16),
            Unary::ToF32 => self.round(x, DType::F32),
            op @ (Sqrt | Exp | Expm1 | Log | Log1p | Tanh | Sigmoid | Sin | Cos | Tan | Asin | Acos | Atan | Sinh
            | Cosh | Cbrt | Asinh | Acosh | Atanh | Erf | Erfc | ErfInv | Lgamma | Digamma) => {
                self.symbol(op as u64, x)
            }
        }
    }

    pub(super) fn binary(self, op: Binary, x: u64, y: u64) -> u64 {
        match op {
            Binary::Add => add(x, y),
            Binary::Sub => sub(x, y),
            Binary::Mul => mul(x, y),
            Binary::Div => self.divide(x, y),
            Binary::Max => self.max(x, y),
            Binary::Min => self.min(x, y),
            Binary::Less => u64::from(self.is_less(x, y)),
            Binary::LessEqual => u64::from(x != NAN && y != NAN && rank(x) <= rank(y)),
            Binary::Equal => u64::from(x == y && x != NAN),
            Binary::NotEqual => u64::from(x != y || x == NAN),
            Binary::Copysign => {
                let size = self.unary(Unary::Abs, x);
                if signed(y) < 0 { neg_number(size) } else { size }
            }
            Binary::ExpOfProduct => self.unary(Unary::Exp, mul(x, y)),
            Binary::TanhAdjoint => mul(x, sub(1, mul(y, y))),
            Binary::SigmoidAdjoint => mul(mul(x, y), sub(1, y)),
            Binary::TruncDiv => self.quotient(x, y),
            Binary::Rem => match (exact_integer(x), exact_integer(y)) {
                (Some(x), Some(y)) if y != 0 => of_signed(x % y),
                _ => self.symbol2(2000 + op as u64, x, y),
            },
            Binary::Pow => match signed(y) {
                exponent @ 0..=64 => field::power(x, exponent as u64),
                exponent @ -64..0 => self.divide(1, field::power(x, exponent.unsigned_abs())),
                _ => self.symbol2(2000 + op as u64, x, y),
            },
            Binary::Atan2 => self.symbol2(2000 + op as u64, x, y),
        }
    }

    pub(super) fn ternary(self, op: Ternary, x: u64, y: u64, z: u64) -> u64 {
        match op {
            Ternary::MulAdd => add(mul(x, y), z),
            Ternary::MulSub => sub(mul(x, y), z),
            Ternary::NegMulAdd => sub(z, mul(x, y)),
            Ternary::Select if x == 0 => z,
            Ternary::Select => y,
        }
    }

    pub(super) fn fold(self, fold: Fold, a: u64, b: u64) -> u64 {
        match fold {
            Fold::Sum => add(a, b),
            Fold::Product => mul(a, b),
            Fold::Max => self.max(a, b),
            Fold::Min => self.min(a, b),
        }
    }

    /// Returns the result of a fold over no elements.
    pub(super) fn identity(self, fold: Fold) -> u64 {
        match fold {
            Fold::Sum => 0,
            Fold::Product => 1,
            Fold::Max => neg(INFINITY),
            Fold::Min => INFINITY,
        }
    }
}

/// Returns the integer that an element represents, if a float of some type represents this integer exactly. Few random
/// elements represent such an integer.
fn exact_integer(x: u64) -> Option<i64> {
    let greatest = greatest_integer(DType::F64);
    Some(signed(x)).filter(|number| number.unsigned_abs() <= greatest.unsigned_abs())
}

/// Returns the key by which numbers are ordered. -inf has the lowest key, and +inf the highest.
fn rank(x: u64) -> i64 {
    match x {
        INFINITY => i64::MAX,
        _ if x == neg(INFINITY) => i64::MIN,
        _ => signed(x),
    }
}

/// Returns -x, or NaN for NaN.
fn neg_number(x: u64) -> u64 {
    if x == NAN { x } else { neg(x) }
}

/// Returns the low bits that mark a number of type `dtype`.
fn tag(dtype: DType) -> u64 {
    match dtype {
        DType::F16 => 0x5b,
        DType::BF16 => 0xa7,
        _ => 0x3d,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_beyond_the_infinities() {
        let model = Model::new(0, Rounding::Symbol);
        for x in [field::of_f64(0.5), field::of_f64(-0.5), HALF, HALF + 1, 0, 7] {
            assert_eq!(model.fold(Fold::Max, model.identity(Fold::Max), x), x);
            assert_eq!(model.fold(Fold::Min, model.identity(Fold::Min), x), x);
            assert!(model.is_less(x, INFINITY) && model.is_less(neg(INFINITY), x));
        }
    }
}
