//! Tests parse errors, and tests programs whose bodies are nested to the maximum depth.

use std::collections::BTreeMap;

use funcify::{Error, Graph, HostTensor, Value, cond, evaluate, fori_loop, scan, while_loop};

/// Returns the text of a program with this single equation.
fn program(equation: &str) -> String {
    format!("fn @f(%x: f32[2,3], %p: bool[2,3], %i: i64[]) {{\n  {equation}\n  return y=%0\n}}\n")
}

#[track_caller]
fn assert_rejected(text: &str, says: &[&str]) {
    let error = Graph::parse(text).expect_err("this is not rejected").to_string();
    says.iter().for_each(|part| assert!(error.contains(part), "{error}\ndoes not say: {part}"));
}

#[test]
fn the_line_is_shown_with_a_caret() {
    let error = Graph::parse(&program("%0: f32[2,3] = tnah %x")).unwrap_err();
    let expected = "parse: the text does not parse
  expected: the name of an op
  found:    `tnah`
  fix:      did you mean `tanh`?
  at:       line 2, column 18
  >   %0: f32[2,3] = tnah %x
                     ^";
    assert_eq!(error.to_string(), expected);
    // The caret points to the correct character: after tabs, in a long line, at the end of a line, and past the last
    // line.
    let line = format!("{}%0: f32[2,3] = tanh %x, %nothing", "\t".repeat(3));
    assert_rejected(&program(&line), &["\n      \t\t\t                        ^"]);
    let long = format!("%0: f32[2,3] = tanh %x {{a=[{}], b=?}}", vec!["1"; 500].join(","));
    let error = Graph::parse(&program(&long)).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    let (shown, caret) = (lines[lines.len() - 2], lines[lines.len() - 1]);
    assert!(shown.len() < 150, "{error}");
    assert_eq!(shown.chars().nth(caret.find('^').unwrap()), Some('?'), "{error}");
    assert_rejected("fn @f(", &["line 1, column 7", "\n  > fn @f(\n          ^"]);
    assert_rejected("", &["line 1, column 1", "\n  > \n    ^"]);
}

#[test]
fn the_file_is_named() {
    let file = std::env::temp_dir().join(format!("funcify-texts-{}.fir", std::process::id()));
    std::fs::write(&file, program("%0: f32[2,3] = tnah %x")).unwrap();
    let error = Graph::read(&file).unwrap_err().to_string();
    assert!(error.contains(&format!("at:       {}:2:18", file.display())), "{error}");
    std::fs::write(&file, program("%0: f32[3,2] = tanh %x")).unwrap();
    let error = Graph::read(&file).unwrap_err().to_string();
    assert!(error.contains(&format!("at:       {}:2:3", file.display())), "{error}");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(Graph::read(&file).unwrap_err().kind(), "File");
}

#[test]
fn a_misspelt_word_is_answered_with_the_nearest() {
    for (equation, nearest) in [
        ("%0: f32[2,3] = tnah %x", "`tanh`"),
        ("%0: f32[2,3] = tahn %x", "`tanh`"),
        ("%0: f32[2,3] = Sin %x", "`sin`"),
        ("%0: f32[3,2] = transpos %x {perm=[1,0]}", "`transpose`"),
        ("%0: f32[2] = reduce %x {kind=summ, axes=[1]}", "`sum`"),
        ("%0: f32[2] = reduce %x {knd=sum, axes=[1]}", "`kind` instead of `knd`"),
        ("%0: f32[2] = reduce %x {kind=sum, axis=[1]}", "`axes` instead of `axis`"),
        ("%0: f64[2,3] = cast %x {dtype=f664}", "`f64`"),
        ("%0: f23[2,3] = sin %x", "`f32`"),
        ("%0: f32[2,3] = cumulative %x {kind=sum, axis=0, direction=forwrad}", "`forward`"),
        ("retrun y=%x", "`return`"),
        ("%0: i64[] = scan {stesp=3} {", "`steps`"),
        ("%0: i64[] = scan {steps=3, order=dwon} {\n    carry %c: i64[] = %0 from %i\n    %0 = %c\n  }", "`down`"),
        ("%0: i64[] = scan {steps=3, truncat=2} {", "`truncate`"),
        (
            "%0: i64[] = scan {steps=3, policy=save_al} {\n    carry %c: i64[] = %0 from %i\n    %0 = %c\n  }",
            "`save_all`",
        ),
        ("%0: i64[] = while %i {\n    tets (%c: i64[]) {", "`test`"),
        ("%0: f32[2,3] = switch %i {\n    csae 0 {", "`case`"),
    ] {
        let error = Graph::parse(&program(equation)).unwrap_err();
        let Error::Parse { fix, .. } = &error else { panic!("{error}") };
        assert!(fix.starts_with("did you mean ") && fix.contains(nearest), "{equation}: {error}");
    }
    // An unknown name gets a suggestion only if it resembles a known one.
    for equation in ["%0: f32[2,3] = convolution_general_dilated %x", "%0: f32[2,3] = sin %x {q=1}"] {
        let error = Graph::parse(&program(equation)).unwrap_err();
        assert!(matches!(&error, Error::Parse { fix, .. } if fix.is_empty()), "{error}");
    }
}

