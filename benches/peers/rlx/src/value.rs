//! Values of an rlx graph under construction. They overload operators, so a step looks like its formula in PROTOCOL.md.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use rlx::ir::op::CmpOp;
use rlx::ir::shape::compare_shape;
use rlx::{DType, Graph, GraphExt, NodeId, Op, Shape};

/// A graph under construction.
pub(crate) struct Builder(RefCell<Graph>);

impl Builder {
    pub(crate) fn new(name: &str) -> Builder {
        Builder(RefCell::new(Graph::new(name)))
    }

    /// Adds a param: a tensor that is uploaded once, before the program runs.
    pub(crate) fn param(&self, name: &str, dims: &[usize]) -> Value<'_> {
        self.value(|graph| graph.param(name, Shape::new(dims, DType::F32)))
    }

    /// Returns the finished graph, whose outputs are these values.
    pub(crate) fn finish(&self, outputs: &[Value]) -> Graph {
        let mut graph = self.0.borrow().clone();
        graph.set_outputs(outputs.iter().map(|output| output.id).collect());
        graph
    }

    fn input(&self, name: &str, shape: Shape) -> Value<'_> {
        self.value(|graph| graph.input(name, shape))
    }

    /// Calls `add` to create a node, and returns the node's value.
    fn value(&self, add: impl FnOnce(&mut Graph) -> NodeId) -> Value<'_> {
        Value { builder: self, id: add(&mut self.0.borrow_mut()) }
    }
}

/// A value of the graph: an f32 tensor, or a boolean tensor if it is the result of a comparison.
#[derive(Clone, Copy)]
pub(crate) struct Value<'g> {
    builder: &'g Builder,
    pub(crate) id: NodeId,
}

impl<'g> Value<'g> {
    fn map(self, add: impl FnOnce(&mut Graph, NodeId) -> NodeId) -> Value<'g> {
        self.builder.value(|graph| add(graph, self.id))
    }

    fn shape(self) -> Shape {
        self.builder.0.borrow().shape(self.id).clone()
    }

    pub(crate) fn dims(self) -> Vec<usize> {
        self.shape().dims().iter().map(|dim| dim.unwrap_static()).collect()
    }

    /// Adds a constant tensor to the same graph.
    pub(crate) fn constant(self, numbers: &[f32], dims: &[usize]) -> Value<'g> {
        let data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.builder.value(|graph| graph.add_node(Op::Constant { data }, vec![], Shape::new(dims, DType::F32)))
    }

    pub(crate) fn zeros(self, dims: &[usize]) -> Value<'g> {
        self.constant(&vec![0.0; dims.iter().product()], dims)
    }

    pub(crate) fn exp(self) -> Value<'g> {
        self.map(GraphExt::exp)
    }

    pub(crate) fn log(self) -> Value<'g> {
        self.map(GraphExt::log)
    }

    pub(crate) fn tanh(self) -> Value<'g> {
        self.map(GraphExt::tanh)
    }

    pub(crate) fn sigmoid(self) -> Value<'g> {
        self.map(GraphExt::sigmoid)
    }

    pub(crate) fn matmul(self, other: Value<'g>) -> Value<'g> {
        self.map(|graph, id| graph.mm(id, other.id))
    }

    pub(crate) fn reshape(self, dims: &[usize]) -> Value<'g> {
        self.map(|graph, id| graph.reshape_(id, dims.iter().map(|&dim| dim as i64).collect()))
    }

    pub(crate) fn transpose(self, axes: &[usize]) -> Value<'g> {
        self.map(|graph, id| graph.transpose_(id, axes.to_vec()))
    }

    pub(crate) fn narrow(self, axis: usize, start: usize, length: usize) -> Value<'g> {
        self.map(|graph, id| graph.narrow_(id, axis, start, length))
    }

    /// Sums along an axis, and removes the axis.
    pub(crate) fn sum(self, axis: usize) -> Value<'g> {
        self.map(|graph, id| graph.sum(id, vec![axis], false))
    }

    /// Computes the mean of the squares of all elements, as a vector of one element.
    pub(crate) fn mean_square(self) -> Value<'g> {
        let count = self.dims().iter().product();
        let flat = self.reshape(&[count]);
        (flat * flat).map(|graph, id| graph.mean(id, vec![0], true))
    }

    /// Computes the index of the largest element along an axis, and removes the axis. The indices are f32, like all
    /// indices in rlx.
    pub(crate) fn argmax(self, axis: usize) -> Value<'g> {
        let mut dims = self.dims();
        dims.remove(axis);
        self.map(|graph, id| graph.argmax(id, axis, false, Shape::new(&dims, DType::F32)))
    }

    /// Gathers the rows with the given indices.
    pub(crate) fn rows(self, indices: Value<'g>) -> Value<'g> {
        self.map(|graph, id| graph.gather_(id, indices.id, 0))
    }

    /// Computes the cross-entropy of each row of logits, given the index of the true class of each row.
    pub(crate) fn cross_entropies(self, labels: Value<'g>) -> Value<'g> {
        self.map(|graph, id| graph.softmax_cross_entropy_with_logits(id, labels.id))
    }

    /// Compares two tensors elementwise.
    pub(crate) fn compare(self, how: CmpOp, other: Value<'g>) -> Value<'g> {
        let shape = compare_shape(&self.shape(), &other.shape()).expect("the shapes broadcast");
        self.map(|graph, id| graph.add_node(Op::Compare(how), vec![id, other.id], shape))
    }

    /// Selects elements of `yes` where this value is true, and of `no` elsewhere. All three tensors have the same
    /// shape.
    pub(crate) fn select(self, yes: Value<'g>, no: Value<'g>) -> Value<'g> {
        let shape = yes.shape();
        self.map(|graph, id| graph.add_node(Op::Where, vec![id, yes.id, no.id], shape))
    }
}

/// Concatenates tensors along an axis.
pub(crate) fn concat<'g>(values: &[Value<'g>], axis: usize) -> Value<'g> {
    values[0].map(|graph, _| graph.concat_(values.iter().map(|value| value.id).collect(), axis))
}

