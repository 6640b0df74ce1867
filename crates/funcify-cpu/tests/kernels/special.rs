//! Special values: inputs for which `funcify-core` specifies the result, and the ends of the functions' ranges.

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

/// Asserts op(x) = y for all pairs, in all lanes of a vector and in a tail.
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
fn subnormal_numbers_are_kept() {
    let tiny = f64::from(f32::from_bits(77));
    for machine in Machine::all() {
        for op in [Unary::Copy, Unary::Tanh, Unary::Sin, Unary::Expm1, Unary::Log1p] {
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
