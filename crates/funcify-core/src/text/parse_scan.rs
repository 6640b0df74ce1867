//! Parsing a loop: its header, what the parameters of its body are, its equations, what a step writes.

use std::sync::Arc;

use super::parse::{Binder, Body, Parser, duplicate_name};
use crate::error::{Result, Site};
use crate::graph::{Graph, MAX_DEPTH, ValueId};
use crate::ops::Scan;
use crate::ops::scan::{Buffer, CheckpointPolicy, Returned, Sequence, Start, shown_shift};
use crate::types::grammar::dim;
use crate::types::lexer::{Token, error_at, is_number};
use crate::types::{Dim, Symbol};

/// The words that begin a line about the body's parameters, in the order of such lines.
const SECTIONS: [&str; 3] = ["seq", "a buffer", "carry"];

/// A loop that is being read.
#[derive(Default)]
struct ScanParts<'a> {
    /// The results, and so the buffers and then the carries.
    binders: &'a [Binder],
    /// The number of steps that run, which is the size of traces.
    length: Dim,
    until: Option<ValueId>,
    reverse: bool,
    /// The operands, in the order of the lines.
    operands: Vec<ValueId>,
    sequences: Vec<Sequence>,
    buffers: Vec<Buffer>,
    /// What each buffer's write lines say, in their order.
    writes: Vec<Vec<ValueId>>,
    /// The next value of each carry.
    next: Vec<Option<ValueId>>,
}

/// Reads a loop up to its closing brace and adds it to `outer`.
pub(super) fn scan(parser: &mut Parser, outer: &mut Body, binders: &[Binder], site: Site) -> Result<()> {
    if parser.depth == MAX_DEPTH {
        return Err(error_at(site, format!("at most {MAX_DEPTH} nested loops"), "one more"));
    }
    parser.define_all(binders)?;
    parser.cursor.expect_word("scan")?;
    let mut body = Body::new(&parser.function_name(&["for"])?);
    parser.cursor.expect_word("for")?;
    step_number(parser)?;
    parser.cursor.expect_word("in")?;
    if *parser.cursor.peek() != Token::Number("0".into()) || *parser.cursor.peek_at(1) != Token::Range {
        return Err(parser.cursor.error("`0..` and the number of steps"));
    }
    parser.cursor.bump();
    parser.cursor.bump();
    let steps = dim(&mut parser.cursor)?;
    let count = if parser.cursor.take_mark('=') { Some(parser.value(&outer.names)?) } else { None };
    let until = if parser.cursor.take_word("until") { Some(bound_symbol(parser)?) } else { None };
    let reverse = parser.cursor.take_word("down");
    let mut unroll = 1;
    if parser.cursor.take_word("unroll") {
        parser.cursor.expect_mark('=')?;
        unroll = parser.cursor.expect_count("how many steps to unroll")?;
    }
    if parser.cursor.at_word("residuals") {
        return Err(parser.cursor.renamed("policy"));
    }
    let policy = if parser.cursor.take_word("policy") { Some(policy(parser)?) } else { None };
    let mut truncate = None;
    if parser.cursor.take_word("truncate") {
        parser.cursor.expect_mark('=')?;
        truncate = Some(parser.cursor.expect_count("over how many steps to go back")?);
    }
    let invariants = if parser.cursor.take_word("with") { captured(parser, outer)? } else { Vec::new() };
    if !parser.cursor.take_mark('{') {
        let parts = "`until`, `down`, `unroll=`, `policy=`, `truncate=`, `with`";
        return Err(parser.cursor.error(format!("`{{`, or {parts} in this order")));
    }
    parser.cursor.expect_line_end()?;

    let mut parts = ScanParts {
        binders,
        length: until.as_ref().map_or(steps.clone(), Dim::symbol),
        reverse,
        operands: count.into_iter().collect(),
        ..ScanParts::default()
    };
    parts.heads(parser, outer, &mut body)?;
    parts.all_described()?;
    captured_params(&invariants, outer, &mut body);
    parser.depth += 1;
    while !parts.at_write(parser) && !parser.cursor.at_word("until") && *parser.cursor.peek() != Token::Mark('}') {
        parser.equation(&mut body, "an equation, a row that is written, or `}`")?;
    }
    parser.depth -= 1;
    parts.write_lines(parser, &body)?;
    if until.is_some() {
        parser.cursor.expect_word("until")?;
        parts.until = Some(parser.value(&body.names)?);
        parser.cursor.expect_line_end()?;
    }
    parts.outputs(parser, &mut body.graph)?;
    parser.cursor.expect_mark('}')?;

    let mut operands = parts.operands;
    operands.extend(invariants.iter().map(|(_, value)| *value));
    let scan = Scan {
        body: Arc::new(body.graph),
        steps,
        steps_operand: count.is_some(),
        until,
        reverse,
        sequences: parts.sequences,
        buffers: parts.buffers,
        carries: parts.next.len(),
        invariants: invariants.len(),
        unroll,
        policy,
        truncate,
    };
    parser.push(outer, scan.into(), &operands, binders, site)
}

