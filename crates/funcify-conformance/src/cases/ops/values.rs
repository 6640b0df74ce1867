//! Operands for the cases of single ops.

use funcify::{DType, HostTensor, Scalar};

/// The integer types. Indices may have any of them.
pub(super) const INTEGERS: [DType; 4] = [DType::U8, DType::U32, DType::I32, DType::I64];
/// The float types.
pub(super) const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
/// Integers and floats.
pub(super) const NUMBERS: [DType; 8] =
    [DType::U8, DType::U32, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];
/// Floats between -1 and 1, and floats near integers and half-integers. Inverse functions and functions with poles are
/// hard to compute accurately there.
const NEAR_REALS: [f64; 20] = [
    0.0,
    -0.0,
    0.25,
    -0.75,
    0.875,
    -0.875,
    0.9375,
    -0.9375,
    0.998046875,
    -0.998046875,
    1.0,
    -1.0,
    1.001953125,
    1.5,
    1.4609375,
    1e-3,
    -1e-3,
    -1.5,
    5.96875,
    0.0625,
];

/// Returns `NEAR_REALS` as a vector of type `dtype`.
pub(super) fn near_integers(dtype: DType) -> HostTensor {
    cycle(dtype, &[NEAR_REALS.len()], &NEAR_REALS.map(Scalar::Float), 0)
}

/// The shift amounts in [`shift_pairs`]. The cases for shifts get negative and larger amounts from [`pairs`].
const AMOUNTS: [i64; 9] = [0, 1, 4, 7, 8, 31, 32, 63, 64];

/// Returns all pairs of a value in [`values`] and a shift amount, as two vectors.
pub(super) fn shift_pairs(dtype: DType) -> [HostTensor; 2] {
    let values = values(dtype);
    let count = values.len() * AMOUNTS.len();
    let amount = |index: &[usize]| Scalar::Int(AMOUNTS[index[0] % AMOUNTS.len()]);
    [
        HostTensor::from_fn(dtype, &[count], |index| values[index[0] / AMOUNTS.len()]),
        HostTensor::from_fn(dtype, &[count], amount),
    ]
}

/// The shapes of operands in most cases: scalars, empty tensors, and tensors with up to four axes.
pub(super) const SHAPES: [&[usize]; 11] =
    [&[], &[1], &[7], &[0], &[3, 4], &[0, 3], &[2, 0, 3], &[2, 3, 4], &[2, 3, 2, 4], &[2, 1, 3, 2], &[5, 6]];

/// Integers that cover the special cases of ops. They wrap if a type is too narrow.
const INTS: [i64; 21] = [
    0,
    1,
    2,
    3,
    7,
    8,
    100,
    255,
    -1,
    -2,
    -7,
    -128,
    i64::MAX,
    i64::MIN,
    1 << 31,
    (1 << 31) - 1,
    -100,
    256,
    300,
    -(1 << 31),
    1 << 24,
];

/// Floats that cover the special cases of ops. All of them fit in f16, although the exponentials of the largest ones do
/// not.
const REALS: [f64; 23] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1e-4,
    2.0,
    -3.5,
    3.0,
    60.0,
    -7.25,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    -3e-3,
    2.5,
    -2.5,
    3.75,
    10.0,
    80.0,
    -80.0,
    1e4,
];

/// Numbers whose products and sums do not overflow in any float type.
const SMALL_REALS: [f64; 7] = [0.5, -1.0, 2.0, 0.25, -0.75, 1.5, 3.0];

/// Numbers whose products and sums do not overflow in wide integer types.
const SMALL_INTS: [i64; 9] = [1, -2, 3, 2, 0, -1, 4, 5, -4];

/// Returns the special values of type `dtype`: every boolean, [`REALS`], or [`INTS`].
pub(super) fn values(dtype: DType) -> Vec<Scalar> {
    match dtype {
        DType::Bool => [true, false].map(Scalar::Bool).to_vec(),
        _ if dtype.is_float() => REALS.map(Scalar::Float).to_vec(),
        _ => INTS.map(Scalar::Int).to_vec(),
    }
}

/// Creates a tensor that cycles through `values`, starting at index `first`.
pub(super) fn cycle(dtype: DType, shape: &[usize], values: &[Scalar], first: usize) -> HostTensor {
    let mut next = values.iter().cycle().skip(first);
    HostTensor::from_fn(dtype, shape, |_| next.next().copied().unwrap_or(Scalar::Int(0)))
}

/// Creates a tensor that cycles through [`values`], starting at index `first`.
pub(super) fn cycle_values(dtype: DType, shape: &[usize], first: usize) -> HostTensor {
    cycle(dtype, shape, &values(dtype), first)
}

/// Creates a tensor that cycles through [`SMALL_REALS`], [`SMALL_INTS`] or the booleans, starting at index `first`.
pub(super) fn small(dtype: DType, shape: &[usize], first: usize) -> HostTensor {
    match dtype {
        DType::Bool => cycle_values(dtype, shape, first),
        _ if dtype.is_float() => cycle(dtype, shape, &SMALL_REALS.map(Scalar::Float), first),
        _ => cycle(dtype, shape, &SMALL_INTS.map(Scalar::Int), first),
    }
}

/// Returns all pairs of [`values`], as two vectors.
pub(super) fn pairs(dtype: DType) -> [HostTensor; 2] {
    let values = values(dtype);
    let count = values.len();
    let side = |pick: fn(usize, usize) -> usize| {
        HostTensor::from_fn(dtype, &[count * count], |index| values[pick(index[0], count)])
    };
    [side(|index, count| index / count), side(|index, count| index % count)]
}

/// Creates a tensor of indices that cycles through `numbers`, which wrap if the type is too narrow.
pub(super) fn indices(dtype: DType, shape: &[usize], numbers: &[i64]) -> HostTensor {
    let scalars: Vec<Scalar> = numbers.iter().map(|number| Scalar::Int(*number)).collect();
    cycle(dtype, shape, &scalars, 0)
}

/// Creates a scalar index.
pub(super) fn index(dtype: DType, number: i64) -> HostTensor {
    indices(dtype, &[], &[number])
}
