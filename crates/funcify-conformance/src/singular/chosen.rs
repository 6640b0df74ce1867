//! Tables of expected derivatives. [`CHOSEN`] defines values at points where no true derivative exists. [`DEFINED`]
//! lists true derivatives that naive formulas get wrong because the formulas overflow, suffer from cancellation, or
//! return a constant at some points.

use funcify::DType;

use super::FLOATS;

/// The derivatives that funcify defines for some functions at points where no true derivative exists.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// The names of the functions that share these derivatives.
    pub functions: &'static [&'static str],
    /// The points at which these derivatives are defined.
    pub at: At,
    /// The derivatives of order 1, 2 and so on. The derivatives of each order are sorted by the number of
    /// differentiations with respect to the second operand.
    pub derivatives: &'static [&'static [f64]],
}

/// The points of a table entry.
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// Points of a function of one operand. `0.0` and `-0.0` are different points.
    Numbers(&'static [f64]),
    /// Points of a function of several operands, each with one number per operand.
    Points(&'static [&'static [f64]]),
    /// All points whose operands are equal.
    Equal,
}

/// A true derivative of a function, with its values at some points.
#[derive(Clone, Copy, Debug)]
pub struct Defined {
    /// The name of the function.
    pub function: &'static str,
    /// The indices of the operands with respect to which the function is differentiated, in order.
    pub by: &'static [usize],
    /// The float types that can represent the points and the derivatives.
    pub dtypes: &'static [DType],
    /// The points, each with the derivative at that point.
    pub at: &'static [(&'static [f64], f64)],
}

impl At {
    /// Returns whether these points include `point`.
    pub fn contains(&self, point: &[f64]) -> bool {
        let is_same = |a: &[f64]| a.iter().zip(point).all(|(a, b)| a.to_bits() == b.to_bits());
        match self {
            At::Numbers(numbers) => numbers.chunks(1).any(is_same),
            At::Points(points) => points.iter().any(|other| is_same(other)),
            At::Equal => point.windows(2).all(|pair| pair[0] == pair[1]),
        }
    }

    /// Returns the points or, for [`At::Equal`], examples that every float type can represent.
    pub fn examples(&self) -> Vec<&'static [f64]> {
        match self {
            At::Numbers(numbers) => numbers.chunks(1).collect(),
            At::Points(points) => points.to_vec(),
            At::Equal => vec![&[0.0, 0.0], &[1.0, 1.0], &[-2.0, -2.0], &[0.5, 0.5]],
        }
    }
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
const ZEROS: At = At::Numbers(&[0.0, -0.0]);
const ORIGIN: At = At::Points(&[&[0.0, 0.0]]);
const EXTREMA: &[&str] =
    &["max", "reduce_max", "cumulative_max", "scatter_max", "min", "reduce_min", "cumulative_min", "scatter_min"];
const ROUNDED: &[&str] = &["floor", "ceil", "trunc", "round"];

const fn line(functions: &'static [&'static str], at: At, derivatives: &'static [&'static [f64]]) -> Chosen {
    Chosen { functions, at, derivatives }
}

