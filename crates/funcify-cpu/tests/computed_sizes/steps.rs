//! Tests loops in descending order, with taps and with full buffers, whose number of steps a step computes.

use funcify::{DType, GradOptions, Graph, Recurrence, bind_size, map, scan};

use super::{all_of, built, check, check_compiled, floats, ints, numbers, one};

#[test]
fn reverse_loops_whose_steps_are_an_operand() {
    all_of(&[a_reverse_loop_whose_steps_are_an_operand, a_reverse_loop_with_earlier_rows, a_reverse_loop_with_taps]);
}

/// Suspicion (capacity.rs, with_rows_by_capacity): the index of the first step of a reverse loop, `number - 1`, is copied
/// before `copy.set` replaces the number with the capacity. The loop then runs as many steps as its capacity.
fn a_reverse_loop_whose_steps_are_an_operand() {
    let carry_only = "\
fn @f(%counts: i64[B], %x: f32[]) {
  %ys: f32[B], %last: f32[] = scan {steps=B} {
    seq %n: i64[] = %counts[t]
    nit-sot %ys
    carry %s: f32[] = %last from %x
    %end: f32[] = scan %n {steps=$1, order=down} {
      carry %c: f32[] = %end from %s
      %0: f32[] = sin %c
      %end = %0
    }
    %1: f32[] = add %end, %s
    %ys[t] = %end
    %last = %1
  }
  return ys=%ys, last=%last
}
";
    let with_rows = "\
fn @f(%counts: i64[B], %x: f32[]) {
  %ys: f32[B], %last: f32[] = scan {steps=B} {
    seq %n: i64[] = %counts[t]
    nit-sot %ys
    carry %s: f32[] = %last from %x
    %rows: f32[$1], %end: f32[] = scan %n {steps=$1, order=down} {
      nit-sot %rows
      carry %c: f32[] = %end from %s
      %0: f32[] = sin %c
      %rows[t] = %0
      %end = %0
    }
    %1: f32[] = reduce %rows {kind=sum, axes=[0]}
    %2: f32[] = add %1, %end
    %ys[t] = %2
    %last = %end
  }
  return ys=%ys, last=%last
}
";
    for text in [carry_only, with_rows] {
        let graph = built(Graph::parse(text));
        let of = |counts: &[i64]| vec![ints(counts), one(0.75)];
        check(&graph, &[of(&[2, 0, 3, 1]), of(&[]), of(&[64]), of(&[65, 1]), of(&[-1])]);
        let gradient = built(graph.vjp("x", GradOptions::new()));
        let pulled = [of(&[2, 0, 3]), vec![floats(&[1.0, 2.0, 0.5]), one(1.0)]].concat();
        check(&gradient, &[pulled]);
    }
}

/// A fault to look for: reverse loops of computed sizes that read a sequence and earlier rows (sit-sot), whose initial rows must
/// follow the rows of the steps that run.
fn a_reverse_loop_with_earlier_rows() {
    let text = "\
fn @f(%counts: i64[B], %xs: f32[T], %z: f32[1]) {
  %ys: f32[B] = scan {steps=B} with %xs, %z {
    seq %n: i64[] = %counts[t]
    nit-sot %ys
    %rows: f32[$1+1] = scan %n {steps=$1, order=down} {
      seq %x: f32[] = %xs[t]
      sit-sot %s: f32[] = %rows[t+1] from %z
      %0: f32[] = add %s, %x
      %1: f32[] = sin %0
      %rows[t] = %1
    }
    %2: f32[1] = slice %rows {axis=0, start=0, limit=1, step=1}
    %3: f32[] = reduce %2 {kind=sum, axes=[0]}
    %4: f32[] = reduce %rows {kind=max, axes=[0]}
    %5: f32[] = add %3, %4
    %ys[t] = %5
  }
  return ys=%ys
}
";
    let graph = built(Graph::parse(text));
    let of = |rows: usize, counts: &[i64]| vec![ints(counts), numbers(&[rows]), floats(&[0.25])];
    check(&graph, &[of(6, &[2, 0, 6, 1]), of(6, &[7]), of(6, &[-1]), of(70, &[64, 65, 70]), of(0, &[0, 0])]);
    let gradient = built(graph.vjp(["xs", "z"], GradOptions::new()));
    check(&gradient, &[[of(6, &[2, 0, 6]), vec![numbers(&[3])]].concat()]);
}

