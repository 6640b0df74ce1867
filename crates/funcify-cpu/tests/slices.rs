//! Programs on slices of the caller: the numbers of the same programs on tensors, and errors that name what does not fit.

mod numbers;

use funcify::{Error, Graph, HostTensor, Value, scan, scan_until};
use funcify_cpu::OnSlices;
use numbers::numbers;

/// Smoothed sequences, and how many rows of them are above a limit.
fn smoothing() -> Graph {
    let graph = Graph::build("smoothing", |g| {
        let [start, xs] = [g.input("start", "f32[3]"), g.input("xs", "f32[T,3]")];
        let step = |y: Value, x: Value| {
            let next = y * 0.75 + x * 0.25;
            (next, next)
        };
        let (_, ys) = scan(start, xs, step);
        (ys, ys.gt(0.5).cast(funcify::DType::F32).sum(0))
    });
    graph.unwrap()
}

#[test]
fn results_are_those_on_tensors() {
    let graph = smoothing();
    let program = OnSlices::compile(&graph, &[&[3], &[50, 3]]).unwrap();
    let names: Vec<&str> = program.inputs().map(|(name, _)| name).collect();
    assert_eq!(names, ["start", "xs"]);
    assert_eq!(program.outputs().map(|(_, ty)| ty.to_string()).collect::<Vec<_>>(), ["f32[50,3]", "f32[3]"]);
    for seed in 0..3 {
        let inputs = [numbers(&[3], seed), numbers(&[50, 3], seed + 10)];
        let expected = funcify::evaluate(&graph, &inputs).unwrap();
        let (mut ys, mut above) = ([f32::NAN; 150], [f32::NAN; 3]);
        let slices = inputs.each_ref().map(|tensor: &HostTensor| tensor.as_slice::<f32>().unwrap());
        program.call(&slices, &mut [&mut ys, &mut above]).unwrap();
        for (found, expected) in ys.iter().chain(&above).zip(expected.iter().flat_map(HostTensor::to_f64_vec)) {
            assert!((f64::from(*found) - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{found} and {expected}");
        }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let program = OnSlices::compile(&smoothing(), &[&[3], &[2, 3]]).unwrap();
    let (mut ys, mut above) = ([0.0f32; 6], [0.0f32; 3]);
    let start = [1.0f32; 3];
    let short = program.call(&[&start, &[1.0; 5]], &mut [&mut ys, &mut above]).unwrap_err().to_string();
    assert!(short.contains("argument `xs`") && short.contains("f32[2,3], 6 elements"), "{short}");
    assert!(short.contains("5 elements") && short.contains("slices.rs"), "{short}");
    let long = program.call(&[&start, &[1.0; 6]], &mut [&mut above, &mut ys]).unwrap_err().to_string();
    assert!(long.contains("result `") && long.contains("3 elements"), "{long}");
    let few = program.call(&[&start, &[1.0; 6]], &mut [&mut ys]).unwrap_err().to_string();
    assert!(few.contains("the number of results"), "{few}");
    let wide = program.call::<f64>(&[&[1.0; 3], &[1.0; 6]], &mut []).unwrap_err().to_string();
    assert!(wide.contains("f32") && wide.contains("f64"), "{wide}");
}

#[test]
fn what_is_not_compiled_is_an_error() {
    let graph = Graph::build("half", |g| g.input("x", "f16[3]").exp()).unwrap();
    let error = OnSlices::compile(&graph, &[&[3]]).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("f16"), "{error}");
    // A number of rows that only the values give: no buffer of the caller has that size.
    let until = Graph::build("until", |g| {
        let (start, xs) = (g.input("start", "f32[]"), g.input("xs", "f32[T]"));
        scan_until(start, xs, |sum: Value, x: Value| (sum + x, sum, x.lt(0.0))).1
    });
    assert!(OnSlices::compile(&until.unwrap(), &[&[], &[5]]).is_err());
    let shapes = OnSlices::compile(&smoothing(), &[&[3]]).unwrap_err().to_string();
    assert!(shapes.contains("2 arguments"), "{shapes}");
}
