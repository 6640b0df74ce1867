//! Elementwise ops: of one operand, of two, comparisons, `select`, casts.

use funcify::ops::{Binary, Cast, Compare, OpRules, Select, Unary};
use funcify::{DType, Scalar};

use super::values::{FLOATS, LOGIC, NUMBERS, SHAPES, pairs, repeated, small, values, varied};
use super::{Cases, Use, case, on_dtypes};

pub(super) fn cases() -> Cases {
    Ok([unary()?, binary()?, compare()?, select()?, casts()?].concat())
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
        cases.extend(on_dtypes(op.name(), dtypes, 0.0, |dtype| {
            let mut uses = vec![Use::new(op, [varied(dtype, &[values(dtype).len()], 0)])];
            for shape in SHAPES {
                uses.push(Use::new(op, [varied(dtype, shape, 2)]));
                uses.push(Use::new(op, [small(dtype, shape, 0)]));
            }
            uses
        })?);
    }
    Ok(cases)
}

fn binary() -> Cases {
    use Binary::*;
    let rows: [(&[DType], &[Binary]); 2] =
        [(&NUMBERS, &[Add, Sub, Mul, Div, Rem, Max, Min, Pow]), (&LOGIC, &[And, Or, Xor])];
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
