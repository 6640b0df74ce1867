//! Tests that programs on slices compute the same numbers as programs on tensors, and that their errors name the
//! invalid slice.

mod numbers;

use funcify::{DType, Error, Graph, HostTensor, Value, map, scan, scan_until};
use funcify_cpu::OnSlices;
use numbers::{built, numbers, traced};

/// Builds a program that smooths sequences, and counts the elements of each sequence that exceed a limit.
fn smoothing() -> Graph {
    built("smoothing", |g| {
        let [start, xs] = [g.input("start", "f32[3]"), g.input("xs", "f32[T,3]")];
        let step = |y: Value, x: Value| traced(y * 0.75 + x * 0.25);
        let (_, ys) = scan(start, xs, step);
        (ys, ys.gt(0.5).cast(funcify::DType::F32).sum(0))
    })
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
    let graph = built("half", |g| g.input("x", "f16[3]").exp());
    let error = OnSlices::compile(&graph, &[&[3]]).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("f16"), "{error}");
    // The number of rows is known only at run time, so the caller cannot allocate a buffer of the right size.
    let until = built("until", |g| {
        let (start, xs) = (g.input("start", "f32[]"), g.input("xs", "f32[T]"));
        scan_until(start, xs, |sum: Value, x: Value| (sum + x, sum, x.lt(0.0))).1
    });
    assert!(OnSlices::compile(&until, &[&[], &[5]]).is_err());
    let shapes = OnSlices::compile(&smoothing(), &[&[3]]).unwrap_err().to_string();
    assert!(shapes.contains("2 arguments"), "{shapes}");
    let shapes = OnSlices::compile(&smoothing(), &[&[3], &[2, 3], &[17]]).unwrap_err().to_string();
    assert!(shapes.contains("2 arguments") && shapes.contains("3 shapes") && shapes.contains("slices.rs"), "{shapes}");
    let huge = OnSlices::compile(&smoothing(), &[&[3], &[usize::MAX / 2, 3]]);
    assert!(huge.is_err(), "{huge:?}");
}

/// Integers and booleans are passed as floats, but not every float is a valid integer or boolean.
#[test]
fn elements_that_a_type_does_not_have_are_named() {
    let graph = built("integers", |g| {
        let [n, p, x] = [g.input("n", "u8[4]"), g.input("p", "bool[4]"), g.input("x", "f32[4]")];
        map((n, p, x), |(n, p, x)| (n.cast(DType::F32) * x, n / 2, n % 7, p ^ true, p & true))
    });
    let program = OnSlices::compile(&graph, &[&[4], &[4], &[4]]).unwrap();
    let call = |n: [f32; 4], p: [f32; 4], x: [f32; 4]| {
        let mut results = [[f32::NAN; 4]; 5];
        let [a, b, c, d, e] = &mut results;
        program.call(&[&n, &p, &x], &mut [a, b, c, d, e]).map(|()| results)
    };
    let (n, p, x) = ([0.0, 1.0, 13.0, 255.0], [0.0, 1.0, 1.0, 0.0], [1.0, -0.0, 0.5, f32::NAN]);
    let [_, halves, rests, flipped, kept] = call(n, p, x).unwrap();
    assert_eq!((halves, rests), ([0.0, 0.0, 6.0, 127.0], [0.0, 1.0, 6.0, 3.0]));
    assert_eq!((flipped, kept), ([1.0, 0.0, 0.0, 1.0], p));
    for wrong in [300.5, 256.0, 0.5, -1.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = call([0.0, 1.0, wrong, wrong], p, x).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), "Type", "{text}");
        let says = ["element 2 of argument `n`", "u8[4]", "0 to 255", &format!("{:?}", f64::from(wrong)), "slices.rs"];
        says.iter().for_each(|part| assert!(text.contains(part), "{text}\ndoes not say: {part}"));
    }
    for wrong in [2.0, 0.5, -1.0, -0.0, f32::NAN] {
        let text = call(n, [wrong, 0.0, 0.0, 0.0], x).unwrap_err().to_string();
        assert!(text.contains("element 0 of argument `p`") && text.contains("0 or 1"), "{text}");
    }
}

/// Passes a result of a program back to the program as an argument. The product of 0 and a negative integer must be 0,
/// not -0.
#[test]
fn integers_that_are_given_may_be_passed_on() {
    let graph = built("products", |g| {
        let [n, m, x] = [g.input("n", "i32[3]"), g.input("m", "i32[3]"), g.input("x", "f64[3]")];
        map((n, m, x), |(n, m, x)| ((n % 5) * (m % 5), 1.0 / ((n % 5) * (m % 5)).cast(DType::F64) + x * 0.0))
    });
    let program = OnSlices::compile(&graph, &[&[3], &[3], &[3]]).unwrap();
    let (mut products, mut quotients) = ([f64::NAN; 3], [f64::NAN; 3]);
    program.call(&[&[0.0, -2.0, 3.0], &[-3.0, 0.0, -4.0], &[1.0; 3]], &mut [&mut products, &mut quotients]).unwrap();
    assert_eq!(products.map(f64::to_bits), [0.0f64, 0.0, -12.0].map(f64::to_bits));
    assert_eq!(quotients, [f64::INFINITY, f64::INFINITY, -1.0 / 12.0]);
    let given = products;
    program.call(&[&given, &[1.0; 3], &[1.0; 3]], &mut [&mut products, &mut quotients]).unwrap();
    assert_eq!(products[..2], [0.0, 0.0]);
}