macro_rules! operators {
    ($($trait:ident $method:ident),*) => {
        $(
            impl<'g> $trait for Value<'g> {
                type Output = Value<'g>;

                fn $method(self, other: Value<'g>) -> Value<'g> {
                    self.map(|graph, id| GraphExt::$method(graph, id, other.id))
                }
            }

            impl<'g> $trait<f32> for Value<'g> {
                type Output = Value<'g>;

                fn $method(self, other: f32) -> Value<'g> {
                    self.$method(self.constant(&[other], &[1]))
                }
            }
        )*
    };
}

operators!(Add add, Sub sub, Mul mul, Div div);

impl<'g> Neg for Value<'g> {
    type Output = Value<'g>;

    fn neg(self) -> Value<'g> {
        self.map(GraphExt::neg)
    }
}

/// Adds a scan. Returns the state after each step, stacked along a new axis 0. The step receives the state, the loop
/// invariants `fixed` and one row of each sequence in `rows`.
pub(crate) fn scan<'g, const F: usize, const R: usize>(
    length: usize,
    start: Value<'g>,
    fixed: [Value<'g>; F],
    rows: [Value<'g>; R],
    step: impl for<'b> FnOnce(Value<'b>, [Value<'b>; F], [Value<'b>; R]) -> Value<'b>,
) -> Value<'g> {
    let mut dims = start.dims();
    dims.insert(0, length);
    loop_of(length, true, Shape::new(&dims, DType::F32), start, fixed, rows, step)
}

/// Adds a scan, and returns only the state after the last step.
pub(crate) fn fold<'g, const F: usize, const R: usize>(
    length: usize,
    start: Value<'g>,
    fixed: [Value<'g>; F],
    rows: [Value<'g>; R],
    step: impl for<'b> FnOnce(Value<'b>, [Value<'b>; F], [Value<'b>; R]) -> Value<'b>,
) -> Value<'g> {
    loop_of(length, false, start.shape(), start, fixed, rows, step)
}

fn loop_of<'g, const F: usize, const R: usize>(
    length: usize,
    save_trajectory: bool,
    shape: Shape,
    start: Value<'g>,
    fixed: [Value<'g>; F],
    rows: [Value<'g>; R],
    step: impl for<'b> FnOnce(Value<'b>, [Value<'b>; F], [Value<'b>; R]) -> Value<'b>,
) -> Value<'g> {
    let body = Builder::new("step");
    let state = body.input("state", start.shape());
    let mut number = 0;
    let mut inputs = |shape| {
        number += 1;
        body.input(&format!("input_{number}"), shape)
    };
    let body_fixed = fixed.map(|value| inputs(value.shape()));
    let body_rows = rows.map(|value| inputs(Shape::new(&value.dims()[1..], DType::F32)));
    let next = step(state, body_fixed, body_rows);
    let op = Op::Scan {
        body: Box::new(body.finish(&[next])),
        length: length as u32,
        save_trajectory,
        num_bcast: F as u32,
        num_xs: R as u32,
        num_checkpoints: 0,
    };
    let all = [start].into_iter().chain(fixed).chain(rows).map(|value| value.id).collect();
    start.map(|graph, _| graph.add_node(op, all, shape))
}

/// Adds a while loop of at most `limit` steps. Returns the first component of the final state. All values that the
/// step reads must be part of the state.
pub(crate) fn while_loop<'g, const N: usize>(
    limit: usize,
    start: [Value<'g>; N],
    goes_on: impl for<'b> FnOnce([Value<'b>; N]) -> Value<'b>,
    step: impl for<'b> FnOnce([Value<'b>; N]) -> [Value<'b>; N],
) -> Value<'g> {
    let (condition, body) = (Builder::new("goes_on"), Builder::new("step"));
    let holds = goes_on(add_state_inputs(&condition, &start));
    let next = step(add_state_inputs(&body, &start));
    let op = Op::While {
        cond: Box::new(condition.finish(&[holds])),
        body: Box::new(body.finish(&next)),
        max_iterations: Some(limit),
    };
    let (all, shape) = (start.iter().map(|value| value.id).collect(), start[0].shape());
    start[0].map(|graph, _| graph.add_node(op, all, shape))
}

/// Extends the graph of a loop's body or condition with an input for each component of the state. Returns these inputs.
fn add_state_inputs<'b, const N: usize>(builder: &'b Builder, start: &[Value; N]) -> [Value<'b>; N] {
    std::array::from_fn(|index| builder.input(&format!("state_{index}"), start[index].shape()))
}
