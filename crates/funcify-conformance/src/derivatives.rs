//! Builds the derivatives that have golden values in the manifest: `grad`, `jvp`, `hvp`, `grad3`.

use funcify::{Disconnected, Error, GradOptions, Graph};

/// A function that differentiates a program.
type Derivative = fn(&Graph) -> Result<Graph, Error>;

/// The derivatives, keyed by name. The name is both the tensor group in the manifest and the category of the cases.
pub(crate) const ALL: [(&str, Derivative); 4] = [("grad", grad), ("jvp", jvp), ("hvp", hvp), ("grad3", grad3)];

/// Returns a program that computes the gradients with respect to all float inputs, given the cotangents `ct`.
fn grad(graph: &Graph) -> Result<Graph, Error> {
    graph.vjp(.., GradOptions::new().disconnected(Disconnected::Zeros))
}

/// Returns a program that computes the directional derivatives along the tangents `tan`, with respect to all float
/// inputs.
fn jvp(graph: &Graph) -> Result<Graph, Error> {
    graph.jvp(..)
}

/// Returns a program that computes Hessian-vector products: the directional derivatives of the gradients along `tan`,
/// with fixed cotangents.
fn hvp(graph: &Graph) -> Result<Graph, Error> {
    differentiate_outputs(&grad(graph)?, "grad_", &float_inputs(graph))
}

/// Returns a program that computes the second directional derivatives of the gradients along `tan`.
fn grad3(graph: &Graph) -> Result<Graph, Error> {
    differentiate_outputs(&hvp(graph)?, "tan_grad_", &float_inputs(graph))
}

/// Returns a program that computes the directional derivatives of the outputs whose names start with `prefix`, with
/// respect to the inputs `wrt`.
fn differentiate_outputs(graph: &Graph, prefix: &str, wrt: &[&str]) -> Result<Graph, Error> {
    let names = graph.outputs().iter().map(|output| output.name.as_str());
    let names: Vec<&str> = names.filter(|name| name.starts_with(prefix)).collect();
    graph.with_only_outputs(&names)?.jvp(wrt)
}

fn float_inputs(graph: &Graph) -> Vec<&str> {
    let floats = (0..graph.inputs().len()).filter(|index| graph.input_type(*index).dtype.is_float());
    floats.map(|index| graph.input_name(index)).collect()
}

/// Returns the possible keys of an input in the manifest: input `x` is `in.x`, `ct_y` is `ct.y`, `tan_x` is `tan.x`.
pub(crate) fn input_keys(name: &str) -> Vec<String> {
    keys(name, &[("", "in"), ("ct_", "ct"), ("tan_", "tan")])
}

/// Returns the possible keys of an output in the manifest: output `y` is `out.y`, `tan_y` is `jvp.y`, `grad_x` is
/// `grad.x`, `tan_grad_x` is `hvp.x`, `tan_tan_grad_x` is `grad3.x`.
pub(crate) fn output_keys(name: &str) -> Vec<String> {
    keys(name, &[("", "out"), ("tan_", "jvp"), ("grad_", "grad"), ("tan_grad_", "hvp"), ("tan_tan_grad_", "grad3")])
}

/// Returns a key for each group whose prefix matches the name. `groups` holds pairs of a prefix and a group.
/// Differentiation appends a number to a name that is already taken. If the name ends with `_2`, the result therefore
/// also contains the keys of the name without `_2`, in reverse order of the groups.
fn keys(name: &str, groups: &[(&str, &str)]) -> Vec<String> {
    let key = |name: &str, (prefix, group): &(&str, &str)| Some(format!("{group}.{}", name.strip_prefix(prefix)?));
    let mut keys: Vec<String> = groups.iter().filter_map(|group| key(name, group)).collect();
    if let Some(name) = name.strip_suffix("_2") {
        keys.extend(groups[1..].iter().rev().filter_map(|group| key(name, group)));
    }
    keys
}
