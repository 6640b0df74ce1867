//! The trace that is being built: a stack of open bodies, kept for the thread.
//!
//! A [`Value`] is a small copyable name of a value in one of them. That keeps formulas free of references
//! and clones; in exchange the open trace is a thread-local. A value that outlives its body is recognised by its
//! home and refused.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rules::OpenRule;
use super::{Graph, MAX_DEPTH, Node, ValueId, print};
use crate::error::{Error, Place, Result, Site};
use crate::ops::{Op, OpRules};
use crate::tree::{self, Tree};
use crate::types::{Dim, Symbol, TensorType};
use crate::value::{Builder, Value};

thread_local! {
    static TRACES: RefCell<Vec<Trace>> = const { RefCell::new(Vec::new()) };
}

/// The home of the next body that any thread opens: a value may be sent to a thread in which it means nothing.
static NEXT_HOME: AtomicU64 = AtomicU64::new(1);

/// One graph being built, with the bodies of its loops that are open.
struct Trace {
    bodies: Vec<OpenBody>,
    /// The first failure; nothing is added after it.
    error: Option<Error>,
    /// How many symbols were made.
    fresh: usize,
    /// The sizes that differ between the lanes of a batched program: step counts of loops.
    by_lane: Vec<SizeByLane>,
    /// The line that what is added is for, if it is not the caller's: a rule adds ops for the line of the op that it
    /// is the rule of.
    site: Option<Site>,
}

/// A size that differs between lanes.
#[derive(Clone)]
pub(crate) struct SizeByLane {
    /// The symbol that has it in one lane.
    pub(crate) symbol: Symbol,
    /// The size in each lane, `i64[lanes]`.
    pub(crate) counts: Value,
    /// The largest of them.
    pub(crate) largest: Dim,
    /// What no lane has more of, if the loop has a largest number of steps.
    pub(crate) at_most: Option<Dim>,
}

/// A body that is open.
struct OpenBody {
    home: u64,
    graph: Graph,
    /// Values of the enclosing body and the parameters that they are in this one.
    captures: Vec<(ValueId, ValueId)>,
    /// The rule of which it is a graph.
    rule: Option<Rc<OpenRule>>,
}

impl OpenBody {
    fn new(name: &str) -> Self {
        let home = NEXT_HOME.fetch_add(1, Ordering::Relaxed);
        OpenBody { home, graph: Graph::new(name), captures: Vec::new(), rule: None }
    }
}

/// Closes what was opened when the user's closure ends, also when it panics.
struct Guard {
    traces: usize,
    bodies: usize,
}

impl Drop for Guard {
    fn drop(&mut self) {
        TRACES.with_borrow_mut(|traces| {
            traces.truncate(self.traces);
            if let Some(trace) = traces.last_mut() {
                trace.bodies.truncate(self.bodies);
            }
        });
    }
}

fn guard() -> Guard {
    TRACES.with_borrow(|traces| Guard {
        traces: traces.len(),
        bodies: traces.last().map_or(0, |trace| trace.bodies.len()),
    })
}

/// Traces `body` into a graph.
pub(crate) fn build<T: Tree>(name: &str, site: Site, body: impl FnOnce(&Builder) -> T) -> Result<Graph> {
    let _guard = guard();
    TRACES.with_borrow_mut(|traces| {
        traces.push(Trace {
            bodies: vec![OpenBody::new(name)],
            error: None,
            fresh: 0,
            by_lane: Vec::new(),
            site: None,
        });
    });
    let at = Place::new("build", site);
    if !is_identifier(name) {
        with_trace(|trace| trace.fail(name_error(&at, "the graph", name, "it is not an identifier")));
    }
    let home = with_trace(|trace| trace.bodies[0].home).unwrap_or_default();
    let outputs = tree::leaves(&body(&Builder { home }), "");
    let outputs: Vec<(String, Value)> = match outputs.as_slice() {
        [(name, value)] if name.is_empty() => vec![("out".to_string(), *value)],
        _ => (outputs.into_iter())
            .map(|(name, value)| {
                if name.starts_with(|c: char| c.is_ascii_digit()) {
                    (format!("out_{name}"), value)
                } else {
                    (name, value)
                }
            })
            .collect(),
    };
    let built = with_trace(|trace| {
        trace.add_outputs(&at, &outputs);
        match (trace.error.take(), trace.bodies.pop()) {
            (Some(error), _) => Err(error),
            (None, Some(body)) => Ok(body.graph),
            (None, None) => Ok(Graph::new(name)),
        }
    });
    built.unwrap_or_else(|| Ok(Graph::new(name)))
}

