//! Tests branches, nested loops, ragged tensors and custom rules in steps that compute sizes.

use funcify::{
    DType, GradOptions, Graph, HostTensor, ScanOptions, Value, VmapOptions, associative_scan, bind_size, concat, cond,
    custom_vjp, fori_loop, full, iota, map, scan, scan_until_with, scan_with, size, while_loop,
};

use super::{all_of, built, check, check_compiled, floats, ints, numbers, one, sized};

/// A fault to look for: padding turns a switch on a computed number into a selection, so that a while loop in the branch that is
/// not taken runs, possibly forever.
#[test]
fn a_while_loop_in_a_branch_that_is_not_taken() {
    {
        let graph = built(Graph::build("branches", |g| {
            map(g.input("xs", "f32[B,4]"), |row| {
                let n = row.argmax(0) - 1;
                let sum = iota(bind_size(n.maximum(0)), DType::F32).sum(0);
                let zero = row.index(0, 0) * 0.0;
                let counted = || while_loop((n, zero), |(k, _)| k.ne(0), |(k, x)| (k - 1, x + 1.0)).1;
                sum + cond(n.ge(0), counted, || zero - 1.0)
            })
        }));
        let rows = [[0f32, 1.0, 0.5, 0.0], [3.0, 1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]];
        check(&graph, &[vec![HostTensor::from(rows)]]);
    }
}

/// A fault to look for: branches of a switch bind sizes, read a tensor of a size that the step binds, and contain a loop that ends
/// early. Errors in branches that are not taken must not appear.
#[test]
fn sizes_bound_in_branches() {
    let graph = built(Graph::build("branches", |g| {
        let (xs, counts, flags) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"), g.input("flags", "i64[B]"));
        map((counts, flags), |(count, flag)| {
            let head = xs.slice(0, ..bind_size(count.maximum(0)));
            let half = || xs.slice(0, ..bind_size(count / 2)).sum(0) + head.max(0).maximum(-4.0);
            let early = || {
                let (last, ys) = scan_until_with(ScanOptions::new(), xs.sum(0) * 0.0, xs, |sum, x| {
                    let sum = sum + x;
                    (sum, sum * 2.0, sum.gt(0.5))
                });
                last + ys.sum(0) + head.sum(0)
            };
            let last = || iota(bind_size(count), DType::F32).sum(0);
            let chosen: Value = funcify::switch(flag, [&half, &early, &last]);
            let other = cond(count.ge(0), || iota(bind_size(count), DType::F32).sum(0), || head.sum(0) - 1.0);
            chosen + other
        })
    }));
    let of = |counts: &[i64], flags: &[i64]| vec![numbers(&[7]), ints(counts), ints(flags)];
    check(
        &graph,
        &[
            of(&[3, 0, 7, 5], &[0, 1, 2, 1]),
            of(&[-3, 2], &[1, 0]),
            of(&[-3, 2], &[2, 0]),
            of(&[-1, 2], &[0, 9]),
            of(&[6], &[-1]),
        ],
    );
    let gradient = built(graph.vjp("xs", GradOptions::new()));
    check(&gradient, &[[of(&[3, 0, 7, -2], &[0, 1, 2, 1]), vec![numbers(&[4])]].concat()]);
}

/// A fault to look for: the condition of a while loop computes a size, outside of and inside a step.
#[test]
fn a_size_in_the_condition_of_a_while_loop() {
    let grown = |x: Value, n: Value| {
        let holds = |(x, n): (Value, Value)| (iota(bind_size(n), DType::F32).sum(0) + x).lt(20.0);
        while_loop((x, n), holds, |(x, n)| ((x * 0.5).sin() + 1.0, n + 1))
    };
    let outside = built(Graph::build("outside", |g| grown(g.input("x", "f32[]"), g.input("n", "i64[]"))));
    check(&outside, &[0i64, 3, 8, 70, -1].map(|n| vec![one(0.5), HostTensor::scalar(n)]));
    let inside = built(Graph::build("inside", |g| {
        let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[B]"));
        scan(x, counts, |x, count| {
            let (x, n) = grown(x, count);
            (x, x + n.cast(DType::F32))
        })
    }));
    let of = |counts: &[i64]| vec![one(0.5), ints(counts)];
    check(&inside, &[of(&[0, 3, 8]), of(&[70, 1]), of(&[2, -1])]);
    let gradient = built(inside.vjp("x", GradOptions::new()));
    check(&gradient, &[[of(&[0, 3, 8]), vec![one(1.0), numbers(&[3])]].concat()]);
}

