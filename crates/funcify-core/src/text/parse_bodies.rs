//! Parses ops with bodies, `NAME operands {attributes} { bodies }`. These ops share one grammar. Each op's spelling
//! supplies its keywords.

use std::sync::Arc;

use super::attributes::attributes;
use super::parse::{Body, Parser, check_known_attributes, duplicate_name, reject_last};
use crate::error::{Error, Result, Site};
use crate::graph::{MAX_DEPTH, ValueId};
use crate::ops::Attributes;
use crate::ops::form::{Binder, Bodies, Form, FormBody, Line, Reading, Source, Spelling, Tap, Write};
use crate::types::lexer::{Token, error_at, is_number};

impl Parser {
    /// Parses an op with bodies, up to its closing brace, and adds it to `outer`.
    pub(super) fn op_with_bodies(
        &mut self,
        outer: &mut Body,
        binders: &[Binder],
        spelling: &'static Spelling,
    ) -> Result<()> {
        let site = self.cursor.site();
        self.define_all(binders)?;
        self.cursor.bump();
        let name = if spelling.has_inline_body() { self.function_name(&["{", "with"])? } else { String::new() };
        let operands = self.values(&outer.names)?;
        let has_attributes = *self.cursor.peek() == Token::Mark('{') && *self.cursor.peek_at(1) != Token::NewLine;
        let attributes = if has_attributes { attributes(&mut self.cursor)? } else { Attributes::new() };
        check_known_attributes(site, spelling.name, &attributes, spelling.attributes)?;
        self.around.push((spelling, Vec::new()));
        if spelling.has_inline_body() {
            self.body(outer, binders, spelling, name)?;
        } else if !spelling.body_name(0).is_empty() {
            self.open_brace(spelling)?;
            for name in (0..).map(|number| spelling.body_name(number)).take_while(|name| !name.is_empty()) {
                if !self.cursor.take_phrase(&name) {
                    if matches!(spelling.bodies, Bodies::Numbered(_)) && *self.cursor.peek() == Token::Mark('}') {
                        break;
                    }
                    return Err(self.cursor.error(format!("`{}`", name.replace(' ', "` `"))));
                }
                let name = self.function_name(&["(", "{", "with"])?;
                self.body(outer, binders, spelling, name)?;
                self.cursor.expect_line_end()?;
            }
            self.cursor.expect_mark('}')?;
        }
        let bodies = self.around.pop().map_or(Vec::new(), |(_, bodies)| bodies);
        let mut form = Form { spelling, site, operands, attributes, last: Vec::new(), bodies };
        let reading = Reading { graph: &outer.graph, results: binders, around: &self.around };
        let (op, operands) = (spelling.make)(&mut form, &reading)?;
        self.push(outer, op, &operands, binders, site)
    }

    /// Parses the opening brace of an op or a body, and the end of its line.
    fn open_brace(&mut self, spelling: &Spelling) -> Result<()> {
        let opens = *self.cursor.peek() == Token::Mark('{') && *self.cursor.peek_at(1) == Token::NewLine;
        if !opens {
            return Err(self.wrong_head(spelling));
        }
        self.cursor.bump();
        self.cursor.expect_line_end()
    }

    /// Creates the error for an op or body whose first line does not end with an opening brace. Earlier versions of the
    /// syntax allowed such lines.
    fn wrong_head(&self, spelling: &Spelling) -> Error {
        let attributes = match spelling.attributes {
            [] => String::new(),
            keys => format!("`{{attributes}}` ({}) and ", keys.join(", ")),
        };
        let expected = format!("`{{`, or {attributes}`with` before it");
        self.cursor.error_with(expected, format!("write as in `{}`", spelling.example))
    }

