//! Ops that process the elements of an axis in order or in a sliding window: cumulative reductions, `sort`, `conv`.

use funcify::Dim;
use funcify::ops::{Cumulative, Sort};

use super::reductions::SUMS;
use super::values::{FLOATS, NUMBERS, SHAPES, cycle, cycle_values, small};
use super::*;

pub(super) fn cases() -> Cases {
    Ok([cumulatives()?, long_axes()?, sorts()?, convolutions()?, symbolic()?].concat())
}

fn cumulatives() -> Cases {
    use ReduceKind::*;
    let rows: [(&str, ReduceKind, &[DType]); 6] = [
        ("cumulative_sum", Sum, &NUMBERS),
        ("cumulative_prod", Prod, &NUMBERS),
        ("cumulative_max", Max, &NUMBERS),
        ("cumulative_min", Min, &NUMBERS),
        ("cumulative_any", Any, &[DType::Bool]),
        ("cumulative_all", All, &[DType::Bool]),
    ];
    let mut cases = Vec::new();
    for (name, kind, dtypes) in rows {
        let scale = if kind == Sum { SUMS } else { 0.0 };
        cases.extend(on_dtypes(name, dtypes, scale, |dtype| {
            let mut uses = Vec::new();
            for reverse in [false, true] {
                for (shape, axis) in axes() {
                    let op = Cumulative { kind, axis, reverse };
                    uses.push(OpUse::new(op, [cycle_values(dtype, shape, 1)]));
                    uses.push(OpUse::new(op, [cycle_values(dtype, shape, 9)]));
                    uses.push(OpUse::new(op, [small(dtype, shape, 1)]));
                }
                let op = Cumulative { kind, axis: 0, reverse };
                uses.push(OpUse::new(op, [cycle_values(dtype, &[50], 0)]));
                uses.push(OpUse::new(op, [small(dtype, &[90, 2], 0)]));
            }
            uses
        })?);
    }
    Ok(cases)
}

/// Builds cases with axes that need more than 2^16 loop iterations: cumulative ops with one element per iteration, and
/// reductions with four. All results are exact.
fn long_axes() -> Cases {
    on_dtypes("long_axes", &[DType::I32, DType::F32], 0.0, |dtype| {
        let of = |len: usize, number: fn(usize) -> i64| {
            HostTensor::from_fn(DType::I64, &[len], |index| Scalar::Int(number(index[0]))).cast(dtype)
        };
        let mut uses = Vec::new();
        for (kind, number) in [
            (ReduceKind::Sum, (|index| [1, -1, 2, -2, 1][index % 5]) as fn(usize) -> i64),
            (ReduceKind::Prod, |index| 1 - 2 * (index % 3 / 2) as i64),
            (ReduceKind::Max, |index| index as i64),
            (ReduceKind::Min, |index| -(index as i64)),
        ] {
            for reverse in [false, true] {
                uses.push(OpUse::new(Cumulative { kind, axis: 0, reverse }, [of(70_001, number)]));
            }
            uses.push(OpUse::new(Reduce { kind, axes: vec![0] }, [of(300_001, number)]));
        }
        uses
    })
}

/// Returns all pairs of a shape in [`SHAPES`] and one of its axes.
fn axes() -> impl Iterator<Item = (&'static [usize], usize)> {
    SHAPES.into_iter().flat_map(|shape| (0..shape.len()).map(move |axis| (shape, axis)))
}

/// Builds the cases for sorting. The rows have equal elements, NaNs, and zeros of both signs at various positions.
fn sorts() -> Cases {
    on_dtypes("sort", &DType::ALL, 0.0, |dtype| {
        let mut uses = Vec::new();
        for descending in [false, true] {
            for (shape, axis) in axes() {
                let op = Sort { axis, descending };
                uses.push(OpUse::new(op, [small(dtype, shape, 0)]));
                uses.extend([0, 5, 11].map(|first| OpUse::new(op, [cycle_values(dtype, shape, first)])));
            }
            let op = Sort { axis: 0, descending };
            uses.push(OpUse::new(op, [cycle_values(dtype, &[90], 0)]));
            uses.push(OpUse::new(op, [small(dtype, &[90, 2], 0)]));
            if dtype.is_float() {
                let ties = [f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NAN, 0.0].map(Scalar::Float);
                uses.push(OpUse::new(op, [cycle(dtype, &[6], &ties, 0)]));
            }
        }
        uses
    })
}

/// A convolution to test: the shape of its operand, the shape of its kernel, and its options.
type Window<const D: usize> = (&'static [usize], &'static [usize], ConvOptions<D>);

