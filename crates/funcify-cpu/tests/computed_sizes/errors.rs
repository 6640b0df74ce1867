//! Looks for errors that padding would hide.

use funcify::ops::ScatterMode;
use funcify::{
    DType, GradOptions, Graph, HostTensor, Recurrence, bind_size, cond, constant, fori_loop, full, iota, map, scan,
    scan_with, size, while_loop,
};

use super::{all_of, built, check, check_compiled, ints, numbers, one, sized};

/// A fault to look for: padding turns a slice `..n` into a lookup, whose indices are clamped. A number between the rows and
/// the capacity (64) is then no error any more. Nothing else bounds the number by the rows.
#[test]
fn a_head_beyond_the_rows() {
    let graph = built(Graph::build("heads", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| xs.slice(0, ..bind_size(count)).sum(0))
    }));
    let xs = numbers(&[10]);
    let of = |counts: &[i64]| vec![xs.clone(), ints(counts)];
    check(&graph, &[of(&[2, 0, 10]), of(&[2, 11, 1]), of(&[2, 20, 1]), of(&[64]), of(&[65]), of(&[3, -1]), of(&[])]);
}

/// A fault to look for: the size of a tail `n..` is `T - n`, which padding replaces with `T`. The bound symbol is then unused, the
/// `bind_size` is pruned, and neither a negative number nor one beyond the rows is an error.
#[test]
fn a_tail_beyond_the_rows() {
    let graph = built(Graph::build("tails", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| xs.slice(0, bind_size(count)..).sum(0))
    }));
    let of = |counts: &[i64]| vec![numbers(&[10]), ints(counts)];
    check(&graph, &[of(&[2, 0, 10]), of(&[11]), of(&[-1]), of(&[64]), of(&[100])]);
}

/// A fault to look for: with two computed bounds, `start > limit` gives a padded lookup of negative length instead of an error.
#[test]
fn bounds_in_the_wrong_order() {
    let graph = built(Graph::build("between", |g| {
        let xs = g.input("xs", "f32[T]");
        let bounds = (g.input("from", "i64[B]"), g.input("to", "i64[B]"));
        map(bounds, |(from, to)| xs.slice(0, bind_size(from)..bind_size(to)).sum(0))
    }));
    let of = |from: &[i64], to: &[i64]| vec![numbers(&[10]), ints(from), ints(to)];
    check(&graph, &[of(&[1, 0, 4], &[5, 0, 10]), of(&[5], &[3]), of(&[2], &[12]), of(&[-1], &[3]), of(&[10], &[10])]);
}

#[test]
fn windows_beyond_the_rows() {
    all_of(&[a_window_beyond_the_rows, a_window_at_a_known_range_beyond_the_rows]);
}

/// A fault to look for: a window of constant length at a computed start has no computed size, so its bounds are never checked, and
/// its `bind_size` is dead after padding.
fn a_window_beyond_the_rows() {
    let graph = built(Graph::build("windows", |g| {
        let (xs, starts) = (g.input("xs", "f32[T]"), g.input("starts", "i64[B]"));
        map(starts, |start| {
            let start = bind_size(start);
            xs.slice(0, start.clone()..start + 2).sum(0)
        })
    }));
    let of = |starts: &[i64]| vec![numbers(&[10]), ints(starts)];
    check(&graph, &[of(&[0, 3, 8]), of(&[9]), of(&[-1]), of(&[40]), of(&[70])]);
}

/// A fault to look for: like e04, but the range of the number is known, so that the whole program is compiled and cannot even
/// refuse the call. The last step reads beyond the rows.
fn a_window_at_a_known_range_beyond_the_rows() {
    for reach in [0i64, 1, 3] {
        let graph = built(Graph::build("windows", |g| {
            let (xs, start) = (g.input("xs", "f32[T]"), g.input("start", "f32[]"));
            fori_loop(0, size(xs.dim(0), DType::I64), start, |index, sum| {
                sum * 0.5 + xs.slice(0, ..bind_size(index + reach)).sum(0)
            })
        }));
        check(&graph, &[vec![numbers(&[5]), one(0.5)], vec![numbers(&[0]), one(0.5)], vec![numbers(&[1]), one(0.5)]]);
    }
}

