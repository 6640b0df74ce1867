//! Evaluates a graph over the field, node by node, with a separate rule for each op.
//!
//! The evaluation does not depend on how backends run programs. Ops that only move elements use their reference
//! implementation, on tensors of 64-bit integers that hold elements of the field. The rules for ops that compute are in
//! `ops.rs`, and those for loops and switches are in `loops.rs`.

use std::collections::HashSet;
use std::rc::Rc;

use funcify_core::cancel::{ActiveHandles, Progress};
use funcify_core::error::{Error, Place, Site};
use funcify_core::graph::{Node, ValueId};
use funcify_core::ops::{EvalContext, Op, OpRules, ScatterMode};
use funcify_core::types::{SizeError, Sizes, TensorType};
use funcify_core::{DType, Graph, HostTensor};

use super::field::{of_signed, signed};
use super::loops::size;
use super::model::Model;

/// The fixed cost of a node, in elementary operations.
const OPERATIONS_PER_NODE: usize = 32;

/// A tensor of elements of the field, in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Grid {
    pub(super) shape: Vec<usize>,
    pub(super) cells: Rc<Vec<u64>>,
}

/// The reason why a graph cannot be evaluated over the field.
#[derive(Clone, Debug)]
pub(super) enum NoMeaning {
    /// An op has no rule.
    Unknown(String),
    /// The evaluation would exceed its budget.
    Budget,
    /// The graph returns an error for these inputs.
    Refused(String),
}

impl From<Error> for NoMeaning {
    fn from(error: Error) -> Self {
        NoMeaning::Refused(error.to_string())
    }
}

impl From<SizeError> for NoMeaning {
    fn from(error: SizeError) -> Self {
        NoMeaning::Refused(error.to_string())
    }
}

pub(super) type Meaning<T> = Result<T, NoMeaning>;

impl Grid {
    pub(super) fn new(shape: Vec<usize>, cells: Vec<u64>) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>(), cells.len(), "elements of {shape:?}");
        Grid { shape, cells: Rc::new(cells) }
    }

    pub(super) fn scalar(cell: u64) -> Self {
        Grid::new(Vec::new(), vec![cell])
    }

    /// Returns the grid at index `row` of axis 0, without that axis.
    pub(super) fn row(&self, row: usize) -> Self {
        let shape = self.shape[1..].to_vec();
        let len: usize = shape.iter().product();
        Grid::new(shape, self.cells[row * len..][..len].to_vec())
    }

    /// Stacks rows of shape `row_shape` along a new axis 0.
    pub(super) fn stacked(row_shape: &[usize], rows: &[Grid]) -> Self {
        let shape = [&[rows.len()], row_shape].concat();
        Grid::new(shape, rows.iter().flat_map(|row| row.cells.iter().copied()).collect())
    }

    /// Applies `f` to each element.
    pub(super) fn map(&self, f: impl Fn(u64) -> u64) -> Self {
        Grid { shape: self.shape.clone(), cells: Rc::new(self.cells.iter().map(|cell| f(*cell)).collect()) }
    }

    /// Returns the first element.
    pub(super) fn first(&self) -> u64 {
        *self.cells.first().expect("counts, indices and conditions have an element")
    }

    /// Converts the grid to a tensor of 64-bit integers: the elements themselves or, with `as_integers`, the signed
    /// integers that they represent.
    fn host(&self, as_integers: bool) -> HostTensor {
        let number = |cell: &u64| if as_integers { signed(*cell) } else { *cell as i64 };
        let numbers: Vec<i64> = self.cells.iter().map(number).collect();
        HostTensor::from_vec(numbers, self.shape.clone()).expect("a grid has the elements of its shape")
    }

    fn of_host(tensor: &HostTensor) -> Self {
        let cells = tensor.scalars().map(|scalar| scalar.as_i64() as u64).collect();
        Grid::new(tensor.shape().to_vec(), cells)
    }
}

/// The state of the evaluation of a graph and its bodies over the field.
pub(super) struct Evaluator<'s> {
    pub(super) model: Model,
    pub(super) sizes: &'s mut Sizes,
    /// The element type of the plan. Results of narrower float types must be rounded.
    pub(super) element: DType,
    /// The remaining budget, in elementary operations.
    pub(super) left: usize,
    /// The cancellation handles of the call that compiles the plan.
    pub(super) watch: ActiveHandles,
    /// All elements computed so far, or `None` if they are not recorded.
    pub(super) known: Option<HashSet<u64>>,
}