/// A fault to look for: each step of an inner loop of a computed number of steps binds a size of its own. In steps beyond the
/// number, this size is negative, which must be no error; in the steps before, it must be.
#[test]
fn sizes_in_steps_of_loops_of_computed_sizes() {
    for less in [0i64, 1] {
        let graph = built(Graph::build("nested", |g| {
            let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[B]"));
            map(counts, |count| {
                let start = (count.zeros_like(), x);
                let ((_, last), rows) = scan_with(sized(count), start, (), |(index, x), ()| {
                    let ahead = iota(bind_size(count - 1 - index - less), DType::F32).sum(0);
                    let own = full([bind_size(index)], DType::F32, 0.5).sum(0);
                    ((index + 1, (x + ahead * 0.01 + own).sin()), ahead)
                });
                last + rows.sum(0)
            })
        }));
        let of = |counts: &[i64]| vec![one(0.5), ints(counts)];
        check(&graph, &[of(&[3, 0, 1, 5]), of(&[0, 0]), of(&[64]), of(&[66])]);
    }
}

/// A fault to look for: three levels of loops of computed sizes are padded again and again, and symbols or capacities mix.
#[test]
fn three_levels_of_computed_steps() {
    let graph = built(Graph::build("deep", |g| {
        let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            scan_with(sized(count), (x, count), (), |(x, left), ()| {
                let (inner, rows) = scan_with(sized(left), x, (), |x, ()| {
                    let (early, _) = scan_until_with(ScanOptions::new().length(4), x, (), |x, ()| {
                        let x = x * 0.5 + 0.5;
                        (x, x, x.gt(0.8))
                    });
                    (early * 0.9, early)
                });
                ((inner * 0.5 + rows.sum(0) * 0.01, left - 1), ())
            })
            .0
            .0
        })
    }));
    let of = |counts: &[i64]| vec![one(0.25), ints(counts)];
    check(&graph, &[of(&[3, 0, 1]), of(&[5]), of(&[-2])]);
    let gradient = built(graph.vjp("x", GradOptions::new()));
    check(&gradient, &[[of(&[3, 0, 1]), vec![numbers(&[3])]].concat()]);
}

#[test]
fn loops_that_end_early_in_loops_that_end_early() {
    all_of(&[nested_loops_that_end_early, an_outer_loop_that_ends_early_with_sizes_inside]);
}

/// A fault to look for: loops that end early inside of loops that end early, whose traces are read, reduced and differentiated.
/// Rows beyond the steps that ran hold the rows of the previous outer step.
fn nested_loops_that_end_early() {
    for reverse in [false, true] {
        let graph = built(Graph::build("ends", |g| {
            let (xs, limit) = (g.input("xs", "f32[B,T]"), g.input("limit", "f32[]"));
            let options = if reverse { ScanOptions::new().reverse() } else { ScanOptions::new() };
            scan_until_with(options, limit * 0.0, xs, |sum, row| {
                let (last, ys) = scan_until_with(ScanOptions::new(), sum * 0.5, row, |sum, x| {
                    let sum = sum + x;
                    (sum, sum * 2.0, sum.gt(limit))
                });
                let weighted = scan(last, ys, |state, y| ((state * 0.5 + y).sin(), ())).0;
                let next = weighted + ys.max(0) * 0.25 + size(ys.dim(0), DType::F32) * 0.125;
                (next, next * 3.0, next.gt(limit * 2.0))
            })
        }));
        let of = |shape: [usize; 2], limit: f32| vec![numbers(&shape), one(limit)];
        check(&graph, &[of([5, 7], 0.75), of([5, 7], 9.0), of([3, 1], -5.0), of([0, 4], 0.5), of([1, 70], 30.0)]);
        // The second cotangent has as many rows as there may be steps. Excess rows are ignored.
        let gradient = built(graph.vjp("xs", GradOptions::new()));
        check(&gradient, &[[of([5, 7], 0.75), vec![one(1.0), numbers(&[5])]].concat()]);
    }
}

/// A fault to look for: the outer loop ends early at run time, and its steps compute sizes.
fn an_outer_loop_that_ends_early_with_sizes_inside() {
    for reverse in [false, true] {
        let graph = built(Graph::build("outer", |g| {
            let xs = g.input("xs", "f32[T]");
            let options = if reverse { ScanOptions::new().reverse() } else { ScanOptions::new() };
            let (last, ys) = scan_until_with(options, xs.sum(0) * 0.0, xs, |sum, x| {
                let rows = bind_size((x * 3.0).abs().ceil().cast(DType::I64));
                let next = sum + (iota(rows.clone(), DType::F32) * x).sum(0) + size(rows, DType::F32) * 0.5;
                (next, next * 2.0, next.gt(4.0))
            });
            (last, ys, size(ys.dim(0), DType::I64))
        }));
        let large = floats(&[0.5, -20.0, 25.0, 1.0, 0.75]);
        check(&graph, &[vec![numbers(&[9])], vec![numbers(&[1])], vec![numbers(&[0])], vec![large]]);
        let gradient = built(graph.vjp("xs", GradOptions::new()));
        check(&gradient, &[vec![numbers(&[9]), one(1.0), numbers(&[9])]]);
    }
}

