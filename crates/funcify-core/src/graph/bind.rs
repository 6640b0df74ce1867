//! Binds the symbols of a graph's inputs: to integers when a program is called, and to dimensions when a graph is
//! applied within another program.

use super::*;

/// Binds the symbols in the input types to the sizes of a call's arguments, and checks that all sizes agree.
///
/// A dimension determines a symbol if it is linear in that symbol and contains no other unknown symbol. Examples are
/// `T`, `T+1` and `2*T`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::error::{Place, Site};
/// use funcify::graph::bind_sizes;
/// use funcify::{DType, Graph, Symbol, TensorType};
///
/// let graph = Graph::build("sums", |g| g.input("x", "f32[T,3]").sum(1))?;
/// let argument = TensorType::new(DType::F32, [5, 3]);
/// let sizes = bind_sizes(&Place::new("call", Site::caller()), &graph, &[argument])?;
/// assert_eq!(sizes.get(&Symbol::new("T")), Some(5));
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn bind_sizes(at: &Place, graph: &Graph, arguments: &[TensorType]) -> Result<Sizes> {
    let inputs = graph.inputs().len();
    if arguments.len() != inputs {
        let (expected, found) = (format!("{inputs} arguments"), format!("{} arguments", arguments.len()));
        let fix = "pass one tensor per input, in order";
        return Err(call_error(at, "the argument list", expected, found, fix));
    }
    let mut pending: Vec<(usize, Dim, i64)> = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        let expected = graph.input_type(index);
        if expected.dtype != argument.dtype || expected.rank() != argument.rank() {
            return Err(argument_error(at, graph, index, argument, "pass a tensor of that dtype and rank"));
        }
        for (dim, found) in expected.shape.dims().iter().zip(argument.shape.dims()) {
            let Some(size) = found.constant() else {
                return Err(argument_error(at, graph, index, argument, "pass a tensor whose sizes fit in 64 bits"));
            };
            pending.push((index, dim.clone(), size));
        }
    }
    let mut sizes = Sizes::new();
    let solved = solve(pending, |dim, size| {
        let known = dim.substitute(&sizes);
        match (known.constant(), known.solve(*size)) {
            (Some(value), _) if value == *size => Match::Equal,
            (None, Some((symbol, value))) => {
                sizes.set(&symbol, value as usize);
                Match::Equal
            }
            (None, None) if known.symbols().len() > 1 => Match::Undetermined,
            _ => Match::Different,
        }
    });
    match solved {
        Ok(()) => Ok(sizes),
        Err(SizeMismatch { index, undetermined: None }) => {
            let fix = size_fix("tensor", sizes.iter());
            Err(argument_error(at, graph, index, &arguments[index], &fix))
        }
        Err(SizeMismatch { undetermined: Some(dim), .. }) => {
            let symbol = dim.substitute(&sizes).symbols().into_iter().next().cloned();
            Err(crate::ops::unbound(at, &symbol.unwrap_or_else(|| Symbol::new("?"))))
        }
    }
}

/// The result of matching a dimension against its required size.
pub(super) enum Match {
    /// The dimension equals the size, possibly after binding its only unknown symbol.
    Equal,
    /// The dimension differs from the size.
    Different,
    /// The dimension has several unknown symbols, which other dimensions may determine.
    Undetermined,
}

/// An input with a dimension that differs from its required size, or with a symbol that no dimension determines.
pub(super) struct SizeMismatch {
    pub(super) index: usize,
    pub(super) undetermined: Option<Dim>,
}

/// Matches the dimensions of inputs against their required sizes. `step` matches one dimension, and binds the symbol
/// that it determines. Undetermined dimensions are matched again until none is left. Returns an error if a dimension
/// differs from its size, or if a pass over the undetermined dimensions makes no progress.
pub(super) fn solve<S>(
    mut pending: Vec<(usize, Dim, S)>,
    mut step: impl FnMut(&Dim, &S) -> Match,
) -> Result<(), SizeMismatch> {
    loop {
        let (before, mut left) = (pending.len(), Vec::new());
        for (index, dim, size) in pending {
            match step(&dim, &size) {
                Match::Equal => {}
                Match::Different => return Err(SizeMismatch { index, undetermined: None }),
                Match::Undetermined => left.push((index, dim, size)),
            }
        }
        pending = left;
        if pending.is_empty() {
            return Ok(());
        }
        if pending.len() == before {
            let (index, dim, _) = pending.swap_remove(0);
            return Err(SizeMismatch { index, undetermined: Some(dim) });
        }
    }
}

/// Formats the fix for a size mismatch, such as `pass a tensor whose shape agrees with T = 3`.
pub(super) fn size_fix<'a, S: fmt::Display>(what: &str, bound: impl Iterator<Item = (&'a Symbol, S)>) -> String {
    let bound: Vec<String> = bound.map(|(symbol, size)| format!("{symbol} = {size}")).collect();
    match bound.is_empty() {
        true => format!("pass a {what} of that shape"),
        false => format!("pass a {what} whose shape agrees with {}", bound.join(", ")),
    }
}

fn argument_error(at: &Place, graph: &Graph, index: usize, found: &TensorType, fix: &str) -> Error {
    let component = format!("argument {index} (`{}`)", graph.input_name(index));
    call_error(at, &component, graph.input_type(index).to_string(), found.to_string(), fix)
}

/// Creates the error for an argument that does not match its input.
pub fn call_error(at: &Place, component: &str, expected: String, found: String, fix: &str) -> Error {
    Error::Call { at: at.boxed(), component: component.to_string(), expected, found, fix: fix.to_string() }
}
