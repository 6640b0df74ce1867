//! Replaces the symbols of a graph with sizes. Also renames the symbols that its loops bind, because the graph into
//! which its nodes are inserted may already bind the same symbols (graph-c7).

use std::borrow::Cow;
use std::sync::Arc;

use super::{Graph, fresh_symbol, tracer};
use crate::ops::{Op, OpRules, parse_op};
use crate::types::{Dim, Replacements, Shape, Symbol};

impl Graph {
    /// Returns a version of the graph in which fresh symbols replace all bound symbols that the open trace binds too.
    pub(crate) fn with_free_symbols(&self) -> Cow<'_, Graph> {
        let mut bound = self.bound_symbols();
        if !bound.is_empty() {
            let taken = tracer::bound_symbols();
            bound.retain(|symbol| taken.contains(symbol));
        }
        self.with_fresh(bound)
    }

    /// Returns a version of the graph in which all symbols that its nodes bind are replaced by fresh ones. This version
    /// can be inserted into a graph whose symbols are not known yet.
    #[doc(hidden)]
    pub fn with_fresh_symbols(&self) -> Cow<'_, Graph> {
        self.with_fresh(self.bound_symbols())
    }

    fn with_fresh(&self, symbols: Vec<Symbol>) -> Cow<'_, Graph> {
        if symbols.is_empty() {
            return Cow::Borrowed(self);
        }
        tracer::reserve_symbols(self);
        Cow::Owned(self.resized(&symbols.into_iter().map(|symbol| (symbol, Dim::symbol(&fresh_symbol()))).collect()))
    }

    /// Returns `true` if any node of the graph or of its bodies binds a symbol.
    #[doc(hidden)]
    pub fn binds_any(&self) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|node| node.op.binds().next().is_some() || node.op.bodies().into_iter().any(|body| body.binds_any()))
    }

    /// Returns the symbols that the nodes of the graph and of its bodies bind.
    #[doc(hidden)]
    pub fn bound_symbols(&self) -> Vec<Symbol> {
        let mut bound = Vec::new();
        for node in &self.nodes {
            bound.extend(node.op.binds().cloned());
            node.op.bodies().into_iter().for_each(|body| bound.extend(body.bound_symbols()));
        }
        bound.sort();
        bound.dedup();
        bound
    }

    /// Returns a copy of the graph with the symbols in `sizes` replaced by the dimensions that `sizes` assigns to them.
    /// A symbol that a loop binds can be replaced only by another symbol.
    #[doc(hidden)]
    pub fn resized(&self, sizes: &Replacements) -> Graph {
        let mut graph = self.clone();
        for info in &mut graph.values {
            info.ty.shape = Shape::new(info.ty.shape.dims().iter().map(|dim| dim.replaced(sizes)));
        }
        graph.nodes.iter_mut().for_each(|node| node.op = resized(&node.op, sizes));
        graph
    }
}

impl Op {
    /// Returns the op with the symbols in `sizes` replaced by their sizes. Loops in its bodies bind fresh symbols
    /// instead of their original ones.
    #[doc(hidden)]
    pub fn at_sizes(&self, sizes: &crate::types::Sizes) -> Op {
        let mut sizes: Replacements = sizes.iter().map(|(symbol, size)| (symbol.clone(), Dim::from(size))).collect();
        for symbol in self.bodies().into_iter().flat_map(|body| body.bound_symbols()) {
            sizes.insert(symbol, Dim::symbol(&fresh_symbol()));
        }
        resized(self, &sizes)
    }
}

fn resized(op: &Op, sizes: &Replacements) -> Op {
    let bodies = op.bodies().into_iter().map(|body| Arc::new(body.resized(sizes)));
    let op = op.with_bodies(bodies.collect());
    match op.bodied() {
        Some(bodied) => bodied.resized(sizes),
        None => resized_attributes(&op, sizes).unwrap_or(op),
    }
}

/// Returns the op with the symbols in `sizes` replaced in its attributes, or `None` if its attributes contain none of
/// them.
fn resized_attributes(op: &Op, sizes: &Replacements) -> Option<Op> {
    let has = |dim: &Dim| dim.symbols().into_iter().any(|symbol| sizes.contains_key(symbol));
    let mut attributes = op.attributes();
    if !attributes.iter().any(|(_, attribute)| attribute.dims().iter().any(has)) {
        return None;
    }
    attributes.map_dims(|dim| dim.replaced(sizes));
    // Parsing succeeds, because each op can parse the attributes that it prints.
    parse_op(op.name(), &mut attributes)?.ok()
}

#[cfg(test)]
mod tests {
    use crate::{
        DType, GradOptions, Graph, HostTensor, Recurrence, Value, VmapOptions, cond, evaluate, fori_loop, size,
    };

