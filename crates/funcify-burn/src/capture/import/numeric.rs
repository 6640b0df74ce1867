//! Arithmetic, comparisons, reductions, sorts; the ops of integers and booleans.

use burn_ir::{BoolOperationIr, IntOperationIr, NumericOperationIr, PadModeIr, ReduceDimOpIr, ReduceOpIr, ScalarOpIr};
use funcify::{Value, select};

use super::{Known, Row, dtype_of, float_of, number, one, shape};

pub(super) fn row(known: &Known, op: &NumericOperationIr) -> Row {
    use NumericOperationIr as Op;
    one(match op {
        Op::Add(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x + y)?,
        Op::Sub(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x - y)?,
        Op::Mul(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x * y)?,
        Op::Div(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x / y)?,
        Op::Rem(op) => known.pair(&op.lhs, &op.rhs).and_then(|(x, y)| remainder(x, y))?,
        Op::AddScalar(op) => with_number(known, op, |x, y| x + y)?,
        Op::SubScalar(op) => with_number(known, op, |x, y| x - y)?,
        Op::MulScalar(op) => with_number(known, op, |x, y| x * y)?,
        Op::DivScalar(op) => with_number(known, op, |x, y| x / y)?,
        Op::RemScalar(op) => {
            let x = known.get(&op.lhs)?;
            remainder(x, number(&op.rhs, x))?
        }
        Op::Greater(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.gt(y))?,
        Op::GreaterEqual(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.ge(y))?,
        Op::Lower(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.lt(y))?,
        Op::LowerEqual(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.le(y))?,
        Op::GreaterElem(op) => with_number(known, op, |x, y| x.gt(y))?,
        Op::GreaterEqualElem(op) => with_number(known, op, |x, y| x.ge(y))?,
        Op::LowerElem(op) => with_number(known, op, |x, y| x.lt(y))?,
        Op::LowerEqualElem(op) => with_number(known, op, |x, y| x.le(y))?,
        Op::Abs(op) => known.get(&op.input)?.abs(),
        Op::Neg(op) => -known.get(&op.input)?,
        Op::Sign(op) => known.get(&op.input)?.sign(),
        Op::Powi(op) => {
            let (x, y) = (known.get(&op.lhs)?, known.get(&op.rhs)?);
            x.pow(y.cast(x.dtype()))
        }
        Op::PowiScalar(op) => match float_of(&op.rhs) {
            2.0 => known.get(&op.lhs)?.square(),
            _ => with_number(known, op, |x, y| x.pow(y))?,
        },
        // As Burn's clamp: at a bound the gradient passes.
        Op::Clamp(op) => {
            let x = known.get(&op.tensor)?;
            at_most(at_least(x, number(&op.min, x)), number(&op.max, x))
        }
        Op::ClampMin(op) => with_number(known, op, at_least)?,
        Op::ClampMax(op) => with_number(known, op, at_most)?,
        Op::Full(op) => {
            let like = funcify::full(funcify::Shape::scalar(), dtype_of(&op.out)?, 0.0);
            number(&op.value, like).broadcast_to(shape(&op.out))
        }
        Op::Sum(op) => all(known, op, |x| x.sum(..))?,
        Op::Mean(op) => all(known, op, |x| x.mean(..))?,
        Op::Prod(op) => all(known, op, |x| x.prod(..))?,
        Op::Max(op) => all(known, op, |x| x.max(..))?,
        Op::Min(op) => all(known, op, |x| x.min(..))?,
        Op::MaxAbs(op) => all(known, op, |x| x.abs().max(..))?,
        Op::SumDim(op) => along(known, op, |x, axis| x.sum(axis))?,
        Op::MeanDim(op) => along(known, op, |x, axis| x.mean(axis))?,
        Op::ProdDim(op) => along(known, op, |x, axis| x.prod(axis))?,
        Op::MaxDim(op) => along(known, op, |x, axis| x.max(axis))?,
        Op::MinDim(op) => along(known, op, |x, axis| x.min(axis))?,
        Op::MaxAbsDim(op) => along(known, op, |x, axis| x.abs().max(axis))?,
        Op::ArgMax(op) => along(known, op, |x, axis| x.argmax(axis))?,
        Op::ArgMin(op) => along(known, op, |x, axis| x.argmin(axis))?,
        Op::SumDims(op) => {
            let axes: Vec<i64> = op.axes.iter().map(|axis| *axis as i64).collect();
            known.get(&op.input)?.sum(funcify::Axes::These(axes)).reshape(shape(&op.out))
        }
        Op::MaxDimWithIndices(op) => {
            let (x, axis) = (known.get(&op.tensor)?, op.dim as i64);
            let (value, position) = (x.max(axis), x.argmax(axis));
            return Some(vec![value.reshape(shape(&op.out)), position.reshape(shape(&op.out_indices))]);
        }
        Op::MinDimWithIndices(op) => {
            let (x, axis) = (known.get(&op.tensor)?, op.dim as i64);
            let (value, position) = (x.min(axis), x.argmin(axis));
            return Some(vec![value.reshape(shape(&op.out)), position.reshape(shape(&op.out_indices))]);
        }
        Op::TopKWithIndices(op) => {
            let (values, positions) = known.get(&op.tensor)?.top_k(op.dim as i64, op.k);
            return Some(vec![values, positions]);
        }
        Op::CumSum(op) => known.get(&op.input)?.cumsum(op.axis as i64, false),
        Op::CumProd(op) => known.get(&op.input)?.cumprod(op.axis as i64, false),
        Op::CumMin(op) => known.get(&op.input)?.cummin(op.axis as i64, false),
        Op::CumMax(op) => known.get(&op.input)?.cummax(op.axis as i64, false),
        Op::Sort(op) => known.get(&op.input)?.sort(op.dim as i64, op.descending).0,
        Op::ArgSort(op) => known.get(&op.input)?.argsort(op.dim as i64, op.descending),
        Op::SortWithIndices(op) => {
            let (sorted, positions) = known.get(&op.input)?.sort(op.dim as i64, op.descending);
            return Some(vec![sorted, positions]);
        }
        Op::Pad(op) => {
            let PadModeIr::Constant(element) = &op.mode else {
                return None;
            };
            let pads = op.padding.iter().enumerate().filter(|(_, sizes)| **sizes != (0, 0));
            pads.fold(known.get(&op.input)?, |x, (axis, (low, high))| {
                x.pad(axis as i64, *low, *high, float_of(element))
            })
        }
        Op::ArgTopK(_) | Op::TopK(_) | Op::IntRandom(_) => return None,
    })
}