/// For an op name from another library, the error suggests the equivalent funcify op.
#[test]
fn a_name_from_elsewhere_is_answered_with_the_op() {
    for (equation, op) in [
        ("%0: f32[3] = sum %x", "reduce %x {kind=sum, axes=[0]}"),
        ("%0: f32[3] = reduce_sum %x", "reduce %x {kind=sum, axes=[0]}"),
        ("%0: f32[3] = reduce_max %x", "reduce %x {kind=max, axes=[0]}"),
        ("%0: f32[2,3] = cumsum %x", "cumulative %x {kind=sum, axis=0, direction=forward}"),
        ("%0: f32[2,3] = maximum %x, %x", "max %x, %y"),
        ("%0: f32[2,3] = where %p, %x, %x", "select %p, %x, %y"),
    ] {
        assert_rejected(&program(equation), &["expected: the name of an op", &format!("fix:      write `{op}`")]);
    }
}

/// A size symbol that no input binds is rejected in a loop header and in a type, and the error points at the symbol.
#[test]
fn a_size_that_no_input_has_is_marked() {
    let text = |header: &str, size: &str| {
        format!(
            "fn @f(%x: f32[T]) {{
  %z: f32[] = constant 0.0
  %l: f32[] = scan {{steps={header}}} {{
    carry %c: f32[] = %l from %z
    %0: f32[] = add %c, %c
    %l = %0
  }}
  %1: f32[{size}] = iota {{size={size}, dtype=f32}}
  return y=%l, z=%1
}}"
        )
    };
    assert!(Graph::parse(&text("T+1", "2*T")).is_ok());
    let found = "`N`, which has no size: no input has it, and no earlier loop binds it";
    let fix = "add an input with the size `N`, or write a number";
    let header = "%l: f32[] = scan {steps=";
    let caret = |line: &str, column: usize| format!("\n  >   {line}\n    {}^", " ".repeat(column + 2));
    let marked = caret(&format!("{header}N}} {{"), header.len());
    assert_rejected(&text("N", "T"), &["expected: a size of an input: T", found, fix, "line 3, column 27", &marked]);
    assert_rejected(&text("T", "N"), &[found, "line 8, column 11"]);
    let time = |header: &str| text(header, "2").replace("f32[T]", "f32[Time]");
    assert_rejected(
        &time("Tmie"),
        &["`Tmie`, which has no size", "write `Time`, or add an input with the size `Tmie`"],
    );
    assert_rejected(&text("N", "2").replace("f32[T]", "f32[3]"), &["expected: a number: no input has a named size"]);
}

/// If a name lacks its `@`, or the step index is misnamed, the error suggests the correct name.
#[test]
fn a_name_without_its_mark_is_answered_with_it() {
    let loops = "%0: f32[3] = scan @step {steps=2} {
    seq %r: f32[3] = %x[t]
    carry %c: f32[3] = %0 from %c0
    %1: f32[3] = add %c, %r
    %0 = %1
  }";
    let text = program(&format!("%c0: f32[3] = constant [0.0, 0.0, 0.0]\n  {loops}"));
    assert!(Graph::parse(&text).is_ok());
    assert_rejected(
        &text.replace("fn @f(", "fn rnn("),
        &["expected: a name after `@`", "found:    `rnn`", "write `@rnn`"],
    );
    assert_rejected(&text.replace("scan @step {", "scan step {"), &["found:    `step`", "write `@step`"]);
    let number = "write `t`, which is always the name of the step's index";
    assert_rejected(&text.replace("%x[t]", "%x[i]"), &["expected: `t`", "found:    `i`", number, "line 4, column 25"]);
    let choice = "%0: f32[2,3] = switch %i {\n    case 0 left with %x {";
    assert_rejected(&program(choice), &["found:    `left`", "write `@left`"]);
}

/// The maximum nesting depth of bodies.
const MAX_DEPTH: usize = 64;

