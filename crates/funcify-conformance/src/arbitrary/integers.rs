//! Adds integers and booleans to a random program: conversions from floats, ops on integers and booleans, and floats
//! computed from them.

use funcify::{DType, Value, iota, random, size};

use super::program_builder::ProgramBuilder;

/// Adds an integer, a boolean, or a float that is computed from an integer or a boolean.
pub(super) fn part(builder: &mut ProgramBuilder<'_>) {
    let is_int = |ty: &funcify::TensorType| ty.dtype == DType::I64;
    match builder.choices.below(14) {
        0 => {
            builder.count("iota");
            let dim = builder.choices.pick(&["N", "T"]);
            let dtype = builder.choices.pick(&[DType::I64, DType::F64]);
            builder.add(iota(dim, dtype), 4.0);
        }
        1 => {
            builder.count("float_to_int");
            let x = builder.float();
            builder.add((x.value * 3.0).floor().cast(DType::I64), 3.0 * x.bound);
        }
        2 => {
            builder.count("int_to_float");
            let Some(i) = builder.pick(is_int) else { return };
            let x = builder.float_of_shape(&i.value.shape());
            builder.add(x.value * i.value.cast(DType::F64) * 0.2, x.bound * i.bound * 0.2);
        }
        3 => {
            builder.count("int_arithmetic");
            let Some(i) = builder.pick(is_int) else { return };
            let j = builder.integers(&i.value.shape());
            let value: Value = match builder.choices.below(6) {
                0 => i.value + j,
                1 => i.value - j * 2,
                2 => i.value * j % 11,
                3 => i.value.maximum(j) / 2,
                4 => (i.value & j) ^ 1,
                _ => i.value.shift_left(j.clamp(0, 2)),
            };
            builder.add(value, 100.0);
        }
        4 => {
            builder.count("compare");
            let x = builder.float().value;
            let mask = builder.booleans(&x.shape());
            builder.add(mask, 1.0);
        }
        5 => {
            builder.count("logic");
            let Some(b) = builder.pick(|ty| ty.dtype == DType::Bool) else { return };
            let other = builder.booleans(&b.value.shape());
            let value = match builder.choices.below(3) {
                0 => !b.value,
                1 => b.value | other,
                _ => b.value ^ other,
            };
            builder.add(value, 1.0);
        }
        6 => {
            builder.count("size");
            let dim = builder.choices.pick(&["N", "T"]);
            let x = builder.float();
            builder.add(x.value * size(dim, DType::F64) * 0.3, x.bound);
        }
        7 => {
            builder.count("argmax");
            let Some((x, axis, 1..)) = builder.float_with_axis() else { return };
            builder.add(x.value.argmax(axis), 4.0);
        }
        8 => {
            builder.count("random");
            let key = if builder.choices.one_in(2) {
                random::key(3)
            } else {
                let i = builder.integer();
                random::fold_in(random::key(5), i)
            };
            let x = builder.float();
            let noise = random::uniform(key, x.value.shape(), DType::F64, -1.0, 1.0);
            let value = if builder.choices.one_in(2) { x.value * noise } else { x.value + noise };
            builder.add(value, x.bound + 1.0);
        }
        9 => {
            builder.count("narrow_int");
            let Some(i) = builder.pick(is_int) else { return };
            let dtype = builder.choices.pick(&[DType::I32, DType::U8, DType::U32]);
            builder.add((i.value.cast(dtype) * 3).cast(DType::I64) % 5, 5.0);
        }
        10 => {
            builder.count("bits_of_float");
            let x = builder.float();
            let exponent = x.value.bitcast(DType::I64).shift_right_logical(52) & 0x7ff;
            builder.add((exponent - 1023).clamp(-4, 4), 4.0);
        }
        11 => {
            builder.count("float_of_bits");
            let Some(i) = builder.pick(is_int) else { return };
            let x = builder.float_of_shape(&i.value.shape());
            // These are the bits of a float in [1, 2).
            let bits = ((i.value & 0xff) << 44) | 0x3ff0_0000_0000_0000i64;
            builder.add(x.value * (bits.bitcast(DType::F64) - 1.0), x.bound);
        }
        12 => {
            builder.count("int_matmul");
            let Some(i) = builder.pick(|ty| is_int(ty) && ty.rank() > 0) else { return };
            let row = builder.integers(&funcify::Shape::new([i.value.dim(-1)]));
            builder.add(i.value.matmul(row) % 13, 13.0);
        }
        _ => {
            builder.count("bool_to_float");
            let Some(b) = builder.pick(|ty| ty.dtype == DType::Bool) else { return };
            let x = builder.float_of_shape(&b.value.shape());
            let scalar = b.value.cast(DType::I64).sum(..).cast(DType::F64);
            builder.add(x.value * b.value.cast(DType::F64) + scalar * 0.1, x.bound + 1.0);
        }
    }
}
