//! Compares entire error messages, as the user sees them, with the texts in `errors/`.
//!
//! `FUNCIFY_BLESS=1 cargo test -p funcify --test errors` rewrites the texts. In the texts, `<site>` replaces the user's
//! source line.

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference, bind_sizes, open_backend};
use funcify::error::{Place, Site};
use funcify::prelude::*;
use funcify::{
    AssociativeScanOptions, MapOptions, Shape, VmapOptions, associative_scan_with, custom_jvp, custom_vjp, linearize,
    map_with, random, vmap_with,
};

mod elementwise;
#[path = "errors/message.rs"]
mod message;
use message::{assert_rejected, check};
#[path = "errors/misfit.rs"]
mod misfit;
use misfit::misfit;
#[path = "errors/one_op.rs"]
mod one_op;
use one_op::OneOp;
#[path = "errors/opaque.rs"]
mod opaque;
use opaque::opaque;

#[test]
fn operands_of_ops() {
    assert_rejected("matmul_shapes", |g| g.input("x", "f32[B,64]").tanh().matmul(g.input("w", "f32[65,128]")));
    assert_rejected("matmul_dtypes", |g| g.input("x", "f32[2,3]").matmul(g.input("w", "f64[3,2]")));
    assert_rejected("add_dtypes", |g| g.input("x", "f32[3]").exp() + g.input("y", "f64[3]"));
    assert_rejected("add_shapes", |g| g.input("x", "f32[T,3]") * 2.0 + g.input("y", "f32[T,4]"));
    assert_rejected("float_into_integers", |g| g.input("count", "i64[T]") + 0.5);
    assert_rejected("integer_out_of_range", |g| g.input("bytes", "u8[3]") + 300);
    assert_rejected("axis", |g| g.input("x", "f32[T,3]").sum(2));
    assert_rejected("axis_of_a_scalar", |g| g.input("x", "f32[]").reverse(0));
    assert_rejected("unstack", |g| g.input("w", "f32[3]").unstack::<2>(0));
    assert_rejected("reshape", |g| g.input("x", "f32[2,3]").reshape([4]));
    assert_rejected("float_of_integers", |g| g.input("x", "i64[3]").exp());
}

#[test]
fn lanes() {
    assert_rejected("lanes_of_different_sizes", |g| {
        vmap((g.input("x", "f32[B,3]"), vec![g.input("y", "f32[3]")]), |(x, y)| x * y[0])
    });
    assert_rejected("lanes_of_a_scalar", |g| vmap((g.input("x", "f32[B]"), g.input("w", "f32[]")), |(x, w)| x * w));
    assert_rejected("lanes_of_nothing", |g| {
        let none = VmapOptions::new().in_axes([None, None]);
        vmap_with(none, [g.input("x", "f32[B]"), g.input("w", "f32[]")], |[x, w]| x * w)
    });
    assert_rejected("lanes_without_an_axis", |g| {
        let first = VmapOptions::new().in_axes([Some(0)]);
        vmap_with(first, [g.input("x", "f32[B]"), g.input("w", "f32[]")], |[x, w]| x * w)
    });
    assert_rejected("lanes_of_sizes_of_their_own", |g| {
        vmap(g.input("n", "i64[B]"), |n| funcify::full([funcify::bind_size(n)], DType::F32, 1.0))
    });
    assert_rejected("lanes_of_a_missing_axis", |g| {
        vmap_with(VmapOptions::new().in_axes(2), g.input("x", "f32[B,3]"), |x| x.sum(0))
    });
    assert_rejected("lanes_to_a_missing_axis", |g| {
        vmap_with(VmapOptions::new().out_axis(1), g.input("x", "f32[B,3]"), |x| x.sum(0))
    });
    assert_rejected("op_in_a_lane", |g| vmap(g.input("x", "f32[B,3]"), |x| x.matmul(x.unsqueeze(0))));
    assert_rejected("sorted_rows_of_a_lane", |g| {
        let (limit, xs) = (g.input("limit", "f32[B]"), g.input("xs", "f32[9]"));
        vmap(limit, |limit| {
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(xs, [0]);
            let done = loop_.run(|step| {
                let [x] = step.read(&x);
                step.until(x.gt(limit));
                x
            });
            done.ys.sort(0, false).0.max(0)
        })
    });
    assert_rejected("ragged_lanes", |g| {
        let (n, xs) = (g.input("n", "i64[B]"), g.input("xs", "f32[9]"));
        vmap(n, |n| {
            let mut loop_ = Recurrence::new();
            let x = loop_.sequence(xs, [0]);
            loop_.steps_value(n).run(|step| step.read(&x)[0].exp()).ys
        })
    });
    let last = Graph::parse(
        "fn @last(%n: i64[], %xs: f32[9]) {
           %ys: f32[2] last 2 = scan @step %n {steps=$1} {
             seq %x: f32[] = %xs[t]
             nit-sot %ys
             %ys[t] = %x
           }
           return ys=%ys
         }",
    );
    check("last_rows_of_lanes", last.unwrap().vmap("B", VmapOptions::new().in_axes([("n", 0)])));
    assert_rejected("chunk_of_nothing", |g| map_with(MapOptions::new().chunk(0), g.input("x", "f32[T]"), |x| x.exp()));
    let one = Graph::build("one", |g| g.input("x", "f32[3]").exp()).unwrap();
    check("lanes_of_a_graph", one.vmap("B", VmapOptions::new().in_axes([Some(2)])));
    check("lanes_of_an_unknown_input", one.vmap("B", VmapOptions::new().in_axes([("y", 0)])));
    check("lanes_named_twice", one.vmap("B", VmapOptions::new().in_axes([("x", 0), ("x", 1)])));
}