/// `=save_all`, `=segments[256,32]`: what the loop keeps for its backward loop.
fn policy(parser: &mut Parser) -> Result<CheckpointPolicy> {
    const EXPECTED: &str = "`recompute`, `save_dots`, `save_costly`, `save_all`, `segments[..]` or `budget[..]`";
    parser.cursor.expect_mark('=')?;
    let site = parser.cursor.site();
    let name = parser.cursor.expect_name(EXPECTED)?;
    let mut numbers = Vec::new();
    if parser.cursor.take_mark('[') {
        while *parser.cursor.peek() != Token::Mark(']') {
            numbers.push(parser.cursor.expect_count("a whole number")?);
            if !parser.cursor.take_mark(',') {
                break;
            }
        }
        parser.cursor.expect_mark(']')?;
    }
    match (name.as_str(), numbers.as_slice()) {
        ("recompute", []) => Ok(CheckpointPolicy::Recompute),
        ("save_dots", []) => Ok(CheckpointPolicy::SaveDots),
        ("save_costly", []) => Ok(CheckpointPolicy::SaveCostly),
        ("save_all", []) => Ok(CheckpointPolicy::SaveAll),
        ("segments", [steps]) => Ok(CheckpointPolicy::Segments(*steps)),
        ("segments", steps) => Ok(CheckpointPolicy::Levels(steps.to_vec())),
        ("budget", [bytes]) => Ok(CheckpointPolicy::Budget(*bytes)),
        _ => Err(error_at(site, EXPECTED, format!("`{name}` with {} numbers", numbers.len()))),
    }
}

/// The symbol that the loop binds when it ends.
fn bound_symbol(parser: &mut Parser) -> Result<Symbol> {
    let site = parser.cursor.site();
    let length = dim(&mut parser.cursor)?;
    let expected = "the symbol that is the number of steps that ran, such as `$1`";
    length.as_symbol().cloned().ok_or_else(|| error_at(site, expected, format!("`{length}`")))
}

/// The names that a body uses for outer values, and those values.
pub(super) fn captured(parser: &mut Parser, outer: &Body) -> Result<Vec<(String, ValueId)>> {
    let mut invariants: Vec<(String, ValueId)> = Vec::new();
    loop {
        let site = parser.cursor.site();
        let Token::Value(mut name) = parser.cursor.peek().clone() else {
            return Err(parser.cursor.error("a value such as `%x`"));
        };
        let value = parser.value(&outer.names)?;
        if parser.cursor.take_word("as") {
            let site = parser.cursor.site();
            name = parser.cursor.expect_value("the value's name in the body")?;
            parser.define(&name, site)?;
        } else if invariants.iter().any(|(listed, _)| *listed == name) {
            return Err(duplicate_name(site, "an outer value", &format!("%{name}"), "it is listed twice without `as`"));
        }
        invariants.push((name, value));
        if !parser.cursor.take_mark(',') {
            return Ok(invariants);
        }
    }
}

/// Adds the parameters of a body that are outer values.
pub(super) fn captured_params(captured: &[(String, ValueId)], outer: &Body, body: &mut Body) {
    for (name, value) in captured {
        let fallback = format!("v{}", value.index());
        let param = if is_number(name) { &fallback } else { name };
        let param = body.graph.push_input(param, outer.graph.ty(*value).clone(), false);
        body.names.insert(name.clone(), param);
    }
}

/// What a line says that reads rows: where they come from, and which.
struct Reads {
    source: String,
    site: Site,
    binders: Vec<Binder>,
    taps: Vec<(i64, Site)>,
}

