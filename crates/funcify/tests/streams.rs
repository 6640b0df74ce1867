//! Tests steppers on the reference backend: streams that join running streams, states that all streams share, states
//! that the caller sets, and steps that read several rows.

mod shared;

use std::collections::BTreeMap;

use funcify::dispatch::{CompileOptions, Reference, Stepper};
use funcify::rewrite::{Rewrite, RewriteOptions};
use funcify::stepped::Steppable;
use funcify::{DType, Dim, Error, Graph, HostTensor, Recurrence, Value, associative_scan, evaluate, full, scan};
use shared::{built, traced};

/// Builds a stepper for a program. `fixed` contains all inputs except the sequences.
fn stepper(graph: &Graph, fixed: &[HostTensor]) -> Stepper<Reference> {
    Stepper::with_host(graph, &Reference, fixed).unwrap()
}

fn step<const N: usize>(stepper: &mut Stepper<Reference>, row: [f32; N]) -> Vec<f64> {
    stepper.step_host(&[HostTensor::from(row)]).unwrap()[0].to_f64_vec()
}

#[track_caller]
fn assert_rejected<T>(result: Result<T, Error>, says: &[&str]) {
    let Err(error) = result else { panic!("this is not rejected") };
    let text = error.to_string();
    says.iter().for_each(|part| assert!(text.contains(part), "{text}\ndoes not say: {part}"));
}

/// Builds a program that computes the running mean of the rows. `count` is the type of the state that counts the rows.
fn running_mean(count: &str) -> Graph {
    built("mean", |g| {
        let [xs, sum, count] = [g.input("xs", "f32[T,B]"), g.input("sum", "f32[B]"), g.input("count", count)];
        scan((sum, count), xs, |(sum, count), x| {
            let (sum, count) = (sum + x, count + 1.0);
            ((sum, count), sum / count)
        })
        .1
    })
}

/// A stream cannot join running streams that share a counter, because the counter would be wrong for the new stream.
#[test]
fn a_stream_begins_with_no_state_that_others_have_changed() {
    let mut shared = stepper(&running_mean("f32[]"), &[HostTensor::from([0f32, 0.0]), HostTensor::scalar(0f32)]);
    // Before the first step, the shared counter has its initial value, so a new stream can join.
    shared.streams("B", &[Some(1), Some(0), None]).unwrap();
    assert_eq!(step(&mut shared, [2.0, 4.0, 6.0]), [2.0, 4.0, 6.0]);
    step(&mut shared, [4.0, 8.0, 0.0]);
    let before = shared.state().unwrap();
    let says = ["state `count`", "an axis of B streams", "f32[]", "as `f32[B]`", "fix:", "streams.rs"];
    assert_rejected(shared.streams("B", &[Some(1), None]), &says);
    assert_eq!(shared.state().unwrap(), before);
    // If no new stream joins, running streams can be moved and duplicated at any time.
    shared.streams("B", &[Some(1), Some(0), Some(1)]).unwrap();
    assert_eq!(step(&mut shared, [0.0, 0.0, 3.0]), [4.0, 2.0, 5.0]);
    // If all streams are new, the counter is reset.
    shared.streams("B", &[None, None]).unwrap();
    assert_eq!(step(&mut shared, [4.0, 6.0]), [4.0, 6.0]);
    shared.streams("B", &[]).unwrap();
    shared.streams("B", &[None]).unwrap();
    assert_eq!(step(&mut shared, [9.0]), [9.0]);
    shared.reset();
    shared.streams("B", &[Some(0), None]).unwrap();
    assert_eq!(step(&mut shared, [5.0, 7.0]), [5.0, 7.0]);
    // States that the caller sets do not count as initial, even if they have the initial values.
    shared.reset();
    shared.set_state(&shared.state().unwrap()).unwrap();
    assert_rejected(shared.streams("B", &[Some(0), None]), &["state `count`"]);

    // If the counter has the batch axis, each stream has its own counter.
    let mut own = stepper(&running_mean("f32[B]"), &[HostTensor::from([0f32; 2]), HostTensor::from([0f32; 2])]);
    (0..3).for_each(|_| _ = step(&mut own, [2.0, 4.0]));
    own.streams("B", &[Some(1), None]).unwrap();
    assert_eq!(step(&mut own, [8.0, 6.0]), [5.0, 6.0]);
}