/// A body that was opened and waits for its results.
pub(crate) struct BodyTrace {
    guard: Guard,
    at: Place,
}

/// A body that was closed: the graph, and the enclosing values that its last parameters are.
pub(crate) struct ClosedBody {
    pub(crate) graph: Graph,
    pub(crate) captures: Vec<Value>,
}

impl BodyTrace {
    /// Opens a body with these parameters. After a failure the values are failed ones.
    pub(crate) fn open(at: &Place, name: &str, params: &[(String, TensorType)]) -> (BodyTrace, Vec<Value>) {
        let guard = guard();
        let values = with_trace(|trace| {
            // One more than there may be: a rule that calls its own function is told so first.
            if trace.bodies.len() > MAX_DEPTH + 1 {
                trace.fail(super::too_deep(at, trace.bodies.len()));
            }
            let mut body = OpenBody::new(name);
            let add = |(name, ty): &(String, TensorType)| {
                let id = body.graph.push_input(name, ty.clone(), false);
                Value::new(body.home, id)
            };
            let values = params.iter().map(add).collect();
            trace.bodies.push(body);
            values
        });
        let values = values.unwrap_or_else(|| vec![Value::failed(); params.len()]);
        (BodyTrace { guard, at: at.clone() }, values)
    }

    /// Closes the body with these results. `None` after a failure.
    pub(crate) fn close(self, outputs: &[(String, Value)]) -> Option<ClosedBody> {
        let closed = with_trace(|trace| {
            trace.add_outputs(&self.at, outputs);
            if trace.error.is_some() || trace.bodies.len() < 2 {
                return None;
            }
            let body = trace.bodies.pop()?;
            let home = trace.bodies.last()?.home;
            let captures = body.captures.iter().map(|(outer, _)| Value::new(home, *outer)).collect();
            Some(ClosedBody { graph: body.graph, captures })
        });
        drop(self.guard);
        closed.flatten()
    }
}

/// Traces a body: `body` is given the values of the parameters and gives the results by
/// name. Outer values that it uses are captured. None after a failure.
pub(crate) fn trace_body(
    op: &str,
    name: &str,
    params: &[(String, TensorType)],
    body: impl FnOnce(&[Value]) -> Vec<(String, Value)>,
) -> Option<ClosedBody> {
    let (trace, values) = BodyTrace::open(&Place::new(op, Site::Unknown), name, params);
    let outputs = body(&values);
    trace.close(&outputs)
}

/// Adds an op to the open body. After a failure, or if it fails, the only result is a failed value.
pub(crate) fn emit(op: impl Into<Op>, operands: &[Value], site: Site) -> Vec<Value> {
    let op = op.into();
    with_trace(|trace| trace.emit(op, operands, site)).flatten().unwrap_or_else(|| vec![Value::failed()])
}

/// Remembers a failure that a builder function found, and gives a failed value. `operands` are shown in its excerpt.
pub(crate) fn fail(op: &str, site: Site, operands: &[Value], error: impl FnOnce(&Place) -> Error) -> Value {
    let site = with_trace(|trace| trace.site).flatten().unwrap_or(site);
    // Made before the trace is borrowed: it may ask for the types of values.
    let error = error(&Place::new(op, site));
    with_trace(|trace| {
        let Some(body) = trace.bodies.last() else { return };
        let here = |value: &Value| value.parts().filter(|(home, _)| *home == body.home).map(|(_, id)| id);
        let ids: Vec<ValueId> = operands.iter().filter_map(here).collect();
        let error = error.with_excerpt(|| print::excerpt(&body.graph, op, &ids));
        trace.fail(error);
    });
    Value::failed()
}