/// `%x: f32[], %y: f32[] = %xs[t], %xs[t+1]`, or the source alone.
fn reads(parser: &mut Parser) -> Result<Reads> {
    let site = parser.cursor.site();
    if *parser.cursor.peek_at(1) != Token::Mark(':') {
        let source = parser.cursor.expect_value("a row such as `%x: f32[3]`, or what has the rows")?;
        return Ok(Reads { source, site, binders: Vec::new(), taps: Vec::new() });
    }
    let binders = parser.binders("a row such as `%x: f32[3]`")?;
    if let Some(binder) = binders.iter().find(|binder| binder.returned != Returned::All) {
        return Err(error_at(binder.site, "`last` only on a result of the loop", format!("`%{}`", binder.name)));
    }
    parser.cursor.expect_mark('=')?;
    let site = parser.cursor.site();
    let (source, first) = tapped(parser)?;
    let mut taps = vec![first];
    while parser.cursor.take_mark(',') {
        let site = parser.cursor.site();
        let (other, tap) = tapped(parser)?;
        if other != source {
            return Err(error_at(site, format!("another row of `%{source}`"), format!("a row of `%{other}`")));
        }
        taps.push(tap);
    }
    if taps.len() != binders.len() {
        let found = format!("{} rows", taps.len());
        return Err(error_at(site, format!("as many rows as names: {}", binders.len()), found));
    }
    Ok(Reads { source, site, binders, taps })
}

/// `%xs[t+1]`: the name, the tap and its place.
fn tapped(parser: &mut Parser) -> Result<(String, (i64, Site))> {
    let source = parser.cursor.expect_value("a row such as `%xs[t]`")?;
    Ok((source, tap(parser)?))
}

/// `t`, which no other word stands for.
fn step_number(parser: &mut Parser) -> Result<()> {
    if parser.cursor.take_word("t") {
        return Ok(());
    }
    match parser.cursor.peek() {
        Token::Name(_) => Err(parser.cursor.error_with("`t`", "write `t`: the number of the step is always called so")),
        _ => Err(parser.cursor.error("`t`")),
    }
}

/// `[t+1]`
fn tap(parser: &mut Parser) -> Result<(i64, Site)> {
    parser.cursor.expect_mark('[')?;
    let site = parser.cursor.site();
    step_number(parser)?;
    let sign = if parser.cursor.take_mark('+') {
        1
    } else if parser.cursor.take_mark('-') {
        -1
    } else {
        0
    };
    let distance = if sign == 0 { 0 } else { parser.cursor.expect_count("a whole number of rows")? };
    parser.cursor.expect_mark(']')?;
    let distance = i64::try_from(distance).map_err(|_| error_at(site, "a smaller number of rows", distance))?;
    Ok((sign * distance, site))
}

/// The offset of a tap that is shown `shift` lower.
fn offset((tap, site): (i64, Site), shift: usize) -> Result<usize> {
    let offset = i64::try_from(shift).ok().and_then(|shift| tap.checked_add(shift));
    offset.and_then(|offset| usize::try_from(offset).ok()).ok_or_else(|| {
        let lowest = if shift == 0 { "t".to_string() } else { format!("t-{shift}") };
        error_at(site, format!("a row at `{lowest}` or after"), format!("`t{tap:+}`"))
    })
}