/// A fault to look for: if only the value of a size is used, padding replaces it with the number, and the `bind_size` that rejects
/// negative numbers is dead.
#[test]
fn the_value_of_a_negative_size() {
    let graph = built(Graph::build("sizes", |g| {
        let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[B]"));
        scan(x, counts, |sum, count| {
            let sum = sum + size(bind_size(count), DType::F32);
            (sum, sum * x)
        })
    }));
    let of = |counts: &[i64]| vec![one(0.5), ints(counts)];
    check(&graph, &[of(&[2, 0, 10]), of(&[1, -1]), of(&[63, 64, 65, 1000])]);
    let counted = built(Graph::build("counted", |g| {
        let (n, x) = (g.input("n", "i64[]"), g.input("x", "f32[]"));
        while_loop((n, x), |(n, _)| n.lt(4), |(n, x)| (n + size(bind_size(n), DType::I64).minimum(0) + 5, x * 0.5))
    }));
    check(&counted, &[-3i64, 0, 3, 4].map(|n| vec![HostTensor::scalar(n), one(1.0)]));
}

#[test]
fn sizes_that_decrease_with_the_number() {
    all_of(&[negative_sizes_that_decrease_with_the_number, negative_numbers_of_steps]);
}

/// A fault to look for: a size that decreases with the number (`T - n`) may be negative. Padding replaces `n` with 0.
fn negative_sizes_that_decrease_with_the_number() {
    let graph = built(Graph::build("left", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let left = xs.dim(0) - bind_size(count);
            iota(left.clone(), DType::F32).sum(0) + full([left], DType::F32, 0.25).sum(0) * xs.sum(0)
        })
    }));
    let of = |counts: &[i64]| vec![numbers(&[6]), ints(counts)];
    check(&graph, &[of(&[0, 6, 2]), of(&[7]), of(&[-1]), of(&[64]), of(&[65])]);
}

/// A fault to look for: the number of steps of a loop decreases with the computed size. The padded loop runs at most `T` steps and
/// none if the number is negative.
fn negative_numbers_of_steps() {
    let graph = built(Graph::build("rest", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let mut inner = Recurrence::new();
            let x = inner.sequence(xs, [0]);
            let state = inner.carry(xs.sum(0));
            let done = inner.steps(xs.dim(0) - bind_size(count)).run(|step| {
                let [x] = step.read(&x);
                let next = step.read(&state) * 0.5 + x;
                step.write(&state, next);
                next
            });
            done.last(&state) + done.ys.max(0).maximum(-3.0)
        })
    }));
    let of = |counts: &[i64]| vec![numbers(&[6]), ints(counts)];
    check(&graph, &[of(&[0, 6, 2]), of(&[7]), of(&[-1]), of(&[20])]);
}

/// A fault to look for: like e01, but the rows are the sequence of another loop, and the program is differentiated: the backward
/// pass pads with `T - n` rows, which may be negative.
#[test]
fn gradients_with_sizes_beyond_the_rows() {
    let graph = built(Graph::build("heads", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let head = xs.slice(0, ..bind_size(count));
            scan(xs.sum(0), head, |state, x| ((state * 0.5 + x).sin(), ())).0 + (head * head).sum(0)
        })
    }));
    let calls = |counts: &[i64]| vec![numbers(&[6]), ints(counts)];
    check(&graph, &[calls(&[3, 0, 6]), calls(&[7, 1, 2]), calls(&[1, 20, 2]), calls(&[1, -2, 2])]);
    let gradient = built(graph.vjp("xs", GradOptions::new()));
    let pulled = |counts: &[i64]| [calls(counts), vec![numbers(&[3])]].concat();
    check(&gradient, &[pulled(&[3, 0, 6]), pulled(&[7, 1, 2]), pulled(&[1, 20, 2]), pulled(&[1, -2, 2])]);
    // The gradient of a sum needs no value of the forward pass.
    let linear = built(Graph::build("linear", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| xs.slice(0, ..bind_size(count)).sum(0))
    }));
    let gradient = built(linear.vjp("xs", GradOptions::new()));
    check(&gradient, &[pulled(&[3, 0, 6]), pulled(&[7, 1, 2]), pulled(&[1, 20, 2])]);
}

