//! Imports float functions and activations.

use burn_ir::{ActivationOperationIr, FloatOperationIr};
use funcify_core::{Value, select};

use super::numeric::with_number;
use super::{Env, Imported, dtype_of, float_of, number, one};

pub(super) fn row(env: &Env, op: &FloatOperationIr) -> Imported {
    use FloatOperationIr as Op;
    one(match op {
        Op::Exp(op) => env.get(&op.input)?.exp(),
        Op::Log(op) => env.get(&op.input)?.log(),
        Op::Log1p(op) => env.get(&op.input)?.log1p(),
        Op::Erf(op) => env.get(&op.input)?.erf(),
        Op::Sqrt(op) => env.get(&op.input)?.sqrt(),
        Op::Recip(op) => env.get(&op.input)?.recip(),
        Op::Cos(op) => env.get(&op.input)?.cos(),
        Op::Cosh(op) => env.get(&op.input)?.cosh(),
        Op::Sin(op) => env.get(&op.input)?.sin(),
        Op::Sinh(op) => env.get(&op.input)?.sinh(),
        Op::Tan(op) => env.get(&op.input)?.tan(),
        Op::Tanh(op) => env.get(&op.input)?.tanh(),
        Op::ArcCos(op) => env.get(&op.input)?.acos(),
        Op::ArcCosh(op) => env.get(&op.input)?.acosh(),
        Op::ArcSin(op) => env.get(&op.input)?.asin(),
        Op::ArcSinh(op) => env.get(&op.input)?.asinh(),
        Op::ArcTan(op) => env.get(&op.input)?.atan(),
        Op::ArcTanh(op) => env.get(&op.input)?.atanh(),
        Op::ArcTan2(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.atan2(y))?,
        Op::Hypot(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.hypot(y))?,
        Op::Round(op) => env.get(&op.input)?.round(),
        Op::Floor(op) => env.get(&op.input)?.floor(),
        Op::Ceil(op) => env.get(&op.input)?.ceil(),
        Op::Trunc(op) => env.get(&op.input)?.trunc(),
        Op::IntoInt(op) => env.get(&op.input)?.cast(dtype_of(&op.out)?),
        Op::IsNan(op) => env.get(&op.input)?.is_nan(),
        Op::IsInf(op) => {
            let x = env.get(&op.input)?;
            !(x.is_finite() | x.is_nan())
        }
        Op::Powf(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.pow(y))?,
        Op::PowfScalar(op) => match float_of(&op.rhs) {
            2.0 => env.get(&op.lhs)?.square(),
            _ => with_number(env, op, |x, y| x.pow(y))?,
        },
        Op::Matmul(op) => env.pair(&op.lhs, &op.rhs).map(|(x, y)| x.matmul(y))?,
        Op::Cross(_) | Op::Random(_) | Op::Quantize(_) | Op::Dequantize(_) | Op::GridSample2d(_) => return None,
    })
}

pub(super) fn activation_row(env: &Env, op: &ActivationOperationIr) -> Imported {
    use ActivationOperationIr as Op;
    one(match op {
        // As in Burn, the gradient at zero is zero, and NaN stays NaN.
        Op::Relu(op) => {
            let x = env.get(&op.input)?;
            select(x.le(0.0), 0.0, x)
        }
        Op::LeakyRelu(op) => with_number(env, op, below_zero)?,
        Op::PRelu(op) => env.pair(&op.lhs, &op.rhs).map(|(x, slope)| below_zero(x, slope))?,
        Op::Gelu(op) => env.get(&op.input)?.gelu(),
        Op::Sigmoid(op) => env.get(&op.input)?.sigmoid(),
        Op::HardSigmoid(op) => {
            let x = env.get(&op.tensor)?;
            (x * number(&op.alpha, x) + number(&op.beta, x)).clamp(0.0, 1.0)
        }
        Op::LogSigmoid(op) => env.get(&op.input)?.log_sigmoid(),
        Op::Softmax(op) => env.get(&op.input)?.softmax(op.axis as i64),
        Op::LogSoftmax(op) => env.get(&op.input)?.log_softmax(op.axis as i64),
        Op::Softmin(op) => (-env.get(&op.input)?).softmax(op.axis as i64),
        // These ops occur in Burn's backward pass (see `probe`). Each reads a forward value and a gradient.
        Op::ReluBackward(op) => env.pair(&op.lhs, &op.rhs).map(|(y, gradient)| select(y.gt(0.0), gradient, 0.0))?,
        Op::SigmoidBackward(op) => env.pair(&op.lhs, &op.rhs).map(|(y, gradient)| gradient * y * (1.0 - y))?,
        Op::LogSigmoidBackward(op) => env.pair(&op.lhs, &op.rhs).map(|(x, gradient)| gradient * (-x).sigmoid())?,
        Op::GeluBackward(_) => return None,
    })
}

/// Multiplies the negative elements of `x` by `slope`.
fn below_zero(x: Value, slope: Value) -> Value {
    select(x.lt(0.0), x * slope, x)
}