#[test]
fn associative_scans() {
    assert_rejected("elements_of_different_lengths", |g| {
        associative_scan((g.input("a", "f32[T]"), g.input("b", "f32[T+1]")), |(a, b), (c, d)| (a * c, b * c + d))
    });
    assert_rejected("elements_of_a_scalar", |g| associative_scan(g.input("x", "f32[]"), |a, b| a + b));
    assert_rejected("elements_along_a_missing_axis", |g| {
        associative_scan_with(AssociativeScanOptions::new().axis(-2), g.input("x", "f32[T]"), |a, b| a + b)
    });
    assert_rejected("elements_of_nothing", |_| associative_scan((), |(), ()| ()));
    assert_rejected("combined_dtype", |g| {
        associative_scan([g.input("x", "f32[T,2]")], |[a], [b]| [(a + b).cast(DType::F64)])
    });
    assert_rejected("combined_shape", |g| associative_scan(g.input("x", "f32[T,2]"), |a, b| (a * b).sum(0)));
    assert_rejected("combined_structure", |g| {
        associative_scan(vec![g.input("x", "f32[T]")], |a, b| vec![a[0] + b[0], a[0]])
    });
}

#[test]
fn derivatives() {
    assert_rejected("loss_of_a_vector", |g| grad(g.input("x", "f32[3]"), |x| x.exp() * 2.0));
    assert_rejected("gradient_of_integers", |g| grad(g.input("n", "i64[3]"), |n| n.cast(DType::F32).sum(0)));
    assert_rejected("disconnected_gradient", |g| {
        let (x, w) = (g.input("x", "f32[3]"), g.input("w", "f32[3]"));
        grad((x, w), |(x, w)| (x * w.floor().cast(DType::I64).cast(DType::F32)).sum(0))
    });
    assert_rejected("unused_in_the_loss", |g| {
        grad((g.input("x", "f32[3]"), g.input("w", "f32[3]")), |(x, _)| x.sum(0))
    });
    assert_rejected("no_derivative", |g| grad(g.input("x", "f32[3]"), |x| opaque(x.exp()).sum(0)));
    assert_rejected("cotangent_type", |g| vjp(g.input("x", "f32[3]"), |x| x.exp(), |ys| ys.cast(DType::F64)).1);
    let graph = Graph::build("loss", |g| g.input("x", "f32[3]").sum(0)).unwrap();
    check("gradient_by_an_unknown_input", graph.grad("w", GradOptions::new()));
}

