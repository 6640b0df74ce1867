//! Tests limits: 64-bit dimensions, the memory budget, and the use of values outside their thread or graph.

use funcify::dispatch::{CompileOptions, Function, LoopStrategy, Reference};
use funcify::{Builder, DType, Dim, Error, Graph, HostTensor, Value, evaluate, iota, scan, size};

#[track_caller]
fn assert_rejected<T>(result: Result<T, Error>, kind: &str, says: &[&str]) {
    let Err(error) = result else { panic!("this is not rejected") };
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    says.iter().for_each(|part| assert!(text.contains(part), "{text}\ndoes not say: {part}"));
}

#[track_caller]
fn assert_text_rejected(text: &str, kind: &str, says: &[&str]) {
    assert_rejected(Graph::parse(text), kind, says);
}

/// Values that were traced on another thread are rejected.
#[test]
fn a_value_means_nothing_in_another_thread() {
    let leak = |index: usize| {
        let thread = std::thread::spawn(move || {
            let mut leaked = None;
            let _ = Graph::build("a", |g| {
                let inputs = ["x", "secret", "more"].map(|name| g.input(name, "f32[]"));
                leaked = Some(inputs[index]);
                inputs[0]
            });
            leaked.unwrap()
        });
        thread.join().unwrap()
    };
    for index in 0..3 {
        let leaked: Value = leak(index);
        let thread = std::thread::spawn(move || {
            Graph::build("b", |g| {
                let (x, _, _) = (g.input("x", "f32[]"), g.input("other", "f32[]"), g.input("third", "f32[]"));
                x + leaked
            })
        });
        assert_rejected(thread.join().unwrap(), "Escaped", &["operand 1 belongs to another body"]);
    }
    // On the test's own thread, the leaked value is rejected too.
    let leaked = leak(1);
    assert_rejected(Graph::build("c", |g| g.input("x", "f32[]") * leaked), "Escaped", &[]);
}

#[test]
fn a_builder_declares_inputs_of_its_own_graph_only() {
    let mut inner = None;
    let outer = Graph::build("outer", |outer: &Builder| {
        let x = outer.input("x", "f32[]");
        inner = Some(Graph::build("inner", |_| outer.input("y", "f32[]").sin()));
        x.cos()
    });
    let says = ["the builder that declares input `y`", "another `Graph::build`", "fix:", "limits.rs"];
    assert_rejected(inner.unwrap(), "Escaped", &says);
    // The failed inner build did not change the outer graph.
    let outer = outer.unwrap();
    assert_eq!((outer.inputs().len(), outer.nodes().len()), (1, 1));

    let inner = |outer: &Builder| Graph::build("inner", |_| outer.static_input("n", DType::I64)).map(|_| ());
    let mut result = Ok(());
    let _ = Graph::build("outer", |g| {
        result = inner(g);
        g.input("x", "f32[]")
    });
    assert_rejected(result, "Escaped", &["input `n`"]);
}

#[test]
fn dimensions_beyond_64_bits_are_refused_where_they_are_written() {
    for dim in ["4294967296*4294967296", "9223372036854775808", "T*9223372036854775807+T", "-9223372036854775809", "-3"]
    {
        let text = format!("fn @f(%x: f32[{dim}]) {{\n  return x=%x\n}}");
        assert_text_rejected(&text, "Parse", &["line 1, column"]);
        let built = Graph::build("f", |g| g.input("x", format!("f32[{dim}]").as_str()));
        assert_rejected(built, "Type", &["the type of input `x`"]);
    }
    let huge = || Dim::from("T") * (1i64 << 40);
    let build = |program: &dyn Fn(Value) -> Value| Graph::build("f", |g| program(g.input("x", "f32[T]")));
    assert_rejected(
        build(&|x| x.broadcast_to([huge() * huge(), Dim::from("T")])),
        "Type",
        &["broadcast", "64 bits", "fix:"],
    );
    assert_rejected(build(&|_| size(huge() * huge(), DType::I64)), "Type", &["attribute `dim`"]);
    assert_rejected(build(&|_| iota(Dim::from(usize::MAX), DType::I64)), "Type", &["iota", "64 bits"]);
    assert_rejected(build(&|_| iota(Dim::from(-1), DType::I64)), "Type", &[]);
    let wide = |x: Value| x.broadcast_to([huge() * 4, Dim::from("T")]);
    assert!(build(&|x| wide(x).reshape([Dim::from("T"), huge() * 4])).is_ok());
    let big = Graph::build("f", |g| g.input("x", "f32[1099511627776,1099511627776]").reshape([1i64 << 41, 1 << 39]));
    assert_rejected(big, "Type", &["reshape", "beyond 64 bits"]);
}

