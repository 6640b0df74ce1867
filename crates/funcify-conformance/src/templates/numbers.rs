//! Draws integers, booleans and narrow floats, which a plan stores in its own float type where possible.
//!
//! The generated programs exercise the following planner rules: An integer is stored as a float only if its range
//! proves that the plan's float type represents it exactly, up to 2^24 - 1 in f32 and 2^53 - 1 in f64 (`Ranges`). If
//! each step adds to a carry, the range of the carry grows with each step. Values that depend only on constants are
//! evaluated when the plan is made (`static_value`), and a `take` with static indices becomes at most `MAX_COPIES`
//! copies. Programs with random bits do not store integers as floats. Floats narrower than the plan's float type are
//! rounded after each op whose result the narrower type might not represent exactly (`round_result`, `may_round`).

use funcify::random;
use funcify::{DType, HostTensor, Scalar, Value, concat, constant, iota, scan_with, select, while_loop_bounded};

use super::draft::{Draft, shape_of};
use super::fill::Fill;

const TYPES: [DType; 4] = [DType::I64, DType::I32, DType::U8, DType::U32];

/// Picks an initial value near 0, or near the limit up to which a float type represents all integers exactly.
fn start(draft: &Draft<'_, '_>, dtype: DType) -> i64 {
    let near: i64 = draft.pick(&[0, 1, -1, 3, 20, -20]);
    let number: i64 = match draft.below(8) {
        0..=3 => near,
        4 => (1 << 24) - 1 - near.abs(),
        5 => -(1 << 24) + near,
        6 => (1 << 53) - 1 - near.abs(),
        _ => -(1 << 53) + 2 + near,
    };
    match dtype {
        DType::U8 => number.rem_euclid(200),
        DType::U32 => number.rem_euclid(1 << 24),
        DType::I32 => number.clamp(-(1 << 24), 1 << 24),
        _ => number,
    }
}

fn integer_constant(number: i64, dtype: DType) -> Value {
    constant(HostTensor::scalar(number).cast(dtype))
}

pub(super) fn integers(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 4] = [&[], &[3], &[2, 2], &[1]];
    let (shape, dtype) = (draft.pick(&SHAPES), draft.pick(&TYPES));
    let steps = draft.pick(&[3, 2, 5, 8, 20, 33]);
    let xs = draft.input(&[&[steps], shape].concat());
    let float = draft.input(shape);
    let least = if matches!(dtype, DType::U8 | DType::U32) { 0 } else { -3 };
    let given = draft.input_of(dtype, shape, Fill::Integers(least, 7));
    let rows = draft.input_of(dtype, &[&[steps], shape].concat(), Fill::Integers(least, 5));
    let start = match draft.below(3) {
        0 => given,
        _ => draft.fit(integer_constant(start(draft, dtype), dtype), shape),
    };
    let fixed = integer_constant(
        draft.pick(&[1, 2, 3, 5, 16, 255, 1 << 12, 1 << 23]).min(if dtype == DType::U8 { 255 } else { i64::MAX }),
        dtype,
    );
    let ((last, state), ys) = scan_with(draft.direction(), (start, float), (xs, rows), |(number, state), (x, row)| {
        let mask = x.gt(state).cast(dtype);
        let any = || draft.pick(&[row, mask, fixed, number, given]);
        let name = if draft.one_in(3) { draft.alias(number) } else { number };
        let next = integer_op(draft, name, any());
        let seen = match draft.below(3) {
            0 => next,
            1 => integer_op(draft, any(), any()),
            _ => {
                let seen = integer_op(draft, mask, any());
                integer_op(draft, seen, any())
            }
        };
        let seen = draft.fit_integers(seen, shape);
        let as_float = match draft.below(3) {
            0 => seen.cast(draft.dtype),
            1 => seen.gt(2).cast(draft.dtype),
            _ => seen.cast(DType::Bool).cast(draft.dtype),
        };
        let state = (state * 0.5 + x + as_float.tanh()).tanh();
        let y = if draft.one_in(2) { number } else { seen };
        ((draft.fit_integers(next, shape), state), (y, as_float))
    });
    vec![last, state, ys.0, ys.1]
}

fn integer_op(draft: &Draft<'_, '_>, a: Value, b: Value) -> Value {
    let dtype = a.dtype();
    let one = |number: i64| integer_constant(number, dtype);
    match draft.below(24) {
        0 => a + b,
        1 => a - b,
        2 => a + one(1),
        3 => !a,
        4 => a % one(draft.pick(&[2, 3, 7, 100])),
        5 => a / one(draft.pick(&[2, 3])),
        6 => a * one(2),
        7 => a.maximum(b),
        8 => a.minimum(b),
        9 => a & b,
        10 => a | b,
        11 => a ^ b,
        12 => -a,
        13 => a.abs(),
        14 => a.sign(),
        15 => a * b,
        16 => select(a.gt(b), a, b),
        17 => (a.gt(b) ^ a.lt(one(3))).cast(dtype),
        18 => (!(a.gt(b))).cast(dtype),
        19 => a >> 1i64,
        20 => (a + b) % one(5),
        21 => a - one(1),
        22 => !(a.gt(b).cast(dtype)),
        _ => a.square() % one(11),
    }
}