/// Derivatives with respect to a key, or with respect to a float from which keys are computed, are rejected, even if a
/// loop computes the keys.
#[test]
fn derivatives_through_random_state() {
    assert_rejected("gradient_of_a_key", |g| {
        grad(g.input("key", "u32[2]"), |key| random::normal(key, Shape::scalar(), DType::F32))
    });
    let seeded =
        |x: Value| random::normal(random::fold_in(random::key(0), x.cast(DType::I64)), Shape::scalar(), DType::F32);
    assert_rejected("gradient_through_a_key", |g| grad(g.input("x", "f32[]"), |x| seeded(x) * 2.0));
    assert_rejected("gradient_through_keys_of_a_loop", |g| {
        grad(g.input("x", "f32[]"), |x| {
            let step = |(key, sum): (Value, Value), ()| {
                let next = random::fold_in(key, x.cast(DType::I64));
                ((next, sum + random::normal(next, Shape::scalar(), DType::F32)), ())
            };
            scan_with(ScanOptions::new().length(3), (random::key(0), x.ones_like()), (), step).0.1
        })
    });
}

/// Derivatives with respect to the number of steps are rejected.
#[test]
fn derivatives_by_the_number_of_steps() {
    assert_rejected("gradient_of_a_count", |g| {
        let (n, w) = (g.input("n", "i64[]"), g.input("w", "f32[]"));
        grad(n, |n| fori_loop(0, n, w.ones_like(), |_, c| c * w))
    });
    assert_rejected("gradient_through_a_count", |g| {
        let (x, w) = (g.input("x", "f32[]"), g.input("w", "f32[]"));
        grad((w, x), |(w, x)| fori_loop(0, x.cast(DType::I64), w.ones_like(), |_, c| c * w))
    });
}

#[test]
fn derivative_rules() {
    assert_rejected("rule_that_captures", |g| {
        let (x, w) = (g.input("x", "f32[3]"), g.input("w", "f32[3]"));
        grad((x, w), |(x, w)| custom_vjp(x, |x| x * w.exp(), |x| (x * w, x), |x, ct| ct * x).sum(0))
    });
    assert_rejected("rule_result", |g| {
        custom_vjp(g.input("x", "f32[3]"), |x| [x, x], |x| ([x, x.sum(0)], ()), |(), [ct, _]| ct)
    });
    assert_rejected("rule_results", |g| custom_vjp(vec![g.input("x", "f32[3]")], |x| x, |_| (vec![], ()), |(), ct| ct));
    assert_rejected("rule_cotangent", |g| {
        let (x, w) = (g.input("x", "f32[3]"), g.input("w", "f32[]"));
        custom_vjp((x, w), |(x, w)| x * w, |(x, w)| (x * w, (x, w)), |(x, w), ct| (ct * w, ct * x))
    });
    assert_rejected("rule_cotangent_missing", |g| {
        let (x, w) = (g.input("x", "f32[3]"), g.input("w", "f32[]"));
        custom_vjp((x, w), |(x, w)| x * w, |(x, w)| (x * w, w), |w, ct| (ct * w, ()))
    });
    assert_rejected("rule_cotangent_unknown", |g| {
        custom_vjp(g.input("x", "f32[3]"), |x| x, |x| (x, x), |x, ct| (ct, x))
    });
    assert_rejected("rule_tangent", |g| {
        custom_jvp(g.input("x", "f32[3]"), |x| x.exp(), |_, y, v| (v * y).cast(DType::F64))
    });
    assert_rejected("rule_size", |g| {
        let until = |xs: Value| scan_until(xs.sum(0), xs, |sum, x| (sum, x, x.lt(0.0))).1;
        custom_jvp(g.input("xs", "f32[T]"), until, |_, _, v| v)
    });
    assert_rejected("rule_that_is_not_linear", |g| {
        let clipped = |x| custom_vjp(x, |x: Value| x, |x| (x, ()), |(), ct: Value| ct.clamp(-1.0, 1.0));
        jvp(g.input("x", "f32[3]"), g.input("v", "f32[3]"), clipped).1
    });
    assert_rejected("rule_of_itself", |g| {
        fn sin(x: Value) -> Value {
            custom_jvp(x, |x| x.sin(), |x, _, v| v * cos(x))
        }
        fn cos(x: Value) -> Value {
            custom_jvp(x, |x| x.cos(), |x, _, v| -v * sin(x))
        }
        sin(g.input("x", "f32[3]"))
    });
    assert_rejected("linearized_along_another_type", |g| {
        linearize(g.input("x", "f32[3]"), |x| x.exp()).1.apply(g.input("v", "f64[3]"))
    });
}

