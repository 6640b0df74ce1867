//! Imports arithmetic, comparisons, reductions and sorts, and the ops on integers and booleans.

use burn_ir::{
    BoolOperationIr, IntOperationIr, NumericOperationIr, PadModeIr, ReduceDimOpIr, ReduceDimWithIndicesOpIr,
    ReduceOpIr, ScalarOpIr,
};
use funcify_core::{Value, custom_jvp, select};

use super::{Env, Imported, dtype_of, float_of, number, one, shape};

pub(super) fn row(env: &Env, op: &NumericOperationIr) -> Imported {
    use NumericOperationIr as Op;
    one(match op {
        Op::Add(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x + y)?,
        Op::Sub(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x - y)?,
        Op::Mul(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x * y)?,
        Op::Div(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x / y)?,
        Op::Rem(op) => env.pair(&op.lhs, &op.rhs).and_then(|(x, y)| remainder(x, y))?,
        Op::AddScalar(op) => with_number(env, op, |x, y| x + y)?,
        Op::SubScalar(op) => with_number(env, op, |x, y| x - y)?,
        Op::MulScalar(op) => with_number(env, op, |x, y| x * y)?,
        Op::DivScalar(op) => with_number(env, op, |x, y| x / y)?,
        Op::RemScalar(op) => {
            let x = env.get(&op.lhs)?;
            remainder(x, number(&op.rhs, x))?
        }
        Op::Greater(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.gt(y))?,
        Op::GreaterEqual(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.ge(y))?,
        Op::Lower(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.lt(y))?,
        Op::LowerEqual(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.le(y))?,
        Op::GreaterElem(op) => with_number(env, op, |x, y| x.gt(y))?,
        Op::GreaterEqualElem(op) => with_number(env, op, |x, y| x.ge(y))?,
        Op::LowerElem(op) => with_number(env, op, |x, y| x.lt(y))?,
        Op::LowerEqualElem(op) => with_number(env, op, |x, y| x.le(y))?,
        Op::Abs(op) => env.get(&op.input)?.abs(),
        Op::Neg(op) => -env.get(&op.input)?,
        Op::Sign(op) => env.get(&op.input)?.sign(),
        Op::Powi(op) => {
            let (x, y) = (env.get(&op.lhs)?, env.get(&op.rhs)?);
            x.pow(y.cast(x.dtype()))
        }
        Op::PowiScalar(op) => match float_of(&op.rhs) {
            2.0 => env.get(&op.lhs)?.square(),
            _ => with_number(env, op, |x, y| x.pow(y))?,
        },
        // As in Burn's `clamp`, the gradient also flows where the input equals a bound.
        Op::Clamp(op) => {
            let x = env.get(&op.tensor)?;
            at_most(at_least(x, number(&op.min, x)), number(&op.max, x))
        }
        Op::ClampMin(op) => with_number(env, op, at_least)?,
        Op::ClampMax(op) => with_number(env, op, at_most)?,
        Op::Full(op) => {
            let like = funcify_core::full(funcify_core::Shape::scalar(), dtype_of(&op.out)?, 0.0);
            number(&op.value, like).broadcast_to(shape(&op.out))
        }
        Op::Sum(op) => reduce_all(env, op, |x| x.sum(..))?,
        Op::Mean(op) => reduce_all(env, op, |x| x.mean(..))?,
        Op::Prod(op) => reduce_all(env, op, |x| x.prod(..))?,
        Op::Max(op) => reduce_all(env, op, |x| largest(flatten(x), 0))?,
        Op::Min(op) => reduce_all(env, op, |x| smallest(flatten(x), 0))?,
        Op::MaxAbs(op) => reduce_all(env, op, |x| largest(flatten(x).abs(), 0))?,
        Op::SumDim(op) => reduce_axis(env, op, |x, axis| x.sum(axis))?,
        Op::MeanDim(op) => reduce_axis(env, op, |x, axis| x.mean(axis))?,
        Op::ProdDim(op) => reduce_axis(env, op, |x, axis| x.prod(axis))?,
        Op::MaxDim(op) => reduce_axis(env, op, largest)?,
        Op::MinDim(op) => reduce_axis(env, op, smallest)?,
        Op::MaxAbsDim(op) => reduce_axis(env, op, |x, axis| largest(x.abs(), axis))?,
        Op::ArgMax(op) => reduce_axis(env, op, |x, axis| x.argmax(axis))?,
        Op::ArgMin(op) => reduce_axis(env, op, |x, axis| x.argmin(axis))?,
        Op::SumDims(op) => {
            let axes: Vec<i64> = op.axes.iter().map(|axis| *axis as i64).collect();
            env.get(&op.input)?.sum(funcify_core::Axes::These(axes)).reshape(shape(&op.out))
        }
        Op::MaxDimWithIndices(op) => {
            return reduce_axis_with_position(env, op, |x, axis| [largest(x, axis), x.argmax(axis)]);
        }
        Op::MinDimWithIndices(op) => {
            return reduce_axis_with_position(env, op, |x, axis| [smallest(x, axis), x.argmin(axis)]);
        }
        Op::TopKWithIndices(op) => {
            let (values, positions) = env.get(&op.tensor)?.top_k(op.dim as i64, op.k);
            return Some(vec![values, positions]);
        }
        Op::CumSum(op) => env.get(&op.input)?.cumsum(op.axis as i64, false),
        Op::CumProd(op) => env.get(&op.input)?.cumprod(op.axis as i64, false),
        Op::CumMin(op) => env.get(&op.input)?.cummin(op.axis as i64, false),
        Op::CumMax(op) => env.get(&op.input)?.cummax(op.axis as i64, false),
        Op::Sort(op) => env.get(&op.input)?.sort(op.dim as i64, op.descending).0,
        Op::ArgSort(op) => env.get(&op.input)?.argsort(op.dim as i64, op.descending),
        Op::SortWithIndices(op) => {
            let (sorted, positions) = env.get(&op.input)?.sort(op.dim as i64, op.descending);
            return Some(vec![sorted, positions]);
        }
        Op::Pad(op) => {
            let PadModeIr::Constant(element) = &op.mode else {
                return None;
            };
            let pads = op.padding.iter().enumerate().filter(|(_, sizes)| **sizes != (0, 0));
            pads.fold(env.get(&op.input)?, |x, (axis, (low, high))| x.pad(axis as i64, *low, *high, float_of(element)))
        }
        Op::ArgTopK(_) | Op::TopK(_) | Op::IntRandom(_) => return None,
    })
}