/// Remembers that one of these operands cannot be used, if no op has failed before.
pub(crate) fn refuse(op: &str, site: Site, operands: &[Value]) {
    with_trace(|trace| trace.resolve_all(&Place::new(op, site), operands));
}

/// The type of a value; `None` if its op failed, or if its body is closed.
pub(crate) fn type_of(value: Value) -> Option<TensorType> {
    with_trace(|trace| {
        let (home, id) = value.parts()?;
        let body = trace.bodies.iter().find(|body| body.home == home)?;
        Some(body.graph.ty(id).clone())
    })
    .flatten()
}

/// Whether the graph that is being built has that home.
pub(crate) fn is_building(home: u64) -> bool {
    with_trace(|trace| trace.bodies[0].home == home).unwrap_or(false)
}

/// Adds an input to the graph.
pub(crate) fn input(name: &str, ty: TensorType, is_static: bool, site: Site) -> Value {
    let value = with_trace(|trace| {
        let at = Place::new("input", site);
        if trace.bodies.len() != 1 {
            trace.fail(Error::Name {
                at: at.boxed(),
                component: "an input".into(),
                name: format!("`{name}`"),
                rule: "inputs are declared outside the bodies of loops".into(),
                fix: "declare it before the loop; the body captures it".into(),
            });
            return Value::failed();
        }
        let graph = &trace.bodies[0].graph;
        let taken = (0..graph.inputs().len()).any(|index| graph.input_name(index) == name);
        if taken || !is_identifier(name) {
            let rule = if taken { "an input of that name exists" } else { "it is not an identifier" };
            trace.fail(name_error(&at, "an input", name, rule));
            return Value::failed();
        }
        if let Err(error) = super::sizes::check_type(&format!("the type of input `{name}`"), &ty, &at) {
            trace.fail(error);
            return Value::failed();
        }
        let body = &mut trace.bodies[0];
        Value::new(body.home, body.graph.push_input(name, ty, is_static))
    });
    value.unwrap_or_else(Value::failed)
}

/// Whether something has failed in the open trace: nothing is added any more, so the results of ops have no types.
pub(crate) fn has_failed() -> bool {
    with_trace(|trace| trace.error.is_some()).unwrap_or(false)
}

/// Whether the graph that is being built has an input of that name.
pub(crate) fn has_input(name: &str) -> bool {
    let found = with_trace(|trace| {
        let graph = &trace.bodies[0].graph;
        (0..graph.inputs().len()).any(|index| graph.input_name(index) == name)
    });
    found.unwrap_or(false)
}

/// Gives a value a name for the text form.
pub(crate) fn set_name(value: Value, name: &str, site: Site) {
    with_trace(|trace| {
        if !is_identifier(name) {
            let at = Place::new("named", site);
            trace.fail(name_error(&at, "a value", name, "it is not an identifier"));
        }
        let Some((home, id)) = value.parts() else { return };
        if let Some(body) = trace.bodies.iter_mut().find(|body| body.home == home) {
            body.graph.set_value_name(id, name);
        }
    });
}

/// Gives a value a name, unless it has one.
pub(crate) fn keep_name(value: Value, name: &str) {
    with_trace(|trace| {
        let Some((home, id)) = value.parts() else { return };
        let body = trace.bodies.iter_mut().find(|body| body.home == home);
        if let Some(body) = body.filter(|body| body.graph.value_name(id).is_none()) {
            body.graph.set_value_name(id, name);
        }
    });
}

/// Gives the results of a node the names that they have in its graph, unless they have one.
pub(crate) fn keep_names(graph: &Graph, node: &Node, results: impl IntoIterator<Item = Value>) {
    for (output, result) in node.outputs.iter().zip(results) {
        if let Some(name) = graph.value_name(*output) {
            keep_name(result, name);
        }
    }
}

