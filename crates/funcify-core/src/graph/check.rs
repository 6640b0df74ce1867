//! Checks the following invariants of a graph and of its bodies, and reports all violations:
//!
//! - **graph-c1** each value that a node, an input or an output refers to is in the graph, and so is each node that a
//!   value refers to.
//! - **graph-c2** each value has exactly one definition: the input or the node result that its source refers to.
//! - **graph-c3** a node uses only inputs of the graph and results of earlier nodes; each output is defined.
//! - **graph-c4** the type rule of each op accepts its operands and returns the types of its results.
//! - **graph-c5** the names of the graph, its inputs and its outputs are identifiers. The names of the inputs are
//!   distinct, and so are the names of the outputs. In a body, names may repeat, because its arguments and results
//!   are positional.
//! - **graph-c6** static inputs are integer scalars, and are inputs of the whole program, not of a body.
//! - **graph-c7** each symbol in the type of a value or in a loop's number of steps occurs in the type of an input, is
//!   bound by an earlier `bind_size`, or is bound to the number of steps of an earlier loop. If that number is an
//!   operand of the loop, the body of the loop can also use the symbol; otherwise, the number is known only after the
//!   loop has run. An op never binds a symbol that is already bound.
//! - **graph-c8** the bodies of every op satisfy all of these invariants.

use super::tracer::is_identifier;
use super::*;

pub(super) fn check(graph: &Graph) -> Vec<Error> {
    let types = graph.inputs.iter().filter_map(|input| graph.try_ty(input.value));
    let symbols = types.flat_map(symbols_of).cloned().collect();
    let mut checker = Checker { graph, context: String::new(), symbols, errors: Vec::new() };
    checker.run();
    checker.errors
}

fn symbols_of(ty: &TensorType) -> Vec<&Symbol> {
    ty.shape.dims().iter().flat_map(|dim| dim.symbols()).collect()
}

/// Returns the first symbol that violates graph-c7 because it is used but not bound. The graph must contain all values
/// that it refers to.
pub(super) fn unbound_symbol(graph: &Graph) -> Option<Symbol> {
    let symbols = graph.inputs.iter().flat_map(|input| symbols_of(graph.ty(input.value)));
    unbound_in(graph, symbols.cloned().collect())
}

fn unbound_in(graph: &Graph, mut symbols: BTreeSet<Symbol>) -> Option<Symbol> {
    let missing = |symbols: &BTreeSet<Symbol>, used: Vec<&Symbol>| {
        used.into_iter().find(|symbol| !symbols.contains(symbol)).cloned()
    };
    graph.nodes.iter().find_map(|node| {
        let sizes = node.op.sizes();
        symbols.extend(sizes.bound_before.cloned());
        let in_steps = sizes.dim.and_then(|(_, dim)| missing(&symbols, dim.symbols()));
        let in_bodies = || {
            node.op.bodies().into_iter().find_map(|body| {
                let mut params = body.inputs.iter();
                let in_params = params.find_map(|input| missing(&symbols, symbols_of(body.ty(input.value))));
                in_params.or_else(|| unbound_in(body, symbols.clone()))
            })
        };
        let found = in_steps.or_else(in_bodies);
        symbols.extend(sizes.bound_after.cloned());
        found.or_else(|| node.outputs.iter().find_map(|value| missing(&symbols, symbols_of(graph.ty(*value)))))
    })
}

struct Checker<'a> {
    graph: &'a Graph,
    /// The location of the checked body for error messages, such as ` in the body of node 3 (scan)`. Empty for the
    /// whole program.
    context: String,
    /// The symbols bound so far.
    symbols: BTreeSet<Symbol>,
    errors: Vec<Error>,
}

