//! Records graphs on a thread-local stack of open graphs, each with its open bodies.
//!
//! A [`Value`] is a small handle to a value in one of the bodies. Handles are `Copy`, so formulas need neither
//! references nor clones. The open graph is thread-local because a handle does not refer to it. Each handle contains
//! the unique number of its body (its home), so the trace can detect and reject the use of a value whose body is
//! closed.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rules::OpenRule;
use super::*;
use crate::cancel::{Progress, check_cancelled};
use crate::handle::Failed;
use crate::tree;

thread_local! {
    static TRACES: RefCell<Vec<Trace>> = const { RefCell::new(Vec::new()) };
}

/// The number of the next body that is opened on any thread. The numbers must be unique across threads, because a value
/// may be sent to a thread where it is invalid.
static NEXT_HOME: AtomicU64 = AtomicU64::new(1);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let site = with_trace(|trace| trace.site).flatten();
        record_error(error.with_site(site.unwrap_or(Site::Unknown)), &[])
    }
}

/// A graph that is being traced, with its open bodies.
struct Trace {
    bodies: Vec<OpenBody>,
    /// The first error, if any. No ops are added after an error.
    error: Option<Error>,
    /// The number of fresh symbols created so far.
    fresh: usize,
    /// The sizes that differ between the lanes of a batched program, such as step counts.
    by_lane: Vec<SizeByLane>,
    /// Masks of type `bool[lanes]`. The ops being added run only in the lanes where all masks are `true`.
    lane_masks: Vec<Value>,
    /// The site of the ops being added, if it is not the caller's. For example, the ops that a derivative rule adds
    /// have the site of the differentiated op.
    site: Option<Site>,
}

/// A size that differs between lanes.
#[derive(Clone)]
pub(crate) struct SizeByLane {
    /// The symbol that represents the size in a single lane.
    pub(crate) symbol: Symbol,
    /// The size in each lane, as `i64[lanes]`.
    pub(crate) counts: Value,
    /// The largest size of any lane.
    pub(crate) largest: Dim,
    /// An upper bound on the sizes of all lanes, such as the maximum number of steps of a loop.
    pub(crate) at_most: Option<Dim>,
    /// A lower bound on the sizes of all lanes.
    pub(crate) at_least: usize,
}

/// A body that is being traced.
struct OpenBody {
    home: u64,
    graph: Graph,
    /// The captured values. Each pair contains a value of the enclosing body, and the parameter of this body that
    /// receives it.
    captures: Vec<(ValueId, ValueId)>,
    /// The custom derivative rule that this body belongs to, if any.
    rule: Option<Rc<OpenRule>>,
}

impl OpenBody {
    fn new(name: &str) -> Self {
        let home = NEXT_HOME.fetch_add(1, Ordering::Relaxed);
        OpenBody { home, graph: Graph::new(name), captures: Vec::new(), rule: None }
    }
}

/// A guard that closes the graphs and bodies that the user's closure opened, even if the closure panics.
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

fn open_guard() -> Guard {
    TRACES.with_borrow(|traces| Guard {
        traces: traces.len(),
        bodies: traces.last().map_or(0, |trace| trace.bodies.len()),
    })
}

/// Traces `body`, and returns the graph that it builds.
pub fn build<T: Tree>(name: &str, site: Site, body: impl FnOnce(&Builder) -> Result<T, Failed>) -> Result<Graph> {
    OpenGraph::new(name, site).trace(body)
}

/// Like [`build`], for passes that rebuild `graph`. The new graph has the same name, which may be empty if `graph` is
/// the body of an op.
pub fn rebuild<T: Tree>(graph: &Graph, site: Site, body: impl FnOnce(&Builder) -> Result<T, Failed>) -> Result<Graph> {
    OpenGraph::named(graph.name(), site, None).trace(body)
}

/// An open graph that still needs its outputs.
struct OpenGraph {
    guard: Guard,
    at: Place,
    home: u64,
}

