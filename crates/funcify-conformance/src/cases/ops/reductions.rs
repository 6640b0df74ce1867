//! Ops that combine elements: reductions, `argmax`, matrix products.

use funcify::ops::{ArgMax, MatMul};

use super::values::{FLOATS, NUMBERS, SHAPES, cycle, cycle_values, small};
use super::*;

/// The magnitude of the terms that cancel in sums.
pub(super) const SUMS: f64 = 0.1;

/// Rows whose product or sum has intermediate results that overflow f16. The product of the first row is 0.008, and the
/// sum of the second row is zero.
const TOO_LARGE: [[f64; 4]; 2] = [[1e4, 80.0, 1e-4, 1e-4], [6e4, 6e4, -6e4, -6e4]];

pub(super) fn cases() -> Cases {
    Ok([reductions()?, argmax()?, matmul()?, repeated_views()?].concat())
}

fn reductions() -> Cases {
    use ReduceKind::*;
    let rows: [(&str, ReduceKind, &[DType]); 6] = [
        ("reduce_sum", Sum, &NUMBERS),
        ("reduce_prod", Prod, &NUMBERS),
        ("reduce_max", Max, &NUMBERS),
        ("reduce_min", Min, &NUMBERS),
        ("reduce_any", Any, &[DType::Bool]),
        ("reduce_all", All, &[DType::Bool]),
    ];
    let mut cases = Vec::new();
    for (name, kind, dtypes) in rows {
        let scale = if kind == Sum { SUMS } else { 0.0 };
        cases.extend(on_dtypes(name, dtypes, scale, |dtype| reductions_of(kind, dtype))?);
    }
    Ok(cases)
}

/// Returns reductions of every shape in `SHAPES` over every subset of its axes, and reductions over axes longer than
/// 255.
fn reductions_of(kind: ReduceKind, dtype: DType) -> Vec<OpUse> {
    let mut uses = Vec::new();
    for shape in SHAPES {
        for subset in 0..1usize << shape.len() {
            let axes: Vec<usize> = (0..shape.len()).filter(|axis| subset >> axis & 1 == 1).collect();
            let op = Reduce { kind, axes };
            uses.push(OpUse::new(op.clone(), [cycle_values(dtype, shape, 1)]));
            uses.push(OpUse::new(op, [small(dtype, shape, 1)]));
        }
    }
    let along = |axis| Reduce { kind, axes: vec![axis] };
    let one = if dtype == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(1) };
    uses.push(OpUse::new(along(0), [cycle_values(dtype, &[300], 0)]));
    uses.push(OpUse::new(along(0), [small(dtype, &[300, 2], 0)]));
    uses.push(OpUse::new(along(1), [cycle(dtype, &[2, 300], &[one], 0)]));
    if dtype.is_float() {
        for (values, axes) in
            TOO_LARGE.iter().flat_map(|values| [vec![0], vec![1], vec![0, 1]].map(|axes| (values, axes)))
        {
            uses.push(OpUse::new(Reduce { kind, axes }, [cycle(dtype, &[2, 2], &values.map(Scalar::Float), 0)]));
        }
    }
    uses
}

/// Builds the cases for `argmax`, with maxima at every position. Among equal maxima or NaNs, `argmax` selects the
/// first.
fn argmax() -> Cases {
    on_dtypes("argmax", &NUMBERS, 0.0, |dtype| {
        let mut uses = Vec::new();
        for shape in SHAPES {
            for axis in (0..shape.len()).filter(|axis| shape[*axis] > 0) {
                for first in 0..16 {
                    uses.push(OpUse::new(ArgMax { axis }, [cycle_values(dtype, shape, first)]));
                }
                uses.push(OpUse::new(ArgMax { axis }, [small(dtype, shape, 0)]));
            }
        }
        let rising: Vec<Scalar> = (0..300).map(Scalar::Int).collect();
        uses.push(OpUse::new(ArgMax { axis: 0 }, [cycle(dtype, &[300], &rising, 0)]));
        uses.push(OpUse::new(ArgMax { axis: 0 }, [small(dtype, &[300], 0)]));
        uses.push(OpUse::new(ArgMax { axis: 0 }, [cycle_values(dtype, &[300], 0)]));
        uses
    })
}

fn matmul() -> Cases {
    let shapes: [(&[usize], [usize; 3]); 17] = [
        (&[], [2, 3, 4]),
        (&[], [1, 1, 1]),
        (&[], [1, 5, 1]),
        (&[], [17, 33, 19]),
        (&[], [0, 3, 4]),
        (&[], [2, 0, 4]),
        (&[], [2, 3, 0]),
        (&[2], [3, 4, 5]),
        (&[0], [3, 4, 5]),
        (&[3], [2, 0, 2]),
        (&[2, 3], [2, 3, 4]),
        (&[1, 3], [2, 3, 4]),
        (&[2, 1], [1, 3, 4]),
        (&[2, 2], [1, 4, 3]),
        (&[2, 3, 2], [2, 3, 4]),
        (&[], [3, 4, 2]),
        (&[], [3, 0, 2]),
    ];
    on_dtypes("matmul", &NUMBERS, SUMS, |dtype| {
        let operands = |batch: &[usize], [rows, inner, columns]: [usize; 3]| {
            let (left, right) = ([batch, &[rows, inner]].concat(), [batch, &[inner, columns]].concat());
            [small(dtype, &left, 0), small(dtype, &right, 3)]
        };
        let mut uses: Vec<OpUse> = shapes.map(|(batch, sizes)| OpUse::new(MatMul, operands(batch, sizes))).into();
        if dtype.is_int() {
            // If the elements are special values, the products and sums of integers wrap.
            uses.push(OpUse::new(MatMul, [cycle_values(dtype, &[3, 21], 0), cycle_values(dtype, &[21, 4], 5)]));
            uses.push(OpUse::new(MatMul, [cycle_values(dtype, &[2, 5, 70], 1), cycle_values(dtype, &[2, 70, 3], 2)]));
        }
        uses
    })
}

/// Builds cases that multiply, sum and reverse views with repeated elements, as created by broadcasting.
fn repeated_views() -> Cases {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        let inputs = vec![small(dtype, &[3, 4], 0), small(dtype, &[4, 3], 2), small(dtype, &[2, 4, 3], 1)];
        let name = format!("repeated_views_{dtype}");
        let graph = Graph::build(&name, |builder| {
            let [x, y, z] = [("x", 0), ("y", 1), ("z", 2)].map(|(name, index)| builder.input(name, inputs[index].ty()));
            let row = x.slice(0, 1..2);
            let rows = row.broadcast_to([3usize, 4]);
            let matrices = x.broadcast_to([2usize, 3, 4]);
            vec![
                x + row,
                rows.matmul(y),
                matrices.transpose(vec![0, 2, 1]).matmul(y.t().broadcast_to([2usize, 3, 4])),
                z.transpose(vec![0, 2, 1]).matmul(y.broadcast_to([2usize, 4, 3])),
                matrices.matmul(y.broadcast_to([2usize, 4, 3])),
                rows.sum(0),
                rows.max(1),
                rows.reverse(0),
            ]
        });
        let graph = graph.map_err(|error| format!("case `op/{name}`: {error}"))?;
        cases.push(Case::from_reference_scaled(&name, "op", graph, inputs, SUMS)?);
    }
    Ok(cases)
}
