//! Tests special values: inputs for which `funcify-core` specifies the result, and the ends of the range of each
//! function.

use funcify_cpu::kernels::{Binary, Fold, Ternary, Unary};
use funcify_cpu::plan::Op;
use funcify_cpu::{Element, Machine};

use super::{binary, run, ternary, unary};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Returns `true` if two numbers are the same, including the signs of zeros. NaN equals NaN.
fn same(found: f64, expected: f64) -> bool {
    found == expected && found.is_sign_negative() == expected.is_sign_negative() || found.is_nan() && expected.is_nan()
}

/// Asserts that op(x) = y for all pairs (x, y), in all lanes of a vector and in a tail.
fn table(op: Unary, pairs: &[(f64, f64)]) {
    fn check<T: Element>(op: Unary, pairs: &[(f64, f64)]) {
        for machine in Machine::all() {
            for (x, y) in pairs {
                for found in unary(machine, op, &[T::from_f64(*x); 19]) {
                    let found = found.to_f64();
                    let name = std::any::type_name::<T>();
                    assert!(same(found, *y), "{op:?}({x}) = {found}, not {y}, in {name} on {}", machine.name());
                }
            }
        }
    }
    check::<f32>(op, pairs);
    check::<f64>(op, pairs);
}

#[test]
fn nan_stays() {
    for op in Unary::ALL.iter().filter(|op| **op != Unary::Not) {
        table(*op, &[(NAN, NAN)]);
    }
}

#[test]
fn signed_zeros_and_infinities() {
    let odd = [(0.0, 0.0), (-0.0, -0.0)];
    for op in [Unary::Tanh, Unary::Sin, Unary::Expm1, Unary::Log1p, Unary::Sign, Unary::Sqrt, Unary::Copy] {
        table(op, &odd);
    }
    for op in [Unary::Tan, Unary::Asin, Unary::Atan, Unary::Sinh, Unary::Asinh, Unary::Atanh, Unary::Cbrt] {
        table(op, &odd);
    }
    for op in [Unary::Erf, Unary::ErfInv] {
        table(op, &odd);
    }
    for op in [Unary::Floor, Unary::Ceil, Unary::Round, Unary::Trunc] {
        table(op, &odd);
        table(op, &[(INF, INF), (-INF, -INF), (1e300, f64::from(1e300f64 as f32)), (7.0, 7.0)][..2]);
    }
    table(Unary::Neg, &[(0.0, -0.0), (-0.0, 0.0), (INF, -INF)]);
    table(Unary::Abs, &[(-0.0, 0.0), (-INF, INF)]);
    table(Unary::Sign, &[(-3.0, -1.0), (INF, 1.0)]);
    table(Unary::Exp, &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (800.0, INF), (-800.0, 0.0)]);
    table(Unary::Expm1, &[(INF, INF), (-INF, -1.0), (800.0, INF), (-800.0, -1.0)]);
    table(Unary::Log, &[(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN)]);
    table(Unary::Log1p, &[(-1.0, -INF), (INF, INF), (-2.0, NAN), (-INF, NAN)]);
    table(Unary::Tanh, &[(INF, 1.0), (-INF, -1.0), (300.0, 1.0), (-300.0, -1.0)]);
    table(Unary::Sigmoid, &[(0.0, 0.5), (INF, 1.0), (-INF, 0.0), (800.0, 1.0), (-800.0, 0.0)]);
    table(Unary::Sin, &[(INF, NAN), (-INF, NAN)]);
    table(Unary::Cos, &[(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)]);
    table(Unary::Sqrt, &[(INF, INF), (-1.0, NAN), (4.0, 2.0)]);
    table(Unary::Rsqrt, &[(0.0, INF), (INF, 0.0), (-1.0, NAN), (4.0, 0.5)]);
    table(Unary::Recip, &[(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0)]);
    table(Unary::Round, &[(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-3.5, -4.0)]);
    table(Unary::Trunc, &[(-1.5, -1.0), (1.5, 1.0), (-0.5, -0.0)]);
    table(Unary::Floor, &[(-1.5, -2.0), (1.5, 1.0), (0.5, 0.0)]);
    table(Unary::Ceil, &[(-1.5, -1.0), (1.5, 2.0), (-0.5, -0.0)]);
    table(Unary::Not, &[(0.0, 1.0), (-0.0, 1.0), (1.0, 0.0), (NAN, 0.0)]);
}

