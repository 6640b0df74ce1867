//! Functions of floats, and activations.

use burn_ir::{ActivationOperationIr, FloatOperationIr};
use funcify::{Value, select};

use super::numeric::with_number;
use super::{Known, Row, dtype_of, float_of, number, one};

pub(super) fn row(known: &Known, op: &FloatOperationIr) -> Row {
    use FloatOperationIr as Op;
    one(match op {
        Op::Exp(op) => known.get(&op.input)?.exp(),
        Op::Log(op) => known.get(&op.input)?.log(),
        Op::Log1p(op) => known.get(&op.input)?.log1p(),
        Op::Erf(op) => known.get(&op.input)?.erf(),
        Op::Sqrt(op) => known.get(&op.input)?.sqrt(),
        Op::Recip(op) => known.get(&op.input)?.recip(),
        Op::Cos(op) => known.get(&op.input)?.cos(),
        Op::Cosh(op) => known.get(&op.input)?.cosh(),
        Op::Sin(op) => known.get(&op.input)?.sin(),
        Op::Sinh(op) => known.get(&op.input)?.sinh(),
        Op::Tan(op) => known.get(&op.input)?.tan(),
        Op::Tanh(op) => known.get(&op.input)?.tanh(),
        Op::ArcCos(op) => known.get(&op.input)?.acos(),
        Op::ArcCosh(op) => known.get(&op.input)?.acosh(),
        Op::ArcSin(op) => known.get(&op.input)?.asin(),
        Op::ArcSinh(op) => known.get(&op.input)?.asinh(),
        Op::ArcTan(op) => known.get(&op.input)?.atan(),
        Op::ArcTanh(op) => known.get(&op.input)?.atanh(),
        Op::ArcTan2(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.atan2(y))?,
        Op::Hypot(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.hypot(y))?,
        Op::Round(op) => known.get(&op.input)?.round(),
        Op::Floor(op) => known.get(&op.input)?.floor(),
        Op::Ceil(op) => known.get(&op.input)?.ceil(),
        Op::Trunc(op) => known.get(&op.input)?.trunc(),
        Op::IntoInt(op) => known.get(&op.input)?.cast(dtype_of(&op.out)?),
        Op::IsNan(op) => known.get(&op.input)?.is_nan(),
        Op::IsInf(op) => {
            let x = known.get(&op.input)?;
            !(x.is_finite() | x.is_nan())
        }
        Op::Powf(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.pow(y))?,
        Op::PowfScalar(op) => match float_of(&op.rhs) {
            2.0 => known.get(&op.lhs)?.square(),
            0.5 => known.get(&op.lhs)?.sqrt(),
            _ => with_number(known, op, |x, y| x.pow(y))?,
        },
        Op::Matmul(op) => known.pair(&op.lhs, &op.rhs).map(|(x, y)| x.matmul(y))?,
        Op::Cross(_) | Op::Random(_) | Op::Quantize(_) | Op::Dequantize(_) | Op::GridSample2d(_) => return None,
    })
}

pub(super) fn activation_row(known: &Known, op: &ActivationOperationIr) -> Row {
    use ActivationOperationIr as Op;
    one(match op {
        // As Burn's: at zero no gradient passes, and NaN stays.
        Op::Relu(op) => {
            let x = known.get(&op.input)?;
            select(x.le(0.0), 0.0, x)
        }
        Op::LeakyRelu(op) => with_number(known, op, below_zero)?,
        Op::PRelu(op) => known.pair(&op.lhs, &op.rhs).map(|(x, slope)| below_zero(x, slope))?,
        Op::Gelu(op) => known.get(&op.input)?.gelu(),
        Op::Sigmoid(op) => known.get(&op.input)?.sigmoid(),
        Op::HardSigmoid(op) => {
            let x = known.get(&op.tensor)?;
            (x * number(&op.alpha, x) + number(&op.beta, x)).clamp(0.0, 1.0)
        }
        Op::LogSigmoid(op) => known.get(&op.input)?.log_sigmoid(),
        Op::Softmax(op) => known.get(&op.input)?.softmax(op.axis as i64),
        Op::LogSoftmax(op) => known.get(&op.input)?.log_softmax(op.axis as i64),
        Op::Softmin(op) => (-known.get(&op.input)?).softmax(op.axis as i64),
        Op::ReluBackward(_) | Op::GeluBackward(_) | Op::SigmoidBackward(_) | Op::LogSigmoidBackward(_) => return None,
    })
}

/// x, times a slope where it is negative.
fn below_zero(x: Value, slope: Value) -> Value {
    select(x.lt(0.0), x * slope, x)
}
