//! Tests that a body is rejected if it reads elements of its tensors, because the recorded graph must be valid for all
//! values of the elements. The rejection must not depend on the values that the body reads, or on the function that
//! reads them.

use std::cell::Cell;
use std::panic::Location;

use burn::nn::LinearConfig;
use burn::tensor::{Bool, Device, Int, Tensor};
use funcify_burn::{Scan, scan, trace};

/// The arguments of a body: a weight, a carry, and rows of floats, integers and booleans.
struct Given {
    w: Tensor<1>,
    h: Tensor<1>,
    x: Tensor<1>,
    n: Tensor<1, Int>,
    p: Tensor<1, Bool>,
}

/// Asserts that a body is rejected because it reads elements, and that the error names the line that reads them.
#[track_caller]
fn refused(name: &str, line: u32, body: impl Fn(Given) -> Tensor<1>) {
    for reads in [Device::flex(), Device::flex().autodiff()] {
        let one = |number: f32| Tensor::<1>::from_data([number], &reads);
        let xs = Tensor::<2>::from_data([[1.0], [20.0], [3.0]], &reads);
        let ns = Tensor::<2, Int>::from_data([[3], [1], [2]], &reads);
        let ps = Tensor::<2, Bool>::from_data([[true], [false], [true]], &reads);
        let result = scan(one(2.0), one(0.0), (xs, ns, ps), |w, h, (x, n, p)| (body(Given { w, h, x, n, p }), ()));
        let error = result.map(|_| ()).expect_err(name);
        assert_eq!(error.kind(), "Unsupported", "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains("reads elements of its tensors"), "{name}: {text}");
        let place = text.split("but reads some, at ").nth(1).expect("the error names the line that reads");
        let parts: Vec<&str> = place.split(':').collect();
        assert!(parts[0].ends_with("tests/reading.rs"), "{name}: {text}");
        let found: u32 = parts[1].parse().unwrap();
        assert!((line..line + 8).contains(&found), "{name}: {text}");
        assert!(text.contains(&format!("at:       {}", file!())), "{name}: {text}");
    }
}

macro_rules! refused {
    ($name:literal, |$given:ident| $read:expr) => {
        refused($name, line!(), |$given| $read)
    };
}

#[test]
fn every_way_to_read() {
    refused!("a branch", |g| if g.x.clone().into_scalar::<f32>() > 10.0 { g.h + g.x * 100.0 } else { g.h + g.x });
    refused!("a count", |g| (0..g.n.into_scalar::<i64>().max(1)).fold(g.h, |h, _| h + g.x.clone()));
    refused!("a weight", |g| if g.w.into_scalar::<f32>() > 1.0 { g.h } else { g.x });
    refused!("a carry", |g| if g.h.clone().into_scalar::<f32>() > 1.0 { g.h } else { g.x });
    refused!("a boolean", |g| if g.p.into_scalar::<bool>() { g.h } else { g.x });
    refused!("any", |g| if g.p.any().into_scalar::<bool>() { g.h } else { g.x });
    refused!("all of a comparison", |g| if g.x.clone().greater_scalar(2.0).all().into_scalar::<bool>() {
        g.h
    } else {
        g.x
    });
    refused!("into_data", |g| if g.x.clone().into_data().iter::<f32>().any(|x| x > 0.0) { g.h } else { g.x });
    refused!("to_data", |g| g.h + g.x.to_data().iter::<f32>().sum::<f32>());
    refused!("try_into_data", |g| g.h + g.x.try_into_data().unwrap().iter::<f32>().sum::<f32>());
    refused!("try_into_scalar", |g| g.h + g.x.try_into_scalar::<f32>().unwrap());
    refused!("async", |g| g.h + burn::tensor::try_read_sync(g.x.into_scalar_async::<f32>()).unwrap().unwrap());
    refused!("an assertion", |g| {
        g.x.to_data().assert_eq(&g.w.to_data(), false);
        g.h
    });
    refused!("what it computes", |g| {
        let sum = (g.h.clone() + g.x).sum().into_scalar::<f32>();
        g.h * sum
    });
}

/// Checks bodies that ignore the error of a failed read. Such a body is rejected only if it records different ops when
/// the read succeeds.
#[test]
fn an_error_that_is_ignored() {
    let device = Device::flex();
    let xs = || Tensor::<2>::from_data([[1.0], [20.0], [3.0]], &device);
    let zero = || Tensor::<1>::from_data([0.0], &device);
    let result = scan((), zero(), xs(), |(), h, x| {
        let is_large = x.clone().try_into_scalar::<f32>().is_ok_and(|x| x < 10.0);
        (if is_large { h - x } else { h + x }, ())
    });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("when it was called again, it recorded"), "{error}");
    assert!(error.contains("`Add`, then a `Sub`"), "{error}");
    let (sum, ()) = scan((), zero(), xs(), |(), h, x| {
        let _shown = format!("{x}");
        (h + x, ())
    })
    .unwrap();
    assert_eq!(sum.into_scalar::<f32>(), 24.0);
}