#[test]
fn ends_of_domains() {
    let (half, whole) = (std::f64::consts::FRAC_PI_2, std::f64::consts::PI);
    for op in [Unary::Sinh, Unary::Asinh, Unary::Cbrt] {
        table(op, &[(INF, INF), (-INF, -INF)]);
    }
    for op in [Unary::Asin, Unary::Acos, Unary::Atanh, Unary::ErfInv] {
        table(op, &[(1.5, NAN), (-1.5, NAN), (INF, NAN), (-INF, NAN)]);
    }
    for op in [Unary::Atanh, Unary::ErfInv] {
        table(op, &[(1.0, INF), (-1.0, -INF)]);
    }
    table(Unary::Tan, &[(INF, NAN), (-INF, NAN)]);
    table(Unary::Sinh, &[(800.0, INF), (-800.0, -INF)]);
    table(Unary::Cosh, &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (800.0, INF), (-800.0, INF)]);
    table(Unary::Acos, &[(1.0, 0.0)]);
    table(Unary::Acosh, &[(1.0, 0.0), (INF, INF), (0.5, NAN), (0.0, NAN), (-2.0, NAN), (-1e9, NAN), (-INF, NAN)]);
    table(Unary::Erf, &[(INF, 1.0), (-INF, -1.0), (7.0, 1.0), (-7.0, -1.0)]);
    table(Unary::Erfc, &[(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (30.0, 0.0), (-30.0, 2.0)]);
    table(Unary::Cbrt, &[(8.0, 2.0), (-27.0, -3.0)]);
    for machine in Machine::all() {
        for (op, x, y) in [(Unary::Asin, 1.0, half), (Unary::Acos, 0.0, half), (Unary::Acos, -1.0, whole)] {
            assert_eq!(unary(machine, op, &[x; 3]), [y; 3], "{op:?}({x}) on {}", machine.name());
            assert_eq!(unary(machine, op, &[x as f32; 3]), [y as f32; 3], "{op:?}({x}) on {}", machine.name());
        }
        assert_eq!(unary(machine, Unary::Atan, &[INF, -INF]), [half, -half], "{}", machine.name());
        let angles = unary(machine, Unary::Atan, &[f32::INFINITY, f32::NEG_INFINITY]);
        assert_eq!(angles, [half as f32, -half as f32], "{}", machine.name());
    }
}

/// Asserts that a binary op agrees with the standard library on all pairs of special and ordinary values.
fn agrees_on_special_numbers(op: Binary, exact: fn(f64, f64) -> f64) {
    let sizes = [0.0, 1e-40, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 100.0, 16_777_215.0, 1e9, 3e38, INF, NAN];
    let numbers: Vec<f64> = sizes.iter().flat_map(|size| [*size, -size]).map(|x| f64::from(x as f32)).collect();
    let pairs: Vec<(f64, f64)> = numbers.iter().flat_map(|x| numbers.iter().map(move |y| (*x, *y))).collect();
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let narrow = |numbers: &[f64]| numbers.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    for machine in Machine::all() {
        let found = binary(machine, op, &x, &y);
        let narrow = binary(machine, op, &narrow(&x), &narrow(&y));
        for (((x, y), z), w) in pairs.iter().zip(found).zip(narrow) {
            let exact = exact(*x, *y);
            let close = |z: f64, exact: f64, unit: f64| same(z, exact) || (z - exact).abs() <= 2.0 * unit * exact.abs();
            assert!(
                close(z, exact, f64::EPSILON),
                "{op:?}({x:?}, {y:?}) = {z:?}, not {exact:?}, on {}",
                machine.name()
            );
            let (w, exact) = (f64::from(w), f64::from(exact as f32));
            let subnormal = exact.abs() < 1e-37 && (w - exact).abs() <= 3e-45 && w != 0.0;
            let is_close = subnormal || close(w, exact, f64::from(f32::EPSILON));
            assert!(is_close, "{op:?}({x:?}, {y:?}) = {w:?}, not {exact:?}, in f32 on {}", machine.name());
        }
    }
}

#[test]
fn powers_and_angles_of_special_numbers() {
    agrees_on_special_numbers(Binary::Pow, f64::powf);
    agrees_on_special_numbers(Binary::Atan2, f64::atan2);
}

/// The result for an element must not depend on the other elements of its vector, because machine code may use vectors
/// of another size.
#[test]
fn elements_are_independent() {
    let x = [0.25f32, 1e6, -0.5, 3.0, f32::NAN, 0.75, 1.0, 2e4, -7.0, 0.0, 0.9, 88.0, 1e-40, -1.25, 5.0, 10.0, 0.1];
    for machine in Machine::all() {
        for op in Unary::ALL {
            for (x, y) in x.iter().zip(unary(machine, *op, &x)) {
                let alone = unary(machine, *op, &[*x; 17])[0];
                assert!(same(y.into(), alone.into()), "{op:?}({x:?}) = {y:?} and {alone:?} on {}", machine.name());
            }
        }
    }
}

#[test]
fn subnormal_numbers_are_kept() {
    let tiny = f64::from(f32::from_bits(77));
    for machine in Machine::all() {
        let odd = [Unary::Tan, Unary::Asin, Unary::Atan, Unary::Sinh, Unary::Asinh, Unary::Atanh];
        let others = [Unary::Copy, Unary::Tanh, Unary::Sin, Unary::Expm1, Unary::Log1p];
        for op in odd.into_iter().chain(others) {
            assert_eq!(unary(machine, op, &[tiny as f32; 19]), [tiny as f32; 19], "{op:?} on {}", machine.name());
        }
        assert_eq!(unary(machine, Unary::Exp, &[-100f32; 3]), [(-100f64).exp() as f32; 3], "{}", machine.name());
        assert_eq!(binary(machine, Binary::Mul, &[1e-39f32; 3], &[0.5; 3]), [0.5e-39; 3], "{}", machine.name());
    }
}

