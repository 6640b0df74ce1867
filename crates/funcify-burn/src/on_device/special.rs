//! Implements inverse trigonometric, hyperbolic and error functions for f32, with the polynomials of Cephes (S.
//! Moshier) and of M. Giles (Approximating the erfinv function, 2012). On Mesa's software Vulkan, the device's `asin`
//! and `acos` have errors of 1e-4, and `atan` and `sinh` have errors of 2e-5 near 0; `atan` of NaN and `atan2` of zeros
//! are wrong (measured).

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

use super::floats::{log, odd_polynomial, polynomial, square, within};
use super::*;
fn plus(x: Tensor, number: f64) -> Tensor {
    Dispatch::float_add_scalar(x, Scalar::from(number))
}

fn times(x: Tensor, number: f64) -> Tensor {
    Dispatch::float_mul_scalar(x, Scalar::from(number))
}

/// Computes `number` - x.
fn subtract_from(number: f64, x: Tensor) -> Tensor {
    plus(Dispatch::float_neg(x), number)
}

fn above(burn: &Burn, x: &Tensor, bound: f64) -> Tensor {
    Dispatch::float_greater_elem(x.clone(), Scalar::from(bound), burn.bool_dtype())
}

fn below(burn: &Burn, x: &Tensor, bound: f64) -> Tensor {
    Dispatch::float_lower_elem(x.clone(), Scalar::from(bound), burn.bool_dtype())
}

/// Returns a mask of the negative elements, including -0.
fn is_negative(burn: &Burn, x: &Tensor) -> Tensor {
    Dispatch::bool_or(below(burn, x, 0.0), below(burn, &Dispatch::float_recip(x.clone()), 0.0))
}

/// Negates `y` where the mask is true.
fn negate_where(y: Tensor, mask: Tensor) -> Tensor {
    mask_where(y.clone(), mask, Dispatch::float_neg(y))
}

/// Computes arcsin(x) for |x| up to 1/2, as in Cephes' `asinf`.
fn asin_near_zero(x: Tensor) -> Tensor {
    const COEFFICIENTS: [f64; 5] =
        [4.216_319_904_8e-2, 2.418_131_104_9e-2, 4.547_002_599_8e-2, 7.495_300_268_6e-2, 1.666_675_242_2e-1];
    odd_polynomial(x, &COEFFICIENTS)
}

/// Computes arccos(|x|) for |x| above 1/2, as 2 arcsin(sqrt((1 - |x|) / 2)). Returns NaN for |x| above 1.
fn acos_near_one(burn: &Burn, x: &Tensor) -> Tensor {
    let magnitude = Dispatch::float_abs(x.clone());
    let outside = above(burn, &magnitude, 1.0);
    let root = Dispatch::float_sqrt(times(subtract_from(1.0, magnitude), 0.5));
    Dispatch::float_mask_fill(times(asin_near_zero(root), 2.0), outside, Scalar::from(f64::NAN))
}

pub(crate) fn asin(burn: &Burn, x: Tensor) -> Tensor {
    let far = negate_where(subtract_from(FRAC_PI_2, acos_near_one(burn, &x)), below(burn, &x, 0.0));
    mask_where(far, within(burn, &x, 0.5), asin_near_zero(x))
}

pub(crate) fn acos(burn: &Burn, x: Tensor) -> Tensor {
    let far = acos_near_one(burn, &x);
    let far = mask_where(far.clone(), below(burn, &x, 0.0), subtract_from(PI, far));
    mask_where(far, within(burn, &x, 0.5), subtract_from(FRAC_PI_2, asin_near_zero(x)))
}

/// Computes arctan(x) as in Cephes' `atanf`. Replaces |x| with -1/|x| above tan(3 pi / 8), or with 1 - 2 / (|x| + 1)
/// above tan(pi / 8), and then adds pi / 2 or pi / 4 to the arctangent.
pub(crate) fn atan(burn: &Burn, x: Tensor) -> Tensor {
    const COEFFICIENTS: [f64; 4] =
        [8.053_744_495_38e-2, -1.387_768_560_32e-1, 1.997_771_064_78e-1, -3.333_294_915_39e-1];
    const TAN_PI_8: f64 = 0.414_213_562_373_095;
    const TAN_3_PI_8: f64 = 2.414_213_562_373_095;
    let magnitude = Dispatch::float_abs(x.clone());
    let (is_middle, is_far) = (above(burn, &magnitude, TAN_PI_8), above(burn, &magnitude, TAN_3_PI_8));
    let middle = Dispatch::float_div(plus(magnitude.clone(), -1.0), plus(magnitude.clone(), 1.0));
    let far = Dispatch::float_neg(Dispatch::float_recip(magnitude));
    // If |x| is small, x keeps its sign. Otherwise |x| is reduced, and the sign is restored at the end.
    let reduced = mask_where(mask_where(x.clone(), is_middle.clone(), middle), is_far.clone(), far);
    let angle = odd_polynomial(reduced, &COEFFICIENTS);
    let middle = plus(angle.clone(), FRAC_PI_4);
    let far = plus(angle.clone(), FRAC_PI_2);
    let above = mask_where(middle, is_far, far);
    let above = negate_where(above, below(burn, &x, 0.0));
    mask_where(angle, is_middle, above)
}

