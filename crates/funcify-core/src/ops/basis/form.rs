//! The text form of ops with bodies. Each op describes its syntax; a single printer and a single parser handle all ops.
//!
//! An op has a [`Spelling`], which holds the keywords, and a [`Form`], which holds the contents of its text.
//! [`Spelling::make`] builds the op from a parsed form. In an inline body ([`Bodies::Inline`]), lines connect each
//! parameter of the body to an operand or a result of the op.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Result, Site};
use crate::graph::{Graph, ValueId};
use crate::ops::{AssociativeScan, Attribute, Attributes, Call, Op, Scan, Switch, While};
use crate::types::{Dim, TensorType};

/// The text-form syntax of an op with bodies.
pub(crate) struct Spelling {
    pub(crate) name: &'static str,
    /// An example of the first line of the op's text, for error messages.
    pub(crate) example: &'static str,
    /// The keys of the attributes that the op may have.
    pub(crate) attributes: &'static [&'static str],
    pub(crate) bodies: Bodies,
    /// Builds the op and its list of operands from a parsed form. Errors point to the invalid part of the text.
    pub(crate) make: Make,
}

type Make = fn(&mut Form, &Reading<'_>) -> Result<(Op, Vec<ValueId>)>;

/// The syntax of an op's bodies.
pub(crate) enum Bodies {
    /// Blocks with these names, in this order.
    Named(&'static [&'static str]),
    /// Any number of blocks, each named by a word and an index, such as `case 0` and `case 1`.
    Numbered(&'static str),
    /// A single body, written directly in the braces of the op.
    Inline {
        /// The keywords, such as `seq` and `nit-sot`, that begin a line of parameters.
        roles: &'static [&'static str],
        /// The keyword that introduces the body's unwritten results: those not written to any result of the op.
        result_keyword: &'static str,
    },
}

/// The spellings of all ops with bodies: one for each op in `Op::bodied`, except that a call has one for each kind of
/// rule.
const SPELLINGS: [&Spelling; 7] = [
    &Scan::SPELLING,
    &Switch::SPELLING,
    &While::SPELLING,
    &AssociativeScan::SPELLING,
    &Call::VJP_SPELLING,
    &Call::JVP_SPELLING,
    &Call::ITSELF_SPELLING,
];

impl Spelling {
    /// Returns the spelling of the op called `name`, or `None` if no op with bodies has this name.
    pub(crate) fn of(name: &str) -> Option<&'static Spelling> {
        let all = SPELLINGS.into_iter();
        #[cfg(test)]
        let all = all.chain(tests::SPELLINGS);
        all.into_iter().find(|spelling| spelling.name == name)
    }

    /// Returns the keywords that begin lines of parameters, or an empty slice if the bodies are blocks.
    pub(crate) fn roles(&self) -> &'static [&'static str] {
        if let Bodies::Inline { roles, .. } = self.bodies { roles } else { &[] }
    }

    /// Returns the keyword that introduces a body's unwritten results: `give` in a block, or the keyword of the inline
    /// body.
    pub(crate) fn result_keyword(&self) -> &'static str {
        if let Bodies::Inline { result_keyword, .. } = self.bodies { result_keyword } else { "give" }
    }

    /// Returns `true` if the op's single body is written directly in its braces.
    pub(crate) fn has_inline_body(&self) -> bool {
        matches!(self.bodies, Bodies::Inline { .. })
    }

    /// Returns the name of a body. The name is empty if the body is written directly in the op's braces, or if there is
    /// no body with this index.
    pub(crate) fn body_name(&self, number: usize) -> String {
        match &self.bodies {
            Bodies::Named(names) => names.get(number).copied().unwrap_or("").to_string(),
            Bodies::Numbered(word) => format!("{word} {number}"),
            Bodies::Inline { .. } => String::new(),
        }
    }
}

