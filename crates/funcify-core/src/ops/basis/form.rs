//! The text form of ops with bodies: what each describes, from which one printer and one parser do the rest.
//!
//! An op has a [`Spelling`], the words of its text, and gives a [`Form`], what stands in it; from a form that was read,
//! [`Spelling::make`] makes the op. Lines of [`Spelling::bodies`] say which operand or result each parameter of a body follows.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Result, Site};
use crate::graph::{Graph, ValueId};
use crate::ops::{AssociativeScan, Attribute, Attributes, Call, Op, Scan, Switch, While};
use crate::types::{Dim, TensorType};

/// The words of an op with bodies.
pub(crate) struct Spelling {
    pub(crate) name: &'static str,
    /// Shows how its first line is written, in errors.
    pub(crate) example: &'static str,
    /// The keys of the attributes that it may have.
    pub(crate) attributes: &'static [&'static str],
    pub(crate) bodies: Bodies,
    /// Makes the op and the list of its operands. The errors have places in the text.
    pub(crate) make: Make,
}

/// Makes an op and the list of its operands of what was read.
type Make = fn(&mut Form, &Reading<'_>) -> Result<(Op, Vec<ValueId>)>;

/// Which bodies an op has.
pub(crate) enum Bodies {
    /// A block for each of these names, in this order.
    Named(&'static [&'static str]),
    /// Any number of blocks: `case 0`, `case 1`.
    Numbered(&'static str),
    /// One, which stands in the braces of the op.
    Own {
        /// The words that begin lines about its parameters: `seq`, `nit-sot`.
        roles: &'static [&'static str],
        /// The word before the results that are written nowhere.
        gives: &'static str,
    },
}

/// All of them. `Op::bodied` says that an op has bodies.
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
    /// The spelling of the op of that name.
    pub(crate) fn of(name: &str) -> Option<&'static Spelling> {
        let all = SPELLINGS.into_iter();
        #[cfg(test)]
        let all = all.chain(tests::SPELLINGS);
        all.into_iter().find(|spelling| spelling.name == name)
    }

    /// The words that begin lines about parameters.
    pub(crate) fn roles(&self) -> &'static [&'static str] {
        if let Bodies::Own { roles, .. } = self.bodies { roles } else { &[] }
    }

    /// The word before the results of a body that are written nowhere.
    pub(crate) fn gives(&self) -> &'static str {
        if let Bodies::Own { gives, .. } = self.bodies { gives } else { "give" }
    }

    /// Whether its one body stands in its braces.
    pub(crate) fn is_own_body(&self) -> bool {
        matches!(self.bodies, Bodies::Own { .. })
    }

    /// The name of a body; none of what is the op's own, or beyond the last.
    pub(crate) fn body_name(&self, number: usize) -> String {
        match &self.bodies {
            Bodies::Named(names) => names.get(number).copied().unwrap_or("").to_string(),
            Bodies::Numbered(word) => format!("{word} {number}"),
            Bodies::Own { .. } => String::new(),
        }
    }
}

/// What stands in the text of an op with bodies: `NAME operands {attributes} { bodies }`.
pub(crate) struct Form {
    pub(crate) spelling: &'static Spelling,
    /// Where its name stands.
    pub(crate) site: Site,
    /// The operands that stand after the name.
    pub(crate) operands: Vec<ValueId>,
    pub(crate) attributes: Attributes,
    /// Of each result that is printed, how many of the last rows are wanted; all if there is no entry.
    pub(crate) last: Vec<Option<usize>>,
    pub(crate) bodies: Vec<FormBody>,
}

/// A body: `NAME (params) with captured { lines, equations, what is written, what is given }`.
pub(crate) struct FormBody {
    /// Its graph. If it was read, only a block has outputs already.
    pub(crate) graph: Arc<Graph>,
    /// How many parameters stand in parentheses. Then come those of the lines, and those that are captured.
    pub(crate) params: usize,
    /// What the other parameters follow.
    pub(crate) lines: Vec<Line>,
    pub(crate) captured: Vec<ValueId>,
    /// The results that are written to results of the op.
    pub(crate) writes: Vec<Write>,
    /// The others.
    pub(crate) gives: Vec<ValueId>,
    pub(crate) end: Site,
}

/// A line about parameters: `seq %a: f32[], %b: f32[] = %xs[t], %xs[t+1]`, or `carry %c: f32[] = %last from %init`.
pub(crate) struct Line {
    pub(crate) role: &'static str,
    pub(crate) site: Site,
    pub(crate) source: Source,
    /// The name of that, and where it stands.
    pub(crate) named: (String, Site),
    /// A tap for each parameter.
    pub(crate) taps: Vec<Tap>,
    pub(crate) from: Option<ValueId>,
}

/// An operand or a result of an op.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    Operand(ValueId),
    Result(usize),
}

/// `[t+1]`, or nothing.
#[derive(Clone, Copy)]
pub(crate) struct Tap {
    /// What is added to the number of the step.
    pub(crate) row: Option<i64>,
    pub(crate) site: Site,
}

impl Line {
    /// A line to be printed.
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

/// `%ys[t] = %0`: what a step writes to a result of the op.
pub(crate) struct Write {
    pub(crate) result: usize,
    pub(crate) site: Site,
    pub(crate) tap: Tap,
    pub(crate) value: ValueId,
}

/// A name with its type, on the left of an equation.
pub(crate) struct Binder {
    pub(crate) name: String,
    pub(crate) site: Site,
    pub(crate) ty: TensorType,
    /// How many of its last rows are wanted, if not all.
    pub(crate) last: Option<usize>,
}

/// What is known where a form was read.
pub(crate) struct Reading<'a> {
    /// The graph in which the op stands.
    pub(crate) graph: &'a Graph,
    /// Its results.
    pub(crate) results: &'a [Binder],
    /// Of each op around it, the words and the bodies that end before it.
    pub(crate) around: &'a [(&'static Spelling, Vec<FormBody>)],
}