    /// Adds a loop with early exit to the open graph, and returns the sum of the rows of the loop's trace plus the
    /// number of these rows.
    fn counted(x: Value, limit: f64) -> Value {
        let mut loop_ = Recurrence::new();
        let state = loop_.sit_sot(x);
        let done = loop_.steps(4).run(|step| {
            let [old] = step.read(&state);
            let new = old * 1.5;
            step.write(&state, new);
            step.until(new.gt(limit));
        });
        let rows = done.trace(&state);
        rows.broadcast_to(rows.shape()).sum(0) + size(rows.dim(0), DType::F64)
    }

    /// Batches the gradient of a program with two `cond`s whose branches contain loops that bind symbols. The gradient
    /// contains each branch twice, and the batched program runs all branches.
    #[test]
    fn branches_on_lanes_bind_symbols_of_their_own() {
        let one = Graph::build("one", |g| {
            let x = g.input("x", "f64[]");
            let n = g.input("n", "i64[]");
            let raised = |x: Value| fori_loop(0, n, x, |_, x| x * x);
            let first = cond(x.gt(0.6), || raised(x), || raised(x * 0.5) + raised(x));
            first + cond(x.gt(0.4), || raised(x.sin()), || x)
        });
        let gradient = one.unwrap().grad(["x"], GradOptions::new()).unwrap();
        let lanes = gradient.vmap(3, VmapOptions::new().in_axes([Some(0), None])).unwrap();
        assert!(lanes.check().is_ok(), "{:?}", lanes.check());
        let xs = [0.3, 0.7, 1.2];
        let n = HostTensor::scalar(2i64);
        let one = |x: f64| evaluate(&gradient, &[HostTensor::scalar(x), n.clone()]).unwrap()[0].to_f64_vec()[0];
        let results = evaluate(&lanes, &[HostTensor::from(xs), n.clone()]).unwrap();
        assert_eq!(results[0], HostTensor::from(xs.map(one)));
    }

    /// Inlines a program three times into a larger one. The number of rows that the inlined loop returns occurs in
    /// types, in attributes and in a `size` op.
    #[test]
    fn a_program_is_put_into_another_twice() {
        let one = Graph::build("one", |g| counted(g.input("x", "f64[]"), 3.0)).unwrap();
        let twice = Graph::build("twice", |g| {
            let x = g.input("x", "f64[]");
            let inlined = |x: Value| crate::value::or_failed(crate::graph::inline(&one, &[x]), 1)[0];
            (inlined(x), inlined(x * 0.1), inlined(x))
        });
        let twice = twice.unwrap();
        assert!(twice.check().is_ok(), "{:?}\n{twice}", twice.check());
        let of = |x: f64| evaluate(&one, &[HostTensor::scalar(x)]).unwrap()[0].clone();
        assert_eq!(evaluate(&twice, &[HostTensor::scalar(2.0)]).unwrap(), [of(2.0), of(0.2), of(2.0)]);
    }

    /// Applies a graph to the trace of a loop with early exit. The graph itself also contains a loop with early exit,
    /// and both loops bind a symbol of the same name.
    #[test]
    fn a_size_that_a_loop_binds_is_not_that_of_the_graph_that_takes_it() {
        let one = Graph::build("one", |g| {
            let (xs, x) = (g.input("xs", "f64[N]"), g.input("x", "f64[]"));
            let rows = counted(x, 9.0);
            (xs.broadcast_to(xs.shape()) + size(xs.dim(0), DType::F64), rows)
        });
        let one = one.unwrap();
        let outer = Graph::build("outer", |g| {
            let [x, y] = ["x", "y"].map(|name| g.input(name, "f64[]"));
            let mut loop_ = Recurrence::new();
            let state = loop_.sit_sot(x);
            let done = loop_.steps(4).run(|step| {
                let [old] = step.read(&state);
                step.write(&state, old * 2.0);
                step.until((old * 2.0).gt(3.0));
            });
            one.apply(&[done.trace(&state), y])
        });
        let outer = outer.unwrap();
        assert!(outer.check().is_ok(), "{:?}\n{outer}", outer.check());
        let [x, y] = [1.0, 3.0].map(HostTensor::scalar);
        let results = evaluate(&outer, &[x, y.clone()]).unwrap();
        let rows = results[0].shape()[0] as f64;
        let xs: Vec<f64> = results[0].to_f64_vec().iter().map(|sum| sum - rows).collect();
        let xs = HostTensor::from_vec(xs.clone(), [xs.len()]).unwrap();
        assert_ne!(results[0].shape(), results[1].shape());
        assert_eq!(results, evaluate(&one, &[xs, y]).unwrap());
    }
}