/// A fault to look for: in ascending order, each tap of a reversed sequence counts from the other end of its rows, and
/// the initial rows are reversed too.
fn a_reverse_loop_with_taps() {
    let text = "\
fn @f(%counts: i64[B], %xs: f32[T], %z: f32[2]) {
  %ys: f32[B] = scan {steps=B} with %xs, %z {
    seq %n: i64[] = %counts[t]
    nit-sot %ys
    %rows: f32[$1+2], %sums: f32[$1] = scan %n {steps=$1, order=down} {
      seq %x: f32[], %x2: f32[] = %xs[t], %xs[t+2]
      mit-sot %s: f32[], %s2: f32[] = %rows[t+1], %rows[t+2] from %z
      nit-sot %sums
      %0: f32[] = sub %s, %x
      %1: f32[] = mul %s2, %x2
      %2: f32[] = add %0, %1
      %3: f32[] = sin %2
      %4: f32[] = mul %3, %x
      %rows[t] = %3
      %sums[t] = %4
    }
    %5: f32[1] = slice %rows {axis=0, start=0, limit=1, step=1}
    %6: f32[] = reduce %5 {kind=sum, axes=[0]}
    %7: f32[] = reduce %sums {kind=max, axes=[0]}
    %8: f32[] = add %6, %7
    %ys[t] = %8
  }
  return ys=%ys
}
";
    let graph = built(Graph::parse(text));
    let of = |rows: usize, counts: &[i64]| vec![ints(counts), numbers(&[rows]), floats(&[0.5, -0.25])];
    check(&graph, &[of(8, &[3, 1, 6]), of(8, &[7]), of(8, &[-1]), of(80, &[64, 65, 78])]);
    let gradient = built(graph.vjp(["xs", "z"], GradOptions::new()));
    check(&gradient, &[[of(8, &[3, 1, 6]), vec![numbers(&[3])]].concat()]);
}

/// A fault to look for: taps of sequences and states with a computed number of steps: the capacity must leave room for the reach.
#[test]
fn taps_with_computed_steps() {
    for backwards in [false, true] {
        let graph = built(Graph::build("taps", |g| {
            let (xs, init) = (g.input("xs", "f32[T]"), g.input("init", "f32[2]"));
            let counts = g.input("counts", "i64[B]");
            map(counts, |count| {
                let mut inner = Recurrence::new();
                if backwards {
                    inner.backwards();
                }
                let x = inner.sequence(xs, [0, 2]);
                let state = inner.mit_sot(init, [-2, -1]);
                let done = inner.steps_value(count).run(|step| {
                    let ([now, ahead], [older, old]) = (step.read(&x), step.read(&state));
                    let next = (older * 0.5 + old * 0.25 + now - ahead).sin();
                    step.write(&state, next);
                    next * now
                });
                let rows = done.trace_with_init(&state);
                rows.sum(0) + rows.index(0, 0) + done.trace(&state).sum(0) + done.ys.sum(0)
            })
        }));
        let of = |rows: usize, counts: &[i64]| vec![numbers(&[rows]), floats(&[0.5, -0.25]), ints(counts)];
        check(&graph, &[of(8, &[3, 0, 6]), of(8, &[7]), of(8, &[8]), of(2, &[0]), of(2, &[1]), of(80, &[64, 65, 78])]);
        let gradient = built(graph.vjp(["xs", "init"], GradOptions::new()));
        check(&gradient, &[[of(8, &[3, 0, 6]), vec![numbers(&[3])]].concat()]);
    }
}

