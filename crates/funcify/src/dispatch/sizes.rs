//! Binding the sizes of a call from the shapes of its arguments.

use crate::error::{Error, Place, Result};
use crate::graph::Graph;
use crate::types::{Dim, Sizes, TensorType};

/// Binds each symbol of the inputs' types from the types of a call's arguments, and checks that they agree.
///
/// A symbol is determined by a dimension that is linear in it once the others are known: `T` alone, `T+1`, `2*T`.
pub fn bind_sizes(at: &Place, graph: &Graph, arguments: &[TensorType]) -> Result<Sizes> {
    let inputs = graph.inputs().len();
    if arguments.len() != inputs {
        return Err(call_error(
            at,
            "the argument list",
            format!("{inputs} arguments"),
            format!("{} arguments", arguments.len()),
            "pass one tensor an input, in the order of the inputs",
        ));
    }
    let mut pending: Vec<(usize, Dim, i64)> = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        let expected = graph.input_type(index);
        if expected.dtype != argument.dtype || expected.rank() != argument.rank() {
            return Err(argument_error(at, graph, index, argument, "pass a tensor of that dtype and rank"));
        }
        for (dim, found) in expected.shape.dims().iter().zip(argument.shape.dims()) {
            let Some(size) = found.constant() else {
                return Err(argument_error(at, graph, index, argument, "pass a tensor whose sizes have 64 bits"));
            };
            pending.push((index, dim.clone(), size));
        }
    }
    let mut sizes = Sizes::new();
    loop {
        let before = pending.len();
        let mut left = Vec::new();
        for (index, dim, size) in pending {
            let known = dim.substitute(&sizes);
            match (known.constant(), known.solve(size)) {
                (Some(value), _) if value == size => {}
                (None, Some((symbol, value))) => sizes.set(&symbol, value as usize),
                (None, None) if known.symbols().len() > 1 => left.push((index, dim, size)),
                _ => {
                    let bound = sizes.iter().map(|(symbol, size)| format!("{symbol} = {size}")).collect::<Vec<_>>();
                    let fix = match bound.is_empty() {
                        true => "pass a tensor of that shape".to_string(),
                        false => format!("pass a tensor whose shape agrees with {}", bound.join(", ")),
                    };
                    return Err(argument_error(at, graph, index, &arguments[index], &fix));
                }
            }
        }
        pending = left;
        if pending.is_empty() || pending.len() == before {
            break;
        }
    }
    match pending.first() {
        None => Ok(sizes),
        Some((_, dim, _)) => {
            let symbol = dim.substitute(&sizes).symbols().into_iter().next().cloned();
            Err(crate::ops::unbound(at, &symbol.unwrap_or_else(|| crate::types::Symbol::new("?"))))
        }
    }
}

fn argument_error(at: &Place, graph: &Graph, index: usize, found: &TensorType, fix: &str) -> Error {
    let component = format!("argument {index} (`{}`)", graph.input_name(index));
    call_error(at, &component, graph.input_type(index).to_string(), found.to_string(), fix)
}

/// The error of an argument that does not fit.
pub(crate) fn call_error(at: &Place, component: &str, expected: String, found: String, fix: &str) -> Error {
    Error::Call { at: at.boxed(), component: component.to_string(), expected, found, fix: fix.to_string() }
}
