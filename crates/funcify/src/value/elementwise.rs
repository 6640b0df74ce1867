//! The methods and operators of a value that are elementwise ops of two operands and reductions. Those of one operand are
//! made by their table (`ops/unary.rs`).

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use super::{Axes, Operand, Value};
use crate::ops::{Binary, Bits, Compare, Polygamma, Predicate, ReduceKind, Unary};
use crate::types::DType;

impl Value {
    #[track_caller]
    fn binary(self, op: Binary, right: impl Into<Operand>) -> Value {
        Operand::elementwise(op, self.into(), right.into())
    }

    #[track_caller]
    fn bits(self, op: Bits, right: impl Into<Operand>) -> Value {
        Operand::elementwise(op, self.into(), right.into())
    }

    #[track_caller]
    fn compare(self, op: Compare, right: impl Into<Operand>) -> Value {
        Operand::elementwise(op, self.into(), right.into())
    }
}

impl Value {
    /// The derivative of `digamma` of that order, up to 100: 1 is the trigamma function, 0 digamma itself.
    #[track_caller]
    pub fn polygamma(self, order: usize) -> Value {
        if order == 0 { self.digamma() } else { self.emit(Polygamma { order }) }
    }
}

macro_rules! unary_methods {
    ($table:ident; $($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl Value {
            $($(#[$doc])* #[track_caller] pub fn $name(self) -> Value { self.emit($table::$op) })*
        }
    };
}

unary_methods! {
    Predicate;
    /// Whether x is not a number.
    is_nan => IsNan;
    /// Whether x is neither infinite nor NaN.
    is_finite => IsFinite;
}

unary_methods! {
    Bits;
    /// How many bits are 1.
    popcount => Popcount;
    /// How many bits are 0 before the highest 1.
    count_leading_zeros => CountLeadingZeros;
}

macro_rules! reduce_methods {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        impl Value {
            $($(#[$doc])* #[track_caller] pub fn $name(self, axes: impl Into<Axes>) -> Value {
                self.reduce(ReduceKind::$kind, axes.into())
            })*
        }
    };
}

reduce_methods! {
    /// The sum along some axes, which disappear: `x.sum(0)`, `x.sum([0, -1])`, `x.sum(..)`.
    sum => Sum;
    /// The product along some axes.
    prod => Prod;
    /// The largest along some axes; NaN wins.
    max => Max;
    /// The smallest along some axes; NaN wins.
    min => Min;
    /// Whether any boolean is true along some axes.
    any => Any;
    /// Whether all booleans are true along some axes.
    all => All;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident => $method:ident $op:expr;)*) => {
        impl Value {
            $($(#[$doc])* #[track_caller] pub fn $name(self, right: impl Into<Operand>) -> Value {
                self.$method($op, right)
            })*
        }
    };
}

binary_methods! {
    /// The larger of the two, elementwise; NaN wins.
    maximum => binary Binary::Max;
    /// The smaller of the two, elementwise; NaN wins.
    minimum => binary Binary::Min;
    /// To the power of, elementwise.
    pow => binary Binary::Pow;
    /// The angle of the point (right, x) in [-pi, pi], elementwise: the arctangent of x / right with the signs of both.
    atan2 => binary Binary::Atan2;
    /// The bits shifted to the left, as by `<<`; an amount that is negative or at least the number of bits leaves 0.
    shift_left => bits Bits::ShiftLeft;
    /// The bits shifted to the right, the highest repeated; an amount that is negative or too large leaves only that.
    shift_right_arithmetic => bits Bits::ShiftRightArithmetic;
    /// The bits shifted to the right with zeros filled in; an amount that is negative or too large leaves 0.
    shift_right_logical => bits Bits::ShiftRightLogical;
    /// `==`, elementwise.
    eq => compare Compare::Eq;
    /// `!=`, elementwise.
    ne => compare Compare::Ne;
    /// `<`, elementwise.
    lt => compare Compare::Lt;
    /// `<=`, elementwise.
    le => compare Compare::Le;
    /// `>`, elementwise.
    gt => compare Compare::Gt;
    /// `>=`, elementwise.
    ge => compare Compare::Ge;
}

macro_rules! operators {
    ($($trait:ident, $method:ident => $op:ident; [$($number:ty),*])*) => {$(
        impl<O: Into<Operand>> $trait<O> for Value {
            type Output = Value;
            #[track_caller]
            fn $method(self, right: O) -> Value {
                self.binary(Binary::$op, right)
            }
        }
        $(impl $trait<Value> for $number {
            type Output = Value;
            #[track_caller]
            fn $method(self, right: Value) -> Value {
                Operand::elementwise(Binary::$op, self.into(), right.into())
            }
        })*
    )*};
}

operators! {
    Add, add => Add; [f64, i32]
    Sub, sub => Sub; [f64, i32]
    Mul, mul => Mul; [f64, i32]
    Div, div => Div; [f64, i32]
    Rem, rem => Rem; [f64, i32]
    BitAnd, bitand => And; []
    BitOr, bitor => Or; []
    BitXor, bitxor => Xor; []
}

impl Neg for Value {
    type Output = Value;
    #[track_caller]
    fn neg(self) -> Value {
        self.emit(Unary::Neg)
    }
}

impl Not for Value {
    type Output = Value;
    #[track_caller]
    fn not(self) -> Value {
        self.emit(Unary::Not)
    }
}

impl<O: Into<Operand>> Shl<O> for Value {
    type Output = Value;
    #[track_caller]
    fn shl(self, amount: O) -> Value {
        self.shift_left(amount)
    }
}

/// Arithmetic for signed integers, logical for unsigned ones.
impl<O: Into<Operand>> Shr<O> for Value {
    type Output = Value;
    #[track_caller]
    fn shr(self, amount: O) -> Value {
        match self.dtype() {
            DType::I32 | DType::I64 => self.shift_right_arithmetic(amount),
            _ => self.shift_right_logical(amount),
        }
    }
}
