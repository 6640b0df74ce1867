//! Compares the results of single-step programs with the results of the sequence programs, bit for bit: each step must
//! return the newest row that the sequence program computes for the rows so far.

mod shared;
mod stepping;

use funcify::custom_vjp;
use funcify::nn::{Cell, GatedLinearAttention, Layer, Recurrent, S5, SelectiveScan};
use funcify::ops::{ConvOptions, ScatterMode};
use funcify::prelude::*;
use funcify::stepped::{Steppable, Stepped};
use shared::{built, traced};

use stepping::{check, noise};

/// Builds a program with the input `xs: [T,B,3]`, and compares its single-step form with the program itself.
fn build_and_check(program: impl FnOnce(Value) -> Vec<Value>) -> Stepped {
    check(&built("program", |g| program(g.input("xs", "f64[T,B,3]"))))
}

fn running(xs: Value) -> Value {
    scan(xs.index(0, 0).zeros_like(), xs, |sum, x| traced((sum * 0.5 + x).tanh())).1
}

#[test]
fn a_network_with_a_product_before_the_loop_and_one_after_it() {
    let graph = built("network", |g| {
        let [xs, h] = [g.input("xs", "f32[T,B,3]"), g.input("h", "f32[B,4]")];
        let [w, b, u, v] =
            [("w", "f32[3,4]"), ("b", "f32[4]"), ("u", "f32[4,4]"), ("v", "f32[4,2]")].map(|(n, ty)| g.input(n, ty));
        let driven = xs.dot_general(w, &[(2, 0)], &[]) + b;
        let (last, hs) = scan(h, driven, |h, x| traced((x + h.matmul(u)).tanh()));
        let scores = hs.dot_general(v, &[(2, 0)], &[]);
        (scores.softmax(-1), scores.argmax(-1), last.sum(-1), hs.index(0, -1))
    });
    let stepped = check(&graph);
    assert_eq!((stepped.states, stepped.rows), (1, 1));
    let text = stepped.step.to_string();
    assert!(text.contains("fn @network(%h: f32[B,4], %xs: f32[B,3], ") && !text.contains("scan"), "{text}");
}

#[test]
fn layers_step_by_step() {
    let f64s = DType::F64;
    let layers: [Layer; 7] = [
        Recurrent { dtype: f64s, ..Recurrent::new(Cell::Rnn, 2, 3) }.layer().unwrap(),
        Recurrent { dtype: f64s, batch_first: false, ..Recurrent::new(Cell::Gru, 2, 3) }.layer().unwrap(),
        Recurrent { dtype: f64s, layers: 2, ..Recurrent::new(Cell::Lstm, 2, 3) }.layer().unwrap(),
        S5 { dtype: f64s, associative: false, ..S5::new(2, 3) }.layer().unwrap(),
        S5 { dtype: f64s, ..S5::new(2, 3) }.layer().unwrap(),
        SelectiveScan { dtype: f64s, states: 2, ..SelectiveScan::new(2) }.layer().unwrap(),
        GatedLinearAttention { dtype: f64s, rank: 2, ..GatedLinearAttention::new(2, 1) }.layer().unwrap(),
    ];
    for layer in layers {
        check(&layer.graph);
    }
}

#[test]
fn taps_are_states() {
    let graph = built("taps", |g| {
        let (xs, start, one) = (g.input("xs", "f64[T,2]"), g.input("start", "f64[3,2]"), g.input("one", "f64[2]"));
        // A loop with a different number of steps, and a running sum over another axis, are part of the start graph.
        let start = fori_loop(0, g.input("turns", "i64[]"), start.cumsum(0, false), |_, start| start + 0.5);
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(xs, [0]);
        let y = loop_.mit_sot(start, [-3, -1]);
        let z = loop_.sit_sot(one);
        let done = loop_.run(|step| {
            let ([x], [oldest, old], [last]) = (step.read(&x), step.read(&y), step.read(&z));
            step.write(&y, oldest * 0.5 + old * x);
            step.write(&z, last + oldest);
            old * last
        });
        (done.trace(&y), done.trace_with_init(&y), done.trace(&z).slice(0, -1..), done.ys, done.trace(&y).index(0, -1))
    });
    assert_eq!(check(&graph).states, 2);
}