impl ScanParts<'_> {
    /// The lines that say what each parameter of the body is.
    fn heads(&mut self, parser: &mut Parser, outer: &Body, body: &mut Body) -> Result<()> {
        let mut section = 0;
        loop {
            let site = parser.cursor.site();
            let Token::Name(word) = parser.cursor.peek().clone() else { return Ok(()) };
            let now = match word.as_str() {
                "seq" => 0,
                "nit" | "sit" | "mit" if *parser.cursor.peek_at(1) == Token::Mark('-') => 1,
                "carry" => 2,
                _ => return Ok(()),
            };
            if now < section {
                let expected = "the lines in the order sequences, buffers, carries";
                return Err(error_at(site, expected, format!("{} after {}", SECTIONS[now], SECTIONS[section])));
            }
            section = now;
            parser.cursor.bump();
            match now {
                0 => self.sequence(parser, outer, body)?,
                1 => self.buffer(parser, outer, body, &word, site)?,
                _ => self.carry(parser, outer, body)?,
            }
            parser.cursor.expect_line_end()?;
        }
    }

    /// Checks that the lines describe every result.
    fn all_described(&self) -> Result<()> {
        let Some(binder) = self.binders.get(self.buffers.len() + self.next.len()) else { return Ok(()) };
        let found = format!("`%{}`, which no line describes", binder.name);
        Err(error_at(binder.site, "a line for each result, such as `carry ..`", found))
    }

    fn sequence(&mut self, parser: &mut Parser, outer: &Body, body: &mut Body) -> Result<()> {
        let reads = reads(parser)?;
        let source = outer.names.get(&reads.source).copied();
        let source = source.ok_or_else(|| {
            let expected = "a value of the enclosing body, defined before";
            error_at(reads.site, expected, format!("`%{}`", reads.source))
        })?;
        let offsets = reads.taps.iter().map(|tap| offset(*tap, 0)).collect::<Result<Vec<_>>>()?;
        self.operands.push(source);
        self.sequences.push(Sequence { reads: offsets });
        params(parser, body, reads.binders)
    }

    fn buffer(&mut self, parser: &mut Parser, outer: &Body, body: &mut Body, word: &str, site: Site) -> Result<()> {
        parser.cursor.expect_mark('-')?;
        let kind = format!("{word}-{}", parser.cursor.expect_name("`sot` or `mot`")?);
        let reads = reads(parser)?;
        let binder = self.result(self.buffers.len(), &reads.source, reads.site)?;
        let init = if parser.cursor.take_word("from") { Some(parser.value(&outer.names)?) } else { None };
        let given = init.map(|init| outer.graph.ty(init).shape.dims().first().cloned().unwrap_or_default());
        let start = start_of_kind(&kind, given.as_ref());
        let possible = self.possible_kinds(binder, given.as_ref());
        let start = start.filter(|_| possible.contains(&kind.as_str()));
        let Some(start) = start else {
            let initial = init
                .map_or("no initial rows".to_string(), |init| format!("initial rows of type {}", outer.graph.ty(init)));
            let expected = format!("`{}`, for a buffer of type {} with {initial}", possible.join("` or `"), binder.ty);
            return Err(error_at(site, expected, format!("`{kind}`")));
        };
        let mut buffer = Buffer { start, reads: Vec::new(), writes: Vec::new(), returned: binder.returned };
        let shift = shown_shift(self.reverse, &buffer);
        buffer.reads = reads.taps.iter().map(|tap| offset(*tap, shift)).collect::<Result<Vec<_>>>()?;
        self.operands.extend(init);
        self.buffers.push(buffer);
        self.writes.push(Vec::new());
        params(parser, body, reads.binders)
    }

    /// The kinds that a buffer with this result and so many initial rows can be.
    fn possible_kinds(&self, result: &Binder, given: Option<&Dim>) -> Vec<&'static str> {
        let Some(given) = given else { return vec!["nit-sot"] };
        let of_given = match given.constant() {
            Some(1) => Some("sit-sot"),
            Some(_) => Some("mit-sot"),
            None => None,
        };
        let Some(of_given) = of_given else { return vec!["mit-mot"] };
        let rows = result.ty.shape.dims().first();
        let is_full = rows == Some(given);
        let is_given = rows == Some(&(self.length.clone() + given));
        match (result.returned, is_full, is_given) {
            (Returned::All, true, false) => vec!["mit-mot"],
            (Returned::All, false, true) => vec![of_given],
            _ => vec![of_given, "mit-mot"],
        }
    }

    fn carry(&mut self, parser: &mut Parser, outer: &Body, body: &mut Body) -> Result<()> {
        let param = parser.binder("the carry, such as `%c: f32[3]`")?;
        parser.cursor.expect_mark('=')?;
        let site = parser.cursor.site();
        let name = parser.cursor.expect_value("the result that is the carry after the last step")?;
        let result = self.result(self.buffers.len() + self.next.len(), &name, site)?;
        if result.returned != Returned::All {
            return Err(error_at(result.site, "`last` only on a buffer", format!("carry `%{name}`")));
        }
        parser.cursor.expect_word("from")?;
        self.operands.push(parser.value(&outer.names)?);
        self.next.push(None);
        params(parser, body, vec![param])
    }

    /// The result of that number, which must have that name.
    fn result(&self, index: usize, name: &str, site: Site) -> Result<&Binder> {
        let found = format!("`%{name}`");
        match self.binders.get(index) {
            Some(binder) if binder.name == name => Ok(binder),
            Some(binder) => {
                let expected = format!("`%{}`: the lines come in the order of the loop's results", binder.name);
                Err(error_at(site, expected, found))
            }
            None => Err(error_at(site, format!("no more than the loop's {} results", self.binders.len()), found)),
        }
    }

    /// Whether a line that says what a step writes is next: `%ys[t] = %0` or `%c = %1`.
    fn at_write(&self, parser: &Parser) -> bool {
        matches!(parser.cursor.peek(), Token::Value(_))
            && matches!(parser.cursor.peek_at(1), Token::Mark('[') | Token::Mark('='))
    }

    fn write_lines(&mut self, parser: &mut Parser, body: &Body) -> Result<()> {
        while *parser.cursor.peek() != Token::Mark('}') && !parser.cursor.at_word("until") {
            let site = parser.cursor.site();
            if !self.at_write(parser) {
                return Err(parser.cursor.error("a row that is written, such as `%ys[t] = %0`, or `}`"));
            }
            let name = parser.cursor.expect_value("a result of the loop")?;
            let found = format!("`%{name}`");
            let Some(index) = self.binders.iter().position(|binder| binder.name == name) else {
                return Err(error_at(site, "a result of this loop", found));
            };
            if let Some(buffer) = self.buffers.get_mut(index) {
                if *parser.cursor.peek() != Token::Mark('[') {
                    return Err(parser.cursor.error("a row of the buffer, such as `[t]`"));
                }
                let shift = shown_shift(self.reverse, buffer);
                buffer.writes.push(offset(tap(parser)?, shift)?);
                parser.cursor.expect_mark('=')?;
                self.writes[index].push(parser.value(&body.names)?);
            } else {
                let next = self.next.get_mut(index - self.buffers.len());
                let next = next.ok_or_else(|| error_at(site, "a result that a line above describes", &found))?;
                parser.cursor.expect_mark('=')?;
                if next.replace(parser.value(&body.names)?).is_some() {
                    return Err(error_at(site, "the next carry once", found));
                }
            }
            parser.cursor.expect_line_end()?;
        }
        Ok(())
    }

    /// The results of the body: the rows written to each buffer, the next carries, whether the loop ends.
    fn outputs(&self, parser: &Parser, graph: &mut Graph) -> Result<()> {
        for (index, rows) in self.writes.iter().enumerate() {
            if rows.is_empty() {
                return Err(parser.cursor.error(format!("a row written to `%{}`", self.binders[index].name)));
            }
            for (number, row) in rows.iter().enumerate() {
                graph.push_output(&format!("w{index}_{number}"), *row);
            }
        }
        for (index, next) in self.next.iter().enumerate() {
            let name = &self.binders[self.buffers.len() + index].name;
            let next = next.ok_or_else(|| parser.cursor.error(format!("the next carry, `%{name} = ..`")))?;
            graph.push_output(&format!("carry{index}"), next);
        }
        self.until.iter().for_each(|until| graph.push_output("until", *until));
        Ok(())
    }
}

/// What the rows of a buffer of that kind are at the start; `None` if there is no such kind with so many rows.
fn start_of_kind(kind: &str, given: Option<&Dim>) -> Option<Start> {
    match (kind, given) {
        ("nit-sot", None) => Some(Start::Empty),
        ("mit-mot", Some(_)) => Some(Start::Full),
        ("sit-sot" | "mit-sot", Some(rows)) => Some(Start::Given(usize::try_from(rows.constant()?).ok()?)),
        _ => None,
    }
}

/// Adds parameters to a body.
pub(super) fn params(parser: &mut Parser, body: &mut Body, binders: Vec<Binder>) -> Result<()> {
    for binder in binders {
        if is_number(&binder.name) {
            let found = format!("`%{}`", binder.name);
            return Err(error_at(binder.site, "an identifier, for parameters have names", found));
        }
        parser.define(&binder.name, binder.site)?;
        let value = body.graph.push_input(&binder.name, binder.ty, false);
        body.names.insert(binder.name, value);
    }
    Ok(())
}