impl Evaluator<'_> {
    /// Evaluates a graph, and returns its outputs.
    pub(super) fn graph(&mut self, graph: &Graph, inputs: &[Grid]) -> Meaning<Vec<Grid>> {
        let mut values: Vec<Option<Grid>> = vec![None; graph.values().count()];
        for (input, grid) in graph.inputs().iter().zip(inputs) {
            values[input.value.index()] = Some(grid.clone());
            self.note(grid);
        }
        let live = graph.live_nodes();
        for (index, node) in graph.nodes().iter().enumerate().filter(|(index, _)| live[*index]) {
            let operand =
                |value: &ValueId| values[value.index()].clone().ok_or_else(|| unknown(graph.nodes()[index].op.name()));
            let operands = node.inputs.iter().map(operand).collect::<Meaning<Vec<Grid>>>()?;
            let results = self.node(graph, node, &operands)?;
            for (value, grid) in node.outputs.iter().zip(results) {
                self.note(&grid);
                values[value.index()] = Some(grid);
            }
        }
        let output = |value: ValueId| values[value.index()].clone().ok_or_else(|| unknown("an output without a value"));
        graph.outputs().iter().map(|output_of| output(output_of.value)).collect()
    }

    fn note(&mut self, grid: &Grid) {
        if let Some(known) = &mut self.known {
            known.extend(grid.cells.iter());
        }
    }

    /// Returns an error if the call was cancelled. Loops call this function in each step.
    pub(super) fn check_cancelled(&self) -> Meaning<()> {
        let at = Place::new("proof", Site::Unknown);
        self.watch.check(&at, Progress::Uncounted).map_err(|_| NoMeaning::Budget)
    }

    pub(super) fn spend(&mut self, operations: usize) -> Meaning<()> {
        self.left = self.left.checked_sub(operations).ok_or(NoMeaning::Budget)?;
        Ok(())
    }

    fn node(&mut self, graph: &Graph, node: &Node, operands: &[Grid]) -> Meaning<Vec<Grid>> {
        use Op::{Broadcast, Concat, Pad, Reshape, Reverse, Slice, Transpose};
        // Check the budget before computing large values. Skip values whose sizes the node itself binds, because these
        // sizes are not known yet.
        for value in &node.outputs {
            let shape = graph.ty(*value).shape.value(self.sizes);
            if shape.is_ok_and(|shape| shape.iter().product::<usize>() > self.left) {
                return Err(NoMeaning::Budget);
            }
        }
        let dtypes: Vec<DType> = node.inputs.iter().map(|input| graph.ty(*input).dtype).collect();
        let results = match &node.op {
            Op::Scan(scan) => self.scan(scan, operands)?,
            Op::While(op) => self.repeat_while(op, operands)?,
            Op::Switch(switch) => self.choose(switch, operands)?,
            Broadcast(_) | Reshape(_) | Transpose(_) | Slice(_) | Reverse(_) | Concat(_) | Pad(_) => {
                self.move_elements(graph, node, operands, &[])?
            }
            Op::DynamicSlice(_) | Op::Take(_) | Op::Gather(_) => self.move_elements(graph, node, operands, &[1])?,
            Op::DynamicUpdate(_) => self.move_elements(graph, node, operands, &[2])?,
            Op::Scatter(scatter) if scatter.mode == ScatterMode::Set => {
                self.move_elements(graph, node, operands, &[1])?
            }
            Op::BindSize(op) => {
                self.sizes.set(&op.size, size(signed(operands[0].first()))?);
                Vec::new()
            }
            Op::AssociativeScan(scan) if operands[0].shape[0] == 0 => operands[..scan.leaves].to_vec(),
            op => Vec::from([self.compute_op(op, graph.ty(node.outputs[0]), &dtypes, operands)?]),
        };
        let elements: usize = results.iter().map(|grid| grid.cells.len()).sum();
        self.spend(OPERATIONS_PER_NODE + elements)?;
        Ok(results)
    }

    /// Evaluates an op that only moves elements, using its reference implementation. `indices` contains the positions
    /// of the operands that are integers.
    fn move_elements(
        &mut self,
        graph: &Graph,
        node: &Node,
        operands: &[Grid],
        indices: &[usize],
    ) -> Meaning<Vec<Grid>> {
        let inputs: Vec<HostTensor> =
            operands.iter().enumerate().map(|(index, grid)| grid.host(indices.contains(&index))).collect();
        let as_integers = |ty: TensorType| ty.with_dtype(DType::I64);
        let types: Vec<TensorType> = graph.types(&node.outputs).into_iter().map(as_integers).collect();
        let mut context = EvalContext { at: node.place(), sizes: self.sizes };
        let results = node.op.eval(&mut context, &inputs, &types)?;
        Ok(results.iter().map(Grid::of_host).collect())
    }

    /// Returns the shape of a type, with the symbols replaced by their sizes.
    pub(super) fn shape(&self, ty: &TensorType) -> Meaning<Vec<usize>> {
        Ok(ty.shape.value(self.sizes)?)
    }

    /// Rounds a float to `dtype` if `dtype` is narrower than the plan's element type, and returns it unchanged
    /// otherwise.
    pub(super) fn round(&self, cell: u64, dtype: DType) -> u64 {
        let is_narrower = match dtype {
            DType::F16 | DType::BF16 => true,
            DType::F32 => self.element == DType::F64,
            _ => false,
        };
        if is_narrower { self.model.round(cell, dtype) } else { cell }
    }
}

pub(super) fn unknown(op: &str) -> NoMeaning {
    NoMeaning::Unknown(op.to_string())
}

/// Converts an integer to `dtype`, wrapping around if `dtype` is an integer type of up to 32 bits.
pub(super) fn wrap(number: i64, dtype: DType) -> u64 {
    of_signed(match dtype {
        DType::U8 => i64::from(number as u8),
        DType::U32 => i64::from(number as u32),
        DType::I32 => i64::from(number as i32),
        _ => number,
    })
}
