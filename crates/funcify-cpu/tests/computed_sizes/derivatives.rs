//! Tests derivatives of programs that compute sizes.

use funcify::{CheckpointPolicy, GradOptions, Graph, Recurrence, scan, scan_with, while_loop};

use super::{built, check, ints, numbers, one, sized};

/// A fault to look for: gradients, second derivatives and forward mode of loops whose number of steps each outer step computes.
#[test]
fn derivatives_of_higher_order() {
    let graph = built(Graph::build("powers", |g| {
        let (w, x, counts) = (g.input("w", "f32[]"), g.input("x", "f32[]"), g.input("counts", "i64[B]"));
        scan(x, counts, |state, count| {
            let (last, rows) = scan_with(sized(count), state, (), |s, ()| ((s * w).sin() + s * 0.25, s * s));
            (last + rows.sum(0) * 0.01, ())
        })
        .0
    }));
    let of = |counts: &[i64]| vec![one(0.75), one(0.5), ints(counts)];
    let calls = [of(&[3, 0, 2]), of(&[1]), of(&[]), of(&[2, 66])];
    check(&built(graph.grad(["w", "x"], GradOptions::new())), &calls);
    check(&built(graph.grad("w", GradOptions::new().policy(CheckpointPolicy::SaveAll))), &calls[..2]);
    check(&built(graph.hessian("w", GradOptions::new())), &calls[..2]);
    check(&built(graph.jvp("w")), &[[of(&[3, 0, 2]), vec![one(1.0)]].concat()]);
}

/// A fault to look for: checkpointing and truncation divide a computed number of steps again, which binds further sizes.
#[test]
fn segments_and_truncation_of_computed_steps() {
    for truncated in [false, true] {
        let graph = built(Graph::build("segments", |g| {
            let (w, counts) = (g.input("w", "f32[]"), g.input("counts", "i64[B]"));
            scan(w * 0.5, counts, |state, count| {
                let mut inner = Recurrence::new();
                if truncated {
                    inner.truncate(2);
                } else {
                    inner.policy(CheckpointPolicy::Segments(3));
                }
                let carry = inner.carry(state);
                let done = inner.steps_value(count).run(|step| {
                    let next = (step.read(&carry) * w).sin() + 0.25;
                    step.write(&carry, next);
                    next
                });
                (done.last(&carry) + done.ys.sum(0) * 0.1, ())
            })
            .0
        }));
        let of = |counts: &[i64]| vec![one(0.75), ints(counts)];
        check(&graph, &[of(&[4, 0, 7]), of(&[3, 1, 65])]);
        check(&built(graph.grad("w", GradOptions::new())), &[of(&[4, 0, 7]), of(&[3, 1]), of(&[1, 65])]);
    }
}

/// A fault to look for: the gradient of a while loop inside of a loop runs as many steps as the while loop ran. The loop is also
/// inside of another loop whose carry decides when it ends.
#[test]
fn the_gradient_of_a_while_loop_in_a_loop() {
    let graph = built(Graph::build("roots", |g| {
        let (xs, w) = (g.input("xs", "f32[T]"), g.input("w", "f32[]"));
        scan(w, xs, |state, x| {
            let start = (x.abs() + state * 0.1 + 1.0, x.zeros_like());
            let (root, steps) = while_loop(
                start,
                |(r, _)| (r * r - x.abs() - w).abs().gt(1e-3),
                |(r, n)| ((r + (x.abs() + w) / r) * 0.5, n + 1.0),
            );
            (root, root + steps)
        })
    }));
    let of = |rows: usize, w: f32| vec![numbers(&[rows]), one(w)];
    check(&graph, &[of(4, 0.5), of(0, 0.5), of(1, 40.0)]);
    let gradient = built(graph.vjp(["xs", "w"], GradOptions::new()));
    check(
        &gradient,
        &[[of(4, 0.5), vec![one(1.0), numbers(&[4])]].concat(), [of(0, 0.5), vec![one(1.0), numbers(&[0])]].concat()],
    );
}
