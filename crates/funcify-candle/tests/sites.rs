//! Tests that every kind of error of this crate names the line of the user's call, and that inputs without a gradient
//! are not errors.

mod common;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{VarBuilder, VarMap};
use common::{tensor, var};
use funcify::dispatch::Function;
use funcify::nn::Cell;
use funcify::{Graph, scan};
use funcify_candle::{Candle, Differentiable, ScanOptions};

/// Asserts that the text of an error names a line of this file after `at:`.
#[track_caller]
fn assert_here<T>(result: Result<T>, part: &str) {
    let Err(error) = result else { panic!("no error: {part}") };
    let text = error.to_string();
    let at = text.lines().find(|line| line.trim_start().starts_with("at:")).unwrap_or_else(|| panic!("{text}"));
    assert!(text.contains(part) && at.contains("tests/sites.rs"), "{part}: {text}");
}

#[test]
fn calls_are_errors_of_the_callers_line() {
    let graph = Graph::build("f", |g| g.input("x", "f32[N,N]").matmul(g.input("y", "f32[N,N]"))).unwrap();
    let f = Differentiable::compile(&graph, &Candle::cpu()).unwrap();
    let plain = Function::compile(&graph, &Candle::cpu()).unwrap();
    let tracked = Var::zeros((3, 3), DType::F32, &Device::Cpu).unwrap();
    for x in [tracked.as_tensor().clone(), tracked.as_tensor().detach()] {
        let zeros = |sizes, dtype| Tensor::zeros(sizes, dtype, &Device::Cpu).unwrap();
        let mistakes = [
            vec![x.clone()],
            vec![x.clone(), zeros((4, 4), DType::F32)],
            vec![x.clone(), zeros((3, 3), DType::F64)],
            vec![x.clone(), zeros((3, 3), DType::U32)],
            vec![],
        ];
        for arguments in mistakes {
            assert_here(f.call(&arguments), "f: ");
            // A plain function that is called with tracked tensors also becomes a single node of Candle's graph.
            let error = plain.call(&arguments).unwrap_err().to_string();
            assert!(error.contains("tests/sites.rs"), "{error}");
        }
    }
}

#[test]
fn layers_and_closures_are_errors_of_the_callers_line() {
    let map = VarMap::new();
    let vb = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
    let recurrent = funcify::nn::Recurrent::new(Cell::Lstm, 3, 4);
    let layer = funcify_candle::nn::Layer::new(&recurrent.layer().unwrap(), vb).unwrap();
    let xs = tensor(1, &[2, 5, 7], DType::F32);
    assert_here(layer.seq(&xs), "f32[2,5,7]");
    assert_here(layer.seq_init(&xs, &[]), "the states");
    let (start, rows) = (tensor(1, &[2], DType::F32), tensor(2, &[4, 2], DType::F32));
    let wider = |h: Tensor, _: Tensor| Ok((h.to_dtype(DType::F64)?, ()));
    assert_here(funcify_candle::scan(&start, &rows, wider), "next carry");
    assert_here(funcify_candle::scan_with(ScanOptions::new().length(9), &start, &rows, wider), "9 steps");
    assert_here(funcify_candle::cond(&rows, &rows, Ok, Ok::<Tensor, _>), "the predicate");
    assert_here(funcify_candle::while_loop(&start, |_| Ok(true), |h: Tensor| h.to_dtype(DType::F64)), "next carry");
}

#[test]
fn an_input_that_leads_to_no_result_has_no_gradient() {
    let graph = Graph::build("gates", |g| {
        let [xs, w] = [g.input("xs", "f32[T,1]"), g.input("w", "f32[1]")];
        scan(w * 0.0, xs.gt(1.5), |c, x| (c * 0.5 + w * x.cast(funcify::DType::F32), ())).0
    });
    let f = Differentiable::compile(&graph.unwrap(), &Candle::cpu()).unwrap();
    let xs = Var::new(&[[1f32], [2.0], [3.0]], &Device::Cpu).unwrap();
    let w = Var::new(&[0.5f32], &Device::Cpu).unwrap();
    let last = &f.call(&[xs.as_tensor().clone(), w.as_tensor().clone()]).unwrap()[0];
    let gradients = last.backward().unwrap();
    assert_eq!(gradients.get(&w).unwrap().to_vec1::<f32>().unwrap(), [1.5]);
    assert!(gradients.get(&xs).is_none());
    assert_eq!(f.report().len(), 2);
    // Only `xs` is tracked here. As in Candle, the result is not tracked, because no differentiable path leads from
    // `xs` to the result.
    assert!(!f.call(&[xs.as_tensor().clone(), w.as_tensor().detach()]).unwrap()[0].track_op());
    assert_eq!(f.report().len(), 1);
    let _ = var(1, &[1], DType::F32);
}