#[test]
fn numbers_that_a_body_draws() {
    let device = Device::flex();
    let calls = Cell::new(0);
    let result = scan((), Tensor::<1>::ones([1], &device), Tensor::<2>::ones([2, 1], &device), |(), h, x| {
        calls.set(calls.get() + 1);
        (h + x * calls.get() as f32, ())
    });
    let error = result.unwrap_err();
    assert_eq!(error.kind(), "Unsupported");
    assert!(error.to_string().contains("`MulScalar` with a different attribute"), "{error}");
    let result = scan((), Tensor::<1>::ones([1], &device), Tensor::<2>::ones([2, 1], &device), |(), h, x| {
        calls.set(calls.get() + 1);
        (h + x.clone() * Tensor::from_data([calls.get()], &x.device()), ())
    });
    assert!(result.unwrap_err().to_string().contains("a constant with different elements"));
}

/// Checks bodies whose second call records the same ops but returns the result of a different op, and bodies whose
/// second call records an additional op.
#[test]
fn results_and_ops_that_another_call_has() {
    let device = Device::flex();
    let run = |body: &dyn Fn(bool, Tensor<1>, Tensor<1>) -> Tensor<1>| {
        let calls = Cell::new(0);
        let result = scan((), Tensor::<1>::ones([1], &device), Tensor::<2>::ones([2, 1], &device), |(), h, x| {
            calls.set(calls.get() + 1);
            (body(calls.get() % 2 == 1, h, x), ())
        });
        result.unwrap_err().to_string()
    };
    let error = run(&|is_first, h, x| {
        let (sum, difference) = (h.clone() + x.clone(), h - x);
        if is_first { sum } else { difference }
    });
    assert!(error.contains("it recorded different results"), "{error}");
    let error = run(&|is_first, h, x| if is_first { h + x } else { (h + x).tanh() });
    assert!(error.contains("it recorded 1 ops, then 2"), "{error}");
}

#[test]
fn constants_of_a_body_may_be_read() {
    let device = Device::flex();
    let (last, ()) = scan((), Tensor::<1>::ones([2], &device), Tensor::<2>::ones([2, 2], &device), |(), h, x| {
        let table = Tensor::<1>::from_data([0.5, 2.0], &x.device());
        let scale: f32 = table.clone().into_data().iter::<f32>().sum();
        (h * table + x * scale, ())
    })
    .unwrap();
    assert_eq!(last.into_data().iter::<f32>().collect::<Vec<_>>(), [4.0, 11.5]);
    // Check that the same source line can record different constants.
    let sum = |factor: f32| {
        let body = |(), h: Tensor<1>, x: Tensor<1>| (h + x.clone() * Tensor::from_data([factor], &x.device()), ());
        scan((), Tensor::<1>::ones([1], &device), Tensor::<2>::ones([2, 1], &device), body)
            .unwrap()
            .0
            .into_scalar::<f32>()
    };
    assert_eq!([2.0, 3.0, 2.0].map(sum), [5.0, 7.0, 5.0]);
}

#[test]
fn a_trace_reads_nothing_either() {
    let x = Tensor::<1>::ones([2], &Device::flex());
    let line = Location::caller().line();
    let error = trace((), (x,), |(), (x,): (Tensor<1>,)| x.clone() * x.sum().into_scalar::<f32>()).unwrap_err();
    assert!(error.to_string().contains("reads elements of its tensors"), "{error} (after line {line})");
    let x = Tensor::<1>::ones([2], &Device::flex());
    let unused = trace((), (x.clone(), x), |(), (x, _): (Tensor<1>, Tensor<1>)| x).unwrap();
    assert_eq!(unused.graph().outputs().len(), 1);
}

/// Checks that the error for a body that captures a tensor or a module says how to pass it instead.
#[test]
fn captured_weights() {
    let device = Device::flex();
    let (w, linear) = (Tensor::<2>::ones([1, 1], &device), LinearConfig::new(1, 1).init(&device));
    let zero = || Tensor::<2>::zeros([1, 1], &device);
    let bodies: [&dyn Fn(Tensor<2>) -> Tensor<2>; 4] =
        [&|h| h + w.clone(), &|h| h.matmul(w.clone()), &|h| linear.forward(h), &|h| Tensor::cat(vec![w.clone(), h], 0)];
    for (number, body) in bodies.into_iter().enumerate() {
        let result = Scan::new().length(2).run((), zero(), (), |(), h, ()| (body(h), ()));
        let error = result.unwrap_err().to_string();
        assert!(error.contains("as the first argument") && error.contains("tests/reading.rs"), "{number}: {error}");
    }
}

/// Checks that a panic in a body becomes an error with the panic's message and source file, and that a later panic
/// outside a body still unwinds.
#[test]
fn other_panics() {
    let device = Device::flex();
    let run = |panics: bool| {
        Scan::new().length(2).run((), Tensor::<1>::ones([1], &device), (), move |(), h, ()| {
            assert!(!panics, "on purpose");
            (h, ())
        })
    };
    let error = run(true).unwrap_err().to_string();
    assert!(error.contains("on purpose") && error.contains("tests/reading.rs"), "{error}");
    assert!(std::panic::catch_unwind(|| panic!("outside")).is_err());
    assert!(run(false).is_ok());
}