pub(super) fn int_row(env: &Env, op: &IntOperationIr) -> Imported {
    use IntOperationIr as Op;
    one(match op {
        Op::IntoFloat(op) => env.get(&op.input)?.cast(dtype_of(&op.out)?),
        Op::BitwiseAnd(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x & y)?,
        Op::BitwiseOr(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x | y)?,
        Op::BitwiseXor(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x ^ y)?,
        Op::BitwiseAndScalar(op) => with_number(env, op, |x, y| x & y)?,
        Op::BitwiseOrScalar(op) => with_number(env, op, |x, y| x | y)?,
        Op::BitwiseXorScalar(op) => with_number(env, op, |x, y| x ^ y)?,
        Op::BitwiseNot(op) => !env.get(&op.input)?,
        Op::BitwiseLeftShift(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x << y)?,
        Op::BitwiseRightShift(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x >> y)?,
        Op::BitwiseLeftShiftScalar(op) => with_number(env, op, |x, y| x << y)?,
        Op::BitwiseRightShiftScalar(op) => with_number(env, op, |x, y| x >> y)?,
        Op::Matmul(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.matmul(y))?,
    })
}

pub(super) fn bool_row(env: &Env, op: &BoolOperationIr) -> Imported {
    use BoolOperationIr as Op;
    one(match op {
        Op::IntoFloat(op) | Op::IntoInt(op) => env.get(&op.input)?.cast(dtype_of(&op.out)?),
        Op::Not(op) => !env.get(&op.input)?,
        Op::And(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x & y)?,
        Op::Or(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x | y)?,
        Op::Xor(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x ^ y)?,
    })
}

/// Imports an op whose operands are a tensor and a scalar.
pub(super) fn with_number(env: &Env, op: &ScalarOpIr, f: impl FnOnce(Value, Value) -> Value) -> Option<Value> {
    let x = env.get(&op.lhs)?;
    Some(f(x, number(&op.rhs, x)))
}

/// Imports a reduction over all axes to a single element.
fn reduce_all(env: &Env, op: &ReduceOpIr, f: impl FnOnce(Value) -> Value) -> Option<Value> {
    Some(f(env.get(&op.input)?).reshape(shape(&op.out)))
}

/// Imports a reduction over one axis, which is kept with size 1 (keepdim).
fn reduce_axis(env: &Env, op: &ReduceDimOpIr, f: impl FnOnce(Value, i64) -> Value) -> Option<Value> {
    Some(f(env.get(&op.input)?, op.axis as i64).reshape(shape(&op.out)))
}

/// Imports a maximum or minimum over one axis, which is kept with size 1 (keepdim). Also returns the index of the
/// selected element.
fn reduce_axis_with_position(
    env: &Env,
    op: &ReduceDimWithIndicesOpIr,
    f: impl FnOnce(Value, i64) -> [Value; 2],
) -> Imported {
    let [value, position] = f(env.get(&op.tensor)?, op.dim as i64);
    Some(vec![value.reshape(shape(&op.out)), position.reshape(shape(&op.out_indices))])
}

/// Flattens a value to one axis.
fn flatten(x: Value) -> Value {
    x.reshape([x.shape().elements()])
}

/// Returns the largest element along an axis.
fn largest(x: Value, axis: i64) -> Value {
    first_of_equals(x, axis, |x| x.max(axis), |x| x.argmax(axis))
}

/// Returns the smallest element along an axis.
fn smallest(x: Value, axis: i64) -> Value {
    first_of_equals(x, axis, |x| x.min(axis), |x| x.argmin(axis))
}

/// Reduces an axis to its largest or smallest element. As in Burn, the first of several equal elements receives the
/// whole gradient. funcify's own reductions divide the gradient among the equal elements.
fn first_of_equals(
    x: Value,
    axis: i64,
    element: impl FnOnce(Value) -> Value,
    position: impl FnOnce(Value) -> Value,
) -> Value {
    if !x.dtype().is_float() {
        return element(x);
    }
    custom_jvp(x, element, |x, _, tangent| tangent.gather(axis, position(x).unsqueeze(axis)).squeeze(axis))
}

pub(super) fn at_least(x: Value, low: Value) -> Value {
    select(x.lt(low), low, x)
}

fn at_most(x: Value, high: Value) -> Value {
    select(x.gt(high), high, x)
}

/// Computes Burn's float remainder, which has the sign of the divisor. Returns `None` for integers, because their
/// remainders differ between Burn's devices.
fn remainder(x: Value, y: Value) -> Option<Value> {
    let rest = x % y;
    let differs = rest.ne(0.0) & (rest.lt(0.0) ^ y.lt(0.0));
    x.dtype().is_float().then(|| select(differs, rest + y, rest))
}