pub(super) fn int_row(known: &Known, op: &IntOperationIr) -> Row {
    use IntOperationIr as Op;
    one(match op {
        Op::IntoFloat(op) => known.get(&op.input)?.cast(dtype_of(&op.out)?),
        Op::BitwiseAnd(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x & y)?,
        Op::BitwiseOr(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x | y)?,
        Op::BitwiseXor(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x ^ y)?,
        Op::BitwiseAndScalar(op) => with_number(known, op, |x, y| x & y)?,
        Op::BitwiseOrScalar(op) => with_number(known, op, |x, y| x | y)?,
        Op::BitwiseXorScalar(op) => with_number(known, op, |x, y| x ^ y)?,
        Op::BitwiseNot(op) => !known.get(&op.input)?,
        Op::BitwiseLeftShift(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x << y)?,
        Op::BitwiseRightShift(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x >> y)?,
        Op::BitwiseLeftShiftScalar(op) => with_number(known, op, |x, y| x << y)?,
        Op::BitwiseRightShiftScalar(op) => with_number(known, op, |x, y| x >> y)?,
        Op::Matmul(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.matmul(y))?,
    })
}

pub(super) fn bool_row(known: &Known, op: &BoolOperationIr) -> Row {
    use BoolOperationIr as Op;
    one(match op {
        Op::IntoFloat(op) | Op::IntoInt(op) => known.get(&op.input)?.cast(dtype_of(&op.out)?),
        Op::Not(op) => !known.get(&op.input)?,
        Op::And(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x & y)?,
        Op::Or(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x | y)?,
        Op::Xor(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x ^ y)?,
    })
}

/// An op of a value and a number.
pub(super) fn with_number(known: &Known, op: &ScalarOpIr, f: impl FnOnce(Value, Value) -> Value) -> Option<Value> {
    let x = known.get(&op.lhs)?;
    Some(f(x, number(&op.rhs, x)))
}

/// A reduction of all axes, to one element.
fn all(known: &Known, op: &ReduceOpIr, f: impl FnOnce(Value) -> Value) -> Option<Value> {
    Some(f(known.get(&op.input)?).reshape(shape(&op.out)))
}

/// A reduction of an axis, which stays with one element.
fn along(known: &Known, op: &ReduceDimOpIr, f: impl FnOnce(Value, i64) -> Value) -> Option<Value> {
    Some(f(known.get(&op.input)?, op.axis as i64).reshape(shape(&op.out)))
}

pub(super) fn at_least(x: Value, low: Value) -> Value {
    select(x.lt(low), low, x)
}

fn at_most(x: Value, high: Value) -> Value {
    select(x.gt(high), high, x)
}

/// Burn's remainder of floats has the sign of the divisor. What its devices do with integers differs.
fn remainder(x: Value, y: Value) -> Option<Value> {
    let rest = x % y;
    let differs = rest.ne(0.0) & (rest.lt(0.0) ^ y.lt(0.0));
    x.dtype().is_float().then(|| select(differs, rest + y, rest))
}
