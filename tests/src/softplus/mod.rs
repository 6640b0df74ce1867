//! `softplus {beta=2}`: an op that is defined outside of funcify, with lowering rules for Candle and Burn.
//!
//! `softplus(x) = log(1 + exp(beta * x)) / beta` is a smooth approximation of `max(x, 0)` that becomes sharper as
//! `beta` grows. It is computed as `max(x, 0) + log1p(exp(-|beta * x|)) / beta`, which cannot overflow.

mod burn;
mod candle;

use funcify::derivative::{Cotangents, Dual, VjpContext, jvp_with};
use funcify::error::Place;
use funcify::ops::{Attributes, Custom, CustomOp, EvalContext, Failed, batch_elementwise};
use funcify::vmap::Batched;
use funcify::{Dim, HostTensor, Result, Scalar, TensorType, Value, apply, custom_op};

/// The op `softplus`, a smooth approximation of `max(x, 0)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Softplus {
    /// The sharpness, which is at least 1.
    pub beta: usize,
}

custom_op!(Softplus, "softplus", |attributes| Ok(Softplus { beta: attributes.take_usize("beta")? }));

/// Applies `softplus` to a float tensor of any shape.
#[track_caller]
pub fn softplus(x: Value, beta: usize) -> Value {
    apply(Custom::new(Softplus { beta }), &[x])[0]
}

/// Computes `softplus` of one element.
pub fn softplus_of(x: f64, beta: usize) -> f64 {
    let beta = beta as f64;
    x.max(0.0) + (-(beta * x).abs()).exp().ln_1p() / beta
}

impl CustomOp for Softplus {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = inputs else {
            let found = format!("{} operands", inputs.len());
            return Err(at.mismatch("the operand list", "1 operand", found, "pass one value"));
        };
        if !x.dtype.is_float() {
            return Err(at.mismatch("the operand", "a float type", x, "cast the operand to a float type"));
        }
        if self.beta == 0 {
            return Err(at.mismatch("attribute `beta`", "1 or more", "0", "pass a sharpness of at least 1"));
        }
        Ok(vec![x.clone()])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let element = |index: &[usize]| Scalar::Float(softplus_of(x.at(index).as_f64(), self.beta));
        Ok(vec![HostTensor::from_fn(x.dtype(), x.shape(), element)])
    }

    fn attributes(&self) -> Attributes {
        Attributes::new().with("beta", self.beta)
    }

    fn batch(&self, size: &Dim, operands: &[Batched]) -> Result<Vec<Batched>, Failed> {
        batch_elementwise(Custom::new(*self), size, operands)
    }

    fn jvp(&self, operands: &[Dual]) -> Result<Option<Vec<Dual>>, Failed> {
        let slope = (operands[0].primal * self.beta as f64).sigmoid();
        let tangent = operands[0].tangent.map(|tangent| tangent * slope);
        jvp_with(Custom::new(*self), operands, |_, _| vec![tangent]).map(Some)
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Option<Cotangents>, Failed> {
        let slope = (context.operands[0] * self.beta as f64).sigmoid();
        Ok(Some(vec![cotangents[0].map(|cotangent| cotangent * slope)]))
    }

    fn composition(&self, operands: &[Value]) -> Result<Option<Vec<Value>>, Failed> {
        let (x, beta) = (operands[0], self.beta as f64);
        Ok(Some(vec![x.relu() + (-(x * beta).abs()).exp().log1p() / beta]))
    }
}
