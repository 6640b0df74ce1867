//! Printing a graph in the text form.
//!
//! All names in one printed function are unique, those in the bodies of loops included: a value keeps its name if
//! no value before it has the same, else gets a number after it (`x_1`). Values without a name are numbered.
//! Printing a broken graph does not panic: what is missing prints as `%?`.

use std::collections::{HashMap, HashSet};

use super::tracer::is_identifier;
use super::{Graph, Node, ValueId};
use crate::host::print_elements;
use crate::ops::scan::{Buffer, Start, Wanted};
use crate::ops::{AssociativeScan, Attribute, Attributes, Call, Op, OpRules, Rule, Scan, Switch, While};

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
    let mut lines: Vec<String> = Vec::new();
    for index in &printer.equations[skipped..] {
        let line = printer.lines[*index].trim();
        let line = if line.ends_with('{') { format!("{line} .. }}") } else { line.to_string() };
        lines.push(line);
    }
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
struct Names(HashMap<ValueId, String>);

impl Names {
    fn get(&self, value: ValueId) -> String {
        format!("%{}", self.0.get(&value).map_or("?", String::as_str))
    }

    fn all(&self, values: &[ValueId]) -> Vec<String> {
        values.iter().map(|value| self.get(*value)).collect()
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

#[derive(Default)]
struct Printer {
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
    fn line(&mut self, text: impl AsRef<str>) {
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

    /// `%x: f32[3]`, for a value that is defined here.
    fn binder(&mut self, graph: &Graph, names: &mut Names, value: ValueId) -> String {
        let name = self.claim(graph.try_value_name(value));
        names.0.insert(value, name);
        format!("{}: {}", names.get(value), type_text(graph, value))
    }

    /// The binder of an input, which always has a name.
    fn input(&mut self, graph: &Graph, names: &mut Names, index: usize) -> String {
        let Some(input) = graph.inputs().get(index) else { return "%?: ?".to_string() };
        let fallback = format!("in{index}");
        let name = graph.try_value_name(input.value).filter(|name| is_identifier(name)).unwrap_or(&fallback);
        let name = self.claim(Some(name));
        names.0.insert(input.value, name);
        let keyword = if input.is_static { "static " } else { "" };
        format!("{keyword}{}: {}", names.get(input.value), type_text(graph, input.value))
    }

    fn function(&mut self, graph: &Graph) -> Names {
        let mut names = Names::default();
        let params: Vec<String> = (0..graph.inputs().len()).map(|index| self.input(graph, &mut names, index)).collect();
        let name = if graph.name().is_empty() { String::new() } else { format!(" @{}", graph.name()) };
        self.line(format!("fn{name}({}) {{", params.join(", ")));
        self.depth += 1;
        for node in graph.nodes() {
            self.equations.push(self.lines.len());
            self.equation(graph, &mut names, node);
        }
        let output = |output: &crate::graph::Output| format!("{}={}", output.name, names.get(output.value));
        let outputs: Vec<String> = graph.outputs().iter().map(output).collect();
        self.line(format!("return {}", outputs.join(", ")).trim_end());
        self.depth -= 1;
        self.line("}");
        names
    }

    fn equation(&mut self, graph: &Graph, names: &mut Names, node: &Node) {
        let mut binders = Vec::new();
        for (index, value) in node.outputs.iter().enumerate() {
            let wanted = match &node.op {
                Op::Scan(scan) => scan.buffers.get(index).map_or(Wanted::All, |buffer| buffer.wanted),
                _ => Wanted::All,
            };
            let last = if let Wanted::Last(count) = wanted { format!(" last {count}") } else { String::new() };
            binders.push(self.binder(graph, names, *value) + &last);
        }
        let left = if binders.is_empty() { String::new() } else { format!("{} = ", binders.join(", ")) };
        match &node.op {
            Op::Scan(scan) => self.scan(&left, names, node, scan),
            Op::Switch(switch) => self.switch(&left, names, node, switch),
            Op::While(op) => self.while_loop(&left, names, node, op),
            Op::AssociativeScan(op) => self.associative_scan(&left, names, node, op),
            Op::Call(call) => self.call(&left, names, node, call),
            Op::Constant(constant) => self.line(format!("{left}constant {}", print_elements(&constant.value))),
            op => {
                let operands = names.all(&node.inputs).join(", ");
                let space = if operands.is_empty() { "" } else { " " };
                self.line(format!("{left}{}{space}{operands}{}", op.name(), attributes_text(&op.attributes())));
            }
        }
    }

    fn scan(&mut self, left: &str, names: &Names, node: &Node, scan: &Scan) {
        let operand = |index: usize| node.inputs.get(index).map_or("%?".to_string(), |value| names.get(*value));
        let result = |index: usize| node.outputs.get(index).map_or("%?".to_string(), |value| names.get(*value));
        let (operands, params, results) = (scan.operands(), scan.params(), scan.results());
        let body = &scan.body;
        let mut inner = Names::default();

        let mut header = format!("{left}scan");
        if !body.name().is_empty() {
            header += &format!(" @{}", body.name());
        }
        header += &format!(" for t in 0..{}", scan.steps);
        if let Some(index) = operands.steps {
            header += &format!("={}", operand(index));
        }
        if let Some(symbol) = &scan.until {
            header += &format!(" until {symbol}");
        }
        if scan.reverse {
            header += " down";
        }
        if scan.unroll != 1 {
            header += &format!(" unroll={}", scan.unroll);
        }
        if let Some(policy) = &scan.policy {
            header += &format!(" policy={policy}");
        }
        if let Some(steps) = scan.truncate {
            header += &format!(" truncate={steps}");
        }

        let mut heads = Vec::new();
        for (index, sequence) in scan.sequences.iter().enumerate() {
            let source = operand(operands.sequences.start + index);
            let binders: Vec<String> =
                params.sequences[index].clone().map(|param| self.input(body, &mut inner, param)).collect();
            heads.push(format!("seq {}", reads(&binders, &source, &sequence.reads, 0)));
        }
        for (index, buffer) in scan.buffers.iter().enumerate() {
            let binders: Vec<String> =
                params.buffers[index].clone().map(|param| self.input(body, &mut inner, param)).collect();
            let from = operands.buffers[index].map_or(String::new(), |index| format!(" from {}", operand(index)));
            let taps = reads(&binders, &result(index), &buffer.reads, shown_shift(scan.reverse, buffer));
            heads.push(format!("{} {taps}{from}", buffer.kind()));
        }
        for index in 0..scan.carries {
            let binder = self.input(body, &mut inner, params.carries.start + index);
            let (next, init) = (result(scan.buffers.len() + index), operand(operands.carries.start + index));
            heads.push(format!("carry {binder} = {next} from {init}"));
        }
        let captured: Vec<ValueId> = node.inputs.iter().skip(operands.invariants.start).copied().collect();
        let invariants = self.captured(names, &captured, body, params.invariants.start, &mut inner);
        if !invariants.is_empty() {
            header += &format!(" with {}", invariants.join(", "));
        }

        self.line(format!("{header} {{"));
        self.depth += 1;
        heads.iter().for_each(|head| self.line(head));
        for node in body.nodes() {
            self.equation(body, &mut inner, node);
        }
        let output = |index: usize| body.outputs().get(index).map_or("%?".to_string(), |o| inner.get(o.value));
        for (index, buffer) in scan.buffers.iter().enumerate() {
            for (offset, row) in buffer.writes.iter().zip(results.buffers[index].clone()) {
                let tap = tap_text(*offset, shown_shift(scan.reverse, buffer));
                self.line(format!("{}[{tap}] = {}", result(index), output(row)));
            }
        }
        for index in 0..scan.carries {
            let next = output(results.carries.start + index);
            self.line(format!("{} = {next}", result(scan.buffers.len() + index)));
        }
        if let Some(index) = results.until {
            self.line(format!("until {}", output(index)));
        }
        self.depth -= 1;
        self.line("}");
    }

    /// The outer values that a body uses. Inside, each has the same name; one that is passed twice has another
    /// name the second time: `%w as %w_1`.
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
}

impl Printer {
    fn switch(&mut self, left: &str, names: &Names, node: &Node, switch: &Switch) {
        let index = node.inputs.first().map_or("%?".to_string(), |value| names.get(*value));
        self.line(format!("{left}switch {index} {{"));
        self.depth += 1;
        for (number, (branch, places)) in switch.branches.iter().zip(switch.operands()).enumerate() {
            let operands = node.inputs.get(places).unwrap_or_default();
            self.block(&format!("case {number}"), names, branch, 0, operands);
        }
        self.depth -= 1;
        self.line("}");
    }

    fn while_loop(&mut self, left: &str, names: &Names, node: &Node, op: &While) {
        let places = op.operands();
        let operands = |range| node.inputs.get(range).unwrap_or_default();
        let mut header = format!("{left}while");
        if !places.carries.is_empty() {
            header += &format!(" {}", names.all(operands(places.carries.clone())).join(", "));
        }
        if let Some(bound) = &op.bound {
            header += &format!(" bound {bound}");
        }
        self.line(format!("{header} {{"));
        self.depth += 1;
        self.block("test", names, &op.condition, places.carries.len(), operands(places.condition));
        self.block("step", names, &op.body, places.carries.len(), operands(places.body));
        self.depth -= 1;
        self.line("}");
    }

    fn associative_scan(&mut self, left: &str, names: &Names, node: &Node, op: &AssociativeScan) {
        let xs = node.inputs.get(..op.leaves).unwrap_or_default();
        let captured = node.inputs.get(op.leaves..).unwrap_or_default();
        let mut header = format!("{left}associative_scan {}", names.all(xs).join(", "));
        if op.reverse {
            header += " down";
        }
        self.line(format!("{header} {{"));
        self.depth += 1;
        self.block("combine", names, &op.combine, 2 * op.leaves, captured);
        self.depth -= 1;
        self.line("}");
    }

    fn call(&mut self, left: &str, names: &Names, node: &Node, call: &Call) {
        let arguments = names.all(node.inputs.get(..call.arguments).unwrap_or_default());
        let space = if arguments.is_empty() { "" } else { " " };
        if matches!(call.rule, Rule::Itself) {
            return self.line(format!("{left}itself{space}{}", arguments.join(", ")));
        }
        self.line(format!("{left}{}{space}{} {{", call.name(), arguments.join(", ")));
        self.depth += 1;
        for part in call.parts() {
            let captured = node.inputs.get(part.captured).unwrap_or_default();
            self.block(part.name, names, part.graph, part.params, captured);
        }
        self.depth -= 1;
        self.line("}");
    }

    /// A body with its parameters, what it captures, its equations and what it gives: `case 0 with %x { .. give %1 }`.
    fn block(&mut self, head: &str, names: &Names, body: &Graph, params: usize, captured: &[ValueId]) {
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
        self.line(format!("{header} {{"));
        self.depth += 1;
        for node in body.nodes() {
            self.equation(body, &mut inner, node);
        }
        let outputs: Vec<String> = body.outputs().iter().map(|output| inner.get(output.value)).collect();
        self.line(format!("give {}", outputs.join(", ")).trim_end());
        self.depth -= 1;
        self.line("}");
    }
}

/// What is subtracted from a buffer's offsets to show them as taps: the row that a step writes next to the given
/// rows is `t`.
pub(crate) fn shown_shift(reverse: bool, buffer: &Buffer) -> usize {
    match buffer.start {
        Start::Given(given) if !reverse => given,
        _ => 0,
    }
}

/// `%x: f32[], %y: f32[] = %xs[t], %xs[t+1]`; the source alone if nothing is read.
fn reads(binders: &[String], source: &str, offsets: &[usize], shift: usize) -> String {
    if binders.is_empty() {
        return source.to_string();
    }
    let taps: Vec<String> = offsets.iter().map(|offset| format!("{source}[{}]", tap_text(*offset, shift))).collect();
    format!("{} = {}", binders.join(", "), taps.join(", "))
}

/// `t`, `t+1`, `t-2`
fn tap_text(offset: usize, shift: usize) -> String {
    match offset.cmp(&shift) {
        std::cmp::Ordering::Equal => "t".to_string(),
        std::cmp::Ordering::Greater => format!("t+{}", offset - shift),
        std::cmp::Ordering::Less => format!("t-{}", shift - offset),
    }
}
