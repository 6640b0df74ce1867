//! Random numbers as values of a program, drawn by a counter-based generator. All backends produce the same bits.
//!
//! A key is an ordinary value of type `u32[2]`. It can be an input or the carry of a loop, and `vmap` can map over it.
//! Each function that draws numbers takes a key, and returns the same numbers for the same key. To get independent
//! numbers, split a key, and use each of the new keys only once.
//!
//! The bits are identical to the bits that JAX generates from Threefry keys with `jax_threefry_partitionable` (JAX's
//! default) and with 64-bit types enabled. The distributions use JAX's formulas: `uniform(key(0), [3], DType::F32, 0,
//! 1)` returns 0.947667, 0.9785799, 0.33229148 in both libraries. For a tensor of keys, `u32[.., 2]`, the results have
//! the same leading axes as the keys.
//!
//! ```
//! # extern crate funcify_core as funcify;
//! use funcify::{DType, Graph, ScanOptions, Shape, evaluate, random, scan_with};
//!
//! // Five steps of a random walk.
//! let walk = Graph::build("walk", |g| {
//!     let start = (g.input("key", "u32[2]"), g.input("x", "f32[]"));
//!     let ((_, x), ()) = scan_with(ScanOptions::new().length(5), start, (), |(key, x), ()| {
//!         let [key, step] = random::split(key, 2).unstack(0);
//!         ((key, x + random::normal(step, Shape::scalar(), DType::F32)), ())
//!     });
//!     x
//! })?;
//! let end = evaluate(&walk, &[random::host_key(0), 0f32.into()])?;
//! assert!((end[0].to_f64_vec()[0] + 8.404_745).abs() < 1e-5);
//! # Ok::<(), funcify::Error>(())
//! ```

use crate::error::Site;
use crate::graph::{emit_value, fail_value};
use crate::host::HostTensor;
use crate::ops::{Threefry, Words};
use crate::types::{DType, Dim, Shape};
use crate::value::{Operand, Value, constant, select, stack};

/// Returns the key for a seed, as a constant of the program. The key consists of the high and low words of the seed.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, random};
///
/// let graph = Graph::build("key", |_| random::key(7))?;
/// assert_eq!(evaluate(&graph, &[])?, [random::host_key(7)]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn key(seed: i64) -> Value {
    constant(host_key(seed))
}

/// Returns the key for a seed as a host tensor, which can be passed to a program as an argument.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{HostTensor, random};
///
/// assert_eq!(random::host_key(7), HostTensor::from([0u32, 7]));
/// ```
pub fn host_key(seed: i64) -> HostTensor {
    HostTensor::from([(seed >> 32) as u32, seed as u32])
}

/// Splits a key into `n` independent keys, and returns them as a tensor of type `u32[n,2]`, like JAX's `split`. Use
/// `unstack` to get the individual keys: `let [key, step] = split(key, 2).unstack(0);`
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, random};
///
/// let graph = Graph::build("split", |_| random::split(random::key(0), 3))?;
/// assert_eq!(evaluate(&graph, &[])?[0].shape(), [3, 2]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn split(key: Value, n: impl Into<Dim>) -> Value {
    threefry(key, key.zeros_like(), [n.into()].into(), Words::Both)
}

/// Derives a new key from `key` and an integer, like JAX's `fold_in`. `data` is an integer scalar, or one integer per
/// key. The integer can be the index of a step, a layer or a worker. Only the lower 32 bits of the integer are used.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, random};
///
/// let graph = Graph::build("keys", |g| {
///     let worker = g.input("worker", "i64[]");
///     random::fold_in(random::key(0), worker)
/// })?;
/// assert_ne!(evaluate(&graph, &[1i64.into()])?, evaluate(&graph, &[2i64.into()])?);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn fold_in(key: Value, data: impl Into<Operand>) -> Value {
    let (data, _) = Operand::pair("fold_in", data.into(), key.into());
    if !data.dtype().is_int() && !data.is_failed() {
        return fail_value("fold_in", Site::caller(), &[data], |at| {
            at.mismatch("the data", "an integer type", data.ty(), "cast it to an integer type")
        });
    }
    let low = data.cast(DType::U32);
    let counter = stack(&[low.zeros_like(), low], -1).broadcast_to(key.shape());
    threefry(key, counter, Shape::scalar(), Words::Both)
}

/// Draws uniformly distributed random bits, of type `u32[shape]`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, random};
///
/// let graph = Graph::build("bits", |_| random::bits(random::key(0), [4]))?;
/// assert_eq!(evaluate(&graph, &[])?[0].dtype(), DType::U32);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn bits(key: Value, shape: impl Into<Shape>) -> Value {
    threefry(key, key.zeros_like(), shape.into(), Words::Mixed)
}