/// Lets [`fresh_symbol`] make none that a graph has.
pub(crate) fn reserve_symbols(graph: &Graph) {
    let mut symbols = Vec::new();
    graph.visit_symbols(&mut |symbol| symbols.push(symbol.clone()));
    let numbers = symbols.iter().filter_map(|symbol| symbol.name().strip_prefix('$')?.parse::<usize>().ok());
    if let Some(largest) = numbers.max() {
        with_trace(|trace| trace.fresh = trace.fresh.max(largest));
    }
}

/// A symbol that no other part of the trace uses.
pub(crate) fn fresh_symbol() -> Symbol {
    let number = with_trace(|trace| {
        trace.fresh += 1;
        trace.fresh
    });
    Symbol::new(&format!("${}", number.unwrap_or(0)))
}

/// The symbols that loops in the open bodies bind.
pub(super) fn bound_symbols() -> Vec<Symbol> {
    let bound = with_trace(|trace| {
        let nodes = trace.bodies.iter().flat_map(|body| body.graph.nodes());
        nodes.flat_map(|node| node.op.binds()).cloned().collect()
    });
    bound.unwrap_or_default()
}

/// Remembers that the size of a symbol differs between lanes.
pub(crate) fn add_size_by_lane(size: SizeByLane) {
    with_trace(|trace| {
        trace.by_lane.retain(|other| other.symbol != size.symbol);
        trace.by_lane.push(size);
    });
}

/// Forgets it: a loop gives the symbol another size.
pub(crate) fn remove_size_by_lane(symbol: &Symbol) {
    with_trace(|trace| trace.by_lane.retain(|size| size.symbol != *symbol));
}

/// How many bodies are open.
pub(crate) fn depth() -> usize {
    with_trace(|trace| trace.bodies.len()).unwrap_or(0)
}

/// Says of which rule the innermost body is a graph.
pub(crate) fn set_rule(rule: &Rc<OpenRule>) {
    with_trace(|trace| {
        if let Some(body) = trace.bodies.last_mut() {
            body.rule = Some(rule.clone());
        }
    });
}

/// The innermost rule of which a graph is open.
pub(crate) fn open_rule() -> Option<Rc<OpenRule>> {
    with_trace(|trace| trace.bodies.iter().rev().find_map(|body| body.rule.clone())).flatten()
}

/// The sizes that differ between lanes.
pub(crate) fn sizes_by_lane() -> Vec<SizeByLane> {
    with_trace(|trace| trace.by_lane.clone()).unwrap_or_default()
}

/// Runs `f`; the ops that it adds are for the line `site`: what imports a program of another library names the line of
/// its user, not its own.
pub fn at_site<R>(site: Site, f: impl FnOnce() -> R) -> R {
    let outer = with_trace(|trace| trace.site.replace(site)).flatten();
    let result = f();
    with_trace(|trace| trace.site = outer);
    result
}

fn with_trace<R>(f: impl FnOnce(&mut Trace) -> R) -> Option<R> {
    TRACES.with_borrow_mut(|traces| traces.last_mut().map(f))
}

impl Trace {
    fn fail(&mut self, error: Error) {
        if self.error.is_none() {
            self.error = Some(error);
        }
    }

    fn emit(&mut self, op: Op, operands: &[Value], site: Site) -> Option<Vec<Value>> {
        let site = self.site.unwrap_or(site);
        let at = Place::new(op.name(), site);
        #[cfg(test)]
        if failing::is_due() {
            self.fail(name_error(&at, "an op", op.name(), "it is to fail"));
        }
        let ids = self.resolve_all(&at, operands)?;
        let body = self.bodies.last_mut()?;
        let home = body.home;
        let name = op.name();
        match body.graph.push_node(op, &ids, site) {
            Ok(outputs) => Some(outputs.into_iter().map(|id| Value::new(home, id)).collect()),
            Err(error) => {
                let graph = &body.graph;
                let error = error.with_excerpt(|| print::excerpt(graph, name, &ids));
                self.fail(error);
                None
            }
        }
    }

