//! Elementwise ops: unary and binary ops, bit ops, comparisons, predicates, `select`, casts.

use funcify::error::{Place, Site};
use funcify::ops::{Binary, Bitcast, Bits, Cast, Compare, NextAfter, OpRules, Polygamma, Predicate, Select, Unary};

use super::values::{FLOATS, SHAPES, cycle, cycle_values, near_integers, pairs, shift_pairs, small, values};
use super::*;

pub(super) fn cases() -> Cases {
    let groups = [
        unary()?,
        polygamma()?,
        rows(Binary::ALL, 2, two_operands)?,
        bits()?,
        neighbours()?,
        rows(Compare::ALL, 2, two_operands)?,
        rows(Predicate::ALL, 1, one_operand)?,
        select()?,
        casts()?,
        bitcasts()?,
    ];
    Ok(groups.concat())
}

/// Functions of floats that are not tested on the additional operands near integers, because these functions have no
/// special points there.
const PLAIN: [Unary; 11] = {
    use Unary::*;
    [Exp, Expm1, Log, Log1p, Tanh, Sigmoid, Sin, Cos, Sqrt, Rsqrt, Recip]
};

fn unary() -> Cases {
    let mut cases = Vec::new();
    for op in Unary::ALL.iter().copied() {
        let dtypes = domain(op, 1);
        let is_hard = dtypes == FLOATS && !PLAIN.contains(&op);
        let uses = |dtype| {
            let hard = is_hard.then(|| OpUse::new(op, [near_integers(dtype)]));
            hard.into_iter().chain(one_operand(op, dtype)).collect()
        };
        cases.extend(on_dtypes(op.name(), &dtypes, 0.0, uses)?);
    }
    Ok(cases)
}

/// Builds a case for each op in a table and for each dtype that the op's type rule accepts.
fn rows<O: OpRules + Copy + Sync>(table: &[O], operands: usize, uses: fn(O, DType) -> Vec<OpUse>) -> Cases {
    let mut cases = Vec::new();
    for op in table.iter().copied() {
        cases.extend(on_dtypes(op.name(), &domain(op, operands), 0.0, |dtype| uses(op, dtype))?);
    }
    Ok(cases)
}

/// Returns the dtypes that the type rule of an op accepts for this number of operands.
fn domain(op: impl OpRules, operands: usize) -> Vec<DType> {
    let takes = |dtype: &DType| {
        let operands = vec![TensorType::scalar(*dtype); operands];
        op.infer(&Place::new(op.name(), Site::Unknown), &operands).is_ok()
    };
    DType::ALL.into_iter().filter(takes).collect()
}

/// Builds the cases for the first three derivatives of the digamma function.
fn polygamma() -> Cases {
    on_dtypes("polygamma", &FLOATS, 0.0, |dtype| {
        let of_order = |order| {
            let op = Polygamma { order };
            [vec![OpUse::new(op, [near_integers(dtype)])], one_operand(op, dtype)].concat()
        };
        [1, 2, 3].map(of_order).concat()
    })
}

/// Returns uses that apply a unary op to every special value and to tensors of every shape in [`SHAPES`].
fn one_operand<O: Into<funcify::ops::Op> + Copy>(op: O, dtype: DType) -> Vec<OpUse> {
    let mut uses = vec![OpUse::new(op, [cycle_values(dtype, &[values(dtype).len()], 0)])];
    for shape in SHAPES {
        uses.push(OpUse::new(op, [cycle_values(dtype, shape, 2)]));
        uses.push(OpUse::new(op, [small(dtype, shape, 0)]));
    }
    uses
}

/// Builds the cases for bit ops, including shifts of every value by every amount.
fn bits() -> Cases {
    let mut cases = Vec::new();
    for op in Bits::ALL.iter().copied() {
        let shifts = |dtype| [vec![OpUse::new(op, shift_pairs(dtype))], two_operands(op, dtype)].concat();
        cases.extend(on_dtypes(op.name(), &domain(op, 2), 0.0, shifts)?);
        cases.extend(on_dtypes(op.name(), &domain(op, 1), 0.0, |dtype| one_operand(op, dtype))?);
    }
    Ok(cases)
}