#[test]
fn choices() {
    assert_rejected("branch_dtype", |g| {
        let (p, x) = (g.input("p", "bool[]"), g.input("x", "f32[3]"));
        cond(p, || (x, x), || (x, x.cast(DType::F64)))
    });
    assert_rejected("branch_shape", |g| {
        let (k, x) = (g.input("k", "i64[]"), g.input("x", "f32[3]"));
        switch(k, [&|| x, &|| x.exp(), &|| x.sum(0)])
    });
    assert_rejected("branch_structure", |g| {
        let (p, x) = (g.input("p", "bool[]"), g.input("x", "f32[3]"));
        cond(p, || vec![x, x], || vec![x])
    });
    assert_rejected("predicate_of_a_row", |g| {
        let x = g.input("x", "f32[3]");
        cond(x.gt(0.0), || x.log(), || x)
    });
    assert_rejected("predicate_of_floats", |g| {
        let x = g.input("x", "f32[]");
        cond(x, || x.log(), || x)
    });
    assert_rejected("index_of_floats", |g| {
        let x = g.input("x", "f32[]");
        switch(x, [&|| x.log(), &|| x])
    });
}

#[test]
fn conditional_loops() {
    assert_rejected("condition_of_a_row", |g| while_loop(g.input("x", "f32[3]"), |x| x.lt(1.0), |x| x * 2.0));
    assert_rejected("carry_of_a_while_loop", |g| {
        while_loop(g.input("n", "i64[]"), |n| n.lt(9), |n| n.cast(DType::F32) * 1.5)
    });
    assert_rejected("until_of_a_row", |g| {
        scan_until(g.input("sum", "f32[3]"), g.input("xs", "f32[T,3]"), |sum, x| (sum + x, sum, x.lt(0.0)))
    });
    assert_rejected("until_of_floats", |g| {
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
        loop_
            .run(|step| {
                let [x] = step.read(&x);
                step.until(x);
                x
            })
            .ys
    });
    let early = Graph::build("model", |g| {
        let (_, ys) = scan_until(g.input("sum", "f32[]"), g.input("xs", "f32[T]"), |sum, x| (sum + x, sum, x.lt(0.0)));
        ys.slice(0, -5..)
    });
    let (early, xs) = (early.unwrap(), HostTensor::from([1f32, 2., -1., 4., 5., 6.]));
    check("last_rows_of_a_loop_that_ends_early", funcify::evaluate(&early, &[HostTensor::scalar(0f32), xs]));
    let graph = Graph::build("model", |g| while_loop(g.input("n", "i64[]"), |n| n.lt(9), |n| n + 1)).unwrap();
    let options = CompileOptions { strategy: LoopStrategy::Unroll, ..CompileOptions::default() };
    check("unrolled_while_loop", Function::compile_with(&graph, &Reference, options));
}