    fn add_outputs(&mut self, at: &Place, outputs: &[(String, Value)]) {
        let values: Vec<Value> = outputs.iter().map(|(_, value)| *value).collect();
        let Some(ids) = self.resolve_all(at, &values) else { return };
        for (index, ((name, _), id)) in outputs.iter().zip(ids).enumerate() {
            if !is_identifier(name) {
                return self.fail(name_error(at, "an output", name, "it is not an identifier"));
            }
            if self.bodies.len() == 1 && outputs[..index].iter().any(|(other, _)| other == name) {
                return self.fail(name_error(at, "an output", name, "another output has that name"));
            }
            if let Some(body) = self.bodies.last_mut() {
                body.graph.push_output(name, id);
            }
        }
    }

    /// The ids that values have in the innermost body, captured if need be. `None` after a failure.
    fn resolve_all(&mut self, at: &Place, values: &[Value]) -> Option<Vec<ValueId>> {
        if self.error.is_some() {
            return None;
        }
        let mut ids = Vec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            let resolved = value.parts().and_then(|(home, id)| {
                let level = self.bodies.iter().position(|body| body.home == home)?;
                Some(self.capture(level, id))
            });
            match resolved {
                Some(id) => ids.push(id),
                None => {
                    let body = self.bodies.last();
                    let excerpt = || body.map_or(Vec::new(), |body| print::excerpt(&body.graph, &at.op, &ids));
                    let error = escaped(at, index).with_excerpt(excerpt);
                    self.fail(error);
                    return None;
                }
            }
        }
        Some(ids)
    }

    /// The id in the innermost body of a value of body `level`: each body between takes it as a parameter.
    fn capture(&mut self, level: usize, mut id: ValueId) -> ValueId {
        for inner in level + 1..self.bodies.len() {
            let (outer, rest) = self.bodies.split_at_mut(inner);
            let (outer, body) = (&outer[inner - 1].graph, &mut rest[0]);
            let known = body.captures.iter().find(|(captured, _)| *captured == id).map(|(_, param)| *param);
            id = known.unwrap_or_else(|| {
                let name = outer.value_name(id).map_or_else(|| format!("v{}", id.index()), str::to_string);
                let param = body.graph.push_input(&name, outer.ty(id).clone(), false);
                body.captures.push((id, param));
                param
            });
        }
        id
    }
}

fn escaped(at: &Place, index: usize) -> Error {
    Error::Escaped {
        at: at.boxed(),
        component: format!("operand {index}"),
        home: "a graph or a loop body that is finished, or not begun".into(),
        fix: "return the value from the body as a carry or a y, and use what the loop returns".into(),
    }
}

fn name_error(at: &Place, component: &str, name: &str, rule: &str) -> Error {
    Error::Name {
        at: at.boxed(),
        component: component.to_string(),
        name: format!("`{name}`"),
        rule: rule.to_string(),
        fix: "use a new name of letters, digits and `_` that does not begin with a digit".into(),
    }
}

/// Whether a name can stand in the text form.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Ops that fail when a test says so, wherever they are added.
#[cfg(test)]
pub(crate) mod failing {
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Whether the op that is added now is to fail.
    pub(super) fn is_due() -> bool {
        let left = LEFT.get();
        LEFT.set(left.and_then(|left| left.checked_sub(1)));
        left == Some(0)
    }

    /// Builds again and again, and lets each op fail once: that is an error and no panic.
    pub(crate) fn check<R>(build: impl Fn() -> crate::error::Result<R>) {
        for number in 0.. {
            LEFT.set(Some(number));
            let built = build();
            let is_over = LEFT.take().is_some();
            assert!(built.is_err() || is_over, "op {number} failed, and the program was built");
            if is_over {
                return;
            }
        }
    }
}