/// If all streams share a sequence, they also share the states that hold earlier rows of the sequence or running sums
/// of its rows.
#[test]
fn what_is_kept_of_a_shared_sequence_is_shared_too() {
    let build = |of_shared: &dyn Fn(Value) -> Value| {
        let graph = built("shared", |g| {
            let [xs, us, sum] = [g.input("xs", "f32[T,B]"), g.input("us", "f32[T]"), g.input("sum", "f32[B]")];
            let weighted = xs * of_shared(us).unsqueeze(1);
            scan(sum, weighted, |sum, x| (sum + x, sum + x)).1
        });
        stepper(&graph, &[HostTensor::from([0f32; 2])])
    };
    let delayed = build(&|us| us.pad(0, 1, 0, 0.0).slice(0, ..-1));
    for mut shared in [delayed, build(&|us| us.cumsum(0, false))] {
        shared.step_host(&[HostTensor::from([1f32, 2.0]), HostTensor::scalar(3f32)]).unwrap();
        assert_rejected(shared.streams("B", &[Some(0), None]), &["an axis of B streams"]);
        shared.streams("B", &[Some(1)]).unwrap();
    }
}

/// A stream can join running streams if no step changes the state that they share.
#[test]
fn a_stream_may_begin_beside_a_state_that_stays_as_it_is() {
    let decaying = built("decaying", |g| {
        let [xs, sum, decay] = [g.input("xs", "f32[T,B]"), g.input("sum", "f32[B]"), g.input("decay", "f32[]")];
        scan((sum, decay), xs, |(sum, decay), x| {
            let next = sum * decay + x;
            ((next, decay), next)
        })
        .1
    });
    for rewrites in [None, CompileOptions::default().rewrites] {
        let options = CompileOptions { rewrites, ..CompileOptions::default() };
        let fixed = [HostTensor::from([0f32]), HostTensor::scalar(0.5f32)].map(std::sync::Arc::new);
        let mut stepper = Stepper::with_options(&decaying, &Reference, options, &fixed).unwrap();
        assert_eq!(step(&mut stepper, [2.0]), [2.0]);
        stepper.streams("B", &[Some(0), None]).unwrap();
        assert_eq!(step(&mut stepper, [2.0, 2.0]), [3.0, 2.0]);
    }
}

/// For a new stream, cumulative ops and associative scans start at the stream's own first row.
#[test]
fn running_combinations_begin_with_their_stream() {
    let graph = built("running", |g| {
        let xs = g.input("xs", "f32[T,B,2]");
        let pairs = associative_scan((xs, xs + 1.0), |(a, b), (c, d)| (a * c, b * c + d));
        let by_stream = associative_scan(xs.sum(2), |a, b| a * b);
        (pairs.0 + pairs.1, xs.cumprod(0, false), xs.cummax(0, false), by_stream)
    });
    let start = graph.stepped().unwrap().start;
    assert_eq!(start.inputs().len(), 1, "{start}");
    let row = |numbers: [f32; 4]| HostTensor::from_vec(numbers.to_vec(), [2, 2]).unwrap();
    let mut stepper = stepper(&graph, &[row([0.0; 4])]);
    let rows = [[-2.0, -3.0, -4.0, -5.0], [-1.0, 2.0, -0.5, 3.0], [-3.0, -1.0, -2.0, -2.5]];
    stepper.step_host(&[row(rows[0])]).unwrap();
    // Stream 1 continues at batch index 0, and a new stream starts at batch index 1.
    stepper.streams("B", &[Some(1), None]).unwrap();
    let second = stepper.step_host(&[row(rows[1])]).unwrap();
    let third = stepper.step_host(&[row(rows[2])]).unwrap();
    let alone = |rows: &[&[f32]]| {
        let xs = HostTensor::from_vec(rows.concat(), [rows.len(), 1, 2]).unwrap();
        evaluate(&graph, &[xs]).unwrap()
    };
    let (goes_on, begins) =
        (alone(&[&rows[0][2..], &rows[1][..2], &rows[2][..2]]), alone(&[&rows[1][2..], &rows[2][2..]]));
    for output in 0..graph.outputs().len() {
        for (found, at) in [(&second, 1), (&third, 2)] {
            let expected = [goes_on[output].row(at), begins[output].row(at - 1)];
            let expected: Vec<f64> = expected.iter().flat_map(HostTensor::to_f64_vec).collect();
            assert_eq!(found[output].to_f64_vec(), expected, "output {output}");
        }
    }
}