/// The value of that number. Where a broken graph lacks it, one that prints as `%?`.
pub(crate) fn value_at(values: &[ValueId], index: usize) -> ValueId {
    values.get(index).copied().unwrap_or(ValueId::new(u32::MAX as usize))
}

/// Some operands; none where a broken graph lacks them.
pub(crate) fn values_at(operands: &[ValueId], places: Range<usize>) -> &[ValueId] {
    operands.get(places).unwrap_or(&[])
}

impl Write {
    /// A write to be printed.
    pub(crate) fn new(result: usize, row: Option<i64>, value: ValueId) -> Self {
        Write { result, site: Site::Unknown, tap: Tap { row, site: Site::Unknown }, value }
    }
}

impl Form {
    /// The form of an op, to be printed.
    pub(crate) fn new(spelling: &'static Spelling, operands: &[ValueId], bodies: Vec<FormBody>) -> Self {
        let (site, operands) = (Site::Unknown, operands.to_vec());
        Form { spelling, site, operands, attributes: Attributes::new(), last: Vec::new(), bodies }
    }

    /// Takes attributes out of those that were read.
    pub(crate) fn read<T>(&mut self, take: impl FnOnce(&mut Attributes) -> Result<T, String>) -> Result<T> {
        take(&mut self.attributes).map_err(|expected| self.attributes.refused(self.site, self.spelling.name, expected))
    }

    /// The operands, followed by what each body captures.
    pub(crate) fn all_operands(&self) -> Vec<ValueId> {
        let captured = self.bodies.iter().flat_map(|body| &body.captured);
        self.operands.iter().chain(captured).copied().collect()
    }

    /// The graphs of the bodies.
    pub(crate) fn graphs(&self) -> Vec<Arc<Graph>> {
        self.bodies.iter().map(|body| body.graph.clone()).collect()
    }

    /// The graphs of the blocks that its spelling names.
    pub(crate) fn blocks<const N: usize>(&self) -> [Arc<Graph>; N] {
        self.graphs().try_into().expect("the parser reads a block for each name of the spelling")
    }

    /// Adds an attribute, if there is one.
    pub(crate) fn set(&mut self, key: &str, value: Option<impl Into<Dim>>) {
        if let Some(value) = value {
            self.attributes.push(key.to_string(), Attribute::Dim(value.into()));
        }
    }

    /// Adds `order=down`, if the steps go so.
    pub(crate) fn set_order(&mut self, reverse: bool) {
        self.set("order", reverse.then_some("down"));
    }

    /// Takes out `order`, and tells whether the steps go down.
    pub(crate) fn take_order(&mut self) -> Result<bool> {
        self.read(|attributes| match attributes.take_if_given("order", Attributes::take_word)?.as_deref() {
            None | Some("up") => Ok(false),
            Some("down") => Ok(true),
            Some(word) => Err(format!("`order` as one of up, down, not `{word}`")),
        })
    }
}

impl FormBody {
    /// A block with so many parameters in parentheses, to be printed.
    pub(crate) fn block(graph: &Arc<Graph>, params: usize, captured: &[ValueId]) -> Self {
        let gives = graph.outputs().iter().map(|output| output.value).collect();
        let (lines, writes, end) = (Vec::new(), Vec::new(), Site::Unknown);
        FormBody { graph: graph.clone(), params, lines, captured: captured.to_vec(), writes, gives, end }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bodies, Spelling};
    use crate::graph::print::print_as;
    use crate::ops::{Scan, While};
    use crate::{Error, Graph};

    pub(in crate::ops) const SPELLINGS: [&Spelling; 2] = [&REPEAT, &SWEEP];

    /// An op with two blocks.
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

    /// An op with a body of its own, whose parameters have roles.
    const SWEEP: Spelling = Spelling {
        name: "sweep",
        example: "sweep {steps=T} {",
        attributes: &["steps", "until"],
        bodies: Bodies::Own { roles: &["seq", "sit-sot", "carry"], gives: "stop" },
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

    /// What a new op with bodies describes is all that its text needs.
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

    /// So are its errors, each at its place.
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
            &["expected: `check`", "write `check`", "  >     chekc (%c", "line 3, column 5"],
        );
        refused(REPEATED, "(%d: f32[]) {", "(%d: f32[])", &["expected: `{`", "line 7, column 30"]);
        let block = &REPEATED[REPEATED.find("    advance").unwrap()..REPEATED.find("  }\n  return").unwrap()];
        refused(REPEATED, block, "", &["expected: `advance`", "found:    `}`", "line 7, column 3"]);
        let attributes = "only the attributes of `repeat`: bound";
        refused(REPEATED, "bound=20", "bound=20, buond=3", &[attributes, "write `bound`", "line 2, column 15"]);
        refused(REPEATED, " {bound=20}", "", &["the attribute `bound`", "found:    `repeat` without it"]);
        refused(REPEATED, "bound=20", "bound=[2]", &["`bound` as one number, not a list", "line 2, column 15"]);
        refused(REPEATED, "repeat %x {", "repeat %x times {", &["write as in `repeat %x {bound=20} {`", "column 25"]);
        refused(REPEATED, "(%d: f32[])", "(%d: f32[], %e: f32[])", &["the operand list", "line 2, column 15"]);
        refused(REPEATED, "(%c: f32[])", "(%c: f64[])", &["f64[]", "line 4"]);
        refused(SWEPT, "stop %1", "until %1", &["a row that is written", "line 10, column 5"]);
        refused(SWEPT, "seq %a", "sqe %a", &["expected: the name of an op", "line 3, column 5"]);
    }
}
