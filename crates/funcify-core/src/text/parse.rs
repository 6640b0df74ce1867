//! Parses the text form into a graph. The parser adds nodes with [`Graph::push_node`], which applies the type rules.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::attributes::attributes;
use super::elements::parse_elements;
use super::synonyms::equivalent_of;
use crate::error::{Error, Place, Result, Site};
use crate::graph::print::excerpt;
use crate::graph::{Graph, ValueId};
use crate::ops::form::{Binder, FormBody, Spelling};
use crate::ops::{Attributes, Constant, Op, OpRules, all_names, custom_names, parse_op};
use crate::types::Symbol;
#[cfg(test)]
use crate::types::grammar::expectation;
use crate::types::grammar::tensor_type;
use crate::types::lexer::{Cursor, Token, error_at, is_number, unknown_word};
use crate::types::nearest::closest_word;

/// Parses a text that consists of a single function.
pub(crate) fn parse(text: &str) -> Result<Graph> {
    let read = || {
        let cursor = Cursor::new(text)?;
        let mut parser = Parser { cursor, defined: HashSet::new(), around: Vec::new() };
        let graph = parser.function()?;
        match graph.unbound_symbol() {
            Some(symbol) => Err(unbound_symbol_error(&parser.cursor, &graph, &symbol)),
            None => Ok(graph),
        }
    };
    read().map_err(|error: Error| {
        let site = error.place().site;
        error.with_excerpt(|| marked_line(text, site))
    })
}

/// Creates the error for an unbound symbol (graph-c7).
fn unbound_symbol_error(cursor: &Cursor, graph: &Graph, symbol: &Symbol) -> Error {
    let site = cursor.first_word(symbol.name()).unwrap_or_default();
    let given = (0..graph.inputs().len()).flat_map(|index| graph.input_type(index).shape.dims());
    let given: BTreeSet<&str> = given.flat_map(|dim| dim.symbols()).map(Symbol::name).collect();
    let expected = match given.is_empty() {
        true => "a number: no input has a named size".to_string(),
        false => format!("a size of an input: {}", Vec::from_iter(given.iter().copied()).join(", ")),
    };
    let fix = match closest_word(symbol.name(), given) {
        Some(given) => format!("write `{given}`, or add an input with the size `{symbol}`"),
        None => format!("add an input with the size `{symbol}`, or write a number"),
    };
    let found = format!("`{symbol}`, which has no size: no input has it, and no earlier loop binds it");
    Error::Parse { at: Place::new("parse", site).boxed(), expected, found, fix }
}

/// The maximum number of characters of a line that an error message shows.
const SHOWN_WIDTH: usize = 120;

/// Returns the line at fault, and a line with a caret that points at the error. A long line is cut to the part around
/// the error.
fn marked_line(text: &str, site: Site) -> Vec<String> {
    let Site::Text { line, column } = site else { return Vec::new() };
    let shown = text.split('\n').nth(line - 1).unwrap_or_default().trim_end();
    let skipped = if shown.chars().count() <= SHOWN_WIDTH { 0 } else { (column - 1).saturating_sub(SHOWN_WIDTH / 2) };
    // Copy tabs, to keep the caret below the right character.
    let blank = |c: char| if c == '\t' { c } else { ' ' };
    let before: String = shown.chars().skip(skipped).take(column - 1 - skipped).map(blank).collect();
    let padding = " ".repeat((column - 1 - skipped).saturating_sub(before.chars().count()));
    let part: String = shown.chars().skip(skipped).take(SHOWN_WIDTH).collect();
    vec![part, format!("{before}{padding}^")]
}

/// Parses an op's name and attributes. The error gives its location and the expected tokens.
#[cfg(test)]
pub(crate) fn parse_op_text(text: &str) -> Result<Op, String> {
    let read = || {
        let mut cursor = Cursor::new(text)?;
        let op = op_with_attributes(&mut cursor, |_| Ok(()))?;
        if *cursor.peek() != Token::End {
            return Err(cursor.error("`{` or the end of the op"));
        }
        Ok(op)
    };
    read().map_err(expectation)
}