#[test]
fn values_of_padding() {
    all_of(&[integer_traces_as_indices_and_divisors, reductions_of_all_kinds]);
}

/// A fault to look for: rows of padding are used as indices and as divisors.
fn integer_traces_as_indices_and_divisors() {
    let graph = built(Graph::build("indices", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let start = count.zeros_like();
            let odd = scan_with(sized(count), start, (), |k, ()| (k + 2, k + 1)).1;
            let early =
                scan_until_with(ScanOptions::new().length(9), start, (), |k, ()| (k + 2, k * k, (k + 2).ge(count))).1;
            let quotients = (100 / odd).sum(0) + (odd % (early.max(0) + 1)).max(0).maximum(0) + odd.min(0).minimum(3);
            xs.take(0, odd).sum(0) + xs.take(0, early).prod(0) + quotients.cast(DType::F32)
        })
    }));
    let of = |counts: &[i64]| vec![numbers(&[5]), ints(counts)];
    check(&graph, &[of(&[3, 0, 1, 7]), of(&[20]), of(&[65])]);
}

/// A fault to look for: reductions of all kinds over padded rows, of integers, booleans and floats, also of no rows at all.
fn reductions_of_all_kinds() {
    let graph = built(Graph::build("kinds", |g| {
        let (xs, counts) = (g.input("xs", "f32[T,2]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let rows = bind_size(count);
            let head = xs.slice(0, ..rows.clone());
            let integers = (iota(rows, DType::I64) * 3 - 4) % 5;
            let flags = head.gt(0.0);
            let floats = (head.prod(0), head.min(0), head.max(0), head.mean(0), head.mean(..));
            let of_integers = (integers.max(0), integers.min(0), integers.prod(0), integers.sum(0));
            (floats, of_integers, flags.any(0), flags.all(0), (head - head.mean(0)).square().sum(..))
        })
    }));
    let of = |rows: usize, counts: &[i64]| vec![numbers(&[rows, 2]), ints(counts)];
    check(&graph, &[of(6, &[3, 0, 6, 1]), of(70, &[64, 2, 0])]);
}

/// A fault to look for: two computed sizes in one tensor, in sums over both axes and in products over one of them.
#[test]
fn tensors_of_two_computed_sizes() {
    let graph = built(Graph::build("pairs", |g| {
        let xs = g.input("xs", "f32[T]");
        let counts = (g.input("rows", "i64[B]"), g.input("columns", "i64[B]"));
        map(counts, |(rows, columns)| {
            let (a, b) = (xs.slice(0, ..bind_size(rows)), xs.slice(0, ..bind_size(columns)));
            let outer = (a.unsqueeze(1) * b.unsqueeze(0) + 0.25).sin();
            let product = a.unsqueeze(0).matmul(outer).squeeze(0);
            outer.sum(..) + (product * b).sum(0) + outer.sum(0).square().sum(0) + concat(&[a, b, xs], 0).square().sum(0)
        })
    }));
    let of = |rows: &[i64], columns: &[i64]| vec![numbers(&[6]), ints(rows), ints(columns)];
    check(&graph, &[of(&[3, 0, 6, 1], &[2, 5, 0, 6]), of(&[1], &[1])]);
    let gradient = built(graph.vjp("xs", GradOptions::new()));
    check(&gradient, &[[of(&[3, 0, 6, 1], &[2, 5, 0, 6]), vec![numbers(&[4])]].concat()]);
}

/// A fault to look for: a program that computes sizes is batched by the user first, and padded by the planner afterwards.
#[test]
fn batched_programs() {
    let single = built(Graph::build("single", |g| {
        let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[2]"));
        scan(x, counts, |x, count| {
            let (last, rows) = scan_with(sized(count), x, (), |x, ()| ((x * 1.5).sin(), x));
            let last = last + iota(bind_size(count), DType::F32).sum(0) * 0.01;
            (last, rows.sum(0) + scan(x, rows, |state, row| (state * 0.5 + row, ())).0)
        })
    }));
    let all = built(single.vmap(3, VmapOptions::new()));
    let counts = |counts: [[i64; 2]; 3]| vec![floats(&[0.5, -0.25, 0.75]), counts.into()];
    check(
        &all,
        &[counts([[1, 2], [0, 4], [3, 0]]), counts([[0, 0], [0, 0], [0, 0]]), counts([[1, 70], [2, 2], [0, 1]])],
    );
    check(&all, &[counts([[1, 2], [0, -4], [3, 0]])]);
    let gradient = built(built(single.vjp("x", GradOptions::new())).vmap(3, VmapOptions::new()));
    let cotangents = vec![floats(&[1.0, 2.0, 0.5]), numbers(&[3, 2])];
    check(&gradient, &[[counts([[1, 2], [0, 4], [3, 0]]), cotangents].concat()]);
}

