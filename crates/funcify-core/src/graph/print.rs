//! Prints a graph in the text form.
//!
//! All names in one printed function are unique, including those in the bodies of loops. A value keeps its name unless
//! an earlier value has the same name; in that case, a number is appended (`x_1`). Values without a name are numbered.
//! Printing a broken graph does not panic: missing parts are printed as `%?`. An op with bodies defines its own text
//! (`ops/basis/form.rs`).

use std::collections::{HashMap, HashSet};

use super::tracer::is_identifier;
use super::{Graph, Node, ValueId};
use crate::host::print_elements;
#[cfg(test)]
use crate::ops::form::Spelling;
use crate::ops::form::{Form, FormBody, Line, Source, Tap, Write, value_at};
use crate::ops::{Attribute, Attributes, Op, OpRules};

/// Returns the text form of a graph.
pub(crate) fn print(graph: &Graph) -> String {
    let mut printer = Printer::default();
    printer.function(graph);
    printer.lines.join("\n") + "\n"
}

/// Like [`print`], but uses `spelling` for every op with bodies.
#[cfg(test)]
pub(crate) fn print_as(graph: &Graph, spelling: &'static Spelling) -> String {
    let mut printer = Printer { spelling: Some(spelling), ..Printer::default() };
    printer.function(graph);
    printer.lines.join("\n") + "\n"
}

/// The maximum number of equations in an excerpt.
const EXCERPT_EQUATIONS: usize = 3;

/// The maximum number of characters in a line of an excerpt.
const EXCERPT_WIDTH: usize = 160;

/// Returns the lines of an excerpt: the last equations of a graph, followed by an op that is not in the graph, with its
/// operands. The graph may be incomplete.
pub(crate) fn excerpt(graph: &Graph, op: &str, operands: &[ValueId]) -> Vec<String> {
    let mut printer = Printer::default();
    let names = printer.function(graph);
    let skipped = printer.equations.len().saturating_sub(EXCERPT_EQUATIONS);
    let equation = |index: &usize| match printer.lines[*index].trim() {
        line if line.ends_with('{') => format!("{line} .. }}"),
        line => line.to_string(),
    };
    let mut lines: Vec<String> = printer.equations[skipped..].iter().map(equation).collect();
    let operand = |value: &ValueId| format!("{}: {}", names.get(*value), type_text(graph, *value));
    let operands: Vec<String> = operands.iter().map(operand).collect();
    lines.push(format!("{op} {}", operands.join(", ")).trim_end().to_string());
    lines.into_iter().map(shorten).collect()
}

fn shorten(line: String) -> String {
    match line.char_indices().nth(EXCERPT_WIDTH) {
        Some((end, _)) => format!("{} ..", &line[..end]),
        None => line,
    }
}

/// The printed names of the values in one body.
#[derive(Default)]
pub(crate) struct Names(HashMap<ValueId, String>);

impl Names {
    /// Returns the name of a value with its sigil, such as `%x`, or `%?` if the value has no name.
    pub(crate) fn get(&self, value: ValueId) -> String {
        format!("%{}", self.0.get(&value).map_or("?", String::as_str))
    }

    /// Returns the names of the given values, with their sigils.
    fn names_of(&self, values: &[ValueId]) -> Vec<String> {
        values.iter().map(|value| self.get(*value)).collect()
    }
}

fn type_text(graph: &Graph, value: ValueId) -> String {
    graph.try_ty(value).map_or("?".to_string(), ToString::to_string)
}

/// Formats attributes as ` {axis=0, limit=T+1}`. Returns an empty string if there are none.
pub(crate) fn attributes_text(attributes: &Attributes) -> String {
    let attribute = |(key, value): (&str, &Attribute)| match value {
        Attribute::Dim(dim) => format!("{key}={dim}"),
        Attribute::List(dims) => {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            format!("{key}=[{}]", dims.join(","))
        }
    };
    let texts: Vec<String> = attributes.iter().map(attribute).collect();
    if texts.is_empty() { String::new() } else { format!(" {{{}}}", texts.join(", ")) }
}

/// The state of a printer: the lines printed so far, and the names that are already taken.
#[derive(Default)]
pub(crate) struct Printer {
    lines: Vec<String>,
    /// For each equation of the outermost body, the index of its first line.
    equations: Vec<usize>,
    depth: usize,
    taken: HashSet<String>,
    /// For each name, the next number to try as a suffix.
    numbered: HashMap<String, usize>,
    next_number: usize,
    /// If set, the printer uses this spelling for every op that has bodies.
    #[cfg(test)]
    spelling: Option<&'static Spelling>,
}