impl OpenGraph {
    fn new(name: &str, site: Site) -> Self {
        let is_wrong = !is_identifier(name);
        let at = Place::new("build", site);
        Self::named(name, site, is_wrong.then(|| name_error(&at, "the graph", name, "it is not an identifier")))
    }

    /// Opens a graph. If `error` is given, no ops are added, and closing the graph returns this error.
    fn named(name: &str, site: Site, error: Option<Error>) -> Self {
        let guard = open_guard();
        let (body, at) = (OpenBody::new(name), Place::new("build", site));
        let home = body.home;
        TRACES.with_borrow_mut(|traces| {
            traces.push(Trace {
                bodies: vec![body],
                error,
                fresh: 0,
                by_lane: Vec::new(),
                lane_masks: Vec::new(),
                site: None,
            });
        });
        OpenGraph { guard, at, home }
    }

    fn trace<T: Tree>(self, body: impl FnOnce(&Builder) -> Result<T, Failed>) -> Result<Graph> {
        let outputs = body(&Builder { home: self.home });
        self.close(outputs.map(|outputs| tree::leaves(&outputs, "")))
    }

    fn close(self, outputs: Result<Vec<(String, Value)>, Failed>) -> Result<Graph> {
        let mut trace = TRACES.with_borrow_mut(|traces| traces.remove(self.guard.traces));
        let added = outputs.and_then(|outputs| trace.add_outputs(&self.at, &with_names(outputs)));
        match (trace.error, added) {
            (None, Ok(())) => Ok(trace.bodies.swap_remove(0).graph),
            (Some(error), _) => Err(error),
            // The closure failed, but this graph has recorded no error, so the failure comes from a different graph.
            (None, Err(_)) => Err(escaped_value_error(&self.at, 0)),
        }
    }
}

/// Turns the paths of outputs into identifiers: `out` for a single value, `out_0` and so on for the parts of a tuple.
fn with_names(outputs: Vec<(String, Value)>) -> Vec<(String, Value)> {
    let named = |(name, value): (String, Value)| match name.chars().next() {
        None => ("out".to_string(), value),
        Some('0'..='9') => (format!("out_{name}"), value),
        Some(_) => (name, value),
    };
    outputs.into_iter().map(named).collect()
}

/// An open body that still needs its results.
pub(crate) struct BodyTrace {
    guard: Guard,
    at: Place,
}

/// A closed body: its graph, and the outer values that it captured. The last inputs of the graph receive these values.
pub(crate) struct ClosedBody {
    pub(crate) graph: Graph,
    pub(crate) captures: Vec<Value>,
}

impl BodyTrace {
    /// Opens a body with the given parameters. Returns the open body and the values of the parameters.
    pub(crate) fn open(at: &Place, name: &str, params: &[(String, TensorType)]) -> (BodyTrace, Vec<Value>) {
        let guard = open_guard();
        let values = in_trace(|trace| {
            // Allow one body beyond the limit, so that the check in `custom_vjp` and `custom_jvp` reports an infinitely
            // recursive rule.
            if trace.bodies.len() > MAX_DEPTH + 1 {
                trace.fail(super::too_deep(at, trace.bodies.len()));
            }
            let mut body = OpenBody::new(name);
            let add = |(name, ty): &(String, TensorType)| {
                Value::new(body.home, body.graph.push_input(name, ty.clone(), false))
            };
            let values = params.iter().map(add).collect();
            trace.bodies.push(body);
            Ok(values)
        });
        (BodyTrace { guard, at: at.clone() }, or_failed(values, params.len()))
    }