impl Checker<'_> {
    fn run(&mut self) {
        let graph = self.graph;
        self.names();
        let mut defined = vec![0usize; graph.values.len()];
        for (index, input) in graph.inputs.iter().enumerate() {
            self.input(index, input.value, input.is_static);
            self.define(&mut defined, &Place::new("input", Site::Unknown), input.value, Source::Input(index));
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            self.node(index, node, &mut defined);
        }
        let at = Place::new("output", Site::Unknown);
        for output in &graph.outputs {
            self.usage(&defined, &at, &format!("output `{}`", output.name), output.value);
        }
        for (index, value) in graph.values.iter().enumerate() {
            let at = Place::new("value", Site::Unknown);
            if let Source::Node(node, _) = value.source
                && node.index() >= graph.nodes.len()
            {
                let found = format!("node {}, but the graph has {} nodes", node.index(), graph.nodes.len());
                self.report(&at, "graph-c1", format!("the source of value {index}"), found);
            }
            if defined[index] == 0 {
                self.report(&at, "graph-c2", format!("value {index}"), "no definition".into());
            }
        }
    }

    fn report(&mut self, at: &Place, invariant: &str, component: String, found: String) {
        let component = format!("{component}{}", self.context);
        self.errors.push(Error::Invalid { at: at.boxed(), invariant: invariant.to_string(), component, found });
    }

    /// Checks that names are identifiers, and that input and output names are distinct (graph-c5).
    fn names(&mut self) {
        let graph = self.graph;
        let at = Place::new("names", Site::Unknown);
        let is_body = !self.context.is_empty();
        let may_be_absent = is_body && graph.name.is_empty();
        if !may_be_absent && !is_identifier(&graph.name) {
            self.report(&at, "graph-c5", "the name of the graph".into(), format!("`{}`", graph.name));
        }
        let inputs = graph.inputs.iter().map(|input| graph.try_value_name(input.value).unwrap_or_default());
        let outputs = graph.outputs.iter().map(|output| output.name.as_str());
        let groups: [(&str, Vec<&str>); 2] = [("input", inputs.collect()), ("output", outputs.collect())];
        for (kind, names) in groups {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for (index, name) in names.into_iter().enumerate() {
                if !is_identifier(name) {
                    self.report(&at, "graph-c5", format!("the name of {kind} {index}"), format!("`{name}`"));
                }
                let count = counts.entry(name).or_default();
                *count += 1;
                if *count == 2 && !is_body {
                    self.report(&at, "graph-c5", format!("{kind} {index}"), format!("a second {kind} named `{name}`"));
                }
            }
        }
    }

    /// Checks that a static input is an integer scalar and not an input of a body (graph-c6).
    fn input(&mut self, index: usize, value: ValueId, is_static: bool) {
        let Some(ty) = self.graph.try_ty(value).filter(|_| is_static) else { return };
        let at = Place::new("input", Site::Unknown);
        let component = format!("static input {index}");
        if !ty.dtype.is_int() || ty.rank() != 0 {
            self.report(&at, "graph-c6", component.clone(), format!("type {ty}"));
        }
        if !self.context.is_empty() {
            self.report(&at, "graph-c6", component, "an input of a body".into());
        }
    }

    /// Checks graph-c1 and graph-c2 at the definition of a value.
    fn define(&mut self, defined: &mut [usize], at: &Place, value: ValueId, source: Source) {
        let (index, count) = (value.index(), defined.len());
        let component = format!("value {index}");
        let Some(times) = defined.get_mut(index) else {
            let found = format!("a definition of it, but the graph has {count} values");
            return self.report(at, "graph-c1", component, found);
        };
        *times += 1;
        if *times > 1 {
            self.report(at, "graph-c2", component, "a second definition".into());
        } else if self.graph.values[index].source != source {
            let found = format!("a definition as {:?}, but the source {:?}", source, self.graph.values[index].source);
            self.report(at, "graph-c2", component, found);
        }
    }

    /// Checks graph-c1 and graph-c3 at a use of a value. Returns `true` if the use is allowed.
    fn usage(&mut self, defined: &[usize], at: &Place, component: &str, value: ValueId) -> bool {
        let index = value.index();
        let (invariant, found) = match defined.get(index) {
            Some(0) => ("graph-c3", format!("value {index}, which is not defined yet")),
            Some(_) => return true,
            None => ("graph-c1", format!("value {index}, but the graph has {} values", defined.len())),
        };
        self.report(at, invariant, component.to_string(), found);
        false
    }

    fn node(&mut self, index: usize, node: &Node, defined: &mut [usize]) {
        let at = node.place();
        let mut is_usable = true;
        for (operand, value) in node.inputs.iter().enumerate() {
            is_usable &= self.usage(defined, &at, &format!("operand {operand} of node {index}"), *value);
        }
        // graph-c7: an op must not bind a symbol that already has a size.
        for symbol in node.op.binds() {
            if self.symbols.contains(symbol) {
                let found = format!("the symbol `{symbol}`, which already has a size");
                self.report(&at, "graph-c7", format!("the symbol bound by node {index}"), found);
            }
        }
        let sizes = node.op.sizes();
        self.symbols.extend(sizes.bound_before.cloned());
        if let Some((what, dim)) = sizes.dim {
            self.bound(&at, &format!("{what} of node {index}"), dim.symbols());
        }
        let bodies = node.op.bodies();
        for (number, graph) in bodies.iter().enumerate() {
            // graph-c8: the same invariants hold in each body.
            let body = if bodies.len() == 1 { "the body".to_string() } else { format!("body {number}") };
            let context = format!(" in {body} of node {index} ({}){}", node.op.name(), self.context);
            let mut body = Checker { graph, context, symbols: self.symbols.clone(), errors: Vec::new() };
            for (index, input) in graph.inputs.iter().enumerate() {
                let symbols = graph.try_ty(input.value).map_or_else(Vec::new, symbols_of);
                body.bound(&at, &format!("the type of input {index}"), symbols);
            }
            body.run();
            self.errors.append(&mut body.errors);
        }
        // graph-c7: a symbol in `bound_after` gets its size only after the op has run, so the bodies cannot use it.
        self.symbols.extend(sizes.bound_after.cloned());
        if is_usable {
            self.types(index, node, &at);
        }
        for (number, value) in node.outputs.iter().enumerate() {
            self.define(defined, &at, *value, Source::Node(super::NodeId(index as u32), number));
            let symbols = self.graph.try_ty(*value).map_or_else(Vec::new, symbols_of);
            self.bound(&at, &format!("the type of result {number} of node {index}"), symbols);
        }
    }

    /// Checks that a node's results have the types that the type rule of its op returns (graph-c4).
    fn types(&mut self, index: usize, node: &Node, at: &Place) {
        let graph = self.graph;
        let operands: Vec<TensorType> = node.inputs.iter().filter_map(|value| graph.try_ty(*value)).cloned().collect();
        if !node.op.bodies().into_iter().all(|body| has_typed_ends(body)) {
            // The type rule reads the types of each body's inputs and outputs. A missing input or output violates
            // graph-c1, which is reported elsewhere.
            return;
        }
        let inferred = match node.op.infer(at, &operands) {
            Ok(inferred) => inferred,
            Err(error) => return self.errors.push(error.with_excerpt(|| graph.excerpt_before(index))),
        };
        if inferred.len() != node.outputs.len() {
            let found = format!("{} results, where the op returns {}", node.outputs.len(), inferred.len());
            self.report(at, "graph-c4", format!("node {index}"), found);
        }
        for (number, (value, ty)) in node.outputs.iter().zip(&inferred).enumerate() {
            if let Some(declared) = graph.try_ty(*value).filter(|declared| *declared != ty) {
                let found = format!("{declared}, where the op returns {ty}");
                self.report(at, "graph-c4", format!("the type of result {number} of node {index}"), found);
            }
        }
    }

    /// Checks that the given symbols are bound (graph-c7).
    fn bound(&mut self, at: &Place, component: &str, symbols: Vec<&Symbol>) {
        if let Some(symbol) = symbols.into_iter().find(|symbol| !self.symbols.contains(symbol)) {
            let found = format!("the symbol `{symbol}`, which has no size");
            self.report(at, "graph-c7", component.to_string(), found);
        }
    }
}

