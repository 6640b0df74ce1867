//! Functions that are composed of several ops, on difficult inputs: infinities, NaN, and large numbers.

use funcify::{einsum, eye, grad, tri_mask};

use super::reductions::SUMS;
use super::values::{FLOATS, INTEGERS, NUMBERS, cycle_values, indices, small};
use super::*;

pub(super) fn cases() -> Cases {
    Ok([softmax()?, floats()?, integers()?, parts()?, numbers()?, transposes()?].concat())
}

/// Builds cases that apply `program` to `inputs`, one for each dtype in `dtypes`.
fn on_inputs<const N: usize>(
    name: &str,
    dtypes: &[DType],
    inputs: impl Fn(DType) -> [HostTensor; N],
    program: impl Fn(DType, [Value; N]) -> Vec<Value>,
) -> Cases {
    let case = |dtype: &DType| {
        let (name, inputs) = (format!("{name}_{dtype}"), inputs(*dtype));
        let graph = Graph::build(&name, |builder| {
            let mut names = (0..).map(|index| format!("x{index}"));
            program(*dtype, inputs.each_ref().map(|x| builder.input(&names.next().expect("names never end"), x.ty())))
        });
        let graph = graph.map_err(|error| format!("case `op/{name}`: {error}"))?;
        Case::from_reference_scaled(&name, "op", graph, inputs.into(), SUMS)
    };
    dtypes.iter().map(case).collect()
}

fn softmax() -> Cases {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [
        [-inf, -inf, -inf],
        [inf, 0.0, -1.0],
        [inf, inf, -inf],
        [nan, 1.0, 2.0],
        [-inf, 2.0, 0.0],
        [6e4, 6e4, -6e4],
        [-6e4, -6e4, -6e4],
        [0.5, -0.25, 3.0],
    ];
    let inputs = |dtype| [HostTensor::from(rows).cast(dtype)];
    on_inputs("softmax", &FLOATS, inputs, |_, [x]| {
        let both = |f: fn(Value, i64) -> Value| [f(x, 1), f(x.t(), 0)];
        [both(Value::softmax), both(Value::log_softmax), both(Value::logsumexp)].concat()
    })
}

fn floats() -> Cases {
    let inputs = |dtype| [small(dtype, &[2, 3, 4], 0), small(dtype, &[3, 5, 2], 2), small(dtype, &[2, 0], 0)];
    on_inputs("products", &FLOATS, inputs, |_, [x, y, empty]| {
        vec![
            x.dot_general(y, &[(1, 0)], &[(0, 2)]),
            x.dot_general(y, &[(0, -1), (1, 0)], &[]),
            x.dot_general(y, &[], &[(0, 2), (1, 0)]),
            x.t().dot_general(y, &[(2, 0)], &[]),
            empty.dot_general(empty, &[(1, 1)], &[]),
            einsum("abc,bda->cd", &[x, y]),
            einsum("abc,bda,be->aec", &[x, y, y.sum(2)]),
            einsum("abc->ca", &[x]),
            einsum("ij,kj->ik", &[empty, empty]),
            x.var(1),
            x.std([0, 2]),
            x.norm(..),
            empty.var(0),
        ]
    })
}

/// Builds the cases for products of integer tensors. The elements of the results may wrap.
fn integers() -> Cases {
    let inputs =
        |dtype| [cycle_values(dtype, &[2, 3, 4], 0), cycle_values(dtype, &[3, 5, 2], 2), cycle_values(dtype, &[4], 6)];
    on_inputs("integer_products", &INTEGERS, inputs, |_, [x, y, vector]| {
        vec![
            x.matmul(vector),
            vector.matmul(vector),
            x.matmul(x.t()),
            x.dot_general(y, &[(1, 0)], &[(0, 2)]),
            einsum("abc,bda->cd", &[x, y]),
            x.broadcast_to([3usize, 2, 3, 4]).matmul(x.index(0, 0).t().broadcast_to([3usize, 2, 4, 3])),
        ]
    })
}

/// Builds the cases that split floats into fraction and exponent, recombine and scale them, copy signs, and
/// differentiate these ops.
fn parts() -> Cases {
    let inputs = |dtype| {
        let exponents = indices(DType::I32, &[3, 1], &[0, 9, -7]);
        [cycle_values(dtype, &[23], 0), small(dtype, &[3, 4], 0), exponents]
    };
    on_inputs("parts", &FLOATS, inputs, |_, [x, y, exponents]| {
        let (fraction, exponent) = x.frexp();
        let restored = |y: Value| {
            let (fraction, exponent) = y.square().frexp();
            (fraction.square().ldexp(exponent) + y.ldexp(exponents)).sum(..)
        };
        let signed = |y: Value| y.square().copysign(y.slice(0, ..1) - 1.0).sum(..);
        vec![
            fraction,
            exponent,
            fraction.ldexp(exponent),
            x.signbit(),
            x.reverse(0).copysign(x),
            x.ldexp(3),
            y.ldexp(exponents),
            y.ldexp(exponents.cast(DType::I64)),
            grad(y, restored),
            grad(y, |y| grad(y, restored).sum(..)),
            grad(y, signed),
        ]
    })
}

fn numbers() -> Cases {
    let inputs = |dtype| {
        let positions = indices(DType::U8, &[2, 3], &[0, 255, 2, 1, 3, 7]);
        [cycle_values(dtype, &[2, 4, 4], 3), positions, cycle_values(dtype, &[3, 1], 0)]
    };
    on_inputs("rows", &NUMBERS, inputs, |dtype, [x, positions, column]| {
        let (greatest, places) = x.top_k(1, 3);
        vec![
            x.tril(0),
            x.triu(-1),
            x.slice(2, ..3).tril(1),
            x.diagonal(),
            x.argmin(1),
            x.argmin(-1),
            column.argmin(0),
            greatest,
            places,
            x.take_along(2, x.argsort(2, false)),
            column.embedding(positions),
            positions.one_hot(4, dtype),
            eye(3, dtype),
            tri_mask(2, 3, 0).cast(dtype),
        ]
    })
}

/// Builds the cases for transposed convolutions, which the gradients of convolutions use.
fn transposes() -> Cases {
    let plain = ConvOptions::<2>::default();
    let options = [
        plain,
        ConvOptions { strides: [2, 3], padding: [(1, 0), (2, 2)], ..plain },
        ConvOptions { dilation: [2, 1], padding: [(3, -1), (0, 0)], groups: 2, ..plain },
        ConvOptions { input_dilation: [1, 2], strides: [2, 1], groups: 2, ..plain },
    ];
    let inputs = |dtype| [small(dtype, &[2, 4, 6, 5], 0), small(dtype, &[4, 4, 2, 3], 1)];
    on_inputs("conv_transposes", &FLOATS, inputs, |_, [x, kernels]| {
        let mut results = Vec::new();
        for options in options {
            let kernel = kernels.slice(1, ..4 / options.groups as i64);
            let op = Conv::from(options);
            let cotangent = x.conv(kernel, options).tanh();
            results.push(op.input_transpose(&x.shape(), kernel, cotangent));
            results.push(op.kernel_transpose(&kernel.shape(), x, cotangent));
        }
        results
    })
}
