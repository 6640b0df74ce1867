//! Tests errors that no program in text form can cause: they come from the results of closures, from graphs built by
//! hand, and from ops applied directly. `errors/` contains the messages; `FUNCIFY_BLESS=1 cargo test -p funcify --test
//! refusals` rewrites them.

use std::collections::BTreeMap;
use std::sync::Arc;

use funcify::ops::scan::{Buffer, Returned, Sequence, Start};
use funcify::ops::{AssociativeScan, Scan, Switch, While};
use funcify::prelude::*;
use funcify::{Shape, apply, custom_vjp, einsum, linearize, nn, random, while_loop_bounded};

#[path = "errors/message.rs"]
mod message;
use message::{assert_rejected, check};

fn body(program: impl FnOnce(&funcify::Builder) -> Vec<Value>) -> Arc<Graph> {
    Arc::new(Graph::build("body", program).unwrap())
}

/// Returns a loop that sums three rows in a carry.
fn sum_of_rows() -> Scan {
    Scan {
        body: body(|g| vec![g.input("c", "f32[]") + g.input("x", "f32[]")]),
        steps: Dim::from(3),
        steps_operand: false,
        until: None,
        reverse: false,
        sequences: vec![Sequence { reads: vec![0] }],
        buffers: Vec::new(),
        carries: 1,
        invariants: 0,
        unroll: 1,
        policy: None,
        truncate: None,
    }
}

fn applied(name: &str, op: Scan) {
    assert_rejected(name, |g| apply(op, &[g.input("xs", "f32[3]"), g.input("c", "f32[]")]));
}

/// Checks scan-c3 to scan-c5, with bodies that `scan` and `Recurrence` never build.
#[test]
fn bodies_of_loops() {
    let of = |row: &'static str, carry: &'static str, next: &'static str| {
        body(move |g| {
            let (_, c) = (g.input("x", row), g.input("c", carry));
            vec![if next == carry { c } else { c.cast(DType::F64) }]
        })
    };
    let loop_ = sum_of_rows;
    applied("loop_of_too_many_operands", Scan { sequences: Vec::new(), ..loop_() });
    applied("loop_body_without_parameters", Scan { body: body(|g| vec![g.input("c", "f32[]")]), ..loop_() });
    let two = body(|g| {
        let (_, c) = (g.input("x", "f32[]"), g.input("c", "f32[]"));
        vec![c, c]
    });
    applied("loop_body_of_two_results", Scan { body: two, ..loop_() });
    applied("loop_parameter_of_a_sequence", Scan { body: of("f64[]", "f32[]", "f32[]"), ..loop_() });
    applied("loop_parameter_of_a_carry", Scan { body: of("f32[]", "f64[]", "f64[]"), ..loop_() });
    let buffer = |writes: Vec<usize>| Buffer { start: Start::Full, reads: vec![0], writes, returned: Returned::All };
    let with_buffer = |row: &'static str, writes: Vec<usize>| Scan {
        body: body(|g| {
            let (x, c) = (g.input("x", row), g.input("c", "f32[]"));
            [writes.iter().map(|_| x).collect(), vec![c]].concat()
        }),
        sequences: Vec::new(),
        buffers: vec![buffer(writes.clone())],
        ..sum_of_rows()
    };
    applied("loop_parameter_of_a_buffer", with_buffer("f64[]", vec![0]));
    applied("loop_buffer_without_writes", with_buffer("f32[]", Vec::new()));
    let given = Buffer { start: Start::Given(2), reads: vec![1], writes: vec![2], returned: Returned::All };
    applied("loop_buffer_of_two_given_rows", Scan { buffers: vec![given], ..with_buffer("f32[]", vec![0]) });
    assert_rejected("loop_parameter_of_an_invariant", |g| {
        let (xs, c) = (g.input("xs", "f32[3]"), g.input("c", "f32[]"));
        let body = body(|g| {
            let (_, c, _) = (g.input("x", "f32[]"), g.input("c", "f32[]"), g.input("w", "f64[]"));
            vec![c]
        });
        apply(Scan { body, invariants: 1, ..sum_of_rows() }, &[xs, c, c])
    });
}

