//! Adds integers and booleans: conversions to them, ops on them, and floats that depend on them.

use funcify::{DType, Value, iota, random, size};

use super::maker::Maker;

/// Adds an integer, a boolean, or a float computed from one.
pub(super) fn part(maker: &mut Maker<'_>) {
    let is_int = |ty: &funcify::TensorType| ty.dtype == DType::I64;
    match maker.choices.below(14) {
        0 => {
            maker.count("iota");
            let dim = maker.choices.of(&["N", "T"]);
            let dtype = maker.choices.of(&[DType::I64, DType::F64]);
            maker.add(iota(dim, dtype), 4.0);
        }
        1 => {
            maker.count("float_to_int");
            let x = maker.float();
            maker.add((x.value * 3.0).floor().cast(DType::I64), 3.0 * x.bound);
        }
        2 => {
            maker.count("int_to_float");
            let Some(i) = maker.pick(is_int) else { return };
            let x = maker.shaped(&i.value.shape());
            maker.add(x.value * i.value.cast(DType::F64) * 0.2, x.bound * i.bound * 0.2);
        }
        3 => {
            maker.count("int_arithmetic");
            let Some(i) = maker.pick(is_int) else { return };
            let j = maker.integers(&i.value.shape());
            let value: Value = match maker.choices.below(6) {
                0 => i.value + j,
                1 => i.value - j * 2,
                2 => i.value * j % 11,
                3 => i.value.maximum(j) / 2,
                4 => (i.value & j) ^ 1,
                _ => i.value.shift_left(j.clamp(0, 2)),
            };
            maker.add(value, 100.0);
        }
        4 => {
            maker.count("compare");
            let x = maker.float().value;
            let mask = maker.truths(&x.shape());
            maker.add(mask, 1.0);
        }
        5 => {
            maker.count("logic");
            let Some(b) = maker.pick(|ty| ty.dtype == DType::Bool) else { return };
            let other = maker.truths(&b.value.shape());
            let value = match maker.choices.below(3) {
                0 => !b.value,
                1 => b.value | other,
                _ => b.value ^ other,
            };
            maker.add(value, 1.0);
        }
        6 => {
            maker.count("size");
            let dim = maker.choices.of(&["N", "T"]);
            let x = maker.float();
            maker.add(x.value * size(dim, DType::F64) * 0.3, x.bound);
        }
        7 => {
            maker.count("argmax");
            let Some((x, axis, 1..)) = maker.with_axis() else { return };
            maker.add(x.value.argmax(axis), 4.0);
        }
        8 => {
            maker.count("random");
            let key = if maker.choices.one_in(2) {
                random::key(3)
            } else {
                let i = maker.integer();
                random::fold_in(random::key(5), i)
            };
            let x = maker.float();
            let noise = random::uniform(key, x.value.shape(), DType::F64, -1.0, 1.0);
            let value = if maker.choices.one_in(2) { x.value * noise } else { x.value + noise };
            maker.add(value, x.bound + 1.0);
        }
        9 => {
            maker.count("narrow_int");
            let Some(i) = maker.pick(is_int) else { return };
            let dtype = maker.choices.of(&[DType::I32, DType::U8, DType::U32]);
            maker.add((i.value.cast(dtype) * 3).cast(DType::I64) % 5, 5.0);
        }
        10 => {
            maker.count("bits_of_float");
            let x = maker.float();
            let exponent = x.value.bitcast(DType::I64).shift_right_logical(52) & 0x7ff;
            maker.add((exponent - 1023).clamp(-4, 4), 4.0);
        }
        11 => {
            maker.count("float_of_bits");
            let Some(i) = maker.pick(is_int) else { return };
            let x = maker.shaped(&i.value.shape());
            // The fraction bits of a number in [1, 2).
            let bits = ((i.value & 0xff) << 44) | 0x3ff0_0000_0000_0000i64;
            maker.add(x.value * (bits.bitcast(DType::F64) - 1.0), x.bound);
        }
        12 => {
            maker.count("int_matmul");
            let Some(i) = maker.pick(|ty| is_int(ty) && ty.rank() > 0) else { return };
            let row = maker.integers(&funcify::Shape::new([i.value.dim(-1)]));
            maker.add(i.value.matmul(row) % 13, 13.0);
        }
        _ => {
            maker.count("bool_to_float");
            let Some(b) = maker.pick(|ty| ty.dtype == DType::Bool) else { return };
            let x = maker.shaped(&b.value.shape());
            let scalar = b.value.cast(DType::I64).sum(..).cast(DType::F64);
            maker.add(x.value * b.value.cast(DType::F64) + scalar * 0.1, x.bound + 1.0);
        }
    }
}
