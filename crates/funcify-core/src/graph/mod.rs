//! The graph: an arena of typed nodes in topological order.

mod apply;
mod bind;
mod bounds;
mod certain;
mod check;
mod copy;
mod difference;
#[doc(hidden)]
pub mod failing;
mod identity;
mod inline;
mod live;
pub(crate) mod print;
mod prune;
mod replay;
mod resize;
pub(crate) mod rules;
mod sizes;
#[doc(hidden)]
pub mod tracer;
#[doc(hidden)]
pub mod work;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use crate::handle::{Failed, ValueId};
pub use bind::bind_sizes;
#[doc(hidden)]
pub use bind::call_error;
#[doc(hidden)]
pub use bounds::{Bounds, integer_bounds};
#[doc(hidden)]
pub use certain::{KnownSizes, cannot_fail};
#[doc(hidden)]
pub use copy::{GraphCopy, ValueMap};
pub use identity::GraphId;
#[doc(hidden)]
pub use inline::inline;
#[doc(hidden)]
pub use live::uses_any;
pub(crate) use prune::{Keep, Need, PrunedOp};
#[doc(hidden)]
pub use replay::Replay;
pub use tracer::at_site;
pub(crate) use tracer::{BodyTrace, emit_at, fail_value, trace_body};
#[doc(hidden)]
pub use tracer::{emit, emit_value, fail, fresh_symbol};

use identity::Identity;

use crate::error::{Error, Place, Result, Site};
use crate::ops::{Attribute, Op, OpRules};
use crate::tree::Tree;
use crate::types::{Dim, Sizes, Symbol, TensorType};
use crate::value::{Builder, Value, or_failed};

/// Identifies a node within its graph.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
/// use funcify::graph::Source;
///
/// let graph = Graph::build("exponential", |g| g.input("x", "f32[]").exp())?;
/// let Source::Node(id, _) = graph.source(graph.outputs()[0].value) else { unreachable!() };
/// assert_eq!((id.index(), graph.node(id).place().op.as_str()), (0, "exp"));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// Returns the index of the node in its graph.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The definition of a value: an input, or a result of a node.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
/// use funcify::graph::Source;
///
/// let graph = Graph::build("same", |g| g.input("x", "f32[]"))?;
/// assert_eq!(graph.source(graph.outputs()[0].value), Source::Input(0));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The input with this index.
    Input(usize),
    /// A result of a node, identified by the node and the index of the result.
    Node(NodeId, usize),
}

#[derive(Clone, Debug)]
struct ValueInfo {
    ty: TensorType,
    name: Option<String>,
    source: Source,
}

/// A use of an op: the op, its operands and its results.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
/// use funcify::ops::OpRules;
///
/// let graph = Graph::build("exponential", |g| g.input("x", "f32[]").exp())?;
/// let node = &graph.nodes()[0];
/// assert_eq!(node.op.name(), "exp");
/// assert_eq!(node.inputs[0], graph.inputs()[0].value);
/// assert_eq!(node.outputs[0], graph.outputs()[0].value);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    /// The op, with its attributes.
    pub op: Op,
    /// The operands.
    pub inputs: Vec<ValueId>,
    /// The results.
    pub outputs: Vec<ValueId>,
    /// The line of user code that created the node.
    pub site: Site,
}

impl Node {
    /// Returns the node's op and site, for use in errors.
    pub fn place(&self) -> Place {
        Place::new(self.op.name(), self.site)
    }
}

/// An input of a graph: its value, and whether it is static.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Graph};
///
/// let graph = Graph::build("steps", |g| g.static_input("steps", DType::I64))?;
/// assert!(graph.inputs()[0].is_static);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Input {
    /// The value that represents the input in the graph.
    pub value: ValueId,
    /// `true` if programs may be specialised to the value of this input. A static input is an integer scalar, for
    /// example a number of steps.
    pub is_static: bool,
}

/// An output of a graph: its name and its value.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
///
/// let graph = Graph::build("pair", |g| (g.input("x", "f32[]"), g.input("y", "f32[2]")))?;
/// assert_eq!(graph.outputs()[1].name, "out_1");
/// assert_eq!(graph.ty(graph.outputs()[1].value).to_string(), "f32[2]");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Output {
    /// The name: the path of the leaf in the tree that the closure of [`Graph::build`] returned.
    pub name: String,
    /// The value that the graph returns.
    pub value: ValueId,
}