/// A fault to look for: full buffers with computed steps: steps beyond the number must keep the old rows, and `fits` does not look
/// at buffers.
#[test]
fn full_buffers_with_computed_steps() {
    let graph = built(Graph::build("buffers", |g| {
        let (ys, counts) = (g.input("ys", "f32[T]"), g.input("counts", "i64[B]"));
        scan(ys, counts, |ys, count| {
            let mut inner = Recurrence::new();
            let buffer = inner.mit_mot(ys, [0, 1], [1]);
            let done = inner.steps_value(count).run(|step| {
                let [old, next] = step.read(&buffer);
                step.write(&buffer, [(old * 0.5 + next).sin()]);
            });
            let rows = done.buffer(&buffer);
            (rows, rows.sum(0))
        })
    }));
    let of = |rows: usize, counts: &[i64]| vec![numbers(&[rows]), ints(counts)];
    check(&graph, &[of(80, &[3, 0, 64]), of(80, &[65, 79]), of(80, &[80]), of(9, &[8, 2]), of(9, &[9]), of(1, &[0])]);
    let gradient = built(graph.vjp("ys", GradOptions::new()));
    check(&gradient, &[[of(70, &[3, 0, 5]), vec![numbers(&[70]), numbers(&[3])]].concat()]);
}

/// A fault to look for: a loop has both a computed maximum number of steps and an early exit, in either position.
#[test]
fn computed_steps_and_an_early_exit() {
    let graph = built(Graph::build("both", |g| {
        let (start, counts) = (g.input("start", "f32[]"), g.input("counts", "i64[B]"));
        scan(start, counts, |sum, count| {
            let mut inner = Recurrence::new();
            let state = inner.sit_sot(sum * 0.125 + start);
            let done = inner.steps_value(count).run(|step| {
                let [old] = step.read(&state);
                let next = old * 0.5 + 1.0;
                step.write(&state, next);
                step.until(next.gt(1.9));
                next * 0.5
            });
            let rows = done.trace_with_init(&state).sum(0) + done.ys.sum(0);
            (rows, rows + done.steps().cast(DType::F32))
        })
    }));
    let of = |counts: &[i64]| vec![one(0.5), ints(counts)];
    check(&graph, &[of(&[2, 0, 9, 1]), of(&[64, 65, 300]), of(&[3, -1]), of(&[])]);
    let gradient = built(graph.vjp("start", GradOptions::new()));
    check(&gradient, &[[of(&[2, 0, 9]), vec![one(1.0), numbers(&[3])]].concat()]);
}

#[test]
fn capacities_and_empty_operands() {
    all_of(&[capacities_at_their_limits, empty_operands]);
}

/// A fault to look for: capacities at and around 64 and 1024, limited by a sequence or by nothing, and operands without rows.
fn capacities_at_their_limits() {
    let graph = built(Graph::build("limits", |g| {
        let (xs, counts) = (g.input("xs", "f32[T]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let mut inner = Recurrence::new();
            let x = inner.sequence(xs, [0]);
            let state = inner.carry(count.zeros_like().cast(DType::F32));
            let done = inner.steps_value(count).run(|step| {
                let [x] = step.read(&x);
                let next = step.read(&state) * 0.5 + x;
                step.write(&state, next);
                next
            });
            done.last(&state) + done.ys.max(0).maximum(-2.0)
        })
    }));
    let of = |rows: usize, counts: &[i64]| vec![numbers(&[rows]), ints(counts)];
    check(
        &graph,
        &[
            of(64, &[63, 64]),
            of(64, &[65]),
            of(65, &[64, 65]),
            of(1024, &[0, 1024]),
            of(1025, &[64]),
            of(1025, &[65, 1025]),
            of(0, &[0]),
            of(0, &[1]),
            of(1, &[1, 0]),
            of(3, &[]),
        ],
    );
}

/// A fault to look for: tensors without rows and loops without steps. A lookup in an empty axis has no valid index.
fn empty_operands() {
    let graph = built(Graph::build("empty", |g| {
        let (xs, counts) = (g.input("xs", "f32[T,3]"), g.input("counts", "i64[B]"));
        map(counts, |count| {
            let rows = bind_size(count);
            let head = xs.slice(0, ..rows.clone());
            head.sum(0) + xs.slice(0, rows..).max(0).maximum(-5.0) + head.t().matmul(head).sum(1)
        })
    }));
    let of = |rows: usize, counts: &[i64]| vec![numbers(&[rows, 3]), ints(counts)];
    check(&graph, &[of(0, &[0, 0]), of(0, &[1]), of(0, &[]), of(2, &[0, 1, 2]), of(1, &[0, 1]), of(2, &[-1])]);
}

