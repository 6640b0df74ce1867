//! `vmap` with lanes that behave differently, and `map` in chunks.

use funcify::prelude::*;
use funcify::{MapOptions, map_with, vmap_with};

use super::*;

pub(super) fn cases() -> Cases {
    let mut cases = all([
        // Each lane selects a branch. Where the square root is undefined, the result is 0 and not NaN.
        case_on("lanes_with_an_untaken_root", [("x: f32[B]", row([4f32, 0., -1.]))])
            .runs(|[x]| outputs! { y: vmap(x, |x| cond(x.gt(0.0), || x.sqrt(), || x.zeros_like())) })
            .gives([("y", row([2f32, 0., 0.]))]),
        // The predicate varies along the outer lanes, and the operand varies along the inner lanes.
        case_on("lanes_of_lanes_of_a_choice", [("p: bool[A]", row([true, false])), ("x: f32[B]", row([1f32, 2., 3.]))])
            .runs(|[p, x]| outputs! { y: vmap(p, |p| vmap(x, |x| cond(p, || x, || -x))) })
            .gives([("y", tensor([2, 3], [1f32, 2., 3., -1., -2., -3.]))]),
        // Each lane has its own branch index, which is clamped if it is out of range.
        case_on(
            "lanes_with_a_clamped_index",
            [("index: i32[B]", row([-5i32, 0, 1, 2, 9])), ("x: f32[]", scalar(2f32))],
        )
        .runs(|[index, x]| outputs! { y: vmap(index, |index| switch(index, [&|| x, &|| x * 10.0, &|| x * 20.0])) })
        .gives([("y", row([2f32, 2., 20., 40., 40.]))]),
        // All lanes share the index. One result depends on the lane in only one of the branches.
        case("lanes_with_a_shared_index", |g| {
            let (index, x, z) = (g.input("index", "i64[]"), g.input("x", "f32[B]"), g.input("z", "f32[]"));
            let (y, shared) = vmap(x, |x| switch(index, [&|| (x, z), &|| (z, z + 1.0)]));
            outputs! { y, shared }
        })
        .on([scalar(1i64), row([1f32, 2.]), scalar(7f32)])
        .gives([("y", row([7f32, 7.])), ("shared", row([8f32, 8.]))]),
        // Each lane loops over its own range. One of the ranges is empty.
        case_on("lanes_that_count", [("lower: i64[B]", row([0i64, 3, 5])), ("upper: i64[B]", row([4i64, 5, 2]))])
            .runs(|[lower, upper]| {
                let sum =
                    vmap((lower, upper), |(lower, upper)| fori_loop(lower, upper, constant(100i64), |i, sum| sum + i));
                outputs! { sum }
            })
            .gives_dynamic([("sum", row([106i64, 107, 100]))]),
        buffer_counted_by_lane(false),
        buffer_counted_by_lane(true),
        // The condition is the same for all lanes. One carry starts with the same value in all lanes, but differs from
        // lane to lane after the first step.
        case_on("lanes_of_a_shared_while", [("x: i64[B]", row([10i64, 20])), ("start: i64[]", scalar(0i64))])
            .runs(|[x, start]| {
                let (n, sum) = vmap(x, |x| while_loop((start, start), |(n, _)| n.lt(3), |(n, sum)| (n + 1, sum + x)));
                outputs! { n, sum }
            })
            .gives_dynamic([("n", row([3i64, 3])), ("sum", row([30i64, 60]))]),
        // Only the lane that starts at 0 runs steps: 0 -> 2 -> 2 exp(4). The other lanes must keep their values,
        // although 3e38 would overflow if its lane ran the same steps.
        case_on("lanes_that_would_overflow", [("x: f32[B]", row([3e38f32, f32::INFINITY, 0., f32::NAN]))])
            .runs(|[x]| outputs! { y: vmap(x, |x| while_loop(x, |x| x.lt(100.0), |x| (x * x).exp() * 2.0)) })
            .gives_dynamic([("y", row([3e38f32, f32::INFINITY, 2.0 * 4f64.exp() as f32, f32::NAN]))]),
        // The bound limits the number of steps of each lane separately.
        case_on("lanes_with_a_bound", [("x: i64[B]", row([0i64, 4, 9])), ("limit: i64[]", scalar(6i64))])
            .runs(|[x, limit]| outputs! { n: vmap(x, |x| while_loop_bounded(3, x, |n| n.lt(limit), |n| n + 1)) })
            .gives([("n", row([3i64, 6, 9]))]),
        until_of_each_lane(false),
        until_of_each_lane(true),
        // A finished lane stays finished, even if its exit condition would be false in a later step.
        case("lanes_that_stay_ended", |g| {
            let (limit, xs) = (g.input("limit", "i64[B]"), g.input("xs", "i64[T]"));
            let sum = vmap(limit, |limit| {
                let body = |sum: Value, x| (sum + x, (), (sum + x).ge(limit));
                scan_until(limit.zeros_like(), xs, body).0
            });
            outputs! { sum }
        })
        .on([row([1i64, 4, 99]), row([1i64, -5, 8, 4])])
        .gives([("sum", row([1i64, 4, 8]))]),
        // All lanes share the exit condition, so the ys have only the rows of the steps that ran.
        case_on("lanes_that_end_together", [("scale: i64[B]", row([1i64, 10])), ("xs: i64[T]", row([1i64, 2, 3, 4]))])
            .runs(|[scale, xs]| {
                let (last, ys) = vmap(scale, |scale| {
                    scan_until(scale.zeros_like(), xs, |sum, x| (sum + x * scale, sum + x * scale, x.ge(3)))
                });
                outputs! { last, ys }
            })
            .gives([("last", row([6i64, 60])), ("ys", tensor([2, 3], [1i64, 3, 6, 10, 30, 60]))]),
        // The condition and the body capture values that differ from lane to lane, but the initial carry is the same
        // for all lanes.
        case("lanes_with_captured_lanes", |g| {
            let (limit, step, start) =
                (g.input("limit", "i64[B]"), g.input("step", "i64[B]"), g.input("start", "i64[]"));
            let n = vmap((limit, step), |(limit, step)| while_loop(start, |n| n.lt(limit), |n| n + step));
            outputs! { n }
        })
        .on([row([5i64, 0, 7]), row([2i64, 1, 7]), scalar(0i64)])
        .gives_dynamic([("n", row([6i64, 0, 7]))]),
        // Runs several kinds of loops with zero lanes.
        {
            let none = empty::<f32, 2>([0, 2]);
            case("no_lanes", |g| {
                let (x, n) = (g.input("x", "f32[B,2]"), g.input("n", "i64[B]"));
                let (ys, counted, looped) = vmap((x, n), |(x, n)| {
                    let ys = scan(x.sum(0), x, |c, x| (c + x, c)).1;
                    let counted = fori_loop(0, n, x, |_, x| x + 1.0);
                    (ys, counted, while_loop(n, |n| n.lt(3), |n| n + 1))
                });
                outputs! { ys, counted, looped }
            })
            .on([none.clone(), empty::<i64, 1>([0])])
            .gives_dynamic([
                ("ys", none.clone()),
                ("counted", none.clone()),
                ("looped", empty::<i64, 1>([0])),
            ])
        },
        // The batch axis is the last axis of the input and of the output.
        case("lanes_along_the_last_axis", |g| {
            let (x, w) = (g.input("x", "f32[2,B]"), g.input("w", "f32[2,2]"));
            let options = VmapOptions::new().in_axes([Some(-1), None]).out_axis(-1);
            outputs! { y: vmap_with(options, (x, w), |(x, w)| w.matmul(x)) }
        })
        .on([tensor([2, 3], [1f32, 2., 3., 4., 5., 6.]), tensor([2, 2], [1f32, 1., 0., 2.])])
        .gives([("y", tensor([2, 3], [5f32, 7., 9., 8., 10., 12.]))]),
        // The results are the same in all lanes. One of them is a captured value.
        case_on("lanes_that_change_nothing", [("x: f32[B]", row([5f32, 6.])), ("w: f32[2]", row([1f32, 3.]))])
            .runs(|[x, w]| {
                let (twice, same, one) = vmap(x, |x| (w * 2.0, w, x.ones_like()));
                outputs! { twice, same, one }
            })
            .gives([
                ("twice", tensor([2, 2], [2f32, 6., 2., 6.])),
                ("same", tensor([2, 2], [1f32, 3., 1., 3.])),
                ("one", row([1f32, 1.])),
            ]),
    ])?;
    for chunk in [1, 2, 3, 7, 10] {
        cases.push(map_in_chunks_of_a_constant(chunk)?);
    }
    for rows in [0, 1, 3, 6, 7] {
        cases.push(map_in_chunks(rows)?);
    }
    cases.extend(all([
        // Maps in chunks over an input whose number of rows is the constant 0.
        case("map_nothing_in_chunks", |g| {
            let (xs, w) = (g.input("xs", "f32[0]"), g.input("w", "f32[2]"));
            outputs! { ys: map_with(MapOptions::new().chunk(3), xs, |x| x * w) }
        })
        .on([empty::<f32, 1>([0]), row([1f32, 2.])])
        .gives([("ys", empty::<f32, 2>([0, 2]))]),
        // Maps in chunks along axis 1, and runs a scan for each column.
        {
            let ys = tensor([3, 3], [1i64, 11, 111, 2, 22, 222, 3, 33, 333]);
            case("map_in_chunks_with_a_loop", |g| {
                let xs = g.input("xs", "i64[3,T]");
                let options = MapOptions::new().chunk(2).axis(1);
                outputs! { ys: map_with(options, xs, |x| scan(constant(0i64), x, |c, x| (c + x, c + x)).1) }
            })
            .on([tensor([3, 3], [1i64, 2, 3, 10, 20, 30, 100, 200, 300])])
            .gives([("ys", ys)])
        },
    ])?);
    Ok(cases)
}