/// Builds the cases for `nextafter`. The distance between neighbouring floats is within the tolerance, so the category
/// `numerics` also checks the exact bits.
fn neighbours() -> Cases {
    on_dtypes("nextafter", &FLOATS, 0.0, |dtype| two_operands(NextAfter, dtype))
}

/// Returns uses that apply a binary op to every pair of special values and to tensors of every shape in [`SHAPES`].
fn two_operands<O: Into<funcify::ops::Op> + Copy>(op: O, dtype: DType) -> Vec<OpUse> {
    let mut uses = vec![OpUse::new(op, pairs(dtype))];
    for shape in SHAPES {
        uses.push(OpUse::new(op, [cycle_values(dtype, shape, 2), cycle_values(dtype, shape, 3)]));
        uses.push(OpUse::new(op, [small(dtype, shape, 0), cycle_values(dtype, shape, 0)]));
    }
    uses
}

fn select() -> Cases {
    on_dtypes("select", &DType::ALL, 0.0, |dtype| {
        let operands =
            |shape| [cycle_values(DType::Bool, shape, 0), cycle_values(dtype, shape, 0), cycle_values(dtype, shape, 5)];
        SHAPES.map(|shape| OpUse::new(Select, operands(shape))).into()
    })
}

/// Builds the cases for casts of numbers, one for each pair of dtypes. Operands include numbers that the target dtype
/// cannot represent, and midpoints between two numbers that it can represent.
fn casts() -> Cases {
    let exact = [2049, 4097, 16_777_217, 65_505, (1 << 24) + 1, (1 << 53) + 1].map(Scalar::Int);
    let far = [300.7, -1.5, 1e10, -1e10, 1e20, -1e20, 65_519.0, 65_520.0, 1e-8].map(Scalar::Float);
    let mut cases = Vec::new();
    for (from, dtype) in DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|dtype| (from, dtype))) {
        let cast = |operand| OpUse::new(Cast { dtype }, [operand]);
        let mut uses = vec![
            cast(cycle_values(from, &[values(from).len()], 0)),
            cast(cycle(from, &[exact.len()], &exact, 0)),
            cast(cycle(from, &[far.len()], &far, 0)),
        ];
        for shape in SHAPES {
            uses.push(cast(cycle_values(from, shape, 1)));
        }
        cases.push(case(&format!("cast_{from}"), dtype, 0.0, &uses)?);
    }
    Ok(cases)
}

/// Builds the cases for casts of bit patterns, one for each pair of dtypes with the same bit width. Operands include
/// bit patterns of every kind of float.
fn bitcasts() -> Cases {
    const PATTERNS: [i64; 9] =
        [0, 1, -1, 0x7f80_0000, 0x7fc0_1234, 0x0040_0000, 0x3fc0_0000_0000_0000, 0x7ff8_0000_0000_0567, 0xffff];
    let is_allowed = |from: DType, dtype: DType| {
        Bitcast { dtype }.infer(&Place::new("bitcast", Site::Unknown), &[TensorType::scalar(from)]).is_ok()
    };
    let pairs = DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|dtype| (from, dtype)));
    let case_of = |(from, dtype): (DType, DType)| {
        let bitcast = |operand| OpUse::new(Bitcast { dtype }, [operand]);
        let mut uses = vec![bitcast(cycle_values(from, &[values(from).len()], 0))];
        if from.is_int() {
            uses.push(bitcast(cycle(from, &[PATTERNS.len()], &PATTERNS.map(Scalar::Int), 0)));
        }
        uses.extend(SHAPES.map(|shape| bitcast(cycle_values(from, shape, 1))));
        case(&format!("bitcast_{from}"), dtype, 0.0, &uses)
    };
    pairs.filter(|(from, dtype)| is_allowed(*from, *dtype)).map(case_of).collect()
}
