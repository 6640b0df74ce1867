//! Looks for sizes that share a symbol, and for sizes of earlier steps.

use funcify::{
    DType, GradOptions, Graph, HostTensor, Recurrence, ScanOptions, bind_size, fori_loop, full, iota, map, scan,
    scan_with, size,
};

use super::{all_of, built, check, check_compiled, floats, ints, numbers, one};

#[test]
fn counted_loops_beside_computed_sizes() {
    all_of(&[the_steps_of_a_counted_loop_beside_a_computed_size, the_steps_of_a_counted_loop_in_a_type]);
}

/// A fault to look for: a counted loop becomes a while loop, which no longer binds its symbol, although
/// `size` still uses this symbol. Symbols in attributes are invisible to `reserve_symbols`, so the padded size of the
/// slice gets the same symbol, and the number of steps becomes its capacity.
fn the_steps_of_a_counted_loop_beside_a_computed_size() {
    let graph = built(Graph::build("steps", |g| {
        let (xs, start) = (g.input("xs", "f32[T]"), g.input("start", "f32[]"));
        fori_loop(0, xs.dim(0), start, |index, sum| {
            let head = xs.slice(0, ..bind_size(index));
            let mut inner = Recurrence::new();
            let state = inner.carry(sum);
            let done = inner.steps_value(index).run(|step| {
                let next = step.read(&state) * 0.5;
                step.write(&state, next);
            });
            done.last(&state) * 0.25 + head.sum(0) * 0.125 + done.steps().cast(DType::F32)
        })
    }));
    check(&graph, &[vec![numbers(&[6]), one(0.5)], vec![numbers(&[1]), one(0.5)], vec![numbers(&[0]), one(0.5)]]);
}

/// A fault to look for: the same in the other order, and with the size of the counted loop in a type.
fn the_steps_of_a_counted_loop_in_a_type() {
    let graph = built(Graph::build("steps", |g| {
        let (xs, start) = (g.input("xs", "f32[T]"), g.input("start", "f32[]"));
        fori_loop(0, xs.dim(0), start, |index, sum| {
            let mut inner = Recurrence::new();
            let state = inner.carry(sum);
            let done = inner.steps_value(index).run(|step| {
                let next = step.read(&state) * 0.5 + 0.5;
                step.write(&state, next);
            });
            let head = xs.slice(0, ..bind_size(index));
            done.last(&state) * 0.25 + head.sum(0) * 0.125 + done.steps().cast(DType::F32)
        })
    }));
    check(&graph, &[vec![numbers(&[6]), one(0.5)], vec![numbers(&[1]), one(0.5)]]);
    // The backward loop of a triangular loop needs the symbol of the forward loop.
    let gradient = built(graph.grad(["xs", "start"], GradOptions::new()));
    check(&gradient, &[vec![numbers(&[6]), one(0.5)], vec![numbers(&[2]), one(0.5)]]);
}

/// A fault to look for: a counted loop becomes a while loop, although a later loop runs as many steps.
#[test]
fn the_steps_of_a_counted_loop_in_another_loop() {
    let text = "\
fn @f(%counts: i64[B], %x: f32[]) {
  %ys: f32[B] = scan @body {steps=B} with %x {
    seq %n: i64[] = %counts[t]
    nit-sot %ys
    %0: i64[] = constant 0
    %1: i64[] = max %n, %0
    %2: f32[] = scan %1 {steps=$1} {
      carry %c: f32[] = %2 from %x
      %3: f32[] = sin %c
      %2 = %3
    }
    %4: f32[] = scan {steps=$1, order=down} with %x {
      carry %d: f32[] = %4 from %2
      %5: f32[] = mul %d, %x
      %4 = %5
    }
    %ys[t] = %4
  }
  return ys=%ys
}
";
    let graph = built(Graph::parse(text));
    check_compiled(&graph, &[vec![ints(&[3, 0, -1, 7]), one(0.5)], vec![ints(&[66, 1]), one(0.9)]]);
}

/// A fault to look for: a loop uses a size that is bound before the loop only in an attribute (`size`). The symbol is missing from
/// the loop's own sizes, and a padded size of the loop gets the same name.
#[test]
fn an_outer_size_in_an_attribute_alone() {
    let text = "\
fn @f(%xs: f32[T], %ks: i64[B], %n: i64[]) {
  bind_size %n {size=$3}
  %y: f32[B] = scan {steps=B} with %xs {
    seq %k: i64[] = %ks[t]
    nit-sot %y
    bind_size %k {size=$2}
    %0: f32[$2] = slice %xs {axis=0, start=0, limit=$2, step=1}
    %1: f32[] = reduce %0 {kind=sum, axes=[0]}
    %2: f32[] = size {dim=$3, dtype=f32}
    %3: f32[] = add %1, %2
    %y[t] = %3
  }
  return y=%y
}
";
    let graph = built(Graph::parse(text));
    let of = |n: i64| vec![numbers(&[70]), ints(&[2, 0, 7]), HostTensor::scalar(n)];
    check(&graph, &[of(5), of(0), of(6)]);
}

