//! Compares the outputs of a backend with the expected outputs.

use approx::AbsDiffEq;
use funcify::{Graph, HostTensor, Scalar};

use crate::case::ExpectedOutput;

/// Checks that all outputs match the expected ones. The error describes the first difference.
pub fn compare(graph: &Graph, got: &[HostTensor], expected: &[ExpectedOutput]) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} outputs instead of {}", got.len(), expected.len()));
    }
    for output in expected {
        let index = graph.outputs().iter().position(|other| other.name == output.name);
        let got = index.and_then(|index| got.get(index)).ok_or_else(|| format!("no output `{}`", output.name))?;
        compare_output(got, output)?;
    }
    Ok(())
}

fn compare_output(got: &HostTensor, expected: &ExpectedOutput) -> Result<(), String> {
    let name = &expected.name;
    if got.ty() != expected.ty {
        return Err(format!("output `{name}` has type {} instead of {}", got.ty(), expected.ty));
    }
    let pairs = got.scalars().zip(expected.values.scalars()).enumerate();
    for (flat, (got_element, expected_element)) in pairs {
        if !is_close(got_element, expected_element, expected.rtol, expected.atol) {
            let index = multi_index(flat, got.shape());
            return Err(format!(
                "output `{name}` at {index:?} is {}, not {} (rtol {:e}, atol {:e})",
                format_scalar(got_element),
                format_scalar(expected_element),
                expected.rtol,
                expected.atol
            ));
        }
    }
    Ok(())
}

fn is_close(got: Scalar, expected: Scalar, rtol: f64, atol: f64) -> bool {
    match (got, expected) {
        (Scalar::Float(got), Scalar::Float(expected)) => {
            got == expected
                || (got.is_nan() && expected.is_nan())
                || (expected.is_finite() && got.abs_diff_eq(&expected, atol + rtol * expected.abs()))
        }
        (got, expected) => got == expected,
    }
}

fn format_scalar(scalar: Scalar) -> String {
    match scalar {
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => format!("{value:?}"),
    }
}

fn multi_index(flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = flat;
    let mut index: Vec<usize> = shape.iter().rev().map(|size| (rest % size, rest /= size).0).collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(values: Vec<f32>, rtol: f64, atol: f64) -> ExpectedOutput {
        let values = HostTensor::from_vec(values, [2]).unwrap();
        ExpectedOutput { name: "y".into(), ty: values.ty(), values, rtol, atol }
    }

    #[test]
    fn the_tolerance_is_absolute_and_relative() {
        let got = HostTensor::from_vec(vec![1.0f32, f32::NAN], [2]).unwrap();
        assert!(compare_output(&got, &output(vec![1.001, f32::NAN], 1e-2, 0.0)).is_ok());
        let error = compare_output(&got, &output(vec![1.1, f32::NAN], 1e-2, 1e-2)).unwrap_err();
        assert!(error.contains("at [0] is 1.0, not"), "{error}");
    }

    #[test]
    fn infinity_and_nan_match_only_themselves() {
        let got = HostTensor::from_vec(vec![f32::NAN, 1e30], [2]).unwrap();
        assert!(compare_output(&got, &output(vec![0.0, 1e30], 1.0, 1e9)).is_err());
        let got = HostTensor::from_vec(vec![3.0f32, 1e30], [2]).unwrap();
        assert!(compare_output(&got, &output(vec![f32::INFINITY, 1e30], 1.0, 1.0)).is_err());
    }

    #[test]
    fn types_must_be_equal() {
        let got = HostTensor::from_vec(vec![1i64, 2], [2]).unwrap();
        let error = compare_output(&got, &output(vec![1.0, 2.0], 1.0, 1.0)).unwrap_err();
        assert!(error.contains("i64[2] instead of f32[2]"), "{error}");
    }
}
