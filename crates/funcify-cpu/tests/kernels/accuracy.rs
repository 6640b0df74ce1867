//! Tests the maximum error of each function in units in the last place (ULP), over intervals and at their ends.

use funcify_core::ops::special;
use funcify_cpu::kernels::{Binary, Unary};
use funcify_cpu::{Element, Machine};

use super::{binary, numbers, unary};

/// An element type whose errors are measured in units in the last place.
trait Ulp: Element {
    /// Returns the error of `found` in units in the last place.
    fn ulps(found: Self, exact: f64) -> f64;
    /// Returns `x`, converted to this type, and its two neighbours.
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

/// Returns the maximum error of an op over intervals, with all instruction sets.
fn worst<T: Ulp>(op: Unary, exact: fn(f64) -> f64, intervals: &[[f64; 2]]) -> f64 {
    worst_on::<T>(&Machine::all(), op, exact, intervals)
}

/// Returns the maximum error of an op over intervals, with the instruction sets of the given machines.
fn worst_on<T: Ulp>(machines: &[Machine], op: Unary, exact: fn(f64) -> f64, intervals: &[[f64; 2]]) -> f64 {
    let mut x: Vec<T> = Vec::new();
    for (index, [low, high]) in intervals.iter().enumerate() {
        x.extend(numbers::<T>(40_000, *low, *high, index as u64));
        x.extend(T::around(*low));
        x.extend(T::around(*high));
    }
    let mut worst = (0.0, T::ZERO, "");
    for machine in machines {
        for (x, y) in x.iter().zip(unary(*machine, op, &x)) {
            let error = T::ulps(y, exact(x.to_f64()));
            if error > worst.0 {
                worst = (error, *x, machine.name());
            }
        }
    }
    println!("{op:?} {}: {:.2} ulp at {:?} on {}", std::any::type_name::<T>(), worst.0, worst.1, worst.2);
    worst.0
}

/// Asserts the error bounds that `kernels/math.rs` and `kernels/special.rs` state, for f32 and f64.
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
    // Near a zero of the sine, |sin(x)| is about the distance from x to the zero, so an error in the argument reduction
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
fn tangents() {
    let intervals = [[-0.8, 0.8], [-1.6, 1.6], [-1400.0, 1400.0], [1499.0, 1501.0], [-1e6, 1e6], [1e-30, 1e-29]];
    bounded(Unary::Tan, f64::tan, [2.5, 2.0], &intervals);
    // Near the zeros and poles of the tangent, an error in the argument reduction becomes a large relative error.
    for quadrant in 1..900 {
        let near = f32::around(f64::from(quadrant) * std::f64::consts::FRAC_PI_2);
        for machine in Machine::all() {
            for (x, tangent) in near.into_iter().zip(unary(machine, Unary::Tan, &near)) {
                assert!(
                    f32::ulps(tangent, f64::from(x).tan()) <= 2.5,
                    "tan({x:?}) = {tangent:?} on {}",
                    machine.name()
                );
            }
        }
    }
}

#[test]
fn arcs() {
    let unit = [[-1.0, 1.0], [0.49, 0.51], [-1e-3, 1e-3], [-1e-38, 1e-38], [0.9999, 1.0], [-1.0, -0.9999]];
    bounded(Unary::Asin, f64::asin, [2.5, 2.0], &unit);
    bounded(Unary::Acos, f64::acos, [1.5, 1.0], &unit);
    let line = [[-1.1, 1.1], [-10.0, 10.0], [-1e-38, 1e-38], [1e30, 3e38], [-1e9, 1e9]];
    bounded(Unary::Atan, f64::atan, [1.5, 2.0], &line);
}

#[test]
fn hyperbolic_functions() {
    let intervals = [[-1.1, 1.1], [-1e-30, 1e-30], [-10.0, 10.0], [87.0, 90.0], [-90.0, -87.0], [-720.0, 720.0]];
    bounded(Unary::Sinh, f64::sinh, [2.0, 2.0], &intervals);
    bounded(Unary::Cosh, f64::cosh, [1.5, 2.0], &intervals);
    assert!(worst::<f64>(Unary::Sinh, f64::sinh, &[[700.0, 711.0], [-711.0, -709.0]]) <= 2.0);
    assert!(worst::<f64>(Unary::Cosh, f64::cosh, &[[700.0, 711.0], [-711.0, -709.0]]) <= 2.0);
}

#[test]
fn inverse_hyperbolic_functions() {
    let line = [[-1.0, 1.0], [-1e-3, 1e-3], [-1e-38, 1e-38], [-10.0, 10.0], [1e6, 1e9], [1e30, 3e38]];
    bounded(Unary::Asinh, special::asinh, [2.0, 2.0], &line);
    let above = [[1.0, 1.001], [1.0, 2.0], [1.0, 10.0], [1e6, 1e9], [1e30, 3e38]];
    bounded(Unary::Acosh, special::acosh, [3.0, 3.0], &above);
    let unit = [[-1.0, 1.0], [-1e-3, 1e-3], [-1e-38, 1e-38], [0.9999, 1.0], [-1.0, -0.9999]];
    bounded(Unary::Atanh, special::atanh, [2.5, 3.0], &unit);
    for op in [Unary::Asinh, Unary::Acosh] {
        let exact = if op == Unary::Asinh { special::asinh } else { special::acosh };
        assert!(worst::<f64>(op, exact, &[[1e15, 1e17], [1e150, 1e155], [1e300, 1.7e308]]) <= 1.0);
    }
}

#[test]
fn cube_roots() {
    let intervals = [[-10.0, 10.0], [0.5, 8.0], [-1e-38, 1e-38], [-1e-44, 1e-44], [1e30, 3e38]];
    bounded(Unary::Cbrt, f64::cbrt, [1.0, 1.0], &intervals);
    assert!(worst::<f64>(Unary::Cbrt, f64::cbrt, &[[1e-320, 1e-308], [1e300, 1.7e308]]) <= 1.0);
}

/// Returns the inverse error function of `x`. Uses a Newton step to refine the reference value, which is off by up to 7
/// units in the last place.
fn erf_inv(x: f64) -> f64 {
    let y = special::erf_inv(x);
    let slope = std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp();
    let excess =
        if x.abs() < 0.5 { special::erf(y) - x } else { x.signum() * ((1.0 - x.abs()) - special::erfc(y.abs())) };
    if y == 0.0 || y.is_infinite() || y.is_nan() { y } else { y - excess / slope }
}

#[test]
fn error_functions() {
    let intervals = [[-1.1, 1.1], [-1e-38, 1e-38], [-1e-3, 1e-3], [0.9, 4.1], [-6.5, 6.5], [-100.0, 100.0]];
    bounded(Unary::Erf, special::erf, [2.0, 3.0], &intervals);
    let intervals = [[-1.1, 1.1], [-1e-3, 1e-3], [0.4, 5.0], [-6.5, 10.3], [9.0, 10.1], [-100.0, 100.0]];
    bounded(Unary::Erfc, special::erfc, [2.5, 4.0], &intervals);
    assert!(worst::<f64>(Unary::Erfc, special::erfc, &[[10.0, 27.3], [26.5, 27.3]]) <= 4.0);
    let intervals = [[-1.0, 1.0], [-1e-3, 1e-3], [-1e-38, 1e-38], [0.99, 1.0], [-1.0, -0.99999], [0.999_999, 1.0]];
    // The scalar instruction set uses the less accurate reference implementation.
    bounded(Unary::ErfInv, erf_inv, [2.0, 8.0], &intervals);
    let vectors: Vec<Machine> = Machine::all().into_iter().filter(|machine| machine.name() != "plain").collect();
    assert!(worst_on::<f64>(&vectors, Unary::ErfInv, erf_inv, &intervals) <= 3.0);
    assert!(worst_on::<f64>(&vectors, Unary::ErfInv, erf_inv, &[[1.0 - 1e-9, 1.0], [1.0 - 1e-13, 1.0]]) <= 3.0);
}

/// Returns the maximum error of an op with two operands, at random points in the given rectangles and with all
/// instruction sets.
fn worst_of_two<T: Ulp>(op: Binary, exact: Exact, rectangles: &[[f64; 4]]) -> f64 {
    let mut worst = (0.0, T::ZERO, T::ZERO);
    for (index, [left, right, bottom, top]) in rectangles.iter().enumerate() {
        let x = numbers::<T>(40_000, *left, *right, index as u64);
        let y = numbers::<T>(40_000, *bottom, *top, 100 + index as u64);
        for machine in Machine::all() {
            for ((x, y), z) in x.iter().zip(&y).zip(binary(machine, op, &x, &y)) {
                let error = T::ulps(z, exact(x.to_f64(), y.to_f64()));
                if error > worst.0 {
                    worst = (error, *x, *y);
                }
            }
        }
    }
    println!("{op:?} {}: {:.2} ulp at {:?}, {:?}", std::any::type_name::<T>(), worst.0, worst.1, worst.2);
    worst.0
}

#[test]
fn powers() {
    let rectangles = [
        [0.1, 9.0, -8.0, 8.0],
        [0.9, 1.1, -900.0, 900.0],
        [0.999, 1.001, -1e5, 1e5],
        [0.5, 2.0, -160.0, 160.0],
        [0.0, 1e-37, -1.2, 1.2],
        [1e30, 3e38, -1.2, 1.2],
        [-1e-44, 1e-44, -1.0, 1.0],
        [-9.0, 9.0, -1.0, 1.0],
    ];
    assert!(worst_of_two::<f32>(Binary::Pow, f64::powf, &rectangles) <= 1.5);
    assert!(worst_of_two::<f64>(Binary::Pow, f64::powf, &rectangles) <= 1.0);
    assert!(worst_of_two::<f64>(Binary::Pow, f64::powf, &[[0.5, 2.0, -1100.0, 1100.0], [0.0, 1e300, 0.9, 1.1]]) <= 1.0);
    // Raise negative numbers to integer powers.
    for machine in Machine::all() {
        let x: Vec<f32> = numbers(1000, -9.0, -0.1, 3);
        for power in -30..30 {
            let power = power as f32;
            for (x, z) in x.iter().zip(binary(machine, Binary::Pow, &x, &vec![power; x.len()])) {
                let error = f32::ulps(z, f64::from(*x).powf(power.into()));
                assert!(error <= 1.5, "{x:?} to the power {power} is {z:?} on {}", machine.name());
            }
        }
    }
}

#[test]
fn angles_of_points() {
    let rectangles = [
        [-1.0, 1.0, -1.0, 1.0],
        [-100.0, 100.0, -1.0, 1.0],
        [-1.0, 1.0, -1e6, 1e6],
        [-1e-38, 1e-38, -1e-38, 1e-38],
        [-3e38, 3e38, -3e38, 3e38],
        [-1e-3, 1e-3, 0.0, 1e30],
    ];
    assert!(worst_of_two::<f32>(Binary::Atan2, f64::atan2, &rectangles) <= 1.5);
    assert!(worst_of_two::<f64>(Binary::Atan2, f64::atan2, &rectangles) <= 2.0);
}

/// The reference implementation of an op with two operands, in f64.
type Exact = fn(f64, f64) -> f64;

#[test]
fn of_two_operands() {
    let (x, y): (Vec<f32>, Vec<f32>) = (numbers(10_000, 0.1, 9.0, 5), numbers(10_000, -8.0, 8.0, 6));
    let table: [(Binary, Exact, f64); 10] = [
        (Binary::Add, |x, y| x + y, 0.5),
        (Binary::Sub, |x, y| x - y, 0.5),
        (Binary::Mul, |x, y| x * y, 0.5),
        (Binary::Div, |x, y| x / y, 0.5),
        (Binary::TruncDiv, |x, y| (x / y).trunc(), 0.0),
        (Binary::Max, f64::max, 0.0),
        (Binary::Min, f64::min, 0.0),
        (Binary::Copysign, f64::copysign, 0.0),
        (Binary::Rem, |x, y| x % y, 0.5),
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