/// Returns `true` if all inputs and outputs of a body are values of the body, and therefore have types.
fn has_typed_ends(body: &Graph) -> bool {
    let inputs = body.inputs.iter().map(|input| input.value);
    let outputs = body.outputs.iter().map(|output| output.value);
    inputs.chain(outputs).all(|value| body.try_ty(value).is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Graph, NodeId, Source, ValueId};
    use crate::ops::Op;
    use crate::types::TensorType;

    fn sample() -> Graph {
        Graph::parse(
            "fn @sample(%x: f32[T], static %n: i64[]) {
               %a: f32[T] = sin %x
               %b: f32[T] = add %a, %x
               %last: f32[] = scan @body %n {steps=$1} {
                 seq %r: f32[] = %x[t]
                 carry %c: f32[] = %last from %s
                 %0: f32[] = add %c, %r
                 %last = %0
               }
               return last=%last, b=%b
             }"
            .replace("%last: f32[] =", "%s: f32[] = constant 0.0\n %last: f32[] =")
            .as_str(),
        )
        .unwrap()
    }

    fn check(breaks: impl FnOnce(&mut Graph), expected: &[&str]) {
        let mut graph = sample();
        breaks(&mut graph);
        let errors = graph.check().expect_err("the graph is broken");
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        for part in expected {
            assert!(texts.iter().any(|text| text.contains(part)), "no error says {part}:\n{}", texts.join("\n"));
        }
        let _ = graph.to_string();
    }

    fn body(graph: &mut Graph, breaks: impl FnOnce(&mut Graph)) {
        let Op::Scan(scan) = &mut graph.nodes[3].op else { panic!("node 3 is the loop") };
        breaks(Arc::make_mut(&mut scan.body));
    }

    fn ty(text: &str) -> TensorType {
        TensorType::parse(text).unwrap()
    }

    #[test]
    fn a_sound_graph_passes() {
        sample().check().unwrap();
    }

    #[test]
    fn c1_ids_out_of_range() {
        check(|g| g.nodes[1].inputs[0] = ValueId::new(99), &["graph-c1", "operand 0 of node 1", "value 99"]);
        check(|g| g.outputs[0].value = ValueId::new(99), &["graph-c1", "output `last`"]);
        check(|g| g.inputs[0].value = ValueId::new(99), &["graph-c1", "value 99"]);
        check(|g| g.nodes[0].outputs[0] = ValueId::new(99), &["graph-c1", "value 99"]);
        check(|g| g.values[2].source = Source::Node(NodeId(50), 0), &["graph-c1", "the source of value 2"]);
    }

    #[test]
    fn c2_definitions() {
        check(|g| g.nodes[1].outputs = g.nodes[0].outputs.clone(), &["a second definition", "no definition"]);
        check(|g| g.values[2].source = Source::Input(0), &["graph-c2", "value 2"]);
    }

    #[test]
    fn c3_use_before_definition() {
        check(|g| g.nodes.swap(0, 1), &["graph-c3", "operand 0 of node 0"]);
        check(|g| g.outputs[0].value = g.push_value(ty("f32[]"), None, Source::Input(0)), &["graph-c3", "output"]);
    }

    #[test]
    fn c4_types() {
        check(|g| g.values[2].ty = ty("f32[3]"), &["graph-c4", "f32[3], where the op returns f32[T]"]);
        check(|g| g.nodes[0].op = g.nodes[1].op.clone(), &["add: the operand list does not fit"]);
    }

    #[test]
    fn c5_names() {
        check(|g| g.name = "two words".into(), &["graph-c5", "`two words`"]);
        check(|g| g.outputs[1].name = "last".into(), &["a second output named `last`"]);
        check(|g| g.values[0].name = Some("n".into()), &["a second input named `n`"]);
        check(|g| g.values[0].name = None, &["the name of input 0"]);
        check(|g| g.outputs[1].name = "1".into(), &["the name of output 1"]);
    }

    #[test]
    fn c6_static_inputs() {
        check(|g| g.inputs[0].is_static = true, &["graph-c6", "type f32[T]"]);
        check(|g| body(g, |b| b.inputs[0].is_static = true), &["graph-c6", "an input of a body"]);
    }

    #[test]
    fn c7_symbols() {
        check(|g| g.values[2].ty = ty("f32[U]"), &["graph-c7", "`U`"]);
        let free_steps = |g: &mut Graph| {
            let Op::Scan(scan) = &mut g.nodes[3].op else { panic!("node 3 is the loop") };
            scan.steps_operand = false;
        };
        check(free_steps, &["graph-c7", "the number of steps of node 3", "`$1`"]);
        let twice = |g: &mut Graph| {
            let Op::Scan(scan) = &mut g.nodes[3].op else { panic!("node 3 is the loop") };
            scan.steps = "T".into();
        };
        check(twice, &["graph-c7", "the symbol bound by node 3", "`T`, which already has a size"]);
    }

    #[test]
    fn c8_bodies() {
        check(|g| body(g, |b| b.nodes[0].inputs[0] = ValueId::new(77)), &["graph-c1", "in the body of node 3 (scan)"]);
        check(|g| body(g, |b| b.outputs[0].value = ValueId::new(77)), &["graph-c1", "in the body of node 3 (scan)"]);
    }

    #[test]
    fn two_faults_give_two_errors() {
        let breaks = |g: &mut Graph| {
            g.values[2].ty = ty("f32[3]");
            g.outputs[1].name = "last".into();
        };
        check(breaks, &["graph-c4", "graph-c5"]);
    }
}
