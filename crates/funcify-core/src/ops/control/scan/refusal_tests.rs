//! Tests that loops in text form are rejected if their taps, rows or bound symbols are invalid.

use crate::{Error, Graph, HostTensor, evaluate};

/// Parses and checks a graph in text form, and returns the first error.
#[track_caller]
fn refused(text: &str) -> String {
    let error = match Graph::parse(text) {
        Err(error) => error,
        Ok(graph) => graph.check().expect_err("the graph is rejected").swap_remove(0),
    };
    error.to_string()
}

#[track_caller]
fn says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{error}\ndoes not say: {part}");
    }
}

/// Returns the text of a function with a loop over a buffer. `header` is the text between `%rows: f32[` and the `{` of
/// the loop, `reads` is the line that declares the buffer, and `writes` are the written taps.
fn buffer(header: &str, reads: &str, writes: &[&str]) -> String {
    let writes: Vec<String> = writes.iter().map(|write| format!("%m[{write}] = %0")).collect();
    format!(
        "fn @f(%rows: f32[{header} {{
           {reads}
           %0: f32[] = neg %old
           {}
         }}
         return y=%m
       }}",
        writes.join("\n")
    )
}

#[test]
fn c5_a_downward_loop_does_not_read_the_row_that_it_writes() {
    let text = |tap: &str| {
        let old = format!("sit-sot %old: f32[] = %m[{tap}] from %rows");
        buffer("1]) {\n%m: f32[T+1] = scan @s {steps=T, order=down}", &old, &["t"])
            .replace("%rows: f32[1]", "%rows: f32[1], %xs: f32[T]")
    };
    let sound = text("t+1");
    assert!(Graph::parse(&sound).is_ok(), "{:?}", Graph::parse(&sound));
    says(&refused(&text("t")), &["a row is read only after it was given or written"]);
}

#[test]
fn c5_a_row_is_written_once() {
    let text = |writes: &[&str]| {
        buffer("T]) {\n%m: f32[T] = scan @s {steps=T-1}", "mit-mot %old: f32[] = %m[t] from %rows", writes)
    };
    assert!(Graph::parse(&text(&["t", "t+1"])).is_ok(), "{:?}", Graph::parse(&text(&["t", "t+1"])));
    says(&refused(&text(&["t", "t"])), &["a tap is listed once"]);
}

/// The text of a function with a loop that has an early exit and returns its last two rows.
const LAST: &str = "fn @f(%xs: f32[T]) {
  %ys: f32[2] last 2 = scan @s {steps=T, until=$1} {
    seq %x: f32[] = %xs[t]
    nit-sot %ys
    %0: f32[] = constant 1.0
    %1: bool[] = gt %x, %0
    %ys[t] = %x
    until %1
  }
  return ys=%ys
}";

#[test]
fn c7_a_loop_has_the_rows_that_are_wanted() {
    let graph = Graph::parse(LAST).unwrap();
    let run = |xs: [f32; 3]| evaluate(&graph, &[HostTensor::from(xs)]);
    assert_eq!(run([0.5, 2.0, 3.0]).unwrap()[0], HostTensor::from([0.5f32, 2.0]));
    let error = run([2.0, 0.5, 3.0]).unwrap_err();
    assert!(matches!(error, Error::Rows { .. }), "{error}");
    says(&error.to_string(), &["2 rows, the last ones that are returned", "1 rows"]);
    says(&refused(&LAST.replace("    until %1\n", "").replace("{steps=T, until=$1}", "{steps=1}")), &["2 rows"]);
}

#[test]
fn c6_the_number_of_steps_that_ran_has_no_size_in_the_body() {
    let inside = LAST.replace("last 2 = scan", "= scan").replace("%ys: f32[2]", "%ys: f32[$1]").replace(
        "%0: f32[] = constant 1.0",
        "%2: f32[SYMBOL] = iota {size=SYMBOL, dtype=f32}\n%0: f32[] = reduce %2 {kind=sum, axes=[0]}",
    );
    assert!(Graph::parse(&inside.replace("SYMBOL", "T")).is_ok());
    says(&refused(&inside.replace("SYMBOL", "$1")), &["`$1`, which has no size"]);
}

#[test]
fn the_bound_of_a_while_has_a_size() {
    let text = |bound: &str| {
        format!(
            "fn @f(%x: f32[], %xs: f32[T]) {{
               %y: f32[] = while %x {{bound={bound}}} {{
                 test (%c: f32[]) {{
                   %0: f32[] = constant 9.0
                   %1: bool[] = lt %c, %0
                   give %1
                 }}
                 step (%d: f32[]) {{
                   %2: f32[] = add %d, %d
                   give %2
                 }}
               }}
               return y=%y
             }}"
        )
    };
    assert!(Graph::parse(&text("T+1")).unwrap().check().is_ok());
    says(&refused(&text("N")), &["`N`, which has no size", "while %x {bound=N} {"]);
}
