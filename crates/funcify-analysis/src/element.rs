//! Determines the float type in which an engine computes, and the integers that this type represents exactly.

use funcify_core::{DType, Graph};

/// Returns the element type for an engine that computes in a single type: f64 if the graph or one of its bodies
/// contains f64 values, and f32 if it contains only narrower floats. Returns `None` if the graph has no floats.
///
/// ```
/// use funcify_analysis::element_type;
/// use funcify_core::{DType, Graph};
///
/// let element_of = |ty| Ok::<_, funcify_core::Error>(element_type(&Graph::build("one", |g| g.input("x", ty))?));
/// assert_eq!(element_of("bf16[2]")?, Some(DType::F32));
/// assert_eq!(element_of("f64[2]")?, Some(DType::F64));
/// assert_eq!(element_of("i32[2]")?, None);
/// # Ok::<(), funcify_core::Error>(())
/// ```
pub fn element_type(graph: &Graph) -> Option<DType> {
    let mut element = None;
    let mut graphs = vec![graph];
    while let Some(graph) = graphs.pop() {
        for dtype in graph.values().map(|value| graph.ty(value).dtype).filter(|dtype| dtype.is_float()) {
            element = match (element, dtype) {
                (Some(DType::F64), _) | (_, DType::F64) => Some(DType::F64),
                _ => Some(DType::F32),
            };
        }
        graphs.extend(graph.nodes().iter().flat_map(|node| node.op.bodies()).map(|body| &**body));
    }
    element
}

/// Returns a bound `b` such that the float type of an engine represents every integer from `-b` to `b` exactly: 2^53 -
/// 1 for f64, and 2^24 - 1 for all other types.
pub fn greatest_integer(element: DType) -> i64 {
    let bits = if element == DType::F64 { 53 } else { 24 };
    (1 << bits) - 1
}