/// Computes the angle of the point (x, y). Divides the smaller of |x| and |y| by the larger, and maps the arctangent of
/// the quotient to the octant of the point. Signs follow IEEE 754's `atan2`.
pub(crate) fn atan2(burn: &Burn, y: Tensor, x: Tensor) -> Tensor {
    let bool_dtype = burn.bool_dtype();
    let (height, width) = (Dispatch::float_abs(y.clone()), Dispatch::float_abs(x.clone()));
    let is_steep = Dispatch::float_greater(height.clone(), width.clone(), bool_dtype);
    let small = mask_where(height.clone(), is_steep.clone(), width.clone());
    let large = mask_where(width, is_steep.clone(), height);
    let ratio = Dispatch::float_div(small.clone(), large.clone());
    // If both coordinates are zero, or both are infinite, their quotient is NaN. Set the ratio to 0 for zeros, and to 1
    // for infinities.
    let is_zero = Dispatch::float_equal_elem(large, Scalar::from(0f64), bool_dtype);
    let is_infinite = Dispatch::float_equal_elem(small, Scalar::from(f64::INFINITY), bool_dtype);
    let ratio = Dispatch::float_mask_fill(ratio, is_zero, Scalar::from(0f64));
    let angle = atan(burn, Dispatch::float_mask_fill(ratio, is_infinite, Scalar::from(1f64)));
    let angle = mask_where(angle.clone(), is_steep, subtract_from(FRAC_PI_2, angle));
    let angle = mask_where(angle.clone(), is_negative(burn, &x), subtract_from(PI, angle));
    let angle = negate_where(angle, is_negative(burn, &y));
    let is_nan = |tensor: Tensor| Dispatch::float_is_nan(tensor, bool_dtype);
    Dispatch::float_mask_fill(angle, Dispatch::bool_or(is_nan(y), is_nan(x)), Scalar::from(f64::NAN))
}

/// Computes sinh(x). Uses the polynomial of Cephes' `sinhf` near 0. Elsewhere, uses (h * h - 1 / (h * h)) / 2, where h
/// = exp(|x| / 2). Computes h * h / 2 as h * (h / 2), which overflows only where sinh does.
pub(crate) fn sinh(burn: &Burn, x: Tensor) -> Tensor {
    const COEFFICIENTS: [f64; 3] = [2.037_219_129_45e-4, 8.330_283_762_39e-3, 1.666_671_602_11e-1];
    let root = Dispatch::float_exp(times(Dispatch::float_abs(x.clone()), 0.5));
    let rising = Dispatch::float_mul(root.clone(), times(root.clone(), 0.5));
    let falling = times(square(&Dispatch::float_recip(root)), 0.5);
    let far = negate_where(Dispatch::float_sub(rising, falling), below(burn, &x, 0.0));
    mask_where(far, within(burn, &x, 1.0), odd_polynomial(x, &COEFFICIENTS))
}

/// Computes erf(x). Uses the polynomial of Cephes' `erff` near 0, and the device's `erf` elsewhere.
pub(crate) fn erf(burn: &Burn, x: Tensor) -> Tensor {
    const COEFFICIENTS: [f64; 7] = [
        7.853_861_353_153_693e-5,
        -8.010_193_625_184_903e-4,
        5.188_327_685_732_524e-3,
        -2.685_381_193_529_856e-2,
        1.128_358_514_861_418e-1,
        -3.761_262_582_423_3e-1,
        1.128_379_165_726_71,
    ];
    let near = Dispatch::float_mul(polynomial(&square(&x), &COEFFICIENTS), x.clone());
    mask_where(Dispatch::float_erf(x.clone()), within(burn, &x, 1.0), near)
}

/// Computes the inverse of erf, with Giles' polynomials in w = -log(1 - x^2), or in sqrt(w) if w is 5 or more.
pub(crate) fn erf_inv(burn: &Burn, x: Tensor) -> Tensor {
    const CENTRE: [f64; 9] = [
        2.810_226_36e-8,
        3.432_739_39e-7,
        -3.523_387_7e-6,
        -4.391_506_54e-6,
        2.185_808_7e-4,
        -1.253_725_03e-3,
        -4.177_681_64e-3,
        2.466_407_27e-1,
        1.501_409_41,
    ];
    const TAIL: [f64; 9] = [
        -2.002_142_57e-4,
        1.009_505_58e-4,
        1.349_343_22e-3,
        -3.673_428_44e-3,
        5.739_507_73e-3,
        -7.622_461_3e-3,
        9.438_870_47e-3,
        1.001_674_06,
        2.832_976_82,
    ];
    let w = Dispatch::float_neg(log(burn, Dispatch::float_mul(subtract_from(1.0, x.clone()), plus(x.clone(), 1.0))));
    let is_central = below(burn, &w, 5.0);
    let centre = polynomial(&plus(w.clone(), -2.5), &CENTRE);
    let tail = polynomial(&plus(Dispatch::float_sqrt(w), -3.0), &TAIL);
    let result = Dispatch::float_mul(mask_where(tail, is_central, centre), x.clone());
    let magnitude = Dispatch::float_abs(x.clone());
    let is_end = Dispatch::float_equal_elem(magnitude.clone(), Scalar::from(1f64), burn.bool_dtype());
    let result = mask_where(result, is_end, times(x, f64::INFINITY));
    Dispatch::float_mask_fill(result, above(burn, &magnitude, 1.0), Scalar::from(f64::NAN))
}