/// A fault to look for: a function with its own derivative rule computes a size inside of a step.
#[test]
fn a_custom_rule_that_computes_a_size() {
    let graph = built(Graph::build("rule", |g| {
        let (xs, counts) = (g.input("xs", "f32[B]"), g.input("counts", "i64[B]"));
        let zero = xs.sum(0) * 0.0;
        scan(zero, (xs, counts), |sum, (x, count)| {
            let scaled = |x: Value| x * (iota(bind_size(count), DType::F32) + 1.0).sum(0);
            let y = custom_vjp(
                x,
                scaled,
                |x| (scaled(x), x),
                |x, ct| ct * scan_with(sized(count), x, (), |x, ()| ((x * 0.5).cos(), ())).0,
            );
            (sum * 0.5 + y, ())
        })
        .0
    }));
    let of = |counts: &[i64]| vec![numbers(&[3]), ints(counts)];
    check(&graph, &[of(&[3, 0, 1]), of(&[64, 65, 2]), of(&[1, -1, 2])]);
    let gradient = built(graph.grad("xs", GradOptions::new()));
    check(&gradient, &[of(&[3, 0, 1]), of(&[64, 65, 2]), of(&[1, -1, 2])]);
}

/// A fault to look for: the combine function of an associative scan inside of a step binds a size.
#[test]
fn an_associative_scan_that_computes_a_size() {
    let graph = built(Graph::build("combine", |g| {
        let (xs, counts) = (g.input("xs", "f32[4]"), g.input("counts", "i64[B]"));
        scan(xs.sum(0), counts, |sum, count| {
            let all = associative_scan(xs, |a, b| a + b + iota(bind_size(count), DType::F32).sum(0) * 0.0);
            let sums = associative_scan(full([bind_size(count)], DType::F32, 0.5), |a, b| a + b);
            let next = sum * 0.5 + all.index(0, -1) + sums.sum(0) * 0.01;
            (next, next)
        })
    }));
    let of = |counts: &[i64]| vec![numbers(&[4]), ints(counts)];
    check(&graph, &[of(&[3, 0, 1]), of(&[70]), of(&[2, -1])]);
}

/// A fault to look for: triangular loops over bounds of other types: unsigned bounds, negative bounds, and empty ranges.
#[test]
fn ranges_of_other_types() {
    for dtype in [DType::U8, DType::I32, DType::U32, DType::I64] {
        let graph = built(Graph::build("ranges", |g| {
            let ty = format!("{dtype}[B]");
            let bounds = (g.input("lower", ty.as_str()), g.input("upper", ty.as_str()));
            let start = g.input("start", "f32[]");
            map(bounds, |(lower, upper)| {
                fori_loop(lower, upper, start, |index, state| (state * 0.5 + index.cast(DType::F32) * 0.1).sin())
            })
        }));
        let of = |lower: &[i64], upper: &[i64]| vec![ints(lower).cast(dtype), ints(upper).cast(dtype), one(0.5)];
        check(&graph, &[of(&[0, 3, 7], &[4, 3, 2]), of(&[250], &[255]), of(&[0], &[100])]);
        if dtype != DType::U8 && dtype != DType::U32 {
            check(&graph, &[of(&[-3, -9, 2], &[2, -4, -2])]);
        }
    }
}

/// A fault to look for: a while loop outside of all loops reads a tensor whose size the program computes. It is compiled
/// when it runs, and its plans are cached by this size.
#[test]
fn a_while_loop_that_reads_a_tensor_of_a_computed_size() {
    let graph = built(Graph::build("reads", |g| {
        let (n, x) = (g.input("n", "i64[]"), g.input("x", "f32[]"));
        let xs = iota(bind_size(n), DType::F32);
        let counted = while_loop((n.zeros_like(), x), |(k, _)| k.lt(3), |(k, x)| (k + 1, (xs * x).sum(0) * 0.1 + x));
        counted.1 + while_loop(x, |x| x.lt(4.0), |x| x + 1.0 + (xs * x).square().max(0).maximum(0.0))
    }));
    check_compiled(&graph, &[3i64, 1, 9, 3, 0, -1].map(|n| vec![HostTensor::scalar(n), one(0.5)]));
}