/// Parses an op such as `slice %x {axis=0}`. `operands` parses the part between the name and the attributes.
fn op_with_attributes(cursor: &mut Cursor, operands: impl FnOnce(&mut Cursor) -> Result<()>) -> Result<Op> {
    let site = cursor.site();
    let name = cursor.expect_name("an op")?;
    operands(cursor)?;
    let mut attributes: Attributes = attributes(cursor)?;
    let Some(op) = parse_op(&name, &mut attributes) else {
        if let Some(written) = equivalent_of(&name) {
            let (expected, found) = ("the name of an op".to_string(), format!("`{name}`"));
            let fix = format!("write `{written}`");
            return Err(Error::Parse { at: Place::new("parse", site).boxed(), expected, found, fix });
        }
        let names = all_names().into_iter().chain(custom_names()).chain(["return", "give", "until"]);
        return Err(unknown_word(site, "the name of an op", &name, names));
    };
    let op = op.map_err(|expected| attributes.rejection(site, &name, expected))?;
    let known = op.attributes();
    check_known_attributes(site, &name, &attributes, &known.iter().map(|(key, _)| key).collect::<Vec<_>>())?;
    Ok(op)
}

/// Checks that an op has only known attributes.
pub(super) fn check_known_attributes(site: Site, name: &str, attributes: &Attributes, known: &[&str]) -> Result<()> {
    let Some((key, _)) = attributes.iter().find(|(key, _)| !known.contains(key)) else { return Ok(()) };
    let expected = match known.is_empty() {
        true => format!("no attributes: `{name}` has none"),
        false => format!("only the attributes of `{name}`: {}", known.join(", ")),
    };
    Err(unknown_word(site, expected, key, known.iter().copied()))
}

/// A body that is being parsed.
pub(super) struct Body {
    pub(super) graph: Graph,
    pub(super) names: HashMap<String, ValueId>,
}

impl Body {
    pub(super) fn new(name: &str) -> Self {
        Body { graph: Graph::new(name), names: HashMap::new() }
    }
}

/// A parser for a function of the text form: a graph with its nested bodies.
pub(super) struct Parser {
    pub(super) cursor: Cursor,
    /// The names of all values in the function, including those in bodies.
    defined: HashSet<String>,
    /// The enclosing ops, outermost first, each with the bodies parsed so far.
    pub(super) around: Vec<(&'static Spelling, Vec<FormBody>)>,
}

impl Parser {
    fn function(&mut self) -> Result<Graph> {
        self.cursor.skip_new_lines();
        self.cursor.expect_word("fn")?;
        let mut body = Body::new(&self.function_name(&["("])?);
        self.cursor.expect_mark('(')?;
        if !self.cursor.take_mark(')') {
            loop {
                self.input(&mut body)?;
                if self.cursor.take_mark(')') {
                    break;
                }
                if !self.cursor.take_mark(',') {
                    return Err(self.cursor.error("`,` or `)` after an input"));
                }
            }
        }
        self.cursor.expect_mark('{')?;
        self.cursor.expect_line_end()?;
        while !self.cursor.at_word("return") {
            self.equation(&mut body, "an equation or `return`")?;
        }
        self.outputs(&mut body.graph, &body.names)?;
        self.cursor.expect_mark('}')?;
        self.cursor.skip_new_lines();
        if *self.cursor.peek() != Token::End {
            return Err(self.cursor.error("the end of the text, after one function"));
        }
        Ok(body.graph)
    }

    /// Parses an optional name after `@`. Returns an empty string if there is no name. If the next token is a plain
    /// word followed by one of `followers`, reports that its `@` is missing.
    pub(super) fn function_name(&mut self, followers: &[&str]) -> Result<String> {
        match self.cursor.peek().clone() {
            Token::Function(name) => {
                self.cursor.bump();
                Ok(name)
            }
            Token::Name(word) if followers.iter().any(|token| self.cursor.peek_at(1).is(token)) => {
                let fix = format!("write `@{word}`");
                Err(self.cursor.error_with("a name after `@`", fix))
            }
            _ => Ok(String::new()),
        }
    }

    fn input(&mut self, body: &mut Body) -> Result<()> {
        let is_static = self.cursor.take_word("static");
        let binder = self.binder("an input such as `%x: f32[3]`")?;
        if is_number(&binder.name) {
            return Err(error_at(binder.site, "an identifier: inputs have names", format!("`%{}`", binder.name)));
        }
        if is_static && !(binder.ty.dtype.is_int() && binder.ty.rank() == 0) {
            let at = Place::new("input", binder.site);
            let component = format!("static input `%{}`", binder.name);
            return Err(at.mismatch(component, "an integer scalar", &binder.ty, "remove `static`, or use `i64[]`"));
        }
        self.define(&binder.name, binder.site)?;
        let value = body.graph.push_input(&binder.name, binder.ty, is_static);
        body.names.insert(binder.name, value);
        Ok(())
    }

