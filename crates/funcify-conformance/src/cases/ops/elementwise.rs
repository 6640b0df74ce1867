//! Elementwise ops: of one operand, of two, comparisons, `select`, casts.

use funcify::ops::{Binary, Bits, Cast, Compare, OpRules, Polygamma, Predicate, Select, Unary};
use funcify::{DType, Scalar};

use super::values::{FLOATS, INTEGERS, LOGIC, NUMBERS, SHAPES, near, pairs, repeated, shifted, small, values, varied};
use super::{Cases, Use, case, on_dtypes};

pub(super) fn cases() -> Cases {
    Ok([unary()?, polygamma()?, binary()?, bits()?, compare()?, predicates()?, select()?, casts()?].concat())
}

fn unary() -> Cases {
    use Unary::*;
    let rows: [(&[DType], &[Unary]); 4] = [
        (&NUMBERS, &[Neg, Abs, Sign, Square]),
        (&FLOATS, &[Exp, Expm1, Log, Log1p, Tanh, Sigmoid, Sin, Cos, Sqrt, Rsqrt, Recip]),
        (&LOGIC, &[Not]),
        (&DType::ALL, &[StopGradient]),
    ];
    let mut cases = Vec::new();
    for (dtypes, op) in rows.iter().flat_map(|(dtypes, ops)| ops.iter().map(move |op| (dtypes, *op))) {
        cases.extend(on_dtypes(op.name(), dtypes, 0.0, |dtype| one_operand(op, dtype))?);
    }
    let special = [
        Tan, Asin, Acos, Atan, Sinh, Cosh, Asinh, Acosh, Atanh, Erf, Erfc, ErfInv, Lgamma, Digamma, Cbrt, Floor, Ceil,
        Round, Trunc,
    ];
    for op in special {
        let uses = |dtype| [vec![Use::new(op, [near(dtype)])], one_operand(op, dtype)].concat();
        cases.extend(on_dtypes(op.name(), &FLOATS, 0.0, uses)?);
    }
    Ok(cases)
}

/// The derivatives of digamma up to the third.
fn polygamma() -> Cases {
    on_dtypes("polygamma", &FLOATS, 0.0, |dtype| {
        let of_order = |order| {
            let op = Polygamma { order };
            [vec![Use::new(op, [near(dtype)])], one_operand(op, dtype)].concat()
        };
        [1, 2, 3].map(of_order).concat()
    })
}

/// An op on every value, and on every shape.
fn one_operand<O: Into<funcify::ops::Op> + Copy>(op: O, dtype: DType) -> Vec<Use> {
    let mut uses = vec![Use::new(op, [varied(dtype, &[values(dtype).len()], 0)])];
    for shape in SHAPES {
        uses.push(Use::new(op, [varied(dtype, shape, 2)]));
        uses.push(Use::new(op, [small(dtype, shape, 0)]));
    }
    uses
}

/// Shifts by every amount and by every value; counts of bits.
fn bits() -> Cases {
    use Bits::*;
    let mut cases = Vec::new();
    for op in [ShiftLeft, ShiftRightArithmetic, ShiftRightLogical] {
        let uses = |dtype| [vec![Use::new(op, shifted(dtype))], two_operands(op, dtype)].concat();
        cases.extend(on_dtypes(op.name(), &INTEGERS, 0.0, uses)?);
    }
    for op in [Popcount, CountLeadingZeros] {
        cases.extend(on_dtypes(op.name(), &INTEGERS, 0.0, |dtype| one_operand(op, dtype))?);
    }
    Ok(cases)
}

fn predicates() -> Cases {
    use Predicate::*;
    let mut cases = Vec::new();
    for op in [IsNan, IsFinite] {
        cases.extend(on_dtypes(op.name(), &FLOATS, 0.0, |dtype| one_operand(op, dtype))?);
    }
    Ok(cases)
}

fn binary() -> Cases {
    use Binary::*;
    let rows: [(&[DType], &[Binary]); 3] =
        [(&NUMBERS, &[Add, Sub, Mul, Div, Rem, Max, Min, Pow]), (&FLOATS, &[Atan2]), (&LOGIC, &[And, Or, Xor])];
    let mut cases = Vec::new();
    for (dtypes, op) in rows.iter().flat_map(|(dtypes, ops)| ops.iter().map(move |op| (dtypes, *op))) {
        cases.extend(on_dtypes(op.name(), dtypes, 0.0, |dtype| two_operands(op, dtype))?);
    }
    Ok(cases)
}

fn compare() -> Cases {
    use Compare::*;
    let mut cases = Vec::new();
    for op in [Eq, Ne, Lt, Le, Gt, Ge] {
        cases.extend(on_dtypes(op.name(), &DType::ALL, 0.0, |dtype| two_operands(op, dtype))?);
    }
    Ok(cases)
}

/// An op on every pair of values, and on every shape.
fn two_operands<O: Into<funcify::ops::Op> + Copy>(op: O, dtype: DType) -> Vec<Use> {
    let mut uses = vec![Use::new(op, pairs(dtype))];
    for shape in SHAPES {
        uses.push(Use::new(op, [varied(dtype, shape, 2), varied(dtype, shape, 3)]));
        uses.push(Use::new(op, [small(dtype, shape, 0), varied(dtype, shape, 0)]));
    }
    uses
}

fn select() -> Cases {
    on_dtypes("select", &DType::ALL, 0.0, |dtype| {
        let operands = |shape| [varied(DType::Bool, shape, 0), varied(dtype, shape, 0), varied(dtype, shape, 5)];
        SHAPES.map(|shape| Use::new(Select, operands(shape))).into()
    })
}

/// A case for each pair of dtypes: numbers that the target cannot hold, and numbers halfway between two that it can.
fn casts() -> Cases {
    let exact = [2049, 4097, 16_777_217, 65_505, (1 << 24) + 1, (1 << 53) + 1].map(Scalar::Int);
    let far = [300.7, -1.5, 1e10, -1e10, 1e20, -1e20, 65_519.0, 65_520.0, 1e-8].map(Scalar::Float);
    let mut cases = Vec::new();
    for (from, dtype) in DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|dtype| (from, dtype))) {
        let cast = |operand| Use::new(Cast { dtype }, [operand]);
        let mut uses = vec![
            cast(varied(from, &[values(from).len()], 0)),
            cast(repeated(from, &[exact.len()], &exact, 0)),
            cast(repeated(from, &[far.len()], &far, 0)),
        ];
        for shape in SHAPES {
            uses.push(cast(varied(from, shape, 1)));
        }
        cases.push(case(&format!("cast_{from}"), dtype, 0.0, &uses)?);
    }
    Ok(cases)
}