/// A fault to look for: a loop with an `unroll` hint for all its steps is unrolled, and the loops inside run natively.
#[test]
fn computed_sizes_in_a_loop_with_a_hint_to_unroll() {
    let graph = built(Graph::build("hint", |g| {
        let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[2]"));
        scan_with(ScanOptions::new().unroll(2), x, counts, |x, count| {
            let (x, rows) = scan_with(sized(count), x, (), |x, ()| ((x * 0.5).sin(), x));
            (x + rows.sum(0), x)
        })
    }));
    check_compiled(&graph, &[[3, 0], [1, 9], [70, 2], [2, -1]].map(|counts: [i64; 2]| vec![one(0.5), ints(&counts)]));
}

/// A fault to look for: sizes that depend on no input of the body. Batching does not pad them if the number has no lanes.
#[test]
fn sizes_of_constants_in_a_step() {
    let graph = built(Graph::build("constants", |g| {
        map(g.input("xs", "f32[B]"), |x| {
            let zero = iota(1, DType::I64).sum(0);
            let n = while_loop(zero, |n| n.lt(3), |n| n + 1);
            let (sum, rows) = scan_with(sized(n), x, (), |x, ()| (x * 0.5 + 0.1, x));
            let (early, ys) = scan_until_with(ScanOptions::new().length(5), (x, zero), (), |(x, k), ()| {
                ((x.sin(), k + 1), x * 2.0, k.gt(1))
            });
            sum + rows.sum(0) + early.0 + ys.sum(0)
        })
    }));
    check_compiled(&graph, &[vec![numbers(&[4])], vec![numbers(&[1])]]);
    let gradient = built(graph.vjp("xs", GradOptions::new()));
    check_compiled(&gradient, &[vec![numbers(&[4]), numbers(&[4])]]);
}

/// A fault to look for: a padded body inside of a loop that some lanes may not run. Its number is then 0 if no lane runs the
/// step.
#[test]
fn sizes_of_outer_numbers_in_steps_of_computed_sizes() {
    let graph = built(Graph::build("nested", |g| {
        let (x, counts, n) = (g.input("x", "f32[]"), g.input("counts", "i64[B]"), g.input("n", "i64[]"));
        map(counts, |count| {
            let (last, rows) = scan_with(sized(count), x, (), |x, ()| {
                let (inner, rows) = scan_with(sized(n), x, (), |x, ()| ((x + 0.25).sin(), x));
                (inner * 0.5, rows.sum(0))
            });
            last + rows.sum(0)
        })
    }));
    let of = |counts: &[i64], n: i64| vec![one(0.5), ints(counts), HostTensor::scalar(n)];
    let calls = [of(&[3, 0, 5], 2), of(&[0, 1], 7), of(&[2], 0), of(&[0, 66], 1), of(&[1, 0], -1), of(&[0], -1)];
    check_compiled(&graph, &calls);
    let gradient = built(graph.vjp("x", GradOptions::new()));
    check_compiled(&gradient, &[[of(&[3, 0, 5], 2), vec![numbers(&[3])]].concat()]);
}

/// A fault to look for: pruning removes the op that binds a size if only a carry that nothing reads depends on the
/// size.
#[test]
fn a_size_that_only_an_unread_carry_needs() {
    let graph = built(Graph::build("unread", |g| {
        let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let sum = iota(bind_size(count), DType::F32).sum(0);
            let (steps, _) = while_loop((count.zeros_like(), sum), |(k, _)| k.lt(3), |(k, sum)| (k + 1, sum * 2.0));
            steps.cast(DType::F32) * x
        })
    }));
    check_compiled(&graph, &[[3i64, 0], [1, 9], [2, -1]].map(|counts| vec![one(0.5), ints(&counts)]));
}

/// A fault to look for: the remainder of any number is bounded, and so is the number of steps.
#[test]
fn a_counted_loop_of_a_remainder() {
    let graph = built(Graph::build("remainder", |g| {
        let (xs, count) = (g.input("xs", "f32[T]"), g.input("count", "i64[]"));
        map(xs, |x| fori_loop(0, count.abs() % 4, x, |_, x| (x * 2.0).sin()))
    }));
    let counts = [5, 0, -7, 1 << 60, i64::MAX, i64::MIN];
    check_compiled(&graph, &counts.map(|count: i64| vec![numbers(&[3]), HostTensor::scalar(count)]));
}
