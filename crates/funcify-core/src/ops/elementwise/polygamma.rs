//! `polygamma`: the elementwise derivatives of `digamma`, up to order [`POLYGAMMA_ORDERS`].
//!
//! The op corresponds to JAX's `polygamma(n, x)`, except that the order is an attribute. Its derivative is the same op,
//! with the order increased by 1. The op computes in f64 and rounds the result once.

use crate::ops::rules::*;
use crate::ops::special::{POLYGAMMA_ORDERS, polygamma};

/// A derivative of the digamma function. The derivative of order 1 is the trigamma function. At zero and the negative
/// integers, the result is infinite if the order is odd, and NaN if it is even.
#[derive(Clone, Copy, Debug)]
pub struct Polygamma {
    /// The order of the derivative, at least 1.
    pub order: usize,
}

op_text!("polygamma" => Polygamma { order });

impl Polygamma {
    /// Returns `t` times the derivative of the result with respect to `x`.
    fn partial(self, x: Value, t: Value) -> Value {
        t * x.polygamma(self.order + 1)
    }
}

impl OpRules for Polygamma {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = arity(at, inputs)?;
        if !(1..=POLYGAMMA_ORDERS).contains(&self.order) {
            let expected = format!("an order from 1 to {POLYGAMMA_ORDERS}");
            return Err(at.mismatch("attribute `order`", expected, self.order, "order 0 is `digamma`"));
        }
        Domain::Float.check(at, "the operand", &x)?;
        Ok(vec![x])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let x = &inputs[0];
        let value = |index: &[usize]| Scalar::Float(polygamma(self.order, x.at(index).as_f64()));
        Ok(vec![HostTensor::from_fn(x.dtype(), x.shape(), value)])
    }

    elementwise_batch!();

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        jvp_with(*self, operands, |values, _| vec![operands[0].tangent.map(|tangent| self.partial(values[0], tangent))])
    }

    fn vjp(&self, context: &VjpContext<'_>, cotangents: &[Option<Value>]) -> Result<Cotangents, Failed> {
        Ok(vec![cotangents[0].map(|cotangent| self.partial(context.operands[0], cotangent))])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn the_order_is_an_attribute() {
        let x = HostTensor::from([1f32, 0.5, 0.0]);
        let trigamma = HostTensor::from([1.644_934_f32, 4.934_802, f32::INFINITY]);
        check_op("polygamma {order=1}", std::slice::from_ref(&x), trigamma.clone());
        check_op("polygamma {order=3}", &[HostTensor::scalar(1f64)], 6.493939402266829f64);
        rejects("polygamma {order=0}", &["f32[3]"], "an order from 1 to 100");
        rejects("polygamma {order=101}", &["f32[3]"], "an order from 1 to 100");
        rejects("polygamma {order=1}", &["i64[3]"], "a float type");
    }

    #[test]
    fn the_derivative_is_the_next_order() {
        let x = HostTensor::from([0.4f64, 1.3, 7.5, -0.75]);
        check_derivative("digamma", std::slice::from_ref(&x));
        for order in 1..4 {
            check_derivative(&format!("polygamma {{order={order}}}"), std::slice::from_ref(&x));
        }
    }

    #[test]
    fn each_lane_on_its_own() {
        check_batch("polygamma {order=2}", &[(HostTensor::from([[0.5f64, 2.0], [1.0, -0.5]]), true)]);
    }
}