#[test]
fn sequences_that_a_step_reads_several_rows_of() {
    let graph = built("windows", |g| {
        let xs = g.input("xs", "f64[T,2]");
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(xs * 2.0, [-2, 0]);
        let c = loop_.carry(xs.index(0, 0).zeros_like());
        let done = loop_.run(|step| {
            let ([before, x], sum) = (step.read(&x), step.read(&c));
            step.write(&c, sum + before);
            before - x + sum
        });
        done.ys
    });
    let stepped = check(&graph);
    assert_eq!(stepped.start.input_name(0), "xs_before");
    assert_eq!(stepped.start.input_type(0).to_string(), "f64[2,2]");
}

#[test]
fn rows_that_are_put_before_the_first() {
    let padded = build_and_check(|xs| {
        let delayed = xs.pad(0, 2, 0, 7.0);
        let sums = running(xs);
        vec![sums + delayed.slice(0, ..-2) * delayed.slice(0, 1..).slice(0, ..-1), delayed]
    });
    assert!(padded.states >= 2);
    let graph = built("conv", |g| {
        let (xs, kernel, before) =
            (g.input("xs", "f64[B,T,3]"), g.input("kernel", "f64[3,1,4]"), g.input("before", "f64[B,3,3]"));
        let channels = xs.move_axis(2, 1);
        let padded = channels.conv(kernel, ConvOptions { padding: [(3, 0)], groups: 3, ..ConvOptions::default() });
        let given = concat(&[before.move_axis(2, 1), channels], 2)
            .conv(kernel, ConvOptions::<1> { groups: 3, ..ConvOptions::default() });
        let mixed = (padded.silu() + given).move_axis(1, 2);
        (running(mixed.move_axis(1, 0)).move_axis(0, 1), mixed)
    });
    assert_eq!(check(&graph).states, 3);
}

#[test]
fn running_combinations() {
    build_and_check(|xs| {
        let combined = associative_scan((xs.sigmoid(), xs), |(a, b), (c, d)| (a * c, b * c + d));
        vec![combined.0 + combined.1, xs.cumsum(0, false), xs.cummax(0, false), xs.cumsum(2, true)]
    });
    let graph = built("axis", |g| g.input("xs", "f64[B,T,3]").cumprod(1, false));
    assert_eq!(check(&graph).states, 2);
}

#[test]
fn rows_through_every_kind_of_op() {
    build_and_check(|xs| {
        let ys = running(xs);
        let flat = ys.reshape([Dim::from("T") * Dim::from("B"), Dim::from(3)]);
        let back = (flat.matmul(constant(noise(DType::F64, &[3, 3], 1)))).reshape(ys.shape());
        let turned = ys.transpose([2, 0, 1]).reverse(0).sort(0, false).0.pad(2, 1, 1, 0.5).slice(2, 1..).slice(2, ..-1);
        let gram = ys.dot_general(xs, &[(1, 1)], &[(0, 0)]);
        let of_heads = |heads: i64| [Dim::from("T"), Dim::from("B"), Dim::from(3), Dim::from(heads)];
        let heads = ys.reshape(of_heads(1)).broadcast_to(of_heads(2));
        let bias = constant(noise(DType::F64, &[3], 2)).broadcast_to(ys.shape());
        vec![
            back,
            turned,
            gram,
            heads,
            concat(&[ys, xs * bias], 2).sum(2),
            ys.gt(0.0).cast(DType::F64).take(2, constant(HostTensor::from([2i64, 0]))).index(1, 0),
            xs.max(2).reshape([Dim::from("B") * Dim::from("T")]).reshape([Dim::from("T"), Dim::from("B")]),
        ]
    });
    let graph = built("tokens", |g| {
        let [tokens, table] = [g.input("tokens", "i64[B,T]"), g.input("table", "f64[4,3]")];
        let ys = running(table.embedding(tokens).move_axis(1, 0));
        (ys.move_axis(0, 1), ys.gather(2, tokens.t().unsqueeze(2) % 3))
    });
    check(&graph);
}

