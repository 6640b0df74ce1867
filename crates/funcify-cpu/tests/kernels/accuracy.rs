//! The maximum error of each function, in units in the last place, over intervals and at their ends.

use funcify_cpu::kernels::{Binary, Unary};
use funcify_cpu::{Element, Machine};

use super::{binary, numbers, unary};

/// An element type whose errors are measured in units in the last place.
trait Ulp: Element {
    /// Returns the error of `found` in units in the last place.
    fn ulps(found: Self, exact: f64) -> f64;
    /// Returns `x` and its two neighbours.
    fn around(x: f64) -> [Self; 3];
}

impl Ulp for f32 {
    fn ulps(found: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        if nearest.is_infinite() || nearest.is_nan() {
            return if found == nearest || found.is_nan() && nearest.is_nan() { 0.0 } else { f64::INFINITY };
        }
        let unit = f64::from(nearest.abs().next_up()) - f64::from(nearest.abs());
        (f64::from(found) - exact).abs() / unit
    }
    fn around(x: f64) -> [f32; 3] {
        let x = x as f32;
        [x.next_down(), x, x.next_up()]
    }
}

impl Ulp for f64 {
    fn ulps(found: f64, exact: f64) -> f64 {
        if exact.is_infinite() || exact.is_nan() {
            return if found == exact || found.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
        }
        (found - exact).abs() / (exact.abs().next_up() - exact.abs())
    }
    fn around(x: f64) -> [f64; 3] {
        [x.next_down(), x, x.next_up()]
    }
}

/// Returns the maximum error over intervals, on all instruction sets.
fn worst<T: Ulp>(op: Unary, exact: fn(f64) -> f64, intervals: &[[f64; 2]]) -> f64 {
    let mut x: Vec<T> = Vec::new();
    for (index, [low, high]) in intervals.iter().enumerate() {
        x.extend(numbers::<T>(40_000, *low, *high, index as u64));
        x.extend(T::around(*low));
        x.extend(T::around(*high));
    }
    let mut worst = (0.0, T::ZERO, "");
    for machine in Machine::all() {
        for (x, y) in x.iter().zip(unary(machine, op, &x)) {
            let error = T::ulps(y, exact(x.to_f64()));
            if error > worst.0 {
                worst = (error, *x, machine.name());
            }
        }
    }
    println!("{op:?} {}: {:.2} ulp at {:?} on {}", std::any::type_name::<T>(), worst.0, worst.1, worst.2);
    worst.0
}

/// Asserts the error bounds that `kernels/math.rs` states, for f32 and f64.
fn bounded(op: Unary, exact: fn(f64) -> f64, bounds: [f64; 2], intervals: &[[f64; 2]]) {
    let errors = [worst::<f32>(op, exact, intervals), worst::<f64>(op, exact, intervals)];
    assert!(errors[0] <= bounds[0] && errors[1] <= bounds[1], "{op:?}: {errors:?} ulp, not {bounds:?}");
}

#[test]
fn exponentials() {
    let exponents = [[-1.0, 1.0], [-1e-3, 1e-3], [-87.0, 88.7], [-104.5, -86.0], [88.0, 90.0]];
    bounded(Unary::Exp, f64::exp, [1.0, 1.0], &exponents);
    bounded(Unary::Expm1, f64::exp_m1, [1.5, 2.0], &[[-1.0, 1.0], [-1e-3, 1e-3], [-1e-30, 1e-30], [-110.0, 90.0]]);
    assert!(worst::<f64>(Unary::Exp, f64::exp, &[[-745.5, 709.8], [-746.0, -708.0], [709.0, 711.0]]) <= 1.0);
}

#[test]
fn activations() {
    let intervals = [[-1.0, 1.0], [-1e-3, 1e-3], [-1e-30, 1e-30], [-10.0, 10.0], [-110.0, 110.0]];
    bounded(Unary::Tanh, f64::tanh, [2.5, 3.0], &intervals);
    bounded(Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), [2.5, 3.0], &intervals);
}

#[test]
fn logarithms() {
    let intervals = [[0.5, 2.0], [0.99, 1.01], [1e-45, 1e-37], [1e-30, 1e30], [1e30, 3e38]];
    bounded(Unary::Log, f64::ln, [1.0, 1.0], &intervals);
    let intervals = [[-0.5, 1.0], [-1e-3, 1e-3], [-1e-30, 1e-30], [-0.999_999, 10.0], [1.0, 1e30]];
    bounded(Unary::Log1p, f64::ln_1p, [2.0, 2.0], &intervals);
}

