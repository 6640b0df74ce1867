//! Category `associative_scan`: associative scans.

use funcify::prelude::*;

use super::*;

pub(super) const PROGRAMS: Programs = &[
    &program(&["as_add", "as_add_f64"], ["xs"], as_add),
    &program(&["as_add_reverse"], ["xs"], |[xs]| outputs! { ys: associative_scan_with(reverse(), xs, |a, b| a + b) }),
    &program(&["as_mul"], ["xs"], as_mul),
    &program(&["as_max"], ["xs"], |[xs]| outputs! { ys: associative_scan(xs, |a, b| a.maximum(b)) }),
    &program(&["as_min_reverse"], ["xs"], |[xs]| {
        outputs! { ys: associative_scan_with(reverse(), xs, |a, b| a.minimum(b)) }
    }),
    &program(&["as_matmul", "as_matmul_f64"], ["xs"], |[xs]| outputs! { ys: associative_scan(xs, Value::matmul) }),
    // In reverse, the accumulated matrix is the left operand.
    &program(&["as_matmul_reverse"], ["xs"], |[xs]| {
        outputs! { ys: associative_scan_with(reverse(), xs, Value::matmul) }
    }),
    &program(&["as_affine", "as_affine_f64"], ["a", "b"], |[a, b]| {
        let (p, h) = associative_scan((a, b), affine);
        outputs! { p, h }
    }),
    &program(&["as_affine_reverse"], ["a", "b"], |[a, b]| {
        let (p, h) = associative_scan_with(reverse(), (a, b), affine);
        outputs! { p, h }
    }),
    // With a single element, `combine` never runs.
    &program(&["as_length_one"], ["xs"], |[xs]| outputs! { ys: associative_scan(xs, |a, b| a * b + a) }),
    &program(&["as_length_two"], ["xs"], as_mul),
    &program(&["as_length_thirteen"], ["a", "b"], |[a, b]| outputs! { h: associative_scan((a, b), affine).1 }),
    &program(&["as_axis1"], ["xs"], |[xs]| {
        let options = AssociativeScanOptions::new().axis(1);
        outputs! { ys: associative_scan_with(options, xs, |a, b| a + b + 0.1 * a * b) }
    }),
    &program(&["as_last_axis_reverse"], ["xs"], |[xs]| {
        outputs! { ys: associative_scan_with(reverse().axis(-1), xs, |a, b| a * b) }
    }),
    &program(&["as_logaddexp"], ["xs"], |[xs]| {
        let combine = |a: Value, b: Value| {
            let m = a.maximum(b).stop_gradient();
            m + ((a - m).exp() + (b - m).exp()).log()
        };
        outputs! { ys: associative_scan(xs, combine) }
    }),
    &program(&["as_int_add"], ["xs"], as_add),
    &program(&["as_bool_or"], ["xs"], |[xs]| outputs! { ys: associative_scan(xs, |a, b| a | b) }),
    // The sum restarts at each set flag.
    &program(&["as_segmented_sum"], ["starts", "xs"], |[starts, xs]| {
        let combine =
            |(f1, v1): (Value, Value), (f2, v2): (Value, Value)| (f1.maximum(f2), select(f2.gt(0), v2, v1 + v2));
        outputs! { ys: associative_scan((starts, xs), combine).1 }
    }),
    // Composes functions that are represented as lookup tables.
    &program(&["as_function_composition"], ["maps"], |[maps]| {
        outputs! { ys: associative_scan(maps, |f, g| g.take(0, f)) }
    }),
    // Multiplies matrices in the max-plus semiring.
    &program(&["as_max_plus"], ["xs"], |[xs]| {
        outputs! { ys: associative_scan(xs, |a, b| (a.unsqueeze(2) + b.unsqueeze(0)).max(1)) }
    }),
    &program(&["as_complex_product", "as_complex_product_f64"], ["re", "im"], |[re, im]| {
        let product = |(r1, i1): (Value, Value), (r2, i2): (Value, Value)| (r1 * r2 - i1 * i2, r1 * i2 + i1 * r2);
        let (re, im) = associative_scan((re, im), product);
        outputs! { re, im }
    }),
    // Merges counts, means and sums of squared deviations.
    &program(&["as_welford"], ["xs"], |[xs]| {
        let (n, means, s) = associative_scan((xs.ones_like(), xs, xs.zeros_like()), |(n1, m1, s1), (n2, m2, s2)| {
            let (n, d) = (n1 + n2, m2 - m1);
            (n, m1 + d * n2 / n, s1 + s2 + d.square() * n1 * n2 / n)
        });
        outputs! { means, variances: s / n }
    }),
    &program(&["as_left_projection"], ["xs"], |[xs]| outputs! { ys: associative_scan(xs, |a, _| a * 1.0) }),
    &program(&["as_quaternions"], ["q"], |[q]| {
        let product = |a: Value, b: Value| {
            let ([aw, ax, ay, az], [bw, bx, by, bz]) = (a.unstack(0), b.unstack(0));
            let parts = [
                aw * bw - ax * bx - ay * by - az * bz,
                aw * bx + ax * bw + ay * bz - az * by,
                aw * by - ax * bz + ay * bw + az * bx,
                aw * bz + ax * by - ay * bx + az * bw,
            ];
            stack(&parts, 0)
        };
        outputs! { ys: associative_scan(q, product) }
    }),
    // The batch axis is axis 0 of `a`, and axis 1 of `b`.
    &program(&["vmap_associative_scan"], ["a", "b"], |[a, b]| {
        let options = VmapOptions::new().in_axes([Some(0), Some(1)]);
        outputs! { h: vmap_with(options, (a, b), |elements| associative_scan(elements, affine).1) }
    }),
];

/// Composes two affine functions. The result applies `x -> a1 * x + b1` first, and then `x -> a2 * x + b2`.
pub(super) fn affine((a1, b1): (Value, Value), (a2, b2): (Value, Value)) -> (Value, Value) {
    (a2 * a1, a2 * b1 + b2)
}

fn reverse() -> AssociativeScanOptions {
    AssociativeScanOptions::new().reverse()
}

fn as_add([xs]: [Value; 1]) -> Outputs {
    outputs! { ys: associative_scan(xs, |a, b| a + b) }
}

fn as_mul([xs]: [Value; 1]) -> Outputs {
    outputs! { ys: associative_scan(xs, |a, b| a * b) }
}