/// Draws floats uniformly from `[low, high)`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, random};
///
/// let graph = Graph::build("dice", |_| random::uniform(random::key(0), [3], DType::F32, 0.0, 1.0))?;
/// let drawn = evaluate(&graph, &[])?[0].to_f64_vec();
/// assert!((drawn[0] - 0.947_667).abs() < 1e-6 && drawn.iter().all(|x| (0.0..1.0).contains(x)));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn uniform(
    key: Value,
    shape: impl Into<Shape>,
    dtype: DType,
    low: impl Into<Operand>,
    high: impl Into<Operand>,
) -> Value {
    let (low, high) = (low.into(), high.into());
    let unit = unit_interval(key, shape.into(), dtype);
    if is_number(low, 0.0) && is_number(high, 1.0) {
        return unit;
    }
    let ((low, _), (high, _)) =
        (Operand::pair("uniform", low, unit.into()), Operand::pair("uniform", high, unit.into()));
    (unit * (high - low) + low).maximum(low)
}

/// Draws floats from the standard normal distribution.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, random};
///
/// let graph = Graph::build("noise", |_| random::normal(random::key(0), [1000], DType::F64).mean(0))?;
/// assert!(evaluate(&graph, &[])?[0].to_f64_vec()[0].abs() < 0.1);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn normal(key: Value, shape: impl Into<Shape>, dtype: DType) -> Value {
    // `low` is the smallest float greater than -1, because `erf_inv` is infinite at -1.
    let low = match dtype {
        DType::BF16 => -1.0 + 2f64.powi(-8),
        DType::F16 => -1.0 + 2f64.powi(-11),
        DType::F32 => -1.0 + 2f64.powi(-24),
        _ => -1.0 + 2f64.powi(-53),
    };
    uniform(key, shape, dtype, low, 1.0).erf_inv() * std::f64::consts::SQRT_2
}

/// Draws booleans that are `true` with probability `p`. `p` is a number, or a float tensor that broadcasts to `shape`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, random};
///
/// // Dropout keeps nine elements of ten.
/// let graph = Graph::build("kept", |_| random::bernoulli(random::key(0), [1000], 0.9).cast(DType::F32).mean(0))?;
/// assert!((evaluate(&graph, &[])?[0].to_f64_vec()[0] - 0.9).abs() < 0.05);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn bernoulli(key: Value, shape: impl Into<Shape>, p: impl Into<Operand>) -> Value {
    let p = p.into();
    let dtype = if let Operand::Value(p) = p { p.dtype() } else { DType::F32 };
    uniform(key, shape, dtype, 0.0, 1.0).lt(p)
}

/// Draws floats from the exponential distribution with rate 1.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, random};
///
/// let graph = Graph::build("waits", |_| random::exponential(random::key(0), [1000], DType::F64).mean(0))?;
/// assert!((evaluate(&graph, &[])?[0].to_f64_vec()[0] - 1.0).abs() < 0.2);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn exponential(key: Value, shape: impl Into<Shape>, dtype: DType) -> Value {
    -(-uniform(key, shape, dtype, 0.0, 1.0)).log1p()
}

/// Draws floats from the standard Gumbel distribution.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, random};
///
/// // A softmax sample: the largest of the logits with noise.
/// let graph = Graph::build("sample", |g| {
///     let logits = g.input("logits", "f32[4]");
///     (logits + random::gumbel(random::key(0), [4], DType::F32)).argmax(0)
/// })?;
/// let sample = evaluate(&graph, &[[0f32, -100.0, -100.0, -100.0].into()])?;
/// assert_eq!(sample[0].to_f64_vec(), [0.0]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn gumbel(key: Value, shape: impl Into<Shape>, dtype: DType) -> Value {
    let smallest_normal = match dtype {
        DType::F16 => 2f64.powi(-14),
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    };
    -(-uniform(key, shape, dtype, smallest_normal, 1.0).log()).log()
}

/// Samples i64 indices along an axis, with the softmax of `logits` as their probabilities. The result has the shape of
/// `logits` without this axis. `key` is a single key of type `u32[2]`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, evaluate, random};
///
/// let graph = Graph::build("sample", |g| random::categorical(random::key(0), g.input("logits", "f32[4]"), 0))?;
/// let sample = evaluate(&graph, &[[-100f32, 0.0, -100.0, -100.0].into()])?;
/// assert_eq!(sample[0].to_f64_vec(), [1.0]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn categorical(key: Value, logits: Value, axis: i64) -> Value {
    (logits + gumbel(key, logits.shape(), logits.dtype())).argmax(axis)
}

