//! Parsing the ops whose bodies are blocks that end with what they give: the branches of a choice, the
//! condition and the step of a conditional loop, the combination of an associative scan, a function with the graphs of
//! its derivative rule.

use std::sync::Arc;

use super::parse::{Binder, Body, Parser};
use super::parse_scan::{captured, captured_params, params};
use crate::error::{Result, Site};
use crate::graph::{Graph, MAX_DEPTH, ValueId};
use crate::ops::{AssociativeScan, Call, Rule, Switch, While};
use crate::types::grammar::dim;
use crate::types::lexer::{Token, error_at};

/// Reads a choice up to its closing brace and adds it to `outer`.
pub(super) fn switch(parser: &mut Parser, outer: &mut Body, binders: &[Binder], site: Site) -> Result<()> {
    parser.define_all(binders)?;
    parser.cursor.expect_word("switch")?;
    let mut operands = vec![parser.value(&outer.names)?];
    parser.cursor.expect_mark('{')?;
    parser.cursor.expect_line_end()?;
    let mut branches = Vec::new();
    while !parser.cursor.take_mark('}') {
        let site = parser.cursor.site();
        parser.cursor.expect_word("case")?;
        let number = parser.cursor.expect_count("the number of the branch")?;
        if number != branches.len() {
            return Err(error_at(site, format!("`case {}`", branches.len()), format!("`case {number}`")));
        }
        let (branch, captures) = block(parser, outer, false)?;
        branches.push(Arc::new(branch));
        operands.extend(captures);
    }
    parser.push(outer, Switch { branches }.into(), &operands, binders, site)
}

/// Reads a conditional loop up to its closing brace and adds it to `outer`.
pub(super) fn while_loop(parser: &mut Parser, outer: &mut Body, binders: &[Binder], site: Site) -> Result<()> {
    parser.define_all(binders)?;
    parser.cursor.expect_word("while")?;
    let mut operands = arguments_of(parser, outer)?;
    let bound = if parser.cursor.take_word("bound") { Some(dim(&mut parser.cursor)?) } else { None };
    parser.cursor.expect_mark('{')?;
    parser.cursor.expect_line_end()?;
    parser.cursor.expect_word("test")?;
    let (condition, of_condition) = block(parser, outer, true)?;
    parser.cursor.expect_word("step")?;
    let (body, of_body) = block(parser, outer, true)?;
    parser.cursor.expect_mark('}')?;
    operands.extend(of_condition);
    operands.extend(of_body);
    let op = While { condition: Arc::new(condition), body: Arc::new(body), bound };
    parser.push(outer, op.into(), &operands, binders, site)
}

/// Reads an associative scan up to its closing brace and adds it to `outer`.
pub(super) fn associative_scan(parser: &mut Parser, outer: &mut Body, binders: &[Binder], site: Site) -> Result<()> {
    parser.define_all(binders)?;
    parser.cursor.expect_word("associative_scan")?;
    let mut operands = vec![parser.value(&outer.names)?];
    while parser.cursor.take_mark(',') {
        operands.push(parser.value(&outer.names)?);
    }
    let leaves = operands.len();
    let reverse = parser.cursor.take_word("down");
    parser.cursor.expect_mark('{')?;
    parser.cursor.expect_line_end()?;
    parser.cursor.expect_word("combine")?;
    let (combine, captures) = block(parser, outer, true)?;
    parser.cursor.expect_mark('}')?;
    operands.extend(captures);
    let op = AssociativeScan { combine: Arc::new(combine), leaves, reverse };
    parser.push(outer, op.into(), &operands, binders, site)
}

/// Reads the call of a function with its derivative rule up to its closing brace and adds it to `outer`.
pub(super) fn call(parser: &mut Parser, outer: &mut Body, binders: &[Binder], site: Site) -> Result<()> {
    parser.define_all(binders)?;
    let is_vjp = parser.cursor.take_word("custom_vjp");
    if !is_vjp {
        parser.cursor.expect_word("custom_jvp")?;
    }
    let mut operands = arguments_of(parser, outer)?;
    let arguments = operands.len();
    parser.cursor.expect_mark('{')?;
    parser.cursor.expect_line_end()?;
    let mut graph = |parser: &mut Parser, word: &str| -> Result<Arc<Graph>> {
        parser.cursor.expect_word(word)?;
        let (graph, captures) = block(parser, outer, true)?;
        operands.extend(captures);
        Ok(Arc::new(graph))
    };
    let function = graph(parser, "function")?;
    parser.functions.push(function.clone());
    let rule = match is_vjp {
        true => Rule::Vjp { forward: graph(parser, "forward")?, backward: graph(parser, "backward")? },
        false => Rule::Jvp { tangent: graph(parser, "tangent")? },
    };
    parser.functions.pop();
    parser.cursor.expect_mark('}')?;
    parser.push(outer, Call { function, rule, arguments }.into(), &operands, binders, site)
}

/// Reads the call of a function in its own rule and adds it to `outer`.
pub(super) fn itself(parser: &mut Parser, outer: &mut Body, binders: &[Binder], site: Site) -> Result<()> {
    parser.define_all(binders)?;
    parser.cursor.expect_word("itself")?;
    let operands = arguments_of(parser, outer)?;
    let Some(function) = parser.functions.last().cloned() else {
        let found = "no `custom_vjp` or `custom_jvp` around it";
        return Err(error_at(site, "`itself` in the graphs of a rule only", found));
    };
    let call = Call { function, rule: Rule::Itself, arguments: operands.len() };
    parser.push(outer, call.into(), &operands, binders, site)
}

/// Values after one another, or none.
fn arguments_of(parser: &mut Parser, outer: &Body) -> Result<Vec<ValueId>> {
    let mut operands = Vec::new();
    while operands.is_empty() && matches!(parser.cursor.peek(), Token::Value(_)) || parser.cursor.take_mark(',') {
        operands.push(parser.value(&outer.names)?);
    }
    Ok(operands)
}

/// A body after its first words, `@name (%c: f32[]) with %x { .. give %1 }`, and what it captures.
fn block(parser: &mut Parser, outer: &Body, has_params: bool) -> Result<(Graph, Vec<ValueId>)> {
    let site = parser.cursor.site();
    if parser.depth == MAX_DEPTH {
        return Err(error_at(site, format!("at most {MAX_DEPTH} nested bodies"), "one more"));
    }
    let mut body = Body::new(&parser.function_name(&["(", "{", "with"])?);
    if has_params && parser.cursor.take_mark('(') {
        let binders = parser.binders("a parameter such as `%c: f32[3]`")?;
        parser.cursor.expect_mark(')')?;
        params(parser, &mut body, binders)?;
    }
    let captures = if parser.cursor.take_word("with") { captured(parser, outer)? } else { Vec::new() };
    captured_params(&captures, outer, &mut body);
    parser.cursor.expect_mark('{')?;
    parser.cursor.expect_line_end()?;
    parser.depth += 1;
    while !parser.cursor.at_word("give") {
        parser.equation(&mut body, "an equation or `give`")?;
    }
    parser.depth -= 1;
    parser.cursor.expect_word("give")?;
    while matches!(parser.cursor.peek(), Token::Value(_)) {
        let value = parser.value(&body.names)?;
        let name = format!("out_{}", body.graph.outputs().len());
        body.graph.push_output(&name, value);
        if !parser.cursor.take_mark(',') {
            break;
        }
    }
    parser.cursor.expect_line_end()?;
    parser.cursor.expect_mark('}')?;
    parser.cursor.expect_line_end()?;
    Ok((body.graph, captures.into_iter().map(|(_, value)| value).collect()))
}