#[test]
fn bodies_of_choices() {
    let given = |ty: &'static str| body(move |g| vec![g.input("x", ty)]);
    let applied = |name: &str, branches: Vec<Arc<Graph>>| {
        assert_rejected(name, |g| apply(Switch { branches }, &[g.input("k", "i64[]"), g.input("x", "f32[]")]));
    };
    applied("choice_of_no_branches", Vec::new());
    applied("choice_of_too_few_operands", vec![given("f32[]"), given("f32[]")]);
    applied("choice_parameter", vec![given("f64[]")]);
    assert_rejected("branch_type", |g| {
        let (p, x) = (g.input("p", "bool[]"), g.input("x", "f32[3]"));
        cond(p, || x, || x.sum(0).cast(DType::F64))
    });
    assert_rejected("branch_of_nothing", |g| {
        let (p, x) = (g.input("p", "bool[]"), g.input("x", "f32[3]"));
        cond(p, || vec![x], Vec::new)
    });
    assert_rejected("third_branch", |g| {
        let (k, x) = (g.input("k", "i64[]"), g.input("x", "f32[3]"));
        switch(k, [&|| x, &|| x, &|| x.sum(0)])
    });
}

#[test]
fn bodies_of_conditional_loops() {
    let holds = || body(|g| vec![g.input("c", "f32[]").lt(1.0)]);
    let step = |ty: &'static str| body(move |g| vec![g.input("c", ty)]);
    let applied = |name: &str, condition: Arc<Graph>, body: Arc<Graph>, count: usize| {
        assert_rejected(name, |g| {
            let c = g.input("c", "f32[]");
            apply(While { condition, body, bound: None }, &vec![c; count])
        });
    };
    applied("while_of_too_many_operands", holds(), step("f32[]"), 2);
    applied("while_condition_without_parameters", body(|_| vec![constant(true)]), step("f32[]"), 1);
    applied("while_parameter", holds(), step("f64[]"), 1);
}

#[test]
fn bodies_of_associative_scans() {
    let sum = |ty: &'static str, other: &'static str| {
        body(move |g| {
            let (a, _) = (g.input("a", ty), g.input("b", other));
            vec![a]
        })
    };
    let applied = |name: &str, combine: Arc<Graph>, leaves: usize, operands: usize| {
        assert_rejected(name, |g| {
            let xs = g.input("xs", "f32[T]");
            apply(AssociativeScan { combine, leaves, reverse: false }, &vec![xs; operands])
        });
    };
    applied("combine_of_no_leaves", sum("f32[]", "f32[]"), 0, 0);
    applied("combine_of_too_few_parameters", sum("f32[]", "f32[]"), 2, 2);
    applied("combine_of_too_many_results", body(|g| vec![g.input("a", "f32[]"), g.input("b", "f32[]")]), 1, 1);
    let captures = body(|g| {
        let (a, b, w) = (g.input("a", "f32[]"), g.input("b", "f32[]"), g.input("w", "f64[]"));
        vec![a * b * w.cast(DType::F32)]
    });
    assert_rejected("combine_captures", |g| {
        let op = AssociativeScan { combine: captures, leaves: 1, reverse: false };
        apply(op, &[g.input("xs", "f32[T]"), g.input("w", "f32[]")])
    });
    assert_rejected("combined_type", |g| {
        associative_scan(g.input("x", "f32[T,2]"), |a, b| (a * b).sum(0).cast(DType::F64))
    });
    assert_rejected("combined_nothing", |g| associative_scan(vec![g.input("x", "f32[T]")], |_, _| Vec::new()));
}

#[test]
fn carries() {
    assert_rejected("carry_type", |g| scan(g.input("c", "f32[3]"), (), |c, ()| (c.sum(0).cast(DType::F64), ())));
    assert_rejected("carry_type_with_rows", |g| {
        scan(g.input("c", "f32[3]"), g.input("xs", "f32[T]"), |c, _| (c.sum(0).cast(DType::F64), ()))
    });
    assert_rejected("carry_of_nothing", |g| {
        scan(vec![g.input("c", "f32[3]")], g.input("xs", "f32[T]"), |_, _| (Vec::new(), ()))
    });
    assert_rejected("bound_of_floats", |g| {
        let (n, c) = (g.input("n", "f32[]"), g.input("c", "f32[]"));
        fori_loop(0, n, c, |_, c| c)
    });
    assert_rejected("bound_of_a_row", |g| {
        let (n, c) = (g.input("n", "i64[2]"), g.input("c", "f32[]"));
        fori_loop(n, 3, c, |_, c| c)
    });
}