    /// Parses the part of a body after its name, `(%c: f32[]) with %x { .. give %1 }`, and adds the body to the
    /// innermost open op.
    fn body(&mut self, outer: &Body, results: &[Binder], spelling: &Spelling, name: String) -> Result<()> {
        if self.around.len() > MAX_DEPTH {
            return Err(error_at(self.cursor.site(), format!("at most {MAX_DEPTH} nested bodies"), "one more"));
        }
        let mut body = Body::new(&name);
        if self.cursor.take_mark('(') {
            let binders = self.binders("a parameter such as `%c: f32[3]`")?;
            self.cursor.expect_mark(')')?;
            self.params(&mut body, binders)?;
        }
        let params = body.graph.inputs().len();
        let captured = if self.cursor.take_word("with") { self.captured(outer)? } else { Vec::new() };
        self.open_brace(spelling)?;
        let mut lines = Vec::new();
        let mut site = self.cursor.site();
        while let Some(role) = spelling.roles().iter().find(|role| self.cursor.take_phrase(role)) {
            lines.push(self.line(outer, results, &mut body, role, site)?);
            site = self.cursor.site();
        }
        for (name, value) in &captured {
            let fallback = format!("v{}", value.index());
            let param = if is_number(name) { &fallback } else { name };
            let param = body.graph.push_input(param, outer.graph.ty(*value).clone(), false);
            body.names.insert(name.clone(), param);
        }
        let (is_own, word) = (spelling.has_inline_body(), spelling.result_keyword());
        let expected = match is_own {
            true => "an equation, a write such as `%ys[t] = %0`, or `}`".to_string(),
            false => format!("an equation or `{word}`"),
        };
        while !self.cursor.at_word(word) && !(is_own && (self.at_write() || *self.cursor.peek() == Token::Mark('}'))) {
            self.equation(&mut body, &expected)?;
        }
        if let [.., role] = spelling.roles() {
            let described = lines.iter().filter(|line| matches!(line.source, Source::Result(_))).count();
            if let Some(Binder { name, site, .. }) = results.get(described) {
                let expected = format!("a line for each result, such as `{role} ..`");
                return Err(error_at(*site, expected, format!("`%{name}`, which no line describes")));
            }
        }
        let mut writes = Vec::new();
        while is_own && *self.cursor.peek() != Token::Mark('}') && !self.cursor.at_word(word) {
            writes.push(self.write(results, &body)?);
        }
        let mut unwritten_results = Vec::new();
        if self.cursor.take_word(word) {
            unwritten_results = self.values(&body.names)?;
            self.cursor.expect_line_end()?;
        }
        if !is_own {
            let outputs = unwritten_results.iter().enumerate();
            outputs.for_each(|(index, value)| body.graph.push_output(&format!("out_{index}"), *value));
        }
        let end = self.cursor.site();
        self.cursor.expect_mark('}')?;
        let captured = captured.into_iter().map(|(_, value)| value).collect();
        let body = FormBody { graph: Arc::new(body.graph), params, lines, captured, writes, unwritten_results, end };
        self.around.last_mut().expect("the op of this body is open").1.push(body);
        Ok(())
    }

    /// Parses the list of outer values that a body captures, such as `%x, %w as %w_1`. Returns each value with its name
    /// in the body.
    fn captured(&mut self, outer: &Body) -> Result<Vec<(String, ValueId)>> {
        let mut captured: Vec<(String, ValueId)> = Vec::new();
        loop {
            let site = self.cursor.site();
            let Token::Value(mut name) = self.cursor.peek().clone() else {
                return Err(self.cursor.error("a value such as `%x`"));
            };
            let value = self.value(&outer.names)?;
            if self.cursor.take_word("as") {
                let site = self.cursor.site();
                name = self.cursor.expect_value("the value's name in the body")?;
                self.define(&name, site)?;
            } else if captured.iter().any(|(listed, _)| *listed == name) {
                let rule = "it is listed twice without `as`";
                return Err(duplicate_name(site, "an outer value", &format!("%{name}"), rule));
            }
            captured.push((name, value));
            if !self.cursor.take_mark(',') {
                return Ok(captured);
            }
        }
    }