    /// Closes the body with the given results. Returns its graph and the values that it captured.
    pub(crate) fn close(self, outputs: &[(String, Value)]) -> Result<ClosedBody, Failed> {
        in_trace(|trace| {
            trace.add_outputs(&self.at, outputs)?;
            let body = trace.bodies.remove(self.guard.bodies);
            let home = trace.bodies[self.guard.bodies - 1].home;
            let captures = body.captures.iter().map(|(outer, _)| Value::new(home, *outer)).collect();
            Ok(ClosedBody { graph: body.graph, captures })
        })
    }
}

/// Traces a body. `body` receives the values of the parameters and returns the named results. The body captures the
/// outer values that it uses.
pub(crate) fn trace_body(
    op: &str,
    name: &str,
    params: &[(String, TensorType)],
    body: impl FnOnce(&[Value]) -> Result<Vec<(String, Value)>, Failed>,
) -> Result<ClosedBody, Failed> {
    let (trace, values) = BodyTrace::open(&Place::new(op, Site::Unknown), name, params);
    let outputs = body(&values)?;
    trace.close(&outputs)
}

/// Adds an op to the open body on behalf of a rule. The op has the site set by [`at_site`].
pub fn emit(op: impl Into<Op>, operands: &[Value]) -> Result<Vec<Value>, Failed> {
    emit_at(op, operands, Site::Unknown)
}

/// Adds an op to the open body. Its site is the user's line, `site`, unless [`at_site`] sets a different one.
pub fn emit_at(op: impl Into<Op>, operands: &[Value], site: Site) -> Result<Vec<Value>, Failed> {
    let op = op.into();
    // Differentiating, batching or rewriting a large program can take a long time, so check for cancellation whenever
    // an op is added.
    if let Err(error) = check_cancelled(|| Place::new(op.name(), site), Progress::Ops(0)) {
        return Err(record_error(error, operands));
    }
    in_trace(|trace| trace.emit(op, operands, site))
}

/// Adds an op with one result to the open body, for a method of [`Value`]. Returns a failed value on error.
pub fn emit_value(op: impl Into<Op>, operands: &[Value], site: Site) -> Value {
    or_failed(emit_at(op, operands, site), 1)[0]
}

/// Records an error in the open graph. The excerpt in the error shows `operands`.
pub fn fail(op: &str, site: Site, operands: &[Value], error: impl FnOnce(&Place) -> Error) -> Failed {
    let site = with_trace(|trace| trace.site).flatten().unwrap_or(site);
    // Create the error before borrowing the graph, because creating it may query the types of values.
    record_error(error(&Place::new(op, site)), operands)
}

/// Like [`fail`], but returns a failed value.
pub fn fail_value(op: &str, site: Site, operands: &[Value], error: impl FnOnce(&Place) -> Error) -> Value {
    fail(op, site, operands, error).into()
}

/// Records an error in the open graph, with an excerpt of the innermost body.
fn record_error(error: Error, operands: &[Value]) -> Failed {
    let kept = in_trace(|trace| {
        let op = error.place().op.clone();
        let body = trace.innermost();
        let here = |value: &Value| value.parts().filter(|(home, _)| *home == body.home).map(|(_, id)| id);
        let ids: Vec<ValueId> = operands.iter().filter_map(here).collect();
        let error = error.with_excerpt(|| print::excerpt(&body.graph, &op, &ids));
        Ok(trace.fail(error))
    });
    kept.unwrap_or_else(|failed| failed)
}

/// Checks that nothing has failed so far, and that `values`, the operands or results of `op`, belong to open bodies.
pub(crate) fn check(op: &str, site: Site, values: impl IntoIterator<Item = Value>) -> Result<(), Failed> {
    let values: Vec<Value> = values.into_iter().collect();
    in_trace(|trace| trace.find_all(op, trace.site.unwrap_or(site), &values).map(drop))
}

/// Returns the type of a value, or `None` if its op failed or its body is closed.
pub(crate) fn type_of(value: Value) -> Option<TensorType> {
    with_trace(|trace| trace.find(value).map(|(level, id)| trace.bodies[level].graph.ty(id).clone())).flatten()
}

