//! Associative scans with different lengths, directions, axes and `combine` functions.

use funcify::prelude::*;

use super::*;
use crate::cases::associative::affine;

pub(super) fn cases() -> Cases {
    let mut cases = all([
        // The elements are the matrices x, y and z. In reverse, the accumulated matrix is the left operand of each
        // product, so the ys are z y x = [[2, 2], [1, 2]], z y = [[2, 0], [1, 1]] and z.
        {
            let (x, y, z) = ([1f32, 1., 0., 1.], [1f32, 0., 1., 1.], [2f32, 0., 0., 1.]);
            case("associative_reverse_keeps_the_order", |g| {
                let xs = g.input("xs", "f32[T,2,2]");
                outputs! { ys: associative_scan_with(options(true), xs, Value::matmul) }
            })
            .on([tensor::<f32, 3, 12>([3, 2, 2], std::array::from_fn(|index| [x, y, z].concat()[index]))])
            .gives([("ys", tensor([3, 2, 2], [2f32, 2., 1., 2., 2., 0., 1., 1., 2., 0., 0., 1.]))])
        },
        last_axis(3, row([1i64, 3, 6]), row([6i64, 5, 3])),
        last_axis(5, row([1i64, 3, 6, 10, 15]), row([15i64, 14, 12, 9, 5])),
        last_axis(7, row([1i64, 3, 6, 10, 15, 21, 28]), row([28i64, 27, 25, 22, 18, 13, 7])),
        // Computes h[t] = a[t] * h[t-1] + b[t] by an associative scan and by a loop.
        {
            let h = row([1i64, 3, 7, 6, 31, -25]);
            case("associative_equals_the_recurrence", |g| {
                let (a, b) = (g.input("a", "i64[T]"), g.input("b", "i64[T]"));
                let looped = scan(constant(0i64), (a, b), |h, (a, b)| (a * h + b, a * h + b)).1;
                outputs! { h: associative_scan((a, b), affine).1, looped }
            })
            .on([row([7i64, 2, 3, 1, 5, -1]), row([1i64, 1, -2, -1, 1, 6])])
            .gives([("h", h.clone()), ("looped", h)])
        },
        // Computes the parity of the flags up to each position.
        case_on("associative_exclusive_or", [("xs: bool[T]", row([true, false, true, true, false, false, true]))])
            .runs(|[xs]| outputs! { ys: associative_scan(xs, |a, b| a ^ b) })
            .gives([("ys", row([true, true, false, true, true, true, false]))]),
        // `combine` captures a value.
        case_on("associative_captured_modulus", [("xs: i64[T]", row([3i64, 4, 5, 6, 2])), ("m: i64[]", scalar(7i64))])
            .runs(|[xs, m]| outputs! { ys: associative_scan(xs, |a, b| (a * b) % m) })
            .gives([("ys", row([3i64, 5, 4, 3, 6]))]),
        // `combine` returns a captured value, which does not depend on the operands, and a leaf of its second operand.
        case("associative_result_without_lanes", |g| {
            let (xs, c) = (g.input("xs", "f32[T]"), g.input("c", "f32[]"));
            let (constants, same) = associative_scan((xs, xs), |(_, _), (_, b)| (c, b));
            outputs! { constants, same }
        })
        .on([row([1f32, 2., 3., 4.]), scalar(9f32)])
        .gives([("constants", row([1f32, 9., 9., 9.])), ("same", row([1f32, 2., 3., 4.]))]),
        // The first `combine` computes a maximum with a `cond`. The second one computes sums with a scan.
        case("associative_loops_and_choices_inside", |g| {
            let (xs, zs) = (g.input("xs", "i64[T]"), g.input("zs", "i64[T,2]"));
            let largest = associative_scan(xs, |a, b| cond(a.gt(b), || a, || b));
            let sums = associative_scan(zs, |a, b| scan((), (a, b), |(), (a, b)| ((), a + b)).1);
            outputs! { largest, sums }
        })
        .on([row([2i64, 1, 5, 4, 3]), tensor([5, 2], [1i64, 10, 2, 20, 3, 30, 4, 40, 5, 50])])
        .gives([
            ("largest", row([2i64, 2, 5, 5, 5])),
            ("sums", tensor([5, 2], [1i64, 10, 3, 30, 6, 60, 10, 100, 15, 150])),
        ]),
        // The elements are rows, and `combine` contains an associative scan, which computes cumulative maxima.
        case("associative_nested", |g| {
            let xs = g.input("xs", "i64[T,3]");
            // This `combine` is associative, because the cumulative maximum is idempotent and distributes over
            // `maximum`.
            let maxima = |x: Value| associative_scan(x, |a, b| a.maximum(b));
            outputs! { ys: associative_scan(xs, |a, b| maxima(a.maximum(b))) }
        })
        .on([tensor([4, 3], [1i64, 1, 2, 0, 3, 3, 2, 2, 2, 1, 1, 7])])
        .gives([("ys", tensor([4, 3], [1i64, 1, 2, 1, 3, 3, 2, 3, 3, 2, 3, 7]))]),
        // `combine` contains an associative scan that does not depend on the operands of `combine`.
        case("associative_invariant_nested", |g| {
            let (xs, w) = (g.input("xs", "i64[T]"), g.input("w", "i64[S]"));
            outputs! { ys: associative_scan(xs, |a, b| a + b + associative_scan(w, |a, b| a * b).index(0, -1)) }
        })
        .on([row([1i64, 2, 3, 4, 5, 6]), row([2i64, 5, 1])])
        .gives([("ys", row([1i64, 13, 26, 40, 55, 71]))]),
        // Under `vmap`, both the elements and a captured value have lanes.
        case("associative_lanes_with_a_captured_lane", |g| {
            let (xs, c) = (g.input("xs", "i64[B,T]"), g.input("c", "i64[B]"));
            outputs! { ys: vmap((xs, c), |(xs, c)| associative_scan_with(options(true), xs, |a, b| a + b + c)) }
        })
        .on([tensor([2, 3], [1i64, 2, 3, 4, 5, 6]), row([10i64, 20])])
        .gives([("ys", tensor([2, 3], [26i64, 15, 3, 55, 31, 6]))]),
        // Under `vmap`, one leaf has lanes from the start, one gains them in `combine`, and one has none.
        {
            let sums = tensor([2, 3], [1i64, 3, 6, 1, 3, 6]);
            case("associative_one_leaf_with_lanes", |g| {
                let (xs, zs) = (g.input("xs", "i64[B,T]"), g.input("zs", "i64[T]"));
                let (ys, mixed, alone) = vmap(xs, |xs| {
                    associative_scan((xs, zs, zs), |(x1, m1, z1), (x2, m2, z2)| {
                        // The `select` always returns 0 for these inputs, so the second leaf is a cumulative sum.
                        (x1.maximum(x2), m1 + m2 + select(x2.gt(0), 0, x2), z1 + z2)
                    })
                });
                outputs! { ys, mixed, alone }
            })
            .on([tensor([2, 3], [1i64, 3, 2, 0, 1, 1]), row([1i64, 2, 3])])
            .gives([
                ("ys", tensor([2, 3], [1i64, 3, 3, 0, 1, 1])),
                ("mixed", sums.clone()),
                ("alone", sums),
            ])
        },
        // The elements are tensors of shape [0].
        {
            let xs = empty::<f32, 2>([5, 0]);
            case_on("associative_elements_without_elements", [("xs: f32[T,0]", xs.clone())])
                .runs(|[xs]| outputs! { ys: associative_scan(xs, |a, b| a + b) })
                .gives([("ys", xs)])
        },
    ])?;
    for length in [0, 1, 2, 3, 4, 5, 6, 7, 8, 13] {
        cases.push(sums(length, false)?);
        cases.push(sums(length, true)?);
        cases.push(strings(length, false)?);
        cases.push(strings(length, true)?);
    }
    Ok(cases)
}