    /// Parses the line that declares one or more parameters of a body: `seq %a: f32[], %b: f32[] = %xs[t], %xs[t+1]`,
    /// or `mit-mot %m from %g`.
    fn line(
        &mut self,
        outer: &Body,
        results: &[Binder],
        body: &mut Body,
        role: &'static str,
        site: Site,
    ) -> Result<Line> {
        let mut binders = Vec::new();
        if *self.cursor.peek_at(1) == Token::Mark(':') {
            binders = self.binders("a parameter such as `%x: f32[3]`")?;
            self.cursor.expect_mark('=')?;
        }
        let named = self.source()?;
        let mut taps = if binders.is_empty() { Vec::new() } else { vec![self.tap()?] };
        while !binders.is_empty() && self.cursor.take_mark(',') {
            let (other, site) = self.source()?;
            if other != named.0 {
                let expected = format!("another row of `%{}`", named.0);
                return Err(error_at(site, expected, format!("a row of `%{other}`")));
            }
            taps.push(self.tap()?);
        }
        if taps.len() != binders.len() {
            let expected = format!("as many rows as names: {}", binders.len());
            return Err(error_at(named.1, expected, format!("{} rows", taps.len())));
        }
        let result = results.iter().position(|binder| binder.name == named.0).map(Source::Result);
        let source = result.or_else(|| outer.names.get(&named.0).copied().map(Source::Operand)).ok_or_else(|| {
            let expected = "a value of the enclosing body, defined before";
            error_at(named.1, expected, format!("`%{}`", named.0))
        })?;
        let from = if self.cursor.take_word("from") { Some(self.value(&outer.names)?) } else { None };
        self.cursor.expect_line_end()?;
        self.params(body, binders)?;
        Ok(Line { role, site, source, named, taps, from })
    }

    /// Parses the name of the value whose rows a line reads or writes. Returns the name and its location.
    fn source(&mut self) -> Result<(String, Site)> {
        let site = self.cursor.site();
        Ok((self.cursor.expect_value("a row such as `%xs[t]`, or a value such as `%xs`")?, site))
    }

    /// Parses an optional tap, such as `[t+1]`. If there is no tap, the `row` of the returned [`Tap`] is `None`.
    fn tap(&mut self) -> Result<Tap> {
        if !self.cursor.take_mark('[') {
            return Ok(Tap { row: None, site: self.cursor.site() });
        }
        let site = self.cursor.site();
        if !self.cursor.take_word("t") {
            let fix = match self.cursor.peek() {
                Token::Name(_) => "write `t`, which is always the name of the step's index",
                _ => "",
            };
            return Err(self.cursor.error_with("`t`", fix));
        }
        let sign = [('+', 1), ('-', -1)].into_iter().find(|(mark, _)| self.cursor.take_mark(*mark));
        let distance = if sign.is_some() { self.cursor.expect_count("a whole number of rows")? } else { 0 };
        let distance = i64::try_from(distance).map_err(|_| error_at(site, "a smaller number of rows", distance))?;
        self.cursor.expect_mark(']')?;
        Ok(Tap { row: Some(sign.map_or(0, |(_, sign)| sign * distance)), site })
    }

    /// Returns `true` if the next line is a write, such as `%ys[t] = %0` or `%c = %1`.
    fn at_write(&self) -> bool {
        matches!(self.cursor.peek(), Token::Value(_))
            && matches!(self.cursor.peek_at(1), Token::Mark('[') | Token::Mark('='))
    }

    /// Parses a write, such as `%ys[t] = %0`.
    fn write(&mut self, results: &[Binder], body: &Body) -> Result<Write> {
        if !self.at_write() {
            return Err(self.cursor.error("a write such as `%ys[t] = %0`, or `}`"));
        }
        let (name, site) = self.source()?;
        let result = results.iter().position(|binder| binder.name == name);
        let result = result.ok_or_else(|| error_at(site, "a result of this op", format!("`%{name}`")))?;
        let tap = self.tap()?;
        self.cursor.expect_mark('=')?;
        let value = self.value(&body.names)?;
        self.cursor.expect_line_end()?;
        Ok(Write { result, site, tap, value })
    }

    /// Adds parameters to a body.
    fn params(&mut self, body: &mut Body, binders: Vec<Binder>) -> Result<()> {
        reject_last(&binders)?;
        for binder in binders {
            if is_number(&binder.name) {
                let found = format!("`%{}`", binder.name);
                return Err(error_at(binder.site, "an identifier: parameters have names", found));
            }
            self.define(&binder.name, binder.site)?;
            let value = body.graph.push_input(&binder.name, binder.ty, false);
            body.names.insert(binder.name, value);
        }
        Ok(())
    }
}