/// Returns `true` if `home` identifies the graph being traced.
pub(crate) fn is_building(home: u64) -> bool {
    with_trace(|trace| trace.bodies[0].home == home).unwrap_or(false)
}

/// Adds an input to the graph being traced.
pub fn input(name: &str, ty: TensorType, is_static: bool, site: Site) -> Value {
    let value = in_trace(|trace| {
        let at = Place::new("input", site);
        if trace.bodies.len() != 1 {
            return Err(trace.fail(Error::Name {
                at: at.boxed(),
                component: "an input".into(),
                name: format!("`{name}`"),
                rule: "inputs must be declared outside the bodies of loops".into(),
                fix: "declare it before the loop; the body captures it".into(),
            }));
        }
        let taken = trace.has_input(name);
        if taken || !is_identifier(name) {
            let rule = if taken { "an input with that name already exists" } else { "it is not an identifier" };
            return Err(trace.fail(name_error(&at, "an input", name, rule)));
        }
        let component = format!("the type of input `{name}`");
        super::sizes::check_type(&component, &ty, &at).map_err(|error| trace.fail(error))?;
        let body = &mut trace.bodies[0];
        Ok(Value::new(body.home, body.graph.push_input(name, ty, is_static)))
    });
    value.unwrap_or_else(Value::from)
}

/// Returns `true` if the graph being traced has an input with this name.
pub fn has_input(name: &str) -> bool {
    with_trace(|trace| trace.has_input(name)).unwrap_or(false)
}

/// Sets the name that a value has in the text form.
pub(crate) fn set_name(value: Value, name: &str, site: Site) {
    with_trace(|trace| {
        if !is_identifier(name) {
            let at = Place::new("named", site);
            trace.fail(name_error(&at, "a value", name, "it is not an identifier"));
        }
        if let Some((level, id)) = trace.find(value) {
            trace.bodies[level].graph.set_value_name(id, name);
        }
    });
}

/// Sets the name of a value, unless it already has one.
pub(crate) fn keep_name(value: Value, name: &str) {
    with_trace(|trace| {
        let Some((level, id)) = trace.find(value) else { return };
        let graph = &mut trace.bodies[level].graph;
        if graph.value_name(id).is_none() {
            graph.set_value_name(id, name);
        }
    });
}

/// Copies the names of the results of `node`, a node of `graph`, to `results`. Values that already have a name keep it.
pub fn keep_names(graph: &Graph, node: &Node, results: impl IntoIterator<Item = Value>) {
    for (output, result) in node.outputs.iter().zip(results) {
        if let Some(name) = graph.value_name(*output) {
            keep_name(result, name);
        }
    }
}

/// Prevents [`fresh_symbol`] from returning a symbol of `graph`.
pub fn reserve_symbols(graph: &Graph) {
    let mut largest = 0;
    graph.visit_symbols(&mut |symbol| {
        let number = symbol.name().strip_prefix('$').and_then(|number| number.parse().ok());
        largest = largest.max(number.unwrap_or(0));
    });
    with_trace(|trace| trace.fresh = trace.fresh.max(largest));
}

/// Returns a symbol that no other part of the trace uses.
pub fn fresh_symbol() -> Symbol {
    let number = with_trace(|trace| {
        trace.fresh += 1;
        trace.fresh
    });
    Symbol::new(&format!("${}", number.unwrap_or(0)))
}

/// Returns the symbols that nodes in the open bodies bind.
pub(super) fn bound_symbols() -> Vec<Symbol> {
    let bound = with_trace(|trace| {
        let nodes = trace.bodies.iter().flat_map(|body| body.graph.nodes());
        nodes.flat_map(|node| node.op.binds()).cloned().collect()
    });
    bound.unwrap_or_default()
}

/// Records that the size bound to a symbol differs between lanes.
pub(crate) fn add_size_by_lane(size: SizeByLane) {
    remove_size_by_lane(&size.symbol);
    with_trace(|trace| trace.by_lane.push(size));
}