/// The contents of the text of an op with bodies: `NAME operands {attributes} { bodies }`.
pub(crate) struct Form {
    pub(crate) spelling: &'static Spelling,
    /// The position of the op's name in the text.
    pub(crate) site: Site,
    /// The operands written after the name.
    pub(crate) operands: Vec<ValueId>,
    pub(crate) attributes: Attributes,
    /// For each printed result, `k` if the op returns only the last `k` rows in step order, or `None` if it returns all
    /// rows. A missing entry means `None`.
    pub(crate) last: Vec<Option<usize>>,
    pub(crate) bodies: Vec<FormBody>,
}

/// A body: `NAME (params) with captured { lines, equations, writes, unwritten results }`.
pub(crate) struct FormBody {
    /// The graph of the body. For an inline body, the parser creates a graph without outputs.
    pub(crate) graph: Arc<Graph>,
    /// The number of parameters in parentheses. These parameters come first, followed by the parameters that the lines
    /// declare, and then by the captured values.
    pub(crate) params: usize,
    /// The lines that declare parameters. Only an inline body has lines.
    pub(crate) lines: Vec<Line>,
    pub(crate) captured: Vec<ValueId>,
    /// The results of the body that are written to results of the op.
    pub(crate) writes: Vec<Write>,
    /// The results of the body that are not written to any result of the op.
    pub(crate) unwritten_results: Vec<ValueId>,
    pub(crate) end: Site,
}

/// A line that declares parameters: `seq %a: f32[], %b: f32[] = %xs[t], %xs[t+1]`, or `carry %c: f32[] = %last from
/// %init`.
pub(crate) struct Line {
    pub(crate) role: &'static str,
    pub(crate) site: Site,
    pub(crate) source: Source,
    /// The name of the source as written in the text, and its position there.
    pub(crate) named: (String, Site),
    /// A tap for each parameter.
    pub(crate) taps: Vec<Tap>,
    pub(crate) from: Option<ValueId>,
}

/// The operand or result to which a line connects its parameters.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    Operand(ValueId),
    Result(usize),
}

/// An optional tap, such as `[t+1]`.
#[derive(Clone, Copy)]
pub(crate) struct Tap {
    /// The offset from the index of the step, or `None` if the text has no tap.
    pub(crate) row: Option<i64>,
    pub(crate) site: Site,
}

impl Line {
    /// Creates a line for the printer.
    pub(crate) fn new(
        role: &'static str,
        source: Source,
        taps: impl IntoIterator<Item = Option<i64>>,
        from: Option<ValueId>,
    ) -> Self {
        let taps = taps.into_iter().map(|row| Tap { row, site: Site::Unknown }).collect();
        Line { role, site: Site::Unknown, source, named: (String::new(), Site::Unknown), taps, from }
    }
}

/// A value that each step writes to a result of the op, such as `%ys[t] = %0`.
pub(crate) struct Write {
    pub(crate) result: usize,
    pub(crate) site: Site,
    pub(crate) tap: Tap,
    pub(crate) value: ValueId,
}

/// The name and type of a result, on the left-hand side of an equation.
pub(crate) struct Binder {
    pub(crate) name: String,
    pub(crate) site: Site,
    pub(crate) ty: TensorType,
    /// `k` if the op returns only the last `k` rows in step order, or `None` if it returns all rows.
    pub(crate) last: Option<usize>,
}

/// The context in which a form is parsed.
pub(crate) struct Reading<'a> {
    /// The graph that contains the op.
    pub(crate) graph: &'a Graph,
    /// The names and types of the op's results.
    pub(crate) results: &'a [Binder],
    /// The spelling of each enclosing op, with the bodies parsed so far.
    pub(crate) around: &'a [(&'static Spelling, Vec<FormBody>)],
}

/// Returns the value at an index. If a malformed graph has no such value, returns a value that prints as `%?`.
pub(crate) fn value_at(values: &[ValueId], index: usize) -> ValueId {
    values.get(index).copied().unwrap_or(ValueId::new(u32::MAX as usize))
}

/// Returns a range of the operands. If a malformed graph has too few operands, returns an empty slice.
pub(crate) fn values_at(operands: &[ValueId], places: Range<usize>) -> &[ValueId] {
    operands.get(places).unwrap_or(&[])
}