/// A fault to look for: in an unrolled outer loop, `with_known_sizes` sees the sizes that the previous step
/// of the outer loop bound in the body of an inner loop. `k & 7` has a known range, so that the inner loop could be
/// compiled once its second size is (wrongly) known; `cumsum` prevents padding before.
#[test]
fn stale_sizes_in_an_unrolled_loop() {
    let graph = built(Graph::build("stale", |g| {
        let (xs, rows, start) = (g.input("xs", "f32[9]"), g.input("rows", "f32[3]"), g.input("start", "f32[]"));
        let first = funcify::constant(2i64);
        scan_with(ScanOptions::new().unroll(3), (start, first), rows, |(state, n), row| {
            let inner = ScanOptions::new().length(2).unroll(2);
            let ((state, _), ()) = scan_with(inner, (state, n), (), |(state, k), ()| {
                let head = xs.slice(0, ..bind_size(k & 7));
                let again = bind_size(size(head.dim(0), DType::I64));
                let sums = iota(again, DType::F32).cumsum(0, false).sum(0);
                ((state * 0.5 + head.sum(0) + sums, k + 1), ())
            });
            ((state, n + 2 + row.gt(0.0).cast(DType::I64)), state)
        })
    }));
    check(&graph, &[vec![numbers(&[9]), floats(&[1.0, -1.0, 1.0]), one(0.5)]]);
}

#[test]
fn unrolled_and_static_numbers_of_steps() {
    all_of(&[unrolled_outer_loops_with_computed_steps, static_numbers_of_steps]);
}

/// A fault to look for: an unrolled outer loop whose inner numbers of steps are constants, then values. Sizes of one step leak into
/// the next.
fn unrolled_outer_loops_with_computed_steps() {
    let graph = built(Graph::build("unrolled", |g| {
        let (xs, start) = (g.input("xs", "f32[4]"), g.input("start", "f32[]"));
        let zero = funcify::constant(0i64);
        scan_with(ScanOptions::new().unroll(4), (start, zero), xs, |(state, n), x| {
            let mut inner = Recurrence::new();
            let carry = inner.carry(state);
            let done = inner.steps_value(n).run(|step| {
                let next = step.read(&carry) * 0.5 + x;
                step.write(&carry, next);
                next
            });
            let total = done.ys.sum(0) + done.steps().cast(DType::F32) + iota(bind_size(n + 1), DType::F32).sum(0);
            ((done.last(&carry) + total * 0.1, n + 1 + x.gt(0.0).cast(DType::I64)), total)
        })
    }));
    check(&graph, &[vec![floats(&[-1.0, 1.0, -1.0, 1.0]), one(0.5)], vec![floats(&[1.0, 1.0, 1.0, 1.0]), one(0.5)]]);
    let gradient = built(graph.vjp("xs", GradOptions::new()));
    // The integer carry has no cotangent.
    check(&gradient, &[vec![floats(&[-1.0, 1.0, -1.0, 1.0]), one(0.5), one(1.0), floats(&[1.0, 2.0, 0.5, 1.0])]]);
}

/// A fault to look for: a static number gives the inner loop its number of steps, and a program is specialised for it.
fn static_numbers_of_steps() {
    let graph = built(Graph::build("static", |g| {
        let (n, xs) = (g.static_input("n", DType::I64), g.input("xs", "f32[T]"));
        scan(xs.sum(0), xs, |state, x| {
            let mut inner = Recurrence::new();
            let carry = inner.carry(state);
            let done = inner.steps_value(n).run(|step| {
                let next = (step.read(&carry) * 0.5 + x).sin();
                step.write(&carry, next);
                next
            });
            let rows = full([bind_size(n + 1)], DType::F32, 0.5).sum(0);
            (done.last(&carry), done.ys.sum(0) + rows + done.steps().cast(DType::F32))
        })
    }));
    let of = |n: i64| vec![HostTensor::scalar(n), numbers(&[3])];
    check(&graph, &[of(2), of(0), of(5), of(2), of(70), of(-1)]);
}

/// A fault to look for: one size bounds two loops, a nested loop that carries a tensor of that size, and the steps of a loop in
/// the body of another loop.
#[test]
fn several_loops_share_one_size() {
    let graph = built(Graph::build("shared", |g| {
        let (xs, counts, start) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"), g.input("start", "f32[]"));
        map(counts, |count| {
            let rows = bind_size(count);
            let head = xs.slice(0, ..rows.clone());
            let steps = ScanOptions::new().length(rows.clone());
            let (last, trace) = scan_with(steps.clone(), start, (), |s, ()| (s * 0.5 + 1.0, s));
            let carried = scan_with(ScanOptions::new().length(3), head, (), |head, ()| {
                ((head * 0.5 + head.sum(0) * 0.125).sin(), ())
            });
            let nested = scan_with(ScanOptions::new().length(2), start, (), |s, ()| {
                (scan_with(steps, s, head, |s, x| (s * 0.5 + x, ())).0, ())
            });
            last + (trace * head).sum(0) + carried.0.sum(0) + nested.0 + size(rows, DType::F32)
        })
    }));
    let of = |rows: usize, counts: &[i64]| vec![numbers(&[rows]), ints(counts), one(0.5)];
    check(&graph, &[of(6, &[3, 0, 6, 1]), of(1, &[1, 0]), of(70, &[64, 2]), of(70, &[65, 2])]);
    let gradient = built(graph.vjp(["xs", "start"], GradOptions::new()));
    check(&gradient, &[[of(6, &[3, 0, 6]), vec![numbers(&[3])]].concat()]);
}