/// The derivatives defined at points where no true derivative exists. If the first derivative is infinite, higher
/// derivatives are infinite or NaN, and mixed derivatives may be 0.
pub const CHOSEN: &[Chosen] = &[
    line(&["abs", "sign", "relu", "of_base_0"], ZEROS, &[&[0.0], &[0.0], &[0.0]]),
    line(&["clamp"], At::Numbers(&[-1.0, 2.0]), &[&[0.5], &[0.0], &[0.0]]),
    line(
        ROUNDED,
        At::Numbers(&[0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 5.0, -5.0]),
        &[&[0.0], &[0.0], &[0.0]],
    ),
    line(EXTREMA, At::Equal, &[&[0.5, 0.5], &[0.0, 0.0, 0.0]]),
    line(EXTREMA, At::Points(&[&[NAN, 1.0], &[1.0, NAN], &[NAN, NAN]]), &[&[NAN, NAN]]),
    line(&["clamp"], At::Numbers(&[NAN]), &[&[NAN]]),
    line(&["relu"], At::Numbers(&[NAN]), &[&[1.0]]),
    line(ROUNDED, At::Numbers(&[NAN, INF, -INF]), &[&[0.0]]),
    line(&["sqrt", "pow_half"], At::Numbers(&[0.0]), &[&[INF], &[-INF], &[INF]]),
    line(&["sqrt"], At::Numbers(&[-0.0]), &[&[-INF], &[INF], &[-INF]]),
    line(&["pow_half"], At::Numbers(&[-0.0]), &[&[INF], &[-INF], &[INF]]),
    line(&["cbrt"], ZEROS, &[&[INF], &[NAN], &[NAN]]),
    line(&["log"], At::Numbers(&[0.0]), &[&[INF], &[-INF], &[INF]]),
    line(&["log"], At::Numbers(&[-0.0]), &[&[-INF], &[-INF], &[-INF]]),
    line(&["log1p"], At::Numbers(&[-1.0]), &[&[INF], &[-INF], &[INF]]),
    line(&["rsqrt"], ZEROS, &[&[-INF], &[INF], &[-INF]]),
    line(&["recip", "pow_minus_1"], ZEROS, &[&[-INF], &[INF], &[-INF]]),
    line(&["asin", "atanh", "erf_inv"], At::Numbers(&[1.0, -1.0]), &[&[INF], &[INF], &[INF]]),
    line(&["acos"], At::Numbers(&[1.0, -1.0]), &[&[-INF], &[-INF], &[-INF]]),
    line(&["acosh"], At::Numbers(&[1.0]), &[&[INF], &[-INF], &[INF]]),
    line(
        &["lgamma", "polygamma"],
        At::Numbers(&[0.0, -0.0, -1.0, -2.0, -3.0, -5.0, -10.0, -20.0, -40.0, -100.0, -600.0, -800.0, -1e5]),
        &[&[NAN], &[INF], &[NAN]],
    ),
    line(
        &["div"],
        At::Points(&[
            &[1e-200, 0.0],
            &[1e-8, 0.0],
            &[0.5, 0.0],
            &[1.0, 0.0],
            &[2.0, 0.0],
            &[3.0, 0.0],
            &[1e3, 0.0],
            &[1e200, 0.0],
        ]),
        &[&[INF, -INF], &[0.0, -INF, INF]],
    ),
    line(
        &["div"],
        At::Points(&[&[-1e-200, 0.0], &[-0.5, 0.0], &[-1.0, 0.0], &[-2.0, 0.0], &[-3.5, 0.0], &[-1e200, 0.0]]),
        &[&[INF, INF], &[0.0, -INF, -INF]],
    ),
    line(
        &["rem"],
        At::Points(&[&[0.3, 0.3], &[1.1, 1.1], &[2.5, 2.5], &[7.3, 7.3], &[-0.8, -0.8], &[-1.3, -1.3]]),
        &[&[1.0, -1.0], &[0.0, 0.0, 0.0]],
    ),
    line(&["pow"], ORIGIN, &[&[0.0, 0.0], &[0.0, 0.0, 0.0]]),
    line(&["pow"], At::Points(&[&[0.0, 1e-8], &[0.0, 0.5]]), &[&[INF, 0.0], &[-INF, NAN, 0.0]]),
    line(&["pow"], At::Points(&[&[0.0, 1.0], &[0.0, 3.0], &[0.0, 1e3]]), &[&[], &[0.0, 0.0, 0.0]]),
    line(&["pow"], At::Points(&[&[0.0, 2.0]]), &[&[0.0, 0.0], &[2.0, 0.0, 0.0]]),
    line(
        &["pow"],
        At::Points(&[&[0.0, -0.5], &[0.0, -1.0], &[0.0, -2.0], &[0.0, -3.5]]),
        &[&[-INF, 0.0], &[INF, NAN, 0.0]],
    ),
    line(&["atan2"], ORIGIN, &[&[NAN, NAN], &[NAN, NAN, NAN]]),
    line(&["atan2"], At::Points(&[&[0.0, -0.5]]), &[&[-2.0, 0.0], &[0.0, -4.0, 0.0]]),
    line(&["atan2"], At::Points(&[&[0.0, -1.0]]), &[&[-1.0, 0.0], &[0.0, -1.0, 0.0]]),
    line(&["atan2"], At::Points(&[&[0.0, -2.0]]), &[&[-0.5, 0.0], &[0.0, -0.25, 0.0]]),
    line(&["atan2"], At::Points(&[&[0.0, -3.5]]), &[&[-1.0 / 3.5, 0.0], &[0.0, -1.0 / 12.25, 0.0]]),
    line(&["atan2"], At::Points(&[&[0.0, -1e-200]]), &[&[-1e200, 0.0], &[0.0, -INF, 0.0]]),
    line(&["atan2"], At::Points(&[&[0.0, -1e200]]), &[&[-1e-200, 0.0], &[0.0, 0.0, 0.0]]),
    line(
        &["copysign"],
        At::Points(&[&[0.0, 0.0], &[0.0, 0.5], &[0.0, 1.0], &[0.0, -2.0]]),
        &[&[0.0, 0.0], &[0.0, 0.0, 0.0]],
    ),
    line(&["copysign"], At::Points(&[&[0.5, 0.0], &[1.0, 0.0]]), &[&[1.0, 0.0], &[0.0, 0.0, 0.0]]),
    line(&["copysign"], At::Points(&[&[-2.0, 0.0]]), &[&[-1.0, 0.0], &[0.0, 0.0, 0.0]]),
    line(&["hypot"], ORIGIN, &[&[0.0, 0.0], &[0.0, 0.0, 0.0]]),
    line(&["norm"], ORIGIN, &[&[NAN, NAN], &[NAN, NAN, NAN]]),
    line(&["std"], At::Equal, &[&[NAN, NAN], &[NAN, NAN, NAN]]),
];

