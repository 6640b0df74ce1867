//! Category `numerics`: edge cases in which tensor libraries return different results. Every backend must return the
//! same result.
//!
//! The documentation of `funcify::ops` has a table of these results. The cases check each line of the table on every
//! dtype to which the line applies. The expected results are literals, and are never computed by the code under test.
//!
//! The reciprocals of float results are compared too, because they distinguish -0 from 0.

mod arithmetic;
mod bits;
mod derivatives;
mod indexing;
mod order;

use funcify::{DType, Graph, HostTensor, Scalar, Value};

use crate::case::{Case, Cases, Expected, ExpectedOutput, reference_tolerance};

/// Builds every case of the category.
pub(crate) fn cases() -> Cases {
    let groups = [arithmetic::cases()?, bits::cases()?, derivatives::cases()?, indexing::cases()?, order::cases()?];
    Ok(groups.concat())
}

/// Concatenates the cases for several lines of the table.
fn all<const N: usize>(lines: [Cases; N]) -> Cases {
    Ok(lines.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
}

/// The float types.
const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];
/// The signed integer types.
const SIGNED: [DType; 2] = [DType::I32, DType::I64];
/// The unsigned integer types.
const UNSIGNED: [DType; 2] = [DType::U8, DType::U32];
/// All integer types.
const INTEGERS: [DType; 4] = [DType::U8, DType::U32, DType::I32, DType::I64];

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Builds the cases for a line of the table, one for each dtype in `dtypes`. Applied to the operands, `program` must
/// return `answer`.
fn answer_cases<const N: usize>(
    name: &str,
    dtypes: &[DType],
    operands: impl Fn(DType) -> [HostTensor; N],
    program: impl Fn([Value; N]) -> Value,
    answer: impl Fn(DType) -> HostTensor,
) -> Cases {
    let case = |dtype: &DType| {
        let (inputs, values) = (operands(*dtype), answer(*dtype));
        let graph = Graph::build("numerics", |g| {
            let mut number = 0;
            let answer = program(inputs.each_ref().map(|input| {
                number += 1;
                g.input(&format!("x{number}"), input.ty())
            }));
            (answer, answer.dtype().is_float().then(|| answer.recip()))
        });
        let graph = graph.map_err(|error| format!("case `numerics/{name}_{dtype}`: {error}"))?;
        let reciprocals = || {
            let reciprocal = |index: &[usize]| Scalar::Float(values.at(index).as_f64().recip());
            HostTensor::from_fn(values.dtype(), values.shape(), reciprocal)
        };
        let expected = if values.dtype().is_float() { vec![values.clone(), reciprocals()] } else { vec![values] };
        let outputs = graph.outputs().iter().zip(expected).map(|(output, values)| {
            let (rtol, atol) = reference_tolerance(values.dtype(), 0.0);
            ExpectedOutput { name: output.name.clone(), ty: values.ty(), values, rtol, atol }
        });
        Ok(Case {
            name: format!("numerics/{name}_{dtype}"),
            category: "numerics".to_string(),
            expected: Expected::Outputs(outputs.collect()),
            graph,
            inputs: inputs.to_vec(),
            needs_dynamic_steps: false,
        })
    };
    dtypes.iter().map(case).collect()
}

/// Creates a vector of floats of type `dtype`.
fn floats<const N: usize>(dtype: DType, numbers: [f64; N]) -> HostTensor {
    HostTensor::from(numbers).cast(dtype)
}

/// Creates a vector of integers of type `dtype`.
fn ints<const N: usize>(dtype: DType, numbers: [i64; N]) -> HostTensor {
    HostTensor::from_fn(dtype, &[N], |index| Scalar::Int(numbers[index[0]]))
}

/// Creates a vector of booleans.
fn bools<const N: usize>(values: [bool; N]) -> HostTensor {
    HostTensor::from(values)
}

/// Returns the smallest integer of a type.
fn lowest(dtype: DType) -> i64 {
    match dtype {
        DType::I32 => i32::MIN.into(),
        DType::I64 => i64::MIN,
        _ => 0,
    }
}

/// Returns the largest integer of a type.
fn highest(dtype: DType) -> i64 {
    match dtype {
        DType::U8 => u8::MAX.into(),
        DType::U32 => u32::MAX.into(),
        DType::I32 => i32::MAX.into(),
        _ => i64::MAX,
    }
}