/// Draws integers whose values are known when the plan is made.
pub(super) fn fixed_integers(draft: &Draft<'_, '_>) -> Vec<Value> {
    let size = draft.pick(&[4, 3, 8, 63, 64, 65, 130]);
    let steps = draft.pick(&[3, 2, 5]);
    let (xs, start) = (draft.input(&[steps, size]), draft.input(&[size]));
    let places = match draft.below(6) {
        0 => iota(size, DType::I64),
        1 => -iota(size, DType::I64) + (size as i64 - 1),
        2 => iota(size, DType::I64) * 2,
        3 => iota(size, DType::I64) / 2,
        4 => iota(size, DType::I64) % 3,
        _ => constant(HostTensor::from_fn(DType::I64, &[size], |at| Scalar::Int((at[0] as i64 * 7) % 5))),
    };
    let counts = scan_with(draft.direction(), start, (xs, iota(steps, DType::I64)), |state, (x, t)| {
        let taken = draft.pick(&[x, state]).take(0, places);
        let at = draft.pick(&[t, t * 2, t - 1, places.index(0, 0), (t % 2)]);
        let one = draft.pick(&[x, state]).dynamic_slice(0, at, 2);
        let next = (state * 0.5 + taken).tanh();
        (next, (one, (places + t).cast(draft.dtype).sum(0), t.cast(draft.dtype)))
    });
    vec![counts.0, counts.1.0, counts.1.1, counts.1.2]
}

/// Draws masks, and floats narrower than the plan's float type.
pub(super) fn narrow_floats(draft: &Draft<'_, '_>) -> Vec<Value> {
    const SHAPES: [&[usize]; 5] = [&[3], &[], &[2, 3], &[4, 4], &[1]];
    let shape = draft.pick(&SHAPES);
    let steps = draft.pick(&[3, 2, 4, 5]);
    let narrow = draft.pick(&[DType::F16, DType::BF16, DType::F32]);
    let (xs, start) = (draft.input(&[&[steps], shape].concat()), draft.input(shape));
    let state = draft.input_of(narrow, shape, Fill::Floats);
    let truth = draft.input_of(DType::Bool, shape, Fill::Booleans);
    let ((last, kept, mask), ys) = scan_with(draft.direction(), (start, state, truth), xs, |(wide, kept, mask), x| {
        let cast = x.cast(narrow);
        let name = if draft.one_in(2) { draft.alias(kept) } else { kept };
        let next = match draft.below(10) {
            0 => name + cast,
            1 => name * cast,
            2 => (name + cast).tanh(),
            3 => name * cast + cast,
            4 => cast - name * cast,
            5 => wide.cast(narrow),
            6 => name.maximum(cast),
            7 => (name * cast).exp() * 0.5,
            8 => -name,
            _ if shape.len() == 2 && shape[0] == shape[1] => name.matmul(cast) * 0.25,
            _ => name / 3.0,
        };
        let folded = match draft.below(4) {
            0 if !shape.is_empty() => next.sum(0),
            1 if !shape.is_empty() => (next * cast).sum(-1),
            2 => (next + name) - cast,
            _ => next,
        };
        let as_wide = folded.cast(draft.dtype);
        let as_mask = mask.cast(draft.pick(&[draft.dtype, narrow])).cast(draft.dtype);
        let is_new = x.gt(wide);
        let turned = match draft.below(5) {
            0 => is_new,
            1 => mask ^ is_new,
            2 => !mask,
            3 => mask & is_new,
            _ => mask | (as_mask.lt(x)),
        };
        let next_wide = (wide * 0.5 + draft.fit(as_wide, shape) + as_mask * x).tanh();
        ((next_wide, next, turned), (as_wide, as_mask * x, name))
    });
    vec![last, kept.cast(DType::F64), mask.cast(DType::F64), ys.0, ys.1, ys.2]
}

/// Draws random keys, random bits, and numbers computed from them. A plan stores the keys and the bits as integers of
/// their own type.
pub(super) fn words(draft: &Draft<'_, '_>) -> Vec<Value> {
    let steps = draft.pick(&[3, 2, 5]);
    let size = draft.pick(&[3, 1, 2, 8]);
    let xs = draft.input(&[steps, size]);
    let key = draft.input_of(DType::U32, &[2], Fill::Integers(0, u32::MAX.into()));
    let start = draft.input(&[size]);
    let count = draft.pick(&[4i64, 2, 0]);
    let ((last, key, bits), ys) = scan_with(
        draft.direction(),
        (start, key, random::bits(key, [size])),
        (xs, iota(steps, DType::I64)),
        |(state, key, bits), (x, t)| {
            let name = if draft.one_in(2) { draft.alias(key) } else { key };
            let next_key = match draft.below(4) {
                0 => random::fold_in(name, t),
                1 => random::split(name, 2).index(0, 1),
                2 => name.reverse(0),
                _ => random::split(name, 2).index(0, 0),
            };
            let drawn = random::bits(name, [size]);
            let mixed = match draft.below(7) {
                0 => drawn ^ bits,
                1 => drawn + bits,
                2 => bits - drawn,
                3 => drawn & bits,
                4 => drawn | bits,
                5 => bits * drawn,
                _ => select(x.gt(0.0), drawn, bits),
            };
            let noise = random::uniform(next_key, [size], draft.dtype, 0.0, 1.0);
            let next = (state * 0.5 + x * noise).tanh();
            let y = draft.pick(&[drawn, bits, mixed]);
            ((next, next_key, mixed), (y, noise, name))
        },
    );
    let ended = while_loop_bounded(
        3,
        (constant(0i64), key),
        |(i, _)| i.lt(count),
        |(i, key)| (i + 1, random::split(key, 2).index(0, 0)),
    );
    vec![last, key, bits, ys.0, ys.1, ys.2, concat(&[ended.1, key], 0)]
}

impl Draft<'_, '_> {
    /// Broadcasts integers to the given shape.
    fn fit_integers(&self, value: Value, shape: &[usize]) -> Value {
        match shape_of(value) {
            Some(own) if own == shape => value,
            _ => value.broadcast_to(super::draft::shape_from(shape)),
        }
    }
}