/// Builds a case with a loop in which each lane runs its own number of steps and writes that many rows of a full
/// buffer. The other rows keep their values. The loop runs in reverse if `down` is set.
fn buffer_counted_by_lane(down: bool) -> OneCase {
    let (direction, read, write) = if down { (", order=down", 1, 0) } else { ("", 0, 1) };
    let text = format!(
        "fn @edge(%rows: i64[4], %n: i64[]) {{
           %out: i64[4] = scan %n {{steps=$1{direction}}} {{
             mit-mot %old: i64[] = %out[t+{read}] from %rows
             %0: i64[] = constant 1
             %1: i64[] = add %old, %0
             %out[t+{write}] = %1
           }}
           return rows=%out
         }}"
    )
    .replace("t+0", "t");
    let rows = match down {
        false => [10i64, 20, 30, 40, 10, 11, 30, 40, 10, 11, 12, 13],
        true => [10i64, 20, 30, 40, 21, 20, 30, 40, 43, 42, 41, 40],
    };
    let graph = Graph::parse(&text).and_then(|one| one.vmap("B", VmapOptions::new().in_axes([None, Some(0)])));
    let name = if down { "lanes_that_count_down_in_a_buffer" } else { "lanes_that_count_in_a_buffer" };
    let inputs = vec![row([10i64, 20, 30, 40]), row([0i64, 1, 3])];
    case_of(name, graph).on(inputs).dynamic(true).gives([("rows", tensor([3, 4], rows))])
}