impl Printer {
    fn line(&mut self, text: impl AsRef<str>) {
        self.lines.push(format!("{}{}", "  ".repeat(self.depth), text.as_ref()));
    }

    /// Returns a unique name based on `name`, and marks it as taken. Returns the next unused number if `name` is `None`
    /// or not an identifier.
    fn claim(&mut self, name: Option<&str>) -> String {
        let Some(name) = name.filter(|name| is_identifier(name)) else {
            self.next_number += 1;
            return (self.next_number - 1).to_string();
        };
        if self.taken.insert(name.to_string()) {
            return name.to_string();
        }
        let next = self.numbered.entry(name.to_string()).or_insert(1);
        loop {
            let numbered = format!("{name}_{next}");
            *next += 1;
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }

    /// Formats the binder of a value, such as `%x: f32[3]`. The value is printed as `name` unless an earlier value has
    /// that name.
    fn binder(&mut self, graph: &Graph, names: &mut Names, value: ValueId, name: Option<&str>) -> String {
        names.0.insert(value, self.claim(name));
        format!("{}: {}", names.get(value), type_text(graph, value))
    }

    /// Formats the binder of an input. An input without a valid name is printed as `in` followed by its index.
    fn input(&mut self, graph: &Graph, names: &mut Names, index: usize) -> String {
        let Some(input) = graph.inputs().get(index) else { return "%?: ?".to_string() };
        let fallback = format!("in{index}");
        let name = graph.try_value_name(input.value).filter(|name| is_identifier(name)).unwrap_or(&fallback);
        let keyword = if input.is_static { "static " } else { "" };
        keyword.to_string() + &self.binder(graph, names, input.value, Some(name))
    }

    fn function(&mut self, graph: &Graph) -> Names {
        let mut names = Names::default();
        let params: Vec<String> = (0..graph.inputs().len()).map(|index| self.input(graph, &mut names, index)).collect();
        self.print_block(format!("fn{}({})", name_text(graph), params.join(", ")), |printer| {
            for node in graph.nodes() {
                printer.equations.push(printer.lines.len());
                printer.equation(graph, &mut names, node);
            }
            let output = |output: &crate::graph::Output| format!("{}={}", output.name, names.get(output.value));
            let outputs: Vec<String> = graph.outputs().iter().map(output).collect();
            printer.line(format!("return {}", outputs.join(", ")).trim_end());
        });
        names
    }

    fn equations(&mut self, graph: &Graph, names: &mut Names) {
        graph.nodes().iter().for_each(|node| self.equation(graph, names, node));
    }

    fn equation(&mut self, graph: &Graph, names: &mut Names, node: &Node) {
        let form = node.op.bodied().map(|op| op.form(&node.inputs));
        #[cfg(test)]
        let form = form.map(|form| Form { spelling: self.spelling.unwrap_or(form.spelling), ..form });
        let binder = |(index, value): (usize, &ValueId)| {
            let last = form.as_ref().and_then(|form| *form.last.get(index)?);
            let last = last.map_or(String::new(), |count| format!(" last {count}"));
            self.binder(graph, names, *value, graph.try_value_name(*value)) + &last
        };
        let binders: Vec<String> = node.outputs.iter().enumerate().map(binder).collect();
        let left = if binders.is_empty() { String::new() } else { format!("{} = ", binders.join(", ")) };
        let with_operands = |head: String, operands: &[ValueId], attributes: &Attributes| {
            let operands = names.names_of(operands).join(", ");
            let space = if operands.is_empty() { "" } else { " " };
            format!("{left}{head}{space}{operands}{}", attributes_text(attributes))
        };
        match (form, &node.op) {
            (Some(form), _) => {
                let own = form.bodies.first().filter(|_| form.spelling.has_inline_body());
                let name = form.spelling.name.to_string() + &own.map_or(String::new(), |body| name_text(&body.graph));
                let head = with_operands(name, &form.operands, &form.attributes);
                match (own, &form.bodies[..]) {
                    (Some(body), _) => self.body(head, names, &form, body, &node.outputs),
                    (None, []) => self.line(head),
                    (None, bodies) => self.print_block(head, |printer| {
                        for (number, body) in bodies.iter().enumerate() {
                            let head = form.spelling.body_name(number) + &name_text(&body.graph);
                            printer.body(head, names, &form, body, &node.outputs);
                        }
                    }),
                }
            }
            (None, Op::Constant(constant)) => self.line(format!("{left}constant {}", print_elements(&constant.value))),
            (None, op) => self.line(with_operands(op.name().to_string(), &node.inputs, &op.attributes())),
        }
    }

    /// Prints a block: a line that ends with `{`, the inner lines, and `}`.
    fn print_block(&mut self, head: impl AsRef<str>, inner: impl FnOnce(&mut Self)) {
        self.line(format!("{} {{", head.as_ref()));
        self.depth += 1;
        inner(self);
        self.depth -= 1;
        self.line("}");
    }

    /// Formats the outer values that a body captures. Each value keeps its name inside the body. If a value is captured
    /// twice, the second capture gets a different name: `%w as %w_1`.
    fn captured(
        &mut self,
        names: &Names,
        operands: &[ValueId],
        body: &Graph,
        first: usize,
        inner: &mut Names,
    ) -> Vec<String> {
        let mut listed: Vec<ValueId> = Vec::new();
        let mut texts = Vec::new();
        for param in first..body.inputs().len().max(first) {
            let (Some(outer), Some(input)) = (operands.get(param - first), body.inputs().get(param)) else {
                texts.push("%?".to_string());
                continue;
            };
            let name = names.get(*outer);
            if listed.contains(outer) {
                self.input(body, inner, param);
                texts.push(format!("{name} as {}", inner.get(input.value)));
            } else {
                listed.push(*outer);
                inner.0.insert(input.value, name[1..].to_string());
                texts.push(name);
            }
        }
        texts
    }

    /// Prints a body: its parameters and captures, its declarations (such as `seq` and `carry`) and equations, its
    /// writes, and its unwritten results.
    fn body(&mut self, mut head: String, names: &Names, form: &Form, body: &FormBody, results: &[ValueId]) {
        let (graph, mut inner, mut next) = (&body.graph, Names::default(), 0);
        let mut binders = |printer: &mut Self, inner: &mut Names, count: usize| {
            next += count;
            let binders = (next - count..next).map(|param| printer.input(graph, inner, param));
            binders.collect::<Vec<String>>().join(", ")
        };
        if body.params > 0 {
            head += &format!(" ({})", binders(self, &mut inner, body.params));
        }
        let result = |index: usize| names.get(value_at(results, index));
        let mut lines = Vec::new();
        for Line { role, source, taps, from, .. } in &body.lines {
            let source = match source {
                Source::Operand(value) => names.get(*value),
                Source::Result(index) => result(*index),
            };
            let places: Vec<String> = taps.iter().map(|tap| format!("{source}{}", tap_text(tap))).collect();
            let from = from.map_or(String::new(), |from| format!(" from {}", names.get(from)));
            lines.push(match taps.len() {
                0 => format!("{role} {source}{from}"),
                count => format!("{role} {} = {}{from}", binders(self, &mut inner, count), places.join(", ")),
            });
        }
        let captured = self.captured(names, &body.captured, graph, next, &mut inner);
        if !captured.is_empty() {
            head += &format!(" with {}", captured.join(", "));
        }
        self.print_block(head, |printer| {
            lines.iter().for_each(|line| printer.line(line));
            printer.equations(graph, &mut inner);
            for Write { result: index, tap, value, .. } in &body.writes {
                printer.line(format!("{}{} = {}", result(*index), tap_text(tap), inner.get(*value)));
            }
            if !(form.spelling.has_inline_body() && body.unwritten_results.is_empty()) {
                let gives = inner.names_of(&body.unwritten_results).join(", ");
                printer.line(format!("{} {gives}", form.spelling.result_keyword()).trim_end());
            }
        });
    }
}

/// Formats the name of a graph as ` @step`. Returns an empty string if the graph has no name.
pub(crate) fn name_text(graph: &Graph) -> String {
    if graph.name().is_empty() { String::new() } else { format!(" @{}", graph.name()) }
}

/// Formats a tap as `[t]`, `[t+1]` or `[t-2]`. Returns an empty string if `tap.row` is `None`.
fn tap_text(tap: &Tap) -> String {
    match tap.row {
        None => String::new(),
        Some(0) => "[t]".to_string(),
        Some(row) => format!("[t{row:+}]"),
    }
}