#[test]
fn attributes_at_the_ends_of_their_range() {
    let op = |line: &str| format!("fn @f(%x: f32[T], %y: f32[5], %z: f32[]) {{\n  {line}\n  return y=%0\n}}");
    let slice = op("%0: f32[T] = slice %x {axis=0, start=0, limit=T-9223372036854775808, step=1}");
    assert_text_rejected(&slice, "Type", &["slice"]);
    let pad = "%0: f32[7] = pad %y, %z {axis=0, low=2, high=0, interior=9223372036854775807}";
    assert_text_rejected(&op(pad), "Type", &["pad", "64 bits"]);
    let pad = "%0: f32[7] = pad %x, %z {axis=0, low=9223372036854775807, high=9223372036854775807, interior=0}";
    assert_text_rejected(&op(pad), "Type", &["pad", "64 bits"]);
}

/// Parses a polynomial of thousands of terms, which must not take quadratic time.
#[test]
fn long_polynomials_are_read_in_no_time() {
    let sum: Vec<String> = (0..6_000).map(|index| format!("{index}*a{}*b{}", index % 977, index % 641)).collect();
    let product = vec!["T"; 6_000].join("*");
    for dim in [sum.join("+"), product] {
        let start = std::time::Instant::now();
        let graph = Graph::parse(&format!("fn @f(%x: f32[{dim}]) {{\n  return x=%x\n}}")).unwrap();
        assert_eq!(Graph::parse(&graph.to_string()).unwrap().to_string(), graph.to_string());
        // The limit allows for a debug build on a busy machine. A quadratic parser would take minutes.
        assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
    }
}

#[test]
fn tensors_have_as_many_elements_as_memory_can_hold() {
    assert!(HostTensor::from_vec(Vec::<f32>::new(), [1 << 32, 1 << 32]).is_none());
    assert!(HostTensor::from_vec(Vec::<f32>::new(), [1 << 32, 1 << 32, 0]).is_none());
    assert!(HostTensor::from_vec(vec![0f32], [usize::MAX, usize::MAX]).is_none());
    assert!(HostTensor::from_vec(Vec::<f32>::new(), [1 << 32, 0]).is_some());
    assert!(HostTensor::from([0f32; 4]).reshaped([usize::MAX / 2 + 1, 8]).is_none());
}

/// Rows without elements count towards the memory budget, because the reference evaluator stores a list entry and a
/// stride for each of the 2^50 rows.
#[test]
fn rows_without_elements_are_held_against_the_budget() {
    let text = "fn @f(%x: f32[0]) {
  %0: f32[1125899906842624,0] = broadcast %x {shape=[1125899906842624,0]}
  return y=%0
}";
    let nothing = HostTensor::zeros(DType::F32, &[0]);
    assert_rejected(evaluate(&Graph::parse(text).unwrap(), &[nothing]), "OverBudget", &["1125899906842624"]);
}

/// Builds a loop of N steps that returns N rows of T elements each.
fn rows() -> Graph {
    let graph = Graph::build("rows", |g| {
        let (x, n) = (g.input("x", "f64[T]"), g.input("n", "f64[N]"));
        let (last, ys) = scan(x, n, |sum, n| (sum + n, sum * n));
        (last, ys)
    });
    graph.unwrap()
}

