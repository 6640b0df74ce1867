//! The derivatives of the golden programs, which the manifest has values for: `grad`, `jvp`, `hvp`, `grad3`.

use funcify::{Disconnected, Error, GradOptions, Graph};

/// A derivative of a program, by the group of its values in the manifest.
type Derivative = fn(&Graph) -> Result<Graph, Error>;

/// Every derivative by its group, which is also the category of its cases.
pub(crate) const ALL: [(&str, Derivative); 4] = [("grad", grad), ("jvp", jvp), ("hvp", hvp), ("grad3", grad3)];

/// The gradients with respect to all float inputs, along the cotangents `ct`.
fn grad(graph: &Graph) -> Result<Graph, Error> {
    graph.vjp(.., GradOptions::new().disconnected(Disconnected::Zeros))
}

/// The derivatives along the tangents `tan` of all float inputs.
fn jvp(graph: &Graph) -> Result<Graph, Error> {
    graph.jvp(..)
}

/// The derivatives of the gradients along `tan`, the cotangents being fixed.
fn hvp(graph: &Graph) -> Result<Graph, Error> {
    of_outputs(&grad(graph)?, "grad_", &float_inputs(graph))
}

/// The second derivatives of the gradients along `tan`.
fn grad3(graph: &Graph) -> Result<Graph, Error> {
    of_outputs(&hvp(graph)?, "tan_grad_", &float_inputs(graph))
}

/// The derivatives of the outputs whose names begin like this.
fn of_outputs(graph: &Graph, prefix: &str, wrt: &[&str]) -> Result<Graph, Error> {
    let names = graph.outputs().iter().map(|output| output.name.as_str());
    let names: Vec<&str> = names.filter(|name| name.starts_with(prefix)).collect();
    graph.only(&names)?.jvp(wrt)
}

fn float_inputs(graph: &Graph) -> Vec<&str> {
    let floats = (0..graph.inputs().len()).filter(|index| graph.input_type(*index).dtype.is_float());
    floats.map(|index| graph.input_name(index)).collect()
}

/// What an input may be called in the manifest: `x` is `in.x`, `ct_y` is `ct.y`, `tan_x` is `tan.x`.
pub(crate) fn input_keys(name: &str) -> Vec<String> {
    keys(name, &[("", "in"), ("ct_", "ct"), ("tan_", "tan")])
}

/// What an output may be called in the manifest: `y` is `out.y`, `tan_y` is `jvp.y`, `grad_x` is `grad.x`, `tan_grad_x` is
/// `hvp.x`, `tan_tan_grad_x` is `grad3.x`.
pub(crate) fn output_keys(name: &str) -> Vec<String> {
    keys(name, &[("", "out"), ("tan_", "jvp"), ("grad_", "grad"), ("tan_grad_", "hvp"), ("tan_tan_grad_", "grad3")])
}

/// The name in each group whose prefix it has; then, the last group first, without the number that a derivative gives to
/// a name that is taken.
fn keys(name: &str, groups: &[(&str, &str)]) -> Vec<String> {
    let key = |name: &str, (prefix, group): &(&str, &str)| Some(format!("{group}.{}", name.strip_prefix(prefix)?));
    let mut keys: Vec<String> = groups.iter().filter_map(|group| key(name, group)).collect();
    if let Some(name) = name.strip_suffix("_2") {
        keys.extend(groups[1..].iter().rev().filter_map(|group| key(name, group)));
    }
    keys
}
