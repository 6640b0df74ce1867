//! Tests long loops in a thread with a small stack. Candle recurses through all nodes of a graph in the backward pass
//! and when it drops the graph, so each loop must be a single node.

mod common;

use candle_core::{DType, Result, Tensor, Var};
use candle_nn::{Optimizer, SGD};
use common::{tensor, var};
use funcify::Graph;
use funcify_candle::{Candle, Differentiable, scan, while_loop};

const STEPS: usize = 100_000;

/// Trains the loop `run` by gradient descent in a thread with a 2 MB stack, and checks that the loss decreases.
fn train(run: impl Fn(&Tensor, &Var) -> Result<Tensor> + Send + 'static) {
    let trained = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        let w = var(1, &[2], DType::F32);
        // The sequence is a variable, because Candle's own loop is slowest if its input has a gradient.
        let xs = var(2, &[STEPS, 2], DType::F32);
        let target = tensor(3, &[2], DType::F32);
        let mut optimiser = SGD::new(vec![w.clone(), xs.clone()], 0.1)?;
        let mut losses = Vec::new();
        for _ in 0..3 {
            let loss = candle_nn::loss::mse(&run(&xs, &w)?, &target)?;
            optimiser.backward_step(&loss)?;
            losses.push(loss.to_scalar::<f32>()?);
        }
        Ok::<_, candle_core::Error>(losses)
    });
    let losses = trained.unwrap().join().unwrap().unwrap();
    assert!(losses[2] < losses[0], "{losses:?}");
}

#[test]
fn a_closure() {
    train(|xs, w| {
        let weight = w.clone();
        let step = move |h: Tensor, x: Tensor| {
            let h = ((h * weight.as_tensor())? + x)?.tanh()?;
            Ok((h.clone(), h))
        };
        let start = tensor(4, &[2], DType::F32);
        let (last, ys) = scan(&start, xs, step)?;
        last + ys.mean(0)?
    });
}

#[test]
fn a_compiled_graph() {
    let graph = Graph::build("rnn", |g| {
        let (start, xs, w) = (g.input("start", "f32[N]"), g.input("xs", "f32[T,N]"), g.input("w", "f32[N]"));
        let (last, ys) = funcify::scan(start, xs, |h, x| {
            let h = (h * w + x).tanh();
            (h, h)
        });
        last + ys.mean(0)
    });
    let function = Differentiable::compile(&graph.unwrap(), &Candle::cpu()).unwrap();
    train(move |xs, w| {
        let start = tensor(4, &[2], DType::F32);
        Ok(function.call(&[start, xs.clone(), w.as_tensor().clone()])?.remove(0))
    });
}

#[test]
fn a_while_loop() {
    train(|xs, w| {
        let weight = w.clone();
        let start = (xs.narrow(0, 0, 1)?.squeeze(0)?, Tensor::zeros((), DType::U32, xs.device())?);
        let more = |(_, count): &(Tensor, Tensor)| Ok(count.to_scalar::<u32>()? < STEPS as u32);
        let body = move |(h, count): (Tensor, Tensor)| Ok((((h * weight.as_tensor())? + 0.1)?.tanh()?, (count + 1.0)?));
        Ok(while_loop(&start, more, body)?.0)
    });
}
