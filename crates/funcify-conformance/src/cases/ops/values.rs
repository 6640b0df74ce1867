//! The operands on which ops are tried.

use funcify::{DType, HostTensor, Scalar};

/// The integer types, which indices may have too.
pub(super) const INTEGERS: [DType; 4] = [DType::U8, DType::U32, DType::I32, DType::I64];
/// The float types.
pub(super) const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
/// Integers and floats.
pub(super) const NUMBERS: [DType; 8] =
    [DType::U8, DType::U32, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];
/// Floats between -1 and 1, and next to whole numbers and halves: where inverse functions and poles are.
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

/// A vector of floats between -1 and 1 and next to whole numbers.
pub(super) fn near(dtype: DType) -> HostTensor {
    repeated(dtype, &[NEAR_REALS.len()], &NEAR_REALS.map(Scalar::Float), 0)
}

/// Amounts of shifts, beside those that [`pairs`] has.
const AMOUNTS: [i64; 9] = [0, 1, 4, 7, 8, 31, 32, 63, 64];

/// Each of [`values`] with each amount of a shift, as two vectors.
pub(super) fn shifted(dtype: DType) -> [HostTensor; 2] {
    let values = values(dtype);
    let count = values.len() * AMOUNTS.len();
    let amount = |index: &[usize]| Scalar::Int(AMOUNTS[index[0] % AMOUNTS.len()]);
    [
        HostTensor::from_fn(dtype, &[count], |index| values[index[0] / AMOUNTS.len()]),
        HostTensor::from_fn(dtype, &[count], amount),
    ]
}

/// The shapes on which elementwise ops and reductions are tried.
pub(super) const SHAPES: [&[usize]; 11] =
    [&[], &[1], &[7], &[0], &[3, 4], &[0, 3], &[2, 0, 3], &[2, 3, 4], &[2, 3, 2, 4], &[2, 1, 3, 2], &[5, 6]];

/// Numbers that differ in every way that an op may mind, before they wrap to an integer type.
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

/// The same for floats; the largest are infinite in f16 after an exponential, not before.
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

/// Numbers whose products and sums stay within every float type.
const SMALL_REALS: [f64; 7] = [0.5, -1.0, 2.0, 0.25, -0.75, 1.5, 3.0];

/// Numbers whose products and sums stay within the wider integer types.
const SMALL_INTS: [i64; 9] = [1, -2, 3, 2, 0, -1, 4, 5, -4];

/// The values that try an elementwise op of that type.
pub(super) fn values(dtype: DType) -> Vec<Scalar> {
    match dtype {
        DType::Bool => [true, false].map(Scalar::Bool).to_vec(),
        _ if dtype.is_float() => REALS.map(Scalar::Float).to_vec(),
        _ => INTS.map(Scalar::Int).to_vec(),
    }
}

/// A tensor that repeats `values`, from the one numbered `first` on.
pub(super) fn repeated(dtype: DType, shape: &[usize], values: &[Scalar], first: usize) -> HostTensor {
    let mut next = values.iter().cycle().skip(first);
    HostTensor::from_fn(dtype, shape, |_| next.next().copied().unwrap_or(Scalar::Int(0)))
}

/// A tensor of [`values`], from the one numbered `first` on.
pub(super) fn varied(dtype: DType, shape: &[usize], first: usize) -> HostTensor {
    repeated(dtype, shape, &values(dtype), first)
}

/// A tensor of small numbers without NaN and infinity, from the one numbered `first` on.
pub(super) fn small(dtype: DType, shape: &[usize], first: usize) -> HostTensor {
    match dtype {
        DType::Bool => varied(dtype, shape, first),
        _ if dtype.is_float() => repeated(dtype, shape, &SMALL_REALS.map(Scalar::Float), first),
        _ => repeated(dtype, shape, &SMALL_INTS.map(Scalar::Int), first),
    }
}

/// All pairs of [`values`], as two vectors.
pub(super) fn pairs(dtype: DType) -> [HostTensor; 2] {
    let values = values(dtype);
    let count = values.len();
    let side = |pick: fn(usize, usize) -> usize| {
        HostTensor::from_fn(dtype, &[count * count], |index| values[pick(index[0], count)])
    };
    [side(|index, count| index / count), side(|index, count| index % count)]
}

/// A tensor of indices that repeats `numbers`, which wrap to the type.
pub(super) fn indices(dtype: DType, shape: &[usize], numbers: &[i64]) -> HostTensor {
    let scalars: Vec<Scalar> = numbers.iter().map(|number| Scalar::Int(*number)).collect();
    repeated(dtype, shape, &scalars, 0)
}

/// A scalar index.
pub(super) fn index(dtype: DType, number: i64) -> HostTensor {
    indices(dtype, &[], &[number])
}