/// Checks scan-c4 (the types of carries and written rows) for `scan` and for `Recurrence`.
#[test]
fn carries() {
    assert_rejected("carry_shape", |g| {
        let xs = g.input("xs", "f32[T,1]");
        scan(g.input("h", "f32[3]"), xs, |h, x| (concat(&[h, x], 0), ()))
    });
    assert_rejected("carry_broadcast", |g| {
        scan(g.input("sum", "f32[]"), g.input("xs", "f32[T,2]"), |sum, x| (sum + x, ()))
    });
    assert_rejected("carry_dtype_of_a_nested_leaf", |g| {
        let (a, b) = (g.input("a", "f32[]"), g.input("b", "f32[2]"));
        scan((a, [b, b]), g.input("xs", "f32[T,2]"), |(a, [b, c]), x| ((a, [b + x, c.cast(DType::F64)]), ()))
    });
    assert_rejected("carry_structure", |g| {
        let (a, b) = (g.input("a", "f32[]"), g.input("b", "f32[]"));
        scan(vec![a, b], g.input("xs", "f32[T]"), |carry, x| (vec![carry[0] + carry[1] + x], ()))
    });
    assert_rejected("carry_of_a_recurrence", |g| {
        let mut loop_ = Recurrence::new();
        let count = loop_.carry(g.input("count", "i64[]"));
        let done = loop_.steps(3).run(|step| {
            let next = step.read(&count).cast(DType::F32) * 0.5;
            step.write(&count, next);
        });
        done.last(&count)
    });
    assert_rejected("carry_without_a_write", |g| {
        let mut loop_ = Recurrence::new();
        let count = loop_.carry(g.input("count", "i64[]"));
        loop_.steps(3).run(|step| step.read(&count) * 2).ys
    });
    assert_rejected("carry_structure_of_a_recurrence", |g| {
        let (a, b) = (g.input("a", "f32[]"), g.input("b", "f32[]"));
        let mut loop_ = Recurrence::new();
        let pair = loop_.carry(vec![a, b]);
        loop_.steps(3).run(|step| {
            let old = step.read(&pair);
            step.write(&pair, vec![old[0] + old[1]]);
        });
        a
    });
}

/// Checks scan-c6: the number of steps must be known, not negative, and consistent with all sequences.
#[test]
fn numbers_of_steps() {
    assert_rejected("sequence_lengths", |g| {
        let (words, tags) = (g.input("words", "f32[T,4]"), g.input("tags", "i64[S]"));
        scan((), (words, tags), |(), (word, tag)| ((), (word, tag)))
    });
    let with_length = |name: &str, length: i64, rows: &'static str| {
        assert_rejected(name, |g| {
            let options = ScanOptions::new().length(length);
            scan_with(options, g.input("sum", "f32[]"), g.input("xs", rows), |sum, x| (sum + x, ()))
        });
    };
    with_length("length_disagrees", 4, "f32[3]");
    with_length("length_of_a_symbol", 4, "f32[T]");
    assert_rejected("no_length", |g| scan(g.input("sum", "f32[]"), (), |sum, ()| (sum * 2.0, sum)));
    assert_rejected("no_steps", |g| {
        let mut loop_ = Recurrence::new();
        let state = loop_.sit_sot(g.input("init", "f32[]"));
        loop_.run(|step| {
            let [old] = step.read(&state);
            step.write(&state, old * 2.0);
        });
        g.input("x", "f32[]")
    });
    assert_rejected("negative_length", |g| {
        scan_with(ScanOptions::new().length(-2), g.input("sum", "f32[]"), (), |sum, ()| (sum * 2.0, ()))
    });
    assert_rejected("negative_steps", |g| counter(g, |loop_| loop_.steps(-2)));
    assert_rejected("float_steps", |g| {
        let n = g.input("n", "f32[]");
        counter(g, |loop_| loop_.steps_value(n))
    });
    assert_rejected("steps_not_comparable", |g| {
        let mut loop_ = Recurrence::new();
        let (x, z) = (loop_.sequence(g.input("xs", "f32[T]"), [0]), loop_.sequence(g.input("zs", "f32[S]"), [0]));
        loop_.run(|step| step.read(&x)[0] * step.read(&z)[0]).ys
    });
}

/// Builds a loop that counts up by one in each step. The closure `steps` sets the number of steps of the loop.
fn counter(g: &Builder, steps: impl FnOnce(&mut Recurrence) -> &mut Recurrence) -> Value {
    let mut loop_ = Recurrence::new();
    let state = loop_.sit_sot(g.input("init", "f32[]"));
    let done = steps(&mut loop_).run(|step| {
        let [old] = step.read(&state);
        step.write(&state, old + 1.0);
    });
    done.trace(&state)
}

