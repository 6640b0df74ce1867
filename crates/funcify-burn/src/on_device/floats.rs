//! Implements float functions whose GPU versions are inaccurate, or wrong for some operands. On Mesa's software Vulkan,
//! `tanh` and `log(1 + x)` have errors of 1e-4 near 0, and `0^0` is 0 (measured).

use super::*;

/// Evaluates a polynomial at `x`. The coefficients are in order of descending powers.
pub(super) fn polynomial(x: &Tensor, coefficients: &[f64]) -> Tensor {
    let plus = |sum: Tensor, coefficient: f64| Dispatch::float_add_scalar(sum, Scalar::from(coefficient));
    let start = plus(Dispatch::float_mul_scalar(x.clone(), Scalar::from(coefficients[0])), coefficients[1]);
    let times = |sum: Tensor| Dispatch::float_mul(sum, x.clone());
    coefficients[2..].iter().fold(start, |sum, coefficient| plus(times(sum), *coefficient))
}

pub(super) fn square(x: &Tensor) -> Tensor {
    Dispatch::float_mul(x.clone(), x.clone())
}

/// Computes x (1 + x^2 p(x^2)), where p is the polynomial with these coefficients. Keeps the sign of zero.
pub(super) fn odd_polynomial(x: Tensor, coefficients: &[f64]) -> Tensor {
    let squares = square(&x);
    let bend = Dispatch::float_mul(polynomial(&squares, coefficients), squares);
    Dispatch::float_mul(Dispatch::float_add_scalar(bend, Scalar::from(1f64)), x)
}

/// Returns a mask of the elements with |x| < bound. The mask is false for NaN.
pub(super) fn within(burn: &Burn, x: &Tensor, bound: f64) -> Tensor {
    Dispatch::float_lower_elem(Dispatch::float_abs(x.clone()), Scalar::from(bound), burn.bool_dtype())
}

/// Computes tanh(x). Uses the polynomial of Cephes' `tanhf` near 0, and 1 - 2 / (exp(2|x|) + 1) with the sign of x
/// elsewhere.
pub(crate) fn tanh(burn: &Burn, x: Tensor) -> Tensor {
    const COEFFICIENTS: [f64; 5] =
        [-5.704_988_727_45e-3, 2.063_908_879_54e-2, -5.373_971_555_31e-2, 1.333_144_220_36e-1, -3.333_328_194_22e-1];
    let near = odd_polynomial(x.clone(), &COEFFICIENTS);
    let power = Dispatch::float_exp(Dispatch::float_mul_scalar(Dispatch::float_abs(x.clone()), Scalar::from(2f64)));
    let rest = Dispatch::float_recip(Dispatch::float_add_scalar(power, Scalar::from(1f64)));
    let far = Dispatch::float_add_scalar(Dispatch::float_mul_scalar(rest, Scalar::from(-2f64)), Scalar::from(1f64));
    let below = Dispatch::float_lower_elem(x.clone(), Scalar::from(0f64), burn.bool_dtype());
    let far = mask_where(far.clone(), below, Dispatch::float_neg(far));
    mask_where(far, within(burn, &x, 0.625), near)
}

/// Computes exp(x) - 1 as tanh(x/2) * (exp(x) + 1), which avoids cancellation near zero.
pub(crate) fn expm1(burn: &Burn, x: Tensor) -> Tensor {
    let half = tanh(burn, Dispatch::float_mul_scalar(x.clone(), Scalar::from(0.5f64)));
    let sum = Dispatch::float_add_scalar(Dispatch::float_exp(x), Scalar::from(1f64));
    Dispatch::float_mul(half, sum)
}

/// Computes log(1 + x) for |x| < 1/2 as 2 artanh(s) with s = x / (2 + x). Since |s| < 1/3, eight terms of the series in
/// s^2 are enough.
fn log1p_near_zero(x: &Tensor) -> Tensor {
    const COEFFICIENTS: [f64; 8] =
        [2.0 / 15.0, 2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0];
    let s = Dispatch::float_div(x.clone(), Dispatch::float_add_scalar(x.clone(), Scalar::from(2f64)));
    Dispatch::float_mul(polynomial(&square(&s), &COEFFICIENTS), s)
}

