//! Category `associative_scan`: running combinations.

use funcify::{
    AssociativeScanOptions, Value, VmapOptions, associative_scan, associative_scan_with, select, stack, vmap_with,
};

use super::{Inputs, Outputs, Programs, outputs};

pub(super) const PROGRAMS: Programs = &[
    (&["as_add", "as_add_f64"], as_add),
    (&["as_add_reverse"], |g| outputs! { ys: associative_scan_with(reverse(), g.input("xs"), |a, b| a + b) }),
    (&["as_mul"], as_mul),
    (&["as_max"], |g| outputs! { ys: associative_scan(g.input("xs"), |a, b| a.maximum(b)) }),
    (&["as_min_reverse"], |g| outputs! { ys: associative_scan_with(reverse(), g.input("xs"), |a, b| a.minimum(b)) }),
    (&["as_matmul", "as_matmul_f64"], |g| outputs! { ys: associative_scan(g.input("xs"), Value::matmul) }),
    // The accumulated matrix is on the left.
    (&["as_matmul_reverse"], |g| outputs! { ys: associative_scan_with(reverse(), g.input("xs"), Value::matmul) }),
    (&["as_affine", "as_affine_f64"], |g| {
        let [a, b] = g.get(["a", "b"]);
        let (p, h) = associative_scan((a, b), affine);
        outputs! { p, h }
    }),
    (&["as_affine_reverse"], |g| {
        let [a, b] = g.get(["a", "b"]);
        let (p, h) = associative_scan_with(reverse(), (a, b), affine);
        outputs! { p, h }
    }),
    // Nothing is combined.
    (&["as_length_one"], |g| outputs! { ys: associative_scan(g.input("xs"), |a, b| a * b + a) }),
    (&["as_length_two"], as_mul),
    (&["as_length_thirteen"], |g| {
        let [a, b] = g.get(["a", "b"]);
        outputs! { h: associative_scan((a, b), affine).1 }
    }),
    (&["as_axis1"], |g| {
        let [xs] = g.get(["xs"]);
        let options = AssociativeScanOptions::new().axis(1);
        outputs! { ys: associative_scan_with(options, xs, |a, b| a + b + 0.1 * a * b) }
    }),
    (
        &["as_last_axis_reverse"],
        |g| outputs! { ys: associative_scan_with(reverse().axis(-1), g.input("xs"), |a, b| a * b) },
    ),
    (&["as_logaddexp"], |g| {
        let [xs] = g.get(["xs"]);
        let combine = |a: Value, b: Value| {
            let m = a.maximum(b).stop_gradient();
            m + ((a - m).exp() + (b - m).exp()).log()
        };
        outputs! { ys: associative_scan(xs, combine) }
    }),
    (&["as_int_add"], as_add),
    (&["as_bool_or"], |g| outputs! { ys: associative_scan(g.input("xs"), |a, b| a | b) }),
    // The sum begins anew where a flag is set.
    (&["as_segmented_sum"], |g| {
        let [starts, xs] = g.get(["starts", "xs"]);
        let combine =
            |(f1, v1): (Value, Value), (f2, v2): (Value, Value)| (f1.maximum(f2), select(f2.gt(0), v2, v1 + v2));
        outputs! { ys: associative_scan((starts, xs), combine).1 }
    }),
    // Functions as tables.
    (&["as_function_composition"], |g| outputs! { ys: associative_scan(g.input("maps"), |f, g| g.take(0, f)) }),
    // Matrix products in the (max, +) semiring.
    (
        &["as_max_plus"],
        |g| outputs! { ys: associative_scan(g.input("xs"), |a, b| (a.unsqueeze(2) + b.unsqueeze(0)).max(1)) },
    ),
    (&["as_complex_product", "as_complex_product_f64"], |g| {
        let [re, im] = g.get(["re", "im"]);
        let product = |(r1, i1): (Value, Value), (r2, i2): (Value, Value)| (r1 * r2 - i1 * i2, r1 * i2 + i1 * r2);
        let (re, im) = associative_scan((re, im), product);
        outputs! { re, im }
    }),
    // Merging of counts, means and sums of squared deviations.
    (&["as_welford"], |g| {
        let [xs] = g.get(["xs"]);
        let (n, means, s) = associative_scan((xs.ones_like(), xs, xs.zeros_like()), |(n1, m1, s1), (n2, m2, s2)| {
            let (n, d) = (n1 + n2, m2 - m1);
            (n, m1 + d * n2 / n, s1 + s2 + d.square() * n1 * n2 / n)
        });
        outputs! { means, variances: s / n }
    }),
    (&["as_left_projection"], |g| outputs! { ys: associative_scan(g.input("xs"), |a, _| a * 1.0) }),
    (&["as_quaternions"], |g| {
        let [q] = g.get(["q"]);
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
    // Lanes along axis 0 of one leaf and axis 1 of the other.
    (&["vmap_associative_scan"], |g| {
        let [a, b] = g.get(["a", "b"]);
        let options = VmapOptions::new().in_axes([Some(0), Some(1)]);
        outputs! { h: vmap_with(options, (a, b), |elements| associative_scan(elements, affine).1) }
    }),
];

/// The composition of x -> a1 * x + b1 and x -> a2 * x + b2.
pub(super) fn affine((a1, b1): (Value, Value), (a2, b2): (Value, Value)) -> (Value, Value) {
    (a2 * a1, a2 * b1 + b2)
}

fn reverse() -> AssociativeScanOptions {
    AssociativeScanOptions::new().reverse()
}

fn as_add(g: &Inputs<'_>) -> Outputs {
    let [xs] = g.get(["xs"]);
    outputs! { ys: associative_scan(xs, |a, b| a + b) }
}

fn as_mul(g: &Inputs<'_>) -> Outputs {
    let [xs] = g.get(["xs"]);
    outputs! { ys: associative_scan(xs, |a, b| a * b) }
}