/// Draws integers of `dtype` from `[low, high)`, or returns `low` if the range is empty.
///
/// Each bound is a number, or a tensor of `dtype` that broadcasts to `shape`. `high` may be one more than the largest
/// value of the type. The probabilities are nearly equal: for a range of `n` integers and a type with `b` bits, they
/// differ by a factor of at most `1 + n/2^b`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph, evaluate, random};
///
/// let graph = Graph::build("dice", |_| random::randint(random::key(0), [10], DType::I64, 1, 7))?;
/// assert!(evaluate(&graph, &[])?[0].to_f64_vec().iter().all(|n| (1.0..7.0).contains(n)));
/// # Ok::<(), funcify::Error>(())
/// ```
#[track_caller]
pub fn randint(
    key: Value,
    shape: impl Into<Shape>,
    dtype: DType,
    low: impl Into<Operand>,
    high: impl Into<Operand>,
) -> Value {
    let unsigned = match dtype {
        DType::I32 => DType::U32,
        DType::U8 | DType::U32 | DType::I64 => dtype,
        _ => {
            return fail_value("randint", Site::caller(), &[key], |at| {
                at.mismatch("the dtype", "an integer type", dtype, "draw integers, or use `uniform`")
            });
        }
    };
    let shape = shape.into();
    let keys = split(key, 2);
    let [high_bits, low_bits] = [0, 1].map(|half| integer_bits(keys.index(-2, half), &shape, dtype));
    let typed = high_bits.cast(dtype);
    let (high, excess) = match (high.into(), dtype) {
        (Operand::Int(0x100), DType::U8) => (Operand::Int(0xff), 1),
        (Operand::Int(0x8000_0000), DType::I32) => (Operand::Int(0x7fff_ffff), 1),
        (Operand::Int(0x1_0000_0000), DType::U32) => (Operand::Int(0xffff_ffff), 1),
        (high, _) => (high, 0),
    };
    let ((low, _), (high, _)) =
        (Operand::pair("randint", low.into(), typed.into()), Operand::pair("randint", high, typed.into()));
    // If the range covers the whole type, the span wraps to 0. The remainder of a division by 0 is the dividend, which
    // is the required result.
    let span = select(high.le(low), 1, high - low + excess).cast(unsigned);
    // For a type with b bits, `high_bits` has weight 2^b. The weight is computed modulo the span.
    let root = remainder((typed.zeros_like().cast(unsigned) + 1) << (4 * dtype.size() as i32), span);
    let multiplier = remainder(root * root, span);
    let offset = remainder(remainder(high_bits, span) * multiplier + remainder(low_bits, span), span);
    low + offset.cast(dtype)
}

#[track_caller]
fn threefry(key: Value, counter: Value, shape: Shape, words: Words) -> Value {
    emit_value(Threefry { shape, words }, &[key, counter], Site::caller())
}

/// Draws random 64-bit numbers. Returns their high and low words.
#[track_caller]
fn both_words(key: Value, shape: &Shape) -> [Value; 2] {
    let words = threefry(key, key.zeros_like(), shape.clone(), Words::Both);
    [words.index(-1, 0), words.index(-1, 1)]
}

/// Draws random bits for elements of an integer type. The result has the unsigned type of the same width, or `i64` for
/// 64 bits.
#[track_caller]
fn integer_bits(key: Value, shape: &Shape, dtype: DType) -> Value {
    if dtype == DType::I64 {
        let [high, low] = both_words(key, shape);
        return (high.cast(DType::I64) << 32) | low.cast(DType::I64);
    }
    let bits = bits(key, shape);
    if dtype == DType::U8 { bits.cast(dtype) } else { bits }
}

/// Draws floats uniformly from [0, 1). Uses as many random bits as the mantissa of the type has, so that the conversion
/// is exact.
#[track_caller]
fn unit_interval(key: Value, shape: Shape, dtype: DType) -> Value {
    let scaled = |bits: Value, exponent: i32| bits.cast(dtype) * 2f64.powi(exponent);
    match dtype {
        DType::F32 => scaled(bits(key, shape) >> 9, -23),
        // Like JAX, use only the low bits of each word: 16 bits for f16, and 8 bits for bf16.
        DType::F16 => scaled((bits(key, shape) & 0xffff) >> 6, -10),
        DType::BF16 => scaled((bits(key, shape) & 0xff) >> 1, -7),
        DType::F64 => {
            let [high, low] = both_words(key, &shape);
            scaled(high, -32) + scaled(low >> 12, -52)
        }
        _ => fail_value("uniform", Site::caller(), &[key], |at| {
            at.mismatch("the dtype", "a float type", dtype, "draw floats, or use `randint`")
        }),
    }
}

/// Computes the remainder of unsigned integers. Unsigned 64-bit integers are stored as i64, so `%` would treat them as
/// signed; their remainder is composed from shifts, divisions and selections instead.
#[track_caller]
fn remainder(x: Value, divisor: Value) -> Value {
    if x.dtype() != DType::I64 {
        return x % divisor;
    }
    // `x >> 1` is a nonnegative i64. Dividing `x >> 1` by `divisor` and doubling the quotient yields the quotient of
    // `x` by `divisor`, or one less.
    let quotient = (x.shift_right_logical(1) / divisor) << 1;
    let rest = x - quotient * divisor;
    let small = select(at_least(rest, divisor), rest - divisor, rest);
    // As a signed number, a divisor of 2^63 or more is negative. The quotient is then 0 or 1.
    select(divisor.lt(0), select(at_least(x, divisor), x - divisor, x), small)
}

/// Returns `x >= y` for unsigned 64-bit integers that are stored as i64.
#[track_caller]
fn at_least(x: Value, y: Value) -> Value {
    (x ^ i64::MIN).ge(y ^ i64::MIN)
}

/// Returns `true` if an operand is a literal that equals `number`.
fn is_number(operand: Operand, number: f64) -> bool {
    match operand {
        Operand::Float(float) => float == number,
        Operand::Int(integer) => integer as f64 == number,
        _ => false,
    }
}
