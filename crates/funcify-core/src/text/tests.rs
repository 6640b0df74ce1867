//! Tests round trips of the text form: parsing a printed graph returns an equal graph, which prints as the same text
//! and computes the same results.

use std::collections::{BTreeMap, BTreeSet};

use super::parse::parse;
use super::parse_op_text;
use crate::error::Site;
use crate::graph::print::{excerpt, print};
use crate::graph::{Graph, ValueId};
use crate::ops::scan::Returned;
use crate::ops::{Op, OpRules, ScatterMode, all_names};
use crate::types::Sizes;
use crate::{
    DType, Dim, Error, HostTensor, Recurrence, Scalar, ScanOptions, apply, concat, constant, evaluate, full, iota,
    scan, scan_with, select, size,
};

/// Returns arguments for a graph, with every symbol bound to 3.
fn arguments(graph: &Graph) -> Vec<HostTensor> {
    let mut sizes = Sizes::new();
    let types: Vec<_> = (0..graph.inputs().len()).map(|index| graph.input_type(index).clone()).collect();
    for symbol in types.iter().flat_map(|ty| ty.shape.dims()).flat_map(Dim::symbols) {
        sizes.set(symbol, 3);
    }
    let tensor = |ty: &crate::TensorType| {
        let shape = ty.shape.value(&sizes).unwrap();
        let count = shape.iter().product::<usize>();
        let scalars = (0..count).map(|index| Scalar::Float(0.5 + index as f64 / 4.0).as_f64());
        let scalars = scalars.map(|x| if ty.dtype.is_int() { Scalar::Int(x as i64 + 1) } else { Scalar::Float(x) });
        HostTensor::new(shape, crate::Storage::from_scalars(ty.dtype, scalars)).unwrap()
    };
    types.iter().map(tensor).collect()
}

/// Checks the round trip of a graph through the text form. Returns the text.
fn round_trips(graph: &Graph) -> String {
    let text = print(graph);
    let parsed = parse(&text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"));
    assert_eq!(print(&parsed), text);
    assert_eq!(graph.difference(&parsed), None, "{text}");
    for graph in [graph, &parsed] {
        graph.check().unwrap_or_else(|errors| panic!("{errors:?}\nin\n{text}"));
    }
    let arguments = arguments(graph);
    let results = |graph| format!("{:?}", evaluate(graph, &arguments).unwrap());
    assert_eq!(results(graph), results(&parsed), "{text}");
    text
}

fn with_loop(graph: &Graph, change: impl FnOnce(&mut crate::ops::Scan)) -> Graph {
    let mut changed = Graph::new(graph.name());
    let mut matched: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for (index, input) in graph.inputs().iter().enumerate() {
        let ty = graph.ty(input.value).clone();
        matched.insert(input.value, changed.push_input(graph.input_name(index), ty, input.is_static));
    }
    let mut change = Some(change);
    for node in graph.nodes() {
        let mut op = node.op.clone();
        if let (Op::Scan(scan), Some(change)) = (&mut op, change.take()) {
            change(scan);
        }
        let operands: Vec<ValueId> = node.inputs.iter().map(|value| matched[value]).collect();
        let values = changed.push_node(op, &operands, node.site).unwrap();
        matched.extend(node.outputs.iter().copied().zip(values));
    }
    graph.outputs().iter().for_each(|output| changed.push_output(&output.name, matched[&output.value]));
    changed
}

fn rnn() -> Graph {
    let graph = Graph::build("rnn", |g| {
        let xs = g.input("xs", "f32[T,B,4]");
        let w = g.input("w", "f32[4,4]");
        let h0 = g.input("h0", "f32[B,4]");
        let (last, hs) = scan(h0, xs, |h, x| {
            let next = (x.matmul(w) + h).tanh();
            (next, next)
        });
        BTreeMap::from([("hs", hs.named("hs")), ("last", last.named("last"))])
    });
    graph.unwrap()
}

fn taps() -> Graph {
    let graph = Graph::build("taps", |g| {
        let (xs, old) = (g.input("xs", "f64[T]"), g.input("old", "f64[2]"));
        let (start, grad) = (g.input("start", "f64[1]"), g.input("grad", "f64[T]"));
        let mut recurrence = Recurrence::new();
        let x = recurrence.sequence(xs, [0, 1]);
        let s = recurrence.mit_sot(old, [-2, -1]);
        let r = recurrence.mit_sot(start, [-1]);
        let m = recurrence.mit_mot(grad, [0, 1], [1]);
        let m2 = recurrence.mit_mot(grad, [1], [1, 0]);
        let c = recurrence.carry((grad.sum(0), old));
        let done = recurrence.run(|step| {
            let ([a, b], [older, older_one], [one]) = (step.read(&x), step.read(&s), step.read(&r));
            let ([p, q], [v]) = (step.read(&m), step.read(&m2));
            let (c0, c1) = step.read(&c);
            step.write(&s, a + older * 0.5 + older_one);
            step.write(&r, one + b);
            step.write(&m, [p + q * 0.25]);
            step.write(&m2, [v + one, p]);
            step.write(&c, (c0 + p, c1 + older));
            (p * q, ())
        });
        let rows = (done.trace(&s), done.trace_with_init(&r), done.buffer(&m), done.buffer(&m2));
        (rows, done.last(&c), done.ys)
    });
    graph.unwrap()
}

#[test]
fn a_recurrent_network_reads_as_its_recurrence() {
    let expected = "\
fn @rnn(%xs: f32[T,B,4], %w: f32[4,4], %h0: f32[B,4]) {
  %hs: f32[T,B,4], %last: f32[B,4] = scan @body {steps=T} with %w {
    seq %x: f32[B,4] = %xs[t]
    nit-sot %hs
    carry %carry: f32[B,4] = %last from %h0
    %0: f32[B,4] = matmul %x, %w
    %1: f32[B,4] = add %0, %carry
    %2: f32[B,4] = tanh %1
    %hs[t] = %2
    %last = %2
  }
  return hs=%hs, last=%last
}
";
    assert_eq!(round_trips(&rnn()), expected);
}

