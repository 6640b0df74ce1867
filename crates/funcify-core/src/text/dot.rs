//! Exports a graph as a Graphviz digraph.

use crate::graph::print::attributes_text;
use crate::graph::{Graph, ValueId};
use crate::host::print_elements;
use crate::ops::{Op, OpRules};

/// The maximum number of characters that the elements of a constant may occupy in a label.
const ELEMENTS_WIDTH: usize = 40;

/// Returns the graph as Graphviz source. Each op becomes a node, labelled with its name and attributes. Each input
/// and output becomes a node, labelled with its name. Each use of a value becomes an edge, labelled with the type,
/// and each body becomes a cluster.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, to_dot};
///
/// let graph = Graph::build("exponential", |g| g.input("x", "f32[T]").exp())?;
/// assert!(to_dot(&graph).starts_with("digraph \"exponential\" {"));
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn to_dot(graph: &Graph) -> String {
    let mut dot = Dot { lines: vec![format!("digraph {} {{", quoted(graph.name()))] };
    dot.lines.push("  node [shape=box];".into());
    dot.body(graph, "n", 1);
    dot.lines.push("}".into());
    dot.lines.join("\n") + "\n"
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

struct Dot {
    lines: Vec<String>,
}

impl Dot {
    fn line(&mut self, depth: usize, text: String) {
        self.lines.push(format!("{}{text}", "  ".repeat(depth)));
    }

    /// Writes the nodes and edges of a body. `prefix` makes the names of the nodes unique across bodies.
    fn body(&mut self, graph: &Graph, prefix: &str, depth: usize) {
        let mut makers: std::collections::HashMap<ValueId, String> = Default::default();
        for (index, input) in graph.inputs().iter().enumerate() {
            let id = format!("{prefix}_in{index}");
            let name = graph.try_value_name(input.value).unwrap_or("?");
            self.line(depth, format!("{id} [label={}, shape=ellipse];", quoted(&format!("%{name}"))));
            makers.insert(input.value, id);
        }
        for (index, node) in graph.nodes().iter().enumerate() {
            let id = format!("{prefix}_{index}");
            self.line(depth, format!("{id} [label={}];", quoted(&label(&node.op))));
            for input in &node.inputs {
                self.edge(graph, depth, makers.get(input), *input, &id);
            }
            for output in &node.outputs {
                makers.insert(*output, id.clone());
            }
            let bodies = node.op.bodies();
            for (number, body) in bodies.iter().enumerate() {
                let id = if bodies.len() == 1 { id.clone() } else { format!("{id}_{number}") };
                self.line(depth, format!("subgraph cluster_{id} {{"));
                self.line(depth + 1, format!("label={};", quoted(&node.op.body_name(number))));
                self.body(body, &id, depth + 1);
                self.line(depth, "}".into());
            }
        }
        for (index, output) in graph.outputs().iter().enumerate() {
            let id = format!("{prefix}_out{index}");
            self.line(depth, format!("{id} [label={}, shape=ellipse];", quoted(&output.name)));
            self.edge(graph, depth, makers.get(&output.value), output.value, &id);
        }
    }

    fn edge(&mut self, graph: &Graph, depth: usize, from: Option<&String>, value: ValueId, to: &str) {
        let (Some(from), Some(ty)) = (from, graph.try_ty(value)) else { return };
        self.line(depth, format!("{from} -> {to} [label={}];", quoted(&ty.to_string())));
    }
}

fn label(op: &Op) -> String {
    match op {
        Op::Constant(constant) => {
            let elements = print_elements(&constant.value);
            let shown: String = elements.chars().take(ELEMENTS_WIDTH).collect();
            let rest = if shown.len() < elements.len() { ".." } else { "" };
            format!("constant {shown}{rest}")
        }
        op => {
            let attributes = op.bodied().map_or_else(|| op.attributes(), |op| op.form(&[]).attributes);
            format!("{}{}", op.name(), attributes_text(&attributes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::to_dot;
    use crate::Graph;

    #[test]
    fn ops_types_and_clusters() {
        let graph = Graph::build("sums", |g| {
            let xs = g.input("xs", "f32[T]");
            crate::scan(xs.sum(0), xs, |sum, x| (sum + x, ()))
        });
        let dot = to_dot(&graph.unwrap());
        for part in ["digraph \"sums\"", "reduce {kind=sum, axes=[0]}", "label=\"f32[T]\"", "subgraph cluster_n_1 {"] {
            assert!(dot.contains(part), "{part} in\n{dot}");
        }
        assert_eq!(dot.matches('{').count(), dot.matches('}').count());
    }
}