/// A call succeeds if its function has a sufficient memory budget, and is rejected if the budget is too small.
#[test]
fn a_function_has_a_budget_of_its_own() {
    let arguments = [HostTensor::from([1f64; 64]), HostTensor::from([2f64; 32])];
    let expected = evaluate(&rows(), &arguments).unwrap();
    for strategy in [LoopStrategy::Native, LoopStrategy::Unroll] {
        let call = |memory_budget| {
            let options = CompileOptions { strategy, memory_budget, rewrites: None, ..CompileOptions::default() };
            Function::compile_with(&rows(), &Reference, options).unwrap().call_host(&arguments)
        };
        assert_eq!(call(None).unwrap(), expected);
        assert_eq!(call(Some(1 << 20)).unwrap(), expected);
        let says = ["would exceed the memory budget", "needed:", "budget:   10.0 KiB", "fix:", "limits.rs"];
        assert_rejected(call(Some(10 << 10)), "OverBudget", &says);
        // A single threshold separates the budgets that are too small from those that are sufficient.
        let first = (1..64).find(|step| call(Some(step * 2048)).is_ok()).unwrap() * 2048;
        assert!((32 * 64 * 8..64 * 2048).contains(&first), "{first}");
        assert!((first / 2048..64).all(|step| call(Some(step * 2048)).is_ok()));
    }
}

/// The arguments of a call count towards the budget, even if the results are small.
#[test]
fn arguments_are_held_against_the_budget() {
    let graph = Graph::build("sum", |g| (g.input("x", "f64[T]").sum(0), g.input("y", "f64[T]").max(0))).unwrap();
    let arguments = [HostTensor::from([1f64; 1000]), HostTensor::from([2f64; 1000])];
    let bytes = |elements: u64| elements * funcify::dispatch::Backend::element_bytes(&Reference, DType::F64) as u64;
    for strategy in [LoopStrategy::Native, LoopStrategy::Unroll] {
        let call = |budget| {
            let options = CompileOptions { strategy, memory_budget: Some(budget), ..CompileOptions::default() };
            Function::compile_with(&graph, &Reference, options).unwrap().call_host(&arguments)
        };
        assert_rejected(call(bytes(1999)), "OverBudget", &["budget:", "in use", "limits.rs"]);
        assert_rejected(call(bytes(1000)), "OverBudget", &[]);
        assert_eq!(call(bytes(2100)).unwrap(), [HostTensor::scalar(1000f64), HostTensor::scalar(2f64)]);
    }
}

/// The size of the result depends on data. After a call exceeds the budget, a call of the same function with a smaller
/// result still succeeds.
#[test]
fn a_refusal_leaves_the_function_as_it_was() {
    let text = "fn @f(%s: f32[], %n: i64[]) {
  %ys: f32[$1] = scan @b %n {steps=$1} with %s {
    nit-sot %ys
    %0: f32[] = add %s, %s
    %ys[t] = %0
  }
  %1: f32[$1] = neg %ys
  return y=%1
}";
    let graph = Graph::parse(text).unwrap();
    let options = CompileOptions { memory_budget: Some(1 << 16), ..CompileOptions::default() };
    let function = Function::compile_with(&graph, &Reference, options).unwrap();
    let call = |n: i64| function.call_host(&[HostTensor::scalar(1f32), HostTensor::scalar(n)]);
    for _ in 0..2 {
        assert_eq!(call(3).unwrap(), [HostTensor::from([-2f32; 3])]);
        assert_rejected(call(1 << 20), "OverBudget", &["f32[$1]", "1048576 steps", "64.0 KiB"]);
        assert_rejected(call(i64::MAX), "OverBudget", &[]);
        assert_rejected(call(-1), "StepCount", &[]);
    }
    let many = [HostTensor::scalar(1f32), HostTensor::scalar(1i64 << 50)];
    assert_rejected(evaluate(&graph, &many), "OverBudget", &["rows of f32[]"]);
}