impl Write {
    /// Creates a write for the printer.
    pub(crate) fn new(result: usize, row: Option<i64>, value: ValueId) -> Self {
        Write { result, site: Site::Unknown, tap: Tap { row, site: Site::Unknown }, value }
    }
}

impl Form {
    /// Creates a form for the printer.
    pub(crate) fn new(spelling: &'static Spelling, operands: &[ValueId], bodies: Vec<FormBody>) -> Self {
        let (site, operands) = (Site::Unknown, operands.to_vec());
        Form { spelling, site, operands, attributes: Attributes::new(), last: Vec::new(), bodies }
    }

    /// Calls `take`, which removes attributes and returns the value read from them. Errors point to the op in the text.
    pub(crate) fn read<T>(&mut self, take: impl FnOnce(&mut Attributes) -> Result<T, String>) -> Result<T> {
        take(&mut self.attributes)
            .map_err(|expected| self.attributes.rejection(self.site, self.spelling.name, expected))
    }

    /// Returns the operands, followed by the captured values of each body.
    pub(crate) fn all_operands(&self) -> Vec<ValueId> {
        let captured = self.bodies.iter().flat_map(|body| &body.captured);
        self.operands.iter().chain(captured).copied().collect()
    }

    /// Returns the graphs of the bodies.
    pub(crate) fn graphs(&self) -> Vec<Arc<Graph>> {
        self.bodies.iter().map(|body| body.graph.clone()).collect()
    }

    /// Returns the graphs of the blocks that are listed in the op's [`Spelling`].
    pub(crate) fn blocks<const N: usize>(&self) -> [Arc<Graph>; N] {
        self.graphs().try_into().expect("the parser reads a block for each name of the spelling")
    }

    /// Adds the attribute `key` if `value` is not `None`.
    pub(crate) fn set(&mut self, key: &str, value: Option<impl Into<Dim>>) {
        if let Some(value) = value {
            self.attributes.push(key.to_string(), Attribute::Dim(value.into()));
        }
    }

    /// Adds the attribute `order=down` if the steps run in reverse order.
    pub(crate) fn set_order(&mut self, reverse: bool) {
        self.set("order", reverse.then_some("down"));
    }

    /// Removes the `order` attribute, and returns `true` if the steps run in reverse order.
    pub(crate) fn take_order(&mut self) -> Result<bool> {
        self.read(|attributes| match attributes.take_if_given("order", Attributes::take_word)?.as_deref() {
            None | Some("up") => Ok(false),
            Some("down") => Ok(true),
            Some(word) => Err(format!("`order` as one of up, down, not `{word}`")),
        })
    }
}

impl FormBody {
    /// Creates a block for the printer. The first `params` inputs of the graph are printed in parentheses.
    pub(crate) fn block(graph: &Arc<Graph>, params: usize, captured: &[ValueId]) -> Self {
        let unwritten_results = graph.outputs().iter().map(|output| output.value).collect();
        let (lines, writes, end) = (Vec::new(), Vec::new(), Site::Unknown);
        FormBody { graph: graph.clone(), params, lines, captured: captured.to_vec(), writes, unwritten_results, end }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bodies, Spelling};
    use crate::graph::print::print_as;
    use crate::ops::{Scan, While};
    use crate::{Error, Graph};

    pub(in crate::ops) const SPELLINGS: [&Spelling; 2] = [&REPEAT, &SWEEP];

    /// The spelling of a test op with two blocks.
    const REPEAT: Spelling = Spelling {
        name: "repeat",
        example: "repeat %x {bound=20} {",
        attributes: &["bound"],
        bodies: Bodies::Named(&["check", "advance"]),
        make: |form, _| {
            let bound = form.read(|attributes| attributes.take_dim("bound").map(Some))?;
            let [condition, body] = form.blocks();
            Ok((While { condition, body, bound }.into(), form.all_operands()))
        },
    };

