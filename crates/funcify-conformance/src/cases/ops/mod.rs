//! Category `op`: every op on every element type of its domain, compared with the reference evaluator.
//!
//! A case, such as `op/tanh_f32`, covers one op on one dtype. The case applies the op to many operands. It passes each
//! operand both as an uploaded tensor and as a view of a larger tensor with reversed axes. The outputs are named
//! `uploaded_0`, `view_0`, `uploaded_1` and so on. Casts have a case for each pair of dtypes, such as
//! `op/cast_f32_i64`.

mod compositions;
mod elementwise;
mod indexing;
mod movement;
mod randoms;
mod reductions;
mod structured;
mod values;

use funcify::ops::{Conv, ConvOptions, Op, Reduce, ReduceKind, Slice, Transpose};
use funcify::{TensorType, apply};
use rayon::prelude::*;

use super::*;

/// Builds every case of the category.
pub(crate) fn cases() -> Cases {
    let groups = [
        elementwise::cases,
        reductions::cases,
        movement::cases,
        indexing::cases,
        structured::cases,
        compositions::cases,
        randoms::cases,
    ];
    let groups: Vec<Vec<Case>> = groups.par_iter().map(|cases| cases()).collect::<Result<_, _>>()?;
    Ok(groups.concat())
}

/// An op and the operands to which a case applies it.
#[derive(Clone)]
pub(crate) struct OpUse {
    pub(crate) op: Op,
    pub(crate) operands: Vec<HostTensor>,
}

impl OpUse {
    fn new(op: impl Into<Op>, operands: impl Into<Vec<HostTensor>>) -> Self {
        OpUse { op: op.into(), operands: operands.into() }
    }
}

/// Builds the case of an op, named after the op and the dtype. `scale` is the magnitude of the intermediate results
/// that cancel ([`Case::from_reference_scaled`]).
fn case(op: &str, dtype: impl std::fmt::Display, scale: f64, uses: &[OpUse]) -> OneCase {
    case_of("op", &format!("{op}_{dtype}"), scale, uses)
}

/// Builds a case with this category and name that applies each op in `uses` twice: to its operands as uploaded tensors,
/// and to views of larger tensors.
pub(crate) fn case_of(category: &str, name: &str, scale: f64, uses: &[OpUse]) -> OneCase {
    let mut inputs = Vec::new();
    let graph = Graph::build(name, |builder| {
        let mut outputs = BTreeMap::new();
        for (number, one) in uses.iter().enumerate() {
            let mut add = |kind: &str, operands: Vec<Value>| {
                for (index, result) in apply(one.op.clone(), &operands).into_iter().enumerate() {
                    let suffix = if index == 0 { String::new() } else { format!("_{index}") };
                    outputs.insert(format!("{kind}_{number}{suffix}"), result);
                }
            };
            let mut uploaded = Vec::new();
            let mut views = Vec::new();
            for (index, operand) in one.operands.iter().enumerate() {
                uploaded.push(builder.input(&format!("uploaded_{number}_{index}"), operand.ty()));
                inputs.push(operand.clone());
                let stored = reversed_backing(operand);
                views.push(view(builder, &format!("view_{number}_{index}"), &stored, operand.shape()));
                inputs.push(stored);
            }
            add("uploaded", uploaded);
            if !views.is_empty() {
                add("view", views);
            }
        }
        outputs
    });
    let graph = graph.map_err(|error| format!("case `{category}/{name}`: {error}"))?;
    Case::from_reference_scaled(name, category, graph, inputs, scale)
}

/// Returns a larger tensor that contains the operand as a view. The tensor's axes are in reverse order, and each is one
/// element longer.
fn reversed_backing(operand: &HostTensor) -> HostTensor {
    let shape: Vec<usize> = operand.shape().iter().rev().map(|size| size + 1).collect();
    HostTensor::from_fn(operand.dtype(), &shape, |index| {
        let source: Vec<usize> = index.iter().rev().copied().collect();
        let inside = source.iter().zip(operand.shape()).all(|(position, size)| position < size);
        if inside { operand.at(&source) } else { Scalar::Int(1) }
    })
}

/// Declares an input for the tensor `stored`, which [`reversed_backing`] created from an operand. Returns a view of the
/// input. The view has the operand's elements and the operand's shape, which is passed as `shape`.
fn view(builder: &Builder, name: &str, stored: &HostTensor, shape: &[usize]) -> Value {
    let mut view = builder.input(name, stored.ty());
    for (axis, size) in shape.iter().rev().enumerate() {
        let slice = Slice { axis, start: 0.into(), limit: (*size).into(), step: 1 };
        view = apply(slice, &[view])[0];
    }
    apply(Transpose { axes: (0..shape.len()).rev().collect() }, &[view])[0]
}

/// Builds a case for each dtype in `dtypes`. `uses` returns the ops and operands for a dtype.
fn on_dtypes(op: &str, dtypes: &[DType], scale: f64, uses: impl Fn(DType) -> Vec<OpUse> + Sync) -> Cases {
    dtypes.par_iter().map(|dtype| case(op, dtype, scale, &uses(*dtype))).collect()
}