fn options(reverse: bool) -> AssociativeScanOptions {
    let options = AssociativeScanOptions::new();
    if reverse { options.reverse() } else { options }
}

fn suffix(reverse: bool) -> &'static str {
    if reverse { "_reverse" } else { "" }
}

fn vector(numbers: Vec<i64>) -> HostTensor {
    let count = numbers.len();
    HostTensor::from_vec(numbers, [count]).expect("the number of elements matches the shape")
}

/// Builds a case that computes the cumulative sums of 1, 2, ..., `length`, which may be 0.
fn sums(length: i64, reverse: bool) -> OneCase {
    let program =
        |g: &Builder| outputs! { ys: associative_scan_with(options(reverse), g.input("xs", "i64[T]"), |a, b| a + b) };
    let total = |n: i64| n * (n + 1) / 2;
    let up = (1..=length).map(total);
    let ys = if reverse { (1..=length).map(|t| total(length) - total(t - 1)).collect() } else { up.collect() };
    case(format!("associative_sums_of_{length}{}", suffix(reverse)), program)
        .on([vector((1..=length).collect())])
        .gives([("ys", vector(ys))])
}

/// Builds a case that concatenates digits into numbers. Each element is a pair: 10 to the power of the number of
/// digits, and the number that the digits form. Concatenation does not commute, so swapped operands change the result.
/// At most 18 digits fit into an i64.
fn strings(length: i64, reverse: bool) -> OneCase {
    let digits: Vec<i64> = (0..length).map(|t| t % 9 + 1).collect();
    let word = |digits: &mut dyn Iterator<Item = &i64>| digits.fold(0, |word, digit| 10 * word + digit);
    let ys = (0..digits.len()).map(|t| match reverse {
        false => word(&mut digits[..=t].iter()),
        true => word(&mut digits[t..].iter().rev()),
    });
    let ys = vector(ys.collect());
    case(format!("associative_words_of_{length}{}", suffix(reverse)), |g| {
        let (tens, digits) = (g.input("tens", "i64[T]"), g.input("digits", "i64[T]"));
        let join = |(s, a): (Value, Value), (t, b): (Value, Value)| (s * t, a * t + b);
        outputs! { ys: associative_scan_with(options(reverse), (tens, digits), join).1 }
    })
    .on([vector(vec![10; digits.len()]), vector(digits)])
    .gives([("ys", ys)])
}

/// Builds a case that computes cumulative sums along the last axis of a matrix with two equal rows, in both directions.
fn last_axis(length: usize, up: HostTensor, down: HostTensor) -> OneCase {
    let twice = |x: &HostTensor| HostTensor::from_fn(x.dtype(), &[2, length], |index| x.at(&index[1..]));
    case(format!("associative_last_axis_of_{length}"), |g| {
        let xs = g.input("xs", "i64[2,T]");
        let sums = |reverse| associative_scan_with(options(reverse).axis(-1), xs, |a, b| a + b);
        outputs! { up: sums(false), down: sums(true) }
    })
    .on([twice(&vector((1..=length as i64).collect()))])
    .gives([("up", twice(&up)), ("down", twice(&down))])
}