/// A fault to look for: sizes that follow from the sizes of the call are replaced with numbers, also in branches that do not run.
/// A slice beyond the rows in such a branch must not become an error, and in a branch that runs it must.
#[test]
fn known_sizes_beyond_the_rows() {
    let graph = built(Graph::build("known", |g| {
        let (xs, flags) = (g.input("xs", "f32[T]"), g.input("flags", "bool[B]"));
        let twice = size(xs.dim(0), DType::I64) * 2;
        map(flags, |flag| {
            let beyond =
                || xs.slice(0, ..bind_size(twice)).sum(0) + iota(xs.dim(0) - bind_size(twice), DType::F32).sum(0);
            cond(flag, beyond, || xs.sum(0) + iota(bind_size(twice), DType::F32).sum(0))
        })
    }));
    let of = |rows: usize, flags: [bool; 2]| vec![numbers(&[rows]), flags.into()];
    check(&graph, &[of(3, [false, false]), of(3, [false, true]), of(0, [true, false]), of(5, [false, false])]);
}

/// A fault to look for: huge numbers, and numbers of other integer types, meet a capacity in another type.
#[test]
fn numbers_of_all_types_and_sizes() {
    for dtype in [DType::U8, DType::I32, DType::U32, DType::I64] {
        let graph = built(Graph::build("typed", |g| {
            let (x, counts) = (g.input("x", "f32[]"), g.input("counts", format!("{dtype}[B]").as_str()));
            map(counts, |count| {
                let (last, rows) = scan_with(sized(count), x, (), |x, ()| ((x * 0.9).sin(), x));
                last + rows.sum(0)
            })
        }));
        let of = |counts: &[i64]| vec![one(0.75), ints(counts).cast(dtype)];
        check(&graph, &[of(&[3, 0, 1]), of(&[63, 64]), of(&[65, 1]), of(&[200])]);
    }
    let huge = built(Graph::build("huge", |g| {
        let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[B]"));
        map(counts, |count| iota(bind_size(count), DType::F32).sum(0) * x)
    }));
    let of = |counts: &[i64]| vec![one(0.75), ints(counts)];
    check(
        &huge,
        &[of(&[1, 1 << 50]), of(&[i64::MAX]), of(&[i64::MIN, 2]), of(&[-1, 1 << 33]), of(&[64, 65, 1024, 1025])],
    );
}

/// A fault to look for: a loop in a step ends before it has written all the rows that it returns.
#[test]
fn too_few_last_rows_in_a_step() {
    for order in ["", ", order=down"] {
        let text = format!(
            "\
fn @f(%xs: f32[B,4], %x: f32[]) {{
  %ys: f32[B,3] = scan @body {{steps=B}} with %x {{
    seq %row: f32[4] = %xs[t]
    nit-sot %ys
    %0: f32[3] last 3 = scan @step {{steps=4, until=$1{order}}} with %x {{
      seq %s: f32[] = %row[t]
      nit-sot %0
      %1: f32[] = sin %s
      %2: bool[] = gt %s, %x
      %0[t] = %1
      until %2
    }}
    %ys[t] = %0
  }}
  return ys=%ys
}}
"
        );
        let graph = built(Graph::parse(&text));
        check_compiled(&graph, &[9.0, -9.0, 0.1, 0.5].map(|x| vec![numbers(&[3, 4]), one(x)]));
        let gradient = built(graph.vjp("xs", GradOptions::new()));
        // The backward loop is not compiled, because nothing bounds its number of rows from below.
        check(&gradient, &[9.0, -9.0, 0.5].map(|x| vec![numbers(&[3, 4]), one(x), numbers(&[3, 3])]));
    }
}

/// A fault to look for: an index beyond the last row of a step reads or writes padding.
#[test]
fn indices_beyond_computed_rows() {
    let graph = built(Graph::build("indices", |g| {
        let (x, counts) = (g.input("x", "f32[]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let rows = iota(bind_size(count), DType::F32) * x + 1.0;
            let places = constant(HostTensor::from([1i64, -3, 70, 2]));
            let taken = rows.take(0, places);
            let added = rows.scatter(0, places, taken, ScatterMode::Add);
            let turned = iota(rows.dim(0), DType::I64) * -1 + 2;
            let few = taken.scatter(0, turned, rows, ScatterMode::Mul);
            (added.sin().sum(0), (few * taken).sum(0))
        })
    }));
    let of = |counts: &[i64]| vec![one(0.75), ints(counts)];
    check_compiled(&graph, &[of(&[3, 1, 5]), of(&[2, 64]), of(&[1, 0]), of(&[4, -1]), of(&[0])]);
    let gradient = built(graph.vjp("x", GradOptions::new()));
    check(&gradient, &[[of(&[3, 1, 5]), vec![numbers(&[3]), numbers(&[3])]].concat()]);
}