/// A new stream starts from the stepper's initial state at its batch index, or at index 0 if the stepper was created
/// with fewer streams.
#[test]
fn a_stream_begins_with_the_states_of_its_place() {
    let sums = built("sums", |g| {
        let [xs, start, rate] = [g.input("xs", "f32[T,B]"), g.input("start", "f32[B]"), g.input("rate", "f32[B]")];
        scan(start, xs, |sum, x| (sum + x * rate, sum + x * rate)).1
    });
    let mut stepper = stepper(&sums, &[HostTensor::from([10f32, 20.0]), HostTensor::from([1f32, 2.0])]);
    assert_eq!(step(&mut stepper, [1.0, 1.0]), [11.0, 22.0]);
    stepper.streams("B", &[Some(0), None, None]).unwrap();
    assert_eq!(step(&mut stepper, [1.0, 1.0, 1.0]), [12.0, 22.0, 11.0]);
    step(&mut stepper, [1.0, 1.0, 1.0]);
    stepper.streams("B", &[Some(2), None]).unwrap();
    assert_eq!(step(&mut stepper, [0.0, 0.0]), [12.0, 20.0]);
    // A reset returns each stream to its initial state, after any number of steps.
    step(&mut stepper, [1.0, 1.0]);
    step(&mut stepper, [1.0, 1.0]);
    stepper.reset();
    assert_eq!(stepper.state().unwrap()["start"], HostTensor::from([10f32, 20.0]));
    assert_eq!(step(&mut stepper, [1.0, 1.0]), [11.0, 22.0]);
}

/// New states whose sizes do not match the stepper are rejected, and the current states stay unchanged.
#[test]
fn states_of_other_sizes_leave_those_that_are_there() {
    let network = built("network", |g| {
        let [xs, h, u] = [g.input("xs", "f32[T,B,U]"), g.input("h", "f32[B,U]"), g.input("u", "f32[U,U]")];
        scan(h, xs, |h, x| ((x + h.matmul(u)).tanh(), h)).1
    });
    let ones = |sizes: &[usize]| HostTensor::from_fn(funcify::DType::F32, sizes, |_| funcify::Scalar::Float(1.0));
    let mut stepper = stepper(&network, &[ones(&[2, 4]), ones(&[4, 4])]);
    stepper.step_host(&[ones(&[2, 4])]).unwrap();
    let before = stepper.state().unwrap();
    let given = |sizes: &[usize]| BTreeMap::from([("h".to_string(), ones(sizes))]);
    for sizes in [[5, 7], [2, 7], [5, 4], [4, 2]] {
        let says = ["state `h`", "f32[2,4]", &format!("f32[{},{}]", sizes[0], sizes[1]), "fix:", "streams.rs"];
        assert_rejected(stepper.set_state(&given(&sizes)), &says);
        assert_eq!(stepper.state().unwrap(), before);
    }
    stepper.step_host(&[ones(&[2, 4])]).unwrap();
    // States for the stepper's number of streams are accepted.
    stepper.streams("B", &[None; 5]).unwrap();
    stepper.set_state(&given(&[5, 4])).unwrap();
    assert_eq!(stepper.step_host(&[ones(&[5, 4])]).unwrap()[0], ones(&[5, 4]));
    assert_rejected(stepper.set_state(&given(&[2, 4])), &["f32[5,4]"]);
    // States with different numbers of streams are rejected.
    let pair = built("pair", |g| {
        let [xs, a, b] = [g.input("xs", "f32[T,B]"), g.input("a", "f32[B]"), g.input("b", "f32[B]")];
        scan((a, b), xs, |(a, b), x| ((a + x, b - x), a * b)).1
    });
    let mut stepper = self::stepper(&pair, &[ones(&[2]), ones(&[2])]);
    let states = BTreeMap::from([("a".to_string(), ones(&[2])), ("b".to_string(), ones(&[3]))]);
    assert_rejected(stepper.set_state(&states), &["state `b`", "f32[2]", "f32[3]"]);
    step(&mut stepper, [1.0, 1.0]);
}

