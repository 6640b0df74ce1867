//! Category `dtype`: integers, booleans, casts, mixed floats.

use super::*;

pub(super) const PROGRAMS: Programs = &[
    &program(&["i32_cumsum"], ["init", "xs"], |[init, xs]| scan_outputs(scan(init, xs, |c, x| (c + x, c + x)))),
    // Computes the factorials up to 20!, which needs 64 bits.
    &program(&["i64_factorial"], ["one"], |[one]| {
        let (_, ys) = scan(one, iota(20, DType::I64), |p, t| carry_as_output(p * (t + 1)));
        outputs! { ys }
    }),
    // Counts the ones in a sequence of bits, and flags odd counts. The count is a u8 carry.
    &program(&["u8_count"], ["bits", "zero"], |[bits, zero]| {
        let (n, (trace, odd)) = scan(zero, bits, |n, b| {
            let n = n + b;
            (n, (n, n % 2))
        });
        outputs! { n, trace, odd }
    }),
    // Each step updates three boolean carries with or, and, and exclusive or.
    &program(&["bool_logic"], ["xs"], |[xs]| {
        let start = [constant(false), constant(true), constant(false)];
        let (_, [any, all, parity]) =
            scan(start, xs, |[any, all, parity], x| carry_as_output([any | x, all & x, parity ^ x]));
        outputs! { any, all, parity }
    }),
    // The body converts rows of integers to floats.
    &program(&["cast_int_to_float"], ["weights", "ks"], |[weights, ks]| {
        let zero = constant(HostTensor::scalar(0.0).cast(weights.dtype()));
        let (_, (ys, total)) = scan(zero, ks, |c, k| {
            let c = 0.5 * c + (weights * k.cast(weights.dtype())).sum(..);
            (c, (c, k.sum(..)))
        });
        outputs! { ys, total }
    }),
    // The loop has an f64 carry and reads an f32 sequence.
    &program(&["mixed_f32_f64"], ["init", "xs", "w"], |[init, xs, w]| {
        scan_outputs(scan(init, xs, |c, x| {
            let c = c * w + x.cast(DType::F64);
            (c, (c * 2.0).cast(DType::F32))
        }))
    }),
    // In f32, the increments would be lost to rounding.
    &program(&["f64_small_increments"], ["base", "xs"], |[base, xs]| {
        let (carry, ()) = scan(base, xs, |c, x| (c + x, ()));
        outputs! { gain: carry - base }
    }),
    // Each step amplifies rounding errors.
    &program(&["f64_chaotic_map"], ["x0", "r"], |[x0, r]| {
        let (_, trace) = scan_with(ScanOptions::new().length(30), x0, (), |x, ()| carry_as_output(r * x * (1.0 - x)));
        outputs! { trace }
    }),
    // The ys are booleans, integers and floats, computed from comparisons.
    &program(&["bool_outputs"], ["a", "b"], |[a, b]| {
        let (_, (gt, n, d)) = scan(constant(0i64), (a, b), |n, (a, b)| {
            let gt = a.gt(b);
            let n = n + gt.all(..).cast(DType::I64);
            (n, (gt, n, (a - b).abs().sum(..)))
        });
        outputs! { gt, n, d }
    }),
    // Gathers rows of a table at i32 indices.
    &program(&["i32_gather"], ["table", "ids"], |[table, ids]| {
        let (_, (ys, next)) = scan(constant(0i64), ids, |n, i| {
            let n = n + 1;
            (n, (table.take(0, i) * n.cast(table.dtype()), (i + 1) % 6))
        });
        outputs! { ys, next }
    }),
    // Computes powers modulo 1009 by repeated squaring: each step runs an inner loop over the exponent's bits.
    &program(&["i64_modular_power"], ["base", "exponents"], |[base, exponents]| {
        let ((), ys) = scan((), exponents, |(), e| {
            let bits = ScanOptions::new().length(4);
            let ((power, _, _), ()) = scan_with(bits, (constant(1i64), base, e), (), |(r, b, e), ()| {
                ((select((e % 2).gt(0), r * b % 1009, r), b * b % 1009, e / 2), ())
            });
            ((), power)
        });
        outputs! { ys }
    }),
];