    /// The spelling of a test op with an inline body and three kinds of parameter lines.
    const SWEEP: Spelling = Spelling {
        name: "sweep",
        example: "sweep {steps=T} {",
        attributes: &["steps", "until"],
        bodies: Bodies::Inline { roles: &["seq", "sit-sot", "carry"], result_keyword: "stop" },
        make: Scan::SPELLING.make,
    };

    const REPEATED: &str = "\
fn @f(%x: f32[], %limit: f32[]) {
  %y: f32[] = repeat %x {bound=20} {
    check (%c: f32[]) with %limit {
      %0: bool[] = lt %c, %limit
      give %0
    }
    advance @next (%d: f32[]) {
      %1: f32[] = add %d, %d
      give %1
    }
  }
  return y=%y
}
";

    const SWEPT: &str = "\
fn @f(%xs: f32[T], %x: f32[], %rows: f32[1]) {
  %ys: f32[$1+1], %y: f32[] = sweep @step {steps=T, until=$1} with %x {
    seq %a: f32[] = %xs[t]
    sit-sot %b: f32[] = %ys[t-1] from %rows
    carry %c: f32[] = %y from %x
    %0: f32[] = add %a, %b
    %1: bool[] = gt %0, %x
    %ys[t] = %0
    %y = %c
    stop %1
  }
  return ys=%ys, y=%y
}
";

    /// Checks that an op with bodies can be printed and parsed using only its spelling.
    #[test]
    fn described_ops_print_and_parse() {
        for (text, spelling, op) in
            [(REPEATED, &REPEAT, "while %x {bound=20} {"), (SWEPT, &SWEEP, "scan @step {steps=T")]
        {
            let graph = Graph::parse(text).unwrap();
            assert_eq!(print_as(&graph, spelling), text);
            assert!(graph.to_string().contains(op), "{graph}");
            assert_eq!(Graph::parse(&graph.to_string()).unwrap().difference(&graph), None);
        }
    }

    /// Checks that parse errors of an op with a [`Spelling`] mention its keywords and point to the right position.
    #[test]
    fn described_ops_are_refused_in_their_words() {
        let refused = |text: &str, old: &str, new: &str, says: &[&str]| {
            assert!(text.contains(old), "{old}");
            let error: Error = Graph::parse(&text.replace(old, new)).expect_err(new);
            says.iter().for_each(|part| assert!(error.to_string().contains(part), "{error}\ndoes not say: {part}"));
        };
        refused(
            REPEATED,
            "check",
            "chekc",
            &["expected: `check`", "did you mean `check`?", "  >     chekc (%c", "line 3, column 5"],
        );
        refused(REPEATED, "(%d: f32[]) {", "(%d: f32[])", &["expected: `{`", "line 7, column 30"]);
        let block = &REPEATED[REPEATED.find("    advance").unwrap()..REPEATED.find("  }\n  return").unwrap()];
        refused(REPEATED, block, "", &["expected: `advance`", "found:    `}`", "line 7, column 3"]);
        let attributes = "only the attributes of `repeat`: bound";
        refused(REPEATED, "bound=20", "bound=20, buond=3", &[attributes, "did you mean `bound`", "line 2, column 15"]);
        refused(REPEATED, " {bound=20}", "", &["the attribute `bound`", "found:    `repeat` without it"]);
        refused(REPEATED, "bound=20", "bound=[2]", &["`bound` as one number, not a list", "line 2, column 15"]);
        refused(REPEATED, "repeat %x {", "repeat %x times {", &["write as in `repeat %x {bound=20} {`", "column 25"]);
        refused(REPEATED, "(%d: f32[])", "(%d: f32[], %e: f32[])", &["the operand list", "line 2, column 15"]);
        refused(REPEATED, "(%c: f32[])", "(%c: f64[])", &["f64[]", "line 4"]);
        refused(SWEPT, "stop %1", "until %1", &["a write such as", "line 10, column 5"]);
        refused(SWEPT, "seq %a", "sqe %a", &["expected: the name of an op", "line 3, column 5"]);
    }
}