/// A program is rejected if a loop does not run one step per row of the sequence. The step counts `2 T - 1` and `T * T`
/// equal the number of rows, `T`, only if the sequence has a single row.
#[test]
fn a_loop_of_more_steps_than_rows_is_not_stepped() {
    for steps in [Dim::from("T") * 2 - 1, Dim::from("T") * Dim::from("T")] {
        let graph = built("faster", |g| {
            let [xs, start] = [g.input("xs", "f32[T]"), g.input("start", "f32[]")];
            let sums = scan(start, xs, |sum, x| (sum + x, sum)).1;
            let mut loop_ = Recurrence::new();
            let y = loop_.carry(start);
            let done = loop_.steps(steps.clone()).run(|step| {
                let old = step.read(&y);
                step.write(&y, old + 1.0);
            });
            sums.index(0, -1) + done.last(&y)
        });
        let error = graph.stepped().unwrap_err();
        assert_eq!(error.kind(), "NotSteppable", "{error}");
        assert!(error.to_string().contains("not that of the other loops"), "{error}");
    }
}

/// Asserts that each step of a program agrees with the whole program on the rows read so far. The first output is a
/// sequence, and only its newest row is compared. The program reads a sequence `xs: f64[T,2]`, and `fixed` contains its
/// other inputs.
fn assert_steps_agree(what: &str, graph: &Graph, fixed: &[HostTensor]) {
    const ROWS: usize = 9;
    let rows = |count: usize| {
        let number = |at: &[usize]| funcify::Scalar::Float(((at[0] * 2 + at[1]) as f64 * 0.7).sin());
        HostTensor::from_fn(DType::F64, &[count, 2], number)
    };
    let start = graph.stepped().unwrap().start;
    // If a step also reads earlier rows, the start graph takes the rows before the first step as the input `xs_before`.
    let before = (0..start.inputs().len()).find(|input| start.input_name(*input) == "xs_before");
    let before = before.map(|input| start.input_type(input).shape[0].constant().unwrap() as usize);
    let given: Vec<HostTensor> = fixed.iter().cloned().chain(before.map(rows)).collect();
    let mut stepper = Stepper::with_host(graph, &Reference, &given).unwrap();
    for count in before.unwrap_or(0) + 1..=ROWS {
        let row = rows(count).to_f64_vec().split_off(2 * count - 2);
        let found = stepper.step_host(&[HostTensor::from([row[0], row[1]])]).unwrap();
        let inputs: Vec<HostTensor> = std::iter::once(rows(count)).chain(fixed.iter().cloned()).collect();
        let expected = evaluate(graph, &inputs).unwrap();
        let newest = expected[0].to_f64_vec().split_off(expected[0].len() - 2);
        assert_eq!(found[0].to_f64_vec(), newest, "{what}, {count} rows");
        assert_eq!(found[1..], expected[1..], "{what}, {count} rows");
    }
}