#[test]
fn two_operands() {
    let cases: [(Binary, f64, f64, f64); 30] = [
        (Binary::Max, NAN, 1.0, NAN),
        (Binary::Max, 1.0, NAN, NAN),
        (Binary::Min, NAN, 1.0, NAN),
        (Binary::Min, 1.0, NAN, NAN),
        (Binary::Max, -0.0, 0.0, 0.0),
        (Binary::Max, 0.0, -0.0, 0.0),
        (Binary::Max, -0.0, -0.0, -0.0),
        (Binary::Min, -0.0, 0.0, -0.0),
        (Binary::Min, 0.0, -0.0, -0.0),
        (Binary::Min, 0.0, 0.0, 0.0),
        (Binary::Max, -INF, -1.0, -1.0),
        (Binary::Min, INF, -1.0, -1.0),
        (Binary::Less, 1.0, NAN, 0.0),
        (Binary::LessEqual, NAN, NAN, 0.0),
        (Binary::Less, -0.0, 0.0, 0.0),
        (Binary::LessEqual, 1.0, 1.0, 1.0),
        (Binary::Equal, NAN, NAN, 0.0),
        (Binary::Equal, -0.0, 0.0, 1.0),
        (Binary::NotEqual, NAN, NAN, 1.0),
        (Binary::NotEqual, 2.0, 2.0, 0.0),
        (Binary::Div, 1.0, -0.0, -INF),
        (Binary::Div, 0.0, 0.0, NAN),
        (Binary::Copysign, 3.0, -0.0, -3.0),
        (Binary::Copysign, -3.0, 1.0, 3.0),
        (Binary::Pow, 0.0, 0.0, 1.0),
        (Binary::Pow, NAN, 0.0, 1.0),
        (Binary::Pow, 1.0, NAN, 1.0),
        (Binary::Rem, -5.0, 3.0, -2.0),
        (Binary::Rem, 5.0, 0.0, NAN),
        (Binary::ExpOfProduct, 0.0, 3.0, 1.0),
    ];
    for machine in Machine::all() {
        for (op, x, y, z) in cases {
            for found in binary(machine, op, &[x as f32; 19], &[y as f32; 19]) {
                assert!(same(f64::from(found), z), "{op:?}({x}, {y}) = {found} on {}", machine.name());
            }
            for found in binary(machine, op, &[x; 19], &[y; 19]) {
                assert!(same(found, z), "{op:?}({x}, {y}) = {found} in f64 on {}", machine.name());
            }
        }
        let selected = ternary(machine, Ternary::Select, &[1.0, 0.0, -0.0], &[2.0, NAN, 2.0], &[NAN, 3.0, 3.0]);
        assert_eq!(selected, [2.0, 3.0, 3.0]);
    }
}

#[test]
fn nan_wins_in_folds() {
    for machine in Machine::all() {
        for at in [0, 5, 18] {
            let mut x = vec![1f32; 19];
            x[at] = f32::NAN;
            for fold in Fold::ALL {
                let mut y = [0f32];
                run(machine, &[&x], &mut y, |from, to| {
                    vec![Op::FoldLanes { fold, accumulate: false }.over([1, 19], to.element(), from)]
                });
                assert!(y[0].is_nan(), "{fold:?} with NaN at {at} on {}", machine.name());
                let mut rows = [0f32; 1];
                run(machine, &[&x], &mut rows, |from, to| {
                    vec![Op::FoldRows { fold, accumulate: false }.over([19, 1], to, &[from[0].rows(1)])]
                });
                assert!(rows[0].is_nan(), "{fold:?} of rows with NaN at {at} on {}", machine.name());
            }
        }
    }
}

/// Folds treat -0 as less than +0, in every lane and row.
#[test]
fn zeros_have_an_order_in_folds() {
    for machine in Machine::all() {
        for (fold, zero) in [(Fold::Max, -0f32), (Fold::Min, 0f32)] {
            for at in 0..37 {
                let mut x = vec![zero; 37];
                x[at] = -zero;
                for accumulate in [false, true] {
                    let mut y = [zero];
                    run(machine, &[&x], &mut y, |from, to| {
                        vec![Op::FoldLanes { fold, accumulate }.over([1, 37], to.element(), from)]
                    });
                    assert_eq!(y[0].to_bits(), (-zero).to_bits(), "{fold:?}, {at}, {accumulate} on {}", machine.name());
                    let mut rows = [zero];
                    run(machine, &[&x], &mut rows, |from, to| {
                        vec![Op::FoldRows { fold, accumulate }.over([37, 1], to, &[from[0].rows(1)])]
                    });
                    assert_eq!(rows[0].to_bits(), (-zero).to_bits(), "{fold:?} of rows, {at} on {}", machine.name());
                }
            }
        }
    }
}