#[test]
fn derivatives() {
    assert_rejected("cotangents_of_another_structure", |g| {
        let x = g.input("x", "f32[3]");
        vjp(x, |x| vec![x, x], |ys| ys[..1].to_vec()).1
    });
    assert_rejected("tangents_of_another_structure", |g| {
        let x = g.input("x", "f32[3]");
        jvp(vec![x, x], vec![x], |xs| xs[0] * xs[1]).1
    });
    assert_rejected("tangent_of_another_type", |g| jvp(g.input("x", "f32[3]"), g.input("v", "f64[3]"), |x| x.exp()).1);
    assert_rejected("linearized_along_another_structure", |g| {
        let x = g.input("x", "f32[3]");
        linearize(vec![x, x], |xs| xs[0] * xs[1]).1.apply(vec![x])
    });
    assert_rejected("linearized_rule_that_is_not_linear", |g| {
        let clipped = |x| custom_vjp(x, |x: Value| x, |x| (x, ()), |(), ct: Value| ct.clamp(-1.0, 1.0));
        linearize(g.input("x", "f32[3]"), clipped).1.apply(g.input("v", "f32[3]"))
    });
    assert_rejected("gradient_that_ends_at_stop_gradient", |g| {
        grad(g.input("x", "f32[3]"), |x| x.stop_gradient().square().sum(0))
    });
    assert_rejected("gradient_that_ends_in_a_body", |g| {
        grad(g.input("x", "f32[3]"), |x| {
            let start = (constant(0f32), constant(0i64));
            let step = |(sum, count): (Value, Value), x: Value| ((sum + x, count + x.cast(DType::I64)), ());
            scan(start, x, step).0.1.cast(DType::F32)
        })
    });
    assert_rejected("rule_result_of_another_type", |g| {
        custom_vjp(g.input("x", "f32[3]"), |x| x, |x| (x.sum(0).cast(DType::F64), ()), |(), ct| ct)
    });
    assert_rejected("rule_cotangent_of_nothing", |g| {
        custom_vjp(
            (g.input("n", "i64[]"), ()),
            |(n, ())| n.cast(DType::F32),
            |(n, ())| (n.cast(DType::F32), ()),
            |(), ct| ct,
        )
    });
}

#[test]
fn graphs() {
    let graph = Graph::build("pair", |g| {
        let (x, n, w) = (g.input("x", "f32[T]"), g.input("n", "i64[]"), g.input("w", "f32[2*T]"));
        (x.sum(0), x * 2.0, n, w.sum(0))
    });
    let graph = graph.unwrap();
    check("loss_of_several", graph.grad(.., GradOptions::new()));
    check("loss_of_an_unknown_name", graph.grad(.., GradOptions::new().of("cost")));
    check("loss_that_is_a_row", graph.grad(.., GradOptions::new().of("out_1")));
    check("wrt_integers", graph.grad("n", GradOptions::new().of("out_0")));
    check("only_an_unknown_output", graph.with_only_outputs(&["cost"]));
    let put = |name: &str, types: &[&'static str]| {
        assert_rejected(name, |g| {
            let inputs = types.iter().enumerate().map(|(index, ty)| g.input(&format!("a{index}"), *ty));
            graph.apply(&inputs.collect::<Vec<_>>())
        });
    };
    put("applied_to_too_few", &["f32[3]"]);
    put("applied_to_another_rank", &["f32[3,1]", "i64[]", "f32[6]"]);
    put("applied_to_another_dtype", &["f32[3]", "f32[]", "f32[6]"]);
    put("applied_to_other_sizes", &["f32[3]", "i64[]", "f32[7]"]);
    let fixed = Graph::build("fixed", |g| g.input("x", "f32[3]")).unwrap();
    assert_rejected("applied_to_another_size", |g| fixed.apply(&[g.input("a", "f32[4]")]));
    let product = Graph::build("product", |g| g.input("x", "f32[S*T]")).unwrap();
    assert_rejected("applied_with_two_unknown_sizes", |g| product.apply(&[g.input("a", "f32[6]")]));
    assert_rejected("value_name", |g| g.input("x", "f32[]").exp().named("my value"));
    assert_rejected("output_name", |g| BTreeMap::from([("my output", g.input("x", "f32[]").exp())]));
    assert_rejected("outputs_of_one_name", |g| {
        let x = g.input("x", "f32[]");
        BTreeMap::from([("a", BTreeMap::from([("b_c", x)])), ("a_b", BTreeMap::from([("c", x.exp())]))])
    });
}