/// A tensor program, or the body of an op. It consists of inputs, nodes and outputs.
///
/// A graph is closed: its nodes use only its own values. A value that a loop's body captures is an operand of the loop
/// and an input of the body.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
///
/// let graph = Graph::build("exponential", |g| g.input("x", "f32[T]").exp())?;
/// assert_eq!((graph.name(), graph.input_name(0)), ("exponential", "x"));
/// assert_eq!((graph.inputs().len(), graph.nodes().len(), graph.outputs().len()), (1, 1, 1));
/// assert_eq!(graph.output_type(0).to_string(), "f32[T]");
/// assert_eq!(graph.node_of(graph.outputs()[0].value).map(|node| node.place().op).as_deref(), Some("exp"));
/// println!("{graph}");
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Graph {
    id: Identity,
    name: String,
    values: Vec<ValueInfo>,
    nodes: Vec<Node>,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// The maximum nesting depth of the bodies in the graph's ops.
    depth: usize,
}

/// The maximum nesting depth of bodies, in a graph and in its text form. The depth is limited because passes recurse
/// into bodies.
pub(crate) const MAX_DEPTH: usize = 64;

impl Graph {
    /// Builds a graph by tracing a closure once. The closure declares inputs with [`Builder::input`], combines their
    /// values, and returns a tree of values. The leaves of the tree become the outputs, and their paths become the
    /// names of the outputs.
    ///
    /// If an op fails, `build` returns the first error, which contains the source line of that op.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{Graph, scan};
    ///
    /// let running = Graph::build("running", |g| {
    ///     let xs = g.input("xs", "f32[T,3]");
    ///     let init = g.input("init", "f32[3]");
    ///     scan(init, xs, |sum, x| (sum + x, sum + x))
    /// })?;
    /// assert_eq!(running.output_type(1).to_string(), "f32[T,3]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn build<T: Tree>(name: &str, body: impl FnOnce(&Builder) -> T) -> Result<Graph> {
        tracer::build(name, Site::caller(), |builder| Ok(body(builder)))
    }

    /// Creates a graph without inputs, nodes or outputs.
    #[doc(hidden)]
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }

    /// Returns the unique id of the graph. A clone has a different id. A graph does not change after it is built, so
    /// the id also identifies its contents.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    ///
    /// let graph = Graph::build("same", |g| g.input("x", "f32[]"))?;
    /// assert_ne!(graph.id(), graph.clone().id());
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn id(&self) -> GraphId {
        self.id.0
    }

    /// Returns the name of the graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the inputs, in the order of a call's arguments.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the outputs, in the order of a call's results.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Returns the nodes in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the id of the node that was added last, or `None` if the graph has no nodes.
    #[doc(hidden)]
    pub fn last_node(&self) -> Option<NodeId> {
        self.nodes.len().checked_sub(1).map(|index| NodeId(index as u32))
    }

    /// Returns the node with this id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Iterates over all values, in the order in which they were added.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.values.len()).map(ValueId::new)
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.values[value.index()].ty
    }

    /// Returns the name of a value, or `None` if it has none. Every input has a name.
    pub fn value_name(&self, value: ValueId) -> Option<&str> {
        self.values[value.index()].name.as_deref()
    }

    /// Returns the definition of a value.
    pub fn source(&self, value: ValueId) -> Source {
        self.values[value.index()].source
    }

    /// Returns the node that defines a value, or `None` for an input.
    pub fn node_of(&self, value: ValueId) -> Option<&Node> {
        match self.source(value) {
            Source::Node(node, _) => Some(self.node(node)),
            Source::Input(_) => None,
        }
    }

    /// Returns the type of the input with this index.
    pub fn input_type(&self, index: usize) -> &TensorType {
        self.ty(self.inputs[index].value)
    }

    /// Returns the name of the input with this index.
    pub fn input_name(&self, index: usize) -> &str {
        self.value_name(self.inputs[index].value).expect("every input has a name")
    }

    /// Returns the type of the output with this index.
    pub fn output_type(&self, index: usize) -> &TensorType {
        self.ty(self.outputs[index].value)
    }

    /// Pairs the given values, one per output, with the names of the outputs.
    #[doc(hidden)]
    pub fn named_outputs(&self, values: impl IntoIterator<Item = Value>) -> Vec<(String, Value)> {
        self.outputs.iter().map(|output| output.name.clone()).zip(values).collect()
    }

    /// Returns the types of the given values.
    #[doc(hidden)]
    pub fn types(&self, values: &[ValueId]) -> Vec<TensorType> {
        values.iter().map(|value| self.ty(*value).clone()).collect()
    }

    /// Returns, for each value, whether an output depends on it.
    #[doc(hidden)]
    pub fn live_values(&self) -> Vec<bool> {
        live::Live::of(self).values
    }

    /// Returns, for each node, whether an output depends on it, either through its results or through a size that it
    /// binds.
    #[doc(hidden)]
    pub fn live_nodes(&self) -> Vec<bool> {
        live::Live::of(self).nodes
    }

    /// Like [`live_nodes`](Graph::live_nodes), but excludes nodes that only derivative rules use, because a run does
    /// not need them.
    pub(crate) fn run_nodes(&self) -> Vec<bool> {
        live::Live::of_run(self).nodes
    }

    /// Iterates over the nodes that the outputs depend on.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    ///
    /// let graph = Graph::build("dead", |g| {
    ///     let x = g.input("x", "f32[]");
    ///     x.exp();
    ///     x.log()
    /// })?;
    /// assert_eq!((graph.nodes().len(), graph.live().count()), (2, 1));
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn live(&self) -> impl DoubleEndedIterator<Item = &Node> {
        self.nodes.iter().zip(self.live_nodes()).filter(|(_, live)| *live).map(|(node, _)| node)
    }

    /// Calls `visit` with each symbol that occurs in the type of a value, in an attribute, in a step count or in a body,
    /// and with each symbol that an op binds.
    #[doc(hidden)]
    pub fn visit_symbols(&self, visit: &mut dyn FnMut(&Symbol)) {
        for info in &self.values {
            info.ty.shape.dims().iter().flat_map(Dim::symbols).for_each(&mut *visit);
        }
        for node in &self.nodes {
            node.op.own_dims().iter().flat_map(Dim::symbols).for_each(&mut *visit);
            node.op.binds().for_each(&mut *visit);
            node.op.bodies().into_iter().for_each(|body| body.visit_symbols(visit));
        }
    }

    /// Returns a copy of the graph in which each op is replaced by the op that the closure `op` returns. The result
    /// types must stay the same.
    pub(crate) fn map_ops(&self, op: impl Fn(&Op) -> Op) -> Graph {
        let mut graph = self.clone();
        graph.nodes.iter_mut().for_each(|node| node.op = op(&node.op));
        graph
    }

    /// Checks all invariants of the graph and of its bodies. Returns all violations as errors.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    ///
    /// let graph = Graph::build("exponential", |g| g.input("x", "f32[]").exp())?;
    /// assert!(graph.check().is_ok());
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn check(&self) -> Result<(), Vec<Error>> {
        let errors = check::check(self);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Returns the first symbol that is used but not bound to a size, or `None` if all symbols are bound. The graph
    /// must contain all values that it refers to.
    pub(crate) fn unbound_symbol(&self) -> Option<Symbol> {
        check::unbound_symbol(self)
    }

    /// Like [`check`](Graph::check), but returns only the first violation.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::Graph;
    ///
    /// Graph::build("exponential", |g| g.input("x", "f32[]").exp())?.checked()?;
    /// # Ok::<(), funcify::Error>(())
    /// ```
    pub fn checked(&self) -> Result<()> {
        check::check(self).into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns an excerpt of the graph that ends with the op at `place`. The op is found by its name and site. Returns
    /// no lines if the site is unknown or if no op has this name and site.
    pub(crate) fn excerpt_of(&self, place: &Place) -> Vec<String> {
        if place.site == Site::Unknown {
            return Vec::new();
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if node.op.name() == place.op && node.site == place.site {
                return self.excerpt_before(index);
            }
            let inner = node.op.bodies().into_iter().map(|body| body.excerpt_of(place));
            if let Some(lines) = inner.into_iter().find(|lines| !lines.is_empty()) {
                return lines;
            }
        }
        Vec::new()
    }

    /// Adds an excerpt of the graph, ending with the failed op, to a compile-time or run-time error.
    #[doc(hidden)]
    pub fn explain(&self, error: Error) -> Error {
        let place = error.place().clone();
        error.with_excerpt(|| self.excerpt_of(&place))
    }

    /// Returns an excerpt of the graph that ends with the node at this index.
    pub(crate) fn excerpt_before(&self, index: usize) -> Vec<String> {
        let node = &self.nodes[index];
        let before = Graph { nodes: self.nodes[..index].to_vec(), ..self.clone() };
        print::excerpt(&before, node.op.name(), &node.inputs)
    }

    /// Returns the type of a value, or `None` if the value is not in the graph.
    pub(crate) fn try_ty(&self, value: ValueId) -> Option<&TensorType> {
        self.values.get(value.index()).map(|info| &info.ty)
    }

    /// Returns the name of a value, or `None` if the value has no name or is not in the graph.
    pub(crate) fn try_value_name(&self, value: ValueId) -> Option<&str> {
        self.values.get(value.index())?.name.as_deref()
    }

    /// Adds an input and returns its value.
    #[doc(hidden)]
    pub fn push_input(&mut self, name: &str, ty: TensorType, is_static: bool) -> ValueId {
        let source = Source::Input(self.inputs.len());
        let value = self.push_value(ty, Some(name.to_string()), source);
        self.inputs.push(Input { value, is_static });
        value
    }

    /// Adds a node and returns its results. Fails if the type rule of its op rejects the operands.
    #[doc(hidden)]
    pub fn push_node(&mut self, op: Op, inputs: &[ValueId], site: Site) -> Result<Vec<ValueId>> {
        let place = Place::new(op.name(), site);
        sizes::check_attributes(&op, &place)?;
        let types = op.infer(&place, &self.types(inputs))?;
        sizes::check_types(&types, &place)?;
        self.push_typed(op, inputs, types, site)
    }

    /// Adds a node whose result types are already known, for example a copy of a node with operands of the same types.
    /// Does not apply the type rule.
    #[doc(hidden)]
    pub fn push_typed(
        &mut self,
        op: Op,
        inputs: &[ValueId],
        types: Vec<TensorType>,
        site: Site,
    ) -> Result<Vec<ValueId>> {
        work::count();
        let depth = op.bodies().into_iter().map(|body| body.depth + 1).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            return Err(too_deep(&Place::new(op.name(), site), depth));
        }
        self.depth = self.depth.max(depth);
        let node = NodeId(self.nodes.len() as u32);
        let outputs: Vec<ValueId> = (types.into_iter().enumerate())
            .map(|(index, ty)| self.push_value(ty, None, Source::Node(node, index)))
            .collect();
        self.nodes.push(Node { op, inputs: inputs.to_vec(), outputs: outputs.clone(), site });
        Ok(outputs)
    }

    /// Adds an output.
    #[doc(hidden)]
    pub fn push_output(&mut self, name: &str, value: ValueId) {
        self.outputs.push(Output { name: name.to_string(), value });
    }

    /// Builds a graph that consists of a single op. The inputs of the graph have the types of `operands`.
    pub(crate) fn of_op(op: impl Into<Op>, operands: &[Value]) -> Result<Graph> {
        let types = operands.iter().map(|operand| operand.ty()).collect();
        Graph::of_typed_op(["", "x", "y"], op.into(), types, Site::Unknown)
    }

    /// Builds a graph that consists of a single op with inputs of the given types. `names` contains the name of the
    /// graph, the prefix of its input names, and the prefix of its output names. An index follows each prefix.
    #[doc(hidden)]
    pub fn of_typed_op(names: [&str; 3], op: Op, types: Vec<TensorType>, site: Site) -> Result<Graph> {
        let [name, input, output] = names;
        let mut graph = Graph::new(name);
        let input = |(index, ty)| graph.push_input(&format!("{input}{index}"), ty, false);
        let inputs: Vec<ValueId> = types.into_iter().enumerate().map(input).collect();
        let results = graph.push_node(op, &inputs, site)?;
        results.iter().enumerate().for_each(|(index, result)| graph.push_output(&format!("{output}{index}"), *result));
        Ok(graph)
    }

    /// Returns a copy of the graph with the given outputs instead of its own.
    #[doc(hidden)]
    pub fn with_outputs(&self, outputs: Vec<Output>) -> Graph {
        Graph { outputs, ..self.clone() }
    }

    /// Sets the name that a value has in the text form.
    pub(crate) fn set_value_name(&mut self, value: ValueId, name: &str) {
        self.values[value.index()].name = Some(name.to_string());
    }

    /// Copies the names of the results of `node`, a node of the graph `from`, to `values`. Values that already have a
    /// name keep it.
    #[doc(hidden)]
    pub fn keep_names(&mut self, from: &Graph, node: &Node, values: &[ValueId]) {
        for (output, value) in node.outputs.iter().zip(values) {
            if let Some(name) = from.value_name(*output).filter(|_| self.value_name(*value).is_none()) {
                self.set_value_name(*value, name);
            }
        }
    }

    fn push_value(&mut self, ty: TensorType, name: Option<String>, source: Source) -> ValueId {
        let id = ValueId::new(self.values.len());
        self.values.push(ValueInfo { ty, name, source });
        id
    }
}

/// Creates the error for bodies that are nested too deeply.
fn too_deep(at: &Place, depth: usize) -> Error {
    let fix = "carry more values through fewer loops, or build a part of the program as a separate graph";
    at.mismatch("the nesting of bodies", format!("at most {MAX_DEPTH} levels"), depth, fix)
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::print(self))
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
