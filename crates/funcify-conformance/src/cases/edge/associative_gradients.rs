//! Gradients of associative scans: interdependent leaves, directions, lengths, and infinite cotangents.

use funcify::prelude::*;

use super::*;
use crate::cases::associative::affine;

pub(super) fn cases() -> Cases {
    let mut cases = all([
        // Differentiates cumulative maxima. The infinite cotangent of the last position must reach only the last
        // element, which is the maximum there. The equal elements at positions 1 and 3 share the cotangent of position
        // 3 equally.
        case_on(
            "gradient_of_maxima_with_infinity",
            [("xs: f32[T]", row([1f32, 3., 2., 3., 5.])), ("ct: f32[T]", row([1f32, 2., 4., 8., f32::INFINITY]))],
        )
        .runs(|[xs, ct]| vjp(xs, |xs| associative_scan(xs, |a, b| a.maximum(b)), |_| ct).1)
        .gives([("out", row([1f32, 10., 0., 4., f32::INFINITY]))]),
        // Differentiates sums that restart at each flag. No cotangent may flow backward past a flag.
        case("gradient_of_runs_with_infinity", |g| {
            let (flags, xs, ct) = (g.input("flags", "bool[T]"), g.input("xs", "f32[T]"), g.input("ct", "f32[T]"));
            let combine = |(f, x): (Value, Value), (g, y): (Value, Value)| (f | g, select(g, y, x + y));
            vjp(xs, |xs| associative_scan((flags, xs), combine).1, |_| ct).1
        })
        .on([
            row([true, false, false, true, false]),
            row([1f32, 2., 3., 4., 5.]),
            row([1f32, 10., 100., 1000., f32::INFINITY]),
        ])
        .gives([("out", row([111f32, 110., 100., f32::INFINITY, f32::INFINITY]))]),
        // Differentiates the length of the longest path. A path may start at any position `i` with length `start[i]`,
        // and adds `step[j]` at each later position `j`. The longest path starts at position 1 and has length 4 + 1 + 2
        // = 7, so these three terms have gradient 1. Paths from positions 0, 2 and 3 have lengths 6, 5 and 6.
        case("gradient_of_a_longest_path", |g| {
            let (step, start) = (g.input("step", "f32[T]"), g.input("start", "f32[T]"));
            let combine = |(s, b): (Value, Value), (t, c): (Value, Value)| (s + t, (b + t).maximum(c));
            grad((step, start), |leaves| associative_scan(leaves, combine).1.index(0, -1))
        })
        .on([row([9f32, 2., 1., 2.]), row([1f32, 4., 3., 6.])])
        .gives([("out_0", row([0f32, 0., 1., 1.])), ("out_1", row([0f32, 1., 0., 0.]))]),
        // `combine` computes k a b / (a + b), which is undefined for a = b = 0. Only the first element is 0, and
        // `combine` never receives it as both operands.
        case_on(
            "gradient_with_an_undefined_first_combination",
            [("xs: f32[T]", row([0f32, 2.])), ("k: f32[]", scalar(3f32))],
        )
        .runs(|[xs, k]| grad((xs, k), |(xs, k)| associative_scan(xs, |a, b| k * a * b / (a + b)).sum(0)))
        .gives([("out_0", row([4f32, 0.])), ("out_1", scalar(0f32))]),
        // Differentiates the last result, y, with respect to the elements x0, x1 and x2 and to the captured value k.
        // The equation 1 + k y = (1 + k x0)(1 + k x1)(1 + k x2) implies y = x0 + x1 + x2 + k (x0 x1 + x0 x2 + x1 x2) +
        // k k x0 x1 x2.
        case_on("gradient_by_a_captured_value", [("xs: f32[T]", row([2f32, 3., 5.])), ("k: f32[]", scalar(2f32))])
            .runs(|[xs, k]| grad((xs, k), |(xs, k)| associative_scan(xs, |a, b| a + b + k * a * b).index(0, -1)))
            .gives([("out_0", row([77f32, 55., 35.])), ("out_1", scalar(31f32 + 2. * 2. * 30.))]),
        // Computes second derivatives of the last value of a recurrence, a1 a2 b0 + a2 b1 + b2, in two ways: as a
        // Hessian-vector product with a vector of ones, and as the gradient of the sum of all first derivatives. The
        // first derivatives are (0, a2 b0, a1 b0 + b1) with respect to a, and (a1 a2, a2, 1) with respect to b. The
        // gradient of their sum is (0, b0 + a2, b0 + a1 + 1) with respect to a, and (a1 + a2, 1, 0) with respect to b.
        {
            let (a, b) = (row([0f32, 7., 10.]), row([8f32, 1., 0.]));
            case("second_derivatives_of_a_recurrence", |g| {
                let (a, b) = (g.input("a", "f32[T]"), g.input("b", "f32[T]"));
                let last = |leaves: (Value, Value)| associative_scan(leaves, affine).1.index(0, -1);
                let ones = (a.ones_like(), b.ones_like());
                let slopes = |leaves: (Value, Value)| {
                    let (of_a, of_b) = grad(leaves, last);
                    of_a.sum(0) + of_b.sum(0)
                };
                (hvp((a, b), ones, last), grad((a, b), slopes))
            })
            .on([row([7f32, 5., 3.]), row([4f32, 3., 2.])])
            .gives([("out_0_0", a.clone()), ("out_0_1", b.clone()), ("out_1_0", a), ("out_1_1", b)])
        },
        // Entry (i, j) of the Hessian, for i != j, is the product of the two elements other than i and j, one of which
        // may be zero.
        case_on("hessian_of_a_running_product", [("xs: f32[4]", row([2f32, 0., 3., 5.]))])
            .runs(|[xs]| hessian(xs, |xs| associative_scan(xs, |a, b| a * b).index(0, -1)))
            .gives([("out", tensor([4, 4], [0f32, 15., 0., 0., 15., 0., 10., 6., 0., 10., 0., 0., 0., 6., 0., 0.]))]),
    ])?;
    for length in [0, 1, 2, 3, 7, 8] {
        cases.push(recurrence(length, false)?);
        cases.push(recurrence(length, true)?);
    }
    for length in [1, 4, 5] {
        cases.push(matrices(length, false)?);
        cases.push(matrices(length, true)?);
    }
    Ok(cases)
}

