//! The methods and operators of a value that are rows of a table: elementwise ops and reductions.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

use super::{Axes, Operand, Value};
use crate::ops::{Binary, Compare, ReduceKind, Unary};

impl Value {
    #[track_caller]
    fn binary(self, op: Binary, right: impl Into<Operand>) -> Value {
        Operand::elementwise(op, self.into(), right.into())
    }

    #[track_caller]
    fn compare(self, op: Compare, right: impl Into<Operand>) -> Value {
        Operand::elementwise(op, self.into(), right.into())
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl Value {
            $($(#[$doc])* #[track_caller] pub fn $name(self) -> Value { self.emit(Unary::$op) })*
        }
    };
}

unary_methods! {
    /// |x|.
    abs => Abs;
    /// -1, 0 or 1.
    sign => Sign;
    /// x * x.
    square => Square;
    /// e to the power x.
    exp => Exp;
    /// exp(x) - 1, exact near zero.
    expm1 => Expm1;
    /// The natural logarithm.
    log => Log;
    /// log(1 + x), exact near zero.
    log1p => Log1p;
    /// The hyperbolic tangent.
    tanh => Tanh;
    /// 1 / (1 + exp(-x)).
    sigmoid => Sigmoid;
    /// The sine of x radians.
    sin => Sin;
    /// The cosine of x radians.
    cos => Cos;
    /// The square root.
    sqrt => Sqrt;
    /// 1 / sqrt(x).
    rsqrt => Rsqrt;
    /// 1 / x.
    recip => Recip;
    /// x itself; no derivative passes through it.
    stop_gradient => StopGradient;
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
