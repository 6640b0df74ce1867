//! Builds the derivatives that have golden values in the manifest: `grad`, `jvp`, `hvp`, `grad3`.

use funcify::{Disconnected, Error, GradOptions, Graph};

/// A function that differentiates a program.
type Derivative = fn(&Graph) -> Result<Graph, Error>;

/// The derivatives, keyed by name. Each name is both a tensor group in the manifest and a category of cases.
pub(crate) const ALL: [(&str, Derivative); 4] = [("grad", grad), ("jvp", jvp), ("hvp", hvp), ("grad3", grad3)];

/// Returns a program that computes the gradients with respect to all float inputs. The cotangents of the outputs are
/// additional inputs, with the prefix `ct_`.
fn grad(graph: &Graph) -> Result<Graph, Error> {
    graph.vjp(.., GradOptions::new().disconnected(Disconnected::Zeros))
}

/// Returns a program that computes the directional derivatives with respect to all float inputs. The tangents are
/// additional inputs, with the prefix `tan_`.
fn jvp(graph: &Graph) -> Result<Graph, Error> {
    graph.jvp(..)
}

/// Returns a program that computes Hessian-vector products: the directional derivatives of the gradients along the
/// tangents, with fixed cotangents.
fn hvp(graph: &Graph) -> Result<Graph, Error> {
    differentiate_outputs(&grad(graph)?, "grad_", &float_inputs(graph))
}

/// Returns a program that computes the second directional derivatives of the gradients along the tangents.
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

/// Returns the keys that an input may have in the manifest: `in.x` for input `x`, `ct.y` for `ct_y`, and `tan.x` for
/// `tan_x`.
pub(crate) fn input_keys(name: &str) -> Vec<String> {
    keys(name, &[("", "in"), ("ct_", "ct"), ("tan_", "tan")])
}

/// Returns the keys that an output may have in the manifest: `out.y` for output `y`, `jvp.y` for `tan_y`, `grad.x` for
/// `grad_x`, `hvp.x` for `tan_grad_x`, and `grad3.x` for `tan_tan_grad_x`.
pub(crate) fn output_keys(name: &str) -> Vec<String> {
    keys(name, &[("", "out"), ("tan_", "jvp"), ("grad_", "grad"), ("tan_grad_", "hvp"), ("tan_tan_grad_", "grad3")])
}

/// Returns a key for each group whose prefix matches the start of the name. `groups` holds pairs of a prefix and a
/// group. Differentiation appends a number to names that are already taken, so a name that ends with `_2` also gets the
/// keys of the name without `_2`. These additional keys come last, in reverse order of the groups.
fn keys(name: &str, groups: &[(&str, &str)]) -> Vec<String> {
    let key = |name: &str, (prefix, group): &(&str, &str)| Some(format!("{group}.{}", name.strip_prefix(prefix)?));
    let mut keys: Vec<String> = groups.iter().filter_map(|group| key(name, group)).collect();
    if let Some(name) = name.strip_suffix("_2") {
        keys.extend(groups[1..].iter().rev().filter_map(|group| key(name, group)));
    }
    keys
}
