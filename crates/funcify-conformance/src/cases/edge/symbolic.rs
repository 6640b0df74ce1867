//! Graphs with symbolic sizes, called with arguments of several sizes.

use super::*;

pub(super) fn cases() -> Cases {
    all([
        // The program `one` contains a while loop bounded by N, the size of the input `x`. The outer program applies
        // `one` with N = T+1 and with N = 2.
        {
            let one = Graph::build("one", |g| {
                let (x, start) = (g.input("x", "f32[N]"), g.input("start", "f32[]"));
                (while_loop_bounded("N", start, |y| y.lt(1e6), |y| y * 2.0), x * 1.0)
            });
            let one = one.map_err(|error| error.to_string())?;
            case("bound_of_a_program_that_is_applied", |g| {
                let [xs, pair] = [g.input("xs", "f32[T+1]"), g.input("pair", "f32[2]")];
                let start = g.input("start", "f32[]");
                outputs! { long: one.apply(&[xs, start])[0], short: one.apply(&[pair, start])[0] }
            })
            .on([row([0f32; 5]), row([0f32; 2]), scalar(3f32)])
            .gives([("long", scalar(96f32)), ("short", scalar(12f32))])
        },
        // The trip count is a static input, and stays static in the batched program, which can therefore be unrolled.
        {
            let one = Graph::build("one", |g| {
                let (n, x) = (g.static_input("n", DType::I64), g.input("x", "f32[]"));
                fori_loop(0, n, x, |_, x| x * 2.0)
            });
            case_of(
                "static_count_that_lanes_share",
                one.and_then(|one| one.vmap("B", VmapOptions::new().in_axes([None, Some(0)]))),
            )
            .on([scalar(3i64), row([1f32, 2.])])
            .gives([("out", row([8f32, 16.]))])
        },
        running_sum("T0_B2", empty::<f32, 2>([0, 2]), row([1f32, 2.]), empty::<f32, 2>([0, 2]), row([1f32, 2.])),
        running_sum("T1_B1", tensor([1, 1], [3f32]), row([1f32]), tensor([1, 1], [4f32]), row([4f32])),
        running_sum(
            "T5_B2",
            tensor([5, 2], [1f32, 10., 2., 20., 3., 30., 4., 40., 5., 50.]),
            row([0f32, 0.]),
            tensor([5, 2], [1f32, 10., 3., 30., 6., 60., 10., 100., 15., 150.]),
            row([15f32, 150.]),
        ),
        running_sum(
            "T5_B0",
            empty::<f32, 2>([5, 0]),
            empty::<f32, 1>([0]),
            empty::<f32, 2>([5, 0]),
            empty::<f32, 1>([0]),
        ),
        every_kind("T0", empty::<f32, 1>([0]), empty::<f32, 1>([0]), row([7f32]), empty::<f32, 1>([0])),
        every_kind("T1", row([2f32]), row([4f32]), row([7f32, 2.]), row([9f32])),
        every_kind(
            "T5",
            row([1f32, 2., 3., 4., 5.]),
            row([3f32, 6., 12., 22., 39.]),
            row([7f32, 1., 2., 3., 4., 5.]),
            row([8f32, 3., 5., 7., 9.]),
        ),
    ])
}

/// Builds a case that computes a cumulative sum over T rows of B elements.
fn running_sum(sizes: &str, xs: HostTensor, init: HostTensor, sums: HostTensor, last: HostTensor) -> OneCase {
    case_on(format!("symbolic_running_sum_{sizes}"), [("init: f32[B]", init), ("xs: f32[T,B]", xs)])
        .runs(|[init, xs]| {
            let (last, sums) = scan(init, xs, |sum, x| (sum + x, sum + x));
            outputs! { last, sums }
        })
        .gives([("last", last), ("sums", sums)])
}

/// Builds a case with a loop that reads a sequence, updates a mit-sot (with the initial rows 1 and 1) and a mit-mot
/// (with T + 1 rows), and returns ys.
fn every_kind(sizes: &str, xs: HostTensor, trace: HostTensor, rows: HostTensor, ys: HostTensor) -> OneCase {
    let steps = xs.shape()[0];
    case(format!("symbolic_kinds_{sizes}"), symbolic_kinds)
        .on([
            row([1f32, 1.]),
            xs,
            HostTensor::from_vec([vec![7f32], vec![0.; steps]].concat(), [steps + 1]).ok_or("as many rows")?,
        ])
        .gives([("trace", trace), ("rows", rows), ("ys", ys)])
}

fn symbolic_kinds(g: &Builder) -> Outputs {
    let mut loop_ = Recurrence::new();
    let state = loop_.mit_sot(g.input("init", "f32[2]"), [-2, -1]);
    let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
    let buffer = loop_.mit_mot(g.input("rows", "f32[T+1]"), [0], [1]);
    let done = loop_.run(|step| {
        let ([older, old], [x], [before]) = (step.read(&state), step.read(&x), step.read(&buffer));
        step.write(&state, older + old + x);
        step.write(&buffer, [x]);
        before + x
    });
    outputs! { trace: done.trace(&state), rows: done.buffer(&buffer), ys: done.ys }
}