#[test]
fn loops_on_each_other_and_beside_each_other() {
    build_and_check(|xs| {
        let below = running(xs);
        let above = running(below.tanh() + xs);
        let inner = funcify_core::vmap(above, |row| row * 2.0);
        vec![above - below, inner, above.index(0, -1).matmul(below.index(0, -1).t())]
    });
}

#[test]
fn a_number_of_steps_that_is_given() {
    let graph = built("doubling", |g| {
        let (n, x) = (g.input("n", "i64[]"), g.input("x", "f64[3]"));
        let mut loop_ = Recurrence::new();
        let y = loop_.sit_sot(x);
        let done = loop_.steps_value(n).run(|step| {
            let [old] = step.read(&y);
            step.write(&y, old * 2.0);
        });
        (done.trace(&y), fori_loop(0, 3, x, |_, y| y + 1.0))
    });
    let stepped = check(&graph);
    assert_eq!((stepped.rows, stepped.start.inputs().len()), (0, 1));
}

#[test]
fn functions_with_rules_and_states_that_nothing_needs() {
    let stepped = build_and_check(|xs| {
        let ys = custom_vjp(xs, running, |xs| (running(xs), ()), |(), ct| ct);
        let _unused = running(xs * 2.0);
        vec![ys]
    });
    assert_eq!(stepped.states, 1);
    let stepped = build_and_check(|xs| {
        let zero = xs.index(0, 0).zeros_like();
        vec![scan((zero, zero), xs, |(a, b), x| ((a + x, b * x), a)).1]
    });
    assert_eq!(stepped.states, 1);
    // Only the sequence determines the batch size, so the start graph needs one of its rows.
    assert_eq!(stepped.start.input_name(0), "xs_row");
}

