//! Builds test cases for custom ops, to run in the test suite of the crate that defines them.

use funcify::ops::Op;
use funcify::{Error, Graph, HostTensor, Scalar, ScanOptions, Sizes, Value, apply, scan_with};

use crate::case::Case;
use crate::cases::ops::{OpUse, case_of};
use crate::derivatives;
use crate::lanes::{cases_on_lanes, stack_lanes, vary_input};

/// Builds cases named `custom/NAME` for a custom op. The expected results come from the reference evaluator.
///
/// For each list of operands, the cases run the op on uploaded tensors, on views of larger tensors, under `vmap`, and
/// in a loop over rows. A backend may compile this loop if the op has a composition
/// ([`CustomOp::composition`](funcify::ops::CustomOp::composition)). If the op has derivative rules, further cases
/// compute its derivatives, both outside and inside the loop: first derivatives in forward and reverse mode, and a
/// second derivative.
///
/// ```
/// use funcify::HostTensor;
/// use funcify::ops::Reverse;
/// use funcify_conformance::custom_cases;
///
/// // An op of this crate stands for one of yours, which is `Custom::new(MyOp { .. })`.
/// let cases = custom_cases("turn", Reverse { axis: 0 }, &[vec![HostTensor::from([0.5f32, -1.0])]])?;
/// assert!(cases.iter().any(|case| case.name == "custom/turn_in_a_loop_grad"));
/// # Ok::<(), String>(())
/// ```
///
/// `properties::check` compares the op's rules with each other and with finite differences:
///
/// ```
/// use funcify::ops::Reverse;
/// use funcify::{Graph, Sizes, apply};
/// use funcify_conformance::arbitrary::{Rules, TestProgram};
/// use funcify_conformance::properties;
///
/// let graph = Graph::build("turn", |g| apply(Reverse { axis: 0 }, &[g.input("x", "f64[3]")])).unwrap();
/// let (sizes, seed, is_exact, rules) = (Sizes::new(), 0, true, Rules::Derivatives);
/// assert!(properties::check(&TestProgram { graph, sizes, seed, is_exact, rules }).is_ok());
/// ```
///
/// # Errors
/// Returns a description of the problem if the op does not accept the operands or one of its rules fails.
pub fn custom_cases(name: &str, op: impl Into<Op>, operands: &[Vec<HostTensor>]) -> Result<Vec<Case>, String> {
    let op = op.into();
    let uses: Vec<OpUse> =
        operands.iter().map(|operands| OpUse { op: op.clone(), operands: operands.clone() }).collect();
    let mut all = vec![case_of(CATEGORY, name, 1.0, &uses)?];
    for case in cases_on_lanes(&all[0])? {
        let name = case.name.replacen("vmap/", "custom/", 1);
        all.push(Case { name, category: CATEGORY.into(), ..case });
    }
    for (number, operands) in operands.iter().enumerate() {
        let name = if number == 0 { name.to_string() } else { format!("{name}_{number}") };
        let alone = graph(&name, operands, |inputs| apply(op.clone(), inputs))?;
        all.extend(derivative_cases(&name, &alone, operands)?);
        let rows: Vec<HostTensor> = operands.iter().map(|x| stack_lanes(&[x, &vary_input(x), x])).collect();
        let looped = graph(&name, &rows, |inputs| {
            let options = ScanOptions::new().length(rows.first().map_or(3, |rows| rows.shape()[0]));
            scan_with(options, (), inputs.to_vec(), |(), row| ((), apply(op.clone(), &row))).1
        })?;
        let name = format!("{name}_in_a_loop");
        all.push(Case::from_reference(&name, CATEGORY, looped.clone(), rows.clone())?);
        all.extend(derivative_cases(&name, &looped, &rows)?);
    }
    Ok(all)
}

const CATEGORY: &str = "custom";

/// Builds a program whose inputs `x0`, `x1`, ... have the types of `inputs`.
fn graph(name: &str, inputs: &[HostTensor], body: impl FnOnce(&[Value]) -> Vec<Value>) -> Result<Graph, String> {
    let built = Graph::build("program", |g| {
        let inputs = inputs.iter().enumerate().map(|(index, x)| g.input(&format!("x{index}"), x.ty()));
        body(&inputs.collect::<Vec<_>>())
    });
    built.map_err(|error| format!("case `custom/{name}`: {error}"))
}

/// Builds cases for the derivatives that the op's rules support. Returns no cases if no input is a float.
fn derivative_cases(name: &str, graph: &Graph, inputs: &[HostTensor]) -> Result<Vec<Case>, String> {
    if !inputs.iter().any(|input| input.dtype().is_float()) {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for (kind, derivative) in &derivatives::ALL[..3] {
        match derivative(graph) {
            Ok(derivative) => {
                let arguments = arguments(&derivative, inputs)?;
                all.push(Case::from_reference(&format!("{name}_{kind}"), CATEGORY, derivative, arguments)?);
            }
            Err(Error::NoDerivative { .. }) => {}
            Err(error) => return Err(format!("case `custom/{name}_{kind}`: {error}")),
        }
    }
    Ok(all)
}

/// Returns the arguments of `graph`: `inputs`, followed by arbitrary values for the tangents and cotangents.
fn arguments(graph: &Graph, inputs: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
    let further = (inputs.len()..graph.inputs().len()).map(|index| {
        let ty = graph.input_type(index);
        let shape = ty.shape.value(&Sizes::new()).map_err(|error| error.to_string())?;
        let number = |at: &[usize]| (at.iter().fold(index, |number, at| 3 * number + at) % 5) as f64 / 4.0 - 0.4;
        Ok(HostTensor::from_fn(ty.dtype, &shape, |at| Scalar::Float(number(at))))
    });
    inputs.iter().cloned().map(Ok).chain(further).collect()
}
