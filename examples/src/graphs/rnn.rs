//! A recurrent network: a scan that is traced once and runs on sequences of any length.

use super::{check_agreement, compile, noise};
use anyhow::{Result, ensure};
use funcify::dispatch::Executor;
use funcify::prelude::*;

/// Runs the network on sequences of two lengths. Compares the results with plain Rust loops.
pub(crate) fn show(backend: &dyn Executor) -> Result<()> {
    let rnn = Graph::build("rnn", |g| {
        let [xs, h0] = [g.input("xs", "f32[T,B,3]"), g.input("h0", "f32[B,4]")];
        let [w, u] = [g.input("w", "f32[3,4]"), g.input("u", "f32[4,4]")];
        scan(h0, xs, |h, x| {
            let h = (x.matmul(w) + h.matmul(u)).tanh();
            (h, h)
        })
    })?;
    println!("{rnn}");

    let function = compile(backend, &rnn)?;
    let [w, u, h0] = [noise(&[3, 4], 0.5, 1), noise(&[4, 4], 0.5, 2), noise(&[2, 4], 1.0, 3)];
    for steps in [5, 200] {
        let xs = noise(&[steps, 2, 3], 1.0, 4);
        let results = function.call(&[xs.clone(), h0.clone(), w.clone(), u.clone()])?;
        let difference = check_agreement(&results[1], &by_hand(&xs, &h0, &w, &u), 1e-5)?;
        println!("{steps:>3} steps: the trace is {}, off a loop over numbers by {difference:.1e}", results[1].ty());
    }
    let compiled = function.counts().made;
    println!("on {} the loop was compiled {compiled} times for 2 lengths", backend.name());
    ensure!((1..=2).contains(&compiled), "each length should be compiled once");
    Ok(())
}

/// Computes the hidden states of all steps with plain Rust loops.
fn by_hand(xs: &HostTensor, h0: &HostTensor, w: &HostTensor, u: &HostTensor) -> HostTensor {
    let (steps, batch, inputs, width) = (xs.shape()[0], h0.shape()[0], w.shape()[0], u.shape()[0]);
    let number = |tensor: &HostTensor, index: &[usize]| tensor.at(index).as_f64();
    let mut rows: Vec<Vec<f64>> = vec![h0.to_f64_vec()];
    for t in 0..steps {
        let before = &rows[t];
        let unit = |(lane, column): (usize, usize)| {
            let from_x = (0..inputs).map(|k| number(xs, &[t, lane, k]) * number(w, &[k, column]));
            let from_h = (0..width).map(|k| before[lane * width + k] * number(u, &[k, column]));
            (from_x.sum::<f64>() + from_h.sum::<f64>()).tanh()
        };
        let next = (0..batch).flat_map(|lane| (0..width).map(move |column| (lane, column))).map(unit).collect();
        rows.push(next);
    }
    HostTensor::from_fn(DType::F32, &[steps, batch, width], |index| {
        Scalar::Float(rows[index[0] + 1][index[1] * width + index[2]])
    })
}