/// Each step reads several rows of a padded sequence, or of the result of a cumulative op or an associative scan.
#[test]
fn several_rows_of_what_is_kept_are_those_of_the_whole() {
    // Each function in `makes` comes with the number of rows that it prepends to the sequence. Taps that reach back by
    // fewer rows than that are skipped, because the loop would have more steps than the sequence has rows.
    type Kept = fn(Value) -> Value;
    let makes: [(i64, Kept); 6] = [
        (1, |xs| xs.pad(0, 1, 0, 7.0)),
        (3, |xs| xs.pad(0, 3, 0, 7.0) * 0.5),
        (0, |xs| xs.cumsum(0, false)),
        (1, |xs| xs.cummax(0, false).pad(0, 1, 0, 2.0)),
        (2, |xs| xs.pad(0, 2, 0, 0.5).cumsum(0, false)),
        (0, |xs| associative_scan((xs.sigmoid(), xs), |(a, b), (c, d)| (a * c, b * c + d)).1),
    ];
    for (index, (before, of)) in makes.into_iter().enumerate() {
        for taps in [[-1, 0], [-2, 0], [-2, -1], [-3, 0], [-4, -1]].into_iter().filter(|taps| -taps[0] >= before) {
            let graph = built("several", |g| {
                let kept = of(g.input("xs", "f64[T,2]"));
                let mut loop_ = Recurrence::new();
                let (row, sum) = (loop_.sequence(kept, taps), loop_.carry(full([2], DType::F64, 0.25)));
                let done = loop_.run(|step| {
                    let ([before, row], sum_before) = (step.read(&row), step.read(&sum));
                    step.write(&sum, (sum_before * 0.5 + before).sin());
                    before - row * 2.0 + sum_before
                });
                (done.ys, done.last(&sum))
            });
            assert_steps_agree(&format!("program {index}, taps {taps:?}"), &graph, &[]);
        }
    }
}

/// Tests programs that return the last rows of a state with taps.
#[test]
fn last_rows_of_a_state_are_those_of_the_whole() {
    for count in 1..4 {
        let graph = built("last", |g| {
            let (xs, start) = (g.input("xs", "f64[T,2]"), g.input("start", "f64[3,2]"));
            let mut loop_ = Recurrence::new();
            let (x, y) = (loop_.sequence(xs, [0]), loop_.mit_sot(start, [-3, -1]));
            let done = loop_.run(|step| {
                let ([x], [oldest, old]) = (step.read(&x), step.read(&y));
                step.write(&y, oldest * 0.5 + old * x);
                oldest + x
            });
            (done.ys, done.trace_with_init(&y).slice(0, -count..))
        });
        let trimmed = RewriteOptions::new().only(&["trimmed_traces"]);
        let graph = graph.rewritten_with(&trimmed).unwrap().graph;
        assert!(graph.to_string().contains(&format!("last {count}")), "{graph}");
        let start = HostTensor::from([[0.5f64, -1.0], [2.0, 0.25], [-0.75, 1.5]]);
        assert_steps_agree(&format!("{count} rows"), &graph, &[start]);
    }
}

/// If two states have the same next value, a step computes it once. Both states must receive the value, and the outputs
/// after them must keep their order.
#[test]
fn states_that_become_one_value() {
    let graph = built("merged", |g| {
        let [xs, a, b] = [g.input("xs", "f32[T,B]"), g.input("a", "f32[B]"), g.input("b", "f32[B]")];
        scan((a, b), xs, |(a, b), x| ((a + x, a + x), a * b)).1
    });
    let mut stepper = stepper(&graph, &[HostTensor::from([1f32]), HostTensor::from([5f32])]);
    assert_eq!([2.0, 4.0].map(|x| step(&mut stepper, [x])), [[5.0], [9.0]]);
    assert_eq!(stepper.state().unwrap()["b"], HostTensor::from([7f32]));
}

/// A state with two symbolic axes has streams along each of them.
#[test]
fn streams_along_one_axis_and_then_along_another() {
    let sums = built("sums", |g| {
        let [xs, start] = [g.input("xs", "f32[T,B,C]"), g.input("start", "f32[B,C]")];
        scan(start, xs, |sum, x| (sum + x, sum)).1
    });
    let of = |numbers: &[f32], sizes: [usize; 2]| HostTensor::from_vec(numbers.to_vec(), sizes).unwrap();
    let mut stepper = stepper(&sums, &[of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2])]);
    stepper.streams("B", &[Some(2), Some(0), Some(1)]).unwrap();
    stepper.streams("C", &[Some(1)]).unwrap();
    assert_eq!(stepper.state().unwrap()["start"], of(&[6.0, 2.0, 4.0], [3, 1]));
}