#[test]
fn compositions() {
    let einsum = |name: &str, equation: &'static str| {
        assert_rejected(name, |g| einsum(equation, &[g.input("a", "f32[2,3]"), g.input("b", "f32[3,4]")]));
    };
    einsum("equation_without_an_arrow", "ij,jk");
    einsum("equation_of_one_operand", "ij->i");
    einsum("equation_of_another_rank", "ijk,jk->i");
    einsum("equation_with_a_letter_twice", "ii,jk->i");
    einsum("equation_of_two_sizes", "ij,ik->jk");
    einsum("equation_of_an_unknown_result", "ij,jk->il");
    assert_rejected("axes_in_two_pairs", |g| {
        g.input("a", "f32[2,3]").dot_general(g.input("b", "f32[3,4]"), &[(1, 0), (1, 0)], &[])
    });
    assert_rejected("axes_of_two_sizes", |g| {
        g.input("a", "f32[2,3]").dot_general(g.input("b", "f32[3,4]"), &[(0, 0)], &[])
    });
    assert_rejected("diagonal_of_a_rectangle", |g| g.input("a", "f32[2,3]").diagonal());
    assert_rejected("triangle_of_a_row", |g| g.input("a", "f32[3]").tril(0));
    assert_rejected("key_of_floats", |g| random::fold_in(g.input("key", "u32[2]"), g.input("x", "f32[]")));
    assert_rejected("random_integers_of_floats", |g| {
        random::randint(g.input("key", "u32[2]"), Shape::scalar(), DType::F32, 0.0, 1.0)
    });
    assert_rejected("uniform_integers", |g| {
        random::uniform(g.input("key", "u32[2]"), Shape::scalar(), DType::I64, 0, 1)
    });
    let mut attention = nn::GatedLinearAttention::new(6, 4);
    attention.key = 6;
    check("heads_that_do_not_divide", attention.layer().map(drop));
}

#[test]
fn builders_and_depths() {
    Graph::build("outer", |outer| {
        check("builder_of_another_graph", Graph::build("inner", |g| g.input("x", "f32[]") + outer.input("y", "f32[]")));
    })
    .unwrap();
    fn nested(x: Value, depth: usize) -> Value {
        match depth {
            0 => x + 1.0,
            _ => fori_loop(0, 2, x, |_, x| nested(x, depth - 1)),
        }
    }
    assert_rejected("bodies_nested_too_deep", |g| nested(g.input("x", "f32[]"), 70));
    assert_rejected("negative_size", |g| g.input("x", "f32[]").broadcast_to([-3i64]));
    assert_rejected("steps_beyond_range", |g| {
        let steps = Dim::from(i64::MAX) * 2 + Dim::from("T");
        scan_with(ScanOptions::new().length(steps), g.input("xs", "f32[T]").sum(0), (), |c, ()| (c, ())).0
    });
    assert_rejected("bound_beyond_range", |g| {
        let bound = Dim::from(i64::MAX) * 2;
        while_loop_bounded(bound, g.input("x", "f32[]"), |x: Value| x.lt(1.0), |x| x * 2.0)
    });
}

#[test]
fn floats_taken_apart() {
    assert_rejected("exponent_of_floats", |g| g.input("x", "f32[3]").ldexp(g.input("n", "f32[3]")));
    assert_rejected("gradient_of_a_neighbour", |g| grad(g.input("x", "f32[]"), |x| x.nextafter(1.0)));
    assert_rejected("number_that_no_half_holds", |_| full([3], DType::F16, 1e9));
}

/// A rule that calls its own function is rejected if each call captures different data, or if the function captures a
/// value.
#[test]
fn rules_of_themselves() {
    fn counted(x: Value, n: i32) -> Value {
        let forward = |x: Value| (counted(x, n + 1), x);
        custom_vjp(x, |x| x * x, forward, move |x, ct| ct * x * f64::from(n))
    }
    assert_rejected("rule_that_differs_in_itself", |g| counted(g.input("x", "f64[]"), 0));
    fn scaled(x: Value, w: Value) -> Value {
        custom_vjp(x, |x| x * 2.0, |x| (scaled(x, w), ()), |(), ct| ct * w)
    }
    assert_rejected("rule_of_itself_that_captures", |g| scaled(g.input("x", "f64[]"), g.input("w", "f64[]")));
}