/// Removes a symbol from the sizes that differ between lanes. Call this before a loop binds the symbol again.
pub(crate) fn remove_size_by_lane(symbol: &Symbol) {
    with_trace(|trace| trace.by_lane.retain(|size| size.symbol != *symbol));
}

/// Changes what is known of a size that differs between lanes.
pub(crate) fn update_size_by_lane(symbol: &Symbol, update: impl FnOnce(&mut SizeByLane)) {
    with_trace(|trace| trace.by_lane.iter_mut().find(|size| size.symbol == *symbol).map(update));
}

/// Calls `f` and returns its result. The ops that `f` adds run only in the lanes where `mask` is `true`.
pub(crate) fn with_lane_mask<R>(mask: Value, f: impl FnOnce() -> R) -> R {
    with_trace(|trace| trace.lane_masks.push(mask));
    let result = f();
    with_trace(|trace| trace.lane_masks.pop());
    result
}

/// Returns the masks of the ops being added: the ops run only in the lanes where all masks are `true`.
pub(crate) fn lane_masks() -> Vec<Value> {
    with_trace(|trace| trace.lane_masks.clone()).unwrap_or_default()
}

/// Returns the number of open bodies of the open graph, or 0 if no graph is open.
pub(crate) fn depth() -> usize {
    with_trace(|trace| trace.bodies.len()).unwrap_or(0)
}

/// Marks the innermost body as part of the given custom derivative rule.
pub(crate) fn set_rule(rule: &Rc<OpenRule>) {
    with_trace(|trace| {
        if let Some(body) = trace.bodies.last_mut() {
            body.rule = Some(rule.clone());
        }
    });
}

/// Returns the innermost custom derivative rule that is being traced, or `None` if there is none.
pub(crate) fn open_rule() -> Option<Rc<OpenRule>> {
    with_trace(|trace| trace.bodies.iter().rev().find_map(|body| body.rule.clone())).flatten()
}

/// Returns the sizes that differ between lanes.
pub(crate) fn sizes_by_lane() -> Vec<SizeByLane> {
    with_trace(|trace| trace.by_lane.clone()).unwrap_or_default()
}

/// Runs `f` with `site` as the site of all ops that it adds. Libraries that import programs use this to give the ops
/// the line of the user's call instead of a line of the library.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
/// use funcify::error::Site;
/// use funcify::graph::at_site;
///
/// let line = Site::Text { line: 7, column: 1 };
/// let imported = Graph::build("imported", |g| {
///     let x = g.input("x", "f32[]");
///     at_site(line, || x.exp())
/// })?;
/// assert_eq!(imported.nodes()[0].site, line);
/// # Ok::<(), funcify::Error>(())
/// ```
pub fn at_site<R>(site: Site, f: impl FnOnce() -> R) -> R {
    let outer = set_site(Some(site));
    let result = f();
    set_site(outer);
    result
}

/// Sets the site of the ops being added, and returns the previous one.
fn set_site(site: Option<Site>) -> Option<Site> {
    with_trace(|trace| std::mem::replace(&mut trace.site, site)).flatten()
}

fn with_trace<R>(f: impl FnOnce(&mut Trace) -> R) -> Option<R> {
    TRACES.with_borrow_mut(|traces| traces.last_mut().map(f))
}

/// Runs `f` on the open graph. Fails if no graph is open.
fn in_trace<R>(f: impl FnOnce(&mut Trace) -> Result<R, Failed>) -> Result<R, Failed> {
    with_trace(f).unwrap_or(Err(Failed::new()))
}

impl Trace {
    /// Records an error, unless there is one already.
    fn fail(&mut self, error: Error) -> Failed {
        self.error.get_or_insert(error);
        Failed::new()
    }

