//! Compares the results of single-step programs with the results of the sequence programs, bit for bit.

use funcify::stepped::{Steppable, Stepped};
use funcify::{DType, Dim, Graph, HostTensor, Scalar, Sizes, Symbol, evaluate};

const STEPS: usize = 5;

/// Returns pseudorandom numbers: floats between -1 and 1, or small integers.
pub(crate) fn noise(dtype: DType, shape: &[usize], seed: u64) -> HostTensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    HostTensor::from_fn(dtype, shape, |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if dtype.is_float() {
            Scalar::Float((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        } else {
            Scalar::Int((state >> 60) as i64 % 4)
        }
    })
}

/// Evaluates dimensions for `steps` steps and 2 streams.
fn sizes(dims: &[Dim], steps: usize) -> Vec<usize> {
    let mut sizes = Sizes::new();
    for (name, size) in [("T", steps), ("B", 2)] {
        sizes.set(&Symbol::new(name), size);
    }
    dims.iter().map(|dim| dim.value(&sizes).unwrap() as usize).collect()
}

/// Returns the step axis, whose size contains the symbol `T`, or `None` if there is no such axis.
fn axis_of(dims: &[Dim]) -> Option<usize> {
    dims.iter().position(|dim| dim.symbols().iter().any(|symbol| symbol.name() == "T"))
}

/// Returns the slice `from..to` of a tensor along an axis.
fn part(tensor: &HostTensor, axis: usize, from: usize, to: usize) -> HostTensor {
    let mut shape = tensor.shape().to_vec();
    shape[axis] = to - from;
    HostTensor::from_fn(tensor.dtype(), &shape, |index| {
        let mut index = index.to_vec();
        index[axis] += from;
        tensor.at(&index)
    })
}

fn without_axis(tensor: &HostTensor, axis: usize) -> HostTensor {
    let mut shape = tensor.shape().to_vec();
    shape.remove(axis);
    HostTensor::from_fn(tensor.dtype(), &shape, |index| {
        let mut index = index.to_vec();
        index.insert(axis, 0);
        tensor.at(&index)
    })
}

/// Derives the single-step program of a sequence program, runs it, and compares each step's results with those of the
/// sequence program on the rows so far. Returns the single-step program.
pub(crate) fn check(graph: &Graph) -> Stepped {
    let stepped = graph.stepped().unwrap_or_else(|error| panic!("{error}\n{graph}"));
    for made in [&stepped.start, &stepped.step] {
        assert!(made.check().is_ok(), "{made}");
        assert_eq!(Graph::parse(&made.to_string()).unwrap().to_string(), made.to_string());
    }
    let inputs = 0..graph.inputs().len();
    let dims = |input: usize| graph.input_type(input).shape.dims().to_vec();
    let whole: Vec<HostTensor> = inputs
        .clone()
        .map(|input| noise(graph.input_type(input).dtype, &sizes(&dims(input), STEPS), 3 + input as u64))
        .collect();
    let named = |name: &str| inputs.clone().find(|input| graph.input_name(*input) == name);
    // The start graph has three kinds of inputs: inputs that are not sequences, rows before the first step, and rows
    // that are used only for their sizes.
    let first = |name: &str, ending: &str| {
        let input = named(name.strip_suffix(ending)?)?;
        Some((input, axis_of(&dims(input))?, sizes(&dims(input), 1)))
    };
    let start: Vec<HostTensor> = (0..stepped.start.inputs().len())
        .map(|input| stepped.start.input_name(input))
        .map(|name| {
            if let Some(input) = named(name) {
                return whole[input].clone();
            }
            if let Some((input, axis, _)) = first(name, "_before") {
                let rows =
                    stepped.start.inputs().iter().position(|it| stepped.start.value_name(it.value) == Some(name));
                let rows = stepped.start.input_type(rows.unwrap()).shape[axis].constant().unwrap() as usize;
                return part(&whole[input], axis, 0, rows);
            }
            let (input, axis, _) = first(name, "_row").unwrap();
            without_axis(&part(&whole[input], axis, 0, 1), axis)
        })
        .collect();
    let mut states = evaluate(&stepped.start, &start).unwrap();
    let shared = states.split_off(stepped.states);
    let sequences: Vec<(usize, usize)> =
        inputs.clone().filter_map(|input| Some((input, axis_of(&dims(input))?))).collect();
    for step in 0..STEPS {
        // Returns the number of rows that a sequence has before the first step.
        let more = |input: usize, axis: usize| {
            let before = stepped.start.inputs().iter().map(|it| stepped.start.value_name(it.value).unwrap());
            let name = format!("{}_before", graph.input_name(input));
            let index = before.collect::<Vec<_>>().iter().position(|other| *other == name);
            index.map_or(0, |index| stepped.start.input_type(index).shape[axis].constant().unwrap() as usize)
        };
        let rows = sequences.iter().map(|(input, axis)| {
            let row = step + more(*input, *axis);
            (row < whole[*input].shape()[*axis])
                .then(|| without_axis(&part(&whole[*input], *axis, row, row + 1), *axis))
        });
        let Some(rows) = rows.collect::<Option<Vec<_>>>() else { break };
        let so_far: Vec<HostTensor> = inputs
            .clone()
            .map(|input| match sequences.iter().find(|(other, _)| *other == input) {
                Some((_, axis)) => part(&whole[input], *axis, 0, step + more(input, *axis) + 1),
                None if dims(input).is_empty() && graph.input_name(input) == "n" => HostTensor::scalar(step as i64 + 1),
                None => whole[input].clone(),
            })
            .collect();
        let expected = evaluate(graph, &so_far).unwrap();
        let arguments = [states.clone(), rows, shared.clone()].concat();
        let mut results = evaluate(&stepped.step, &arguments).unwrap();
        let outputs = results.split_off(stepped.states);
        states = results;
        for (number, (found, expected)) in outputs.iter().zip(&expected).enumerate() {
            let dims = graph.output_type(number).shape.dims();
            let axis = dims.iter().position(|dim| {
                dim.symbols().iter().any(|symbol| symbol.name() == "T" || symbol.name().starts_with('$'))
            });
            let newest = match axis {
                Some(axis) => {
                    let rows = expected.shape()[axis];
                    without_axis(&part(expected, axis, rows - 1, rows), axis)
                }
                None => expected.clone(),
            };
            assert_eq!(*found, newest, "output {number} of step {step}\n{}", stepped.step);
        }
    }
    stepped
}
