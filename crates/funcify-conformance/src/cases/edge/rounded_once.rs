//! Casts of numbers very close to the midpoint between two values of a 16-bit float type. Code that rounds twice, or
//! drops bits, turns such a number into the midpoint, and then rounds the midpoint to the wrong value.

use super::*;

pub(super) fn cases() -> Cases {
    let (f16, bf16) = (DType::F16, DType::BF16);
    let one = |bits: i32, more: i32| 1.0 + 2f64.powi(-bits) + 2f64.powi(-more);
    let next = |bits: i32| 1.0 + 2f64.powi(-bits);
    all([
        floats("of_f32", DType::F32, f16, one(11, 23), next(10)),
        floats("of_f32", DType::F32, bf16, one(8, 23), next(7)),
        floats("of_f64", DType::F64, f16, one(11, 52), next(10)),
        floats("of_f64", DType::F64, bf16, one(8, 52), next(7)),
        floats("smallest", DType::F64, f16, 2f64.powi(-25) + 2f64.powi(-70), 2f64.powi(-24)),
        floats("below_the_middle", DType::F64, f16, one(10, 11) - 2f64.powi(-50), next(10)),
        integers("of_i32", DType::I32, bf16, (1 << 24) + (1 << 16) + 1, (1 << 24) + (1 << 17)),
        integers("of_u32", DType::U32, bf16, (1 << 31) + (1 << 23) + 1, (1 << 31) + (1 << 24)),
        integers("of_i64", DType::I64, bf16, (1 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 55)),
        integers("of_negative_i64", DType::I64, bf16, -(1 << 62) - (1 << 54) - 1, -(1 << 62) - (1 << 55)),
        integers("of_i64", DType::I64, f16, (1 << 14) + (1 << 3) + 1, (1 << 14) + (1 << 4)),
    ])
}

fn floats(name: &str, from: DType, to: DType, number: f64, expected: f64) -> OneCase {
    let numbers = [Scalar::Float(number), Scalar::Float(-number)];
    rounded(name, [from, to], numbers, [expected, -expected])
}

fn integers(name: &str, from: DType, to: DType, number: i64, expected: i64) -> OneCase {
    rounded(name, [from, to], [Scalar::Int(number); 2], [expected as f64; 2])
}

/// Builds a case that casts two numbers outside a loop, and casts them again in each step of a loop.
fn rounded(name: &str, [from, to]: [DType; 2], numbers: [Scalar; 2], expected: [f64; 2]) -> OneCase {
    let program = |g: &Builder| {
        let numbers = g.input("numbers", funcify::TensorType::new(from, [2]));
        let xs = g.input("xs", funcify::TensorType::new(to, [3]));
        let step = |x: Value| numbers.cast(to) * concat(&[x.unsqueeze(0), x.unsqueeze(0)], 0);
        outputs! { beside: numbers.cast(to), in_steps: map(xs, step) }
    };
    let results = |rows: usize| {
        let shape = if rows == 1 { vec![2] } else { vec![rows, 2] };
        HostTensor::from_fn(to, &shape, |at| Scalar::Float(expected[at[at.len() - 1]]))
    };
    let numbers = HostTensor::from_fn(from, &[2], |at| numbers[at[0]]);
    // End the names of f64 cases with `_f64`, so that a backend without f64 can declare one gap for all of them.
    let name = match from {
        DType::F64 => format!("rounded_once_{name}_to_{to}_f64"),
        _ => format!("rounded_once_{name}_to_{to}"),
    };
    let ones = HostTensor::from_fn(to, &[3], |_| Scalar::Float(1.0));
    let outputs = [("beside", results(1)), ("in_steps", results(3))];
    case(name, program).on([numbers, ones]).gives(outputs)
}