#[test]
fn sines_and_cosines() {
    let intervals = [[-0.8, 0.8], [-7.0, 7.0], [-1400.0, 1400.0], [1499.0, 1501.0], [-1e6, 1e6], [1e-30, 1e-29]];
    bounded(Unary::Sin, f64::sin, [2.5, 2.0], &intervals);
    bounded(Unary::Cos, f64::cos, [2.5, 2.0], &intervals);
    // Near a zero, sin(x) is about as large as the distance from x to the zero, so an error in the argument reduction
    // becomes a large relative error.
    for quadrant in 1..900 {
        let near = f64::from(quadrant) * std::f64::consts::FRAC_PI_2;
        for machine in Machine::all() {
            for (x, sine) in f32::around(near).into_iter().zip(unary(machine, Unary::Sin, &f32::around(near))) {
                assert!(f32::ulps(sine, f64::from(x).sin()) <= 2.5, "sin({x:?}) = {sine:?} on {}", machine.name());
            }
        }
    }
}

#[test]
fn rounded_once() {
    let intervals = [[-10.0, 10.0], [-3e9, 3e9], [-0.5, 0.5], [8_388_600.0, 8_388_620.0]];
    bounded(Unary::Round, f64::round_ties_even, [0.0, 0.0], &intervals);
    bounded(Unary::Floor, f64::floor, [0.0, 0.0], &intervals);
    bounded(Unary::Ceil, f64::ceil, [0.0, 0.0], &intervals);
    bounded(Unary::Trunc, f64::trunc, [0.0, 0.0], &intervals);
    bounded(Unary::Neg, |x| -x, [0.0, 0.0], &intervals);
    bounded(Unary::Abs, f64::abs, [0.0, 0.0], &intervals);
    bounded(Unary::Square, |x| x * x, [0.5, 0.5], &intervals);
    bounded(Unary::Recip, |x| 1.0 / x, [0.5, 0.5], &intervals);
    bounded(Unary::Sqrt, f64::sqrt, [0.5, 0.5], &[[0.0, 10.0], [0.0, 1e-38], [1e30, 1e38]]);
    bounded(Unary::Rsqrt, |x| 1.0 / x.sqrt(), [1.5, 0.0], &[[0.1, 10.0], [1e-38, 1e-37], [1e30, 1e38]]);
}

#[test]
fn element_by_element() {
    bounded(Unary::Tan, f64::tan, [0.5, 0.0], &[[-1.5, 1.5]]);
    bounded(Unary::Asin, f64::asin, [0.5, 0.0], &[[-1.0, 1.0]]);
    bounded(Unary::Acos, f64::acos, [0.5, 0.0], &[[-1.0, 1.0]]);
    bounded(Unary::Atan, f64::atan, [0.5, 0.0], &[[-10.0, 10.0]]);
    bounded(Unary::Sinh, f64::sinh, [0.5, 0.0], &[[-10.0, 10.0]]);
    bounded(Unary::Cosh, f64::cosh, [0.5, 0.0], &[[-10.0, 10.0]]);
    bounded(Unary::Cbrt, f64::cbrt, [0.5, 0.0], &[[-10.0, 10.0]]);
}

/// The reference implementation of an op with two operands, in f64.
type Exact = fn(f64, f64) -> f64;

#[test]
fn of_two_operands() {
    let (x, y): (Vec<f32>, Vec<f32>) = (numbers(10_000, 0.1, 9.0, 5), numbers(10_000, -8.0, 8.0, 6));
    let table: [(Binary, Exact, f64); 11] = [
        (Binary::Add, |x, y| x + y, 0.5),
        (Binary::Sub, |x, y| x - y, 0.5),
        (Binary::Mul, |x, y| x * y, 0.5),
        (Binary::Div, |x, y| x / y, 0.5),
        (Binary::Max, f64::max, 0.0),
        (Binary::Min, f64::min, 0.0),
        (Binary::Copysign, f64::copysign, 0.0),
        (Binary::Pow, f64::powf, 0.5),
        (Binary::Rem, |x, y| x % y, 0.5),
        (Binary::Atan2, f64::atan2, 0.5),
        (Binary::NotEqual, |x, y| f64::from(x != y), 0.0),
    ];
    for machine in Machine::all() {
        for (op, exact, bound) in table {
            for ((x, y), z) in x.iter().zip(&y).zip(binary(machine, op, &x, &y)) {
                let error = f32::ulps(z, exact(f64::from(*x), f64::from(*y)));
                assert!(error <= bound, "{op:?}({x}, {y}) = {z} on {}: {error} ulp", machine.name());
            }
        }
    }
}
