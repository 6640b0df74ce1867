//! Integers near the end of the range in which a float type represents every integer exactly. A backend that computes
//! integers in floats must prove that each integer is exact. If the proof is off by one, omits an operand, or has a
//! wrong sign, the backend returns a neighbouring integer.

use super::*;

/// The largest integer below 2^24. An f32 represents all integers from 0 to 2^24, but not 2^24 + 1.
const OF_F32: i64 = (1 << 24) - 1;

/// The largest integer below 2^53. An f64 represents all integers from 0 to 2^53, but not 2^53 + 1.
const OF_F64: i64 = (1 << 53) - 1;

pub(super) fn cases() -> Cases {
    let half = OF_F32 / 2;
    let odd = OF_F32 + 2;
    all([
        in_each_step("remainder", half, odd, |n| ((n + 1) % (half + 2)) * 2 + 1),
        in_each_step("absolute_value", -half, odd, |n| (n - (half + 1)).abs() + 2),
        in_each_step("concatenation", half, odd, |n| (concat(&[n.zeros_like(), n], 0) * 2 + 3).slice(0, 1..)),
        in_each_step("sum", half, odd, |n| {
            concat(&[n, n, n.zeros_like() + 1, n.zeros_like() + 2], 0).sum(0).unsqueeze(0)
        }),
        in_each_step("sum_of_two", half, odd, |n| concat(&[n + 1, n + 2], 0).sum(0).unsqueeze(0)),
        in_each_step("doubled", OF_F32 - 1, 2 * OF_F32 - 1, |n| n + n + 1),
        in_each_step("position", 3, odd, |n| (iota(4, DType::I64) * 5_592_405 + (n % 4 - 1)).slice(0, 3..)),
        in_each_step("given_above", odd, odd, |n| n + 0),
        in_each_step("given_below", -odd, -odd, |n| n + 0),
        // Subtracting 1 from an unsigned 0 wraps around to the largest u32.
        case_on("exact_integers_unsigned", [("n: u32[1]", row([0u32])), ("xs: f32[3]", row([1f32, 1.0, 1.0]))])
            .runs(|[n, xs]| {
                let step = |sum: Value, x: Value| (sum * 0.5 + x, (n - 1, (n - 1).gt(5)));
                let (last, (integers, larger)) = scan(xs.index(0, 0), xs, step);
                outputs! { integers: integers, larger: larger, last: last }
            })
            .gives([
                ("integers", super::tensor([3, 1], [u32::MAX; 3])),
                ("larger", super::tensor([3, 1], [true; 3])),
                ("last", scalar(1.875f32)),
            ]),
        // The loop never takes its early exit. The program multiplies the number of steps that ran by a large constant.
        case_on("exact_integers_steps_that_ran", [("xs: f32[5]", row([1f32; 5]))])
            .runs(|[xs]| {
                let (last, sums) = scan_until(xs.index(0, 0), xs, |sum: Value, x: Value| (sum + x, sum, x.lt(0.0)));
                outputs! { integer: size(sums.dim(0), DType::I64) * (OF_F32 / 5) + 2, last: last }
            })
            .gives([("integer", scalar(OF_F32 + 2)), ("last", scalar(6f32))]),
        counter("upward", DType::F32, OF_F32 - 15, |n, _| n + 1, |t| OF_F32 - 14 + t),
        counter("downward_f64", DType::F64, -OF_F64 + 2, |n, _| n - 1, |t| -OF_F64 + 1 - t),
        counter(
            "by_choice",
            DType::F32,
            OF_F32 - 8000,
            |n, x| select(x.gt(2.0), n + 1, n + 1001),
            |t| OF_F32 - 6999 + 1001 * t,
        ),
    ])
}

/// Builds a case with a loop over floats. Each step also computes the integer `f(n)` from the input `n`.
fn in_each_step(name: &str, n: i64, expected: i64, f: impl Fn(Value) -> Value) -> OneCase {
    case_on(format!("exact_integers_{name}"), [("n: i64[1]", row([n])), ("xs: f32[3]", row([1f32, 1.0, 1.0]))])
        .runs(|[n, xs]| {
            let (last, integers) = scan(xs.index(0, 0), xs, |sum, x| (sum * 0.5 + x, f(n)));
            outputs! { integers: integers, last: last }
        })
        .gives([("integers", super::tensor([3, 1], [expected; 3])), ("last", scalar(1.875f32))])
}

/// Builds a case with a loop that reads floats of type `dtype` and also carries an integer. The magnitude of the
/// integer grows beyond the range in which `dtype` is exact. `expected(t)` is the integer after step `t`.
fn counter(name: &str, dtype: DType, start: i64, next: fn(Value, Value) -> Value, expected: fn(i64) -> i64) -> OneCase {
    const STEPS: usize = 24;
    let ns = HostTensor::from_fn(DType::I64, &[STEPS], |at| funcify::Scalar::Int(expected(at[0] as i64)));
    let last = HostTensor::scalar(2f64 - 0.5f64.powi(STEPS as i32)).cast(dtype);
    case(format!("exact_integers_{name}"), |g| {
        let xs = g.input("xs", funcify::TensorType::new(dtype, [STEPS]));
        let start = funcify::constant(start);
        let ((n, last), ns) = scan((start, xs.index(0, 0)), xs, |(n, sum), x| {
            let n = next(n, x);
            ((n, sum * 0.5 + x), n)
        });
        outputs! { last: last, n: n, ns: ns }
    })
    .on([HostTensor::from_fn(dtype, &[STEPS], |_| funcify::Scalar::Float(1.0))])
    .gives([("last", last), ("n", scalar(expected(STEPS as i64 - 1))), ("ns", ns)])
}