/// Streams join and leave along two axes, before and after steps. Each stream must keep its initial state and its own
/// rows. The fixed inputs `by_b`, `by_c` and `by_both` also have a value for each stream.
#[test]
fn streams_of_two_axes_come_and_go() {
    let sums = built("sums", |g| {
        let [xs, start] = [g.input("xs", "f32[T,C,B]"), g.input("start", "f32[B,C]")];
        let rates =
            [g.input("by_b", "f32[B]").unsqueeze(1), g.input("by_c", "f32[C]"), g.input("by_both", "f32[C,B]").t()];
        scan(start, xs, |sum, x| traced(sum + x.t() * rates[0] + rates[1] * 4.0 + rates[2])).1
    });
    let made = [3usize, 2];
    let start = |b: usize, c: usize| (100 * b + 10 * c) as f32;
    let fixed = [
        HostTensor::from_fn(DType::F32, &made, |at| funcify::Scalar::Float(start(at[0], at[1]).into())),
        HostTensor::from([1f32, 2.0, 3.0]),
        HostTensor::from([5f32, 7.0]),
        HostTensor::from([[0f32, 1.0, 2.0], [3.0, 4.0, 5.0]]),
    ];
    let mut drawn = 12345u64;
    let mut draw = |below: usize| {
        drawn = drawn.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (drawn >> 33) as usize % below
    };
    let mut stepper = stepper(&sums, &fixed);
    // `origins[axis][index]` is the original batch index whose initial state and fixed inputs the stream at `index`
    // uses. `states` holds the expected states.
    let mut origins = made.map(|count| (0..count).collect::<Vec<usize>>());
    let mut states: Vec<Vec<f32>> = (0..made[0]).map(|b| (0..made[1]).map(|c| start(b, c)).collect()).collect();
    for _ in 0..200 {
        let axis = draw(2);
        let there = origins[axis].len();
        let from: Vec<Option<usize>> = (0..draw(5)).map(|_| Some(draw(there + 1)).filter(|it| *it < there)).collect();
        stepper.streams(["B", "C"][axis], &from).unwrap();
        let began = |place: usize| if place < made[axis] { place } else { 0 };
        let before = (origins.clone(), states);
        origins[axis] =
            from.iter().enumerate().map(|(place, it)| it.map_or(began(place), |it| before.0[axis][it])).collect();
        let all_begin = !from.is_empty() && from.iter().all(Option::is_none);
        let state = |b: usize, c: usize| match from[[b, c][axis]] {
            Some(stream) if !all_begin => {
                if axis == 0 {
                    before.1[stream][c]
                } else {
                    before.1[b][stream]
                }
            }
            _ => start(origins[0][b], origins[1][c]),
        };
        states = (0..origins[0].len()).map(|b| (0..origins[1].len()).map(|c| state(b, c)).collect()).collect();
        for _ in 0..draw(3) {
            let sizes = [origins[1].len(), origins[0].len()];
            let row = HostTensor::from_fn(DType::F32, &sizes, |at| funcify::Scalar::Float((at[0] * 3 + at[1]) as f64));
            let found = stepper.step_host(&[row]).unwrap();
            for (b, row) in states.iter_mut().enumerate() {
                for (c, state) in row.iter_mut().enumerate() {
                    let (of_b, of_c) = (origins[0][b], origins[1][c]);
                    *state += ((c * 3 + b) * (of_b + 1) + (5 + 2 * of_c) * 4 + 3 * of_c + of_b) as f32;
                }
            }
            assert_eq!(found[0].to_f64_vec(), states.concat().iter().map(|it| f64::from(*it)).collect::<Vec<_>>());
        }
        let expected: Vec<f64> = states.concat().iter().map(|it| f64::from(*it)).collect();
        assert_eq!(stepper.state().unwrap()["start"].to_f64_vec(), expected);
    }
}
