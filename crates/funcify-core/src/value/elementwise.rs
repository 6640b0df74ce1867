//! The operators and reductions of a value. The methods for elementwise ops are generated from the tables of ops
//! (`ops/elementwise/{unary,binary,bits,compare,predicate}.rs`).

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use super::*;
use crate::ops::{Binary, Polygamma, Unary};

impl Value {
    /// Computes the polygamma function: the `order`-th derivative of `digamma`. Order 0 is `digamma` itself, and order
    /// 1 is the trigamma function. The maximum order is 100.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let trigamma = Graph::build("trigamma", |g| g.input("x", "f64[]").polygamma(1))?;
    /// let expected = std::f64::consts::PI.powi(2) / 6.0;
    /// assert!((evaluate(&trigamma, &[1f64.into()])?[0].to_f64_vec()[0] - expected).abs() < 1e-12);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn polygamma(self, order: usize) -> Value {
        if order == 0 { self.digamma() } else { self.emit(Polygamma { order }) }
    }
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
    /// Sums the elements along the given axes: `x.sum(0)`, `x.sum([0, -1])`, `x.sum(..)`. The axes are removed.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[2,2]").sum(1))?;
    /// assert_eq!(evaluate(&graph, &[[[1f32, 2.0], [3.0, 4.0]].into()])?, [[3f32, 7.0].into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    sum => Sum;
    /// Multiplies the elements along the given axes. The axes are removed.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").prod(..))?;
    /// assert_eq!(evaluate(&graph, &[[2f32, 3.0, 4.0].into()])?, [24f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    prod => Prod;
    /// Returns the largest element along the given axes. The axes are removed. NaN propagates.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").max(0))?;
    /// assert_eq!(evaluate(&graph, &[[1f32, 3.0, 2.0].into()])?, [3f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    max => Max;
    /// Returns the smallest element along the given axes. The axes are removed. NaN propagates.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "f32[3]").min(0))?;
    /// assert_eq!(evaluate(&graph, &[[2f32, 1.0, 3.0].into()])?, [1f32.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    min => Min;
    /// Computes the logical OR of the booleans along the given axes. The axes are removed.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "bool[2]").any(0))?;
    /// assert_eq!(evaluate(&graph, &[[false, true].into()])?, [true.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    any => Any;
    /// Computes the logical AND of the booleans along the given axes. The axes are removed.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, evaluate};
    ///
    /// let graph = Graph::build("f", |g| g.input("x", "bool[2]").all(0))?;
    /// assert_eq!(evaluate(&graph, &[[false, true].into()])?, [false.into()]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    all => All;
}

macro_rules! operators {
    ($($trait:ident, $method:ident => $op:ident; [$($number:ty),*])*) => {$(
        impl<O: Into<Operand>> $trait<O> for Value {
            type Output = Value;
            #[track_caller]
            fn $method(self, right: O) -> Value {
                Operand::elementwise(Binary::$op, self.into(), right.into())
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

/// Shifts right: arithmetically for signed integers, logically for unsigned ones.
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