/// A fault to look for: a loop without rows cannot be compiled for the sizes of a trial, but for the size 0.
#[test]
fn a_size_that_must_be_0() {
    let text = "\
fn @f(%xs: f32[T], %is: i64[T]) {
  %0: i64[] = reduce %is {kind=sum, axes=[0]}
  %1: i64[] = constant 0
  %2: i64[] = max %0, %1
  %3: i64[] = min %2, %1
  %4: f32[$1], %5: i64[T] = scan @step %3 {steps=$1} {
    seq %s: f32[] = %xs[t]
    nit-sot %4
    carry %c: i64[T] = %5 from %is
    %6: i64[T] = add %c, %c
    %4[t] = %s
    %5 = %6
  }
  return rows=%4, last=%5
}
";
    let graph = built(Graph::parse(text));
    check_compiled(&graph, &[vec![numbers(&[0]), ints(&[])], vec![numbers(&[2]), ints(&[3, 1 << 60])]]);
}

/// A fault to look for: in ascending order, a full buffer is reversed, but only up to the last row that a step accesses.
#[test]
fn a_reverse_loop_that_ends_early_with_a_full_buffer() {
    for (steps, returned, rows) in [("4", "", 7), ("4", " last 2", 2), ("3", "", 7)] {
        let text = format!(
            "\
fn @f(%xs: f32[B,4], %b: f32[7], %x: f32[]) {{
  %ys: f32[B,{rows}], %zs: f32[B] = scan @body {{steps=B}} with %b, %x {{
    seq %row: f32[4] = %xs[t]
    nit-sot %ys
    nit-sot %zs
    %0: f32[{rows}]{returned}, %1: f32[$1], %2: f32[] = scan @step {{steps={steps}, until=$1, order=down}} with %x {{
      seq %s: f32[] = %row[t]
      mit-mot %r0: f32[], %r2: f32[] = %0[t], %0[t+2] from %b
      nit-sot %1
      carry %c: f32[] = %2 from %x
      %3: f32[] = mul %r0, %c
      %4: f32[] = add %r2, %s
      %5: bool[] = gt %s, %x
      %0[t+1] = %3
      %0[t+2] = %4
      %1[t] = %4
      %2 = %4
      until %5
    }}
    %6: f32[] = reduce %1 {{kind=sum, axes=[0]}}
    %7: f32[] = add %6, %2
    %ys[t] = %0
    %zs[t] = %7
  }}
  return ys=%ys, zs=%zs
}}
"
        );
        let graph = built(Graph::parse(&text));
        let calls = [0.9, -0.9, 0.1, 0.5].map(|x| vec![numbers(&[3, 4]), numbers(&[7]), one(x)]);
        check_compiled(&graph, &calls);
    }
}

/// A fault to look for: a loop that ends early keeps more rows than it could move in each step. It stores all rows, and
/// returns the last ones that it wrote.
#[test]
fn a_loop_that_ends_early_with_many_recent_rows() {
    for (order, last) in [("", 66), ("", 65), ("", 2), (", order=down", 66), (", order=down", 3)] {
        let (first, second) = if order.is_empty() { ("t-65", "t-1") } else { ("t+65", "t+1") };
        let text = format!(
            "\
fn @f(%xs: f32[70,2], %z: f32[65,2], %x: f32[], %start: f32[2]) {{
  %0: f32[{last},2] last {last}, %1: f32[2] = scan @step {{steps=70, until=$1{order}}} with %x {{
    seq %s: f32[2] = %xs[t]
    mit-sot %r0: f32[2], %r1: f32[2] = %0[{first}], %0[{second}] from %z
    carry %c: f32[2] = %1 from %start
    %2: f32[2] = add %r0, %s
    %3: f32[2] = sub %2, %r1
    %4: f32[] = reduce %s {{kind=sum, axes=[0]}}
    %5: bool[] = gt %4, %x
    %0[t] = %3
    %1 = %2
    until %5
  }}
  return rows=%0, last=%1
}}
"
        );
        let graph = built(Graph::parse(&text));
        let calls = [9.0, -9.0, 1.5, 1.9].map(|x| vec![numbers(&[70, 2]), numbers(&[65, 2]), one(x), numbers(&[2])]);
        check_compiled(&graph, &calls);
    }
}