/// Builds a graph for each kind of loop, and for `cond`, with bodies nested to this depth. Returns the graphs keyed by
/// kind.
fn nests(depth: usize) -> BTreeMap<&'static str, Result<Graph, Error>> {
    type Nest = fn(usize, Value) -> Value;
    fn by_scan(depth: usize, x: Value) -> Value {
        if depth == 0 { x * 1.5 } else { scan(x, x.broadcast_to([1]), |c, _| (by_scan(depth - 1, c), ())).0 }
    }
    fn by_fori(depth: usize, x: Value) -> Value {
        if depth == 0 { x * 1.5 } else { fori_loop(0, 1, x, |_, c| by_fori(depth - 1, c)) }
    }
    fn by_while(depth: usize, x: Value) -> Value {
        if depth == 0 { x * 1.5 } else { while_loop(x, |c: Value| c.lt(1.2), |c| by_while(depth - 1, c)) }
    }
    fn by_cond(depth: usize, x: Value) -> Value {
        if depth == 0 { x * 1.5 } else { cond(x.gt(0.0), || by_cond(depth - 1, x), || x) }
    }
    let nests: [(&str, Nest); 4] = [("scan", by_scan), ("fori", by_fori), ("while", by_while), ("cond", by_cond)];
    nests.map(|(name, nest)| (name, Graph::build(name, |g| nest(depth, g.input("x", "f32[]"))))).into()
}

/// Graphs with the maximum nesting depth can be built, printed, parsed, checked, compared, drawn, run and dropped on a
/// 2 MB stack, the size of a test thread's stack.
#[test]
fn a_nest_that_prints_also_parses() {
    let look = || {
        for depth in [1, 20, MAX_DEPTH] {
            for (name, graph) in nests(depth) {
                let graph = graph.unwrap_or_else(|error| panic!("{name}, {depth}: {error}"));
                let text = graph.to_string();
                let parsed = Graph::parse(&text).unwrap_or_else(|error| panic!("{name}, {depth}: {error}"));
                assert_eq!((parsed.to_string(), graph.difference(&parsed)), (text, None), "{name}, {depth}");
                assert!(parsed.check().is_ok() && !funcify::to_dot(&parsed).is_empty());
                let result = evaluate(&parsed, &[HostTensor::scalar(1f32)]).unwrap();
                assert_eq!(result, [HostTensor::scalar(1.5f32)], "{name}, {depth}");
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(look).unwrap().join().unwrap();
}

/// The builder and the parser reject bodies that are nested too deeply, whether by one level or by many.
#[test]
fn a_nest_that_is_too_deep_is_refused() {
    for depth in [MAX_DEPTH + 1, 3 * MAX_DEPTH] {
        for (name, graph) in nests(depth) {
            let error = graph.expect_err(name);
            assert_eq!(error.kind(), "Type", "{name}: {error}");
            let text = error.to_string();
            assert!(text.contains("the nesting of bodies") && text.contains("at most 64"), "{name}: {text}");
        }
    }
    for (name, graph) in nests(1) {
        let text = graph.unwrap().to_string();
        let head: Vec<&str> = text.lines().take_while(|line| !line.contains("give") && !line.contains("mul")).collect();
        // Repeat the opening lines of the body, to nest it thousands of levels deep.
        let deep = format!("{}\n{}", head[0], head[1..].join("\n").repeat(4_000));
        let error = Graph::parse(&deep).expect_err(name);
        assert!(matches!(error.kind(), "Parse" | "Type" | "Name"), "{name}: {error}");
    }
    let scan = "%l: f32[] = scan {steps=1} {\n    carry %c: f32[] = %l from %x\n";
    let distinct: String = (0..200)
        .map(|depth| {
            let from = if depth == 0 { "x".to_string() } else { format!("c{}", depth - 1) };
            scan.replace("%l", &format!("%l{depth}"))
                .replace("%c", &format!("%c{depth}"))
                .replace("%x", &format!("%{from}"))
        })
        .collect();
    assert_rejected(&format!("fn @f(%x: f32[]) {{\n{distinct}"), &["at most 64 nested", "one more"]);
}

/// Printing and parsing take linear time, even for thousands of values with the same name and a long chain of ops.
#[test]
fn long_programs_are_printed_and_read_in_no_time() {
    let graph = Graph::build("long", |g| (0..5_000).fold(g.input("x", "f32[]"), |x, _| (x + 1.0).named("state")));
    let graph = graph.unwrap();
    let start = std::time::Instant::now();
    let text = graph.to_string();
    assert_eq!(Graph::parse(&text).unwrap().to_string(), text);
    assert!(text.contains("%state_4998: f32[]"));
    // The limit allows for a debug build on a busy machine. Searching all names for each value would take minutes.
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}