/// Builds a case with a loop in which each lane computes a cumulative sum, and exits after the step that reaches the
/// lane's limit. The loop runs from the last row to the first if `down` is set.
fn until_of_each_lane(down: bool) -> OneCase {
    let (name, sums) = if down { ("lanes_that_end_down", [4i64, 7, 10]) } else { ("lanes_that_end", [1i64, 6, 10]) };
    case_on(name, [("limit: i64[B]", row([1i64, 5, 99])), ("xs: i64[T]", row([1i64, 2, 3, 4]))])
        .runs(|[limit, xs]| {
            let sum = vmap(limit, |limit| {
                let mut loop_ = Recurrence::new();
                let (x, sum) = (loop_.sequence(xs, [0]), loop_.carry(limit.zeros_like()));
                if down {
                    loop_.backwards();
                }
                let done = loop_.run(|step| {
                    let [x] = step.read(&x);
                    let next = step.read(&sum) + x;
                    step.write(&sum, next);
                    step.until(next.ge(limit));
                });
                done.last(&sum)
            });
            outputs! { sum }
        })
        .gives([("sum", row(sums))])
}

/// Builds a case that maps seven rows in chunks of `chunk` rows. The chunk size must not change the result.
fn map_in_chunks_of_a_constant(chunk: usize) -> OneCase {
    let ys = tensor([7, 2], std::array::from_fn::<i64, 14, _>(|i| i as i64 * if i % 2 == 0 { 1 } else { 10 }));
    let sums = tensor([7], std::array::from_fn::<i64, 7, _>(|i| 4 * i as i64 + 1));
    case(format!("map_7_rows_in_chunks_of_{chunk}"), |g| {
        let (xs, w) = (g.input("xs", "i64[7,2]"), g.input("w", "i64[2]"));
        let (ys, sums) = map_with(MapOptions::new().chunk(chunk), xs, |x| (x * w, x.sum(0)));
        outputs! { ys, sums }
    })
    .on([tensor([7, 2], std::array::from_fn::<i64, 14, _>(|i| i as i64)), row([1i64, 10])])
    .gives([("ys", ys), ("sums", sums)])
}

/// Builds a case that maps a symbolic number of rows in chunks of three. The argument has `rows` rows.
fn map_in_chunks(rows: usize) -> OneCase {
    let ys = HostTensor::from_fn(DType::I64, &[rows, 2], |index| {
        funcify::Scalar::Int((index[0] as i64 + 1) * if index[1] == 0 { 1 } else { 10 })
    });
    case_on(
        format!("map_{rows}_rows_in_chunks"),
        [
            ("xs: i64[T]", HostTensor::from_fn(DType::I64, &[rows], |index| funcify::Scalar::Int(index[0] as i64 + 1))),
            ("w: i64[2]", row([1i64, 10])),
        ],
    )
    .runs(|[xs, w]| outputs! { ys: map_with(MapOptions::new().chunk(3), xs, |x| w * x) })
    .gives([("ys", ys)])
}