    fn outputs(&mut self, graph: &mut Graph, names: &HashMap<String, ValueId>) -> Result<()> {
        self.cursor.expect_word("return")?;
        let mut listed = HashSet::new();
        while !matches!(self.cursor.peek(), Token::NewLine | Token::End) {
            if !listed.is_empty() {
                self.cursor.expect_mark(',')?;
            }
            let site = self.cursor.site();
            let name = self.cursor.expect_name("an output such as `y=%x`")?;
            self.cursor.expect_mark('=')?;
            graph.push_output(&name, self.value(names)?);
            if !listed.insert(name.clone()) {
                return Err(duplicate_name(site, "an output", &name, "an output with that name already exists"));
            }
        }
        self.cursor.expect_line_end()
    }

    /// Parses a name with its type, such as `%x: f32[3]`.
    pub(super) fn binder(&mut self, expected: &str) -> Result<Binder> {
        let site = self.cursor.site();
        let name = self.cursor.expect_value(expected)?;
        self.cursor.expect_mark(':')?;
        Ok(Binder { name, site, ty: tensor_type(&mut self.cursor)?, last: None })
    }

    /// Parses one or more names with their types, separated by commas. Each may have a `last` clause.
    pub(super) fn binders(&mut self, expected: &str) -> Result<Vec<Binder>> {
        let mut binders = Vec::new();
        while binders.is_empty() || self.cursor.take_mark(',') {
            let mut binder = self.binder(expected)?;
            if self.cursor.take_word("last") {
                binder.last = Some(self.cursor.expect_count("the number of last rows to return")?);
            }
            binders.push(binder);
        }
        Ok(binders)
    }

    /// Parses a list of values separated by commas. The list may be empty.
    pub(super) fn values(&mut self, names: &HashMap<String, ValueId>) -> Result<Vec<ValueId>> {
        let mut values = Vec::new();
        while matches!(self.cursor.peek(), Token::Value(_)) && values.is_empty() || self.cursor.take_mark(',') {
            values.push(self.value(names)?);
        }
        Ok(values)
    }

    /// Records the definition of a name. Fails if the function already uses the name.
    pub(super) fn define(&mut self, name: &str, site: Site) -> Result<()> {
        if self.defined.insert(name.to_string()) {
            return Ok(());
        }
        let rule = "a value with that name already exists in this function";
        Err(duplicate_name(site, "a value", &format!("%{name}"), rule))
    }

    /// Parses the name of a value that was defined earlier in this body.
    pub(super) fn value(&mut self, names: &HashMap<String, ValueId>) -> Result<ValueId> {
        let site = self.cursor.site();
        let name = self.cursor.expect_value("a value such as `%x`")?;
        self.defined(names, site, &name)
    }

    fn defined(&self, names: &HashMap<String, ValueId>, site: Site, name: &str) -> Result<ValueId> {
        names.get(name).copied().ok_or_else(|| {
            let expected = if self.defined.contains(name) {
                "a value of this body, which lists the outer values that it uses after `with`"
            } else {
                "a value that is already defined"
            };
            error_at(site, expected, format!("`%{name}`"))
        })
    }

    /// Parses one equation: a single line, or an op with bodies up to its closing brace. `expected` describes the
    /// tokens allowed here, for the error message.
    pub(super) fn equation(&mut self, body: &mut Body, expected: &str) -> Result<()> {
        let binders = match self.cursor.peek() {
            Token::Value(_) => {
                let binders = self.binders("a result such as `%0: f32[3]`")?;
                self.cursor.expect_mark('=')?;
                binders
            }
            // An equation that begins with an op's name has no results.
            Token::Name(_) => Vec::new(),
            _ => return Err(self.cursor.error(expected)),
        };
        let site = self.cursor.site();
        let spelling = if let Token::Name(name) = self.cursor.peek() { Spelling::of(name) } else { None };
        if spelling.is_none_or(|spelling| !spelling.has_inline_body()) {
            reject_last(&binders)?;
        }
        if let Some(spelling) = spelling {
            self.op_with_bodies(body, &binders, spelling)?;
        } else if self.cursor.at_word("constant") {
            self.constant(body, &binders, site)?;
        } else {
            self.op(body, &binders, site)?;
        }
        self.cursor.expect_line_end()
    }