#[test]
fn a_gradient_reads_as_its_recurrence() {
    let text = "\
fn @power_grad(%A: f64[n], %xs: f64[k+1,n], %ct: f64[k+1,n], %z: f64[1,n]) {
  %g: f64[k+1,n], %dA: f64[1,n] last 1, %w: f64[k,n] = scan @step {steps=k, order=down, unroll=2} with %A, %A as %A_1 {
    seq %x: f64[n] = %xs[t]
    mit-mot %c0: f64[n], %c1: f64[n] = %g[t], %g[t+1] from %ct
    sit-sot %acc: f64[n] = %dA[t+1] from %z
    nit-sot %w
    %0: f64[n] = mul %c0, %A
    %1: f64[n] = add %0, %c1
    %2: f64[n] = mul %A_1, %x
    %3: f64[n] = add %acc, %2
    %g[t+1] = %1
    %g[t] = %0
    %dA[t] = %3
    %w[t] = %2
  }
  return g=%g, dA=%dA, w=%w
}
";
    let graph = parse(text).unwrap();
    assert_eq!(round_trips(&graph), text);
}

#[test]
fn the_example_of_the_module_round_trips() {
    let doc = include_str!("mod.rs").lines().map(|line| line.trim_start_matches("//!"));
    let example: Vec<&str> = doc.skip_while(|line| *line != " ```text").skip(1).take_while(|l| *l != " ```").collect();
    round_trips(&parse(&example.join("\n")).unwrap());
}

