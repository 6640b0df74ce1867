//! The text form (`.fir`): printing, parsing, excerpts for errors, and Graphviz.

use crate::error::{Error, Place, Result, Site};
use crate::graph::{Graph, ValueId};
use crate::host::HostTensor;
use crate::ops::{Attribute, Attributes, Op, OpRules};
use crate::types::{DType, Dim, TensorType};

pub(crate) fn parse_type(text: &str) -> Result<TensorType, String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (dtype, rest) = text.split_once('[').ok_or("a type such as `f32[T,3]`")?;
    let dims = rest.strip_suffix(']').ok_or("`]`")?;
    let dtype = DType::from_name(dtype).ok_or("a dtype")?;
    let dims = if dims.is_empty() { vec![] } else { dims.split(',').map(parse_dim).collect::<Result<Vec<_>, _>>()? };
    Ok(TensorType::new(dtype, dims))
}

fn parse_dim(text: &str) -> Result<Dim, String> {
    let mut sum = Dim::from(0);
    let text = text.replace('-', "+-");
    for term in text.split('+').filter(|t| !t.is_empty()) {
        let (sign, term) = match term.strip_prefix('-') {
            Some(t) => (-1i64, t),
            None => (1, term),
        };
        let mut product = Dim::from(sign);
        for factor in term.split('*') {
            product = match factor.parse::<i64>() {
                Ok(n) => product * n,
                Err(_) => product * factor,
            };
        }
        sum = sum + product;
    }
    Ok(sum)
}

pub(crate) fn parse(_text: &str) -> Result<Graph> {
    Err(Error::Parse { at: Place::new("parse", Site::Unknown).boxed(), expected: "".into(), found: "".into() })
}

pub(crate) fn parse_op_text(text: &str) -> Result<Op, String> {
    let (name, rest) = text.split_once('{').unwrap_or((text, ""));
    let mut attributes = Attributes::new();
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in rest.trim_end_matches('}').chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
    }
    for part in parts.iter().filter(|p| !p.trim().is_empty()) {
        let (key, value) = part.split_once('=').ok_or("=")?;
        let value = value.trim();
        let value = match value.strip_prefix('[') {
            Some(list) => Attribute::List(
                list.trim_end_matches(']')
                    .split(',')
                    .filter(|p| !p.trim().is_empty())
                    .map(|p| parse_dim(p.trim()))
                    .collect::<Result<_, _>>()?,
            ),
            None => Attribute::Dim(parse_dim(value)?),
        };
        attributes.push(key.trim().to_string(), value);
    }
    crate::ops::parse_op(name.trim(), &mut attributes).ok_or("an op")?
}

pub(crate) fn print(graph: &Graph) -> String {
    let mut text = format!("fn @{}\n", graph.name());
    for node in graph.nodes() {
        text += &format!("{:?} = {} {:?} {:?}\n", node.outputs, node.op.name(), node.inputs, node.op.attributes());
    }
    text
}

pub(crate) fn excerpt(_graph: &Graph, op: &str, operands: &[ValueId]) -> Vec<String> {
    vec![format!("{op} {operands:?}")]
}

pub(crate) fn print_elements(tensor: &HostTensor) -> String {
    format!("{:?}", tensor.storage())
}

/// Graphviz.
pub fn to_dot(_graph: &Graph) -> String {
    String::new()
}