    fn emit(&mut self, op: Op, operands: &[Value], site: Site) -> Result<Vec<Value>, Failed> {
        let site = self.site.unwrap_or(site);
        let at = Place::new(op.name(), site);
        if super::failing::should_fail() {
            self.fail(name_error(&at, "an op", op.name(), "a test requested this failure"));
        }
        let ids = self.resolve_all(&at, operands)?;
        let (body, name) = (self.innermost(), op.name());
        match body.graph.push_node(op, &ids, site) {
            Ok(outputs) => Ok(outputs.into_iter().map(|id| Value::new(body.home, id)).collect()),
            Err(error) => {
                let error = error.with_excerpt(|| print::excerpt(&body.graph, name, &ids));
                Err(self.fail(error))
            }
        }
    }

    /// Returns `true` if the graph being traced has an input with this name.
    fn has_input(&self, name: &str) -> bool {
        let graph = &self.bodies[0].graph;
        (0..graph.inputs().len()).any(|index| graph.input_name(index) == name)
    }

    /// Returns the index of the body that contains a value, and the id of the value in that body. Returns `None` if no
    /// open body contains the value.
    fn find(&self, value: Value) -> Option<(usize, ValueId)> {
        let (home, id) = value.parts()?;
        Some((self.bodies.iter().position(|body| body.home == home)?, id))
    }

    /// Returns the innermost open body.
    fn innermost(&mut self) -> &mut OpenBody {
        let last = self.bodies.len() - 1;
        &mut self.bodies[last]
    }

    fn add_outputs(&mut self, at: &Place, outputs: &[(String, Value)]) -> Result<(), Failed> {
        let values: Vec<Value> = outputs.iter().map(|(_, value)| *value).collect();
        let ids = self.resolve_all(at, &values)?;
        for (index, ((name, _), id)) in outputs.iter().zip(ids).enumerate() {
            let is_taken = self.bodies.len() == 1 && outputs[..index].iter().any(|(other, _)| other == name);
            if is_taken || !is_identifier(name) {
                let rule = if is_taken { "another output has that name" } else { "it is not an identifier" };
                return Err(self.fail(name_error(at, "an output", name, rule)));
            }
            self.innermost().graph.push_output(name, id);
        }
        Ok(())
    }

    /// Returns the ids that the given values have in the innermost body. Captures the values that belong to enclosing
    /// bodies.
    fn resolve_all(&mut self, at: &Place, values: &[Value]) -> Result<Vec<ValueId>, Failed> {
        let places = self.find_all(&at.op, at.site, values)?;
        Ok(places.into_iter().map(|(level, id)| self.capture(level, id)).collect())
    }

    /// Returns, for each value, the index of the body that contains it, and its id in that body. Fails if an error is
    /// already recorded, or if a value belongs to no open body.
    fn find_all(&mut self, op: &str, site: Site, values: &[Value]) -> Result<Vec<(usize, ValueId)>, Failed> {
        if self.error.is_some() {
            return Err(Failed::new());
        }
        let places: Vec<(usize, ValueId)> = values.iter().map_while(|value| self.find(*value)).collect();
        let index = places.len();
        if index == values.len() {
            return Ok(places);
        }
        let ids: Vec<ValueId> = places.into_iter().map(|(level, id)| self.capture(level, id)).collect();
        let excerpt = print::excerpt(&self.innermost().graph, op, &ids);
        Err(self.fail(escaped_value_error(&Place::new(op, site), index).with_excerpt(|| excerpt)))
    }

    /// Captures a value of the body with index `level`, by adding a parameter to each open body inside that body.
    /// Returns the value's id in the innermost body.
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

fn escaped_value_error(at: &Place, index: usize) -> Error {
    Error::Escaped {
        at: at.boxed(),
        component: format!("operand {index}"),
        body: "a graph or loop body that is finished or not yet open".into(),
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

/// Returns `true` if a name is a valid identifier of the text form.
pub fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