#[test]
fn taps_of_every_kind() {
    let text = round_trips(&taps());
    for part in [
        "seq %x0: f64[], %x0_p1: f64[] = %xs[t], %xs[t+1]",
        "mit-sot %s0_m2: f64[], %s0_m1: f64[] = %1[t-2], %1[t-1] from %old",
        "sit-sot %s1_m1: f64[] = %2[t-1] from %start",
        "mit-mot %s3_p1: f64[] = %4[t+1] from %grad",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn trimmed_unrolled_and_changed_loops() {
    let change = |change: &dyn Fn(&mut crate::ops::Scan)| round_trips(&with_loop(&rnn(), change));
    assert!(change(&|scan| scan.buffers[0].returned = Returned::Last(1)).contains("f32[1,B,4] last 1, "));
    assert!(change(&|scan| scan.unroll = 0).contains(", unroll=0}"));
    assert!(change(&|scan| scan.reverse = true).contains(", order=down}"));
    let nameless = |scan: &mut crate::ops::Scan| {
        let text = print(&scan.body).replace("fn @body", "fn ");
        scan.body = std::sync::Arc::new(parse(&text).unwrap());
    };
    assert!(change(&nameless).contains("= scan {steps=T} with"));
}

#[test]
fn reverse_axis_carry_trees_and_nested_captures() {
    let graph = Graph::build("nested", |g| {
        let (x, w) = (g.input("x", "f32[B,T]"), g.input("w", "f32[B]"));
        let scale = (w * 2.0).named("scale");
        let options = ScanOptions::new().reverse().axis(-1).unroll(4);
        let (last, ys) = scan_with(options, (scale, (w.sum(0), w)), x, |(a, (b, c)), x| {
            let (inner, rows) = scan(a, w, |a, x0| {
                let (deep, ()) = scan_with(ScanOptions::new().length(2), a, (), |a, ()| (a + scale * x0 + x, ()));
                (deep, deep.sum(0) + w.sum(0))
            });
            ((inner, (b + rows.sum(0), c + x)), (x, rows))
        });
        g.input("late", "i32[]");
        (last, ys, full([2, 2], DType::BF16, 1.5))
    });
    let text = round_trips(&graph.unwrap());
    assert!(text.contains(", order=down, unroll=4} with"), "{text}");
}

#[test]
fn the_number_of_steps_is_a_value() {
    let graph = Graph::build("steps", |g| {
        let (n, x) = (g.static_input("n", DType::I64), g.input("x", "f32[]"));
        let mut recurrence = Recurrence::new();
        let c = recurrence.carry(x);
        let done = recurrence.steps_value(n + 1).run(|step| {
            let x = step.read(&c);
            step.write(&c, x * 1.5);
            x
        });
        (done.ys, done.last(&c))
    });
    let text = round_trips(&graph.unwrap());
    assert!(text.contains("scan @step %1 {steps=$1} {") && text.contains("static %n: i64[]"), "{text}");
}

#[test]
fn loops_that_end_early() {
    let graph = Graph::build("until", |g| {
        let mut recurrence = Recurrence::new();
        let old = recurrence.sit_sot(g.input("start", "f32[]"));
        let done = recurrence.steps(20).run(|step| {
            let [x] = step.read(&old);
            step.write(&old, x * 1.5);
            step.until(x.gt(9.0));
            x
        });
        (done.trace(&old), done.steps())
    });
    let text = round_trips(&graph.unwrap());
    for part in ["{steps=20, until=$1} {", "f32[$1+1]", "    until %6\n  }", "{axis=0, start=1, limit=$1+1, step=1}"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn loops_that_read_or_give_nothing() {
    let graph = Graph::build("nothing", |g| {
        let xs = g.input("xs", "f32[T]");
        scan((), xs, |(), _| ((), ()));
        let mut recurrence = Recurrence::new();
        recurrence.sequence(xs, []);
        let m = recurrence.mit_mot(xs, [], [0]);
        let done = recurrence.run(|step| step.write(&m, [constant(2f32)]));
        (done.buffer(&m), xs.named("xs"), ())
    });
    let text = round_trips(&graph.unwrap());
    assert!(text.contains("\n  scan @body {steps=T} {") && text.contains("mit-mot %0 from %xs"), "{text}");
    round_trips(&Graph::build("empty", |_| ()).unwrap());
}

#[test]
fn constants_of_every_dtype() {
    let numbers = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-7, 65504.0, 1e30, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324];
    let graph = Graph::build("constants", |_| {
        let of = |dtype| HostTensor::from_vec(numbers.to_vec(), [3, 4]).unwrap().cast(dtype);
        let tensors: Vec<_> = DType::ALL.map(|dtype| constant(of(dtype))).to_vec();
        let limits = HostTensor::from([i64::MIN, i64::MAX]);
        (tensors, constant(true), constant(f32::MIN_POSITIVE), constant(limits), full([0, 2], DType::F64, 1.0))
    });
    let graph = graph.unwrap();
    let text = round_trips(&graph);
    assert!(text.contains("f16[3,4] = constant [0.0, -0.0, 1.0, -1.5, 0.1, 1e-7, 65504.0, inf, nan"), "{text}");
    assert!(text.contains("f32[] = constant 1.1754944e-38"), "{text}");
}

#[test]
fn every_half_is_exact() {
    for bits in 0..=u16::MAX {
        let tensors = [
            HostTensor::scalar(half::f16::from_bits(bits)),
            HostTensor::scalar(half::bf16::from_bits(bits)),
            HostTensor::scalar(f32::from_bits(u32::from(bits) * 65_537)),
        ];
        for tensor in tensors.iter().filter(|tensor| !tensor.get(0).as_f64().is_nan()) {
            let text = crate::host::print_elements(tensor);
            let mut cursor = crate::types::lexer::Cursor::new(&text).unwrap();
            let read = super::elements::parse_elements(&mut cursor, &tensor.ty()).unwrap();
            assert_eq!(read.storage().to_le_bytes(), tensor.storage().to_le_bytes(), "{text}");
        }
    }
}

#[test]
fn every_op() {
    let mut seen: BTreeSet<&str> = ["constant"].into();
    let graph = Graph::build("ops", |g| {
        let (x, i, b) = (g.input("x", "f32[B,B]"), g.input("i", "i64[B,B]"), g.input("b", "bool[B,B]"));
        let k = g.input("k", "i64[]");
        let mut results = vec![
            x.cast(DType::F16),
            x.bitcast(DType::U32),
            x.max([0, 1]),
            x.argmax(-1),
            x.broadcast_to([Dim::from(2), Dim::from("B"), Dim::from("B")]),
            x.reshape([Dim::from("B") * Dim::from("B")]),
            x.t(),
            x.slice(1, 1..),
            x.reverse(1),
            concat(&[x, x], 1),
            x.pad(0, 1, Dim::from("B") + 2, -0.5),
            iota(Dim::from("B") * 2 - 1, DType::U8),
            size("B", DType::I32),
            iota(crate::bind_size(k), DType::I32),
            x.dynamic_slice(0, k, 2),
            x.dynamic_update(1, x, k),
            x.take(0, i),
            x.gather(1, i),
            x.scatter(0, i, x, ScatterMode::Add),
            x.scatter(1, i, x, ScatterMode::Max),
            x.cumsum(1, true),
            x.sort(0, true).0,
            x.polygamma(2),
            x.reshape([Dim::from(1), Dim::from("B"), Dim::from("B")]).conv(
                x.reshape([Dim::from("B"), Dim::from("B"), Dim::from(1)]),
                crate::ops::ConvOptions { padding: [(2, -1)], ..Default::default() },
            ),
            select(b, x, x),
            x.matmul(x),
            crate::random::bits(crate::random::key(1), [Dim::from("B") + 1, Dim::from(2)]),
            crate::map(x, crate::Value::exp),
            crate::associative_scan(x, |a, b| a * b + x.sum(0)),
            crate::while_loop_bounded("B", (x, k), |(x, k)| x.sum(..).lt(9.0) & k.lt(k), |(c, _)| (c + x, k)).0,
            crate::switch(k, [&|| x, &|| x + x, &|| crate::cond(b.all(..), || x * x, || -x)]),
            crate::custom_vjp((x, k), |(y, _)| y + x, |(y, k)| (y + x, (y, k)), |(y, _), ct| (ct * y, ())),
            crate::custom_jvp([x], |[y]| y.sum(..), |[y], _, [tangent]| (tangent * y * x).sum(..)),
        ];
        for name in all_names() {
            let Ok(op) = parse_op_text(name) else { continue };
            let operands = [vec![x], vec![x, x], vec![b], vec![b, b], vec![i, i], vec![i]];
            let at = crate::error::Place::new(name, Site::Unknown);
            let fits = |values: &&Vec<crate::Value>| {
                let types: Vec<_> = values.iter().map(|value| value.ty()).collect();
                op.infer(&at, &types).is_ok()
            };
            if let Some(operands) = operands.iter().find(fits) {
                results.extend(apply(op.clone(), operands));
            }
        }
        results
    });
    let graph = graph.unwrap();
    seen.extend(graph.nodes().iter().map(|node| node.op.name()));
    let names = all_names();
    let missing: Vec<_> = names.iter().filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "no program here has {missing:?}: add one to text/tests.rs");
    let unlisted: Vec<_> = seen.iter().filter(|name| !names.contains(name)).collect();
    assert!(unlisted.is_empty(), "`all_names` lacks {unlisted:?}: see `struct_ops!` and `CONTROL_FLOW` in ops/mod.rs");
    round_trips(&graph);
}

#[test]
fn names_are_made_unique() {
    let graph = Graph::build("names", |g| {
        let x = g.input("x", "f32[T]");
        let x_1 = x.sin().named("x_1");
        let other = x.cos().named("x");
        let (last, ()) = scan(x.sum(0).named("y"), x, |y, x| ((y + x).named("x"), ()));
        (other + x_1, last.named("y"))
    });
    let text = print(&graph.unwrap());
    let parsed = parse(&text).unwrap();
    assert_eq!(print(&parsed), text);
    assert!(text.contains("%x_2: f32[T] = cos %x"), "{text}");
}

#[test]
fn comments_and_blank_lines() {
    let text = "\n// a program\nfn @f(\n  %x: f32[2], // the input\n  %y: f32[2]\n) {\n\n  // one equation\n  \
                %0: f32[2] = add %x, %y // done\n\n  return out=%0\n}\n// end\n";
    let expected = "fn @f(%x: f32[2], %y: f32[2]) {\n  %0: f32[2] = add %x, %y\n  return out=%0\n}\n";
    assert_eq!(print(&parse(text).unwrap()), expected);
}

#[test]
fn excerpts_show_the_last_equations() {
    let error = Graph::build("f", |g| {
        let (x, w) = (g.input("x", "f32[B,64]"), g.input("w", "f32[65,128]"));
        let _ = (x.sin().cos(), scan((), x, |(), _| ((), constant(0f32))), w.tanh().named("h"));
        x.matmul(w)
    });
    let Err(error) = error else { panic!("the shapes do not fit") };
    let expected = [
        "%1: f32[B,64] = cos %0",
        "%ys: f32[B] = scan @body {steps=B} { .. }",
        "%h: f32[65,128] = tanh %w",
        "matmul %x: f32[B,64], %w: f32[65,128]",
    ];
    assert_eq!(error.place().excerpt, expected);
    assert_eq!(excerpt(&Graph::new(""), "sin", &[]), ["sin"]);
}

/// Checks that a function whose body consists of `lines` is rejected with an error of the given kind. The message must
/// contain `message`. If `place` is given, the error must refer to that line and column.
fn rejects(lines: &str, kind: &str, message: &str, place: Option<(usize, usize)>) {
    let text = format!("fn @f(%x: f32[T,3], %w: f32[3], %s: f32[1,3]) {{\n{lines}\n}}\n");
    let error: Error = parse(&text).expect_err(&text);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(message), "{error}\ndoes not say: {message}");
    assert!(matches!(error.place().site, Site::Text { .. }), "{error}");
    if let Some((line, column)) = place {
        assert_eq!(error.place().site, Site::Text { line, column }, "{error}");
    }
}

#[test]
fn equations_that_are_refused() {
    let p = |message, lines: &str, place| rejects(lines, "Parse", message, place);
    p("the name of an op", "%0: f32[3] = sine %w\nreturn", Some((2, 14)));
    p("no attributes: `sin` has none", "%0: f32[3] = sin %w {axis=0}\nreturn", None);
    p("the attribute `axis`", "%0: f32[3] = reverse %w\nreturn", None);
    p("the attribute `axis` once", "%0: f32[3] = reverse %w {axis=0, axis=0}\nreturn", None);
    p("a value that is already defined", "%0: f32[3] = sin %q\nreturn", Some((2, 18)));
    p("the end of the line", "%0: f32[3] = sin %w %w\nreturn", Some((2, 21)));
    p("`:`", "%0 = sin %w\nreturn", None);
    p("a dtype", "%0: q32[3] = sin %w\nreturn", None);
    p("an equation or `return`", "", None);
    p("an output", "return 1=%w", None);
    p("as many elements", "%0: f32[2] = constant [1.0]\nreturn", None);
    p("an element of type u8", "%0: u8[] = constant 256\nreturn", None);
    p("only numbers as sizes", "%0: f32[T] = constant [1.0]\nreturn", None);
    p("`last` only on a buffer", "%0: f32[3] last 2 = sin %w\nreturn", None);
    p("a token", "%0: f32[3] = sin %w;\nreturn", None);
    rejects("%x: f32[3] = sin %w\nreturn", "Name", "exists in this function", Some((2, 1)));
    rejects("return a=%x, a=%w", "Name", "an output with that name", None);
    rejects("%0: f32[4] = sin %w\nreturn", "Type", "f32[4]", Some((2, 1)));
    rejects("%0: f32[3], %1: f32[3] = sin %w\nreturn", "Type", "2 results", None);
    rejects("%0: f32[3] = add %w, %x\nreturn", "Type", "add", Some((2, 14)));
    assert!(parse("fn @f(static %x: f32[]) {\n return\n}").unwrap_err().to_string().contains("an integer scalar"));
    assert!(parse("fn @f(%x: f32[]) {\n return\n} fn").unwrap_err().to_string().contains("after one function"));
}

#[test]
fn loops_that_are_refused() {
    let body = "%ys: f32[T+1,3], %c: f32[3] = scan @b {steps=T} with %w {
        seq %r: f32[3] = %x[t]
        sit-sot %o: f32[3] = %ys[t-1] from %s
        carry %d: f32[3] = %c from %w
        %0: f32[3] = add %o, %w
        %ys[t] = %0
        %c = %d
        }\nreturn";
    round_trips(&parse(&format!("fn @f(%x: f32[T,3], %w: f32[3], %s: f32[1,3]) {{\n{body}\n}}")).unwrap());
    let p = |message, old: &str, new: &str| {
        assert!(body.contains(old));
        rejects(&body.replace(old, new), "Parse", message, None);
    };
    p("`sit-sot`, for a buffer of type f32[T+1,3] with initial rows of type f32[1,3]", "sit-sot", "mit-mot");
    p("`sit-sot`", "sit-sot", "mit-sot");
    p("`sit-sot`", "sit-sot", "nit-sot");
    p("`nit-sot`", "= %ys[t-1] from %s", "= %ys[t-1]");
    p("a row at `t-1` or after", "%ys[t-1]", "%ys[t-2]");
    p("a row at `t` or after", "%x[t]", "%x[t-1]");
    p("in the order of the loop's results", "%ys[t-1]", "%c[t-1]");
    p("lists the outer values", "with %w", "with %s");
    p("the next carry, `%c = ..`", "%c = %d", "");
    p("a row written to `%ys`", "%ys[t] = %0", "");
    p("a row of `%ys`, such as `%ys[t]`", "%ys[t] = %0", "%ys = %0");
    p("the next carry once", "%c = %d", "%c = %d\n%c = %d");
    p("a line for each result", "carry %d: f32[3] = %c from %w", "");
    p("the order sequences, buffers, carries", "%c from %w", "%c from %w\nseq %r2: f32[3] = %x[t]");
    p("the attribute `steps`", "{steps=T}", "{unroll=2}");
    p("`order` as one of up, down", "{steps=T}", "{steps=T, order=dwon}");
    p("only the attributes of `scan`: steps, until", "{steps=T}", "{steps=T, start=1}");
    p("`scan @step {steps=T} with %w {`", "{steps=T} with %w", "with %w {steps=T}");
    p("`scan @step {steps=T} with %w {`", "{steps=T}", "for t in 0..T");
    p("a value of the enclosing body", "%x[t]", "%q[t]");
    rejects(&body.replace("[t] = %0", "[t+1] = %0"), "Tap", "tap", None);
    rejects(&body.replace("with %w", "with %w, %w"), "Name", "twice without `as`", None);
    rejects(&body.replace("%r: f32[3]", "%r: f32[4]"), "Type", "the body's parameter for sequence 0", None);
    let early = body
        .replace("steps=T", "steps=T, until=$9")
        .replace("f32[T+1,3], %c", "f32[$9+1,3], %c")
        .replace("%c = %d", "%c = %d\nuntil %e");
    let early = early.replace("%0: f32[3] = add", "%e: bool[] = constant true\n%0: f32[3] = add");
    round_trips(&parse(&format!("fn @f(%x: f32[T,3], %w: f32[3], %s: f32[1,3]) {{\n{early}\n}}")).unwrap());
    rejects(&early.replace("until %e", ""), "Parse", "`until`", None);
    rejects(&early.replace(", until=$9", ""), "Parse", "`until=$1` among the attributes", None);
    rejects(&early.replace("until=$9", "until=$9+1"), "Parse", "the symbol for the number of steps", None);
    rejects(&early.replace("until %e", "until %0"), "Type", "the value of `until`", None);
    rejects(&early.replace("$9", "T"), "Type", "a symbol that nothing else binds", None);
    let deep = "scan {steps=2} {\n".repeat(1000);
    rejects(&deep, "Parse", "at most 64 nested bodies", None);
}

#[test]
fn ops_are_read_with_their_attributes() {
    assert_eq!(parse_op_text("slice {axis=0, start=1, limit=T+1, step=1}").unwrap().name(), "slice");
    for (text, expected) in [
        ("sine", "the name of an op"),
        ("slice {axis=0}", "the attribute `start`"),
        ("sin {axis=0}", "no attributes: `sin` has none"),
        ("slice {axis=0", "`,` or `}`"),
        ("reverse {axis=[0]}", "not a list"),
        ("scan", "the name of an op"),
    ] {
        let error = parse_op_text(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}