const WIDE: &[DType] = &[DType::F64];
const RANGE_OF_F32: &[DType] = &[DType::BF16, DType::F32];
const HALF: &[DType] = &[DType::F16];
const PRECISE: &[DType] = &[DType::F32, DType::F64];
/// The second derivative of `hypot(x, y)` with respect to `x` at (1, 1), which is 1 / (2 * sqrt(2)).
const HYPOT_SECOND_DERIVATIVE: f64 = 0.353_553_390_593_273_8;

const fn defined(
    function: &'static str,
    by: &'static [usize],
    dtypes: &'static [DType],
    at: &'static [(&'static [f64], f64)],
) -> Defined {
    Defined { function, by, dtypes, at }
}

/// True derivatives at points where formulas often fail.
pub const DEFINED: &[Defined] = &[
    defined("softplus", &[0], &FLOATS, &[(&[0.0], 0.5), (&[-0.0], 0.5)]),
    defined("softplus", &[0, 0], &FLOATS, &[(&[0.0], 0.25), (&[-0.0], 0.25)]),
    defined("softplus", &[0, 0, 0], &FLOATS, &[(&[0.0], 0.0)]),
    defined("log_sigmoid", &[0, 0], &FLOATS, &[(&[0.0], -0.25)]),
    defined("logaddexp", &[0, 1], &FLOATS, &[(&[0.5, 0.5], -0.25), (&[-3.0, -3.0], -0.25)]),
    defined(
        "hypot",
        &[0, 0],
        &FLOATS,
        &[
            (&[1.0, 1.0], HYPOT_SECOND_DERIVATIVE),
            (&[-1.0, 1.0], HYPOT_SECOND_DERIVATIVE),
            (&[1.0, 0.0], 0.0),
            (&[0.0, 2.0], 0.5),
        ],
    ),
    defined(
        "hypot",
        &[0, 1],
        &FLOATS,
        &[(&[1.0, 1.0], -HYPOT_SECOND_DERIVATIVE), (&[-1.0, 1.0], HYPOT_SECOND_DERIVATIVE), (&[1.0, 0.0], 0.0)],
    ),
    defined("pow", &[0, 1], &FLOATS, &[(&[2.0, 0.0], 0.5), (&[0.5, 0.0], 2.0), (&[1.0, 0.0], 1.0)]),
    defined("pow", &[1, 0], &FLOATS, &[(&[2.0, 0.0], 0.5), (&[0.5, 0.0], 2.0), (&[1.0, 0.0], 1.0)]),
    defined("pow", &[0], &FLOATS, &[(&[0.0, 1.0], 1.0), (&[0.0, 2.0], 0.0), (&[3.0, 0.0], 0.0)]),
    defined("pow", &[1], &FLOATS, &[(&[0.0, 1.0], 0.0), (&[0.0, 3.0], 0.0)]),
    defined("acosh", &[0], WIDE, &[(&[1e200], 1e-200)]),
    defined("acosh", &[0], RANGE_OF_F32, &[(&[1e20], 1e-20)]),
    defined("asinh", &[0], WIDE, &[(&[1e200], 1e-200), (&[-1e200], 1e-200)]),
    defined("asinh", &[0], RANGE_OF_F32, &[(&[1e20], 1e-20), (&[-1e20], 1e-20)]),
    defined("asinh", &[0], HALF, &[(&[512.0], 1.0 / 512.0)]),
    defined("atan", &[0], HALF, &[(&[256.0], 1.0 / 65_537.0)]),
    defined("atan2", &[0], WIDE, &[(&[1e200, 1e200], 5e-201), (&[1e-200, 1e-200], 5e199)]),
    defined("atan2", &[0], RANGE_OF_F32, &[(&[1e25, 1e25], 5e-26), (&[1e-25, 1e-25], 5e24)]),
    defined("atan2", &[1], HALF, &[(&[512.0, 512.0], -1.0 / 1024.0), (&[2e-3, 2e-3], -250.0)]),
    defined("rem", &[1], PRECISE, &[(&[1.0, 0.1], -9.0), (&[-1.0, 0.1], 9.0), (&[7.5, 2.0], -3.0)]),
    defined("expm1", &[0], PRECISE, &[(&[-40.0], 4.248_354_255_291_589e-18), (&[0.0], 1.0)]),
    defined("asin", &[0], WIDE, &[(&[1.0 - 1.0 / 1_099_511_627_776.0], 741_455.200_189_633_9)]),
];