    fn constant(&mut self, body: &mut Body, binders: &[Binder], site: Site) -> Result<()> {
        let [binder] = binders else {
            return Err(error_at(site, "one result of a constant", format!("{} results", binders.len())));
        };
        self.cursor.expect_word("constant")?;
        let value = Arc::new(parse_elements(&mut self.cursor, &binder.ty)?);
        self.define_all(binders)?;
        self.push(body, Constant { value }.into(), &[], binders, site)
    }

    fn op(&mut self, body: &mut Body, binders: &[Binder], site: Site) -> Result<()> {
        let mut names = Vec::new();
        let op = op_with_attributes(&mut self.cursor, |cursor| {
            while matches!(cursor.peek(), Token::Value(_)) || !names.is_empty() {
                names.push((cursor.site(), cursor.expect_value("an operand such as `%x`")?));
                if !cursor.take_mark(',') {
                    break;
                }
            }
            Ok(())
        })?;
        let operands = names.iter().map(|(site, name)| self.defined(&body.names, *site, name));
        let operands = operands.collect::<Result<Vec<_>>>()?;
        self.define_all(binders)?;
        self.push(body, op, &operands, binders, site)
    }

    pub(super) fn define_all(&mut self, binders: &[Binder]) -> Result<()> {
        binders.iter().try_for_each(|binder| self.define(&binder.name, binder.site))
    }

    /// Adds a node, and checks the declared types of its results.
    pub(super) fn push(
        &mut self,
        body: &mut Body,
        op: Op,
        operands: &[ValueId],
        binders: &[Binder],
        site: Site,
    ) -> Result<()> {
        let at = Place::new(op.name(), site);
        let with_excerpt = |error: Error, graph: &Graph| error.with_excerpt(|| excerpt(graph, &at.op, operands));
        let values = body.graph.push_node(op, operands, site).map_err(|error| with_excerpt(error, &body.graph))?;
        if values.len() != binders.len() {
            let (expected, found) = (format!("{} results", values.len()), format!("{} results", binders.len()));
            return Err(at.mismatch("the list of results", expected, found, "name every result with its type"));
        }
        for (binder, value) in binders.iter().zip(values) {
            let inferred = body.graph.ty(value);
            if *inferred != binder.ty {
                let at = Place::new(at.op.clone(), binder.site);
                let component = format!("the declared type of `%{}`", binder.name);
                let error = at.mismatch(component, inferred, &binder.ty, "declare the type that the op returns");
                return Err(with_excerpt(error, &body.graph));
            }
            if !is_number(&binder.name) {
                body.graph.set_value_name(value, &binder.name);
            }
            body.names.insert(binder.name.clone(), value);
        }
        Ok(())
    }
}

/// Checks that no binder has a `last` clause. Only the buffers of a loop may have one.
pub(super) fn reject_last(binders: &[Binder]) -> Result<()> {
    let Some(binder) = binders.iter().find(|binder| binder.last.is_some()) else { return Ok(()) };
    Err(error_at(binder.site, "`last` only on a buffer of a loop", format!("`%{}`", binder.name)))
}

/// Creates the error for a name that is used twice.
pub(super) fn duplicate_name(site: Site, component: &str, name: &str, rule: &str) -> Error {
    Error::Name {
        at: Place::new("parse", site).boxed(),
        component: component.to_string(),
        name: format!("`{name}`"),
        rule: rule.to_string(),
        fix: "use a new name".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    /// Checks that, for each damaged text, the parser returns either an error or a graph that round-trips through the
    /// text form.
    #[test]
    fn damaged_texts_do_not_panic() {
        let text = include_str!("mod.rs").replace("//!", "");
        let start = text.find("fn @sums").unwrap();
        let end = text.find("All ops with bodies").unwrap();
        let text: Vec<char> = text[start..end].replace("```", "").chars().collect();
        let read = |text: String| {
            if let Ok(graph) = parse(&text) {
                assert_eq!(parse(&graph.to_string()).unwrap().to_string(), graph.to_string());
                let _ = graph.check();
            }
        };
        parse(&text.iter().collect::<String>()).unwrap();
        for index in 0..text.len() {
            read(text[..index].iter().collect());
            read([&text[..index], &text[index + 1..]].concat().iter().collect());
            for other in ['0', '9', 'T', '%', '[', '}', '-', ',', '\n'] {
                read([&text[..index], &[other], &text[index + 1..]].concat().iter().collect());
                read([&text[..index], &[other], &text[index..]].concat().iter().collect());
            }
        }
        read("fn @f() {\n %0: f32[9999999999,9999999999] = constant []\n return\n}".into());
    }
}
