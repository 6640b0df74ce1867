//! Printing a graph in the text form.
//!
//! All names in one printed function are unique, those in the bodies of loops included: a value keeps its name if
//! no value before it has the same, else gets a number after it (`x_1`). Values without a name are numbered.
//! Printing a broken graph does not panic: what is missing prints as `%?`. Ops with bodies print themselves.

use std::collections::{HashMap, HashSet};
use std::slice::SliceIndex;

use super::tracer::is_identifier;
use super::{Graph, Node, ValueId};
use crate::host::print_elements;
use crate::ops::{Attribute, Attributes, Op, OpRules};

/// The text of a graph.
pub(crate) fn print(graph: &Graph) -> String {
    let mut printer = Printer::default();
    printer.function(graph);
    printer.lines.join("\n") + "\n"
}

/// How many equations an excerpt shows.
const EXCERPT_EQUATIONS: usize = 3;

/// How many characters of a line an excerpt shows.
const EXCERPT_WIDTH: usize = 160;

/// The last equations of a graph, which may be incomplete, and then an op that is not in it, with its operands.
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
    lines.into_iter().map(shortened).collect()
}

fn shortened(line: String) -> String {
    match line.char_indices().nth(EXCERPT_WIDTH) {
        Some((end, _)) => format!("{} ..", &line[..end]),
        None => line,
    }
}

/// The names that the values of one body have in the text.
#[derive(Default)]
pub(crate) struct Names(HashMap<ValueId, String>);

impl Names {
    /// `%x`
    pub(crate) fn get(&self, value: ValueId) -> String {
        format!("%{}", self.0.get(&value).map_or("?", String::as_str))
    }

    /// Of several values.
    pub(crate) fn all(&self, values: &[ValueId]) -> Vec<String> {
        values.iter().map(|value| self.get(*value)).collect()
    }
}

/// What an op with bodies is told when it prints itself.
pub(crate) struct Equation<'a> {
    /// Its results with their types: `%x: f32[3]`.
    pub(crate) binders: Vec<String>,
    /// The names of its operands and results.
    pub(crate) names: &'a Names,
    node: &'a Node,
}

impl Equation<'_> {
    /// `%x: f32[3], %y: f32[] = `, or nothing.
    pub(crate) fn left(&self) -> String {
        if self.binders.is_empty() { String::new() } else { format!("{} = ", self.binders.join(", ")) }
    }

    /// Some operands, as far as they are there.
    pub(crate) fn operands(&self, places: impl SliceIndex<[ValueId], Output = [ValueId]>) -> &[ValueId] {
        self.node.inputs.get(places).unwrap_or_default()
    }

    /// The name of an operand.
    pub(crate) fn operand(&self, index: usize) -> String {
        self.node.inputs.get(index).map_or("%?".to_string(), |value| self.names.get(*value))
    }

    /// The name of a result.
    pub(crate) fn result(&self, index: usize) -> String {
        self.node.outputs.get(index).map_or("%?".to_string(), |value| self.names.get(*value))
    }
}

fn type_text(graph: &Graph, value: ValueId) -> String {
    graph.try_ty(value).map_or("?".to_string(), ToString::to_string)
}

/// ` {axis=0, limit=T+1}`, or nothing.
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

/// Writes lines.
#[derive(Default)]
pub(crate) struct Printer {
    lines: Vec<String>,
    /// The lines on which the equations of the outermost body begin.
    equations: Vec<usize>,
    depth: usize,
    taken: HashSet<String>,
    /// The number after the name of the next value that shares it, from which on numbers may be free.
    numbered: HashMap<String, usize>,
    next_number: usize,
}

impl Printer {
    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        self.lines.push(format!("{}{}", "  ".repeat(self.depth), text.as_ref()));
    }

    /// A name that no other value has.
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

    /// `%x: f32[3]`, for a value that is defined here, with that name if no other value has it.
    fn binder(&mut self, graph: &Graph, names: &mut Names, value: ValueId, name: Option<&str>) -> String {
        names.0.insert(value, self.claim(name));
        format!("{}: {}", names.get(value), type_text(graph, value))
    }

    /// The binder of an input, which always has a name.
    pub(crate) fn input(&mut self, graph: &Graph, names: &mut Names, index: usize) -> String {
        let Some(input) = graph.inputs().get(index) else { return "%?: ?".to_string() };
        let fallback = format!("in{index}");
        let name = graph.try_value_name(input.value).filter(|name| is_identifier(name)).unwrap_or(&fallback);
        let keyword = if input.is_static { "static " } else { "" };
        keyword.to_string() + &self.binder(graph, names, input.value, Some(name))
    }

    fn function(&mut self, graph: &Graph) -> Names {
        let mut names = Names::default();
        let params: Vec<String> = (0..graph.inputs().len()).map(|index| self.input(graph, &mut names, index)).collect();
        let name = if graph.name().is_empty() { String::new() } else { format!(" @{}", graph.name()) };
        self.braced(format!("fn{name}({})", params.join(", ")), |printer| {
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

    pub(crate) fn equations(&mut self, graph: &Graph, names: &mut Names) {
        graph.nodes().iter().for_each(|node| self.equation(graph, names, node));
    }

    fn equation(&mut self, graph: &Graph, names: &mut Names, node: &Node) {
        let binder = |value: &ValueId| self.binder(graph, names, *value, graph.try_value_name(*value));
        let binders = node.outputs.iter().map(binder).collect();
        let equation = Equation { binders, names, node };
        match (node.op.bodied(), &node.op) {
            (Some(op), _) => op.print(self, &equation),
            (None, Op::Constant(constant)) => {
                self.line(format!("{}constant {}", equation.left(), print_elements(&constant.value)));
            }
            (None, op) => {
                let operands = names.all(&node.inputs).join(", ");
                let space = if operands.is_empty() { "" } else { " " };
                let attributes = attributes_text(&op.attributes());
                self.line(format!("{}{}{space}{operands}{attributes}", equation.left(), op.name()));
            }
        }
    }

    /// What stands between a line that ends with `{`, and `}`.
    pub(crate) fn braced(&mut self, head: impl AsRef<str>, inner: impl FnOnce(&mut Self)) {
        self.line(format!("{} {{", head.as_ref()));
        self.depth += 1;
        inner(self);
        self.depth -= 1;
        self.line("}");
    }

    /// The outer values that a body uses. Inside, each has the same name; one that is passed twice has another
    /// name the second time: `%w as %w_1`.
    pub(crate) fn captured(
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

    /// A body with its parameters, what it captures, its equations and what it gives: `case 0 with %x { .. give %1 }`.
    pub(crate) fn block(&mut self, head: &str, names: &Names, body: &Graph, params: usize, captured: &[ValueId]) {
        let mut inner = Names::default();
        let mut header = head.to_string();
        if !body.name().is_empty() {
            header += &format!(" @{}", body.name());
        }
        if params > 0 {
            let binders: Vec<String> = (0..params).map(|param| self.input(body, &mut inner, param)).collect();
            header += &format!(" ({})", binders.join(", "));
        }
        let captured = self.captured(names, captured, body, params, &mut inner);
        if !captured.is_empty() {
            header += &format!(" with {}", captured.join(", "));
        }
        self.braced(header, |printer| {
            printer.equations(body, &mut inner);
            let outputs: Vec<String> = body.outputs().iter().map(|output| inner.get(output.value)).collect();
            printer.line(format!("give {}", outputs.join(", ")).trim_end());
        });
    }
}