/// Builds a loop that doubles the row at the first tap. Sets the number of steps of the loop if `steps` is `Some`.
fn doubled<const N: usize>(rows: Value, taps: [i64; N], steps: Option<i64>) -> Value {
    let mut loop_ = Recurrence::new();
    let x = loop_.sequence(rows, taps);
    if let Some(steps) = steps {
        loop_.steps(steps);
    }
    loop_.run(|step| step.read(&x)[0] * 2.0).ys
}

/// Builds a loop in which each row of a state is the sum of two earlier rows, selected by `taps`.
fn sums_of_two(g: &Builder, taps: [i64; 2]) -> Value {
    let mut loop_ = Recurrence::new();
    let state = loop_.mit_sot(g.input("init", "f32[2]"), taps);
    let done = loop_.steps(5).run(|step| {
        let [a, b] = step.read(&state);
        step.write(&state, a + b);
    });
    done.trace(&state)
}

/// Checks scan-c3: the steps must not read or write rows that are out of bounds.
#[test]
fn rows() {
    assert_rejected("scalar_sequence", |g| scan((), g.input("xs", "f32[]"), |(), x| ((), x)));
    assert_rejected("scalar_sequence_of_a_recurrence", |g| doubled(g.input("xs", "f32[]"), [0], None));
    assert_rejected("sequence_shorter_than_n", |g| doubled(g.input("xs", "f32[3]"), [0], Some(5)));
    assert_rejected("sequence_shorter_than_its_taps", |g| doubled(g.input("xs", "f32[2]"), [-1, 2], None));
    assert_rejected("buffer_shorter_than_n", |g| {
        let mut loop_ = Recurrence::new();
        let buffer = loop_.mit_mot(g.input("rows", "f32[3,2]"), [0, 1], [1]);
        let done = loop_.steps(5).run(|step| {
            let [x0, x1] = step.read(&buffer);
            step.write(&buffer, [x0 + x1]);
        });
        done.buffer(&buffer)
    });
    assert_rejected("too_few_initial_rows", |g| sums_of_two(g, [-3, -1]));
    assert_rejected("row_of_a_shorter_trace", |g| {
        let (_, ys) = scan(g.input("sum", "f32[]"), g.input("xs", "f32[2]"), |sum, x| (sum + x, sum + x));
        ys.index(0, 3)
    });
    assert_rejected("row_before_the_first", |g| g.input("xs", "f32[2]").index(0, -3));
    assert_rejected("two_rows_before_the_first", |g| g.input("xs", "f32[2]").index(0, -4));
}

/// Checks scan-c5 (steps read only rows that exist) and the additional rules for the taps of a `Recurrence`.
#[test]
fn taps_and_writes() {
    assert_rejected("state_tap_of_now", |g| sums_of_two(g, [-1, 0]));
    assert_rejected("duplicate_state_taps", |g| sums_of_two(g, [-2, -2]));
    assert_rejected("duplicate_write_taps", |g| {
        let mut loop_ = Recurrence::new();
        let buffer = loop_.mit_mot(g.input("rows", "f32[T]"), [0, 1], [1, 1]);
        let done = loop_.run(|step| {
            let [x0, x1] = step.read(&buffer);
            step.write(&buffer, [x0, x1]);
        });
        done.buffer(&buffer)
    });
    assert_rejected("missing_write", |g| {
        let mut loop_ = Recurrence::new();
        let (x, state) = (loop_.sequence(g.input("xs", "f32[T]"), [0]), loop_.sit_sot(g.input("init", "f32[]")));
        let done = loop_.run(|step| step.read(&x)[0] + step.read(&state)[0]);
        (done.ys, done.trace(&state))
    });
    assert_rejected("row_of_another_type", |g| {
        let mut loop_ = Recurrence::new();
        let state = loop_.sit_sot(g.input("init", "f32[2]"));
        let done = loop_.steps(4).run(|step| {
            let [old] = step.read(&state);
            step.write(&state, old.sum(0));
        });
        done.trace(&state)
    });
}