pub(crate) fn log1p(burn: &Burn, x: Tensor) -> Tensor {
    let far = Dispatch::float_log(Dispatch::float_add_scalar(x.clone(), Scalar::from(1f64)));
    mask_where(far, within(burn, &x, 0.5), log1p_near_zero(&x))
}

/// Computes log(x). Near 1, where x - 1 is exact, uses log(1 + (x - 1)).
pub(crate) fn log(burn: &Burn, x: Tensor) -> Tensor {
    let less_one = Dispatch::float_add_scalar(x.clone(), Scalar::from(-1f64));
    let near = log1p_near_zero(&less_one);
    mask_where(Dispatch::float_log(x), within(burn, &less_one, 0.5), near)
}

/// Computes x^y from the device's |x|^y, and corrects the sign and the special cases to match IEEE 754's `pow`.
pub(crate) fn power(burn: &Burn, x: Tensor, y: Tensor) -> Tensor {
    let bool_dtype = burn.bool_dtype();
    let zero = Scalar::from(0f64);
    let equals =
        |tensor: &Tensor, number: f64| Dispatch::float_equal_elem(tensor.clone(), Scalar::from(number), bool_dtype);
    let below_zero = |tensor: &Tensor| Dispatch::float_lower_elem(tensor.clone(), zero, bool_dtype);
    let both = |a: &Tensor, b: &Tensor| Dispatch::bool_and(a.clone(), b.clone());
    let either = |a: &Tensor, b: &Tensor| Dispatch::bool_or(a.clone(), b.clone());
    let fill =
        |tensor: Tensor, mask: Tensor, number: f64| Dispatch::float_mask_fill(tensor, mask, Scalar::from(number));

    let magnitude = Dispatch::float_abs(x.clone());
    let mut result = Dispatch::float_powf(magnitude.clone(), y.clone());

    // Handle zero and infinite bases with nonzero exponents.
    let (falls, rises) = (below_zero(&y), Dispatch::float_greater_elem(y.clone(), zero, bool_dtype));
    let (is_zero, is_infinite) = (equals(&x, 0.0), equals(&magnitude, f64::INFINITY));
    result = fill(result, either(&both(&is_zero, &rises), &both(&is_infinite, &falls)), 0.0);
    result = fill(result, either(&both(&is_zero, &falls), &both(&is_infinite, &rises)), f64::INFINITY);

    // For a negative base, an odd exponent negates the result, and a fractional exponent makes it NaN.
    let is_whole = Dispatch::float_equal(Dispatch::float_floor(y.clone()), y.clone(), bool_dtype);
    let half = Dispatch::float_mul_scalar(y.clone(), Scalar::from(0.5f64));
    let is_even = Dispatch::float_equal(Dispatch::float_floor(half.clone()), half, bool_dtype);
    let is_odd = both(&is_whole, &Dispatch::bool_not(is_even));
    let is_negative = either(&below_zero(&x), &below_zero(&Dispatch::float_recip(x.clone())));
    result = mask_where(result.clone(), both(&is_negative, &is_odd), Dispatch::float_neg(result));
    let is_finite = Dispatch::float_lower_elem(magnitude.clone(), Scalar::from(f64::INFINITY), bool_dtype);
    let has_none = both(&both(&below_zero(&x), &is_finite), &Dispatch::bool_not(is_whole));
    let is_nan = |tensor: &Tensor| Dispatch::float_is_nan(tensor.clone(), bool_dtype);
    result = fill(result, either(&has_none, &either(&is_nan(&x), &is_nan(&y))), f64::NAN);

    let is_infinite_power = equals(&Dispatch::float_abs(y.clone()), f64::INFINITY);
    let stays_one = both(&equals(&magnitude, 1.0), &is_infinite_power);
    fill(result, either(&either(&equals(&x, 1.0), &equals(&y, 0.0)), &stays_one), 1.0)
}
