//! `nextafter`: the adjacent float in a given direction.

use half::{bf16, f16};

use crate::derivative::{no_derivative, primals};
use crate::ops::rules::*;

/// The float adjacent to each element of the left operand, in the direction of the right operand. If both operands are
/// equal, the result is the right operand (-0 for the operands 0 and -0). If either is NaN, the result is NaN. The
/// floats adjacent to zero are the subnormal numbers of smallest magnitude, and the infinities are adjacent to the
/// finite numbers of largest magnitude. As in JAX, the op has no derivative.
#[derive(Clone, Copy, Debug)]
pub struct NextAfter;

op_text!("nextafter" => NextAfter {});

impl NextAfter {
    fn undefined(self, operands: &[Value]) -> Failed {
        let reason =
            "the derivative of a neighbour is not defined: it could be 1 with respect to the first operand, or none";
        let fix = "keep it out of the derivative with `stop_gradient`, or define it with `custom_jvp`";
        no_derivative("nextafter", operands, "the op", reason, fix)
    }
}

impl OpRules for NextAfter {
    fn infer(&self, at: &Place, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x, toward] = arity(at, inputs)?;
        Domain::Float.check(at, "the left operand", &x)?;
        check_same(at, &x, &toward)?;
        Ok(vec![x])
    }

    fn eval(&self, _: &mut EvalContext<'_>, inputs: &[HostTensor], _: &[TensorType]) -> Result<Vec<HostTensor>> {
        let [x, toward] = [&inputs[0], &inputs[1]];
        let pairs = x.scalars().zip(toward.scalars());
        let next = pairs.map(|(x, toward)| Scalar::Float(next_after(x.as_f64(), toward.as_f64(), inputs[0].dtype())));
        tensor(x.dtype(), x.shape(), next)
    }

    elementwise_batch!();

    fn jvp(&self, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
        Err(self.undefined(&primals(operands)))
    }

    fn vjp(&self, context: &VjpContext<'_>, _: &[Option<Value>]) -> Result<Cotangents, Failed> {
        Err(self.undefined(context.operands))
    }
}

/// Returns the float of type `dtype` that is adjacent to `x` in the direction of `toward`. Backends call this function
/// too.
#[doc(hidden)]
pub fn next_after(x: f64, toward: f64, dtype: DType) -> f64 {
    if x.is_nan() || toward.is_nan() {
        return f64::NAN;
    }
    if x == toward {
        return toward;
    }
    let upward = toward > x;
    match dtype {
        DType::F16 => f16::from_bits(neighbour(f16::from_f64(x).to_bits().into(), 16, upward) as u16).to_f64(),
        DType::BF16 => bf16::from_bits(neighbour(bf16::from_f64(x).to_bits().into(), 16, upward) as u16).to_f64(),
        DType::F32 => f64::from(f32::from_bits(neighbour((x as f32).to_bits().into(), 32, upward) as u32)),
        _ => f64::from_bits(neighbour(x.to_bits(), 64, upward)),
    }
}

/// Returns the bits of the float just above the float with the given bits if `upward` is set, and of the float just
/// below it otherwise. The given float must not be NaN.
fn neighbour(bits: u64, width: u32, upward: bool) -> u64 {
    let sign = 1 << (width - 1);
    match bits & !sign {
        0 if upward => 1,
        0 => sign | 1,
        _ if upward == (bits & sign == 0) => bits + 1,
        _ => bits - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check_batch, check_op, rejects};
    use crate::{GradOptions, Graph};

    /// Checks, for each dtype, the neighbours of zero, of the largest float, and of 1.
    #[test]
    fn neighbours_of_every_type() {
        let check = |dtype: DType, smallest: f64, largest: f64, below_one: f64, above_one: f64| {
            let inf = f64::INFINITY;
            let x = [0.0, -0.0, smallest, -smallest, largest, inf, 1.0, 1.0, -1.0, 2.0];
            let toward = [1.0, -1.0, 0.0, 1.0, inf, 0.0, 9.0, -inf, inf, 2.0];
            let next = [smallest, -smallest, 0.0, -0.0, inf, largest, above_one, below_one, -below_one, 2.0];
            let of = |numbers: [f64; 10]| HostTensor::from(numbers).cast(dtype);
            check_op("nextafter", &[of(x), of(toward)], of(next));
            let signs = crate::ops::testing::eval_op("nextafter", &[of(x), of(toward)]);
            assert!(signs.to_f64_vec()[3].is_sign_negative(), "{dtype}");
        };
        let power = |exponent| 2f64.powi(exponent);
        check(DType::F16, power(-24), 65504.0, 1.0 - power(-11), 1.0 + power(-10));
        check(DType::BF16, power(-133), power(128) - power(120), 1.0 - power(-8), 1.0 + power(-7));
        check(DType::F32, power(-149), f32::MAX.into(), 1.0 - power(-24), 1.0 + power(-23));
        check(DType::F64, f64::from_bits(1), f64::MAX, 1.0 - power(-53), 1.0 + power(-52));
    }

    #[test]
    fn equal_ones_give_the_right_one_and_nan_wins() {
        let next =
            |x: f32, toward: f32| crate::ops::testing::eval_op("nextafter", &[x.into(), toward.into()]).to_f64_vec()[0];
        assert!(next(0.0, -0.0).is_sign_negative() && next(-0.0, 0.0).is_sign_positive());
        assert!(next(f32::NAN, 1.0).is_nan() && next(1.0, f32::NAN).is_nan());
    }

    #[test]
    fn rules() {
        rejects("nextafter", &["i32[3]", "i32[3]"], "a float type");
        rejects("nextafter", &["f32[3]", "f64[3]"], "f32[3], like the left operand");
        check_batch("nextafter", &[([[1f32, 2.0], [-0.0, 3.0]].into(), true), ([5f32, -5.0].into(), false)]);
        let graph = Graph::build("f", |g| g.input("x", "f32[]").nextafter(9.0)).unwrap();
        for error in [graph.grad("x", GradOptions::new()).unwrap_err(), graph.jvp("x").unwrap_err()] {
            assert_eq!(error.kind(), "NoDerivative", "{error}");
            assert!(error.to_string().contains("custom_jvp"), "{error}");
        }
    }
}