#[test]
fn names_and_scopes() {
    assert_rejected("escaped_value", |g| {
        let mut leaked = None;
        let (_, ys) = scan(g.input("sum", "f32[]"), g.input("xs", "f32[T]"), |sum, x| {
            leaked = Some(sum * x);
            (sum + x, sum)
        });
        ys + leaked.unwrap_or(ys)
    });
    assert_rejected("duplicate_input", |g| g.input("x", "f32[]") + g.input("x", "f32[]"));
    assert_rejected("input_name", |g| g.input("my input", "f32[]"));
    assert_rejected("input_in_a_body", |g| scan((), g.input("xs", "f32[T]"), |(), x| ((), x + g.input("w", "f32[]"))));
    assert_rejected("input_type_dtype", |g| g.input("x", "float32[3]"));
    assert_rejected("input_type_brackets", |g| g.input("x", "f32[3"));
    assert_rejected("static_input_of_floats", |g| g.static_input("n", DType::F32));
    check("graph_name", Graph::build("my model", |g| g.input("x", "f32[]")));
    check("text", Graph::parse("fn @model(%x: f32[3]) {\n  %y: f32[3] = sine %x\n  return y=%y\n}"));
    check("text_type", Graph::parse("fn @model(%x: f32[3]) {\n  %y: f32[2] = sin %x\n  return y=%y\n}"));
}

/// Builds a recurrent program with ops that `OneOp` does not support.
fn model() -> Graph {
    let graph = Graph::build("model", |g| {
        let w = g.input("w", "f32[3]");
        let (last, sums) = scan(g.input("init", "f32[3]"), g.input("xs", "f32[T,3]"), |sum, x| {
            let next = (sum + x * w).tanh();
            (next, next)
        });
        (last + 1.0, sums.named("sums"))
    });
    graph.unwrap()
}

fn tensor(shape: &[usize]) -> HostTensor {
    HostTensor::zeros(DType::F32, shape)
}

#[test]
fn compilation() {
    check("missing_lowering_rule", Function::compile(&model(), &OneOp));
    check("unknown_backend", open_backend("cuda"));
    for (name, results) in [("composition_of_another_type", 1), ("composition_with_more_results", 2)] {
        let graph = Graph::build("model", |g| misfit(g.input("x", "f32[3]"), results)).unwrap();
        check(name, Function::compile(&graph, &OneOp));
    }
    let unrolled = |graph: &Graph, max_kernels: usize| {
        let options =
            CompileOptions { strategy: LoopStrategy::Unroll, max_kernels, rewrites: None, ..CompileOptions::default() };
        Function::compile_with(graph, &Reference, options)
    };
    let dynamic = Graph::build("model", |g| {
        let n = g.input("n", "i64[]");
        counter(g, |loop_| loop_.steps_value(n + 1))
    });
    // All sizes are static, so `compile` already builds the program.
    check("step_count_not_static", unrolled(&dynamic.unwrap(), 100));
    let arguments = [tensor(&[3]), tensor(&[3]), tensor(&[1000, 3])];
    check("program_too_large", unrolled(&model(), 100).unwrap().call_host(&arguments));
}

#[test]
fn calls() {
    let called = |name: &str, shapes: &[&[usize]]| {
        let arguments: Vec<HostTensor> = shapes.iter().map(|shape| tensor(shape)).collect();
        check(name, Function::compile(&model(), &Reference).unwrap().call_host(&arguments));
    };
    called("call_with_too_few", &[&[3], &[3]]);
    called("call_with_another_size", &[&[3], &[4], &[2, 3]]);
    called("call_with_another_rank", &[&[3], &[3], &[3]]);
    let pair = Graph::build("pair", |g| {
        let xs = (g.input("xs", "f32[T]"), g.input("zs", "f32[T]"));
        scan((), xs, |(), (x, z)| ((), x * z)).1
    });
    let pair = Function::compile(&pair.unwrap(), &Reference).unwrap();
    check("call_with_conflicting_sizes", pair.call_host(&[tensor(&[3]), tensor(&[2])]));
    check("call_with_another_dtype", pair.call_host(&[tensor(&[3]), HostTensor::zeros(DType::F64, &[3])]));
    let unknown = TensorType::parse("f32[T]").unwrap();
    let at = Place::new("model", Site::caller());
    check("call_with_unknown_sizes", bind_sizes(&at, pair.graph(), &[unknown.clone(), unknown]));
}