#[test]
fn what_needs_more_than_the_steps_so_far_is_refused() {
    let assert_rejected = |of: &str, reason: &str, program: &dyn Fn(Value) -> Value| {
        let graph = built("refused", |g| program(g.input("xs", "f64[T,2]")));
        let error = graph.stepped().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), "NotSteppable", "{text}");
        assert!(error.place().op == of && text.contains(reason) && text.contains("fix:"), "{text}");
        text
    };
    let row = |xs: Value| xs.index(0, 0).zeros_like();
    let sums = |xs: Value| scan(row(xs), xs, |sum, x| (sum + x, sum)).1;
    let last = |xs: Value| scan(row(xs), xs, |sum, x| (sum + x, ())).0;
    assert_rejected("scan", "the loop cannot be computed", &|xs| {
        scan_with(ScanOptions::new().reverse(), row(xs), xs, |sum, x| (sum + x, sum)).1
    });
    assert_rejected("scan", "it ends early", &|xs| {
        scan_until(row(xs), xs, |sum, x| (sum + x, sum, x.index(0, 0).gt(0.0))).1
    });
    assert_rejected("scan", "a step may read and write all of its rows", &|xs| {
        let mut loop_ = Recurrence::new();
        let buffer = loop_.mit_mot(full([Dim::from("T") + 1, Dim::from(2)], DType::F64, 0.0), [0], [1]);
        let done = loop_.steps("T").run(|step| {
            let [old] = step.read(&buffer);
            step.write(&buffer, [old + 1.0]);
        });
        done.buffer(&buffer).slice(0, 1..) + xs
    });
    let text = assert_rejected("scan", "it depends on the sequence", &|xs| {
        scan(row(xs), xs, |sum, x| (sum + x * xs.sum(0), sum)).1
    });
    assert!(text.contains("tests/stepped.rs"), "{text}");
    assert_rejected("scan", "it is the result of another loop", &|xs| scan(last(xs), xs, |sum, x| (sum + x, sum)).1);
    assert_rejected("reduce", "it works over all steps at once", &|xs| sums(xs).mean(0));
    assert_rejected("broadcast", "would need the result of the loop after its last step", &|xs| {
        sums(xs) - last(xs).broadcast_to(xs.shape())
    });
    assert_rejected("iota", "the index of the step", &|xs| sums(xs) + iota("T", DType::F64).unsqueeze(1));
    assert_rejected("size", "the number of steps", &|xs| sums(xs) / size("T", DType::F64));
    assert_rejected("slice", "it selects rows from all steps", &|xs| sums(xs).slice(0, 0..2));
    assert_rejected("slice", "it selects rows from all steps", &|xs| sums(xs).index(0, -2));
    assert_rejected("slice", "it has no rows for the first steps", &|xs| sums(xs).slice(0, 1..));
    assert_rejected("reverse", "it reorders the steps", &|xs| sums(xs.reverse(0)));
    assert_rejected("pad", "rows of later steps", &|xs| sums(xs.pad(0, 0, 1, 0.0).slice(0, 1..)));
    assert_rejected("matmul", "sums over steps", &|xs| sums(xs).matmul(xs.t()));
    assert_rejected("cumulative", "not known to act on each step alone", &|xs| sums(xs) + xs.cumsum(0, true));
    assert_rejected("associative_scan", "runs in reverse, from the last step", &|xs| {
        let options = funcify_core::ops::associative::AssociativeScanOptions::new().reverse();
        sums(xs) + funcify_core::ops::associative::associative_scan_with(options, xs, |a, b| a + b)
    });
    assert_rejected("stepped", "its steps share an axis with other elements", &|xs| {
        sums(xs).reshape([Dim::from("T") * 2])
    });
    assert_rejected("stepped", "it has no loop", &|xs| xs * 2.0);
    assert_rejected("scan", "its number of steps is `3`", &|xs| {
        scan(row(xs), constant(noise(DType::F64, &[3, 2], 1)), |sum, x| (sum + x, sum)).1.sum(0) + xs
    });
    assert_rejected("scan", "a step uses the total number of steps", &|xs| {
        scan(row(xs), xs, |sum, x| (sum + x / size("T", DType::F64), sum)).1
    });
    assert_rejected("scan", "not that of the other loops", &|xs| {
        let first = sums(xs);
        let mut loop_ = Recurrence::new();
        let y = loop_.sit_sot(row(xs));
        let done = loop_.steps(Dim::from("T") + 1).run(|step| {
            let [old] = step.read(&y);
            step.write(&y, old + 1.0);
        });
        first + done.trace(&y).slice(0, 1..)
    });
    let graph = built("refused", |g| (sums(g.input("xs", "f64[T,2]")), g.input("a", "f64[T,T]")));
    let text = graph.stepped().unwrap_err().to_string();
    assert!(text.contains("input `a` cannot") && text.contains("one row per step along one axis"), "{text}");
}

/// Ops that update or scatter elements keep the rows independent if they write along axes other than the step axis.
#[test]
fn updates_and_scatters_of_rows() {
    build_and_check(|xs| {
        let part = xs.slice(2, 0..2) * 2.0;
        let updated = xs.dynamic_update(2, part, constant(1i64));
        vec![running(updated), updated]
    });
    for mode in [ScatterMode::Set, ScatterMode::Add, ScatterMode::Max] {
        build_and_check(|xs| {
            let places = xs.slice(2, 0..2).abs().gt(0.5).cast(DType::I64);
            let scattered = xs.scatter(2, places, xs.slice(2, 1..3), mode);
            vec![running(scattered), scattered]
        });
    }
}