/// If an unrolled loop has no steps, the values computed for it are unused, but still count towards the budget while
/// they are computed.
#[test]
fn what_nobody_uses_is_held_against_the_budget_while_it_is_made() {
    let text = "fn @f(%xs: i64[T]) {
  %0: i64[1048576] = iota {size=1048576, dtype=i64}
  %ys: i64[T] = scan @b {steps=T} with %0 {
    seq %x: i64[] = %xs[t]
    nit-sot %ys
    %1: i64[] = take %0, %x {axis=0}
    %ys[t] = %1
  }
  return ys=%ys
}";
    let graph = Graph::parse(text).unwrap();
    for strategy in [LoopStrategy::Unroll, LoopStrategy::Native] {
        for xs in [vec![], vec![7i64]] {
            let options = CompileOptions { strategy, memory_budget: Some(1 << 20), ..CompileOptions::default() };
            let xs = HostTensor::from_vec(xs.clone(), [xs.len()]).unwrap();
            let results = Function::compile_with(&graph, &Reference, options).unwrap().call_host(&[xs]);
            assert_rejected(results, "OverBudget", &["i64[1048576]"]);
        }
    }
}

/// For a loop with early exit, only the rows collected so far count towards the budget.
#[test]
fn loops_that_end_early_are_held_to_the_rows_that_they_have() {
    let text = |limit: &str| {
        format!(
            "fn @f(%s: f32[]) {{
  %limit: f32[] = constant {limit}
  %ys: f32[$1], %last: f32[] = scan @b {{steps=1099511627776, until=$1}} with %limit {{
    nit-sot %ys
    carry %c: f32[] = %last from %s
    %0: f32[] = add %c, %c
    %1: bool[] = gt %0, %limit
    %ys[t] = %0
    %last = %0
    until %1
  }}
  return y=%ys
}}"
        )
    };
    let options = CompileOptions { memory_budget: Some(1 << 14), ..CompileOptions::default() };
    let call = |limit: &str| {
        let graph = Graph::parse(&text(limit)).unwrap();
        Function::compile_with(&graph, &Reference, options.clone()).unwrap().call_host(&[HostTensor::scalar(1f32)])
    };
    assert_eq!(call("7.0").unwrap(), [HostTensor::from([2f32, 4., 8.])]);
    assert_rejected(call("inf"), "OverBudget", &["the traces of"]);
    let graph = Graph::parse(&text("7.0")).unwrap();
    assert_eq!(evaluate(&graph, &[HostTensor::scalar(1f32)]).unwrap(), [HostTensor::from([2f32, 4., 8.])]);
}

/// Every step of an unrolled loop counts towards the limits, even a step that does nothing.
#[test]
fn unrolling_is_limited_by_steps_and_by_rows() {
    // Rewrites are disabled, because they would remove the loops.
    let options = || CompileOptions { strategy: LoopStrategy::Unroll, rewrites: None, ..CompileOptions::default() };
    let idle = "fn @f(%s: f32[]) {
  %last: f32[] = scan @b {steps=1099511627776} {
    carry %c: f32[] = %last from %s
    %last = %c
  }
  return y=%last
}";
    let call = |text: &str| {
        let function = Function::compile_with(&Graph::parse(text).unwrap(), &Reference, options())?;
        function.call_host(&[HostTensor::scalar(1f32)])
    };
    assert_rejected(call(idle), "ProgramTooLarge", &["1099511627776"]);
    let full = "fn @f(%s: f32[]) {
  %0: f32[1125899906842624] = broadcast %s {shape=[1125899906842624]}
  %rows: f32[1125899906842624] = scan @b {steps=2} with %s {
    mit-mot %rows from %0
    %1: f32[] = neg %s
    %rows[t] = %1
  }
  return y=%rows
}";
    assert_rejected(call(full), "OverBudget", &[]);
}