#[test]
fn running_programs() {
    let counted = Graph::build("counted", |g| {
        let mut loop_ = Recurrence::new();
        let x = loop_.sequence(g.input("xs", "f32[T]"), [0, 1]);
        loop_.steps_value(g.input("n", "i64[]")).run(|step| step.read(&x)[1] * 2.0).ys
    });
    let counted = Function::compile(&counted.unwrap(), &Reference).unwrap();
    check("run_with_too_many_steps", counted.call_host(&[tensor(&[3]), HostTensor::scalar(3i64)]));
    check("run_with_negative_steps", counted.call_host(&[tensor(&[3]), HostTensor::scalar(-1i64)]));
    let third = Graph::build("third", |g| (g.input("xs", "f32[T]") * 2.0).index(0, 3)).unwrap();
    let third = Function::compile(&third, &Reference).unwrap();
    check("run_with_too_few_rows", third.call_host(&[tensor(&[2])]));
}

/// An error points to the user's line, not to a line inside funcify.
#[test]
fn the_site_is_the_users_line() {
    let mut line = 0;
    let in_a_body = Graph::build("model", |g| {
        scan(g.input("sum", "f32[]"), g.input("xs", "f32[T]"), |sum, x| {
            line = line!() + 1;
            (sum + x.cast(DType::F64), ())
        })
    });
    check_line(in_a_body, line);
    let number = Graph::build("model", |g| (g.input("x", "i64[]") + 0.5, line = line!()).0);
    check_line(number, line);
    let of_the_loop = Graph::build("model", |g| {
        let init = g.input("init", "f32[2]");
        line = line!() + 1;
        scan(init, g.input("xs", "f32[T]"), |c, _| (c.sum(0), ()))
    });
    check_line(of_the_loop, line);
    let of_a_tap = Graph::build("model", |g| {
        let mut loop_ = Recurrence::new();
        line = line!() + 1;
        let state = loop_.mit_sot(g.input("init", "f32[2]"), [-2, 1]);
        loop_.steps(2).run(|step| step.read(&state)[0]).ys
    });
    check_line(of_a_tap, line);
    let function = Function::compile(&model(), &Reference).unwrap();
    check_line(function.call_host(&[]), line!());
}

#[track_caller]
fn check_line<T>(result: Result<T, Error>, line: u32) {
    let Err(error) = result else { panic!("it is not rejected") };
    let Site::Rust(location) = error.place().site else { panic!("no line of Rust in\n{error}") };
    assert_eq!((location.file().ends_with("tests/errors.rs"), location.line()), (true, line), "{error}");
}

/// Sizes are rejected if no input determines them, or if they are invalid in a call.
#[test]
fn sizes_of_calls() {
    let graph = Graph::build("model", |g| (g.input("x", "f32[T]"), iota(Dim::from("T") - 3, DType::I64)));
    check("negative_size_of_a_call", evaluate(&graph.unwrap(), &[tensor(&[1])]));
    let graph = Graph::build("model", |g| {
        let n = bind_size(g.input("n", "i64[]"));
        iota(n.clone() * n.clone() * n, DType::I64).sum(0)
    });
    check("size_beyond_64_bits", evaluate(&graph.unwrap(), &[HostTensor::scalar(1i64 << 40)]));
    let graph = Graph::build("model", |g| (g.input("x", "f32[T]"), iota("N", DType::I64)));
    check("size_that_no_input_binds", evaluate(&graph.unwrap(), &[tensor(&[4])]));
}
