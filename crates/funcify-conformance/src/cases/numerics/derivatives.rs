//! Derivatives at points where no true derivative exists, or where formulas often fail. The cases check the tables of
//! [`singular`](crate::singular) on every float type, in forward and reverse mode.

use std::collections::BTreeMap;

use funcify::{DType, Graph, HostTensor, Scalar};

use crate::case::{Case, Cases, Expected, ExpectedOutput, OneCase, reference_tolerance};
use crate::singular::{CHOSEN, DEFINED, FLOATS, Mode, function};

/// Functions in [`CHOSEN`] that these cases skip. Their derivatives use kernels that some backends lack, and are tested
/// in separate cases.
const KERNELS: [&str; 3] = ["lgamma", "polygamma", "erf_inv"];

/// A list of points, with the derivative at each.
type Points = Vec<(Vec<f64>, f64)>;

pub(super) fn cases() -> Cases {
    let mut lines: BTreeMap<(&'static str, Vec<usize>, &'static str), Points> = BTreeMap::new();
    let mut add = |name, by: &[usize], dtype: DType, point: &[f64], value| {
        lines.entry((name, by.to_vec(), dtype.name())).or_default().push((point.to_vec(), value));
    };
    for line in DEFINED {
        for (dtype, (point, value)) in line.dtypes.iter().flat_map(|dtype| line.at.iter().map(move |at| (dtype, at))) {
            add(line.function, line.by, *dtype, point, *value);
        }
    }
    for line in CHOSEN {
        for name in line.functions.iter().filter(|name| !KERNELS.contains(name)) {
            for (order, derivatives) in (1..).zip(line.derivatives).take(2) {
                for (second, value) in derivatives.iter().enumerate() {
                    let by = [vec![0; order - second], vec![1; second]].concat();
                    // Skip second derivatives that are not finite, because the mode determines whether they are
                    // infinite or NaN.
                    let is_one = order == 1 || value.is_finite();
                    // Skip very small and very large numbers, because not every device supports them.
                    let is_wide = |point: &&&[f64]| {
                        point.iter().any(|x| *x != 0.0 && x.is_finite() && !(1e-3..1e3).contains(&x.abs()))
                    };
                    for point in line.at.examples().iter().filter(|point| is_one && !is_wide(point)) {
                        FLOATS.iter().for_each(|dtype| add(name, &by, *dtype, point, *value));
                    }
                }
            }
        }
    }
    lines.into_iter().map(|((name, by, dtype), points)| case(name, &by, dtype, &points)).collect()
}

/// Builds a case that computes a derivative at `points` in forward and reverse mode.
fn case(name: &str, by: &[usize], dtype: &str, points: &Points) -> OneCase {
    let letters: String = by.iter().map(|operand| if *operand == 0 { 'x' } else { 'y' }).collect();
    let of = function(name).ok_or_else(|| format!("`{name}` is not in the table of functions"))?;
    let name = format!("numerics/derivative_{name}_{letters}_{dtype}");
    let dtype = DType::from_name(dtype).ok_or_else(|| format!("case `{name}`: `{dtype}` is not a dtype"))?;
    let column = |index: usize| {
        let element = |at: &[usize]| Scalar::Float(points[at[0]].0[index]);
        HostTensor::from_fn(dtype, &[points.len()], element)
    };
    let inputs: Vec<HostTensor> = (0..of.operands).map(column).collect();
    let graph = Graph::build("numerics", |builder| {
        let operands = inputs.iter().enumerate().map(|(index, x)| builder.input(&format!("x{index}"), x.ty()));
        let operands: Vec<_> = operands.collect();
        let in_mode = |mode: Mode| {
            let path: Vec<_> = by.iter().map(|operand| (*operand, mode)).collect();
            of.derivative(&operands, &path)
        };
        (in_mode(Mode::Forward), in_mode(Mode::Reverse))
    });
    let graph = graph.map_err(|error| format!("case `{name}`: {error}"))?;
    let values = HostTensor::from_fn(dtype, &[points.len()], |at| Scalar::Float(points[at[0]].1));
    // A derivative is computed by several ops, so the tolerance allows for several roundings.
    let (rtol, atol) = reference_tolerance(dtype, 1e-3);
    let outputs = graph.outputs().iter().map(|output| ExpectedOutput {
        name: output.name.clone(),
        ty: values.ty(),
        values: values.clone(),
        rtol: 4.0 * rtol,
        atol,
    });
    let expected = Expected::Outputs(outputs.collect());
    Ok(Case { name, category: "numerics".to_string(), expected, graph, inputs, needs_dynamic_steps: false })
}