fn options(reverse: bool) -> AssociativeScanOptions {
    let options = AssociativeScanOptions::new();
    if reverse { options.reverse() } else { options }
}

fn name(of: &str, length: usize, reverse: bool) -> String {
    format!("gradient_of_{of}_of_{length}{}", if reverse { "_reverse" } else { "" })
}

fn vector(numbers: Vec<f32>) -> HostTensor {
    let count = numbers.len();
    HostTensor::from_vec(numbers, [count]).expect("the number of elements matches the shape")
}

/// Builds a case that differentiates the recurrence h[t] = a[t] h[t-1] + b[t], given the cotangents c of h. The
/// gradient of `b[s]` is the sum over `t >= s` of c[t] times a[s+1] ... a[t]. The gradient of `a[s]` is the gradient of
/// `b[s]`, times h[s-1].
fn recurrence(length: usize, reverse: bool) -> OneCase {
    let [a, b, c] = [[2f32, -1., 3., 1.], [1., 2., -2., 3.], [1., -1., 2., 1.]]
        .map(|pattern| pattern.into_iter().cycle().take(length).collect::<Vec<f32>>());
    let at = |step: usize| if reverse { length - 1 - step } else { step };
    let rates = |after: usize, to: usize| (after + 1..=to).map(|step| a[at(step)]).product::<f32>();
    let h = |to: usize| (0..=to).map(|from| b[at(from)] * rates(from, to)).sum::<f32>();
    let mut of_a = vec![0f32; length];
    let mut of_b = vec![0f32; length];
    for step in 0..length {
        of_b[at(step)] = (step..length).map(|to| c[at(to)] * rates(step, to)).sum();
        of_a[at(step)] = if step == 0 { 0. } else { of_b[at(step)] * h(step - 1) };
    }
    let outputs = [("out_0", vector(of_a)), ("out_1", vector(of_b))];
    case(name("a_recurrence", length, reverse), move |g| {
        let (a, b, c) = (g.input("a", "f32[T]"), g.input("b", "f32[T]"), g.input("c", "f32[T]"));
        grad((a, b), |leaves| (associative_scan_with(options(reverse), leaves, affine).1 * c).sum(0))
    })
    .on([vector(a), vector(b), vector(c)])
    .gives(outputs)
}

/// Builds a case that multiplies matrices whose entries are separate leaves, and differentiates entry (0, 1) of the
/// product. With respect to entry (i, j) of a matrix, the derivative is entry (0, i) of the product of the matrices
/// before it, times entry (j, 1) of the product of the matrices after it.
fn matrices(length: usize, reverse: bool) -> OneCase {
    let product = |[a, b, c, d]: [Value; 4], [e, f, g, h]: [Value; 4]| {
        [a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h]
    };
    let last = if reverse { 0 } else { -1 };
    type Matrix = [f32; 4];
    let times = |x: Matrix, y: Matrix| -> Matrix {
        [x[0] * y[0] + x[1] * y[2], x[0] * y[1] + x[1] * y[3], x[2] * y[0] + x[3] * y[2], x[2] * y[1] + x[3] * y[3]]
    };
    let some: [Matrix; 5] =
        [[1., 2., 0., 1.], [0., -1., 1., 2.], [2., 1., 1., 1.], [1., 0., -1., 1.], [1., 1., 2., 0.]];
    let elements = &some[..length];
    let all = |steps: std::ops::Range<usize>| {
        let order = steps.map(|step| elements[if reverse { length - 1 - step } else { step }]);
        order.fold([1., 0., 0., 1.], times)
    };
    let mut slopes = vec![[0f32; 4]; length];
    for step in 0..length {
        let (before, after) = (all(0..step), all(step + 1..length));
        slopes[if reverse { length - 1 - step } else { step }] =
            [before[0] * after[1], before[0] * after[3], before[1] * after[1], before[1] * after[3]];
    }
    let entries = |matrices: &[Matrix], entry: usize| vector(matrices.iter().map(|matrix| matrix[entry]).collect());
    let [a, b, c, d] = [0, 1, 2, 3].map(|entry| entries(&slopes, entry));
    case(name("matrices_by_entries", length, reverse), move |g| {
        let entries = ["a", "b", "c", "d"].map(|name| g.input(name, "f32[T]"));
        grad(entries, |entries| associative_scan_with(options(reverse), entries, product)[1].index(0, last))
    })
    .on([0, 1, 2, 3].map(|entry| entries(elements, entry)))
    .gives([("out_0", a), ("out_1", b), ("out_2", c), ("out_3", d)])
}
