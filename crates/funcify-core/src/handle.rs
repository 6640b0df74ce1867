//! Handles to values: [`ValueId`] in a finished graph, and [`Value`] in a trace. [`Failed`] marks a failed op.

/// Identifies a value of one graph: an input, or one result of a node.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Graph;
///
/// let graph = Graph::build("same", |g| g.input("x", "f32[3]"))?;
/// let x = graph.outputs()[0].value;
/// assert_eq!((x, graph.value_name(x)), (graph.inputs()[0].value, Some("x")));
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(u32);

impl ValueId {
    pub(crate) fn new(index: usize) -> Self {
        ValueId(index as u32)
    }

    /// Returns the index of the value in the graph's list of values.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A handle to a tensor in the program that is being traced. Handles are small and cheap to copy.
///
/// Ops on values do not return errors. The trace records the first error with the caller's line, and
/// [`Graph::build`](crate::Graph::build) returns it. Ops on the result of a failed op are ignored.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Graph, HostTensor, evaluate};
///
/// let graph = Graph::build("line", |g| {
///     let [x, slope] = [g.input("x", "f32[T]"), g.input("slope", "f32[]")];
///     assert_eq!((slope * x).ty().to_string(), "f32[T]");
///     slope * x + 1.0
/// })?;
/// let inputs = [HostTensor::from([1f32, 2.0]), HostTensor::scalar(3f32)];
/// assert_eq!(evaluate(&graph, &inputs)?, [HostTensor::from([4f32, 7.0])]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Value {
    home: u64,
    id: Option<ValueId>,
}

impl Value {
    pub(crate) fn new(home: u64, id: ValueId) -> Self {
        Value { home, id: Some(id) }
    }

    /// Returns the handle that represents the result of a failed op.
    pub(crate) fn failed() -> Self {
        Value { home: 0, id: None }
    }

    pub(crate) fn parts(self) -> Option<(u64, ValueId)> {
        self.id.map(|id| (self.home, id))
    }
}

impl From<Failed> for Value {
    fn from(_: Failed) -> Self {
        Value::failed()
    }
}

/// A marker for an error that the open graph has recorded. Further ops are ignored, and building the program returns
/// the recorded error.
///
/// A rule that cannot continue returns this marker. The `?` operator also converts an [`Error`](crate::Error) to this
/// marker, and records the error in the trace.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::graph::Failed;
/// use funcify::{Error, Graph, Value};
///
/// /// A part of a program that only takes matrices.
/// fn transposed(x: Value) -> Result<Value, Failed> {
///     Ok(x.matmul(x).checked()?.t())
/// }
///
/// let error = Graph::build("f", |g| transposed(g.input("x", "f32[2,3]")).unwrap_or_else(Value::from));
/// assert!(matches!(error, Err(Error::Type { .. })));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed(());

impl Failed {
    pub(crate) fn new() -> Self {
        Failed(())
    }
}