fn one_axis() -> Vec<Window<1>> {
    let plain = ConvOptions::<1>::default();
    vec![
        (&[2, 3, 7], &[4, 3, 3], plain),
        (&[1, 1, 1], &[1, 1, 1], plain),
        (&[2, 4, 9], &[3, 4, 1], plain),
        (&[2, 3, 7], &[4, 3, 3], ConvOptions { padding: [(2, 0)], ..plain }),
        (&[2, 3, 7], &[4, 3, 3], ConvOptions { strides: [2], padding: [(1, 1)], ..plain }),
        (&[2, 3, 9], &[4, 3, 3], ConvOptions { strides: [3], dilation: [2], padding: [(0, 3)], ..plain }),
        (&[1, 2, 5], &[2, 2, 3], ConvOptions { input_dilation: [2], padding: [(2, 2)], ..plain }),
        (&[1, 2, 5], &[2, 2, 2], ConvOptions { input_dilation: [3], padding: [(-2, 1)], ..plain }),
        (&[2, 2, 8], &[3, 2, 2], ConvOptions { padding: [(-1, -2)], ..plain }),
        (&[1, 2, 4], &[3, 2, 2], ConvOptions { padding: [(-6, 6)], ..plain }),
        (&[2, 6, 7], &[4, 3, 3], ConvOptions { groups: 2, padding: [(1, 2)], ..plain }),
        (&[2, 4, 7], &[4, 1, 3], ConvOptions { groups: 4, padding: [(3, 0)], ..plain }),
        (&[2, 3, 8], &[6, 1, 2], ConvOptions { groups: 3, strides: [2], ..plain }),
        (&[2, 3, 3], &[4, 3, 4], plain),
        (&[2, 3, 2], &[4, 3, 5], ConvOptions { strides: [2], padding: [(1, 1)], ..plain }),
        (&[0, 3, 7], &[4, 3, 3], plain),
        (&[2, 0, 7], &[4, 0, 3], plain),
        (&[2, 3, 7], &[0, 3, 3], plain),
        (&[2, 3, 0], &[4, 3, 3], ConvOptions { padding: [(2, 2)], ..plain }),
        (&[2, 3, 4], &[4, 3, 0], plain),
    ]
}

fn two_axes() -> Vec<Window<2>> {
    let plain = ConvOptions::<2>::default();
    vec![
        (&[2, 3, 5, 6], &[4, 3, 3, 2], plain),
        (&[2, 3, 5, 6], &[4, 3, 1, 1], plain),
        (&[2, 3, 5, 6], &[4, 3, 1, 1], ConvOptions { strides: [2, 2], ..plain }),
        (&[1, 2, 6, 5], &[3, 2, 3, 3], ConvOptions { padding: [(1, 1); 2], strides: [2, 2], ..plain }),
        (&[1, 2, 6, 5], &[3, 2, 3, 3], ConvOptions { padding: [(0, 2), (1, 0)], strides: [1, 2], ..plain }),
        (&[1, 2, 7, 7], &[3, 2, 2, 3], ConvOptions { dilation: [2, 2], padding: [(1, 1); 2], ..plain }),
        (&[1, 2, 7, 7], &[3, 2, 2, 3], ConvOptions { dilation: [3, 1], ..plain }),
        (&[1, 2, 3, 4], &[3, 2, 2, 2], ConvOptions { input_dilation: [2, 3], padding: [(1, 1), (-1, 2)], ..plain }),
        (&[2, 4, 5, 5], &[6, 2, 2, 2], ConvOptions { groups: 2, padding: [(-1, 1), (0, 1)], ..plain }),
        (&[2, 3, 5, 6], &[3, 1, 3, 3], ConvOptions { groups: 3, padding: [(1, 1); 2], ..plain }),
        (&[1, 2, 3, 3], &[2, 2, 4, 2], plain),
        (&[0, 2, 3, 3], &[2, 2, 2, 2], plain),
        (&[2, 2, 0, 3], &[2, 2, 2, 2], ConvOptions { padding: [(1, 1); 2], ..plain }),
    ]
}

fn convolutions() -> Cases {
    on_dtypes("conv", &FLOATS, SUMS, |dtype| {
        let of =
            |op: Conv, x: &[usize], kernel: &[usize]| OpUse::new(op, [small(dtype, x, 0), small(dtype, kernel, 3)]);
        let mut uses: Vec<OpUse> = one_axis().into_iter().map(|(x, kernel, op)| of(op.into(), x, kernel)).collect();
        uses.extend(two_axes().into_iter().map(|(x, kernel, op)| of(op.into(), x, kernel)));
        // The convolution multiplies the zeros that padding inserts by an infinite kernel element, so the result is
        // NaN.
        let infinite = cycle(dtype, &[1, 1, 2], &[f64::INFINITY, 1.0].map(Scalar::Float), 0);
        let padded = ConvOptions { padding: [(1, 0)], ..ConvOptions::default() };
        uses.push(OpUse::new(Conv::from(padded), [small(dtype, &[1, 1, 3], 0), infinite]));
        uses
    })
}

/// Builds cases that apply the ops of this file and related ops to operands with symbolic sizes, which may be zero.
fn symbolic() -> Cases {
    let mut cases = Vec::new();
    for (batch, length) in [(2, 5), (1, 1), (0, 4), (3, 0)] {
        let (x, kernel) = (small(DType::F32, &[batch, 2, length], 0), small(DType::F32, &[4, 1, 3], 2));
        let name = format!("structured_symbolic_{batch}_{length}");
        let graph = Graph::build(&name, |builder| {
            let dims = [Dim::from("N"), Dim::from(2), Dim::from("L")];
            let [x, kernel] =
                [builder.input("x", TensorType::new(DType::F32, dims)), builder.input("kernel", kernel.ty())];
            let (sorted, positions) = x.sort(-1, true);
            let padded = |low, high, groups| ConvOptions { padding: [(low, high)], groups, ..ConvOptions::default() };
            let causal = x.conv(kernel, padded(2, 0, 2));
            vec![
                x.cumsum(2, false),
                x.cummax(0, true),
                sorted,
                positions,
                causal,
                causal.conv(kernel.move_axis(0, 1), padded(2, 1, 1)),
                x.dot_general(x, &[(2, 2)], &[(0, 0)]),
                funcify::einsum("ncl,mcl->nm", &[x, x]),
                x.tril(-1),
                x.argsort(0, false).one_hot("L", DType::F32),
            ]
        });
        let graph = graph.map_err(|error| format!("case `op/{name}`: {error}"))?;
        let inputs: Vec<HostTensor> = vec![x, kernel];
        cases.push(Case::from_reference_scaled(&name, "op", graph, inputs, SUMS)?);
    }
    Ok(cases)
}
